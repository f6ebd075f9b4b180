/* Schedules: every list is complete, matched and free of deadlock; every closed form equals what is
 * counted in the list. How long it takes: schedule_span_test.c. */
#include "schedule_support.h"

#include "base/text.h"
#include "schedule/run.h"
#include "schedule/verify.h"

typedef struct counts {
    int64_t warmup, in_flight, sends, computations;
} counts;

static counts count(const ff_schedule *schedule, int32_t stage) {
    int64_t actions, alive = 0;
    const ff_action *list = ff_schedule_actions(schedule, stage, &actions);
    counts counted = {0};
    bool backward = false;
    for (int64_t i = 0; i < actions; i++) {
        switch (list[i].kind) {
        case FF_ACTION_FORWARD:
            alive++;
            counted.computations++;
            break;
        case FF_ACTION_BACKWARD:
            /* The forward paired with the first backward belongs to the steady state. */
            if (!backward)
                counted.warmup = alive;
            backward = true;
            alive--;
            counted.computations++;
            break;
        case FF_ACTION_SEND_ACTIVATION:
        case FF_ACTION_SEND_GRADIENT:
            counted.sends++;
            break;
        default:
            break;
        }
        if (alive > counted.in_flight)
            counted.in_flight = alive;
    }
    return counted;
}

static void check_list(const ff_schedule_shape *shape) {
    ff_schedule *schedule = ff_schedule_create(shape);
    assert_non_null(schedule);
    ff_schedule_fault fault;
    if (!ff_schedule_verify(schedule, &fault))
        fail_msg("kind %d p %d v %d m %d u %d: %s", shape->kind, shape->stages, shape->chunks,
                 shape->microbatches, shape->group, fault.text);
    int64_t total = 0, sends = 0;
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        counts counted = count(schedule, stage);
        int64_t pieces = (int64_t)shape->chunks * shape->microbatches;
        int64_t warmup = ff_schedule_warmup(shape, stage), actions;
        /* With a steady state, its first forward comes before the first backward as well. */
        assert_int_equal(counted.warmup, warmup < pieces ? warmup + 1 : pieces);
        assert_int_equal(counted.in_flight, ff_schedule_in_flight(shape, stage));
        assert_int_equal(counted.sends, ff_schedule_sends(shape, stage));
        assert_int_equal(counted.computations, 2 * pieces);
        ff_schedule_actions(schedule, stage, &actions);
        total += actions;
        sends += counted.sends;
    }
    assert_int_equal(total, ff_schedule_action_count(shape));
    int64_t crossings = shape->stages == 1 ? 0 : ff_schedule_crossings(shape);
    assert_int_equal(sends, 2 * crossings * shape->microbatches);
    ff_schedule_free(schedule);
}

static void test_lists_and_summaries(void **state) {
    (void)state;
    for_every_shape(check_list);
}

/* What each chunk holds after the last warm-up forward and one more; the chunks make the whole. */
static void check_chunks(const ff_schedule_shape *shape) {
    ff_schedule *schedule = ff_schedule_create(shape);
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        int64_t actions, held[MOST_CHUNKS] = {0}, sum = 0;
        int64_t left = ff_schedule_in_flight(shape, stage);
        const ff_action *list = ff_schedule_actions(schedule, stage, &actions);
        for (int64_t i = 0; i < actions && left > 0; i++) {
            assert_int_not_equal(list[i].kind, FF_ACTION_BACKWARD);
            if (list[i].kind != FF_ACTION_FORWARD)
                continue;
            held[list[i].chunk]++;
            left--;
        }
        for (int32_t chunk = 0; chunk < shape->chunks; chunk++) {
            int64_t of_chunk = ff_schedule_in_flight_of_chunk(shape, stage, chunk);
            if (of_chunk != held[chunk])
                fail_msg("p %d v %d m %d u %d stage %d chunk %d: %lld, held %lld", shape->stages,
                         shape->chunks, shape->microbatches, shape->group, stage, chunk,
                         (long long)of_chunk, (long long)held[chunk]);
            sum += of_chunk;
        }
        assert_int_equal(sum, ff_schedule_in_flight(shape, stage));
    }
    ff_schedule_free(schedule);
}

static void test_in_flight_of_chunks(void **state) {
    (void)state;
    for_every_shape(check_chunks);
}

/* --- golden lists and published numbers --- */

/* A stage's list as "F0 F1 B0"; chunks above 0 behind a dot, transfers as "<0" in and ">0" out. */
static char *list_text(const ff_schedule_shape *shape, int32_t stage, bool transfers) {
    static const char *const marks[] = {
        [FF_ACTION_FORWARD] = "F",          [FF_ACTION_BACKWARD] = "B",
        [FF_ACTION_RECV_ACTIVATION] = "<a", [FF_ACTION_SEND_ACTIVATION] = ">a",
        [FF_ACTION_RECV_GRADIENT] = "<g",   [FF_ACTION_SEND_GRADIENT] = ">g"};
    ff_schedule *schedule = ff_schedule_create(shape);
    int64_t actions;
    const ff_action *list = ff_schedule_actions(schedule, stage, &actions);
    ff_text text = {0};
    for (int64_t i = 0; i < actions; i++) {
        if (list[i].peer >= 0 && !transfers)
            continue;
        ff_text_printf(&text, "%s%s%d", text.length == 0 ? "" : " ", marks[list[i].kind],
                       list[i].microbatch);
        if (shape->chunks > 1)
            ff_text_printf(&text, ".%d", list[i].chunk);
        if (list[i].peer >= 0)
            ff_text_printf(&text, "@%d", list[i].peer);
    }
    ff_schedule_free(schedule);
    return text.bytes;
}

static void assert_list(ff_schedule_shape shape, int32_t stage, bool transfers,
                        const char *expected) {
    char *text = list_text(&shape, stage, transfers);
    assert_string_equal(text, expected);
    free(text);
}

static void test_golden_lists(void **state) {
    (void)state;
    ff_schedule_shape plain = {FF_SCHEDULE_1F1B, 3, 1, 4, 0};
    assert_list(plain, 0, false, "F0 F1 F2 B0 F3 B1 B2 B3");
    assert_list(plain, 1, false, "F0 F1 B0 F2 B1 F3 B2 B3");
    assert_list(plain, 2, false, "F0 B0 F1 B1 F2 B2 F3 B3");
    assert_list((ff_schedule_shape){FF_SCHEDULE_1F1B, 3, 1, 2, 0}, 1, true,
                "<a0@0 F0 >a0@2 <a1@0 F1 >a1@2 <g0@2 B0 >g0@0 <g1@2 B1 >g1@0");
    assert_list((ff_schedule_shape){FF_SCHEDULE_GPIPE, 2, 1, 2, 0}, 0, true,
                "F0 >a0@1 F1 >a1@1 <g0@1 B0 <g1@1 B1");
    assert_list((ff_schedule_shape){FF_SCHEDULE_1F1B, 1, 1, 2, 0}, 0, true, "F0 B0 F1 B1");
    /* Megatron-LM's order for pp 2, vpp 2, m 4: schedule table 0.0 1.0 0.1 1.1 2.0 3.0 2.1 3.1. */
    ff_schedule_shape two = {FF_SCHEDULE_INTERLEAVED, 2, 2, 4, 0};
    assert_list(two, 0, false,
                "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
    assert_list(two, 1, false,
                "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
    /* One microbatch through all four chunks, alternating between the two stages. */
    assert_list((ff_schedule_shape){FF_SCHEDULE_INTERLEAVED, 2, 2, 2, 0}, 0, true,
                "F0.0 >a0.0@1 F1.0 >a1.0@1 <a0.1@1 F0.1 >a0.1@1 <a1.1@1 F1.1 >a1.1@1 "
                "<g0.1@1 B0.1 >g0.1@1 <g1.1@1 B1.1 >g1.1@1 <g0.0@1 B0.0 <g1.0@1 B1.0");
}

/* In flight, in stages' worth: counted from the published schedulers at p 4 (1F1B 4 3 2 1;
 * interleaved, v 2: 5.5 4.5 3.5 2.5). */
static void test_published_in_flight(void **state) {
    (void)state;
    ff_schedule_shape plain = {FF_SCHEDULE_1F1B, 4, 1, 8, 0};
    ff_schedule_shape interleaved = {FF_SCHEDULE_INTERLEAVED, 4, 2, 8, 0};
    for (int stage = 0; stage < 4; stage++) {
        assert_int_equal(ff_schedule_in_flight(&plain, stage), 4 - stage);
        assert_int_equal(ff_schedule_in_flight(&interleaved, stage), 11 - 2 * stage);
    }
    assert_int_equal(ff_schedule_warmup(&interleaved, 0), 10); /* 2*3 + 4 */
    assert_true(ff_schedule_bubble_ratio(&plain) == 3.0 / 8);
    assert_true(ff_schedule_bubble_ratio(&interleaved) == 3.0 / 16);
    assert_int_equal(ff_schedule_crossings(&plain), 3);
    assert_int_equal(ff_schedule_crossings(&interleaved), 7);
}

/* --- refusals --- */

static void assert_refused(ff_schedule_shape shape, const char *code, const char *words) {
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_int_equal(ff_schedule_check(&shape, findings), FF_NO);
    assert_null(ff_schedule_create(&shape));
    const ff_diagnostic *item = ff_diagnostics_at(findings, 0);
    assert_string_equal(item->code, code);
    bool found = strstr(item->message, words) != NULL ||
                 (item->help != NULL && strstr(item->help, words) != NULL);
    if (!found)
        print_message("%s | %s\n", item->message, item->help == NULL ? "-" : item->help);
    assert_true(found);
    ff_diagnostics_free(findings);
}

static void test_refusals(void **state) {
    (void)state;
    const ff_schedule_kind interleaved = FF_SCHEDULE_INTERLEAVED;
    assert_refused((ff_schedule_shape){(ff_schedule_kind)99, 4, 1, 8, 0}, "FF0240",
                   "without a name");
    assert_refused((ff_schedule_shape){FF_SCHEDULE_1F1B, 0, 1, 8, 0}, "FF0241", "pp is 0");
    assert_refused((ff_schedule_shape){FF_SCHEDULE_1F1B, 1, 1, -8, 0}, "FF0241", "-8");
    assert_refused((ff_schedule_shape){interleaved, 64, 32, 64, 0}, "FF0241", "vpp=16 or less");
    assert_refused((ff_schedule_shape){interleaved, INT32_MAX, INT32_MAX, 1, 0}, "FF0241",
                   "chunks");
    assert_refused((ff_schedule_shape){FF_SCHEDULE_1F1B, 4, 2, 8, 0}, "FF0242",
                   "schedule=interleaved");
    assert_refused((ff_schedule_shape){interleaved, 1, 2, 8, 0}, "FF0243", "1f1b");
    assert_refused((ff_schedule_shape){interleaved, 4, 1, 8, 0}, "FF0243", "vpp=2");
    assert_refused((ff_schedule_shape){interleaved, 4, 2, 10, 0}, "FF0244",
                   "microbatches=8, microbatches=12");
    assert_refused((ff_schedule_shape){interleaved, 4, 2, 3, 0}, "FF0244", "microbatches=4");
    assert_refused((ff_schedule_shape){interleaved, 4, 2, 11, 8}, "FF0244",
                   "microbatches=8, microbatches=12");
    assert_refused((ff_schedule_shape){interleaved, 4, 2, 8, 3}, "FF0245", "4 to 8");
    assert_refused((ff_schedule_shape){interleaved, 4, 2, 8, 9}, "FF0245", "4 to 8");
    assert_true(runs(&(ff_schedule_shape){interleaved, 4, 2, 12, 8}));
}

/* Too large to list, still summarised. */
static void test_large_shapes(void **state) {
    (void)state;
    ff_schedule_shape shape = {FF_SCHEDULE_1F1B, 1024, 1, INT32_MAX, 0};
    assert_int_equal(ff_schedule_check(&shape, NULL), FF_OK);
    assert_null(ff_schedule_create(&shape));
    assert_int_equal(ff_schedule_in_flight(&shape, 0), 1024);
    assert_int_equal(ff_schedule_sends(&shape, 1), 2 * (int64_t)INT32_MAX);
    shape.kind = FF_SCHEDULE_GPIPE;
    assert_int_equal(ff_schedule_in_flight(&shape, 7), INT32_MAX);
}

/* --- the verifier can fail --- */

static ff_schedule *small_schedule(void) {
    return ff_schedule_create(&(ff_schedule_shape){FF_SCHEDULE_1F1B, 2, 1, 3, 0});
}

static void assert_fault(ff_schedule *schedule, const char *words) {
    ff_schedule_fault fault;
    assert_false(ff_schedule_verify(schedule, &fault));
    if (strstr(fault.text, words) == NULL)
        print_message("%s\n", fault.text);
    assert_non_null(strstr(fault.text, words));
    ff_schedule_free(schedule);
}

static void swap(ff_action *a, ff_action *b) {
    ff_action kept = *a;
    *a = *b;
    *b = kept;
}

/* Stage 0: F0 >a0 F1 >a1 <g0 B0 F2 >a2 <g1 B1 <g2 B2. Stage 1: <a0 F0 B0 >g0 <a1 F1 B1 >g1 ... */
static void test_verifier_fails(void **state) {
    (void)state;
    ff_schedule *schedule = small_schedule();
    swap(&schedule->actions[0], &schedule->actions[1]);
    assert_fault(schedule, "stands before what it needs");
    schedule = small_schedule();
    schedule->actions[2].microbatch = 0;
    assert_fault(schedule, "stands twice");
    schedule = small_schedule();
    schedule->actions[0].chunk = 7;
    assert_fault(schedule, "outside the shape");
    schedule = small_schedule();
    schedule->actions[1].peer = 0;
    assert_fault(schedule, "wrong peer");
    schedule = small_schedule(); /* both forwards first, sent in the other order */
    schedule->actions[1] = (ff_action){FF_ACTION_FORWARD, 0, 1, -1};
    schedule->actions[2] = (ff_action){FF_ACTION_SEND_ACTIVATION, 0, 1, 1};
    schedule->actions[3] = (ff_action){FF_ACTION_SEND_ACTIVATION, 0, 0, 1};
    assert_fault(schedule, "is not what the peer sends next");
    schedule = small_schedule(); /* the last backward is gone */
    schedule->first[2]--;
    assert_fault(schedule, "is never sent");
    schedule = small_schedule(); /* stage 0 waits for a gradient before it sends what makes it */
    schedule->actions[1] = (ff_action){FF_ACTION_FORWARD, 0, 1, -1};
    schedule->actions[2] = (ff_action){FF_ACTION_RECV_GRADIENT, 0, 0, 1};
    schedule->actions[3] = (ff_action){FF_ACTION_SEND_ACTIVATION, 0, 0, 1};
    schedule->actions[4] = (ff_action){FF_ACTION_SEND_ACTIVATION, 0, 1, 1};
    assert_fault(schedule, "stage 0 waits to receive gradient 0 from 1; "
                           "stage 1 waits to receive activation 0 from 0");
}

/* --- the drawing --- */

static void test_drawing(void **state) {
    (void)state;
    ff_schedule *schedule = ff_schedule_create(&(ff_schedule_shape){FF_SCHEDULE_1F1B, 3, 1, 4, 0});
    char *text = ff_schedule_draw(schedule, 80);
    assert_string_equal(text, "stage 0  0 1 2 · · · · 0━━ 3 1━━ · 2━━ · 3━━\n"
                              "stage 1  · 0 1 · · 0━━ 2 1━━ 3 2━━ · 3━━ · ·\n"
                              "stage 2  · · 0 0━━ 1 1━━ 2 2━━ 3 3━━ · · · ·\n"
                              "\n"
                              "         0 forward  0━━ backward  · waits   (time runs right)\n");
    free(text);
    ff_schedule_free(schedule);
    schedule = ff_schedule_create(&(ff_schedule_shape){FF_SCHEDULE_INTERLEAVED, 2, 2, 4, 0});
    text = ff_schedule_draw(schedule, 40);
    assert_string_equal(text, "stage 0  01ab2·a━3b━c0━d1━·c━·d━2━3━\n"
                              "stage 1  ·01aa━bb━20━31━cc━dd━2━3━··\n"
                              "\n"
                              "         0 forward  0━ backward  · waits   (time runs right)\n"
                              "         0-9 chunk 0   a-j chunk 1\n");
    free(text);
    ff_schedule_free(schedule);
}

static void test_drawing_fits(void **state) {
    (void)state;
    for (int p = 1; p <= MOST_STAGES; p += 3) {
        for (int m = p; m <= 64; m += p) {
            ff_schedule *schedule =
                ff_schedule_create(&(ff_schedule_shape){FF_SCHEDULE_1F1B, p, 1, m, 0});
            char *text = ff_schedule_draw(schedule, 80), *rest = NULL;
            int lines = 0;
            for (char *line = strtok_r(text, "\n", &rest); line != NULL;
                 line = strtok_r(NULL, "\n", &rest), lines++)
                assert_true(ff_text_columns(line) <= 80);
            assert_in_range(lines, p + 1, p + 2);
            free(text);
            ff_schedule_free(schedule);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_and_summaries),
        cmocka_unit_test(test_in_flight_of_chunks),
        cmocka_unit_test(test_golden_lists),
        cmocka_unit_test(test_published_in_flight),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_large_shapes),
        cmocka_unit_test(test_verifier_fails),
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_drawing_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
