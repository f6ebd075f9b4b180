/* A decoder layer forward: what each name in the program's list does.
 *
 *     x ------------------------------------------+        x: residual stream [T/t or T, h]
 *     '-> norm -[AG]-> qkv -> rope -> core -> out -[RS or AR]-> + x    its bias joins here
 *     x ----------------------------------------+
 *     '-> norm -[AG]-> up -> activation -> down -[RS or AR]-> + x */
#include "engine/operators.h"

static bool attention_norm(ff_rank *rank, const ff_item *item) {
    return ff_norm_forward(rank, item, FF_ROLE_LAYER_NORMS, 0, FF_SLOT_NORM1_IN, FF_SLOT_NORM1_OUT);
}

static bool mlp_norm(ff_rank *rank, const ff_item *item) {
    return ff_norm_forward(rank, item, FF_ROLE_LAYER_NORMS, 1, FF_SLOT_NORM2_IN, FF_SLOT_NORM2_OUT);
}

/* --- attention --- */

static bool qkv(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    int64_t h = ff_hidden(rank), tokens = rank->setup->tokens;
    const real *x = ff_block_input(rank, item, FF_SLOT_NORM1_OUT);
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

static bool rope(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    real *q = *ff_rank_slot(rank, item, FF_SLOT_QUERY);
    real *kv = *ff_rank_slot(rank, item, FF_SLOT_KEY_VALUE);
    if (!ff_rank_needs(rank, item, q, "query") || !ff_rank_needs(rank, item, kv, "key"))
        return false;
    if (ff_turns(rank)) {
        ff_turn(rank, w.q, w.heads, w.dim, false, q);
        ff_turn(rank, 2 * w.kv, w.kv_heads, w.dim, false, kv);
    }
    return true;
}

static bool core(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    int64_t tokens = rank->setup->tokens;
    real *q = *ff_rank_slot(rank, item, FF_SLOT_QUERY);
    real *kv = *ff_rank_slot(rank, item, FF_SLOT_KEY_VALUE);
    if (!ff_rank_needs(rank, item, q, "query") || !ff_rank_needs(rank, item, kv, "key and value"))
        return false;
    real *out = ff_rank_fill(rank, item, FF_SLOT_CORE, tokens * w.q, "attention output");
    real *lse = ff_rank_fill(rank, item, FF_SLOT_LOG_SUM_EXP, tokens * w.heads, "log-sum-exp");
    ff_attend attend = ff_attend_of(rank, &w);
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
    ff_k_segments(&order, width, ff_own_chunks(rank));
    f->partial = ff_rank_take(rank, ff_all_elements(rank), "partial product");
    ff_forward_product(rank, x, weight, ff_hidden(rank), width, &order, f->partial);
    f->bias = ff_rank_weights(rank, item, bias);
    return rank->fault[0] == '\0';
}

static bool out(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
    return row_product(rank, item, FF_SLOT_CORE, FF_ROLE_O, FF_ROLE_O_BIAS, w.q);
}

/* The branch joins the stream, in a tensor of its own: the old one waits for backward. */
static bool residual(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    int64_t tokens = rank->setup->shard_tokens, h = ff_hidden(rank);
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
    ff_widths w = ff_widths_of(rank, item);
    int64_t width = w.inner * (w.gated ? 2 : 1), tokens = rank->setup->tokens;
    const real *x = ff_block_input(rank, item, FF_SLOT_NORM2_OUT);
    const real *weight = ff_rank_weights(rank, item, w.gated ? FF_ROLE_GATE : FF_ROLE_UP);
    if (x == NULL || weight == NULL)
        return false;
    real *inner = ff_rank_fill(rank, item, FF_SLOT_INNER, tokens * width, "inner");
    ff_forward_product(rank, x, weight, width, ff_hidden(rank), NULL, inner);
    const real *bias = ff_rank_weights(rank, item, FF_ROLE_UP_BIAS);
    if (bias != NULL)
        rank->rows->add_row(inner, tokens, width, bias);
    ff_rank_give(rank, &rank->frame.gathered);
    return true;
}

static bool activation(ff_rank *rank, const ff_item *item) {
    ff_widths w = ff_widths_of(rank, item);
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
    ff_widths w = ff_widths_of(rank, item);
    return row_product(rank, item, FF_SLOT_PRODUCT, FF_ROLE_DOWN, FF_ROLE_DOWN_BIAS, w.inner);
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
    FF_EXCHANGE("mlp.all-gather", ff_gather_second_input, NULL),
    FF_RUN("mlp.up", up),
    FF_RUN("mlp.activation", activation),
    FF_RUN("mlp.down", down),
    FF_EXCHANGE("mlp.reduce-scatter", ff_reduce_branch, ff_branch_reduced),
    FF_EXCHANGE("mlp.all-reduce", ff_reduce_branch, ff_branch_reduced),
    {0},
};
