/* The table of generators, and the pass that puts sends and receives around their computation.
 *
 *     generator's order      F1                       B0
 *     the stage's list       RECV_ACTIVATION 1        RECV_GRADIENT 0
 *                            F1                       B0
 *                            SEND_ACTIVATION 1        SEND_GRADIENT 0
 *
 * A forward receives unless its chunk is the model's first, and sends unless it is the last;
 * backward mirrors (an input gradient, where backward is split; a weight gradient waits for nobody
 * and is sent to nobody). Where both chunks lie on one stage nothing is sent. The number of actions
 * is therefore known beforehand: a forward and a backward of each chunk and microbatch, one more
 * for each that is split, and as many receives as sends.
 * Invariant: every shape that ff_schedule_check accepts has a list that cannot deadlock when
 * receives block and sends are buffered (verify.h; tests/schedule_test.c). */
#include "schedule/generators.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "schedule/by_list.h"
#include <assert.h>

static const ff_generator *const generators[FF_SCHEDULE_COUNT] = {
    [FF_SCHEDULE_GPIPE] = &ff_generator_gpipe,
    [FF_SCHEDULE_1F1B] = &ff_generator_1f1b,
    [FF_SCHEDULE_INTERLEAVED] = &ff_generator_interleaved,
    [FF_SCHEDULE_ZB_H1] = &ff_generator_zb_h1,
    [FF_SCHEDULE_ZB_H2] = &ff_generator_zb_h2,
    [FF_SCHEDULE_ZB_V] = &ff_generator_zb_v,
    [FF_SCHEDULE_V_HALF] = &ff_generator_v_half,
    [FF_SCHEDULE_DUALPIPE] = &ff_generator_dualpipe,
    [FF_SCHEDULE_DUALPIPE_V] = &ff_generator_dualpipe_v,
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

void ff_generator_check_two_chunks(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    if (shape->chunks == 2)
        return;
    ff_report(findings, FF0270, FF_NOWHERE, "%s with vpp=%d", ff_schedule_name(shape->kind),
              shape->chunks);
    ff_report_help(findings, "vpp=2, or left out");
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

static void report_unknown(ff_diagnostics *findings) {
    ff_report(findings, FF0240, FF_NOWHERE, "a schedule without a name");
    ff_report_help(findings, "use 1f1b or interleaved");
}

/* Findings are counted in a list of our own when the caller wants none. */
ff_status ff_schedule_check(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    ff_diagnostics *list = findings != NULL ? findings : ff_diagnostics_create();
    int before = ff_diagnostics_count_of(list, FF_ERROR);
    const ff_generator *generator = ff_generator_find(shape->kind);
    check_sizes(shape, list);
    if (generator == NULL)
        report_unknown(list);
    else if (ff_diagnostics_count_of(list, FF_ERROR) == before)
        generator->check(shape, list);
    bool runs = ff_diagnostics_count_of(list, FF_ERROR) == before;
    if (findings == NULL)
        ff_diagnostics_free(list);
    return runs ? FF_OK : FF_NO;
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

void ff_order_backward_input(ff_order *order, int32_t chunk, int32_t microbatch) {
    append(order, FF_ACTION_BACKWARD_INPUT, chunk, microbatch);
}

void ff_order_backward_weight(ff_order *order, int32_t chunk, int32_t microbatch) {
    append(order, FF_ACTION_BACKWARD_WEIGHT, chunk, microbatch);
}

static void append_transfer(const ff_schedule_shape *shape, int32_t stage, ff_action transfer,
                            ff_order *list) {
    ff_chunk_place partner;
    if (!ff_schedule_partner(shape, stage, &transfer, &partner) || partner.stage == stage)
        return;
    transfer.peer = partner.stage;
    list->actions[list->count++] = transfer;
}

/* What each computation waits for and passes on. */
static void connect(const ff_schedule_shape *shape, int32_t stage, const ff_order *computation,
                    ff_order *list) {
    for (int64_t i = 0; i < computation->count; i++) {
        ff_action compute = computation->actions[i], receive = compute, send = compute;
        bool forward = compute.kind == FF_ACTION_FORWARD;
        bool alone = compute.kind == FF_ACTION_BACKWARD_WEIGHT;
        receive.kind = forward ? FF_ACTION_RECV_ACTIVATION : FF_ACTION_RECV_GRADIENT;
        send.kind = forward ? FF_ACTION_SEND_ACTIVATION : FF_ACTION_SEND_GRADIENT;
        if (!alone)
            append_transfer(shape, stage, receive, list);
        list->actions[list->count++] = compute;
        if (!alone)
            append_transfer(shape, stage, send, list);
    }
}

/* Chunk-microbatches that pass a stage. */
static int64_t pieces(const ff_schedule_shape *shape) {
    return ff_mul3(shape->chunks, shape->microbatches, 1) / ff_schedule_copies(shape);
}

static int64_t splits(const ff_schedule_shape *shape, int32_t stage) {
    const ff_generator *generator = generator_of(shape);
    if (generator->split_count != NULL)
        return generator->split_count(shape, stage);
    return generator->splits ? pieces(shape) : 0;
}

int64_t ff_schedule_computation_count(const ff_schedule_shape *shape, int32_t stage) {
    return ff_add(ff_mul(2, pieces(shape)), splits(shape, stage));
}

ff_order ff_schedule_order(const ff_schedule_shape *shape, int32_t stage, ff_arena *arena) {
    int64_t count = ff_schedule_computation_count(shape, stage);
    ff_order order = {FF_ARENA_ARRAY(arena, count, ff_action), 0};
    generator_of(shape)->generate(shape, stage, &order);
    assert(order.count == count);
    return order;
}

int64_t ff_schedule_action_count(const ff_schedule_shape *shape) {
    int64_t count = 0;
    for (int32_t stage = 0; stage < shape->stages; stage++)
        count = ff_add(count, ff_add(ff_schedule_computation_count(shape, stage),
                                     ff_mul(2, ff_schedule_sends(shape, stage))));
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
    ff_order list = {schedule->actions, 0};
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        ff_arena *scratch = ff_arena_create();
        ff_order computation = ff_schedule_order(shape, stage, scratch);
        connect(shape, stage, &computation, &list);
        schedule->first[stage + 1] = list.count;
        ff_arena_free(scratch);
    }
    assert(list.count == ff_schedule_action_count(shape));
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

int64_t ff_schedule_in_flight_weight(const ff_schedule_shape *shape, int32_t stage) {
    const ff_generator *generator = generator_of(shape);
    return generator->in_flight_weight == NULL ? generator->in_flight(shape, stage)
                                               : generator->in_flight_weight(shape, stage);
}

bool ff_schedule_splits(const ff_schedule_shape *shape) {
    return generator_of(shape)->splits;
}

/* One chunk whose backward is whole: the most in flight, while a backward runs. */
static ff_peak plain_peak(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                          ff_held *held) {
    held[0] = (ff_held){ff_schedule_in_flight(shape, stage), 0};
    int64_t kept = ff_mul(held[0].kept, holds[0].kept_bytes);
    return (ff_peak){ff_add(kept, holds[0].working_bytes), 0};
}

ff_peak ff_schedule_peak(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                         ff_held *held) {
    const ff_generator *generator = generator_of(shape);
    if (generator->peak != NULL)
        return generator->peak(shape, stage, holds, held);
    if (!generator->splits)
        return plain_peak(shape, stage, holds, held);
    return ff_list_peak(shape, stage, holds, held);
}

int64_t ff_schedule_in_flight_of_chunk(const ff_schedule_shape *shape, int32_t stage,
                                       int32_t chunk) {
    const ff_generator *generator = generator_of(shape);
    if (generator->in_flight_of_chunk != NULL)
        return generator->in_flight_of_chunk(shape, stage, chunk);
    if (shape->chunks == 1)
        return generator->in_flight(shape, stage);
    ff_chunk_hold ones[2] = {{1, 0, 0}, {1, 0, 0}};
    ff_held held[2];
    ff_schedule_peak(shape, stage, ones, held);
    return held[chunk].kept;
}

double ff_schedule_bubble(const ff_schedule_shape *shape, double f, double b, double w) {
    return generator_of(shape)->bubble(shape, f, b, w);
}

double ff_schedule_bubble_ratio(const ff_schedule_shape *shape) {
    return ff_schedule_bubble(shape, 1, 1, 1) / (3.0 * shape->microbatches);
}

int64_t ff_schedule_crossings(const ff_schedule_shape *shape) {
    return ff_schedule_model_chunks(shape) - 1;
}

/* Messages of one direction that leave a chunk of a stage, in each of its microbatches. */
static int64_t leaves(const ff_schedule_shape *shape, ff_chunk_place place, int step) {
    ff_chunk_place partner;
    return ff_schedule_neighbour(shape, place, step, &partner) && partner.stage != place.stage;
}

/* Every chunk sends an activation but the model's last, and a gradient but its first; none where
 * both chunks of a boundary lie together. */
int64_t ff_schedule_sends_of(const ff_schedule_shape *shape, int32_t stage, bool of_gradient) {
    int64_t sends = 0;
    for (int32_t chunk = 0; chunk < shape->chunks; chunk++) {
        int32_t first, count;
        ff_schedule_chunk_microbatches(shape, chunk, &first, &count);
        sends = ff_add(sends,
                       count * leaves(shape, (ff_chunk_place){stage, chunk}, of_gradient ? -1 : 1));
    }
    return sends;
}

int64_t ff_schedule_sends(const ff_schedule_shape *shape, int32_t stage) {
    return ff_add(ff_schedule_sends_of(shape, stage, false),
                  ff_schedule_sends_of(shape, stage, true));
}
