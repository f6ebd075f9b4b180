/* See verify.h. One pass a stage over what it computes and moves, one pass a pair of stages over
 * their messages, then a run. */
#include "schedule/verify.h"

#include "schedule/run.h"
#include <stdarg.h>
#include <stdio.h>

const char *ff_action_name(ff_action_kind kind) {
    static const char *const names[] = {
        [FF_ACTION_FORWARD] = "forward",
        [FF_ACTION_BACKWARD] = "backward",
        [FF_ACTION_BACKWARD_INPUT] = "backward of inputs",
        [FF_ACTION_BACKWARD_WEIGHT] = "backward of weights",
        [FF_ACTION_RECV_ACTIVATION] = "receive activation",
        [FF_ACTION_SEND_ACTIVATION] = "send activation",
        [FF_ACTION_RECV_GRADIENT] = "receive gradient",
        [FF_ACTION_SEND_GRADIENT] = "send gradient",
    };
    return names[kind];
}

static bool fail(ff_schedule_fault *fault, int32_t stage, const char *text, ...) FF_PRINTF(3, 4);
static bool fail(ff_schedule_fault *fault, int32_t stage, const char *text, ...) {
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(fault->text, sizeof fault->text, text, arguments);
    va_end(arguments);
    fault->stage = stage;
    return false;
}

static bool fail_at(ff_schedule_fault *fault, int32_t stage, const ff_action *action,
                    const char *what) {
    return fail(fault, stage, "stage %d: %s of chunk %d, microbatch %d %s", stage,
                ff_action_name(action->kind), action->chunk, action->microbatch, what);
}

/* --- complete and connected --- */

static unsigned bit(ff_action_kind kind) {
    return 1u << kind;
}

/* The receive that a computation stands behind, when its data comes from another stage. */
static unsigned receive_of(const ff_schedule_shape *shape, int32_t stage, const ff_action *action) {
    ff_chunk_place partner;
    ff_action receive = *action;
    receive.kind =
        action->kind == FF_ACTION_FORWARD ? FF_ACTION_RECV_ACTIVATION : FF_ACTION_RECV_GRADIENT;
    bool outside = !ff_schedule_partner(shape, stage, &receive, &partner);
    return outside || partner.stage == stage ? 0 : bit(receive.kind);
}

/* What must be done, for this chunk and microbatch, before an action; of `either` one is enough. */
static unsigned needs(const ff_schedule_shape *shape, int32_t stage, const ff_action *action,
                      unsigned *either) {
    *either = 0;
    switch (action->kind) {
    case FF_ACTION_FORWARD:
        return receive_of(shape, stage, action);
    case FF_ACTION_BACKWARD:
    case FF_ACTION_BACKWARD_INPUT:
        return bit(FF_ACTION_FORWARD) | receive_of(shape, stage, action);
    case FF_ACTION_BACKWARD_WEIGHT:
        return bit(FF_ACTION_BACKWARD_INPUT);
    case FF_ACTION_RECV_GRADIENT:
    case FF_ACTION_SEND_ACTIVATION:
        return bit(FF_ACTION_FORWARD);
    case FF_ACTION_SEND_GRADIENT:
        *either = bit(FF_ACTION_BACKWARD) | bit(FF_ACTION_BACKWARD_INPUT);
        return 0;
    default:
        return 0;
    }
}

static bool in_range(const ff_schedule_shape *shape, const ff_action *action) {
    int32_t first, count;
    if (action->chunk < 0 || action->chunk >= shape->chunks)
        return false;
    ff_schedule_chunk_microbatches(shape, action->chunk, &first, &count);
    return action->microbatch >= first && action->microbatch < first + count;
}

static bool names_its_peer(const ff_schedule_shape *shape, int32_t stage, const ff_action *action) {
    ff_chunk_place partner;
    if (ff_action_computes(action->kind))
        return action->peer == -1;
    return ff_schedule_partner(shape, stage, action, &partner) && action->peer != stage &&
           action->peer == partner.stage;
}

/* A forward, and a backward that is whole or has both its parts. */
static bool is_complete(unsigned done) {
    unsigned parts = bit(FF_ACTION_BACKWARD_INPUT) | bit(FF_ACTION_BACKWARD_WEIGHT);
    bool whole = (done & bit(FF_ACTION_BACKWARD)) != 0, split = (done & parts) == parts;
    return (done & bit(FF_ACTION_FORWARD)) && (whole ? (done & parts) == 0 : split);
}

static bool verify_complete(const ff_schedule_shape *shape, int32_t stage, const uint8_t *done,
                            ff_schedule_fault *fault) {
    for (int32_t chunk = 0; chunk < shape->chunks; chunk++) {
        int32_t first, count;
        ff_schedule_chunk_microbatches(shape, chunk, &first, &count);
        for (int32_t i = first; i < first + count; i++)
            if (!is_complete(done[(int64_t)chunk * shape->microbatches + i]))
                return fail(fault, stage, "stage %d: chunk %d, microbatch %d is not run both ways",
                            stage, chunk, i);
    }
    return true;
}

/* `done`: bits of the actions seen, [chunk * microbatches + microbatch]. */
static bool verify_order(const ff_schedule *schedule, int32_t stage, uint8_t *done,
                         ff_schedule_fault *fault) {
    const ff_schedule_shape *shape = &schedule->shape;
    int64_t count;
    const ff_action *actions = ff_schedule_actions(schedule, stage, &count);
    for (int64_t i = 0; i < count; i++) {
        if (!in_range(shape, &actions[i]))
            return fail_at(fault, stage, &actions[i], "is outside the shape");
        uint8_t *seen =
            &done[(int64_t)actions[i].chunk * shape->microbatches + actions[i].microbatch];
        if (*seen & bit(actions[i].kind))
            return fail_at(fault, stage, &actions[i], "stands twice");
        if (!names_its_peer(shape, stage, &actions[i]))
            return fail_at(fault, stage, &actions[i], "names the wrong peer");
        unsigned either, needed = needs(shape, stage, &actions[i], &either);
        if ((*seen & needed) != needed || (either != 0 && (*seen & either) == 0))
            return fail_at(fault, stage, &actions[i], "stands before what it needs");
        *seen |= (uint8_t)bit(actions[i].kind);
    }
    return verify_complete(shape, stage, done, fault);
}

static bool verify_orders(const ff_schedule *schedule, ff_schedule_fault *fault) {
    const ff_schedule_shape *shape = &schedule->shape;
    int64_t boxes = (int64_t)shape->chunks * shape->microbatches;
    bool right = true;
    for (int32_t stage = 0; right && stage < shape->stages; stage++) {
        ff_arena *arena = ff_arena_create();
        uint8_t *done = FF_ARENA_ARRAY(arena, boxes, uint8_t);
        right = verify_order(schedule, stage, done, fault);
        ff_arena_free(arena);
    }
    return right;
}

/* --- matched --- */

/* The next action of a kind with a peer, from *cursor on; NULL past the end. */
static const ff_action *next_message(const ff_schedule *schedule, int32_t stage,
                                     ff_action_kind kind, int32_t peer, int64_t *cursor) {
    int64_t count;
    const ff_action *actions = ff_schedule_actions(schedule, stage, &count);
    while (*cursor < count) {
        const ff_action *action = &actions[(*cursor)++];
        if (action->kind == kind && action->peer == peer)
            return action;
    }
    return NULL;
}

static bool verify_channel(const ff_schedule *schedule, int32_t from, int32_t to,
                           ff_action_kind send_kind, ff_action_kind receive_kind,
                           ff_schedule_fault *fault) {
    const ff_schedule_shape *shape = &schedule->shape;
    int64_t send_cursor = 0, receive_cursor = 0;
    for (;;) {
        const ff_action *send = next_message(schedule, from, send_kind, to, &send_cursor);
        const ff_action *receive = next_message(schedule, to, receive_kind, from, &receive_cursor);
        if (send == NULL && receive == NULL)
            return true;
        if (receive == NULL)
            return fail_at(fault, from, send, "is never received");
        if (send == NULL)
            return fail_at(fault, to, receive, "is never sent");
        ff_chunk_place partner;
        if (!ff_schedule_partner(shape, from, send, &partner) || partner.chunk != receive->chunk ||
            send->microbatch != receive->microbatch)
            return fail_at(fault, to, receive, "is not what the peer sends next");
    }
}

/* Neighbouring chunks lie on neighbouring stages, the last and the first included; verify_order has
 * seen that no action names another peer. */
static bool verify_channels(const ff_schedule *schedule, ff_schedule_fault *fault) {
    int32_t p = schedule->shape.stages;
    for (int32_t from = 0; p > 1 && from < p; from++) {
        for (int side = 0; side < (p == 2 ? 1 : 2); side++) {
            int32_t to = (from + (side == 0 ? 1 : p - 1)) % p;
            if (!verify_channel(schedule, from, to, FF_ACTION_SEND_ACTIVATION,
                                FF_ACTION_RECV_ACTIVATION, fault) ||
                !verify_channel(schedule, from, to, FF_ACTION_SEND_GRADIENT,
                                FF_ACTION_RECV_GRADIENT, fault))
                return false;
        }
    }
    return true;
}

/* --- no wait --- */

/* Follows who waits for whom from the first stage that is not done. */
static bool report_wait(const ff_schedule *schedule, const ff_run *run, ff_schedule_fault *fault) {
    int32_t stage = 0;
    while (schedule->first[stage] + run->cursor[stage] == schedule->first[stage + 1])
        stage++;
    char text[sizeof fault->text] = "";
    size_t length = 0;
    int32_t first = stage;
    for (int32_t steps = 0; steps <= schedule->shape.stages; steps++) {
        int64_t index = schedule->first[stage] + run->cursor[stage];
        if (index == schedule->first[stage + 1] || length + 1 >= sizeof text)
            break;
        const ff_action *action = &schedule->actions[index];
        int more = snprintf(text + length, sizeof text - length,
                            "%sstage %d waits to %s %d from %d", steps == 0 ? "" : "; ", stage,
                            ff_action_name(action->kind), action->microbatch, action->peer);
        length += more < 0 ? 0 : (size_t)more;
        stage = action->peer;
        if (stage == first)
            break;
    }
    return fail(fault, first, "%s", text);
}

static bool verify_run(const ff_schedule *schedule, ff_schedule_fault *fault) {
    int64_t chunks = (int64_t)schedule->shape.stages * schedule->shape.chunks;
    ff_arena *arena = ff_arena_create();
    double *zero_s = FF_ARENA_ARRAY(arena, chunks, double);
    ff_run run = ff_schedule_run(schedule, &(ff_run_times){zero_s, zero_s, NULL, 0});
    bool complete = run.complete || report_wait(schedule, &run, fault);
    ff_run_free(&run);
    ff_arena_free(arena);
    return complete;
}

bool ff_schedule_verify(const ff_schedule *schedule, ff_schedule_fault *fault) {
    *fault = (ff_schedule_fault){0};
    return verify_orders(schedule, fault) && verify_channels(schedule, fault) &&
           verify_run(schedule, fault);
}
