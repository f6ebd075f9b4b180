/* A decoder layer backward. The stream's gradient dx comes from above and passes each block by:
 *
 *     dx ----------------------------------------------------------+-> dx
 *      '-[AG]-> down dX -> activation' -> up dX -[RS or AR]-> norm' -'
 *                  dW                        dW  (of the input, gathered again)
 *
 * and the same around attention. Each product runs twice: input gradient, weight gradient. */
#include "engine/operators.h"

static bool attention_norm_backward(ff_rank *rank, const ff_item *item) {
    return ff_norm_backward(rank, item, FF_ROLE_LAYER_NORMS, 0, FF_SLOT_NORM1_IN);
}

static bool mlp_norm_backward(ff_rank *rank, const ff_item *item) {
    return ff_norm_backward(rank, item, FF_ROLE_LAYER_NORMS, 1, FF_SLOT_NORM2_IN);
}

/* The bias that joined the stream here: of the MLP first, then of attention. Its sum runs over this
 * rank's tokens, as a norm's does. */
static bool residual_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    ff_role role = f->halves++ == 0 ? FF_ROLE_DOWN_BIAS : FF_ROLE_O_BIAS;
    int64_t h = ff_hidden(rank), tokens = rank->setup->shard_tokens / rank->own_parts;
    if (!ff_rank_needs(rank, item, f->dx, "stream's gradient"))
        return false;
    if (ff_unit_part(ff_rank_unit(rank, item), role) == NULL)
        return true;
    real *space = ff_take_space(rank, h);
    for (int part = 0; part < rank->own_parts; part++)
        rank->rows->sum_rows(f->dx + part * tokens * h, h, ff_leaves_of(rank, tokens),
                             ff_rank_gradient(rank, item->unit, role, part), space);
    ff_rank_give(rank, &space);
    return true;
}

static const real *output_gradient(ff_rank *rank, const ff_item *item) {
    const real *dy = ff_has_sp(rank) ? rank->frame.dy : rank->frame.dx;
    ff_rank_needs(rank, item, dy, "output's gradient");
    return dy;
}

static bool row_product_input(ff_rank *rank, const ff_item *item, ff_role role, int64_t width,
                              real **to) {
    const real *dy = output_gradient(rank, item), *weight = ff_rank_weights(rank, item, role);
    if (dy == NULL || weight == NULL)
        return false;
    *to = ff_rank_take(rank, rank->setup->tokens * width, "inner gradient");
    ff_input_product(rank, dy, weight, ff_hidden(rank), width, NULL, *to);
    return true;
}

static bool row_product_weight(ff_rank *rank, const ff_item *item, ff_role role, ff_slot slot,
                               int64_t width) {
    const real *dy = output_gradient(rank, item), *x = *ff_rank_slot(rank, item, slot);
    if (dy == NULL || !ff_rank_needs(rank, item, x, "block's inner tensor"))
        return false;
    ff_weight_product(rank, dy, x, ff_hidden(rank), width,
                      ff_rank_gradient(rank, item->unit, role, 0));
    ff_rank_give(rank, &rank->frame.dy);
    return true;
}

static bool down_input(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return row_product_input(rank, item, FF_ROLE_DOWN, w.inner, &rank->frame.dproduct);
}

static bool down_weight(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return row_product_weight(rank, item, FF_ROLE_DOWN, FF_SLOT_PRODUCT, w.inner);
}

static bool activation_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    ff_widths w = ff_widths_of(rank, item);
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
    ff_k_interleaved(&order, outputs, count, ff_own_chunks(rank));
    real *dx = ff_rank_take(rank, ff_all_elements(rank), "input gradient");
    ff_input_product(rank, f->dinner, weight, width, ff_hidden(rank), &order, dx);
    if (rank->setup->layout.tp > 1)
        f->dpartial = dx;
    else
        f->dbranch = dx;
    return true;
}

bool ff_column_weight(ff_rank *rank, const ff_item *item, ff_slot slot, int64_t width, real *dw,
                      real *dbias) {
    ff_frame *f = &rank->frame;
    const real *x = ff_block_input(rank, item, slot);
    if (x == NULL || !ff_rank_needs(rank, item, f->dinner, "inner gradient"))
        return false;
    ff_weight_product(rank, f->dinner, x, width, ff_hidden(rank), dw);
    ff_bias_gradient(rank, f->dinner, width, dbias);
    ff_rank_give(rank, &f->dinner);
    ff_rank_give(rank, &f->gathered);
    return true;
}

static bool up_input(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    const int64_t both[2] = {w.inner, w.inner};
    return ff_column_input(rank, item,
                           ff_rank_weights(rank, item, w.gated ? FF_ROLE_GATE : FF_ROLE_UP), both,
                           w.gated ? 2 : 1);
}

static bool up_weight(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return ff_column_weight(
        rank, item, FF_SLOT_NORM2_OUT, w.inner * (w.gated ? 2 : 1),
        ff_rank_gradient(rank, item->unit, w.gated ? FF_ROLE_GATE : FF_ROLE_UP, 0),
        ff_rank_gradient(rank, item->unit, FF_ROLE_UP_BIAS, 0));
}

static bool out_input(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return row_product_input(rank, item, FF_ROLE_O, w.q, &rank->frame.dproduct);
}

static bool out_weight(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return row_product_weight(rank, item, FF_ROLE_O, FF_SLOT_CORE, w.q);
}

static bool core_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    ff_widths w = ff_widths_of(rank, item);
    real **slots = ff_rank_flight(rank)->slot[item->unit];
    if (!ff_rank_needs(rank, item, slots[FF_SLOT_QUERY], "query") ||
        !ff_rank_needs(rank, item, slots[FF_SLOT_KEY_VALUE], "key and value") ||
        !ff_rank_needs(rank, item, slots[FF_SLOT_CORE], "attention output") ||
        !ff_rank_needs(rank, item, slots[FF_SLOT_LOG_SUM_EXP], "log-sum-exp") ||
        !ff_rank_needs(rank, item, f->dproduct, "gradient of the attention output"))
        return false;
    f->dinner = ff_rank_take(rank, rank->setup->tokens * (w.q + 2 * w.kv), "dq, dk, dv");
    ff_attend attend = ff_attend_of(rank, &w);
    ff_attend_backward(&attend, slots[FF_SLOT_QUERY], slots[FF_SLOT_KEY_VALUE], slots[FF_SLOT_CORE],
                       slots[FF_SLOT_LOG_SUM_EXP], f->dproduct, f->dinner);
    ff_rank_give(rank, &f->dproduct);
    return true;
}

static bool rope_backward(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    real *d = rank->frame.dinner;
    if (!ff_rank_needs(rank, item, d, "gradient of query and key"))
        return false;
    if (ff_turns(rank))
        ff_turn(rank, w.q + 2 * w.kv, w.heads + w.kv_heads, w.dim, true, d);
    return true;
}

static bool qkv_input(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    const int64_t all[3] = {w.q, w.kv, w.kv};
    return ff_column_input(rank, item, ff_rank_weights(rank, item, FF_ROLE_Q), all, 3);
}

static bool qkv_weight(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return ff_column_weight(rank, item, FF_SLOT_NORM1_OUT, w.q + 2 * w.kv,
                            ff_rank_gradient(rank, item->unit, FF_ROLE_Q, 0),
                            ff_rank_gradient(rank, item->unit, FF_ROLE_Q_BIAS, 0));
}

const ff_operator_row ff_backward_rows[] = {
    FF_RUN("residual backward", residual_backward),
    FF_EXCHANGE("mlp.dY all-gather", ff_gather_gradient, NULL),
    FF_RUN("mlp.down dX", down_input),
    FF_RUN("mlp.down dW", down_weight),
    FF_RUN("mlp.activation backward", activation_backward),
    FF_RUN("mlp.up dX", up_input),
    FF_EXCHANGE("mlp.input all-gather", ff_gather_second_input, NULL),
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
