/* Everything that is no product: norms, rope, softmax, activations, loss, update, sums.
 *
 * Rows are tokens. A row is computed alone and in one order, so results do not depend on which
 * tokens a rank holds: a sum along a row takes 16 lanes (lane j adds elements j, j+16, ...), then
 * lane 0..7 + 8..15, 0..3 + 4..7, and so on. Sums over rows (norm weights, biases) are chains over
 * the tokens of a leaf and a tree over leaves (order.h).
 * One source (rows_kernels.inc) is compiled for three instruction sets without fused multiply-add,
 * so all three give the same bits. */
#ifndef FF_ENGINE_ROWS_H
#define FF_ENGINE_ROWS_H

#include "engine/real.h"
#include <stdbool.h>

/* A norm over `width`; bias NULL: RMSNorm. */
typedef struct ff_norm {
    const real *weight, *bias;
    int64_t width;
    real epsilon;
} ff_norm;

/* Tokens of a tensor as leaves of the tree over tokens: `leaves` of `tokens` each. */
typedef struct ff_leaves {
    int64_t leaves, tokens;
} ff_leaves;

/* Rows of width/2 cosines and sines, one a position. */
typedef struct ff_rope {
    const real *cosine, *sine;
    int64_t half;
} ff_rope;

typedef struct ff_adamw {
    real rate, beta1, beta2, epsilon, decay;
    real unbias1, unbias2; /* 1 / (1 - beta^step) */
    real scale;            /* of the gradient: clipping */
} ff_adamw;

typedef struct ff_rows {
    const char *name;
    void (*norm)(const ff_norm *norm, const real *x, int64_t tokens, real *y);
    /* Adds the input gradient to dx. dweight and dbias (may be NULL) are overwritten. `space` has
     * room for 2 * width * 40. */
    void (*norm_backward)(const ff_norm *norm, const real *x, const real *dy, ff_leaves leaves,
                          real *dx, real *dweight, real *dbias, real *space);
    /* `rows` rows of `row_stride`, `heads` heads of 2*half each; backward turns the other way. */
    void (*rope)(const ff_rope *rope, const int32_t *positions, int64_t rows, int64_t row_stride,
                 int64_t heads, bool backward, real *x);
    /* Row i of `rows` sees keys 0..first+i; writes probabilities and zeros behind. */
    void (*softmax)(real *scores, int64_t rows, int64_t keys, int64_t first, real scale,
                    real *log_sum_exp);
    /* Probabilities again from scores and log-sum-exp. */
    void (*softmax_again)(real *scores, int64_t rows, int64_t keys, int64_t first, real scale,
                          const real *log_sum_exp);
    /* dscores = p * (dp - delta) * scale, in place of dp. */
    void (*softmax_backward)(const real *p, real *dp, int64_t rows, int64_t keys, const real *delta,
                             real scale);
    void (*row_dots)(const real *a, int64_t a_stride, const real *b, int64_t b_stride, int64_t rows,
                     int64_t width, real *out);
    void (*gelu)(const real *x, int64_t count, real *y);
    void (*gelu_backward)(const real *x, const real *dy, int64_t count, real *dx);
    void (*relu)(const real *x, int64_t count, real *y);
    void (*relu_backward)(const real *x, const real *dy, int64_t count, real *dx);
    /* Rows of [gate | up]. */
    void (*swiglu)(const real *gate_up, int64_t rows, int64_t width, real *y);
    void (*swiglu_backward)(const real *gate_up, const real *dy, int64_t rows, int64_t width,
                            real *dgate_up);
    void (*add_row)(real *x, int64_t rows, int64_t width, const real *bias);
    /* Sum over tokens; `space` as above. */
    void (*sum_rows)(const real *x, int64_t width, ff_leaves leaves, real *out, real *space);
    void (*add)(const real *a, const real *b, int64_t count, real *sum); /* sum may be a or b */
    void (*maximum)(const real *a, const real *b, int64_t count, real *out);
    /* Loss. Columns from `real_columns` on are padding. */
    void (*row_maximum)(const real *x, int64_t rows, int64_t width, int64_t real_columns,
                        real *out);
    /* x = exp(x - maximum), padding 0; out = tree over `chunks` of the row's sums. */
    void (*row_exponents)(real *x, int64_t rows, int64_t width, int64_t real_columns,
                          int64_t chunks, const real *maximum, real *out);
    void (*divide_rows)(real *x, int64_t rows, int64_t width, const real *by);
    void (*scale)(real *x, int64_t count, real by);
    void (*adamw)(const ff_adamw *rule, int64_t count, const real *gradient, real *moment1,
                  real *moment2, real *weight);
    void (*sgd)(const ff_adamw *rule, int64_t count, const real *gradient, real *weight);
} ff_rows;

/* The n-th that this machine runs, best first; NULL past the last. */
const ff_rows *ff_rows_choose(int n);

#endif
