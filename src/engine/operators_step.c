/* What a step does beside its microbatches: gathers and reductions of weights and gradients, sums at
 * the step's end, the update.
 *
 *     block k of a chunk's weights   |<------ bucket or unit ------>|
 *     shards of n ranks              | 0   | 1   | 2   |  ...  | n-1|     this rank's lie one after
 *                                                                         another in `shard`
 *
 *              weights held      gradients                      what is reduced, and to where
 *   ZeRO-0     all               accumulate in full             block, in place
 *   ZeRO-1     all               accumulate in full             block, own shard in place
 *   ZeRO-2     all               a bucket a microbatch          to the shard, which accumulates
 *   ZeRO-3     shard             a unit a microbatch            to the shard, which accumulates
 *   resident 3 shard and all     accumulate in full             to the shard, once */
#include "engine/blocks.h"
#include "engine/operators.h"

#include <math.h>
#include <string.h>

static real *shard_gradient(const ff_rank *rank, ff_chunk *chunk, const ff_own_span *s) {
    return rank->zero <= 1 ? chunk->full[0].work + s->begin : chunk->sharded.work + s->shard;
}

static real *shard_weights(const ff_rank *rank, ff_chunk *chunk, const ff_own_span *s) {
    return rank->zero == 3 ? chunk->shard + s->shard : chunk->weights + s->begin;
}

/* --- gathers --- */

static real *gathers_into(ff_rank *rank, const ff_chunk *chunk, int unit) {
    if (chunk->weights != NULL)
        return chunk->weights + chunk->unit[unit].offset;
    if (rank->tied_weights != NULL && chunk->unit[unit].kind == FF_UNIT_EMBEDDING)
        return rank->tied_weights;
    return rank->gather_buffer[rank->next_gather ^= 1];
}

static bool gather_weights(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_chunk *chunk = &rank->chunk[item->action.chunk];
    if (!item->in_action) {
        ff_block_travels(rank, chunk, item->block, e);
        e->whole = (char *)(chunk->weights + chunk->block_begin[item->block]);
        if (!rank->updated)
            ff_step_update(rank);
        return true;
    }
    int64_t shard = ff_block_travels(rank, chunk, item->unit, e); /* units are ZeRO-3's blocks */
    e->whole = (char *)gathers_into(rank, chunk, item->unit);
    e->part = (char *)(chunk->shard + shard);
    return true;
}

static bool weights_gathered(ff_rank *rank, const ff_item *item) {
    if (item->in_action)
        rank->chunk[item->action.chunk].unit_weights[item->unit] =
            (const real *)rank->exchange.whole;
    return true;
}

/* --- reductions --- */

static bool reduce_gradients(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    ff_chunk *chunk = &rank->chunk[item->action.chunk];
    int64_t begin = chunk->block_begin[item->block], end = chunk->block_begin[item->block + 1];
    int64_t shard = ff_block_travels(rank, chunk, item->block, e);
    if (rank->streams) {
        e->whole = (char *)rank->bucket;
    } else if (rank->shards_gradients) {
        e->whole = (char *)(rank->bucket + (begin - rank->bucket_begin));
    } else {
        ff_accumulate(rank->rows, &chunk->full[0], item->action.microbatch, true, begin, end);
        e->whole = (char *)(chunk->full[0].work + begin);
    }
    rank->unsent = end;
    if (rank->zero >= 2)
        e->part = (char *)(chunk->sharded.work + shard);
    return true;
}

/* Under ZeRO-2 a unit's gradients need room behind what has not left yet. */
void ff_step_make_room(ff_rank *rank, const ff_unit *unit) {
    if (!rank->shards_gradients || rank->streams ||
        unit->offset + unit->elements - rank->bucket_begin <= rank->bucket_room)
        return;
    memmove(rank->bucket, rank->bucket + (rank->unsent - rank->bucket_begin),
            (size_t)(unit->offset - rank->unsent) * sizeof(real));
    rank->bucket_begin = rank->unsent;
}

/* Gradients of a microbatch join the sum, where no reduction has done it. */
bool ff_step_close_backward(ff_rank *rank, const ff_action *action) {
    ff_chunk *chunk = &rank->chunk[action->chunk];
    int64_t index = action->microbatch;
    bool last = index == rank->setup->layout.microbatches - 1;
    if (rank->shards_gradients) {
        ff_accumulate(rank->rows, &chunk->sharded, index, last, 0, chunk->shard_elements);
        if (!last)
            ff_accumulate_keep(&rank->store, &chunk->sharded, index);
        return true;
    }
    for (int set = 0; set < rank->sets; set++) {
        if (!last || rank->shard_group == 1)
            ff_accumulate(rank->rows, &chunk->full[set], index, last, 0, chunk->elements);
        if (!last)
            ff_accumulate_keep(&rank->store, &chunk->full[set], index);
    }
    return true;
}

/* --- the step's end --- */

typedef void visit_part(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at);

/* Every part of every unit, with its place in the chunk's weights. */
static void visit_parts(ff_rank *rank, visit_part *visit) {
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++) {
        ff_chunk *chunk = &rank->chunk[c];
        for (int u = 0; u < chunk->units; u++)
            for (int p = 0; p < chunk->unit[u].parts; p++)
                visit(rank, chunk, &chunk->unit[u].part[p],
                      chunk->unit[u].offset + chunk->unit[u].part[p].offset);
    }
}

static void sum_sets(const ff_rank *rank, ff_chunk *chunk, int first, int count, int64_t at,
                     int64_t elements) {
    int half = count / 2;
    if (count == 1)
        return;
    sum_sets(rank, chunk, first, half, at, elements);
    sum_sets(rank, chunk, first + half, half, at, elements);
    rank->rows->add(chunk->full[first].work + at, chunk->full[first + half].work + at, elements,
                    chunk->full[first].work + at);
}

static void join_sets(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at) {
    if (part->tensor.shard == FF_SHARD_REPLICATED)
        sum_sets(rank, chunk, 0, rank->own_parts, at, part->elements);
    if (part->role == FF_ROLE_EMBEDDING && rank->sets > rank->own_parts)
        rank->rows->add(chunk->full[0].work + at, chunk->full[rank->own_parts].work + at,
                        part->elements, chunk->full[0].work + at);
}

bool ff_step_end(ff_rank *rank) {
    if (rank->sets > 1)
        visit_parts(rank, join_sets);
    return true;
}

/* Runs `use` on what this rank holds summed up of a part. */
typedef void use_shard(ff_rank *rank, ff_chunk *chunk, const ff_part *part, const ff_own_span *s,
                       int64_t at);

static void visit_shard(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at,
                        use_shard *use) {
    for (int piece = 0; piece < chunk->pieces; piece++) {
        ff_own_span s = ff_own_span_of(rank, chunk, piece);
        int64_t begin = s.begin > at ? s.begin : at;
        int64_t end = s.end < at + part->elements ? s.end : at + part->elements;
        if (begin >= end)
            continue;
        ff_own_span inside = {begin, end, s.shard + begin - s.begin};
        use(rank, chunk, part, &inside, begin - at);
    }
}

/* Replicated parts lie one after another in the exchange's buffer; what other ranks have summed up
 * travels too, as zeros, and is not looked at (as Megatron-LM sends whole gradient buffers). */
static void pack_replicated(ff_rank *rank, ff_chunk *chunk, const ff_part *part,
                            const ff_own_span *s, int64_t at) {
    (void)part;
    memcpy(rank->side_buffer + rank->side_at + at, shard_gradient(rank, chunk, s),
           (size_t)(s->end - s->begin) * sizeof(real));
}

static void unpack_replicated(ff_rank *rank, ff_chunk *chunk, const ff_part *part,
                              const ff_own_span *s, int64_t at) {
    (void)part;
    memcpy(shard_gradient(rank, chunk, s), rank->side_buffer + rank->side_at + at,
           (size_t)(s->end - s->begin) * sizeof(real));
}

static void pack_part(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at) {
    if (part->tensor.shard != FF_SHARD_REPLICATED)
        return;
    visit_shard(rank, chunk, part, at, pack_replicated);
    rank->side_at += part->elements;
}

static void unpack_part(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at) {
    if (part->tensor.shard != FF_SHARD_REPLICATED)
        return;
    visit_shard(rank, chunk, part, at, unpack_replicated);
    rank->side_at += part->elements;
}

static void count_replicated(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at) {
    (void)chunk;
    (void)at;
    if (part->tensor.shard == FF_SHARD_REPLICATED)
        rank->side_at += part->elements;
}

static bool share_replicated(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    (void)item;
    rank->side_at = 0;
    visit_parts(rank, count_replicated);
    e->elements = rank->side_at;
    rank->side_buffer =
        ff_store_take(&rank->store, FF_STORE_COMMUNICATION, e->elements, "replicated gradients");
    memset(rank->side_buffer, 0, (size_t)e->elements * sizeof(real));
    rank->side_at = 0;
    visit_parts(rank, pack_part);
    e->whole = (char *)rank->side_buffer;
    return true;
}

static bool replicated_shared(ff_rank *rank, const ff_item *item) {
    (void)item;
    rank->side_at = 0;
    visit_parts(rank, unpack_part);
    ff_rank_give(rank, &rank->side_buffer);
    return true;
}

/* First stage's embedding and last stage's copy. */
static bool visit_copy(ff_rank *rank, use_shard *use, int64_t *elements) {
    ff_role role = rank->stage == 0 ? FF_ROLE_EMBEDDING : FF_ROLE_OUTPUT;
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++) {
        ff_chunk *chunk = &rank->chunk[c];
        for (int u = 0; u < chunk->units; u++) {
            const ff_part *part = ff_unit_part(&chunk->unit[u], role);
            if (part == NULL)
                continue;
            *elements = part->elements;
            if (use != NULL)
                visit_shard(rank, chunk, part, chunk->unit[u].offset + part->offset, use);
            return true;
        }
    }
    return false;
}

/* Both ranks have summed up the same part of it (blocks.h). */
static bool share_copies(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    if (!visit_copy(rank, NULL, &e->elements))
        return ff_rank_needs(rank, item, NULL, "embedding");
    rank->side_at = 0;
    rank->side_buffer =
        ff_store_take(&rank->store, FF_STORE_COMMUNICATION, e->elements, "embedding's gradient");
    memset(rank->side_buffer, 0, (size_t)e->elements * sizeof(real));
    e->whole = (char *)rank->side_buffer;
    return visit_copy(rank, pack_replicated, &e->elements);
}

static bool copies_shared(ff_rank *rank, const ff_item *item) {
    (void)item;
    int64_t elements;
    visit_copy(rank, unpack_replicated, &elements);
    ff_rank_give(rank, &rank->side_buffer);
    return true;
}

/* Every gradient counts once: a copy not at all, a replica where its first rank is. */
static void add_norm(ff_rank *rank, ff_chunk *chunk, const ff_part *part, const ff_own_span *s,
                     int64_t at) {
    (void)at;
    bool replica = part->tensor.shard == FF_SHARD_REPLICATED && rank->tp_index > 0;
    bool copy = part->role == FF_ROLE_OUTPUT && rank->setup->model.tied_head;
    if (replica || copy || (rank->zero == 0 && rank->dp_index > 0))
        return;
    ff_grid_add_squares(shard_gradient(rank, chunk, s), s->end - s->begin, &rank->norm_sum);
}

static void add_norm_of(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at) {
    visit_shard(rank, chunk, part, at, add_norm);
}

static void sum_own_norm(ff_rank *rank) {
    rank->norm_sum = (ff_grid_sum){0};
    visit_parts(rank, add_norm_of);
}

static bool share_norm(ff_rank *rank, const ff_item *item, ff_exchange *e) {
    (void)item;
    sum_own_norm(rank);
    rank->norm_shared = true;
    e->combine = FF_COMBINE_GRID;
    e->width = (int)sizeof(ff_grid_sum);
    e->whole = (char *)&rank->norm_sum;
    e->elements = 1;
    return true;
}

/* --- update --- */

static ff_adamw rule_of(const ff_rank *rank) {
    const ff_engine_options *o = &rank->setup->options;
    double step = (double)(rank->step + 1);
    double scale = o->clip > 0 && rank->norm > o->clip ? o->clip / rank->norm : 1;
    return (ff_adamw){.rate = (real)rank->rate,
                      .beta1 = (real)o->beta1,
                      .beta2 = (real)o->beta2,
                      .epsilon = (real)o->epsilon,
                      .decay = (real)o->decay,
                      .unbias1 = (real)(1 / (1 - pow(o->beta1, step))),
                      .unbias2 = (real)(1 / (1 - pow(o->beta2, step))),
                      .scale = (real)scale};
}

static void update_shard(ff_rank *rank, ff_chunk *chunk, const ff_part *part, const ff_own_span *s,
                         int64_t at) {
    (void)at;
    ff_adamw rule = rule_of(rank);
    if (!ff_part_decays(part))
        rule.decay = 0;
    const real *gradient = shard_gradient(rank, chunk, s);
    real *weights = shard_weights(rank, chunk, s);
    if (rank->setup->options.update == FF_UPDATE_SGD)
        rank->rows->sgd(&rule, s->end - s->begin, gradient, weights);
    else
        rank->rows->adamw(&rule, s->end - s->begin, gradient, chunk->moment1 + s->shard,
                          chunk->moment2 + s->shard, weights);
}

static void update_part(ff_rank *rank, ff_chunk *chunk, const ff_part *part, int64_t at) {
    visit_shard(rank, chunk, part, at, update_shard);
}

void ff_step_update(ff_rank *rank) {
    rank->updated = true;
    if (!rank->norm_shared)
        sum_own_norm(rank);
    rank->norm = ff_grid_norm(&rank->norm_sum);
    visit_parts(rank, update_part);
}

const ff_operator_row ff_step_rows[] = {
    FF_EXCHANGE("weights", gather_weights, weights_gathered),
    {"gradients", NULL, reduce_gradients, NULL, true},
    FF_EXCHANGE("activation transfer", NULL, NULL),
    FF_EXCHANGE("gradient transfer", NULL, NULL),
    FF_EXCHANGE("replicated gradients", share_replicated, replicated_shared),
    FF_EXCHANGE("embedding copies", share_copies, copies_shared),
    FF_EXCHANGE("gradient norm", share_norm, NULL),
    {0},
};
