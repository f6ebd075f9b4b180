/* The layouts that none beats: against every layout of small searches. */
#include "plan_support.h"

static const ff_fact *rows_of(const answer *a) {
    return ff_fact_find(a->root, "pareto")->first;
}

static bool beats(const ff_fact *a, const ff_fact *b) {
    return ff_fact_integer(a, "devices") <= ff_fact_integer(b, "devices") &&
           ff_fact_real(a, "s_per_token") <= ff_fact_real(b, "s_per_token") &&
           ff_fact_integer(a, "peak_bytes") <= ff_fact_integer(b, "peak_bytes");
}

static void no_row_beats_one_after_it(void **state) {
    (void)state;
    ff_job *job = new_job("llama-3.1-8b", "4x8xa100-80gb-sxm", 4096, 1048576);
    answer a = ask(job, (ff_plan_options){.top = 1, .pareto = true});
    int64_t devices = 0;
    int rows = 0, sizes = 0;
    for (const ff_fact *r = rows_of(&a); r != NULL; r = r->next, rows++) {
        for (const ff_fact *q = rows_of(&a); q != r; q = q->next)
            assert_false(beats(q, r));
        sizes += ff_fact_integer(r, "devices") != devices;
        devices = ff_fact_integer(r, "devices");
    }
    assert_true(rows > 10);
    assert_int_equal(sizes, 3); /* of 8, 16 and 32 devices */
    free_answer(&a);
    free_job(job);
}

/* Whatever a layout offers, some row offers about as much: as fast within the run's deviation from
 * the formula, and with no more than a ninth more memory. */
static void every_layout_is_matched_by_a_row(void **state) {
    (void)state;
    ff_job *job = small_job();
    ff_plan_options options = EVERY;
    options.pareto = true;
    answer a = ask(job, options);
    double slowest = 2 * s_per_token(plan_at(&a, 1));
    int matched = 0;
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next) {
        bool found = s_per_token(p) > slowest;
        for (const ff_fact *r = rows_of(&a); r != NULL && !found; r = r->next)
            found = ff_fact_real(r, "s_per_token") <= 1.1 * s_per_token(p) &&
                    0.9 * (double)ff_fact_integer(r, "peak_bytes") <=
                        (double)ff_fact_integer(p, "memory.peak_bytes");
        if (!found)
            fail_msg("%s is matched by none", ff_fact_text(p, "layout"));
        matched++;
    }
    assert_true(matched > 1000);
    free_answer(&a);
    free_job(job);
}

/* Ten sizes of cluster, each with its rows. */
static void every_size_has_rows(void **state) {
    (void)state;
    ff_job *job = new_job(SMALL, "512x2xl4", 2048, 8388608);
    answer a = ask(job, (ff_plan_options){.top = 1, .pareto = true, .without_reasons = true});
    int64_t devices = 1;
    for (const ff_fact *r = rows_of(&a); r != NULL; r = r->next) {
        int64_t own = ff_fact_integer(r, "devices");
        assert_true(own == devices || own == 2 * devices);
        devices = own;
    }
    assert_int_equal(devices, 1024);
    free_answer(&a);
    free_job(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_row_beats_one_after_it),
        cmocka_unit_test(every_size_has_rows),
        cmocka_unit_test(every_layout_is_matched_by_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
