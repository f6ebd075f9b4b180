/* Memory of one rank, by category: what is asked for now, and the most that ever was.
 *
 *     take -> [kind, elements, name | the numbers ....] -> give: filled with NaN, kept for reuse
 *
 * Bytes are those asked for, without headers and rounding, so that they can be held against the
 * ledger. Given-back memory is poisoned (when `poison` is on): a tensor that is used after its last
 * use turns the loss into NaN instead of going unnoticed. */
#ifndef FF_ENGINE_STORE_H
#define FF_ENGINE_STORE_H

#include "engine/real.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum ff_store_kind {
    FF_STORE_WEIGHTS,
    FF_STORE_GRADIENTS,
    FF_STORE_OPTIMIZER,
    FF_STORE_KEPT,          /* waits for backward */
    FF_STORE_LOSS,          /* the head's kept tensors */
    FF_STORE_GATHERED,      /* weights of ZeRO-3's units */
    FF_STORE_BUCKETS,       /* gradients on their way out (ZeRO-2, ZeRO-3) */
    FF_STORE_TRANSFERS,     /* pipeline messages */
    FF_STORE_WORKING,       /* while an operator or a layer runs */
    FF_STORE_COMMUNICATION, /* what collectives receive into */
    FF_STORE_SCRATCH,       /* of a kernel, while it runs */
    FF_STORE_KINDS
} ff_store_kind;
const char *ff_store_kind_name(ff_store_kind kind);

typedef struct ff_block ff_block;
typedef struct ff_store {
    int64_t now_bytes[FF_STORE_KINDS], peak_bytes[FF_STORE_KINDS];
    int64_t peak_activations_bytes; /* kept, loss and working at once */
    bool poison;
    ff_block *live, *spare;
} ff_store;

/* Not initialised. `name` is a literal. */
real *ff_store_take(ff_store *store, ff_store_kind kind, int64_t elements, const char *name);
void ff_store_give(ff_store *store, real *numbers); /* NULL is allowed */
/* The tensor stays where it is and counts as another kind from now on. */
void ff_store_move(ff_store *store, real *numbers, ff_store_kind kind);
int64_t ff_store_elements(const real *numbers);
/* The name of a live tensor that a finished step must not leave behind (kept, loss, working), or
 * NULL. */
const char *ff_store_leak(const ff_store *store);
void ff_store_free(ff_store *store);

/* Book-keeping that is no tensor: zeroed, freed with free(); a process out of memory ends. */
void *ff_engine_array(int64_t count, size_t bytes);
void *ff_engine_grow(void *array, int64_t count, size_t bytes);

#endif
