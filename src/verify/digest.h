/* What a rank ended with, in a few numbers: two runs of the same ranks are held against each other by
 * them where one run's memory cannot be looked into (other processes). */
#ifndef FF_VERIFY_DIGEST_H
#define FF_VERIFY_DIGEST_H

#include "engine/rank.h"

typedef struct ff_digest {
    uint64_t weights, order; /* of the rank's own numbers; of what it did (listing.h) */
    int64_t calls, sent_bytes, peak_bytes;
} ff_digest;

void ff_digest_rank(const ff_rank *rank, ff_digest *digest);
/* NULL when they are the same, else what differs. */
const char *ff_digest_differs(const ff_digest *a, const ff_digest *b);

#endif
