/* Two runs held against each other, tensor by tensor: weights, gradients, losses.
 *
 * Ranks hold parts: what data-parallel ranks hold as shards is put together, then each element of
 * each part is looked up in the other run by its place in the whole tensor. */
#ifndef FF_VERIFY_COMPARE_H
#define FF_VERIFY_COMPARE_H

#include "engine/loop.h"

typedef struct ff_difference {
    int64_t elements, unequal; /* compared; with other bits */
    double largest;            /* difference over the largest number of all */
    char where[96];            /* of the largest */
} ff_difference;

typedef enum ff_compared { FF_COMPARE_WEIGHTS, FF_COMPARE_GRADIENTS } ff_compared;

/* Every rank of `set` against the one rank of `single`. */
void ff_compare_runs(const ff_loop *set, const ff_loop *single, ff_compared what,
                     ff_difference *difference);

/* All numbers of a rank's chunk, shards put together; freed by the caller. */
real *ff_assemble_chunk(const ff_loop *set, const ff_rank *rank, int64_t chunk, ff_compared what);

#endif
