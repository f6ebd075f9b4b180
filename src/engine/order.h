/* The canonical order of sums over tokens (see engine.h), and accumulation over microbatches.
 *
 *     sequence of S tokens, C = 8 chunks     0 1 2 3 4 5 6 7          in the order of the text
 *     as it lies in memory (folded)          0 7 1 6 2 5 3 4          leaves of the tree
 *                                            '-' '-' '-' '-'          rank i of cp 4 holds a pair:
 *                                                                     a zigzag slice
 *
 * A power-of-two split of the folded row is a subtree, for sequence parallelism as for context
 * parallelism. Where 8 does not divide S the whole sequence is one leaf.
 *
 * Accumulation over microbatches is a binary counter of gradient buffers: after microbatch 0..i
 * level l is full where bit l of i+1 is set, and holds the sum of 2^l microbatches. */
#ifndef FF_ENGINE_ORDER_H
#define FF_ENGINE_ORDER_H

#include "engine/rows.h"
#include "engine/store.h"

/* Chunks of a sequence: FF_CHUNKS where it divides, else 1. */
int64_t ff_token_chunks(int64_t seq);
/* Position in the text of the token at place `place` of a folded sequence. */
int64_t ff_folded_position(int64_t seq, int64_t place);
/* Leaves of `tokens` tokens, a whole share of `sequences` sequences: one leaf if they do not
 * fit. */
ff_leaves ff_token_leaves(int64_t seq, int64_t tokens);

/* Adds rows of dy to the rows of `out` that `target` says (those outside of first..first+count are
 * left out): for each, a chain inside a leaf, a tree over leaves. What `out` held comes first. */
typedef struct ff_scatter {
    const real *dy;
    const int32_t *target; /* [leaves * leaf tokens] */
    ff_leaves leaves;
    int64_t width, first, count;
} ff_scatter;
void ff_scatter_rows(const ff_rows *rows, ff_store *store, const ff_scatter *scatter, real *out);

enum { FF_MOST_LEVELS = 24 };
typedef struct ff_accumulator {
    real *work; /* the microbatch's own, then the sum */
    real *level[FF_MOST_LEVELS];
    int64_t elements;
} ff_accumulator;

/* work[begin, end) += what the levels hold that microbatch `index` completes; all of them when it
 * is the last. */
void ff_accumulate(const ff_rows *rows, ff_accumulator *sum, int64_t index, bool last,
                   int64_t begin, int64_t end);
/* After that, and not for the last: work goes to its level, and another buffer becomes work. */
void ff_accumulate_keep(ff_store *store, ff_accumulator *sum, int64_t index);

#endif
