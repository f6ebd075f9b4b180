/* What the operators of layers and ends share (operators.c, operators_backward.c). */
#ifndef FF_ENGINE_OPERATORS_H
#define FF_ENGINE_OPERATORS_H

#include "engine/rank.h"

/* Sizes of a layer on this rank: `kv` is k alone. */
typedef struct ff_widths {
    int64_t heads, kv_heads, dim, q, kv, inner;
    bool gated;
} ff_widths;
int64_t ff_hidden(const ff_rank *rank);
ff_widths ff_widths_of(const ff_rank *rank, const ff_item *item);
bool ff_has_sp(const ff_rank *rank);
/* Elements of the stream for all tokens of a microbatch. */
int64_t ff_all_elements(const ff_rank *rank);
/* Leaves of the sum over some of a microbatch's tokens: one when order is of no matter. */
ff_leaves ff_leaves_of(const ff_rank *rank, int64_t tokens);
/* Eighths of the whole that lie on this rank; 1 when order is of no matter. */
int64_t ff_own_chunks(const ff_rank *rank);
/* Room for sums of leaves. */
real *ff_take_space(ff_rank *rank, int64_t width);

/* y[T, n] = x[T, k] w[n, k]^T, by `order` over k (NULL: a chain). */
void ff_forward_product(ff_rank *rank, const real *x, const real *w, int64_t n, int64_t k,
                        const ff_k_order *order, real *y);
/* dx[T, k] = dy[T, n] w[n, k], by `order` over n. */
void ff_input_product(ff_rank *rank, const real *dy, const real *w, int64_t n, int64_t k,
                      const ff_k_order *order, real *dx);
/* dw[n, k] = dy[T, n]^T x[T, k], and dbias (may be NULL): trees over the tokens' leaves. */
void ff_weight_product(ff_rank *rank, const real *dy, const real *x, int64_t n, int64_t k,
                       real *dw);
void ff_bias_gradient(ff_rank *rank, const real *dy, int64_t width, real *dbias);

/* The `which`-th norm of a part. */
bool ff_norm_forward(ff_rank *rank, const ff_item *item, ff_role role, int which, ff_slot in,
                     ff_slot out);
bool ff_norm_backward(ff_rank *rank, const ff_item *item, ff_role role, int which, ff_slot in);
bool ff_final_norm(ff_rank *rank, const ff_item *item);
bool ff_final_norm_backward(ff_rank *rank, const ff_item *item);

/* What a column product reads: gathered (SP), or the norm's output in a slot. */
const real *ff_block_input(ff_rank *rank, const ff_item *item, ff_slot slot);
bool ff_turns(const ff_rank *rank); /* by rope */
void ff_turn(ff_rank *rank, int64_t row_stride, int64_t heads, int64_t dim, bool backward, real *x);
ff_attend ff_attend_of(ff_rank *rank, const ff_widths *w);

/* Collectives around a tensor-parallel block. */
bool ff_reduce_branch(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_branch_reduced(ff_rank *rank, const ff_item *item);
bool ff_gather_first_input(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_gather_second_input(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_gather_gradient(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_reduce_gradient(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_gradient_reduced(ff_rank *rank, const ff_item *item);

/* Backward of a column product whose outputs' gradient is frame.dinner; several outputs side by
 * side have a width each. */
bool ff_column_input(ff_rank *rank, const ff_item *item, const real *weight, const int64_t *outputs,
                     int count);
bool ff_column_weight(ff_rank *rank, const ff_item *item, ff_slot slot, int64_t width, real *dw,
                      real *dbias);

/* Rows of the tables. */
#define FF_RUN(name, function)                                                                     \
    { name, function, NULL, NULL, false }
#define FF_EXCHANGE(name, start, finish)                                                           \
    { name, NULL, start, finish, false }

#endif
