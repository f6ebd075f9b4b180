/* DualPipe (DeepSeek-V3, 2412.19437) and DualPipe-V: two chunks a stage whose forwards and backwards
 * meet, so that a forward of one hides the communication of a backward of the other.
 *
 *     dualpipe     both ways: stage i holds positions i and p-1-i, half of the microbatches run
 *                  down, half up; two copies of the weights; p even, m even, m >= 2p
 *     dualpipe-v   a V ("cut in half"): two positions a stage and one copy; m >= 2p
 *
 * Both are one list. With n the stages that a microbatch passes before the two directions mirror
 * (dualpipe p/2, dualpipe-v p), d a stage's distance from where its first chunk begins, k the
 * microbatches of a direction (m/2, m), "0" the chunk that comes first here and "1" the other:
 *
 *     1  2(n-1-d) x  F0              5  n-1-d x        B1 (F1 B0)
 *     2  d+1 x       F0 F1           6  d+1 x          B1 B0      the second half of them split
 *     3  n-1-d x     B1' W F1        7  n-1-d x        W B0'
 *     4  k-2n+d+1 x  (F0 B1)(F1 B0)  8  d+1 x          W
 *
 * B' is an input gradient alone, W the oldest weight gradient that waits; pairs in brackets overlap.
 * (https://github.com/deepseek-ai/DualPipe, MIT.) In the list a pair is its forward, then its
 * backward: what a compute-bound device does; the first pair of the innermost stage never overlaps.
 *
 * Bubble: (n-1)(F&B + B - 3W) with B the whole backward and F&B a pair's time, F + B when
 * compute-bound; here b is the input gradient alone, so it is (n-1)(f + 2b) of a chunk. */
#include "schedule/by_list.h"

#include "base/diagnose.h"
#include "base/number.h"

/* A stage's part in the list above. */
typedef struct part {
    int32_t n, d, k;
    int32_t first; /* the chunk that is "0" */
} part;

static part part_of(const ff_schedule_shape *shape, int32_t stage) {
    int32_t p = shape->stages;
    if (shape->kind == FF_SCHEDULE_DUALPIPE_V)
        return (part){p, stage, shape->microbatches, 0};
    bool upper = stage < p / 2;
    return (part){p / 2, upper ? stage : p - 1 - stage, shape->microbatches / 2, upper ? 0 : 1};
}

typedef struct writer {
    const ff_schedule_shape *shape;
    ff_order *order;
    part part;
    int32_t forward[2], backward[2];             /* done, of "0" and "1" */
    ff_action waiting[FF_LAYOUT_MAX_CHUNKS + 2]; /* weight gradients, oldest first */
    int32_t waiting_first, waiting_count;
} writer;

/* Chunk and microbatch of the `number`-th of side 0 or 1. */
static ff_action action_of(const writer *w, int side, int32_t number) {
    int32_t chunk = side == 0 ? w->part.first : 1 - w->part.first, first, count;
    ff_schedule_chunk_microbatches(w->shape, chunk, &first, &count);
    return (ff_action){FF_ACTION_FORWARD, chunk, first + number, -1};
}

static void forward(writer *w, int side) {
    ff_action a = action_of(w, side, w->forward[side]++);
    ff_order_forward(w->order, a.chunk, a.microbatch);
}

static void backward(writer *w, int side, bool split) {
    ff_action a = action_of(w, side, w->backward[side]++);
    if (!split) {
        ff_order_backward(w->order, a.chunk, a.microbatch);
        return;
    }
    ff_order_backward_input(w->order, a.chunk, a.microbatch);
    w->waiting[w->waiting_first + w->waiting_count++] = a;
}

static void weight(writer *w) {
    ff_action a = w->waiting[w->waiting_first++];
    w->waiting_count--;
    ff_order_backward_weight(w->order, a.chunk, a.microbatch);
}

/* Step 6: from the middle on backwards are split; with an even distance the middle is a side 0. */
static void drain_both(writer *w, int32_t rounds, int32_t distance) {
    bool split = false;
    for (int32_t i = 0; i < rounds; i++) {
        split |= i == rounds / 2 && distance % 2 == 1;
        backward(w, 1, split);
        split |= i == rounds / 2 && distance % 2 == 0;
        backward(w, 0, split);
    }
}

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    writer w = {.shape = shape, .order = order, .part = part_of(shape, stage)};
    int32_t n = w.part.n, d = w.part.d, k = w.part.k;
    for (int32_t i = 0; i < 2 * (n - 1 - d); i++)
        forward(&w, 0);
    for (int32_t i = 0; i < d + 1; i++) {
        forward(&w, 0);
        forward(&w, 1);
    }
    for (int32_t i = 0; i < n - 1 - d; i++) {
        backward(&w, 1, true);
        weight(&w);
        forward(&w, 1);
    }
    for (int32_t i = 0; i < k - 2 * n + d + 1; i++) {
        forward(&w, 0);
        backward(&w, 1, false);
        forward(&w, 1);
        backward(&w, 0, false);
    }
    for (int32_t i = 0; i < n - 1 - d; i++) {
        backward(&w, 1, false);
        forward(&w, 1);
        backward(&w, 0, false);
    }
    drain_both(&w, d + 1, d);
    for (int32_t i = 0; i < n - 1 - d; i++) {
        weight(&w);
        backward(&w, 0, true);
    }
    while (w.waiting_count > 0)
        weight(&w);
}

/* Steps 3, 6 (of 2(d+1) backwards the last d+1) and 7. */
static int64_t split_count(const ff_schedule_shape *shape, int32_t stage) {
    part t = part_of(shape, stage);
    return 2 * (int64_t)(t.n - 1 - t.d) + t.d + 1;
}

static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    part t = part_of(shape, stage);
    return 2 * (int64_t)t.n - (t.d == t.n - 1 ? 0 : 1);
}

static int64_t in_flight(const ff_schedule_shape *shape, int32_t stage) {
    part t = part_of(shape, stage);
    (void)stage;
    return 2 * (int64_t)t.n + 1;
}

static void check_size(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    int64_t p = shape->stages, m = shape->microbatches;
    bool both_ways = shape->kind == FF_SCHEDULE_DUALPIPE;
    if (both_ways && p % 2 != 0) {
        ff_report(findings, FF0271, FF_NOWHERE, "dualpipe with pp=%lld", (long long)p);
        if (p > 1)
            ff_report_help(findings, "nearest legal: pp=%lld, pp=%lld", (long long)p - 1,
                           (long long)p + 1);
        else
            ff_report_help(findings, "nearest legal: pp=2");
    }
    if (m < 2 * p || (both_ways && m % 2 != 0)) {
        ff_report(findings, FF0272, FF_NOWHERE, "%s with pp=%lld and %lld microbatches",
                  ff_schedule_name(shape->kind), (long long)p, (long long)m);
        if (m < 2 * p)
            ff_report_help(findings, "nearest legal: microbatches=%lld", (long long)(2 * p));
        else
            ff_report_help(findings, "nearest legal: microbatches=%lld, microbatches=%lld",
                           (long long)ff_max(2 * p, m - 1), (long long)m + 1);
    }
}

static void check(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    ff_generator_check_two_chunks(shape, findings);
    check_size(shape, findings);
}

#define ROW(name, which, where)                                                                    \
    const ff_generator name = {                                                                    \
        .kind = which,                                                                             \
        .placement = where,                                                                        \
        .splits = true,                                                                            \
        .check = check,                                                                            \
        .generate = generate,                                                                      \
        .split_count = split_count,                                                                \
        .warmup = warmup,                                                                          \
        .in_flight = in_flight,                                                                    \
        .in_flight_weight = in_flight,                                                             \
        .bubble = ff_list_bubble,                                                                  \
        .span_estimate = ff_list_span,                                                             \
    }

ROW(ff_generator_dualpipe, FF_SCHEDULE_DUALPIPE, FF_PLACEMENT_BOTH_WAYS);
ROW(ff_generator_dualpipe_v, FF_SCHEDULE_DUALPIPE_V, FF_PLACEMENT_V);
