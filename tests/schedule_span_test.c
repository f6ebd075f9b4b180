/* How long a pipeline takes: the closed forms against an exact run of the lists, with equal and with
 * uneven stages, and against what the busiest stage has to do. */
#include "schedule_support.h"

#include "schedule/run.h"
#include "schedule/span.h"
#include <math.h>

#define EXACT 1e-12

/* Equal stages, no transfer time: the bubble ratio and the span estimate are exact, whatever F:B.
 */
static void check_equal_span(const ff_schedule_shape *shape) {
    double forward_s[MOST_STAGES * MOST_CHUNKS], backward_s[MOST_STAGES * MOST_CHUNKS];
    double stage_forward_s[MOST_STAGES], stage_backward_s[MOST_STAGES];
    static const double ratios[] = {0.5, 2.7};
    ff_schedule *schedule = ff_schedule_create(shape);
    for (size_t r = 0; r < sizeof ratios / sizeof *ratios; r++) {
        for (int i = 0; i < shape->stages * shape->chunks; i++) {
            forward_s[i] = 0.3 / shape->chunks;
            backward_s[i] = 0.3 * ratios[r] / shape->chunks;
        }
        for (int i = 0; i < shape->stages; i++) {
            stage_forward_s[i] = 0.3;
            stage_backward_s[i] = 0.3 * ratios[r];
        }
        double span_s = ff_schedule_span(schedule, forward_s, backward_s, 0);
        double ideal_s = shape->microbatches * 0.3 * (1 + ratios[r]);
        double summary_s = ideal_s * (1 + ff_schedule_bubble_ratio(shape));
        double estimate_s = ff_schedule_span_estimate(shape, stage_forward_s, stage_backward_s, 0);
        if (fabs(summary_s - span_s) > 1e-12 * span_s || fabs(estimate_s - span_s) > 1e-12 * span_s)
            fail_msg("kind %d p %d v %d m %d u %d F:B %.1f: run %.15g, ratio %.15g, estimate %.15g",
                     shape->kind, shape->stages, shape->chunks, shape->microbatches, shape->group,
                     ratios[r], span_s, summary_s, estimate_s);
    }
    ff_schedule_free(schedule);
}

static void test_equal_spans(void **state) {
    (void)state;
    for_every_shape(check_equal_span);
}

/* --- uneven stages --- */

static double random_unit(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (double)(*seed >> 11) * 0x1p-53;
}

static int random_between(uint64_t *seed, int least, int most) {
    return least + (int)(random_unit(seed) * (most - least + 1));
}

typedef struct unevenness {
    ff_schedule_kind kind;
    double spread;       /* stages take 1-spread .. 1 */
    double chunk_spread; /* and each chunk 1-chunk_spread .. 1 of its share of that */
    double head;         /* of a stage's time, on top on the last chunk: output head and loss */
    double transfer;     /* of a chunk's forward, at most */
    int least_rounds;    /* m at least this many times p; interleaved, 1f1b */
    double below, above; /* the estimate lies within run*(1+below) .. run*(1+above) */
} unevenness;

static double estimate_error(const unevenness *uneven, uint64_t *seed) {
    int v = uneven->kind == FF_SCHEDULE_INTERLEAVED ? random_between(seed, 2, MOST_CHUNKS) : 1;
    int p = random_between(seed, v > 1 ? 2 : 1, MOST_STAGES);
    int m = v > 1 ? p * random_between(seed, uneven->least_rounds, 8)
                  : random_between(seed, 1 + (p - 1) * (uneven->least_rounds > 0), 64);
    ff_schedule_shape shape = {uneven->kind, p, v, m, 0};
    double forward_s[MOST_STAGES * MOST_CHUNKS], backward_s[MOST_STAGES * MOST_CHUNKS];
    double stage_forward_s[MOST_STAGES] = {0}, stage_backward_s[MOST_STAGES] = {0};
    double ratio = 1.5 + random_unit(seed), transfer_s = uneven->transfer * random_unit(seed) / v;
    for (int i = 0; i < p; i++) {
        double stage = 1 - uneven->spread * random_unit(seed);
        for (int c = 0; c < v; c++) {
            double chunk = stage / v * (1 - uneven->chunk_spread * random_unit(seed)) +
                           (i == p - 1 && c == v - 1 ? uneven->head : 0);
            forward_s[i * v + c] = chunk;
            backward_s[i * v + c] = chunk * ratio;
            stage_forward_s[i] += chunk;
            stage_backward_s[i] += chunk * ratio;
        }
    }
    ff_schedule *schedule = ff_schedule_create(&shape);
    double span_s = ff_schedule_span(schedule, forward_s, backward_s, transfer_s);
    ff_schedule_free(schedule);
    return ff_schedule_span_estimate(&shape, stage_forward_s, stage_backward_s, transfer_s) /
               span_s -
           1;
}

/* The bounds are measured (see span.h); each case prints what it found. */
static void test_uneven_spans(void **state) {
    (void)state;
    static const unevenness cases[] = {
        {FF_SCHEDULE_GPIPE, 0.9, 0, 0.5, 0.3, 0, -EXACT, EXACT},
        {FF_SCHEDULE_1F1B, 0, 0, 0, 0, 0, -EXACT, EXACT},
        {FF_SCHEDULE_1F1B, 0.25, 0, 0.3, 0, 0, -0.002, EXACT},
        {FF_SCHEDULE_1F1B, 0.25, 0, 0, 0.1, 0, -0.004, EXACT},
        {FF_SCHEDULE_1F1B, 0.5, 0, 0.5, 0.1, 0, -0.004, EXACT},
        {FF_SCHEDULE_1F1B, 0.5, 0, 0, 0, 0, -0.03, EXACT},
        {FF_SCHEDULE_1F1B, 0.5, 0, 0, 0.3, 0, -0.03, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0, 0, 0, 0.3, 1, -EXACT, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0.25, 0, 0, 0, 2, -0.05, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0.5, 0, 0, 0.3, 2, -0.06, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0.25, 0, 0, 0, 1, -0.07, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0, 0, 0.05, 0, 1, -0.002, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0.1, 0, 0.1, 0.1, 1, -0.07, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0.25, 0, 0.3, 0.1, 1, -0.14, EXACT},
        {FF_SCHEDULE_INTERLEAVED, 0, 0.25, 0, 0, 1, -0.12, 0.04},
    };
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double least = 0, most = 0;
        for (int j = 0; j < 800; j++) {
            double error = estimate_error(&cases[i], &seed);
            least = fmin(least, error);
            most = fmax(most, error);
        }
        print_message(
            "kind %d spread %.2f chunk spread %.2f head %.2f transfer %.2f: %+.2f%% .. %+.2f%%\n",
            cases[i].kind, cases[i].spread, cases[i].chunk_spread, cases[i].head, cases[i].transfer,
            100 * least, 100 * most);
        assert_true(least >= cases[i].below && most <= cases[i].above);
    }
}

/* Worked by hand: p 2, m 2, F 1 and 2, B 2 and 4, transfer 0.5. Stage 0: F0 0-1, F1 1-2. Stage 1:
 * F0 1.5-3.5, B0 3.5-7.5, F1 7.5-9.5, B1 9.5-13.5. Stage 0: B0 8-10, B1 14-16. */
static void test_span_by_hand(void **state) {
    (void)state;
    ff_schedule *schedule = ff_schedule_create(&(ff_schedule_shape){FF_SCHEDULE_1F1B, 2, 1, 2, 0});
    double span_s = ff_schedule_span(schedule, (double[]){1, 2}, (double[]){2, 4}, 0.5);
    assert_true(span_s == 16);
    ff_schedule_free(schedule);
}

/* A stage much slower than all below it, few microbatches: it works without a pause, and the span
 * is never below the work of the slowest stage. */
static void test_span_covers_the_work(void **state) {
    (void)state;
    uint64_t seed = 99;
    const double alone_f[2] = {1, 0.02}, alone_b[2] = {2, 0.04};
    ff_schedule_shape two = {FF_SCHEDULE_1F1B, 2, 1, 2, 0};
    assert_true(fabs(ff_schedule_span_estimate(&two, alone_f, alone_b, 0) - 6) < EXACT);
    for (int times = 0; times < 3000; times++) {
        int p = random_between(&seed, 1, 8), v = p > 1 ? random_between(&seed, 1, 3) : 1;
        int m = v > 1 ? p * random_between(&seed, 1, 3) : random_between(&seed, 1, 12);
        ff_schedule_shape shape = {v > 1 ? FF_SCHEDULE_INTERLEAVED : FF_SCHEDULE_1F1B, p, v, m, 0};
        double forward_s[MOST_STAGES], backward_s[MOST_STAGES], work_s = 0;
        for (int i = 0; i < p; i++) {
            forward_s[i] = 0.01 + random_unit(&seed);
            backward_s[i] = 0.01 + 2 * random_unit(&seed);
            work_s = fmax(work_s, m * (forward_s[i] + backward_s[i]));
        }
        double span_s = ff_schedule_span_estimate(&shape, forward_s, backward_s, 0);
        if (span_s < work_s * (1 - 1e-12))
            fail_msg("p %d v %d m %d: span %.6f of %.6f", p, v, m, span_s, work_s);
        assert_true(ff_schedule_span_estimate(&shape, forward_s, backward_s, 0.1) >=
                    span_s * (1 - 1e-12));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_spans),
        cmocka_unit_test(test_uneven_spans),
        cmocka_unit_test(test_span_by_hand),
        cmocka_unit_test(test_span_covers_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
