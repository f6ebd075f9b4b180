/* The operators of a decoder layer: what each name in the program's list does.
 *
 *     x ------------------------------------------+        x: residual stream [T/t or T, h]
 *     '-> norm -[AG]-> qkv -> rope -> core -> out -[RS or AR]-> + x   (bias of a row product joins here)
 *
 * A row product (out, down) sums over what tp divides: eighths in a tree, then ranks. So does the
 * input gradient of a column product (qkv, up). Weight gradients sum over tokens: leaves in a tree.
 * Forward products and the input gradients of row products are plain chains. */
#include "engine/operators.h"

#include <string.h>

/* --- sizes --- */

static int64_t hidden(const ff_rank *rank) {
    return rank->setup->model.hidden;
}

static const ff_layer_kind *kind_of(const ff_rank *rank, const ff_item *item) {
    const ff_model *model = &rank->setup->model;
    return &model->kind[model->layer_kind[item->layer]];
}

typedef struct widths {
    int64_t heads, kv_heads, dim, q, kv, inner; /* of this rank; kv of k alone */
    bool gated;
} widths;

static widths widths_of(const ff_rank *rank, const ff_item *item) {
    const ff_layer_kind *kind = kind_of(rank, item);
    int64_t tp = rank->setup->layout.tp;
    widths w = {.heads = kind->attention.heads / tp,
                .kv_heads = kind->attention.kv_heads / tp,
                .dim = kind->attention.qk_head_dim,
                .inner = kind->mlp.width / tp,
                .gated = kind->mlp.gated};
    w.q = w.heads * w.dim;
    w.kv = w.kv_heads * w.dim;
    return w;
}

static bool has_sp(const ff_rank *rank) {
    return rank->setup->layout.sp == 1 && rank->setup->layout.tp > 1;
}

/* Eighths of the whole that lie on this rank. */
static int64_t own_chunks(const ff_rank *rank) {
    return rank->setup->layout.tp <= FF_CHUNKS ? FF_CHUNKS / rank->setup->layout.tp : 1;
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
static void input_product(ff_rank *rank, const real *dy, const real *w, int64_t n, int64_t k,
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
static void weight_product(ff_rank *rank, const real *dy, const real *x, int64_t n, int64_t k,
                           real *dw) {
    ff_k_order order;
    ff_leaves leaves = ff_token_leaves(rank->setup->options.seq, rank->setup->tokens);
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
static real *take_space(ff_rank *rank, int64_t width) {
    return ff_store_take(&rank->store, FF_STORE_COMMUNICATION, 80 * width, "sums of leaves");
}

/* dbias = sum over all tokens of dy. */
static void bias_gradient(ff_rank *rank, const real *dy, int64_t width, real *dbias) {
    if (dbias == NULL)
        return;
    real *space = take_space(rank, width);
    rank->rows->sum_rows(dy, width, ff_token_leaves(rank->setup->options.seq, rank->setup->tokens),
                         dbias, space);
    ff_rank_give(rank, &space);
}

/* --- norms --- */

static ff_norm norm_of(ff_rank *rank, const ff_item *item, ff_role role, int which) {
    const ff_model *model = &rank->setup->model;
    const real *weight = ff_rank_weights(rank, item, role);
    int64_t h = hidden(rank);
    if (weight != NULL)
        weight += which * h * (model->norm_bias ? 2 : 1);
    return (ff_norm){weight, model->norm_bias && weight != NULL ? weight + h : NULL, h,
                     (real)rank->setup->options.norm_epsilon};
}

/* The input becomes the flight's, unless it was kept already. */
static bool norm_forward(ff_rank *rank, const ff_item *item, ff_role role, int which, ff_slot in,
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
        ff_rank_fill(rank, item, out, rank->setup->shard_tokens * hidden(rank), "norm output");
    rank->rows->norm(&norm, *slot, rank->setup->shard_tokens, y);
    return true;
}

/* Gradients of a norm are sums over this rank's tokens, one set of gradients a part of them. */
static bool norm_backward(ff_rank *rank, const ff_item *item, ff_role role, int which, ff_slot in) {
    ff_frame *f = &rank->frame;
    int64_t h = hidden(rank), tokens = rank->setup->shard_tokens / rank->own_parts;
    real *x = *ff_rank_slot(rank, item, in);
    ff_norm norm = norm_of(rank, item, role, which);
    if (norm.weight == NULL || !ff_rank_needs(rank, item, x, "norm's input") ||
        !ff_rank_needs(rank, item, f->dbranch, "gradient of the norm's output"))
        return false;
    if (f->dx == NULL) { /* the head: nothing flows past its norm */
        f->dx = ff_rank_take(rank, rank->setup->shard_tokens * h, "stream gradient");
        memset(f->dx, 0, (size_t)(rank->setup->shard_tokens * h) * sizeof(real));
    }
    ff_leaves leaves = ff_token_leaves(rank->setup->options.seq, tokens);
    real *space = take_space(rank, h);
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

static bool attention_norm(ff_rank *rank, const ff_item *item) {
    return norm_forward(rank, item, FF_ROLE_LAYER_NORMS, 0, FF_SLOT_NORM1_IN, FF_SLOT_NORM1_OUT);
}

static bool mlp_norm(ff_rank *rank, const ff_item *item) {
    return norm_forward(rank, item, FF_ROLE_LAYER_NORMS, 1, FF_SLOT_NORM2_IN, FF_SLOT_NORM2_OUT);
}

static bool attention_norm_backward(ff_rank *rank, const ff_item *item) {
    return norm_backward(rank, item, FF_ROLE_LAYER_NORMS, 0, FF_SLOT_NORM1_IN);
}

static bool mlp_norm_backward(ff_rank *rank, const ff_item *item) {
    return norm_backward(rank, item, FF_ROLE_LAYER_NORMS, 1, FF_SLOT_NORM2_IN);
}

bool ff_final_norm(ff_rank *rank, const ff_item *item) {
    return norm_forward(rank, item, FF_ROLE_FINAL_NORM, 0, FF_SLOT_NORM1_IN, FF_SLOT_NORM1_OUT);
}

bool ff_final_norm_backward(ff_rank *rank, const ff_item *item) {
    return norm_backward(rank, item, FF_ROLE_FINAL_NORM, 0, FF_SLOT_NORM1_IN);
}

/* --- collectives around the blocks --- */

static int64_t all_elements(const ff_rank *rank) {
    return rank->setup->tokens * hidden(rank);
}

/* The norm's output of all tokens, for a column product (forward, and again for its weights). */
static bool gather_input(ff_rank *rank, const ff_item *item, ff_exchange *e, ff_slot slot) {
    ff_frame *f = &rank->frame;
    real *own = *ff_rank_slot(rank, item, slot);
    if (!ff_rank_needs(rank, item, own, "norm's output"))
        return false;
    ff_rank_give(rank, &f->gathered);
    f->gathered = ff_rank_take(rank, all_elements(rank), "gathered input");
    e->whole = (char *)f->gathered;
    e->part = (char *)own;
    e->elements = all_elements(rank);
    return true;
}

bool ff_gather_first_input(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    return gather_input(rank, item, e, FF_SLOT_NORM1_OUT);
}

static bool gather_second_input(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    return gather_input(rank, item, e, FF_SLOT_NORM2_OUT);
}

/* Sums partial products over tp: to this rank's tokens (SP), or in place to all. */
bool ff_reduce_branch(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_frame *f = &rank->frame;
    if (!ff_rank_needs(rank, item, f->partial, "partial product"))
        return false;
    e->whole = (char *)f->partial;
    e->elements = all_elements(rank);
    if (item->op.collective != FF_REDUCE_SCATTER)
        return true;
    f->branch = ff_rank_take(rank, rank->setup->shard_tokens * hidden(rank), "branch");
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
    f->dy = ff_rank_take(rank, all_elements(rank), "gathered gradient");
    e->whole = (char *)f->dy;
    e->part = (char *)f->dx;
    e->elements = all_elements(rank);
    return true;
}

bool ff_reduce_gradient(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_frame *f = &rank->frame;
    if (!ff_rank_needs(rank, item, f->dpartial, "partial input gradient"))
        return false;
    e->whole = (char *)f->dpartial;
    e->elements = all_elements(rank);
    if (item->op.collective != FF_REDUCE_SCATTER)
        return true;
    f->dbranch =
        ff_rank_take(rank, rank->setup->shard_tokens * hidden(rank), "norm output gradient");
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

/* What a column product reads: gathered (SP), or the norm's output. */
static const real *column_input(ff_rank *rank, const ff_item *item, ff_slot slot) {
    const real *x = has_sp(rank) ? rank->frame.gathered : *ff_rank_slot(rank, item, slot);
    ff_rank_needs(rank, item, x, "block's input");
    return x;
}

static bool qkv(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    int64_t h = hidden(rank), tokens = rank->setup->tokens;
    const real *x = column_input(rank, item, FF_SLOT_NORM1_OUT);
    const real *weight = ff_rank_weights(rank, item, FF_ROLE_Q);
    if (x == NULL || weight == NULL)
        return false;
    real *q = ff_rank_fill(rank, item, FF_SLOT_QUERY, tokens * w.q, "query");
    real *kv = ff_rank_fill(rank, item, FF_SLOT_KEY_VALUE, tokens * 2 * w.kv, "key and value");
    ff_forward_product(rank, x, weight, w.q, h, NULL, q);
    ff_forward_product(rank, x, weight + w.q * h, 2 * w.kv, h, NULL, kv);
    const real *bias = ff_rank_weights(rank, item, FF_ROLE_Q_BIAS);
    if (bias != NULL) {
        rank->rows->add_row(q, tokens, w.q, bias);
        rank->rows->add_row(kv, tokens, 2 * w.kv, bias + w.q);
    }
    ff_rank_give(rank, &rank->frame.gathered);
    return true;
}

static void turn(ff_rank *rank, int64_t row_stride, int64_t heads, int64_t dim, bool backward,
                 real *x) {
    ff_rope rope = {rank->rope_cosine, rank->rope_sine, dim / 2};
    int64_t seq = rank->setup->options.seq;
    for (int64_t s = 0; s < rank->setup->layout.mbs; s++)
        rank->rows->rope(&rope, rank->positions, seq, row_stride, heads, backward,
                         x + s * seq * row_stride);
}

static bool turns(const ff_rank *rank) {
    return rank->setup->model.position_rows == 0;
}

static bool rope(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    real *q = *ff_rank_slot(rank, item, FF_SLOT_QUERY);
    real *kv = *ff_rank_slot(rank, item, FF_SLOT_KEY_VALUE);
    if (!ff_rank_needs(rank, item, q, "query") || !ff_rank_needs(rank, item, kv, "key"))
        return false;
    if (turns(rank)) {
        turn(rank, w.q, w.heads, w.dim, false, q);
        turn(rank, 2 * w.kv, w.kv_heads, w.dim, false, kv);
    }
    return true;
}

static ff_attend attend_of(ff_rank *rank, const widths *w) {
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

static bool core(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    int64_t tokens = rank->setup->tokens;
    real *q = *ff_rank_slot(rank, item, FF_SLOT_QUERY);
    real *kv = *ff_rank_slot(rank, item, FF_SLOT_KEY_VALUE);
    if (!ff_rank_needs(rank, item, q, "query") || !ff_rank_needs(rank, item, kv, "key and value"))
        return false;
    real *out = ff_rank_fill(rank, item, FF_SLOT_CORE, tokens * w.q, "attention output");
    real *lse = ff_rank_fill(rank, item, FF_SLOT_LOG_SUM_EXP, tokens * w.heads, "log-sum-exp");
    ff_attend attend = attend_of(rank, &w);
    ff_attend_forward(&attend, q, kv, out, lse);
    return true;
}

/* A row product: partial sums of this rank's width. Without tp they are the branch. */
static bool row_product(ff_rank *rank, const ff_item *item, ff_slot slot, ff_role role,
                        ff_role bias, int64_t width) {
    ff_frame *f = &rank->frame;
    ff_k_order order;
    const real *x = *ff_rank_slot(rank, item, slot);
    const real *weight = ff_rank_weights(rank, item, role);
    if (weight == NULL || !ff_rank_needs(rank, item, x, "block's inner tensor"))
        return false;
    ff_k_segments(&order, width, own_chunks(rank));
    f->partial = ff_rank_take(rank, all_elements(rank), "partial product");
    ff_forward_product(rank, x, weight, hidden(rank), width, &order, f->partial);
    f->bias = ff_rank_weights(rank, item, bias);
    return rank->fault[0] == '\0';
}

static bool out(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return row_product(rank, item, FF_SLOT_CORE, FF_ROLE_O, FF_ROLE_O_BIAS, w.q);
}

/* The branch joins the stream, in a tensor of its own: the old one waits for backward. */
static bool residual(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    int64_t tokens = rank->setup->shard_tokens, h = hidden(rank);
    if (f->branch == NULL) {
        f->branch = f->partial;
        f->partial = NULL;
    }
    if (!ff_rank_needs(rank, item, f->branch, "branch") ||
        !ff_rank_needs(rank, item, f->x, "residual stream"))
        return false;
    if (f->bias != NULL)
        rank->rows->add_row(f->branch, tokens, h, f->bias);
    rank->rows->add(f->x, f->branch, tokens * h, f->branch);
    if (f->owns_x)
        ff_store_give(&rank->store, f->x);
    f->x = f->branch;
    f->owns_x = true;
    f->branch = NULL;
    return true;
}

/* --- MLP --- */

static bool up(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    int64_t width = w.inner * (w.gated ? 2 : 1), tokens = rank->setup->tokens;
    const real *x = column_input(rank, item, FF_SLOT_NORM2_OUT);
    const real *weight = ff_rank_weights(rank, item, w.gated ? FF_ROLE_GATE : FF_ROLE_UP);
    if (x == NULL || weight == NULL)
        return false;
    real *inner = ff_rank_fill(rank, item, FF_SLOT_INNER, tokens * width, "inner");
    ff_forward_product(rank, x, weight, width, hidden(rank), NULL, inner);
    const real *bias = ff_rank_weights(rank, item, FF_ROLE_UP_BIAS);
    if (bias != NULL)
        rank->rows->add_row(inner, tokens, width, bias);
    ff_rank_give(rank, &rank->frame.gathered);
    return true;
}

static bool activation(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    int64_t tokens = rank->setup->tokens;
    const real *inner = *ff_rank_slot(rank, item, FF_SLOT_INNER);
    if (!ff_rank_needs(rank, item, inner, "activation's input"))
        return false;
    real *product = ff_rank_fill(rank, item, FF_SLOT_PRODUCT, tokens * w.inner, "product");
    if (w.gated)
        rank->rows->swiglu(inner, tokens, w.inner, product);
    else if (rank->setup->model.activation == FF_ACTIVATION_RELU)
        rank->rows->relu(inner, tokens * w.inner, product);
    else
        rank->rows->gelu(inner, tokens * w.inner, product);
    return true;
}

static bool down(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return row_product(rank, item, FF_SLOT_PRODUCT, FF_ROLE_DOWN, FF_ROLE_DOWN_BIAS, w.inner);
}

/* --- backward --- */

/* The bias that joined the stream here: of the MLP first, then of attention. Its sum runs over this
 * rank's tokens, as a norm's does. */
static bool residual_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    ff_role role = f->halves++ == 0 ? FF_ROLE_DOWN_BIAS : FF_ROLE_O_BIAS;
    int64_t h = hidden(rank), tokens = rank->setup->shard_tokens / rank->own_parts;
    if (!ff_rank_needs(rank, item, f->dx, "stream's gradient"))
        return false;
    if (ff_unit_part(ff_rank_unit(rank, item), role) == NULL)
        return true;
    real *space = take_space(rank, h);
    for (int part = 0; part < rank->own_parts; part++)
        rank->rows->sum_rows(f->dx + part * tokens * h, h,
                             ff_token_leaves(rank->setup->options.seq, tokens),
                             ff_rank_gradient(rank, item->unit, role, part), space);
    ff_rank_give(rank, &space);
    return true;
}

static const real *output_gradient(ff_rank *rank, const ff_item *item) {
    const real *dy = has_sp(rank) ? rank->frame.dy : rank->frame.dx;
    ff_rank_needs(rank, item, dy, "output's gradient");
    return dy;
}

static bool row_product_input(ff_rank *rank, const ff_item *item, ff_role role, int64_t width,
                              real **to) {
    const real *dy = output_gradient(rank, item), *weight = ff_rank_weights(rank, item, role);
    if (dy == NULL || weight == NULL)
        return false;
    *to = ff_rank_take(rank, rank->setup->tokens * width, "inner gradient");
    input_product(rank, dy, weight, hidden(rank), width, NULL, *to);
    return true;
}

static bool row_product_weight(ff_rank *rank, const ff_item *item, ff_role role, ff_slot slot,
                               int64_t width) {
    const real *dy = output_gradient(rank, item), *x = *ff_rank_slot(rank, item, slot);
    if (dy == NULL || !ff_rank_needs(rank, item, x, "block's inner tensor"))
        return false;
    weight_product(rank, dy, x, hidden(rank), width, ff_rank_gradient(rank, item->unit, role, 0));
    ff_rank_give(rank, &rank->frame.dy);
    return true;
}

static bool down_input(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return row_product_input(rank, item, FF_ROLE_DOWN, w.inner, &rank->frame.dproduct);
}

static bool down_weight(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return row_product_weight(rank, item, FF_ROLE_DOWN, FF_SLOT_PRODUCT, w.inner);
}

static bool activation_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    widths w = widths_of(rank, item);
    int64_t tokens = rank->setup->tokens;
    const real *inner = *ff_rank_slot(rank, item, FF_SLOT_INNER);
    if (!ff_rank_needs(rank, item, inner, "activation's input") ||
        !ff_rank_needs(rank, item, f->dproduct, "activation's gradient"))
        return false;
    f->dinner = ff_rank_take(rank, tokens * w.inner * (w.gated ? 2 : 1), "inner gradient");
    if (w.gated)
        rank->rows->swiglu_backward(inner, f->dproduct, tokens, w.inner, f->dinner);
    else if (rank->setup->model.activation == FF_ACTIVATION_RELU)
        rank->rows->relu_backward(inner, f->dproduct, tokens * w.inner, f->dinner);
    else
        rank->rows->gelu_backward(inner, f->dproduct, tokens * w.inner, f->dinner);
    ff_rank_give(rank, &f->dproduct);
    return true;
}

/* The input gradient of a column product: partial sums over this rank's outputs. Without tp they
 * are the gradient of the norm's output. */
bool ff_column_input(ff_rank *rank, const ff_item *item, const real *weight, const int64_t *outputs,
                     int count) {
    ff_frame *f = &rank->frame;
    ff_k_order order;
    int64_t width = 0;
    for (int i = 0; i < count; i++)
        width += outputs[i];
    if (weight == NULL || !ff_rank_needs(rank, item, f->dinner, "inner gradient"))
        return false;
    ff_k_interleaved(&order, outputs, count, own_chunks(rank));
    real *dx = ff_rank_take(rank, all_elements(rank), "input gradient");
    input_product(rank, f->dinner, weight, width, hidden(rank), &order, dx);
    if (rank->setup->layout.tp > 1)
        f->dpartial = dx;
    else
        f->dbranch = dx;
    return true;
}

bool ff_column_weight(ff_rank *rank, const ff_item *item, ff_slot slot, int64_t width, real *dw,
                      real *dbias) {
    ff_frame *f = &rank->frame;
    const real *x = column_input(rank, item, slot);
    if (x == NULL || !ff_rank_needs(rank, item, f->dinner, "inner gradient"))
        return false;
    weight_product(rank, f->dinner, x, width, hidden(rank), dw);
    bias_gradient(rank, f->dinner, width, dbias);
    ff_rank_give(rank, &f->dinner);
    ff_rank_give(rank, &f->gathered);
    return true;
}

static bool up_input(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    const int64_t both[2] = {w.inner, w.inner};
    return ff_column_input(rank, item,
                           ff_rank_weights(rank, item, w.gated ? FF_ROLE_GATE : FF_ROLE_UP), both,
                           w.gated ? 2 : 1);
}

static bool up_weight(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return ff_column_weight(
        rank, item, FF_SLOT_NORM2_OUT, w.inner * (w.gated ? 2 : 1),
        ff_rank_gradient(rank, item->unit, w.gated ? FF_ROLE_GATE : FF_ROLE_UP, 0),
        ff_rank_gradient(rank, item->unit, FF_ROLE_UP_BIAS, 0));
}

static bool out_input(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return row_product_input(rank, item, FF_ROLE_O, w.q, &rank->frame.dproduct);
}

static bool out_weight(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return row_product_weight(rank, item, FF_ROLE_O, FF_SLOT_CORE, w.q);
}

static bool core_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    widths w = widths_of(rank, item);
    real **slots = ff_rank_flight(rank)->slot[item->unit];
    if (!ff_rank_needs(rank, item, slots[FF_SLOT_QUERY], "query") ||
        !ff_rank_needs(rank, item, slots[FF_SLOT_KEY_VALUE], "key and value") ||
        !ff_rank_needs(rank, item, slots[FF_SLOT_CORE], "attention output") ||
        !ff_rank_needs(rank, item, slots[FF_SLOT_LOG_SUM_EXP], "log-sum-exp") ||
        !ff_rank_needs(rank, item, f->dproduct, "gradient of the attention output"))
        return false;
    f->dinner = ff_rank_take(rank, rank->setup->tokens * (w.q + 2 * w.kv), "dq, dk, dv");
    ff_attend attend = attend_of(rank, &w);
    ff_attend_backward(&attend, slots[FF_SLOT_QUERY], slots[FF_SLOT_KEY_VALUE], slots[FF_SLOT_CORE],
                       slots[FF_SLOT_LOG_SUM_EXP], f->dproduct, f->dinner);
    ff_rank_give(rank, &f->dproduct);
    return true;
}

static bool rope_backward(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    real *d = rank->frame.dinner;
    if (!ff_rank_needs(rank, item, d, "gradient of query and key"))
        return false;
    if (turns(rank))
        turn(rank, w.q + 2 * w.kv, w.heads + w.kv_heads, w.dim, true, d);
    return true;
}

static bool qkv_input(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    const int64_t all[3] = {w.q, w.kv, w.kv};
    return ff_column_input(rank, item, ff_rank_weights(rank, item, FF_ROLE_Q), all, 3);
}

static bool qkv_weight(ff_rank *rank, const ff_item *item) {
    widths w = widths_of(rank, item);
    return ff_column_weight(rank, item, FF_SLOT_NORM1_OUT, w.q + 2 * w.kv,
                            ff_rank_gradient(rank, item->unit, FF_ROLE_Q, 0),
                            ff_rank_gradient(rank, item->unit, FF_ROLE_Q_BIAS, 0));
}

const ff_operator_row ff_layer_rows[] = {
    FF_RUN("attention norm", attention_norm),
    FF_EXCHANGE("attention.all-gather", ff_gather_first_input, NULL),
    FF_RUN("attention.qkv", qkv),
    FF_RUN("attention.rope", rope),
    FF_RUN("attention.core", core),
    FF_RUN("attention.out", out),
    FF_EXCHANGE("attention.reduce-scatter", ff_reduce_branch, ff_branch_reduced),
    FF_EXCHANGE("attention.all-reduce", ff_reduce_branch, ff_branch_reduced),
    FF_RUN("residual", residual),
    FF_RUN("mlp norm", mlp_norm),
    FF_EXCHANGE("mlp.all-gather", gather_second_input, NULL),
    FF_RUN("mlp.up", up),
    FF_RUN("mlp.activation", activation),
    FF_RUN("mlp.down", down),
    FF_EXCHANGE("mlp.reduce-scatter", ff_reduce_branch, ff_branch_reduced),
    FF_EXCHANGE("mlp.all-reduce", ff_reduce_branch, ff_branch_reduced),
    FF_RUN("residual backward", residual_backward),
    FF_EXCHANGE("mlp.dY all-gather", ff_gather_gradient, NULL),
    FF_RUN("mlp.down dX", down_input),
    FF_RUN("mlp.down dW", down_weight),
    FF_RUN("mlp.activation backward", activation_backward),
    FF_RUN("mlp.up dX", up_input),
    FF_EXCHANGE("mlp.input all-gather", gather_second_input, NULL),
    FF_RUN("mlp.up dW", up_weight),
    FF_EXCHANGE("mlp.dX reduce-scatter", ff_reduce_gradient, ff_gradient_reduced),
    FF_EXCHANGE("mlp.dX all-reduce", ff_reduce_gradient, ff_gradient_reduced),
    FF_RUN("mlp norm backward", mlp_norm_backward),
    FF_EXCHANGE("attention.dY all-gather", ff_gather_gradient, NULL),
    FF_RUN("attention.out dX", out_input),
    FF_RUN("attention.out dW", out_weight),
    FF_RUN("attention.core backward", core_backward),
    FF_RUN("attention.rope backward", rope_backward),
    FF_RUN("attention.qkv dX", qkv_input),
    FF_EXCHANGE("attention.input all-gather", ff_gather_first_input, NULL),
    FF_RUN("attention.qkv dW", qkv_weight),
    FF_EXCHANGE("attention.dX reduce-scatter", ff_reduce_gradient, ff_gradient_reduced),
    FF_EXCHANGE("attention.dX all-reduce", ff_reduce_gradient, ff_gradient_reduced),
    FF_RUN("attention norm backward", attention_norm_backward),
    {0},
};
