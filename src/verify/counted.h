/* Traffic and memory of a finished step, beside what program and ledger say. */
#ifndef FF_VERIFY_COUNTED_H
#define FF_VERIFY_COUNTED_H

#include "engine/loop.h"

typedef struct ff_counted {
    ff_traffic *row; /* sums over all ranks */
    int rows, room;
} ff_counted;

/* All ranks' traffic of the last step, and the program's. Freed with ff_counted_free. */
void ff_count_traffic(const ff_loop *loop, ff_counted *counted);
void ff_counted_free(ff_counted *counted);
bool ff_traffic_equal(const ff_traffic *row);

/* What the ledger plans for a rank, by category, in bytes of the engine's numbers. */
typedef struct ff_planned_memory {
    int64_t bytes[FF_STORE_KINDS]; /* -1: the ledger says nothing of it */
    int64_t activations_bytes;     /* kept, loss and working at once: an upper bound */
} ff_planned_memory;
void ff_plan_memory(const ff_loop *loop, const ff_rank *rank, ff_planned_memory *planned);
/* Whether a category has to be equal (working memory is only shown), and up to how many bytes: the
 * ledger rounds a shard up once, ranks hold shards of every block. */
bool ff_store_kind_compared(ff_store_kind kind);
int64_t ff_memory_slack(const ff_rank *rank);

/* Whether a rank did what the program says, in its order. */
bool ff_order_equal(const ff_loop *loop, const ff_rank *rank);

#endif
