/* The program as a list that can be walked, and its counts.
 *
 * A unit is what is gathered and freed together under ZeRO-3: a layer, the embedding, or the head
 * with the MTP blocks. Buckets cut a chunk's weights into equal slices; a slice leaves when
 * backward of the chunk's last microbatch (each microbatch under ZeRO-2) has passed it.
 *
 * Invariant: ff_program_counts equals what a walk counts, entry by entry. */
#include "fivefold/program.h"

#include "base/arena.h"
#include "base/number.h"
#include "layout/recipe.h"

struct ff_program {
    ff_arena *arena;
    const ff_model *model; /* copies, in the arena */
    const ff_layout *layout;
    ff_program_options options;
    ff_schedule *schedule;
    ff_layer_list *layer[FF_MODEL_MAX_KINDS][2]; /* by kind, recomputed or not */
    ff_layer_list *embedding, *head, *mtp;
};

static void build_lists(ff_program *p) {
    ff_layer_shape plain = ff_program_layer_shape(p->layout, &p->options, false);
    ff_layer_shape whole = ff_program_layer_shape(p->layout, &p->options, true);
    for (int kind = 0; kind < p->model->kinds; kind++) {
        p->layer[kind][0] = FF_ARENA_NEW(p->arena, ff_layer_list);
        p->layer[kind][1] = FF_ARENA_NEW(p->arena, ff_layer_list);
        ff_layer_build(p->model, kind, &plain, p->layer[kind][0]);
        ff_layer_build(p->model, kind, &whole, p->layer[kind][1]);
    }
    p->embedding = FF_ARENA_NEW(p->arena, ff_layer_list);
    p->head = FF_ARENA_NEW(p->arena, ff_layer_list);
    p->mtp = FF_ARENA_NEW(p->arena, ff_layer_list);
    ff_embedding_build(p->model, &plain, p->embedding);
    ff_head_build(p->model, &plain, p->head);
    ff_mtp_build(p->model, &plain, p->mtp);
}

ff_program *ff_program_create(const ff_model *model, const ff_layout *layout,
                              const ff_program_options *options, ff_diagnostics *findings) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    if (ff_schedule_check(&shape, findings) != FF_OK)
        return NULL;
    ff_schedule *schedule = ff_schedule_create(&shape);
    if (schedule == NULL)
        return NULL;
    ff_arena *arena = ff_arena_create();
    ff_program *program = FF_ARENA_NEW(arena, ff_program);
    ff_model *own_model = FF_ARENA_NEW(arena, ff_model);
    ff_layout *own_layout = FF_ARENA_NEW(arena, ff_layout);
    *own_model = *model;
    *own_layout = *layout;
    *program = (ff_program){.arena = arena,
                            .model = own_model,
                            .layout = own_layout,
                            .options = *options,
                            .schedule = schedule};
    build_lists(program);
    return program;
}

void ff_program_free(ff_program *program) {
    if (program == NULL)
        return;
    ff_schedule_free(program->schedule);
    ff_arena_free(program->arena);
}

const ff_layer_list *ff_program_layer(const ff_program *program, int kind, bool recomputed) {
    return program->layer[kind][recomputed];
}

const ff_layer_list *ff_program_embedding(const ff_program *program) {
    return program->embedding;
}

const ff_layer_list *ff_program_head(const ff_program *program) {
    return program->head;
}

const ff_layer_list *ff_program_mtp(const ff_program *program) {
    return program->mtp;
}

const ff_schedule *ff_program_schedule(const ff_program *program) {
    return program->schedule;
}

/* ---- units of a chunk ---- */

static ff_shard_params layer_params(const ff_program *p, int kind) {
    return ff_layer_shard_params(p->model, kind, p->layout->tp, p->layout->ep, p->layout->etp);
}

static ff_shard_params embedding_params(const ff_program *p) {
    return ff_first_shard_params(p->model, p->layout->tp);
}

static ff_shard_params head_params(const ff_program *p) {
    ff_shard_params head = ff_last_shard_params(p->model, p->layout->tp, p->layout->pp > 1);
    ff_shard_params mtp =
        ff_mtp_shard_params(p->model, p->layout->tp, p->layout->ep, p->layout->etp);
    head.dense = ff_add(head.dense, mtp.dense);
    head.expert = ff_add(head.expert, mtp.expert);
    return head;
}

static ff_shard_params chunk_params(const ff_program *p, const ff_chunk_content *content) {
    ff_shard_params sum = {0};
    for (int kind = 0; kind < p->model->kinds; kind++) {
        ff_shard_params one = layer_params(p, kind);
        sum.dense = ff_add(sum.dense, ff_mul(one.dense, content->of_kind[kind]));
        sum.expert = ff_add(sum.expert, ff_mul(one.expert, content->of_kind[kind]));
    }
    ff_shard_params ends[2] = {content->embedding ? embedding_params(p) : (ff_shard_params){0},
                               content->head ? head_params(p) : (ff_shard_params){0}};
    for (int i = 0; i < 2; i++) {
        sum.dense = ff_add(sum.dense, ends[i].dense);
        sum.expert = ff_add(sum.expert, ends[i].expert);
    }
    return sum;
}

/* ---- the walk ---- */

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

static void emit_phase(walk *w, const ff_layer_list *list, bool forward, int layer) {
    for (int i = 0; i < list->operators; i++)
        if (list->op[i].phase == (forward ? FF_PHASE_FORWARD : FF_PHASE_RECOMPUTE))
            emit(w, &list->op[i], layer);
    if (forward)
        return;
    for (int i = 0; i < list->operators; i++)
        if (list->op[i].phase == FF_PHASE_BACKWARD || list->op[i].phase == FF_PHASE_WEIGHT)
            emit(w, &list->op[i], layer);
}

static bool due(const walk *w, const ff_sync *sync) {
    if (sync->each_microbatch)
        return true;
    int32_t microbatch = w->action->microbatch;
    return sync->moment == FF_SYNC_BEFORE_FORWARD
               ? microbatch == 0
               : microbatch == (int32_t)w->program->layout->microbatches - 1;
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
    int64_t ranks =
        expert ? w->program->layout->edp : w->program->layout->dp * w->program->layout->cp;
    int64_t slices = ff_bucket_count(total, ranks);
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

static void pass_unit(walk *w, ff_shard_params unit, int layer) {
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

static void walk_mtp(walk *w, bool forward) {
    const ff_program *p = w->program;
    for (int i = 0; i < p->model->mtp_layers; i++) {
        emit_phase(w, p->mtp, forward, -1);
        emit_phase(w, p->layer[p->model->mtp_kind][0], forward, -1);
        emit_phase(w, p->head, forward, -1);
    }
}

static void walk_forward(walk *w) {
    const ff_program *p = w->program;
    if (w->content.embedding) {
        sync_unit(w, FF_SYNC_BEFORE_FORWARD, embedding_params(p), -1);
        emit_phase(w, p->embedding, true, -1);
    }
    for (int i = 0; i < w->content.layers; i++) {
        int layer = w->content.first_layer + i;
        sync_unit(w, FF_SYNC_BEFORE_FORWARD, layer_params(p, p->model->layer_kind[layer]), layer);
        emit_phase(w, list_of_layer(w, i), true, layer);
    }
    if (w->content.head) {
        sync_unit(w, FF_SYNC_BEFORE_FORWARD, head_params(p), -1);
        emit_phase(w, p->head, true, -1);
        walk_mtp(w, true);
    }
}

static void walk_backward(walk *w) {
    const ff_program *p = w->program;
    w->passed = (ff_shard_params){0};
    if (w->content.head) {
        sync_unit(w, FF_SYNC_BEFORE_BACKWARD, head_params(p), -1);
        walk_mtp(w, false);
        emit_phase(w, p->head, false, -1);
        pass_unit(w, head_params(p), -1);
    }
    for (int i = w->content.layers - 1; i >= 0; i--) {
        int layer = w->content.first_layer + i;
        ff_shard_params unit = layer_params(p, p->model->layer_kind[layer]);
        sync_unit(w, FF_SYNC_BEFORE_BACKWARD, unit, layer);
        emit_phase(w, list_of_layer(w, i), false, layer);
        pass_unit(w, unit, layer);
    }
    if (w->content.embedding) {
        sync_unit(w, FF_SYNC_BEFORE_BACKWARD, embedding_params(p), -1);
        emit_phase(w, p->embedding, false, -1);
        pass_unit(w, embedding_params(p), -1);
    }
}

static void open_chunk(walk *w, int64_t chunk) {
    const ff_program *p = w->program;
    ff_program_chunk(p->model, p->layout, w->stage, chunk, &w->content);
    w->chunk = chunk_params(p, &w->content);
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
    w.sync_count = ff_program_syncs(program->layout, w.syncs);
    int64_t actions;
    const ff_action *list = ff_schedule_actions(program->schedule, (int32_t)stage, &actions);
    for (int64_t i = 0; i < actions; i++) {
        w.action = &list[i];
        walk_action(&w);
    }
    walk_step(&w);
}

/* ---- the summary ---- */

static bool ordered_before(const ff_count *a, const ff_count *b) {
    if (a->group != b->group)
        return a->group < b->group;
    if (a->phase != b->phase)
        return a->phase < b->phase;
    return a->collective < b->collective;
}

int ff_count_operator(const ff_operator *op, int64_t times, ff_count *counts, int entries) {
    if (op->kind != FF_OPERATOR_COLLECTIVE || times <= 0)
        return entries;
    ff_count more = {
        .collective = op->collective,
        .group = op->group,
        .phase = op->phase,
        .calls = op->calls * times,
        .sent_bytes =
            (double)(op->calls * times) *
            ff_collective_sent_bytes(op->collective, op->elements, op->element_bytes, op->ranks),
    };
    int at = 0;
    while (at < entries && ordered_before(&counts[at], &more))
        at++;
    if (at < entries && !ordered_before(&more, &counts[at])) {
        counts[at].calls += more.calls;
        counts[at].sent_bytes += more.sent_bytes;
        return entries;
    }
    if (entries == FF_MOST_COUNTS)
        return entries;
    for (int i = entries; i > at; i--)
        counts[i] = counts[i - 1];
    counts[at] = more;
    return entries + 1;
}

typedef struct tally {
    const ff_program *program;
    ff_count *counts;
    int entries;
} tally;

static void count_list(tally *t, const ff_layer_list *list, int64_t times) {
    for (int i = 0; i < list->operators; i++)
        t->entries = ff_count_operator(&list->op[i], times, t->counts, t->entries);
}

static void count_sync_of(tally *t, const ff_sync *s, int64_t params, int64_t times, bool expert) {
    ff_operator op;
    if (ff_program_sync_operator(t->program->layout, s, params, expert, &op))
        t->entries = ff_count_operator(&op, times, t->counts, t->entries);
}

static void count_unit(tally *t, const ff_sync *s, ff_shard_params unit, int64_t times) {
    count_sync_of(t, s, unit.dense, times, false);
    count_sync_of(t, s, unit.expert, times, true);
}

static void count_slices(tally *t, const ff_sync *s, int64_t total, int64_t ranks, int64_t times,
                         bool expert) {
    int64_t slices = ff_bucket_count(total, ranks), even = total / slices;
    count_sync_of(t, s, even, times * (slices - 1), expert);
    count_sync_of(t, s, total - even * (slices - 1), times, expert);
}

static void count_sync(tally *t, const ff_sync *s, const ff_chunk_content *content) {
    const ff_program *p = t->program;
    int64_t times = s->each_microbatch ? p->layout->microbatches : 1;
    if (!s->by_layer) {
        ff_shard_params all = chunk_params(p, content);
        count_slices(t, s, all.dense, p->layout->dp * p->layout->cp, times, false);
        count_slices(t, s, all.expert, p->layout->edp, times, true);
        return;
    }
    for (int kind = 0; kind < p->model->kinds; kind++)
        count_unit(t, s, layer_params(p, kind), times * content->of_kind[kind]);
    if (content->embedding)
        count_unit(t, s, embedding_params(p), times);
    if (content->head)
        count_unit(t, s, head_params(p), times);
}

static void count_chunk(tally *t, int64_t stage, int64_t chunk) {
    const ff_program *p = t->program;
    int64_t m = p->layout->microbatches;
    ff_chunk_content content;
    ff_sync syncs[FF_MOST_SYNCS];
    ff_program_chunk(p->model, p->layout, stage, chunk, &content);
    for (int kind = 0; kind < p->model->kinds; kind++) {
        int recomputed = content.recomputed_of_kind[kind];
        count_list(t, p->layer[kind][1], m * recomputed);
        count_list(t, p->layer[kind][0], m * (content.of_kind[kind] - recomputed));
    }
    if (content.embedding)
        count_list(t, p->embedding, m);
    if (content.head) {
        int64_t blocks = p->model->mtp_layers;
        count_list(t, p->head, m * (1 + blocks));
        count_list(t, p->mtp, m * blocks);
        count_list(t, p->layer[p->model->mtp_kind][0], m * blocks);
    }
    int count = ff_program_syncs(p->layout, syncs);
    for (int i = 0; i < count; i++)
        count_sync(t, &syncs[i], &content);
}

/* Every chunk sends its activations on, but the model's last; every chunk sends its gradient back,
 * but the model's first; none is sent to oneself. */
static void count_transfers(tally *t, int64_t stage) {
    const ff_program *p = t->program;
    const ff_layout *layout = p->layout;
    if (layout->pp == 1)
        return;
    ff_operator forward = ff_program_transfer(p->model, layout, p->options.seq, false);
    ff_operator backward = ff_program_transfer(p->model, layout, p->options.seq, true);
    int64_t last = stage == layout->pp - 1, first = stage == 0;
    t->entries = ff_count_operator(&forward, layout->microbatches * (layout->vpp - last), t->counts,
                                   t->entries);
    t->entries = ff_count_operator(&backward, layout->microbatches * (layout->vpp - first),
                                   t->counts, t->entries);
}

int ff_program_counts(const ff_program *program, int64_t stage, ff_count *counts) {
    tally t = {.program = program, .counts = counts};
    ff_operator ops[FF_MOST_STEP_OPERATORS];
    for (int64_t chunk = 0; chunk < program->layout->vpp; chunk++)
        count_chunk(&t, stage, chunk);
    count_transfers(&t, stage);
    int steps = ff_program_step_operators(
        program->model, program->layout, stage,
        ff_program_stage_params(program->model, program->layout, stage).replicated, ops);
    for (int i = 0; i < steps; i++)
        t.entries = ff_count_operator(&ops[i], 1, counts, t.entries);
    return t.entries;
}
