/* The program as a list that can be walked.
 *
 *     action F   [gather] embedding, ([gather] layer) ..., [gather] head, MTP blocks
 *     action B   MTP blocks, head, ([gather] recompute, B, W of a layer [reduce]) ..., embedding
 *                (split: the same without W, and later an action W with the W and [reduce] alone)
 *     the end    reductions over TP and PP, gradient norm, optimizer, [gather]
 *
 * Units are gathered and reduced as they come (ZeRO-3). Otherwise buckets cut a chunk's weights
 * into equal slices, and a slice leaves when backward has passed its end: in the chunk's last
 * microbatch, or in each under ZeRO-2. */
#include "program/internal.h"

#include "base/number.h"

typedef struct walk {
    const ff_program *program;
    int64_t stage;
    ff_event_visitor *visit;
    void *context;
    const ff_action *action;
    ff_chunk_content content;
    ff_sync syncs[FF_MOST_SYNCS];
    int sync_count;
    ff_shard_params chunk, passed; /* weights of the chunk; of them behind backward */
} walk;

static void emit(walk *w, const ff_operator *op, int layer) {
    ff_event event = {.action = w->action, .op = op, .layer = layer};
    w->visit(w->context, &event);
}

/* Forward, or what the action's part of backward does: what is recomputed first. */
static void emit_phase(walk *w, const ff_layer_list *list, bool forward, int layer) {
    bool input = w->action->kind != FF_ACTION_BACKWARD_WEIGHT;
    bool weight = w->action->kind != FF_ACTION_BACKWARD_INPUT;
    ff_phase first = forward ? FF_PHASE_FORWARD : FF_PHASE_RECOMPUTE;
    for (int i = 0; i < list->operators; i++)
        if (list->op[i].phase == first && input)
            emit(w, &list->op[i], layer);
    if (forward)
        return;
    for (int i = 0; i < list->operators; i++)
        if ((list->op[i].phase == FF_PHASE_BACKWARD && input) ||
            (list->op[i].phase == FF_PHASE_WEIGHT && weight))
            emit(w, &list->op[i], layer);
}

static bool due(const walk *w, const ff_sync *sync) {
    if (sync->each_microbatch)
        return true;
    ff_schedule_shape shape = ff_schedule_shape_of(w->program->layout);
    int32_t microbatch = w->action->microbatch, first, count;
    ff_schedule_chunk_microbatches(&shape, w->action->chunk, &first, &count);
    return microbatch == (sync->moment == FF_SYNC_BEFORE_FORWARD ? first : first + count - 1);
}

static void sync_unit(walk *w, ff_sync_moment moment, ff_shard_params unit, int layer) {
    for (int i = 0; i < w->sync_count; i++) {
        const ff_sync *s = &w->syncs[i];
        ff_operator op;
        if (s->moment != moment || !s->by_layer || !due(w, s))
            continue;
        if (ff_program_sync_operator(w->program->layout, s, unit.dense, false, &op))
            emit(w, &op, layer);
        if (ff_program_sync_operator(w->program->layout, s, unit.expert, true, &op))
            emit(w, &op, layer);
    }
}

/* Emits the slices whose end lies in (before, after] of `total`. */
static void emit_slices(walk *w, const ff_sync *s, int64_t total, int64_t before, int64_t after,
                        bool expert) {
    int64_t slices = ff_bucket_count(total, program_replicas(w->program->layout, expert));
    for (int64_t i = 0, begin = 0; i < slices; i++) {
        int64_t end = i == slices - 1 ? total : total / slices * (i + 1);
        ff_operator op;
        if (end > before && end <= after &&
            ff_program_sync_operator(w->program->layout, s, end - begin, expert, &op))
            emit(w, &op, -1);
        begin = end;
    }
}

static void sync_buckets(walk *w, ff_sync_moment moment, ff_shard_params before,
                         ff_shard_params after) {
    for (int i = 0; i < w->sync_count; i++) {
        const ff_sync *s = &w->syncs[i];
        if (s->moment != moment || s->by_layer || (w->action != NULL && !due(w, s)))
            continue;
        emit_slices(w, s, w->chunk.dense, before.dense, after.dense, false);
        emit_slices(w, s, w->chunk.expert, before.expert, after.expert, true);
    }
}

/* Before the unit's backward that needs its weights. */
static void enter_unit(walk *w, ff_shard_params unit, int layer) {
    if (w->action->kind != FF_ACTION_BACKWARD_WEIGHT)
        sync_unit(w, FF_SYNC_BEFORE_BACKWARD, unit, layer);
}

/* Its gradients are complete, unless their part is still to come. */
static void pass_unit(walk *w, ff_shard_params unit, int layer) {
    if (w->action->kind == FF_ACTION_BACKWARD_INPUT)
        return;
    ff_shard_params before = w->passed;
    w->passed.dense = ff_add(before.dense, unit.dense);
    w->passed.expert = ff_add(before.expert, unit.expert);
    sync_unit(w, FF_SYNC_AFTER_BACKWARD, unit, layer);
    sync_buckets(w, FF_SYNC_AFTER_BACKWARD, before, w->passed);
}

static const ff_layer_list *list_of_layer(const walk *w, int index) {
    const ff_program *p = w->program;
    int kind = p->model->layer_kind[w->content.first_layer + index];
    int recomputed = 0;
    for (int k = 0; k < p->model->kinds; k++)
        recomputed += w->content.recomputed_of_kind[k];
    return p->layer[kind][index < recomputed];
}

/* A block's projection, layer and pass through the head; backward mirrors. */
static void walk_mtp(walk *w, bool forward) {
    const ff_program *p = w->program;
    const ff_layer_list *const lists[3] = {p->mtp, p->layer[p->model->mtp_kind][0], p->head};
    for (int i = 0; i < p->model->mtp_layers; i++)
        for (int j = 0; j < 3; j++)
            emit_phase(w, lists[forward ? j : 2 - j], forward, -1);
}

static void walk_forward(walk *w) {
    const ff_program *p = w->program;
    if (w->content.embedding) {
        sync_unit(w, FF_SYNC_BEFORE_FORWARD, program_embedding_params(p), -1);
        emit_phase(w, p->embedding, true, -1);
    }
    for (int i = 0; i < w->content.layers; i++) {
        int layer = w->content.first_layer + i;
        sync_unit(w, FF_SYNC_BEFORE_FORWARD, program_layer_params(p, p->model->layer_kind[layer]),
                  layer);
        emit_phase(w, list_of_layer(w, i), true, layer);
    }
    if (w->content.head) {
        sync_unit(w, FF_SYNC_BEFORE_FORWARD, program_head_params(p), -1);
        emit_phase(w, p->head, true, -1);
        walk_mtp(w, true);
    }
}

static void walk_backward(walk *w) {
    const ff_program *p = w->program;
    w->passed = (ff_shard_params){0};
    if (w->content.head) {
        enter_unit(w, program_head_params(p), -1);
        walk_mtp(w, false);
        emit_phase(w, p->head, false, -1);
        pass_unit(w, program_head_params(p), -1);
    }
    for (int i = w->content.layers - 1; i >= 0; i--) {
        int layer = w->content.first_layer + i;
        ff_shard_params unit = program_layer_params(p, p->model->layer_kind[layer]);
        enter_unit(w, unit, layer);
        emit_phase(w, list_of_layer(w, i), false, layer);
        pass_unit(w, unit, layer);
    }
    if (w->content.embedding) {
        enter_unit(w, program_embedding_params(p), -1);
        emit_phase(w, p->embedding, false, -1);
        pass_unit(w, program_embedding_params(p), -1);
    }
}

static void open_chunk(walk *w, int64_t chunk) {
    const ff_program *p = w->program;
    ff_program_chunk(p->model, p->layout, w->stage, chunk, &w->content);
    w->chunk = program_chunk_params(p, &w->content);
}

static void walk_transfer(walk *w, bool of_gradient) {
    const ff_program *p = w->program;
    ff_operator op = ff_program_transfer(p->model, p->layout, p->options.seq, of_gradient);
    emit(w, &op, -1);
}

static void walk_action(walk *w) {
    emit(w, NULL, -1);
    open_chunk(w, w->action->chunk);
    switch (w->action->kind) {
    case FF_ACTION_FORWARD:
        walk_forward(w);
        break;
    case FF_ACTION_BACKWARD:
    case FF_ACTION_BACKWARD_INPUT:
    case FF_ACTION_BACKWARD_WEIGHT:
        walk_backward(w);
        break;
    case FF_ACTION_SEND_ACTIVATION:
        walk_transfer(w, false);
        break;
    case FF_ACTION_SEND_GRADIENT:
        walk_transfer(w, true);
        break;
    default:
        break;
    }
}

static void walk_step(walk *w) {
    const ff_program *p = w->program;
    ff_operator ops[FF_MOST_STEP_OPERATORS];
    w->action = NULL;
    int count = ff_program_step_operators(
        p->model, p->layout, w->stage,
        ff_program_stage_params(p->model, p->layout, w->stage).replicated, ops);
    for (int i = 0; i < count; i++)
        emit(w, &ops[i], -1);
    for (int64_t chunk = 0; chunk < p->layout->vpp; chunk++) {
        open_chunk(w, chunk);
        sync_buckets(w, FF_SYNC_AFTER_OPTIMIZER, (ff_shard_params){0}, w->chunk);
    }
}

void ff_program_walk(const ff_program *program, int64_t stage, ff_event_visitor *visit,
                     void *context) {
    walk w = {.program = program, .stage = stage, .visit = visit, .context = context};
    w.sync_count = ff_program_syncs(program->model, program->layout, w.syncs);
    int64_t actions;
    const ff_action *list = ff_schedule_actions(program->schedule, (int32_t)stage, &actions);
    for (int64_t i = 0; i < actions; i++) {
        w.action = &list[i];
        walk_action(&w);
    }
    walk_step(&w);
}
