/* The operators of the model's ends: lookup of tokens and positions, head and loss.
 *
 * A rank of tp holds a share of the vocabulary's rows. Lookup: the owner writes the row (and the
 * position's), others zeros; the sum over tp is exact. Loss of a token, over the shares:
 *
 *     top = max logit     [max over tp]     e = exp(logit - top), sum = tree over eighths  [sum]
 *     target = the owner's logit, else 0    [sum]                 loss = top + log(sum) - target
 *
 * The logits' place holds e / sum from forward to backward, then the gradient. Tied weights: with
 * the embedding on another stage the head unit has a copy; on one stage the head reads the
 * embedding's rows, and the gradients of both uses go into one place (the head's first), or apart
 * where the setup says so. */
#include "engine/operators.h"

#include <math.h>
#include <string.h>

/* --- tokens --- */

static int64_t sequence_of(const ff_rank *rank, int64_t microbatch, int64_t s) {
    const ff_layout *layout = &rank->setup->layout;
    int64_t first = rank->setup->microbatch_major
                        ? microbatch * layout->dp + rank->dp_index
                        : rank->dp_index * layout->microbatches + microbatch;
    return first * layout->mbs + s;
}

void ff_rank_deal(ff_rank *rank) {
    const ff_engine_options *options = &rank->setup->options;
    int64_t seq = options->seq;
    int32_t *text = rank->positions + seq; /* room of seq + 1 behind the positions */
    for (int64_t s = 0; s < rank->setup->layout.mbs; s++) {
        options->deal(options->deal_context, rank->step,
                      sequence_of(rank, rank->frame.action.microbatch, s), seq, text);
        for (int64_t place = 0; place < seq; place++) {
            rank->tokens[s * seq + place] = text[rank->positions[place]];
            rank->targets[s * seq + place] = text[rank->positions[place] + 1];
        }
    }
}

/* --- embedding --- */

static bool lookup(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    int64_t h = rank->setup->model.hidden, seq = rank->setup->options.seq;
    const ff_part *part = ff_unit_part(ff_rank_unit(rank, item), FF_ROLE_EMBEDDING);
    const real *rows = ff_rank_weights(rank, item, FF_ROLE_EMBEDDING);
    const real *positions = ff_rank_weights(rank, item, FF_ROLE_POSITIONS);
    if (rows == NULL)
        return false;
    ff_rank_deal(rank);
    f->partial = ff_rank_take(rank, rank->setup->tokens * h, "embedded tokens");
    memset(f->partial, 0, (size_t)(rank->setup->tokens * h) * sizeof(real));
    for (int64_t t = 0; t < rank->setup->tokens; t++) {
        int64_t row = rank->tokens[t] - part->first_row;
        if (row < 0 || row >= part->rows)
            continue;
        real *to = f->partial + t * h;
        rank->rows->add(to, rows + row * h, h, to);
        if (positions != NULL)
            rank->rows->add(to, positions + rank->positions[t % seq] * h, h, to);
    }
    if (rank->setup->layout.tp == 1) {
        f->x = f->partial;
        f->partial = NULL;
        f->owns_x = true;
    }
    return true;
}

static bool embedded(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    ff_branch_reduced(rank, item);
    f->x = f->branch != NULL ? f->branch : f->partial;
    f->owns_x = true;
    f->branch = f->partial = NULL;
    return true;
}

bool ff_tied_here(const ff_rank *rank) {
    return rank->setup->model.tied_head && !ff_program_copies_embedding(&rank->setup->layout);
}

/* Positions are summed over this rank's tokens, as norms are. */
static void scatter_positions(ff_rank *rank, const ff_item *item) {
    int64_t seq = rank->setup->options.seq;
    int64_t tokens = rank->setup->shard_tokens / rank->own_parts;
    int64_t first = ff_has_sp(rank) ? rank->tp_index * rank->setup->shard_tokens : 0;
    const ff_part *part = ff_unit_part(ff_rank_unit(rank, item), FF_ROLE_POSITIONS);
    if (part == NULL)
        return;
    for (int64_t t = 0; t < rank->setup->shard_tokens; t++)
        rank->targets[t] = rank->positions[(first + t) % seq];
    for (int p = 0; p < rank->own_parts; p++) {
        real *d = ff_rank_gradient(rank, item->unit, FF_ROLE_POSITIONS, p);
        ff_scatter scatter = {.dy = rank->frame.dx + p * tokens * ff_hidden(rank),
                              .target = rank->targets + p * tokens,
                              .leaves = ff_leaves_of(rank, tokens),
                              .width = ff_hidden(rank),
                              .count = part->rows};
        memset(d, 0, (size_t)part->elements * sizeof(real));
        ff_scatter_rows(rank->rows, &rank->store, &scatter, d);
    }
}

static bool scatter(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    const real *dy = f->dy != NULL ? f->dy : f->dx;
    const ff_part *part = ff_unit_part(ff_rank_unit(rank, item), FF_ROLE_EMBEDDING);
    if (!ff_rank_needs(rank, item, dy, "stream's gradient"))
        return false;
    real *d = ff_rank_gradient(rank, item->unit, FF_ROLE_EMBEDDING, 0);
    if (rank->tied_gradient != NULL)
        memcpy(d, rank->tied_gradient + part->offset, (size_t)part->elements * sizeof(real));
    else if (!ff_tied_here(rank) || rank->setup->options.tied_apart)
        memset(d, 0, (size_t)part->elements * sizeof(real));
    ff_rank_deal(rank);
    ff_scatter words = {.dy = dy,
                        .target = rank->tokens,
                        .leaves = ff_leaves_of(rank, rank->setup->tokens),
                        .width = ff_hidden(rank),
                        .first = part->first_row,
                        .count = part->rows};
    ff_scatter_rows(rank->rows, &rank->store, &words, d);
    scatter_positions(rank, item);
    ff_rank_give(rank, &f->dy);
    return true;
}

/* --- head --- */

/* The unit and role of the head's matrix. */
static ff_item head_matrix(ff_rank *rank, const ff_item *item, ff_role *role) {
    ff_item of = *item;
    *role = FF_ROLE_OUTPUT;
    if (ff_tied_here(rank)) {
        *role = FF_ROLE_EMBEDDING;
        of.unit = ff_rank_chunk(rank)->units - 1;
    }
    return of;
}

static const ff_part *head_part(ff_rank *rank, const ff_item *item) {
    ff_role role;
    ff_item of = head_matrix(rank, item, &role);
    return ff_unit_part(ff_rank_unit(rank, &of), role);
}

static const real *head_weights(ff_rank *rank, const ff_item *item) {
    ff_role role;
    ff_item of = head_matrix(rank, item, &role);
    return ff_rank_weights(rank, &of, role);
}

static bool head(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    const real *x =
        f->gathered != NULL ? f->gathered : *ff_rank_slot(rank, item, FF_SLOT_NORM1_OUT);
    const real *weight = head_weights(rank, item);
    if (weight == NULL || !ff_rank_needs(rank, item, x, "head's input"))
        return false;
    int64_t width = head_part(rank, item)->rows;
    real *logits = ff_rank_fill(rank, item, FF_SLOT_SOFTMAX, rank->setup->tokens * width, "logits");
    ff_forward_product(rank, x, weight, width, rank->setup->model.hidden, NULL, logits);
    ff_rank_give(rank, &f->gathered);
    return true;
}

/* Columns of this rank's share that are words. */
static int64_t real_columns(ff_rank *rank, const ff_part *part) {
    int64_t words = rank->setup->options.real_vocab - part->first_row;
    return words < 0 ? 0 : words > part->rows ? part->rows : words;
}

static void take_exponents(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    const ff_part *part = head_part(rank, item);
    real *logits = *ff_rank_slot(rank, item, FF_SLOT_SOFTMAX);
    for (int64_t t = 0; t < rank->setup->tokens; t++) {
        int64_t column = rank->targets[t] - part->first_row;
        f->target[t] = column >= 0 && column < part->rows ? logits[t * part->rows + column] : 0;
    }
    rank->rows->row_exponents(logits, rank->setup->tokens, part->rows, real_columns(rank, part),
                              ff_own_chunks(rank), f->top, f->sum);
}

static void take_losses(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    int64_t tokens = rank->setup->tokens;
    real *e = *ff_rank_slot(rank, item, FF_SLOT_SOFTMAX), space[80];
    rank->rows->divide_rows(e, tokens, head_part(rank, item)->rows, f->sum);
    for (int64_t t = 0; t < tokens; t++)
        f->top[t] = f->top[t] + (real)log(f->sum[t]) - f->target[t];
    rank->rows->sum_rows(f->top, 1, ff_leaves_of(rank, tokens), &rank->losses[f->action.microbatch],
                         space);
    ff_rank_give(rank, &f->top);
    ff_rank_give(rank, &f->sum);
    ff_rank_give(rank, &f->target);
}

static bool loss(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    int64_t tokens = rank->setup->tokens;
    const ff_part *part = head_part(rank, item);
    real *logits = *ff_rank_slot(rank, item, FF_SLOT_SOFTMAX);
    if (!ff_rank_needs(rank, item, logits, "logits"))
        return false;
    ff_rank_deal(rank);
    f->top = ff_rank_take(rank, tokens, "largest logits");
    f->sum = ff_rank_take(rank, tokens, "sums of exponentials");
    f->target = ff_rank_take(rank, tokens, "target logits");
    rank->rows->row_maximum(logits, tokens, part->rows, real_columns(rank, part), f->top);
    if (rank->setup->layout.tp > 1)
        return true; /* the exchanges go on */
    take_exponents(rank, item);
    take_losses(rank, item);
    return true;
}

static bool share(ff_rank *rank, const ff_item *item, ff_exchange *e, real *numbers) {
    e->whole = (char *)numbers;
    e->elements = rank->setup->tokens;
    return ff_rank_needs(rank, item, numbers, "loss's numbers");
}

static bool share_maximum(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    e->combine = FF_COMBINE_MAXIMUM;
    return share(rank, item, e, rank->frame.top);
}

static bool maximum_shared(ff_rank *rank, const ff_item *item) {
    take_exponents(rank, item);
    return true;
}

static bool share_target(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    return share(rank, item, e, rank->frame.target);
}

static bool share_sum(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    return share(rank, item, e, rank->frame.sum);
}

static bool sum_shared(ff_rank *rank, const ff_item *item) {
    take_losses(rank, item);
    return true;
}

/* (softmax - target) / tokens of the step. */
static bool loss_backward(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    const ff_part *part = head_part(rank, item);
    real **slot = ff_rank_slot(rank, item, FF_SLOT_SOFTMAX), *d = *slot;
    int64_t tokens = rank->setup->tokens;
    if (!ff_rank_needs(rank, item, d, "softmax"))
        return false;
    ff_rank_deal(rank);
    for (int64_t t = 0; t < tokens; t++) {
        int64_t column = rank->targets[t] - part->first_row;
        if (column >= 0 && column < part->rows)
            d[t * part->rows + column] -= 1;
    }
    rank->rows->scale(d, tokens * part->rows, 1 / (real)rank->setup->batch_tokens);
    f->dinner = d;
    *slot = NULL;
    return true;
}

static bool head_input(ff_rank *rank, const ff_item *item) {
    int64_t width = head_part(rank, item)->rows;
    return ff_column_input(rank, item, head_weights(rank, item), &width, 1);
}

static bool head_weight(ff_rank *rank, const ff_item *item) {
    ff_role role;
    ff_item of = head_matrix(rank, item, &role);
    const ff_part *part = head_part(rank, item);
    int set = ff_tied_here(rank) && rank->setup->options.tied_apart ? rank->own_parts : 0;
    real *dw = rank->tied_gradient != NULL ? rank->tied_gradient + part->offset
                                           : ff_rank_gradient(rank, of.unit, role, set);
    return ff_column_weight(rank, item, FF_SLOT_NORM1_OUT, part->rows, dw, NULL);
}

const ff_operator_row ff_end_rows[] = {
    FF_RUN("embedding.lookup", lookup),
    FF_EXCHANGE("embedding.reduce-scatter", ff_reduce_branch, embedded),
    FF_EXCHANGE("embedding.all-reduce", ff_reduce_branch, embedded),
    FF_EXCHANGE("embedding.dY all-gather", ff_gather_gradient, NULL),
    FF_RUN("embedding.scatter", scatter),
    FF_RUN("final norm", ff_final_norm),
    FF_EXCHANGE("head.all-gather", ff_gather_first_input, NULL),
    FF_RUN("head", head),
    FF_RUN("loss", loss),
    FF_EXCHANGE("loss.max all-reduce", share_maximum, maximum_shared),
    FF_EXCHANGE("loss.target all-reduce", share_target, NULL),
    FF_EXCHANGE("loss.sum all-reduce", share_sum, sum_shared),
    FF_RUN("loss backward", loss_backward),
    FF_RUN("head dX", head_input),
    FF_EXCHANGE("head.input all-gather", ff_gather_first_input, NULL),
    FF_RUN("head dW", head_weight),
    FF_EXCHANGE("head.dX reduce-scatter", ff_reduce_gradient, ff_gradient_reduced),
    FF_EXCHANGE("head.dX all-reduce", ff_reduce_gradient, ff_gradient_reduced),
    FF_RUN("final norm backward", ff_final_norm_backward),
    {0},
};
