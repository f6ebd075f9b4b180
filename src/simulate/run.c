/* All stages together: actions in order, messages between them, the step's end; twice, when the
 * longest path is wanted: the first run finds which messages were waited for, the second sums up
 * what lies on the path that they make, and is the one that is watched.
 *
 *     stage 0   F0 F1 F2 ........ B0 F3 B1            path, from its end back:
 *     stage 1      F0 F1 .... B0 F2 B1                B1 of stage 0, the message it waited for,
 *     stage 2         F0 B0 F1 B1                     what stage 1 did before it sent, ... */
#include "simulate/run.h"

#include "base/number.h"
#include <string.h>

const char *ff_stream_name(ff_stream stream) {
    static const char *const names[] = {"links inside the domain", "network", "compute"};
    return names[stream];
}

const char *ff_wait_name(ff_wait wait) {
    static const char *const names[] = {"activation", "gradient", "step_end"};
    return names[wait];
}

/* ---- the longest path ---- */

static void add_part(ff_simulation *sim, const char *what, int64_t time_ps) {
    if (time_ps <= 0)
        return;
    for (int i = 0; i < sim->parts; i++)
        if (sim->part[i].what == what || strcmp(sim->part[i].what, what) == 0) {
            sim->part[i].time_ps += time_ps;
            return;
        }
    if (sim->parts < FF_MOST_PATH_PARTS)
        sim->part[sim->parts++] = (ff_path_part){what, time_ps};
}

/* Marks the actions on the path that ends a stage, and notes its messages. */
static void trace_back(ff_simulation *sim, int64_t stage) {
    int64_t index = sim->schedule->first[stage + 1] - 1;
    while (index >= sim->schedule->first[stage]) {
        sim->on_path[index] = true;
        int64_t from = sim->bound_by[index];
        if (from < 0) {
            index--;
            continue;
        }
        add_part(sim, "pipeline transfer", sim->transfer_ps);
        stage = sim->schedule->actions[index].peer;
        index = from;
    }
}

static void sort_parts(ff_simulation *sim) {
    for (int i = 1; i < sim->parts; i++) {
        ff_path_part part = sim->part[i];
        int at = i;
        for (; at > 0 && sim->part[at - 1].time_ps < part.time_ps; at--)
            sim->part[at] = sim->part[at - 1];
        sim->part[at] = part;
    }
}

/* ---- actions ---- */

static ff_steps *steps_of(ff_simulation *sim, int64_t stage, const ff_action *action) {
    int place = ff_template_place(&sim->shape, action);
    return sim->steps[stage]
        .of[((int64_t)action->chunk * FF_TEMPLATE_KINDS + action->kind) * FF_TEMPLATE_PLACES +
            place];
}

static void run_step(ff_simulation *sim, stage_state *st, const ff_step *step, bool on_path) {
    int64_t begin = st->streams.now_ps;
    ff_streams_run(&st->streams, step);
    if (on_path)
        add_part(sim,
                 step->kind == FF_STEP_WAIT_GATHERS || step->kind == FF_STEP_WAIT_WEIGHTS
                     ? "wait for weights"
                     : step->name,
                 st->streams.now_ps - begin);
}

static void run_first_pushes(stage_state *st, const ff_steps *steps) {
    for (int64_t i = 0; i < steps->first_pushes; i++)
        ff_streams_run(&st->streams, &steps->step[i]);
}

/* Starts the next computing action's first gathers, once. */
static void prefetch_next(ff_simulation *sim, int64_t stage, int64_t index) {
    const ff_schedule *schedule = sim->schedule;
    stage_state *st = &sim->stage[stage];
    for (int64_t i = index + 1; i < schedule->first[stage + 1]; i++) {
        if (!ff_action_computes(schedule->actions[i].kind))
            continue;
        run_first_pushes(st, steps_of(sim, stage, &schedule->actions[i]));
        st->prefetched = true;
        return;
    }
}

static void note_action(const stage_state *st, const ff_action *action, int64_t begin_ps) {
    static const char *const names[] = {"forward", "backward", "input gradient", "weight gradient"};
    ff_streams_note(&st->streams, FF_STREAM_COMPUTE, names[action->kind], FF_WHOLE_ACTION, begin_ps,
                    st->streams.now_ps, 0);
}

static void run_computation(ff_simulation *sim, int64_t stage, int64_t index) {
    stage_state *st = &sim->stage[stage];
    const ff_action *action = &sim->schedule->actions[index];
    ff_steps *steps = steps_of(sim, stage, action);
    bool on_path = sim->on_path != NULL && sim->on_path[index];
    int64_t begin = st->streams.now_ps;
    st->streams.action = action;
    memory_begin(&st->memory, action, begin);
    if (!st->prefetched)
        run_first_pushes(st, steps);
    st->prefetched = false;
    for (int64_t i = steps->first_pushes; i < steps->count; i++) {
        if (steps->step[i].kind == FF_STEP_NEXT)
            prefetch_next(sim, stage, index);
        else
            run_step(sim, st, &steps->step[i], on_path);
    }
    steps->times++;
    memory_end(&st->memory, action, st->streams.now_ps);
    if (st->streams.observer != NULL)
        note_action(st, action, begin);
    st->streams.action = NULL;
}

/* ---- messages ---- */

static int64_t box_of(const ff_simulation *sim, ff_chunk_place place, const ff_action *action,
                      bool gradient) {
    int64_t box =
        ((int64_t)place.stage * sim->shape.chunks + place.chunk) * sim->shape.microbatches +
        action->microbatch;
    return 2 * box + gradient;
}

static void send(ff_simulation *sim, int64_t stage, int64_t index) {
    const ff_action *action = &sim->schedule->actions[index];
    stage_state *st = &sim->stage[stage];
    ff_chunk_place partner = {0, 0};
    ff_schedule_partner(&sim->shape, (int32_t)stage, action, &partner);
    bool gradient = action->kind == FF_ACTION_SEND_GRADIENT;
    mail *m = &sim->mail[box_of(sim, partner, action, gradient)];
    m->sent_ps = st->streams.now_ps;
    m->arrived_ps =
        m->sent_ps + ff_streams_message_ps(&st->streams, sim->transfer_link, sim->transfer_ps);
    m->from = index;
    st->sends[gradient]++;
}

static void note_message(const ff_simulation *sim, int64_t stage, const ff_action *action,
                         int64_t box, const mail *m) {
    const ff_observer *observer = sim->stage[stage].streams.observer;
    if (observer == NULL || observer->message == NULL)
        return;
    ff_message message = {.id = box,
                          .from = action->peer,
                          .to = stage,
                          .of_gradient = action->kind == FF_ACTION_RECV_GRADIENT,
                          .sent_ps = m->sent_ps,
                          .arrived_ps = m->arrived_ps,
                          .used_ps = sim->stage[stage].streams.now_ps,
                          .bytes = sim->transfer_bytes};
    observer->message(observer->context, &message);
}

static bool receive(ff_simulation *sim, int64_t stage, int64_t index) {
    const ff_action *action = &sim->schedule->actions[index];
    stage_state *st = &sim->stage[stage];
    bool gradient = action->kind == FF_ACTION_RECV_GRADIENT;
    int64_t box = box_of(sim, (ff_chunk_place){(int32_t)stage, action->chunk}, action, gradient);
    const mail *m = &sim->mail[box];
    if (m->arrived_ps < 0)
        return false;
    int64_t wait = m->arrived_ps - st->streams.now_ps;
    if (wait > 0) {
        int64_t moving = ff_min(wait, m->arrived_ps - m->sent_ps);
        ff_streams_idle_until(&st->streams, m->arrived_ps);
        st->streams.exposed_ps[FF_EXPOSED_PP] += moving;
        st->idle_ps[gradient ? FF_WAIT_GRADIENT : FF_WAIT_ACTIVATION] += wait - moving;
    }
    if (sim->bound_by != NULL)
        sim->bound_by[index] = wait > 0 ? m->from : -1;
    note_message(sim, stage, action, box, m);
    return true;
}

static bool perform(ff_simulation *sim, int64_t stage, int64_t index) {
    switch (sim->schedule->actions[index].kind) {
    case FF_ACTION_RECV_ACTIVATION:
    case FF_ACTION_RECV_GRADIENT:
        if (!receive(sim, stage, index))
            return false;
        break;
    case FF_ACTION_SEND_ACTIVATION:
    case FF_ACTION_SEND_GRADIENT:
        send(sim, stage, index);
        break;
    default:
        run_computation(sim, stage, index);
    }
    sim->stage[stage].streams.events++;
    return true;
}

static void run_pipeline(ff_simulation *sim) {
    bool moved = true;
    while (moved) {
        moved = false;
        for (int64_t stage = 0; stage < sim->shape.stages; stage++) {
            int64_t *cursor = &sim->stage[stage].cursor;
            while (*cursor < sim->schedule->first[stage + 1] && perform(sim, stage, *cursor)) {
                ++*cursor;
                moved = true;
            }
        }
    }
    for (int64_t stage = 0; stage < sim->shape.stages; stage++)
        sim->span_ps = ff_max(sim->span_ps, sim->stage[stage].streams.now_ps);
}

/* ---- the step's end ---- */

static int64_t latest_stage(const ff_simulation *sim) {
    int64_t latest = 0;
    for (int64_t stage = 1; stage < sim->shape.stages; stage++)
        if (sim->stage[stage].streams.now_ps > sim->stage[latest].streams.now_ps)
            latest = stage;
    return latest;
}

static void wait_until(stage_state *st, int64_t at_ps) {
    int64_t wait = at_ps - st->streams.now_ps;
    if (wait <= 0)
        return;
    ff_streams_idle_until(&st->streams, at_ps);
    st->idle_ps[FF_WAIT_STEP_END] += wait;
}

/* Runs the end's steps of one kind of meeting, each after those that take part are there. */
static void meet(ff_simulation *sim, ff_meeting meeting, int64_t path_stage) {
    int64_t p = sim->shape.stages, latest = sim->stage[latest_stage(sim)].streams.now_ps;
    for (int64_t stage = 0; meeting == FF_MEET_MIRROR && stage < p / 2; stage++) {
        bool both = sim->steps[stage].end.count > 0;
        int64_t a = sim->stage[stage].streams.now_ps, b = sim->stage[p - 1 - stage].streams.now_ps;
        bool meets = false;
        for (int64_t i = 0; both && i < sim->steps[stage].end.count; i++)
            meets |= sim->steps[stage].end.step[i].tag == FF_MEET_MIRROR;
        if (meets) {
            wait_until(&sim->stage[stage], ff_max(a, b));
            wait_until(&sim->stage[p - 1 - stage], ff_max(a, b));
        }
    }
    for (int64_t stage = 0; stage < p; stage++) {
        const ff_steps *end = &sim->steps[stage].end;
        for (int64_t i = 0; i < end->count; i++) {
            if (end->step[i].tag != (int32_t)meeting)
                continue;
            if (meeting == FF_MEET_ALL)
                wait_until(&sim->stage[stage], latest);
            run_step(sim, &sim->stage[stage], &end->step[i],
                     sim->on_path != NULL && stage == path_stage);
        }
    }
}

static void reduce_late(ff_simulation *sim, int64_t stage, bool on_path) {
    stage_state *st = &sim->stage[stage];
    int64_t begin = st->streams.now_ps;
    ff_streams_drain(&st->streams);
    if (on_path)
        add_part(sim, "wait for gradients", st->streams.now_ps - begin);
    const ff_steps *late = &sim->steps[stage].late;
    for (int64_t i = 0; i < late->count; i++)
        run_step(sim, st, &late->step[i], on_path);
}

static void update(ff_simulation *sim, int64_t stage, bool on_path) {
    stage_state *st = &sim->stage[stage];
    const ff_stage_steps *steps = &sim->steps[stage];
    ff_step adam = {.kind = FF_STEP_COMPUTE,
                    .name = "optimizer",
                    .layer = -1,
                    .link = -1,
                    .work_ps = steps->update_ps};
    run_step(sim, st, &adam, on_path);
    for (int64_t i = 0; i < steps->gathers.count && !ff_overlaps_gathers(sim->in.cost); i++) {
        ff_step gather = steps->gathers.step[i];
        gather.kind = FF_STEP_COLLECTIVE;
        gather.exposed_ps = gather.work_ps;
        gather.work_ps = 0;
        run_step(sim, st, &gather, on_path);
    }
    sim->step_ps = ff_max(sim->step_ps, st->streams.now_ps);
}

static void run_end(ff_simulation *sim, int64_t path_stage) {
    bool path = sim->on_path != NULL;
    for (int64_t stage = 0; stage < sim->shape.stages; stage++)
        reduce_late(sim, stage, path && stage == path_stage);
    meet(sim, FF_MEET_NOBODY, path_stage);
    meet(sim, FF_MEET_MIRROR, path_stage);
    for (int64_t stage = 0; stage < sim->shape.stages; stage++)
        sim->stage[stage].reduced_ps = sim->stage[stage].streams.now_ps;
    meet(sim, FF_MEET_ALL, path_stage);
    for (int64_t stage = 0; stage < sim->shape.stages; stage++)
        update(sim, stage, path && stage == path_stage);
    for (int64_t stage = 0; stage < sim->shape.stages; stage++)
        wait_until(&sim->stage[stage], sim->step_ps);
    int64_t fixed_ps = ff_picoseconds(sim->in.cost->profile->step_fixed_s);
    sim->step_ps += fixed_ps;
    if (path)
        add_part(sim, "the stack's fixed time", fixed_ps);
}

/* ---- one run ---- */

static void start(ff_simulation *sim, const ff_observer *observer) {
    int64_t p = sim->shape.stages;
    for (int64_t i = 0; i < sim->boxes; i++)
        sim->mail[i].arrived_ps = -1;
    sim->span_ps = sim->step_ps = 0;
    for (int64_t stage = 0; stage < p; stage++) {
        stage_state *st = &sim->stage[stage];
        memory_state memory = st->memory;
        *st = (stage_state){.memory = memory, .cursor = sim->schedule->first[stage]};
        memory_reset(&st->memory, observer);
        st->streams.slow_ppm = (int64_t)(sim->in.cost->profile->overlap_slowdown_ratio * 1e6 + 0.5);
        st->streams.observer = observer;
        st->streams.by_operator = sim->in.detail == FF_DETAIL_OPERATOR;
        st->streams.stage = stage;
        st->streams.arena = sim->arena;
        ff_stage_steps *steps = &sim->steps[stage];
        int64_t slots = (int64_t)sim->shape.chunks * FF_TEMPLATE_KINDS * FF_TEMPLATE_PLACES;
        for (int64_t i = 0; i < slots; i++)
            if (steps->of[i] != NULL)
                steps->of[i]->times = 0;
        for (int64_t i = 0; i < steps->gathers.count && ff_overlaps_gathers(sim->in.cost); i++)
            ff_streams_run(&st->streams, &steps->gathers.step[i]);
        for (int32_t link = 0; link < FF_LINKS; link++)
            st->streams.weights[link] = st->streams.link[link].pushed;
    }
}

static void run(ff_simulation *sim, const ff_observer *observer, int64_t path_stage) {
    start(sim, observer);
    run_pipeline(sim);
    run_end(sim, path_stage);
}

/* ---- results ---- */

static void add_counts(ff_stage_result *r, const ff_count *count, int counts, int64_t times) {
    for (int i = 0; i < counts && times > 0; i++)
        r->counts = ff_count_add(&count[i], times, r->count, r->counts);
}

static void fill_counts(const ff_simulation *sim, int64_t stage, ff_stage_result *r) {
    const ff_stage_steps *steps = &sim->steps[stage];
    int64_t slots = (int64_t)sim->shape.chunks * FF_TEMPLATE_KINDS * FF_TEMPLATE_PLACES;
    for (int64_t i = 0; i < slots; i++)
        if (steps->of[i] != NULL)
            add_counts(r, steps->of[i]->calls, steps->of[i]->counts, steps->of[i]->times);
    add_counts(r, steps->end.calls, steps->end.counts, 1);
    add_counts(r, steps->gathers.calls, steps->gathers.counts, 1);
    for (int gradient = 0; gradient < 2; gradient++) {
        ff_operator op = ff_program_transfer(sim->in.cost->model, sim->in.layout, sim->in.cost->seq,
                                             gradient == 1);
        r->counts = ff_count_operator(&op, sim->stage[stage].sends[gradient], r->count, r->counts);
    }
}

static void fill_result(ff_simulation *sim, int64_t stage) {
    ff_stage_result *r = &sim->result[stage];
    const stage_state *st = &sim->stage[stage];
    r->busy_ps = st->streams.busy_ps;
    memcpy(r->exposed_ps, st->streams.exposed_ps, sizeof r->exposed_ps);
    memcpy(r->idle_ps, st->idle_ps, sizeof r->idle_ps);
    r->bubble_ps = st->idle_ps[FF_WAIT_ACTIVATION] + st->idle_ps[FF_WAIT_GRADIENT];
    r->end_ps = st->streams.now_ps;
    memory_result(&st->memory, r);
    fill_counts(sim, stage, r);
    sim->events += st->streams.events;
}

/* ---- making one ---- */

static void fill_transfer(ff_simulation *sim) {
    ff_operator op =
        ff_program_transfer(sim->in.cost->model, sim->in.layout, sim->in.cost->seq, false);
    ff_reach reach = ff_reach_of_operator(sim->in.reaches, &op);
    sim->transfer_link = ff_link_of(&reach);
    sim->transfer_bytes = op.elements * op.element_bytes;
    sim->transfer_ps = ff_picoseconds(ff_transfer_s(sim->in.cost, sim->in.layout, sim->in.reaches));
}

static void allocate(ff_simulation *sim) {
    int64_t p = sim->shape.stages, actions = sim->schedule->first[p];
    sim->stage = FF_ARENA_ARRAY(sim->arena, p, stage_state);
    sim->result = FF_ARENA_ARRAY(sim->arena, p, ff_stage_result);
    sim->boxes = 2 * p * sim->shape.chunks * sim->shape.microbatches;
    sim->mail = FF_ARENA_ARRAY(sim->arena, sim->boxes, mail);
    sim->bound_by = FF_ARENA_ARRAY(sim->arena, actions, int64_t);
    for (int64_t i = 0; i < actions; i++)
        sim->bound_by[i] = -1;
    ff_memory_blocks *blocks = FF_ARENA_NEW(sim->arena, ff_memory_blocks);
    ff_program_options options = {sim->in.cost->seq, sim->in.cost->profile->kernels,
                                  sim->in.cost->imbalance};
    ff_memory_blocks_build(sim->in.cost->model, sim->in.layout, &options, blocks);
    for (int64_t stage = 0; stage < p; stage++)
        memory_open(&sim->stage[stage].memory, &sim->in, blocks, stage, sim->arena);
}

ff_simulation *ff_simulation_create(const ff_simulation_inputs *inputs, const ff_observer *observer,
                                    ff_diagnostics *findings) {
    ff_arena *arena = ff_arena_create();
    ff_simulation *sim = FF_ARENA_NEW(arena, ff_simulation);
    sim->arena = arena;
    sim->in = *inputs;
    sim->shape = ff_schedule_shape_of(inputs->layout);
    sim->steps = FF_ARENA_ARRAY(arena, sim->shape.stages, ff_stage_steps);
    if (!ff_steps_make(inputs, arena, sim->steps, findings)) {
        ff_arena_free(arena);
        return NULL;
    }
    sim->schedule = ff_schedule_create(&sim->shape);
    if (sim->schedule == NULL) {
        ff_report(findings, FF0246, FF_NOWHERE, "%lld schedule actions",
                  (long long)ff_schedule_action_count(&sim->shape));
        ff_report_help(findings, "fewer microbatches");
        ff_arena_free(arena);
        return NULL;
    }
    fill_transfer(sim);
    allocate(sim);
    run(sim, NULL, -1);
    int64_t path_stage = 0;
    for (int64_t stage = 1; stage < sim->shape.stages; stage++)
        if (sim->stage[stage].reduced_ps > sim->stage[path_stage].reduced_ps)
            path_stage = stage;
    sim->on_path = FF_ARENA_ARRAY(arena, sim->schedule->first[sim->shape.stages], bool);
    trace_back(sim, path_stage);
    run(sim, observer, path_stage);
    sort_parts(sim);
    for (int64_t stage = 0; stage < sim->shape.stages; stage++)
        fill_result(sim, stage);
    return sim;
}

void ff_simulation_free(ff_simulation *simulation) {
    if (simulation == NULL)
        return;
    ff_schedule_free(simulation->schedule);
    ff_arena_free(simulation->arena);
}

int64_t ff_simulation_step_ps(const ff_simulation *simulation) {
    return simulation->step_ps;
}

int64_t ff_simulation_span_ps(const ff_simulation *simulation) {
    return simulation->span_ps;
}

int64_t ff_simulation_events(const ff_simulation *simulation) {
    return simulation->events;
}

const ff_stage_result *ff_simulation_stage(const ff_simulation *simulation, int64_t stage) {
    return &simulation->result[stage];
}

int ff_simulation_path(const ff_simulation *simulation, const ff_path_part **parts) {
    *parts = simulation->part;
    return simulation->parts;
}
