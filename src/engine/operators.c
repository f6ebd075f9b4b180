/* What the operators of layers and ends share: sizes, products in the canonical order, norms, and the
 * collectives around a tensor-parallel block.
 *
 * A row product (out, down) sums over what tp divides: eighths in a tree, then ranks. So does the
 * input gradient of a column product (qkv, up). Weight gradients sum over tokens: leaves in a tree.
 * Forward products and the input gradients of row products are plain chains. */
#include "engine/operators.h"

#include <string.h>

/* --- sizes --- */

int64_t ff_hidden(const ff_rank *rank) {
    return rank->setup->model.hidden;
}

static const ff_layer_kind *kind_of(const ff_rank *rank, const ff_item *item) {
    const ff_model *model = &rank->setup->model;
    return &model->kind[model->layer_kind[item->layer]];
}

ff_widths ff_widths_of(const ff_rank *rank, const ff_item *item) {
    const ff_layer_kind *kind = kind_of(rank, item);
    int64_t tp = rank->setup->layout.tp;
    ff_widths w = {.heads = kind->attention.heads / tp,
                   .kv_heads = kind->attention.kv_heads / tp,
                   .dim = kind->attention.qk_head_dim,
                   .inner = kind->mlp.width / tp,
                   .gated = kind->mlp.gated};
    w.q = w.heads * w.dim;
    w.kv = w.kv_heads * w.dim;
    return w;
}

bool ff_has_sp(const ff_rank *rank) {
    return rank->setup->layout.sp == 1 && rank->setup->layout.tp > 1;
}

ff_leaves ff_leaves_of(const ff_rank *rank, int64_t tokens) {
    return rank->setup->options.fast ? (ff_leaves){1, tokens}
                                     : ff_token_leaves(rank->setup->options.seq, tokens);
}

int64_t ff_own_chunks(const ff_rank *rank) {
    bool tree = rank->setup->layout.tp <= FF_CHUNKS && !rank->setup->options.fast;
    return tree ? FF_CHUNKS / rank->setup->layout.tp : 1;
}

/* --- products --- */

/* y[T, n] = x[T, k] w[n, k]^T, by `order` over k. */
void ff_forward_product(ff_rank *rank, const real *x, const real *w, int64_t n, int64_t k,
                        const ff_k_order *order, real *y) {
    ff_product p = {.m = rank->setup->tokens,
                    .n = n,
                    .k = k,
                    .a = {x, k, 1},
                    .b = {w, 1, k},
                    .c = y,
                    .c_stride = n,
                    .order = order};
    ff_gemm(&rank->gemm, &p);
}

/* dx[T, k] = dy[T, n] w[n, k]. */
void ff_input_product(ff_rank *rank, const real *dy, const real *w, int64_t n, int64_t k,
                      const ff_k_order *order, real *dx) {
    ff_product p = {.m = rank->setup->tokens,
                    .n = k,
                    .k = n,
                    .a = {dy, n, 1},
                    .b = {w, k, 1},
                    .c = dx,
                    .c_stride = k,
                    .order = order};
    ff_gemm(&rank->gemm, &p);
}

/* dw[n, k] = dy[T, n]^T x[T, k], a tree over the tokens' leaves. */
void ff_weight_product(ff_rank *rank, const real *dy, const real *x, int64_t n, int64_t k,
                       real *dw) {
    ff_k_order order;
    ff_leaves leaves = ff_leaves_of(rank, rank->setup->tokens);
    ff_k_segments(&order, rank->setup->tokens, leaves.leaves);
    ff_product p = {.m = n,
                    .n = k,
                    .k = rank->setup->tokens,
                    .a = {dy, 1, n},
                    .b = {x, k, 1},
                    .c = dw,
                    .c_stride = k,
                    .order = &order};
    ff_gemm(&rank->gemm, &p);
}

/* Room for sums of leaves. */
real *ff_take_space(ff_rank *rank, int64_t width) {
    return ff_store_take(&rank->store, FF_STORE_SCRATCH, 80 * width, "sums of leaves");
}

/* dbias = sum over all tokens of dy. */
void ff_bias_gradient(ff_rank *rank, const real *dy, int64_t width, real *dbias) {
    if (dbias == NULL)
        return;
    real *space = ff_take_space(rank, width);
    rank->rows->sum_rows(dy, width, ff_leaves_of(rank, rank->setup->tokens), dbias, space);
    ff_rank_give(rank, &space);
}

/* --- norms --- */

static ff_norm norm_of(ff_rank *rank, const ff_item *item, ff_role role, int which) {
    const ff_model *model = &rank->setup->model;
    const real *weight = ff_rank_weights(rank, item, role);
    int64_t h = ff_hidden(rank);
    if (weight != NULL)
        weight += which * h * (model->norm_bias ? 2 : 1);
    return (ff_norm){weight, model->norm_bias && weight != NULL ? weight + h : NULL, h,
                     (real)rank->setup->model.norm_epsilon};
}

/* The input becomes the flight's, unless it was kept already. */
bool ff_norm_forward(ff_rank *rank, const ff_item *item, ff_role role, int which, ff_slot in,
                     ff_slot out) {
    ff_frame *f = &rank->frame;
    real **slot = ff_rank_slot(rank, item, in);
    if (*slot == NULL) {
        *slot = f->x;
        f->owns_x = false;
    }
    ff_norm norm = norm_of(rank, item, role, which);
    if (norm.weight == NULL || !ff_rank_needs(rank, item, *slot, "residual stream"))
        return false;
    real *y =
        ff_rank_fill(rank, item, out, rank->setup->shard_tokens * ff_hidden(rank), "norm output");
    rank->rows->norm(&norm, *slot, rank->setup->shard_tokens, y);
    return true;
}

/* Gradients of a norm are sums over this rank's tokens, one set of gradients a part of them. */
bool ff_norm_backward(ff_rank *rank, const ff_item *item, ff_role role, int which, ff_slot in) {
    ff_frame *f = &rank->frame;
    int64_t h = ff_hidden(rank), tokens = rank->setup->shard_tokens / rank->own_parts;
    real *x = *ff_rank_slot(rank, item, in);
    ff_norm norm = norm_of(rank, item, role, which);
    if (norm.weight == NULL || !ff_rank_needs(rank, item, x, "norm's input") ||
        !ff_rank_needs(rank, item, f->dbranch, "gradient of the norm's output"))
        return false;
    if (f->dx == NULL) { /* the head: nothing flows past its norm */
        f->dx = ff_rank_take(rank, rank->setup->shard_tokens * h, "stream gradient");
        memset(f->dx, 0, (size_t)(rank->setup->shard_tokens * h) * sizeof(real));
    }
    ff_leaves leaves = ff_leaves_of(rank, tokens);
    real *space = ff_take_space(rank, h);
    for (int part = 0; part < rank->own_parts; part++) {
        int64_t at = part * tokens * h;
        real *dweight = ff_rank_gradient(rank, item->unit, role, part);
        dweight += which * h * (norm.bias != NULL ? 2 : 1);
        rank->rows->norm_backward(&norm, x + at, f->dbranch + at, leaves, f->dx + at, dweight,
                                  norm.bias != NULL ? dweight + h : NULL, space);
    }
    ff_rank_give(rank, &space);
    ff_rank_give(rank, &f->dbranch);
    return true;
}

bool ff_final_norm(ff_rank *rank, const ff_item *item) {
    return ff_norm_forward(rank, item, FF_ROLE_FINAL_NORM, 0, FF_SLOT_NORM1_IN, FF_SLOT_NORM1_OUT);
}

bool ff_final_norm_backward(ff_rank *rank, const ff_item *item) {
    return ff_norm_backward(rank, item, FF_ROLE_FINAL_NORM, 0, FF_SLOT_NORM1_IN);
}

/* --- collectives around the blocks --- */

int64_t ff_all_elements(const ff_rank *rank) {
    return rank->setup->tokens * ff_hidden(rank);
}

/* The norm's output of all tokens, for a column product (forward, and again for its weights). */
static bool gather_input(ff_rank *rank, const ff_item *item, ff_exchange *e, ff_slot slot) {
    ff_frame *f = &rank->frame;
    real *own = *ff_rank_slot(rank, item, slot);
    if (!ff_rank_needs(rank, item, own, "norm's output"))
        return false;
    ff_rank_give(rank, &f->gathered);
    f->gathered = ff_rank_take(rank, ff_all_elements(rank), "gathered input");
    e->whole = (char *)f->gathered;
    e->part = (char *)own;
    e->elements = ff_all_elements(rank);
    return true;
}

bool ff_gather_first_input(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    return gather_input(rank, item, e, FF_SLOT_NORM1_OUT);
}

bool ff_gather_second_input(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    return gather_input(rank, item, e, FF_SLOT_NORM2_OUT);
}

/* Sums partial products over tp: to this rank's tokens (SP), or in place to all. */
bool ff_reduce_branch(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_frame *f = &rank->frame;
    if (!ff_rank_needs(rank, item, f->partial, "partial product"))
        return false;
    e->whole = (char *)f->partial;
    e->elements = ff_all_elements(rank);
    if (item->op.collective != FF_REDUCE_SCATTER)
        return true;
    f->branch = ff_rank_take(rank, rank->setup->shard_tokens * ff_hidden(rank), "branch");
    e->part = (char *)f->branch;
    return true;
}

bool ff_branch_reduced(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    if (item->op.collective == FF_REDUCE_SCATTER)
        ff_rank_give(rank, &f->partial);
    return true;
}

bool ff_gather_gradient(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_frame *f = &rank->frame;
    if (!ff_rank_needs(rank, item, f->dx, "stream's gradient"))
        return false;
    f->dy = ff_rank_take(rank, ff_all_elements(rank), "gathered gradient");
    e->whole = (char *)f->dy;
    e->part = (char *)f->dx;
    e->elements = ff_all_elements(rank);
    return true;
}

bool ff_reduce_gradient(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_frame *f = &rank->frame;
    if (!ff_rank_needs(rank, item, f->dpartial, "partial input gradient"))
        return false;
    e->whole = (char *)f->dpartial;
    e->elements = ff_all_elements(rank);
    if (item->op.collective != FF_REDUCE_SCATTER)
        return true;
    f->dbranch =
        ff_rank_take(rank, rank->setup->shard_tokens * ff_hidden(rank), "norm output gradient");
    e->part = (char *)f->dbranch;
    return true;
}

bool ff_gradient_reduced(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    if (item->op.collective == FF_REDUCE_SCATTER) {
        ff_rank_give(rank, &f->dpartial);
    } else {
        f->dbranch = f->dpartial;
        f->dpartial = NULL;
    }
    return true;
}

/* --- attention --- */

void ff_turn(ff_rank *rank, int64_t row_stride, int64_t heads, int64_t dim, bool backward,
             real *x) {
    ff_rope rope = {rank->rope_cosine, rank->rope_sine, dim / 2};
    int64_t seq = rank->setup->options.seq;
    for (int64_t s = 0; s < rank->setup->layout.mbs; s++)
        rank->rows->rope(&rope, rank->positions, seq, row_stride, heads, backward,
                         x + s * seq * row_stride);
}

bool ff_turns(const ff_rank *rank) {
    return rank->setup->model.position_rows == 0;
}

ff_attend ff_attend_of(ff_rank *rank, const ff_widths *w) {
    return (ff_attend){.seq = rank->setup->options.seq,
                       .sequences = rank->setup->layout.mbs,
                       .heads = w->heads,
                       .kv_heads = w->kv_heads,
                       .dim = w->dim,
                       .rows = rank->row_of_position,
                       .kernels = rank->rows,
                       .gemm = &rank->gemm,
                       .store = &rank->store};
}

/* What a column product reads: gathered (SP), or the norm's output. */
const real *ff_block_input(ff_rank *rank, const ff_item *item, ff_slot slot) {
    const real *x = ff_has_sp(rank) ? rank->frame.gathered : *ff_rank_slot(rank, item, slot);
    ff_rank_needs(rank, item, x, "block's input");
    return x;
}
