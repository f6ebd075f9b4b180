/* Schedules that split backward, and what a stage holds under any schedule: every list is complete,
 * matched and free of deadlock; every summary equals what is counted in the whole list or run from
 * it. Shapes: p 1..16, m 1..64. */
#include "base/text.h"
#include "fivefold/schedule.h"
#include "schedule/run.h"
#include "schedule/span.h"
#include "schedule/verify.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STAGES = 16, MOST_MICROBATCHES = 64, MOST_CHUNKS = 4 };

static const ff_schedule_kind kinds[] = {FF_SCHEDULE_ZB_H1,    FF_SCHEDULE_ZB_H2,
                                         FF_SCHEDULE_ZB_V,     FF_SCHEDULE_V_HALF,
                                         FF_SCHEDULE_DUALPIPE, FF_SCHEDULE_DUALPIPE_V};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool is_zero_bubble(ff_schedule_kind kind) {
    return kind == FF_SCHEDULE_ZB_H1 || kind == FF_SCHEDULE_ZB_H2;
}

static ff_schedule_shape shape_of(ff_schedule_kind kind, int p, int m) {
    return (ff_schedule_shape){kind, p, is_zero_bubble(kind) ? 1 : 2, m, 0};
}

static void for_every_shape(void (*test)(const ff_schedule_shape *shape)) {
    for (int k = 0; k < KINDS; k++)
        for (int p = 1; p <= MOST_STAGES; p++)
            for (int m = 1; m <= MOST_MICROBATCHES; m++) {
                ff_schedule_shape shape = shape_of(kinds[k], p, m);
                if (ff_schedule_check(&shape, NULL) == FF_OK)
                    test(&shape);
            }
}

static int64_t pieces_of(const ff_schedule_shape *shape) {
    return (int64_t)shape->chunks * shape->microbatches / ff_schedule_copies(shape);
}

typedef struct counts {
    int64_t warmup, in_flight, in_flight_weight, sends, weights, forwards;
} counts;

static counts count(const ff_schedule *schedule, int32_t stage) {
    int64_t actions, to_backward = 0, to_weight = 0;
    const ff_action *list = ff_schedule_actions(schedule, stage, &actions);
    counts c = {.warmup = -1};
    for (int64_t i = 0; i < actions; i++) {
        ff_action_kind kind = list[i].kind;
        bool forward = kind == FF_ACTION_FORWARD, whole = kind == FF_ACTION_BACKWARD;
        bool input = kind == FF_ACTION_BACKWARD_INPUT, weight = kind == FF_ACTION_BACKWARD_WEIGHT;
        if ((whole || input) && c.warmup < 0)
            c.warmup = to_backward;
        to_backward += forward - (whole || input);
        to_weight += forward - (whole || weight);
        c.forwards += forward;
        c.weights += weight;
        c.sends += kind == FF_ACTION_SEND_ACTIVATION || kind == FF_ACTION_SEND_GRADIENT;
        c.in_flight = to_backward > c.in_flight ? to_backward : c.in_flight;
        c.in_flight_weight = to_weight > c.in_flight_weight ? to_weight : c.in_flight_weight;
    }
    return c;
}

static void check_list(const ff_schedule_shape *shape) {
    ff_schedule *schedule = ff_schedule_create(shape);
    ff_schedule_fault fault;
    assert_non_null(schedule);
    if (!ff_schedule_verify(schedule, &fault))
        fail_msg("%s p %d m %d: %s", ff_schedule_name(shape->kind), shape->stages,
                 shape->microbatches, fault.text);
    int64_t sends = 0, total = 0, actions;
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        counts c = count(schedule, stage);
        int64_t pieces = pieces_of(shape), warmup = ff_schedule_warmup(shape, stage);
        assert_int_equal(c.warmup, warmup < pieces ? warmup + 1 : pieces);
        assert_int_equal(c.in_flight, ff_schedule_in_flight(shape, stage));
        assert_int_equal(c.in_flight_weight, ff_schedule_in_flight_weight(shape, stage));
        assert_int_equal(c.forwards, pieces);
        assert_int_equal(2 * pieces + c.weights, ff_schedule_computation_count(shape, stage));
        assert_int_equal(c.sends, ff_schedule_sends(shape, stage));
        ff_schedule_actions(schedule, stage, &actions);
        total += actions;
        sends += c.sends;
    }
    assert_int_equal(total, ff_schedule_action_count(shape));
    /* A V's turn stays on the last stage. */
    int64_t turns = shape->chunks == 2 && ff_schedule_copies(shape) == 1;
    assert_int_equal(sends, shape->microbatches * 2 * (ff_schedule_crossings(shape) - turns));
    ff_schedule_free(schedule);
}

static void test_lists_and_summaries(void **state) {
    (void)state;
    for_every_shape(check_list);
}

/* --- bubbles --- */

static double run_span(const ff_schedule_shape *shape, double f, double b, double w) {
    double forward[2 * MOST_STAGES], backward[2 * MOST_STAGES], weight[2 * MOST_STAGES];
    double share = (double)ff_schedule_copies(shape) / shape->chunks;
    for (int i = 0; i < shape->stages * shape->chunks; i++) {
        forward[i] = f * share;
        backward[i] = (b + w) * share;
        weight[i] = w * share;
    }
    ff_schedule *schedule = ff_schedule_create(shape);
    double span = ff_schedule_split_span(schedule, &(ff_run_times){forward, backward, weight, 0});
    ff_schedule_free(schedule);
    return span;
}

/* Whatever F, B and W: closed form (zb-h1, zb-h2) or short list (the others) against the run. */
static void check_bubble(const ff_schedule_shape *shape) {
    static const double times[][3] = {{1, 1, 1},     {1, 2, 1},   {1, 1.2, 0.8}, {0.5, 1, 0.9},
                                      {0.3, 0.2, 1}, {1, 1, 1.2}, {0.1, 1, 0.2}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        double f = times[i][0], b = times[i][1], w = times[i][2];
        double span = run_span(shape, f, b, w);
        double bubble = span - shape->microbatches * (f + b + w);
        double summary = ff_schedule_bubble(shape, f, b, w);
        if (fabs(bubble - summary) > 1e-9)
            fail_msg("%s p %d m %d F %.1f B %.1f W %.1f: run %.6f, summary %.6f",
                     ff_schedule_name(shape->kind), shape->stages, shape->microbatches, f, b, w,
                     bubble, summary);
    }
}

static void test_bubbles(void **state) {
    (void)state;
    for_every_shape(check_bubble);
}

/* (p-1)(F+B-W), (p-1)(F+B-2W) where no stage begins later than that, and at F=B=W 1F1B's third. */
static void test_published_bubbles(void **state) {
    (void)state;
    ff_schedule_shape h1 = shape_of(FF_SCHEDULE_ZB_H1, 8, 32);
    ff_schedule_shape h2 = shape_of(FF_SCHEDULE_ZB_H2, 8, 32);
    ff_schedule_shape plain = {FF_SCHEDULE_1F1B, 8, 1, 32, 0};
    assert_true(fabs(ff_schedule_bubble(&h1, 1, 1.5, 0.9) - 7 * (1 + 1.5 - 0.9)) < 1e-12);
    assert_true(fabs(ff_schedule_bubble(&h2, 1, 1.5, 0.4) - 7 * (1 + 1.5 - 0.8)) < 1e-12);
    assert_true(fabs(ff_schedule_bubble(&h2, 1, 1, 1) - 7) < 1e-12); /* all wait for the last */
    assert_true(fabs(ff_schedule_bubble(&h1, 1, 1, 1) * 3 - ff_schedule_bubble(&plain, 1, 1, 1)) <
                1e-12);
    /* ZB-V: the last stage begins (p-1)F/2 late, and that is all. V-Half: half of 1F1B's or so. */
    ff_schedule_shape zb_v = shape_of(FF_SCHEDULE_ZB_V, 8, 32);
    ff_schedule_shape v_half = shape_of(FF_SCHEDULE_V_HALF, 16, 64);
    ff_schedule_shape wide = {FF_SCHEDULE_1F1B, 16, 1, 64, 0};
    assert_true(fabs(ff_schedule_bubble(&zb_v, 1, 1, 1) - 3.5) < 1e-12);
    double half = ff_schedule_bubble(&v_half, 1, 1, 1) / ff_schedule_bubble(&wide, 1, 1, 1);
    print_message("v-half: %.2f of 1f1b's bubble at p 16\n", half);
    assert_true(half > 0.4 && half < 0.65);
}

/* DeepSeek's (p/2-1)(F&B + B - 3W), with a pair as one block, bounds the list, in which a pair's
 * forward is sent on before its backward runs. */
static void test_dualpipe_bubble(void **state) {
    (void)state;
    static const double times[][3] = {{1, 1, 1}, {1, 1.2, 0.8}, {1, 2, 1}, {1, 1, 1.5}};
    for (int p = 2; p <= MOST_STAGES; p += 2)
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
            double f = times[i][0], b = times[i][1], w = times[i][2], whole = b + w;
            ff_schedule_shape shape = shape_of(FF_SCHEDULE_DUALPIPE, p, 4 * p);
            double published = (p / 2 - 1) * (f + whole + whole - 3 * w);
            assert_true(ff_schedule_bubble(&shape, f, b, w) <=
                        fmax(published, (p / 2 - 1) * f) + 1e-9);
        }
}

/* --- published numbers, golden lists, drawings --- */

/* Counted from the published schedulers at p 4 (sail-sg's, DeepSeek's): see the generators. */
static void test_published_in_flight(void **state) {
    (void)state;
    static const int h2[] = {7, 5, 3, 1};
    for (int stage = 0; stage < 4; stage++) {
        ff_schedule_shape shape = shape_of(FF_SCHEDULE_ZB_H1, 4, 16);
        assert_int_equal(ff_schedule_in_flight(&shape, stage), 4 - stage);
        assert_int_equal(ff_schedule_in_flight_weight(&shape, stage), 4);
        shape.kind = FF_SCHEDULE_ZB_H2;
        assert_int_equal(ff_schedule_in_flight(&shape, stage), h2[stage]);
        assert_int_equal(ff_schedule_in_flight_weight(&shape, stage), 7);
        shape = shape_of(FF_SCHEDULE_ZB_V, 4, 16);
        assert_int_equal(ff_schedule_in_flight_weight(&shape, stage), 8); /* chunks: 4 stages */
        shape.kind = FF_SCHEDULE_DUALPIPE;
        assert_int_equal(ff_schedule_in_flight(&shape, stage), 5); /* p + 1 */
        shape = shape_of(FF_SCHEDULE_DUALPIPE, 8, 32);
        assert_int_equal(ff_schedule_in_flight(&shape, stage), 9);
        shape = shape_of(FF_SCHEDULE_V_HALF, 16, 64); /* p/2 stages and one or two chunks */
        assert_in_range(ff_schedule_in_flight_weight(&shape, stage), 16, 19);
    }
}

static void assert_drawn(ff_schedule_shape shape, const char *expected) {
    ff_schedule *schedule = ff_schedule_create(&shape);
    char *text = ff_schedule_draw(schedule, 80);
    if (strncmp(text, expected, strlen(expected)) != 0)
        fail_msg("drawn:\n%s", text);
    free(text);
    ff_schedule_free(schedule);
}

/* p 4, 8 microbatches, against Qi 2023, figure 3 (zb-h1) and figure 6 (zb-v). */
static void test_drawings(void **state) {
    (void)state;
    assert_drawn(shape_of(FF_SCHEDULE_ZB_H1, 4, 8),
                 "stage 0  0 1 2 3 · · · ⓪ ░ 4 ① ░ 5 ② ░ 6 ③ ░ 7 ④ ░ ⑤ ░ ⑥ ░ ⑦ ░\n"
                 "stage 1  · 0 1 2 · · ⓪ 3 ① ░ 4 ② ░ 5 ③ ░ 6 ④ ░ 7 ⑤ ░ ⑥ ░ ⑦ ░ ░\n"
                 "stage 2  · · 0 1 · ⓪ 2 ① 3 ② ░ 4 ③ ░ 5 ④ ░ 6 ⑤ ░ 7 ⑥ ░ ⑦ ░ ░ ░\n"
                 "stage 3  · · · 0 ⓪ 1 ① 2 ② 3 ③ ░ 4 ④ ░ 5 ⑤ ░ 6 ⑥ ░ 7 ⑦ ░ ░ ░ ░\n");
    assert_drawn(shape_of(FF_SCHEDULE_ZB_V, 4, 8),
                 "stage 0  0123456aⓐ▒bⓑ▒cⓒ▒dⓓ▒7⓪░eⓔ▒①░fⓕ▒②░gⓖ▒③░hⓗ▒④░⑤░⑥░⑦░···\n"
                 "stage 1  ·01234a5bⓐ▒cⓑ▒dⓒ▒6⓪░eⓓ▒7①░fⓔ▒②░gⓕ▒③░hⓖ▒④ⓗ⑤░⑥░⑦░▒░··\n");
    assert_drawn(shape_of(FF_SCHEDULE_DUALPIPE, 4, 8),
                 "stage 0  0 1 2 e ⓔ ▒ f 3 f━━ g 0━━ g━━ h · 1━━ h━━ ② ░ ③ ░\n"
                 "stage 1  · 0 e 1 f 2 e━━ g 0━━ 3 f━━ h 1━━ g━━ 2━━ ⓗ ③ ▒ ░\n");
}

static void assert_refused(ff_schedule_shape shape, const char *code, const char *help) {
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_int_equal(ff_schedule_check(&shape, findings), FF_NO);
    const ff_diagnostic *item = ff_diagnostics_at(findings, 0);
    assert_string_equal(item->code, code);
    assert_non_null(item->help);
    assert_non_null(strstr(item->help, help));
    ff_diagnostics_free(findings);
}

static void test_refusals(void **state) {
    (void)state;
    assert_refused((ff_schedule_shape){FF_SCHEDULE_ZB_H1, 4, 2, 8, 0}, "FF0242", "vpp=1");
    assert_refused((ff_schedule_shape){FF_SCHEDULE_ZB_V, 4, 1, 8, 0}, "FF0270", "vpp=2");
    assert_refused(shape_of(FF_SCHEDULE_DUALPIPE, 5, 20), "FF0271", "pp=4, pp=6");
    assert_refused(shape_of(FF_SCHEDULE_DUALPIPE, 1, 20), "FF0271", "pp=2");
    assert_refused(shape_of(FF_SCHEDULE_DUALPIPE, 4, 6), "FF0272", "microbatches=8");
    assert_refused(shape_of(FF_SCHEDULE_DUALPIPE, 4, 11), "FF0272",
                   "microbatches=10, microbatches=12");
    assert_refused(shape_of(FF_SCHEDULE_DUALPIPE_V, 4, 7), "FF0272", "microbatches=8");
}

/* --- what a stage holds --- */

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static int below(uint64_t *seed, int most) {
    return (int)(next_random(seed) % (uint64_t)most);
}

/* A second implementation: over the whole list of the schedule. */
static int64_t walked_peak(const ff_schedule *schedule, int32_t stage, const ff_chunk_hold *holds) {
    int64_t actions, held = 0, peak = 0;
    const ff_action *list = ff_schedule_actions(schedule, stage, &actions);
    for (int64_t i = 0; i < actions; i++) {
        const ff_chunk_hold *h = &holds[list[i].chunk];
        int64_t during = held + h->working_bytes;
        switch (list[i].kind) {
        case FF_ACTION_FORWARD:
            during = held += h->kept_bytes;
            break;
        case FF_ACTION_BACKWARD:
            held -= h->kept_bytes;
            break;
        case FF_ACTION_BACKWARD_INPUT:
            held += h->waiting_bytes - h->kept_bytes;
            during = held + h->working_bytes > during ? held + h->working_bytes : during;
            break;
        case FF_ACTION_BACKWARD_WEIGHT:
            during = held;
            held -= h->waiting_bytes;
            break;
        default:
            continue;
        }
        peak = during > peak ? during : peak;
    }
    assert_int_equal(held, 0);
    return peak;
}

static ff_schedule_shape random_shape(uint64_t *seed) {
    for (;;) {
        ff_schedule_shape shape = {(ff_schedule_kind)below(seed, FF_SCHEDULE_COUNT),
                                   1 + below(seed, MOST_STAGES), 1 + below(seed, MOST_CHUNKS),
                                   1 + below(seed, 3 * MOST_MICROBATCHES), 0};
        if (shape.kind == FF_SCHEDULE_INTERLEAVED && below(seed, 2))
            shape.microbatches = shape.stages * (1 + below(seed, 8));
        if (shape.kind == FF_SCHEDULE_INTERLEAVED && below(seed, 2))
            shape.group = shape.stages + below(seed, 8);
        if (ff_schedule_check(&shape, NULL) == FF_OK)
            return shape;
    }
}

static void check_peak(const ff_schedule_shape *shape, uint64_t *seed) {
    ff_schedule *schedule = ff_schedule_create(shape);
    ff_chunk_hold holds[MOST_CHUNKS];
    ff_held held[MOST_CHUNKS];
    bool alike = below(seed, 3) == 0;
    for (int c = 0; c < shape->chunks; c++)
        holds[c] = alike && c > 0 ? holds[0]
                                  : (ff_chunk_hold){1 + below(seed, 100), below(seed, 150),
                                                    100 + below(seed, 100)};
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        ff_peak peak = ff_schedule_peak(shape, stage, holds, held);
        int64_t walked = walked_peak(schedule, stage, holds), made_of = 0;
        for (int c = 0; c < shape->chunks; c++)
            made_of +=
                held[c].kept * holds[c].kept_bytes + held[c].waiting * holds[c].waiting_bytes;
        made_of += peak.chunk < 0 ? 0 : holds[peak.chunk].working_bytes;
        if (peak.bytes != walked || made_of != walked)
            fail_msg("%s p %d v %d m %d u %d stage %d: %lld, walked %lld, made of %lld",
                     ff_schedule_name(shape->kind), shape->stages, shape->chunks,
                     shape->microbatches, shape->group, stage, (long long)peak.bytes,
                     (long long)walked, (long long)made_of);
    }
    ff_schedule_free(schedule);
}

static void test_peaks(void **state) {
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 4000; i++) {
        ff_schedule_shape shape = random_shape(&seed);
        check_peak(&shape, &seed);
    }
}

/* --- spans of uneven stages, with transfers: a short list says what the whole one does --- */

static double span_error(const ff_schedule_shape *shape, double spread, uint64_t *seed) {
    double stage[3][MOST_STAGES], chunk[3][2 * MOST_STAGES];
    double share = (double)ff_schedule_copies(shape) / shape->chunks;
    double transfer = 0.2 * below(seed, 100) / 100;
    for (int i = 0; i < shape->stages; i++) {
        double scale = 1 - spread * below(seed, 100) / 100;
        stage[0][i] = scale;
        stage[2][i] = scale * (0.6 + 0.004 * below(seed, 100));
        stage[1][i] = scale * (1 + 0.004 * below(seed, 100)) + stage[2][i];
        for (int kind = 0; kind < 3; kind++)
            for (int c = 0; c < shape->chunks; c++)
                chunk[kind][i * shape->chunks + c] = stage[kind][i] * share;
    }
    ff_schedule *schedule = ff_schedule_create(shape);
    double span =
        ff_schedule_split_span(schedule, &(ff_run_times){chunk[0], chunk[1], chunk[2], transfer});
    ff_schedule_free(schedule);
    ff_pipeline_times times = {stage[0], stage[1], stage[2], transfer, NULL};
    return ff_schedule_split_estimate(shape, &times) / span - 1;
}

static void test_uneven_spans(void **state) {
    (void)state;
    uint64_t seed = 2463534242u;
    for (int k = 0; k < KINDS; k++) {
        double least = 0, most = 0;
        for (int i = 0; i < 200; i++) {
            ff_schedule_shape shape =
                shape_of(kinds[k], 1 + below(&seed, MOST_STAGES), 1 + below(&seed, 500));
            if (ff_schedule_check(&shape, NULL) != FF_OK)
                continue;
            double error = span_error(&shape, 0.5, &seed);
            least = fmin(least, error);
            most = fmax(most, error);
        }
        print_message("%s: %+.3f%% .. %+.3f%%\n", ff_schedule_name(kinds[k]), 100 * least,
                      100 * most);
        assert_true(least > -0.01 && most < 0.01);
    }
}

/* The verifier sees a weight gradient before its input gradient, and one that is missing. */
static void test_verifier_fails(void **state) {
    (void)state;
    ff_schedule_shape shape = shape_of(FF_SCHEDULE_ZB_H1, 1, 2); /* F B W F B W */
    ff_schedule_fault fault;
    ff_schedule *schedule = ff_schedule_create(&shape);
    ff_action kept = schedule->actions[1];
    schedule->actions[1] = schedule->actions[2];
    schedule->actions[2] = kept;
    assert_false(ff_schedule_verify(schedule, &fault));
    assert_non_null(strstr(fault.text, "stands before what it needs"));
    ff_schedule_free(schedule);
    schedule = ff_schedule_create(&shape);
    schedule->first[1]--;
    assert_false(ff_schedule_verify(schedule, &fault));
    assert_non_null(strstr(fault.text, "is not run both ways"));
    ff_schedule_free(schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_summaries),
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_published_bubbles),
        cmocka_unit_test(test_dualpipe_bubble),
        cmocka_unit_test(test_published_in_flight),
        cmocka_unit_test(test_drawings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_uneven_spans),
        cmocka_unit_test(test_verifier_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
