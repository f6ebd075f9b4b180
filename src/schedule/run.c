/* See run.h. Stages are advanced in turn, each as far as it gets, until none moves. */
#include "schedule/run.h"

/* Arrival times, indexed by the receiver: (stage * chunks + chunk) * microbatches + microbatch;
 * negative while nothing was sent. */
typedef struct mailboxes {
    double *activation_s, *gradient_s;
} mailboxes;

typedef struct progress {
    const ff_schedule *schedule;
    const ff_run_times *times;
    mailboxes mail;
    double *clock_s; /* [stage] */
    ff_run run;
} progress;

static double *empty_boxes(ff_arena *arena, int64_t count) {
    double *boxes = FF_ARENA_ARRAY(arena, count, double);
    for (int64_t i = 0; i < count; i++)
        boxes[i] = -1;
    return boxes;
}

static double *box(const progress *now, bool activation, ff_chunk_place place, int32_t microbatch) {
    const ff_schedule_shape *shape = &now->schedule->shape;
    int64_t index =
        ((int64_t)place.stage * shape->chunks + place.chunk) * shape->microbatches + microbatch;
    return (activation ? now->mail.activation_s : now->mail.gradient_s) + index;
}

static double duration_s(const progress *now, int32_t stage, const ff_action *action) {
    int64_t index = (int64_t)stage * now->schedule->shape.chunks + action->chunk;
    const ff_run_times *times = now->times;
    double weight_s = times->weight_s == NULL ? 0 : times->weight_s[index];
    switch (action->kind) {
    case FF_ACTION_FORWARD:
        return times->forward_s[index];
    case FF_ACTION_BACKWARD_INPUT:
        return times->backward_s[index] - weight_s;
    case FF_ACTION_BACKWARD_WEIGHT:
        return weight_s;
    default:
        return times->backward_s[index];
    }
}

static bool receive(progress *now, int32_t stage, const ff_action *action) {
    bool activation = action->kind == FF_ACTION_RECV_ACTIVATION;
    double arrival_s =
        *box(now, activation, (ff_chunk_place){stage, action->chunk}, action->microbatch);
    if (arrival_s < 0)
        return false;
    if (arrival_s > now->clock_s[stage])
        now->clock_s[stage] = arrival_s;
    return true;
}

static void send(progress *now, int32_t stage, const ff_action *action) {
    ff_chunk_place partner = {stage, action->chunk};
    ff_schedule_partner(&now->schedule->shape, stage, action, &partner);
    bool activation = action->kind == FF_ACTION_SEND_ACTIVATION;
    *box(now, activation, partner, action->microbatch) =
        now->clock_s[stage] + now->times->transfer_s;
}

/* One action; false when it waits. */
static bool perform(progress *now, int32_t stage, int64_t index) {
    const ff_action *action = &now->schedule->actions[index];
    switch (action->kind) {
    case FF_ACTION_RECV_ACTIVATION:
    case FF_ACTION_RECV_GRADIENT:
        if (!receive(now, stage, action))
            return false;
        now->run.start_s[index] = now->clock_s[stage];
        return true;
    case FF_ACTION_SEND_ACTIVATION:
    case FF_ACTION_SEND_GRADIENT:
        now->run.start_s[index] = now->clock_s[stage];
        send(now, stage, action);
        return true;
    case FF_ACTION_FORWARD:
    case FF_ACTION_BACKWARD:
    case FF_ACTION_BACKWARD_INPUT:
    case FF_ACTION_BACKWARD_WEIGHT:
        break;
    }
    now->run.start_s[index] = now->clock_s[stage];
    now->clock_s[stage] += duration_s(now, stage, action);
    return true;
}

static bool advance(progress *now, int32_t stage) {
    const int64_t *first = now->schedule->first;
    int64_t *cursor = &now->run.cursor[stage], before = *cursor;
    while (first[stage] + *cursor < first[stage + 1] && perform(now, stage, first[stage] + *cursor))
        ++*cursor;
    return *cursor > before;
}

static void finish(progress *now) {
    const int64_t *first = now->schedule->first;
    now->run.complete = true;
    for (int32_t stage = 0; stage < now->schedule->shape.stages; stage++) {
        if (first[stage] + now->run.cursor[stage] < first[stage + 1])
            now->run.complete = false;
        if (now->clock_s[stage] > now->run.span_s)
            now->run.span_s = now->clock_s[stage];
    }
}

ff_run ff_schedule_run(const ff_schedule *schedule, const ff_run_times *times) {
    const ff_schedule_shape *shape = &schedule->shape;
    int64_t boxes = (int64_t)shape->stages * shape->chunks * shape->microbatches;
    progress state = {.schedule = schedule, .times = times};
    ff_arena *scratch = ff_arena_create();
    state.mail = (mailboxes){empty_boxes(scratch, boxes), empty_boxes(scratch, boxes)};
    state.clock_s = FF_ARENA_ARRAY(scratch, shape->stages, double);
    state.run.arena = ff_arena_create();
    state.run.cursor = FF_ARENA_ARRAY(state.run.arena, shape->stages, int64_t);
    state.run.start_s = FF_ARENA_ARRAY(state.run.arena, schedule->first[shape->stages], double);
    bool moved = true;
    while (moved) {
        moved = false;
        for (int32_t stage = 0; stage < shape->stages; stage++)
            moved |= advance(&state, stage);
    }
    finish(&state);
    ff_arena_free(scratch);
    return state.run;
}

void ff_run_free(ff_run *run) {
    ff_arena_free(run->arena);
    *run = (ff_run){0};
}
