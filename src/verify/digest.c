/* See digest.h. */
#include "verify/digest.h"

#include "engine/random.h"
#include <string.h>

static uint64_t hash_weights(const ff_rank *rank) {
    uint64_t hash = 0;
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++) {
        const ff_chunk *chunk = &rank->chunk[c];
        const real *numbers = rank->zero == 3 ? chunk->shard : chunk->weights;
        int64_t count = rank->zero == 3 ? chunk->shard_elements : chunk->elements;
        for (int64_t i = 0; i < count; i++) {
            uint64_t bits = 0;
            memcpy(&bits, &numbers[i], sizeof numbers[i]);
            hash = ff_mix(hash ^ bits);
        }
    }
    return hash;
}

void ff_digest_rank(const ff_rank *rank, ff_digest *digest) {
    *digest = (ff_digest){.weights = hash_weights(rank), .order = rank->order};
    for (int i = 0; i < rank->traffics; i++) {
        digest->calls += rank->traffic[i].calls;
        digest->sent_bytes += rank->traffic[i].bytes;
    }
    for (int kind = 0; kind < FF_STORE_KINDS; kind++)
        digest->peak_bytes += rank->store.peak_bytes[kind];
}

const char *ff_digest_differs(const ff_digest *a, const ff_digest *b) {
    return a->weights != b->weights                                 ? "weights"
           : a->order != b->order                                   ? "order"
           : a->calls != b->calls || a->sent_bytes != b->sent_bytes ? "traffic"
           : a->peak_bytes != b->peak_bytes                         ? "peak memory"
                                                                    : NULL;
}
