/* The table of generators, and the pass that puts sends and receives around their computation.
 *
 *     generator's order      F1                       B0
 *     the stage's list       RECV_ACTIVATION 1        RECV_GRADIENT 0
 *                            F1                       B0
 *                            SEND_ACTIVATION 1        SEND_GRADIENT 0
 *
 * A forward receives unless its chunk is the model's first, and sends unless it is the last;
 * backward mirrors. Where both chunks lie on one stage nothing is sent. The number of actions is
 * therefore known beforehand: 2*v*m computations, and as many receives as sends.
 * Invariant: every shape that ff_schedule_check accepts has a list that cannot deadlock when
 * receives block and sends are buffered (verify.h; tests/schedule_test.c). */
#include "schedule/generators.h"

#include "base/diagnose.h"
#include "base/number.h"
#include <assert.h>

static const ff_generator *const generators[FF_SCHEDULE_COUNT] = {
    [FF_SCHEDULE_GPIPE] = &ff_generator_gpipe,
    [FF_SCHEDULE_1F1B] = &ff_generator_1f1b,
    [FF_SCHEDULE_INTERLEAVED] = &ff_generator_interleaved,
};

const ff_generator *ff_generator_find(ff_schedule_kind kind) {
    return (unsigned)kind < FF_SCHEDULE_COUNT ? generators[kind] : NULL;
}

/* The row of a shape that the caller has checked. */
static const ff_generator *generator_of(const ff_schedule_shape *shape) {
    const ff_generator *generator = ff_generator_find(shape->kind);
    assert(generator != NULL);
    return generator;
}

/* --- which shapes run --- */

void ff_generator_check_one_chunk(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    if (shape->chunks == 1)
        return;
    ff_report(findings, FF0242, FF_NOWHERE, "%s with vpp=%d", ff_schedule_name(shape->kind),
              shape->chunks);
    ff_report_help(findings, "schedule=interleaved, or vpp=1");
}

static void check_sizes(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = {{"pp", shape->stages, 1},
                 {"vpp", shape->chunks, 1},
                 {"microbatches", shape->microbatches, 1},
                 {"the microbatch group", shape->group, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least)
            ff_report(findings, FF0241, FF_NOWHERE, "%s is %lld", sizes[i].name,
                      (long long)sizes[i].value);
    }
    int64_t chunks = ff_mul(shape->stages, shape->chunks);
    if (shape->stages > 0 && shape->chunks > 0 && chunks > FF_LAYOUT_MAX_CHUNKS) {
        ff_report(findings, FF0241, FF_NOWHERE, "pp=%d x vpp=%d makes %lld chunks", shape->stages,
                  shape->chunks, (long long)chunks);
        if (shape->stages <= FF_LAYOUT_MAX_CHUNKS)
            ff_report_help(findings, "with pp=%d, vpp=%d or less", shape->stages,
                           FF_LAYOUT_MAX_CHUNKS / shape->stages);
    }
}

static void report_unavailable(ff_schedule_kind kind, ff_diagnostics *findings) {
    bool known = (unsigned)kind < FF_SCHEDULE_COUNT;
    ff_report(findings, FF0240, FF_NOWHERE, "schedule %s is not available yet",
              known ? ff_schedule_name(kind) : "without a name");
    ff_report_help(findings, "use 1f1b or interleaved");
}

/* Findings are counted in a list of our own when the caller wants none. */
ff_status ff_schedule_check(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    ff_diagnostics *list = findings != NULL ? findings : ff_diagnostics_create();
    int before = ff_diagnostics_count_of(list, FF_ERROR);
    const ff_generator *generator = ff_generator_find(shape->kind);
    check_sizes(shape, list);
    if (generator == NULL)
        report_unavailable(shape->kind, list);
    else if (ff_diagnostics_count_of(list, FF_ERROR) == before)
        generator->check(shape, list);
    bool runs = ff_diagnostics_count_of(list, FF_ERROR) == before;
    if (findings == NULL)
        ff_diagnostics_free(list);
    return runs ? FF_OK : FF_NO;
}

/* --- where chunks lie --- */

int32_t ff_schedule_position(const ff_schedule_shape *shape, int32_t stage, int32_t chunk) {
    return chunk * shape->stages + stage;
}

int32_t ff_schedule_stage_at(const ff_schedule_shape *shape, int32_t position) {
    return position % shape->stages;
}

int32_t ff_schedule_chunk_at(const ff_schedule_shape *shape, int32_t position) {
    return position / shape->stages;
}

int32_t ff_schedule_partner(const ff_schedule_shape *shape, int32_t stage,
                            const ff_action *action) {
    bool later =
        action->kind == FF_ACTION_SEND_ACTIVATION || action->kind == FF_ACTION_RECV_GRADIENT;
    return ff_schedule_position(shape, stage, action->chunk) + (later ? 1 : -1);
}

/* --- lists --- */

static void append(ff_order *order, ff_action_kind kind, int32_t chunk, int32_t microbatch) {
    order->actions[order->count++] = (ff_action){kind, chunk, microbatch, -1};
}

void ff_order_forward(ff_order *order, int32_t chunk, int32_t microbatch) {
    append(order, FF_ACTION_FORWARD, chunk, microbatch);
}

void ff_order_backward(ff_order *order, int32_t chunk, int32_t microbatch) {
    append(order, FF_ACTION_BACKWARD, chunk, microbatch);
}

static void append_transfer(const ff_schedule_shape *shape, int32_t stage, ff_action transfer,
                            ff_order *list) {
    int32_t partner = ff_schedule_partner(shape, stage, &transfer);
    if (partner < 0 || partner >= shape->stages * shape->chunks)
        return;
    transfer.peer = ff_schedule_stage_at(shape, partner);
    if (transfer.peer != stage)
        list->actions[list->count++] = transfer;
}

/* What each computation waits for and passes on. */
static void connect(const ff_schedule_shape *shape, int32_t stage, const ff_order *computation,
                    ff_order *list) {
    for (int64_t i = 0; i < computation->count; i++) {
        ff_action compute = computation->actions[i], receive = compute, send = compute;
        bool forward = compute.kind == FF_ACTION_FORWARD;
        receive.kind = forward ? FF_ACTION_RECV_ACTIVATION : FF_ACTION_RECV_GRADIENT;
        send.kind = forward ? FF_ACTION_SEND_ACTIVATION : FF_ACTION_SEND_GRADIENT;
        append_transfer(shape, stage, receive, list);
        list->actions[list->count++] = compute;
        append_transfer(shape, stage, send, list);
    }
}

static int64_t computations(const ff_schedule_shape *shape) {
    return ff_mul3(2, shape->chunks, shape->microbatches);
}

int64_t ff_schedule_action_count(const ff_schedule_shape *shape) {
    int64_t count = 0;
    for (int32_t stage = 0; stage < shape->stages; stage++)
        count =
            ff_add(count, ff_add(computations(shape), ff_mul(2, ff_schedule_sends(shape, stage))));
    return count;
}

ff_schedule *ff_schedule_create(const ff_schedule_shape *shape) {
    if (ff_schedule_check(shape, NULL) != FF_OK ||
        ff_schedule_action_count(shape) > FF_SCHEDULE_MAX_ACTIONS)
        return NULL;
    ff_arena *arena = ff_arena_create();
    ff_schedule *schedule = FF_ARENA_NEW(arena, ff_schedule);
    schedule->arena = arena;
    schedule->shape = *shape;
    schedule->first = FF_ARENA_ARRAY(arena, shape->stages + 1, int64_t);
    schedule->actions = FF_ARENA_ARRAY(arena, ff_schedule_action_count(shape), ff_action);
    ff_arena *scratch = ff_arena_create();
    ff_order computation = {FF_ARENA_ARRAY(scratch, computations(shape), ff_action), 0};
    ff_order list = {schedule->actions, 0};
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        computation.count = 0;
        generator_of(shape)->generate(shape, stage, &computation);
        assert(computation.count == computations(shape));
        connect(shape, stage, &computation, &list);
        schedule->first[stage + 1] = list.count;
    }
    assert(list.count == ff_schedule_action_count(shape));
    ff_arena_free(scratch);
    return schedule;
}

void ff_schedule_free(ff_schedule *schedule) {
    if (schedule != NULL)
        ff_arena_free(schedule->arena);
}

const ff_action *ff_schedule_actions(const ff_schedule *schedule, int32_t stage, int64_t *count) {
    assert(stage >= 0 && stage < schedule->shape.stages);
    *count = schedule->first[stage + 1] - schedule->first[stage];
    return schedule->actions + schedule->first[stage];
}

/* --- summaries --- */

int64_t ff_schedule_warmup(const ff_schedule_shape *shape, int32_t stage) {
    return generator_of(shape)->warmup(shape, stage);
}

int64_t ff_schedule_in_flight(const ff_schedule_shape *shape, int32_t stage) {
    return generator_of(shape)->in_flight(shape, stage);
}

int64_t ff_schedule_in_flight_of_chunk(const ff_schedule_shape *shape, int32_t stage,
                                       int32_t chunk) {
    const ff_generator *generator = generator_of(shape);
    return generator->in_flight_of_chunk == NULL
               ? generator->in_flight(shape, stage)
               : generator->in_flight_of_chunk(shape, stage, chunk);
}

double ff_schedule_bubble_ratio(const ff_schedule_shape *shape) {
    return generator_of(shape)->bubble_ratio(shape);
}

int64_t ff_schedule_crossings(const ff_schedule_shape *shape) {
    return ff_mul(shape->stages, shape->chunks) - 1;
}

/* Every chunk sends an activation but the model's last, and a gradient but its first. With one
 * stage both chunks of a boundary lie together. */
int64_t ff_schedule_sends(const ff_schedule_shape *shape, int32_t stage) {
    if (shape->stages == 1)
        return 0;
    int64_t ends = (stage == 0) + (stage == shape->stages - 1);
    return ff_mul(2 * (int64_t)shape->chunks - ends, shape->microbatches);
}
