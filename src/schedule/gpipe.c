/* GPipe, also "all forward, all backward": every forward of the step, then every backward.
 *
 *     p 3, m 4     stage 0  F0 F1 F2 F3                         B0 B1 B2 B3
 *                  stage 1     F0 F1 F2 F3                   B0 B1 B2 B3
 *                  stage 2        F0 F1 F2 F3 B0    B1    B2    B3          (B = 2F: stages wait)
 *
 * Backward runs in microbatch order, as 1F1B does, so that gradients of both add up in the same
 * order (Huang 2019, 1811.06965, runs it in reverse: same span, same memory).
 * Both halves are a flow shop with one machine a stage, so the span estimate is exact for any stage
 * times: all stages once, plus the slowest m-1 times more. */
#include "schedule/generators.h"

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    (void)stage;
    for (int32_t i = 0; i < shape->microbatches; i++)
        ff_order_forward(order, 0, i);
    for (int32_t i = 0; i < shape->microbatches; i++)
        ff_order_backward(order, 0, i);
}

static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    (void)stage;
    return shape->microbatches;
}

static double bubble(const ff_schedule_shape *shape, double f, double b, double w) {
    return (shape->stages - 1) * (f + b + w);
}

static double flow_shop_s(const double *stage_s, int32_t stages, int32_t jobs) {
    double sum_s = 0, slowest_s = 0;
    for (int32_t i = 0; i < stages; i++) {
        sum_s += stage_s[i];
        slowest_s = stage_s[i] > slowest_s ? stage_s[i] : slowest_s;
    }
    return sum_s + (jobs - 1) * slowest_s;
}

static double span_estimate(const ff_schedule_shape *shape, const ff_pipeline_times *times) {
    return flow_shop_s(times->forward_s, shape->stages, shape->microbatches) +
           flow_shop_s(times->backward_s, shape->stages, shape->microbatches) +
           2.0 * (shape->stages - 1) * times->transfer_s;
}

const ff_generator ff_generator_gpipe = {
    .kind = FF_SCHEDULE_GPIPE,
    .check = ff_generator_check_one_chunk,
    .generate = generate,
    .warmup = warmup,
    .in_flight = warmup,
    .bubble = bubble,
    .span_estimate = span_estimate,
};
