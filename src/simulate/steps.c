/* From the program to steps: what an action of a stage does, once for all microbatches alike.
 *
 *     walk of few microbatches            steps, for a chunk's first, middle and last microbatch
 *     F0  gather, norm, qkv, ...    ->    push 0 | wait, push 1, norm, qkv, ... | wait, next, ...
 *     B1  recompute, dX, dW, ...    ->    ... dX, regather beside it, dW, push gradients
 *
 * A unit's gather is pushed when the unit before it begins (prefetch of depth one) and waited for
 * before its own first operator. ZeRO-2 reduces in every microbatch and frees its buckets: an
 * action begins when the reductions of the one before are done. A microbatch is the chunk's first,
 * its last, both or neither: that is all that makes its steps differ. */
#include "simulate/internal.h"

#include "base/number.h"
#include <string.h>

enum { MOST_LISTS = 2 * FF_MODEL_MAX_KINDS + 3 };

/* Cost of a list's operators, made once. */
typedef struct list_cost {
    const ff_layer_list *list;
    bool is_layer;
    ff_step *step;                             /* [operators] */
    int64_t host_forward_ps, host_backward_ps; /* what the host takes longer than the device */
    int64_t backward_wait_ps, ahead_ps; /* waits alone; what a head lets the host get ahead */
} list_cost;

typedef struct builder {
    const ff_simulation_inputs *in;
    ff_arena *arena;
    const ff_program *program;
    ff_schedule_shape shape; /* of the short program */
    bool split;
    list_cost list[MOST_LISTS];
    int lists;
    /* the stage and action being read */
    ff_stage_steps *stage;
    int64_t stage_index, units, units_before;
    bool waits_for_weights; /* updated ones are gathered under the first forwards */
    ff_chunk_content content;
    ff_steps *steps; /* NULL: known already */
    ff_steps raw;
    const ff_action *action;
    const list_cost *block; /* whose operators come */
    int block_layer;
    int64_t unit;     /* last unit waited for */
    int64_t ahead_ps; /* what the host has issued beyond what the device has done */
} builder;

int64_t ff_picoseconds(double seconds) {
    return seconds < 1e6 ? (int64_t)(seconds * 1e12 + 0.5) : INT64_C(1000000000000000000);
}

int32_t ff_link_of(const ff_reach *reach) {
    return reach->domains > 1 ? FF_STREAM_NETWORK : FF_STREAM_DOMAIN;
}

bool ff_overlaps_gathers(const ff_cost *cost) {
    return cost->profile->gather_overlap_ratio > 0;
}

static bool overlaps_reduction(const ff_cost *cost, const ff_operator *op) {
    return (op->collective == FF_REDUCE_SCATTER ? cost->profile->sharded_overlap_ratio
                                                : cost->profile->gradient_overlap_ratio) > 0;
}

int ff_template_place(const ff_schedule_shape *shape, const ff_action *action) {
    int32_t first, count;
    ff_schedule_chunk_microbatches(shape, action->chunk, &first, &count);
    return (action->microbatch == first) + 2 * (action->microbatch == first + count - 1);
}

/* ---- appending ---- */

static void append(builder *b, ff_steps *to, const ff_step *step) {
    if (to->count == to->room) {
        int64_t room = to->room == 0 ? 64 : 2 * to->room;
        ff_step *more = FF_ARENA_ARRAY(b->arena, room, ff_step);
        if (to->count > 0)
            memcpy(more, to->step, (size_t)to->count * sizeof *more);
        to->step = more;
        to->room = room;
    }
    to->step[to->count++] = *step;
}

static void count_call(ff_steps *to, const ff_operator *op) {
    to->counts = ff_count_operator(op, 1, to->calls, to->counts);
}

/* A collective that is no layer's: all of it. */
static ff_step whole_collective(const builder *b, const ff_operator *op, ff_step_kind kind) {
    ff_reach reach = ff_reach_of_sync(b->in->cost, b->in->layout, b->in->reaches, op);
    double bytes = (double)op->elements * op->element_bytes;
    double all_s = (double)op->calls * ff_collective_s(b->in->cost, &reach, op->collective, bytes);
    ff_step step = {.kind = kind,
                    .name = op->name,
                    .layer = -1,
                    .link = ff_link_of(&reach),
                    .exposure = (int32_t)ff_exposure_of(op->group),
                    .bytes = (int64_t)bytes};
    *(kind == FF_STEP_PUSH ? &step.work_ps : &step.exposed_ps) = ff_picoseconds(all_s);
    return step;
}

/* ---- operators of lists ---- */

static ff_step operator_step(const builder *b, ff_dtype dtype, const ff_layer_list *list,
                             const ff_operator *op) {
    ff_operator_time t =
        ff_operator_time_of(b->in->cost, dtype, b->in->reaches, list, op, b->split);
    if (op->kind != FF_OPERATOR_COLLECTIVE)
        return (ff_step){.kind = FF_STEP_COMPUTE,
                         .name = op->name,
                         .link = -1,
                         .work_ps = ff_picoseconds(t.compute_s)};
    ff_step step = whole_collective(b, op, FF_STEP_COLLECTIVE);
    step.work_ps = ff_picoseconds(t.slowdown_s);
    step.hidden_ps = ff_picoseconds(t.hidden_s);
    step.exposed_ps = ff_picoseconds(t.exposed_s);
    return step;
}

static void add_list(builder *b, const ff_layer_list *list, bool is_layer) {
    ff_dtype dtype = ff_recipe_describe(b->in->layout->recipe)->compute;
    if (!is_layer)
        dtype = ff_dtype_of_ends(dtype);
    list_cost *l = &b->list[b->lists++];
    *l = (list_cost){.list = list, .is_layer = is_layer};
    l->step = FF_ARENA_ARRAY(b->arena, list->operators + 1, ff_step);
    for (int i = 0; i < list->operators; i++)
        l->step[i] = operator_step(b, dtype, list, &list->op[i]);
    ff_block_time with, without;
    ff_block_time_of(b->in->cost, dtype, b->in->reaches, list, is_layer, &with);
    ff_block_time_of(b->in->cost, dtype, b->in->reaches, list, false, &without);
    ff_stage_time stage = ff_stage_time_start(b->in->layout);
    l->ahead_ps = ff_picoseconds(ff_ahead_s(&with, &stage));
    l->backward_wait_ps = ff_picoseconds(with.backward_wait_s);
    l->host_forward_ps = ff_picoseconds(with.forward_s - without.forward_s);
    l->host_backward_ps = ff_picoseconds(with.backward_s - without.backward_s);
}

static void add_lists(builder *b) {
    const ff_model *model = b->in->cost->model;
    for (int kind = 0; kind < model->kinds; kind++)
        for (int recomputed = 0; recomputed < 2; recomputed++)
            add_list(b, ff_program_layer(b->program, kind, recomputed == 1), true);
    add_list(b, ff_program_embedding(b->program), false);
    add_list(b, ff_program_head(b->program), false);
    add_list(b, ff_program_mtp(b->program), false);
}

static const list_cost *list_of(const builder *b, const ff_operator *op) {
    if (b->block != NULL && op >= b->block->list->op &&
        op < b->block->list->op + b->block->list->operators)
        return b->block;
    for (int i = 0; i < b->lists; i++)
        if (op >= b->list[i].list->op && op < b->list[i].list->op + b->list[i].list->operators)
            return &b->list[i];
    return NULL;
}

/* ---- blocks of an action ---- */

/* What of a wait is saved by a host that got ahead while the device worked on the head (step.c). */
static int64_t run_ahead(builder *b) {
    if (b->block->list == ff_program_head(b->program))
        b->ahead_ps += b->block->ahead_ps;
    int64_t wait_ps = b->block->backward_wait_ps;
    int64_t saved_ps = b->ahead_ps < wait_ps ? b->ahead_ps : wait_ps;
    b->ahead_ps -= saved_ps;
    return saved_ps;
}

static void close_block(builder *b) {
    if (b->block == NULL)
        return;
    bool forward = b->action->kind == FF_ACTION_FORWARD;
    bool weight = b->action->kind == FF_ACTION_BACKWARD_WEIGHT;
    int64_t wait_ps = forward ? b->block->host_forward_ps : b->block->host_backward_ps;
    if (!forward && !weight)
        wait_ps -= run_ahead(b);
    if (wait_ps > 0 && !weight)
        append(b, &b->raw,
               &(ff_step){.kind = FF_STEP_COMPUTE,
                          .name = "wait for the host",
                          .layer = b->block_layer,
                          .link = -1,
                          .work_ps = wait_ps});
    b->block = NULL;
}

/* Which unit of its chunk a block is, forward. */
static int64_t unit_of(const builder *b, const list_cost *list, int layer) {
    if (layer >= 0)
        return layer - b->content.first_layer + b->content.embedding;
    if (list->list == ff_program_embedding(b->program))
        return 0;
    return b->content.layers + b->content.embedding;
}

/* Gathers of updated weights go in the order of forwards, so a share of the units needs the same
 * share of the gathers. */
static void wait_for_weights(builder *b, const list_cost *list, int layer) {
    int64_t unit = b->units_before + unit_of(b, list, layer) + 1;
    bool first = (ff_template_place(&b->shape, b->action) & 1) != 0;
    if (b->action->kind != FF_ACTION_FORWARD || !first || !b->waits_for_weights || unit <= b->unit)
        return;
    b->unit = unit;
    append(b, &b->raw,
           &(ff_step){.kind = FF_STEP_WAIT_WEIGHTS,
                      .link = -1,
                      .tag = (int32_t)unit}); /* see settle_waits */
}

static void add_operator(builder *b, const ff_operator *op, int layer) {
    const list_cost *list = list_of(b, op);
    if (list != b->block || layer != b->block_layer) {
        close_block(b);
        wait_for_weights(b, list, layer);
        b->block = list;
        b->block_layer = layer;
    }
    ff_step step = list->step[op - list->list->op];
    step.layer = layer;
    append(b, &b->raw, &step);
    if (op->kind == FF_OPERATOR_COLLECTIVE)
        count_call(&b->raw, op);
}

static void add_sync(builder *b, const ff_operator *op, int layer) {
    bool gather = op->collective == FF_ALL_GATHER;
    close_block(b);
    count_call(&b->raw, op);
    bool each = b->in->layout->zero == 2;
    bool overlaps = gather || overlaps_reduction(b->in->cost, op);
    ff_step step = whole_collective(b, op, overlaps ? FF_STEP_PUSH : FF_STEP_COLLECTIVE);
    step.layer = layer;
    step.tag = gather;
    bool late = !overlaps && !each;
    append(b, late ? &b->stage->late : &b->raw, &step);
}

/* ---- from raw to template ---- */

static bool is_gather(const ff_step *step) {
    return step->kind == FF_STEP_PUSH && step->tag != 0;
}

/* Moves each unit's gathers in front of the unit before it. */
static void prefetch(builder *b, ff_steps *to) {
    const ff_steps *raw = &b->raw;
    int64_t i = 0;
    for (; i < raw->count && is_gather(&raw->step[i]); i++)
        append(b, to, &raw->step[i]);
    to->first_pushes = i;
    while (i < raw->count) {
        int64_t next = i, begin = i;
        while (next < raw->count && !is_gather(&raw->step[next]))
            next++;
        int64_t after = next;
        while (after < raw->count && is_gather(&raw->step[after]))
            after++;
        append(b, to, &(ff_step){.kind = FF_STEP_WAIT_GATHERS, .link = -1});
        for (int64_t j = next; j < after; j++)
            append(b, to, &raw->step[j]);
        if (after == next)
            append(b, to, &(ff_step){.kind = FF_STEP_NEXT, .link = -1});
        for (int64_t j = begin; j < next; j++)
            append(b, to, &raw->step[j]);
        i = after;
    }
}

static const char *name_of_action(ff_action_kind kind) {
    static const char *const names[] = {[FF_ACTION_FORWARD] = "forward",
                                        [FF_ACTION_BACKWARD] = "backward",
                                        [FF_ACTION_BACKWARD_INPUT] = "input gradient",
                                        [FF_ACTION_BACKWARD_WEIGHT] = "weight gradient"};
    return names[kind];
}

/* Sums up compute, and what is waited for by dimension, between points where streams meet. */
static void condense(builder *b, const ff_steps *from, ff_steps *to) {
    ff_step compute = {
        .kind = FF_STEP_COMPUTE, .name = name_of_action(b->action->kind), .layer = -1, .link = -1};
    static const char *const waits[FF_EXPOSED_COUNT] = {"wait for TP", "wait for PP", "wait for CP",
                                                        "wait for EP", "wait for DP"};
    int64_t exposed_ps[FF_EXPOSED_COUNT] = {0};
    to->first_pushes = from->first_pushes;
    for (int64_t i = 0; i <= from->count; i++) {
        const ff_step *step = i < from->count ? &from->step[i] : NULL;
        if (step != NULL && (step->kind == FF_STEP_COMPUTE || step->kind == FF_STEP_COLLECTIVE)) {
            compute.work_ps += step->work_ps;
            exposed_ps[step->exposure] += step->exposed_ps;
            continue;
        }
        if (compute.work_ps > 0)
            append(b, to, &compute);
        compute.work_ps = 0;
        for (int e = 0; e < FF_EXPOSED_COUNT; e++) {
            if (exposed_ps[e] > 0)
                append(b, to,
                       &(ff_step){.kind = FF_STEP_COLLECTIVE,
                                  .name = waits[e],
                                  .layer = -1,
                                  .link = -1,
                                  .exposure = e,
                                  .exposed_ps = exposed_ps[e]});
            exposed_ps[e] = 0;
        }
        if (step != NULL)
            append(b, to, step);
    }
}

static bool has_gathers(const ff_steps *raw) {
    for (int64_t i = 0; i < raw->count; i++)
        if (is_gather(&raw->step[i]))
            return true;
    return false;
}

static void close_action(builder *b) {
    if (b->steps == NULL)
        return;
    close_block(b);
    ff_steps ordered = {0};
    if (has_gathers(&b->raw))
        prefetch(b, &ordered);
    else
        ordered = b->raw;
    if (b->in->detail == FF_DETAIL_OPERATOR)
        *b->steps = ordered;
    else
        condense(b, &ordered, b->steps);
    b->steps->counts = b->raw.counts;
    memcpy(b->steps->calls, b->raw.calls, sizeof b->raw.calls);
    b->steps->made = true;
    b->steps->times = 0;
    b->steps = NULL;
    b->raw = (ff_steps){0};
}

/* ---- the walk ---- */

static int64_t units_in(const ff_chunk_content *content) {
    return content->layers + content->embedding + content->head;
}

static void open_action(builder *b, const ff_action *action) {
    close_action(b);
    b->action = action;
    b->ahead_ps = 0;
    if (action->kind > FF_ACTION_BACKWARD_WEIGHT)
        return;
    int place = ff_template_place(&b->shape, action);
    ff_steps **slot =
        &b->stage
             ->of[((int64_t)action->chunk * FF_TEMPLATE_KINDS + action->kind) * FF_TEMPLATE_PLACES +
                  place];
    if (*slot != NULL)
        return;
    *slot = b->steps = FF_ARENA_NEW(b->arena, ff_steps);
    const ff_simulation_inputs *in = b->in;
    if (in->layout->zero == 2)
        append(b, &b->raw,
               &(ff_step){
                   .kind = FF_STEP_DRAIN, .name = "wait for reductions", .layer = -1, .link = -1});
    b->unit = b->units_before = 0;
    for (int64_t chunk = 0; chunk <= action->chunk; chunk++) {
        b->units_before += chunk == 0 ? 0 : units_in(&b->content);
        ff_program_chunk(in->cost->model, in->layout, b->stage_index, chunk, &b->content);
    }
}

static void add_to_end(builder *b, const ff_operator *op) {
    if (op->timing == FF_TIMING_BEHIND_LAYERS) {
        ff_step step = whole_collective(b, op, FF_STEP_PUSH);
        append(b, &b->stage->gathers, &step);
        count_call(&b->stage->gathers, op);
        return;
    }
    ff_step step = whole_collective(b, op, FF_STEP_COLLECTIVE);
    bool over_stages = (op->group & FF_AXES(FF_AXIS_PP)) != 0;
    bool over_ranks = (op->group & ~FF_AXES(FF_AXIS_PP)) != 0;
    step.tag = !over_stages ? FF_MEET_NOBODY : over_ranks ? FF_MEET_ALL : FF_MEET_MIRROR;
    append(b, &b->stage->end, &step);
    count_call(&b->stage->end, op);
}

static void visit(void *context, const ff_event *event) {
    builder *b = context;
    if (event->op == NULL) {
        open_action(b, event->action);
        return;
    }
    if (event->action == NULL) {
        close_action(b);
        add_to_end(b, event->op);
    } else if (b->steps != NULL && b->action->kind <= FF_ACTION_BACKWARD_WEIGHT) {
        if (list_of(b, event->op) != NULL)
            add_operator(b, event->op, event->layer);
        else
            add_sync(b, event->op, event->layer);
    }
}

/* The waits say how many units come by; what gathers that are was not known when they were made. */
static void settle_waits(const builder *b, ff_stage_steps *steps) {
    int64_t slots = b->in->layout->vpp * FF_TEMPLATE_KINDS * FF_TEMPLATE_PLACES;
    for (int64_t i = 0; i < slots; i++) {
        ff_steps *of = steps->of[i];
        for (int64_t j = 0; of != NULL && j < of->count; j++)
            if (of->step[j].kind == FF_STEP_WAIT_WEIGHTS)
                of->step[j].tag =
                    (int32_t)ff_ceil_div(of->step[j].tag * steps->gathers.count, b->units);
    }
}

static void read_stage(builder *b, int64_t stage, ff_stage_steps *steps) {
    const ff_layout *layout = b->in->layout;
    *steps = (ff_stage_steps){0};
    steps->of =
        FF_ARENA_ARRAY(b->arena, layout->vpp * FF_TEMPLATE_KINDS * FF_TEMPLATE_PLACES, ff_steps *);
    b->stage = steps;
    b->stage_index = stage;
    b->units = 0;
    b->block = NULL;
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
        ff_program_chunk(b->in->cost->model, layout, stage, chunk, &b->content);
        b->units += units_in(&b->content);
    }
    ff_program_walk(b->program, stage, visit, b);
    close_action(b);
    settle_waits(b, steps);
    ff_sync_time sync;
    ff_sync_time_of(b->in->cost, layout, b->in->reaches,
                    ff_program_stage_params(b->in->cost->model, layout, stage),
                    ff_stage_units(layout, stage), &sync);
    steps->update_ps = ff_picoseconds(sync.update_s);
}

/* The fewest microbatches that have a first, a middle and a last one in every chunk. */
static int32_t few_microbatches(const ff_schedule_shape *shape) {
    ff_schedule_shape few = *shape;
    for (few.microbatches = 1; few.microbatches < shape->microbatches; few.microbatches++) {
        int32_t first, count;
        if (ff_schedule_check(&few, NULL) != FF_OK)
            continue;
        ff_schedule_chunk_microbatches(&few, 0, &first, &count);
        if (count >= 3)
            break;
    }
    return few.microbatches;
}

bool ff_steps_make(const ff_simulation_inputs *inputs, ff_arena *arena, ff_stage_steps *stages,
                   ff_diagnostics *findings) {
    ff_schedule_shape shape = ff_schedule_shape_of(inputs->layout);
    ff_layout short_layout = *inputs->layout;
    short_layout.microbatches = few_microbatches(&shape);
    ff_program_options options = {inputs->cost->seq, inputs->cost->profile->kernels,
                                  inputs->cost->imbalance};
    ff_program *program = ff_program_create(inputs->cost->model, &short_layout, &options, findings);
    if (program == NULL)
        return false;
    builder *b = FF_ARENA_NEW(arena, builder);
    b->in = inputs;
    b->arena = arena;
    b->program = program;
    b->shape = ff_schedule_shape_of(&short_layout);
    b->split = ff_schedule_splits(&shape);
    int zero = inputs->layout->zero;
    b->waits_for_weights = (zero == 1 || zero == 2) && ff_overlaps_gathers(inputs->cost);
    add_lists(b);
    for (int64_t stage = 0; stage < inputs->layout->pp; stage++)
        read_stage(b, stage, &stages[stage]);
    ff_program_free(program);
    return true;
}
