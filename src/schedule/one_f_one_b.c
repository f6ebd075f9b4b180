/* 1F1B (Narayanan 2021, 2104.04473): after a warm-up that is longer the earlier the stage, each
 * stage runs one forward, one backward, so that it never holds more than p - stage microbatches.
 *
 *     p 3, m 4     stage 0  F0 F1 F2 B0 F3 B1 B2 B3        warm-up 2, in flight 3
 *                  stage 1     F0 F1 B0 F2 B1 F3 B2 B3     warm-up 1, in flight 2
 *                  stage 2        F0 B0 F1 B1 F2 B2 F3 B3  warm-up 0, in flight 1
 *
 * Span of uneven stages: the longest of two kinds of paths through the run, each a lower bound.
 * c_i = F_i + B_i, x = transfer, a = warm-up of stage k, D = sum over the stages below k of c + 2x.
 *
 *   one stage   the first microbatch reaches stage k and the last leaves it: c_i + 2x of the stages
 *               above. Between them the stage works m*c_k, and is starved twice: until the first
 *               microbatch is back from below (D, of which its warm-up covers a*F_k), and while it
 *               drains (D again, a*B_k covers). Without a steady state both waits are one.
 *   loops       stages k .. j hold j-k+1 microbatches between them, and each comes round in the sum
 *               of their c plus 2(j-k)x: no stage can be faster, so transfers slow the steady
 *               state although nothing is starved by work.
 *
 * The usual formula, sum c + (m-1) max c + 2(p-1)x, is too long where the slowest stage is early
 * (warm-up hides the stages below) and too short by about 2x a microbatch. With equal stages and no
 * transfer all agree. Measured against the exact run: span.h. */
#include "schedule/generators.h"

#include "base/number.h"

static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    return ff_min(shape->microbatches, shape->stages - 1 - stage);
}

/* The steady state runs a forward before it frees one: one more than the warm-up. */
static int64_t in_flight(const ff_schedule_shape *shape, int32_t stage) {
    return ff_min(shape->microbatches, shape->stages - stage);
}

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    int32_t ahead = (int32_t)warmup(shape, stage);
    for (int32_t i = 0; i < ahead; i++)
        ff_order_forward(order, 0, i);
    for (int32_t i = ahead; i < shape->microbatches; i++) {
        ff_order_forward(order, 0, i);
        ff_order_backward(order, 0, i - ahead);
    }
    for (int32_t i = shape->microbatches - ahead; i < shape->microbatches; i++)
        ff_order_backward(order, 0, i);
}

static double bubble(const ff_schedule_shape *shape, double f, double b, double w) {
    return (shape->stages - 1) * (f + b + w);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* From the first forward of a stage to its last backward, when the stages below it return a
 * microbatch after `below_s`. */
static double stage_busy_s(int64_t microbatches, int64_t ahead, double forward_s, double backward_s,
                           double below_s) {
    double stage_s = forward_s + backward_s;
    double own_s = (double)microbatches * stage_s;
    if (ahead >= microbatches - 1) /* no steady state: all forwards, one wait, all backwards */
        return larger(own_s, stage_s + below_s +
                                 (double)(microbatches - 1) * larger(forward_s, backward_s));
    return own_s + larger(0, below_s - (double)ahead * forward_s) +
           larger(0, below_s - (double)ahead * backward_s);
}

/* The longest path that stays on one stage once it is reached. */
static double busiest_stage_s(const ff_schedule_shape *shape, const double *forward_s,
                              const double *backward_s, double transfer_s) {
    double below_s = 0, above_s = 0, longest_s = 0;
    for (int32_t i = 0; i < shape->stages; i++)
        below_s += forward_s[i] + backward_s[i] + 2 * transfer_s;
    below_s -= 2 * transfer_s;
    for (int32_t k = 0; k < shape->stages; k++) {
        double stage_s = forward_s[k] + backward_s[k];
        below_s -= stage_s;
        longest_s = larger(longest_s, above_s + stage_busy_s(shape->microbatches, warmup(shape, k),
                                                             forward_s[k], backward_s[k], below_s));
        above_s += stage_s + 2 * transfer_s;
        below_s -= 2 * transfer_s;
    }
    return longest_s;
}

/* The longest path that comes back to stage `first` again and again: the first microbatch passes
 * all stages below it and returns, then as many loops as there are microbatches for go round the
 * stages first .. last of a window, then a last microbatch passes all below. */
static double window_loops_s(const ff_schedule_shape *shape, int32_t first, double round_trip_s,
                             const double *forward_s, const double *backward_s, double transfer_s) {
    int64_t left = shape->microbatches - 2 - warmup(shape, first);
    double stage_s = forward_s[first] + backward_s[first];
    double loop_s = -2 * transfer_s, longest_s = 0;
    if (left < 0)
        return 0;
    for (int32_t last = first; last < shape->stages; last++) {
        int64_t width = last - first + 1, loops = left / width;
        loop_s += forward_s[last] + backward_s[last] + 2 * transfer_s;
        longest_s =
            larger(longest_s, (double)loops * loop_s + (double)(left - loops * width) * stage_s);
    }
    return 2 * round_trip_s + longest_s;
}

/* No window from a stage on takes longer: every loop and what is left at the pace of the slowest
 * stage, and no more transfers saved than the widest window's loops save. */
static double most_loops_s(const ff_schedule_shape *shape, int32_t first, double slowest_s,
                           double transfer_s) {
    int64_t left = shape->microbatches - 2 - warmup(shape, first);
    int64_t loops = left / (shape->stages - first);
    return left < 0 ? 0
                    : (double)left * (slowest_s + 2 * transfer_s) - 2 * transfer_s * (double)loops;
}

/* The longest of those that are longer than `longest_s`, or that. */
static double longest_loops_s(const ff_schedule_shape *shape, const double *forward_s,
                              const double *backward_s, double transfer_s, double longest_s) {
    double round_trip_s = -2 * transfer_s, above_s = 0, slowest_s = 0;
    for (int32_t i = 0; i < shape->stages; i++) {
        round_trip_s += forward_s[i] + backward_s[i] + 2 * transfer_s;
        slowest_s = larger(slowest_s, forward_s[i] + backward_s[i]);
    }
    for (int32_t i = 0; i < shape->stages; i++) {
        double step_s = forward_s[i] + backward_s[i] + 2 * transfer_s;
        double most_s = above_s + 2 * round_trip_s + most_loops_s(shape, i, slowest_s, transfer_s);
        if (most_s > longest_s)
            longest_s =
                larger(longest_s, above_s + window_loops_s(shape, i, round_trip_s, forward_s,
                                                           backward_s, transfer_s));
        round_trip_s -= step_s;
        above_s += step_s;
    }
    return longest_s;
}

static double span_estimate(const ff_schedule_shape *shape, const ff_pipeline_times *times) {
    double busiest_s =
        busiest_stage_s(shape, times->forward_s, times->backward_s, times->transfer_s);
    return longest_loops_s(shape, times->forward_s, times->backward_s, times->transfer_s,
                           busiest_s);
}

const ff_generator ff_generator_1f1b = {
    .kind = FF_SCHEDULE_1F1B,
    .check = ff_generator_check_one_chunk,
    .generate = generate,
    .warmup = warmup,
    .in_flight = in_flight,
    .bubble = bubble,
    .span_estimate = span_estimate,
};
