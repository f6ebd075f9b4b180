/* What the operators of layers and ends share (operators_layer.c). */
#ifndef FF_ENGINE_OPERATORS_H
#define FF_ENGINE_OPERATORS_H

#include "engine/rank.h"

/* Collectives around a tensor-parallel block. */
bool ff_reduce_branch(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_branch_reduced(ff_rank *rank, const ff_item *item);
bool ff_gather_first_input(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_gather_gradient(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_reduce_gradient(ff_rank *rank, const ff_item *item, ff_exchange *exchange);
bool ff_gradient_reduced(ff_rank *rank, const ff_item *item);

/* Backward of a column product whose outputs' gradient is frame.dinner; several outputs side by
 * side have a width each. */
bool ff_column_input(ff_rank *rank, const ff_item *item, const real *weight, const int64_t *outputs,
                     int count);
bool ff_column_weight(ff_rank *rank, const ff_item *item, ff_slot slot, int64_t width, real *dw,
                      real *dbias);

/* y[T, n] = x[T, k] w[n, k]^T, a chain over k. */
void ff_forward_product(ff_rank *rank, const real *x, const real *w, int64_t n, int64_t k,
                        const ff_k_order *order, real *y);

bool ff_final_norm(ff_rank *rank, const ff_item *item);
bool ff_final_norm_backward(ff_rank *rank, const ff_item *item);

/* Rows of the tables. */
#define FF_RUN(name, function)                                                                     \
    { name, function, NULL, NULL, false }
#define FF_EXCHANGE(name, start, finish)                                                           \
    { name, NULL, start, finish, false }

#endif
