/* Summaries of schedules that have no closed form, from a short list instead of the whole one: what
 * a step of many microbatches holds and how long it takes is settled after a few times p of them.
 *
 *     held     the most that a stage holds is reached within SHORT microbatches
 *     span     span(m) = span(m1) + (m - m1) * slope, where slope is what the last p of m1
 *              microbatches took, at least the slowest stage's own time: a pipeline in its steady
 *              state repeats itself
 *
 * Cost: about 25*p^2 actions are run, whatever m is. Held against whole lists by the tests. */
#include "schedule/by_list.h"

#include "base/number.h"
#include "schedule/run.h"
#include <assert.h>
#include <string.h>

/* An even number, for lists that run both ways. */
static int64_t short_of(const ff_schedule_shape *shape) {
    return 4 * (int64_t)shape->stages + 8;
}

ff_schedule_shape ff_list_shortened(ff_schedule_shape shape) {
    shape.microbatches = (int32_t)ff_min(shape.microbatches, short_of(&shape));
    return shape;
}

/* --- what is held --- */

/* States are noted in the order of the list; one that holds no more than another, of everything, is
 * left out: a dozen or so remain, whatever m is. */
typedef struct ledger {
    ff_held now[FF_PEAK_MOST_CHUNKS];
    ff_peak_state *state;
    int32_t count, room;
} ledger;

static bool covers(const ff_peak_state *a, const ff_peak_state *b) {
    bool all = a->running == b->running;
    for (int c = 0; c < FF_PEAK_MOST_CHUNKS; c++)
        all &= a->held[c].kept >= b->held[c].kept && a->held[c].waiting >= b->held[c].waiting;
    return all;
}

static void note(ledger *l, int32_t running) {
    ff_peak_state state = {.running = running};
    int32_t left = 0;
    memcpy(state.held, l->now, sizeof state.held);
    for (int32_t i = 0; i < l->count; i++)
        if (covers(&l->state[i], &state))
            return;
    for (int32_t i = 0; i < l->count; i++)
        if (!covers(&state, &l->state[i]))
            l->state[left++] = l->state[i];
    assert(left < l->room);
    l->state[left++] = state;
    l->count = left;
}

static void post(ledger *l, const ff_action *action) {
    int32_t chunk = action->chunk;
    ff_held *now = &l->now[chunk];
    switch (action->kind) {
    case FF_ACTION_FORWARD:
        now->kept++;
        note(l, -1);
        break;
    case FF_ACTION_BACKWARD:
        note(l, chunk);
        now->kept--;
        break;
    case FF_ACTION_BACKWARD_INPUT:
        note(l, chunk);
        now->kept--;
        now->waiting++;
        note(l, chunk);
        break;
    case FF_ACTION_BACKWARD_WEIGHT:
        now->waiting--;
        break;
    default:
        break;
    }
}

ff_peak_states ff_list_peak_states(const ff_schedule_shape *shape, int32_t stage, ff_arena *arena) {
    ff_schedule_shape small = ff_list_shortened(*shape);
    assert(shape->chunks <= FF_PEAK_MOST_CHUNKS);
    ff_arena *scratch = ff_arena_create();
    ff_order order = ff_schedule_order(&small, stage, scratch);
    ledger l = {.room = (int32_t)(2 * order.count)};
    l.state = FF_ARENA_ARRAY(scratch, l.room, ff_peak_state);
    for (int64_t i = 0; i < order.count; i++)
        post(&l, &order.actions[i]);
    ff_peak_state *state = FF_ARENA_ARRAY(arena, l.count, ff_peak_state);
    memcpy(state, l.state, (size_t)l.count * sizeof *state);
    ff_arena_free(scratch);
    return (ff_peak_states){shape->chunks, l.count, state};
}

static int64_t bytes_of(const ff_peak_states *states, const ff_peak_state *state,
                        const ff_chunk_hold *holds) {
    int64_t bytes = state->running < 0 ? 0 : holds[state->running].working_bytes;
    for (int32_t c = 0; c < states->chunks; c++)
        bytes = ff_add(bytes, ff_add(ff_mul(state->held[c].kept, holds[c].kept_bytes),
                                     ff_mul(state->held[c].waiting, holds[c].waiting_bytes)));
    return bytes;
}

ff_peak ff_list_peak_among(const ff_peak_states *states, const ff_chunk_hold *holds,
                           ff_held *held) {
    ff_peak peak = {-1, 0};
    for (int32_t i = 0; i < states->count; i++) {
        int64_t bytes = bytes_of(states, &states->state[i], holds);
        if (bytes <= peak.bytes)
            continue;
        peak = (ff_peak){bytes, states->state[i].running};
        memcpy(held, states->state[i].held, (size_t)states->chunks * sizeof *held);
    }
    return peak;
}

ff_peak ff_list_peak(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                     ff_held *held) {
    ff_arena *arena = ff_arena_create();
    ff_peak_states states = ff_list_peak_states(shape, stage, arena);
    ff_peak peak = ff_list_peak_among(&states, holds, held);
    ff_arena_free(arena);
    return peak;
}

/* Counts instead of bytes: until B every microbatch counts once, after it as `waiting` says. */
static int64_t most_held(const ff_schedule_shape *shape, int32_t stage, int64_t waiting) {
    ff_chunk_hold holds[FF_PEAK_MOST_CHUNKS] = {{1, waiting, 0}, {1, waiting, 0}};
    ff_held held[FF_PEAK_MOST_CHUNKS];
    return ff_list_peak(shape, stage, holds, held).bytes;
}

int64_t ff_list_in_flight(const ff_schedule_shape *shape, int32_t stage) {
    return most_held(shape, stage, 0);
}

int64_t ff_list_in_flight_weight(const ff_schedule_shape *shape, int32_t stage) {
    return most_held(shape, stage, 1);
}

/* --- lists that were made --- */

enum { MOST_LISTS = 64 };

struct ff_list_memo {
    ff_schedule *list[MOST_LISTS];
    int count;
};

ff_list_memo *ff_list_memo_create(ff_arena *arena) {
    return FF_ARENA_NEW(arena, ff_list_memo);
}

static void empty(ff_list_memo *memo) {
    for (int i = 0; i < memo->count; i++)
        ff_schedule_free(memo->list[i]);
    memo->count = 0;
}

void ff_list_memo_free(ff_list_memo *memo) {
    empty(memo);
}

static ff_schedule *list_of(ff_list_memo *memo, const ff_schedule_shape *shape) {
    for (int i = 0; memo != NULL && i < memo->count; i++)
        if (ff_schedule_same_shape(&memo->list[i]->shape, shape))
            return memo->list[i];
    ff_schedule *list = ff_schedule_create(shape);
    assert(list != NULL);
    if (memo != NULL && memo->count == MOST_LISTS)
        empty(memo);
    if (memo != NULL)
        memo->list[memo->count++] = list;
    return list;
}

/* --- how long it takes --- */

static double run_s(const ff_schedule_shape *shape, int64_t microbatches,
                    const ff_pipeline_times *times) {
    ff_schedule_shape small = *shape;
    small.microbatches = (int32_t)microbatches;
    ff_schedule *schedule = list_of(times->lists, &small);
    ff_arena *arena = ff_arena_create();
    int64_t chunks = (int64_t)shape->stages * shape->chunks;
    double *chunk_s[3], share = (double)ff_schedule_copies(shape) / shape->chunks;
    const double *stage_s[3] = {times->forward_s, times->backward_s, times->weight_s};
    for (int kind = 0; kind < 3; kind++) {
        chunk_s[kind] = FF_ARENA_ARRAY(arena, chunks, double);
        for (int64_t i = 0; i < chunks; i++)
            chunk_s[kind][i] = stage_s[kind][i / shape->chunks] * share;
    }
    ff_run run = ff_schedule_run(
        schedule, &(ff_run_times){chunk_s[0], chunk_s[1], chunk_s[2], times->transfer_s});
    assert(run.complete);
    double span_s = run.span_s;
    ff_run_free(&run);
    ff_arena_free(arena);
    if (times->lists == NULL)
        ff_schedule_free(schedule);
    return span_s;
}

double ff_list_span(const ff_schedule_shape *shape, const ff_pipeline_times *times) {
    int64_t m = shape->microbatches, most = short_of(shape);
    if (m <= most)
        return run_s(shape, m, times);
    int64_t less = most - 2 * ((shape->stages + 1) / 2);
    double long_s = run_s(shape, most, times), short_s = run_s(shape, less, times);
    double slope_s = (long_s - short_s) / (double)(most - less);
    for (int32_t i = 0; i < shape->stages; i++) {
        double own_s = times->forward_s[i] + times->backward_s[i];
        slope_s = own_s > slope_s ? own_s : slope_s;
    }
    return long_s + (double)(m - most) * slope_s;
}

double ff_list_bubble(const ff_schedule_shape *shape, double f, double b, double w) {
    ff_arena *arena = ff_arena_create();
    double *forward = FF_ARENA_ARRAY(arena, 3 * (int64_t)shape->stages, double);
    double *backward = forward + shape->stages, *weight = backward + shape->stages;
    for (int32_t i = 0; i < shape->stages; i++) {
        forward[i] = f;
        backward[i] = b + w;
        weight[i] = w;
    }
    double span = ff_list_span(shape, &(ff_pipeline_times){forward, backward, weight, 0, NULL});
    ff_arena_free(arena);
    return span - shape->microbatches * (f + b + w);
}
