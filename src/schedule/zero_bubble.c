/* ZB-H1 and ZB-H2 (Qi 2023, 2401.10241): 1F1B whose backward is split, so that the weight gradients
 * (W), for which nobody waits, fill what would be bubble.
 *
 *     zb-h1, p 3, m 4   stage 0  F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3     W waits 0 backwards
 *                       stage 1     F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3             1
 *                       stage 2        F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3          2
 *
 * With lead k (H1: 1, H2: 2) stage i runs k(p-1-i) forwards before its steady state, and each W
 * waits for k*i further backwards, so that every stage holds the same from F to W: k(p-1)+1, which
 * for H1 is 1F1B's largest, p. The first stage has no room to wait, the last one waits longest.
 *
 * Span of equal stages that take F, B, W: stage i begins after i*F, and its last B comes back from
 * the last stage, which has then run all its F and B and all W but those that wait (k(p-1)+1):
 *
 *     end(i) = (p-1)F + m(F+B) + (m-1-k(p-1))W + (p-1-i)B + (1+k*i)W   or   i*F + m(F+B+W)
 *
 * for m > k(p-1) and stages that are never starved in between (W at most F+B, and B at least W).
 * Largest at one of the ends, so the bubble is (p-1) max(F, F+B-kW): where a norm or a next step
 * makes all stages wait for the last, F = B = W leaves (p-1)F in both; without it H2 has none.
 * Outside these shapes and for uneven stages the estimate takes the longest of each stage's own
 * path, a lower bound (span.h says how close). */
#include "schedule/by_list.h"

#include "base/number.h"

static int32_t lead_of(const ff_schedule_shape *shape) {
    return shape->kind == FF_SCHEDULE_ZB_H2 ? 2 : 1;
}

static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    return ff_min(shape->microbatches, (int64_t)lead_of(shape) * (shape->stages - 1 - stage));
}

static int64_t in_flight(const ff_schedule_shape *shape, int32_t stage) {
    return ff_min(shape->microbatches, warmup(shape, stage) + 1);
}

static int64_t in_flight_weight(const ff_schedule_shape *shape, int32_t stage) {
    (void)stage;
    return ff_min(shape->microbatches, (int64_t)lead_of(shape) * (shape->stages - 1) + 1);
}

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    int32_t m = shape->microbatches, ahead = (int32_t)warmup(shape, stage);
    int32_t waits = (int32_t)ff_min(m, (int64_t)lead_of(shape) * stage);
    for (int32_t i = 0; i < ahead; i++)
        ff_order_forward(order, 0, i);
    for (int32_t i = 0; i < m; i++) {
        if (ahead + i < m)
            ff_order_forward(order, 0, ahead + i);
        ff_order_backward_input(order, 0, i);
        if (i >= waits)
            ff_order_backward_weight(order, 0, i - waits);
    }
    for (int32_t i = m - waits; i < m; i++)
        ff_order_backward_weight(order, 0, i);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Bubble until stage i ends: its own work begun late, or the last microbatch's way back less the
 * weight gradients that were done before. */
static double bubble_of(const ff_schedule_shape *shape, int64_t i, double f, double b, double w) {
    int64_t p = shape->stages, m = shape->microbatches, lead = lead_of(shape);
    int64_t done = ff_max(0, m - 1 - lead * (p - 1)), left = ff_min(lead * i, m - 1) + 1;
    double hidden = (double)(m - done - left) * (w < f ? w : f);
    return larger((double)i * f, (double)(p - 1) * f + (double)(p - 1 - i) * b - hidden);
}

static double bubble(const ff_schedule_shape *shape, double f, double b, double w) {
    double longest = 0;
    for (int64_t i = 0; i < shape->stages; i++)
        longest = larger(longest, bubble_of(shape, i, f, b, w));
    return longest;
}

#define ROW(name, which)                                                                           \
    const ff_generator name = {                                                                    \
        .kind = which,                                                                             \
        .splits = true,                                                                            \
        .check = ff_generator_check_one_chunk,                                                     \
        .generate = generate,                                                                      \
        .warmup = warmup,                                                                          \
        .in_flight = in_flight,                                                                    \
        .in_flight_weight = in_flight_weight,                                                      \
        .bubble = bubble,                                                                          \
        .span_estimate = ff_list_span,                                                             \
    }

ROW(ff_generator_zb_h1, FF_SCHEDULE_ZB_H1);
ROW(ff_generator_zb_h2, FF_SCHEDULE_ZB_H2);
