/* Causal attention of one microbatch: softmax(Q K^T) V by head, in the order of the text.
 *
 *     rows of q    [heads of this rank][dim]                 stride heads*dim
 *     rows of kv   [k of kv heads][v of kv heads]            stride 2*kv_heads*dim
 *
 * Heads are taken out row by row (sequences are folded, order.h), so keys stand in order. Queries go
 * in blocks; a query's sum over keys is a chain from key 0, whatever the block. Only the log-sum-exp
 * of a row is kept; backward makes the probabilities again. */
#ifndef FF_ENGINE_ATTENTION_H
#define FF_ENGINE_ATTENTION_H

#include "engine/gemm.h"
#include "engine/rows.h"
#include "engine/store.h"

typedef struct ff_attend {
    int64_t seq, sequences, heads, kv_heads, dim;
    const int32_t *rows; /* row of position 0..seq-1 in a folded sequence */
    const ff_rows *kernels;
    ff_gemm_space *gemm;
    ff_store *store;
} ff_attend;

/* log_sum_exp: [sequence][head][position]. */
void ff_attend_forward(const ff_attend *a, const real *q, const real *kv, real *out,
                       real *log_sum_exp);
/* dqkv rows: [q heads][k heads][v heads]. */
void ff_attend_backward(const ff_attend *a, const real *q, const real *kv, const real *out,
                        const real *log_sum_exp, const real *dout, real *dqkv);

#endif
