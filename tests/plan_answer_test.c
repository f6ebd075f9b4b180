/* When a plan has no answer it says why, by how much and what would help; and what `check` says of a
 * layout that cannot be. */
#include "plan_support.h"

/* ---- when there is no answer ---- */

static void one_device_is_no_plan(void **state) {
    (void)state;
    for (int lesson = 0; lesson < 2; lesson++) {
        ff_job *job = new_job(SMALL, "1x1xh100-80gb-sxm", 2048, 65536);
        job->ledger = lesson ? FF_LEDGER_LESSON : FF_LEDGER_FULL;
        answer a = ask(job, FIVE);
        assert_int_equal(a.status, FF_INVALID);
        assert_null(a.set);
        assert_true(has_code(a.findings, "FF0305"));
        free_answer(&a);
        free_job(job);
    }
    ff_job *job = new_job(SMALL, "1x1xh100-80gb-sxm", 2048, 65536);
    assert_int_equal(batch_of(job, "tp=1"), 65536); /* a check is answered */
    free_job(job);
}

static void nothing_fits_says_by_how_much(void **state) {
    (void)state;
    ff_job *job = new_job("llama-3.1-405b", "1x8xh100-80gb-sxm", 4096, 4000000);
    answer a = ask(job, FIVE);
    assert_int_equal(a.status, FF_NO);
    assert_int_equal(plan_count(&a), 0);
    assert_counts_add_up(&a);
    assert_true(has_code(a.findings, "FF0501"));
    const ff_fact *nothing = ff_fact_find(a.root, "nothing_fits");
    int64_t peak = ff_fact_integer(nothing, "peak_bytes");
    assert_int_equal(ff_fact_integer(nothing, "over_bytes"),
                     peak - job->cluster.device.memory_bytes);
    assert_true(peak > job->cluster.device.memory_bytes);
    assert_true(ff_fact_text(nothing, "dominant")[0] != '\0');
    const ff_fact *changes = ff_fact_find(nothing, "changes");
    assert_true(changes->count >= 1);
    free_answer(&a);

    /* a device as large as the smallest peak is enough, one byte less is not */
    job->cluster.device.memory_bytes = peak;
    a = ask(job, FIVE);
    assert_int_equal(a.status, FF_OK);
    free_answer(&a);
    job->cluster.device.memory_bytes = peak - 1;
    a = ask(job, FIVE);
    assert_int_equal(a.status, FF_NO);
    free_answer(&a);
    free_job(job);
}

/* What is offered would work, and half of it would not. */
static void offered_changes_would_fit(void **state) {
    (void)state;
    ff_job *job = new_job("llama-3.1-70b", "1x8xh100-80gb-sxm", 4096, 1000000);
    answer a = ask(job, FIVE);
    assert_int_equal(a.status, FF_NO);
    long long nodes = 0;
    const ff_fact *changes = ff_fact_find(a.root, "nothing_fits.changes");
    for (const ff_fact *c = changes->first; c != NULL; c = c->next)
        sscanf(ff_fact_text(c, "text"), "%lld nodes", &nodes);
    assert_true(nodes >= 2);
    free_answer(&a);
    free_job(job);
    for (int half = 0; half < 2; half++) {
        char cluster[64];
        snprintf(cluster, sizeof cluster, "%lldx8xh100-80gb-sxm", nodes / (1 + half));
        job = new_job("llama-3.1-70b", cluster, 4096, 1000000);
        a = ask(job, FIVE);
        assert_int_equal(a.status, half ? FF_NO : FF_OK);
        free_answer(&a);
        free_job(job);
    }
}

static void no_legal_layout_says_why(void **state) {
    (void)state;
    ff_job *job = new_job("gpt2", "1x8xh100-80gb-sxm", 2048, 65536); /* 1,024 positions */
    answer a = ask(job, FIVE);
    assert_int_equal(a.status, FF_NO);
    assert_true(has_code(a.findings, "FF0502"));
    const char *help = ff_diagnostics_at(a.findings, 0)->help;
    assert_non_null(help);
    assert_non_null(strstr(help, "FF0226"));
    assert_int_equal(plan_count(&a), 0);
    free_answer(&a);
    a = ask(job, (ff_plan_options){.top = 1, .where = "tp=3"});
    assert_int_equal(a.status, FF_NO);
    assert_true(has_code(a.findings, "FF0503"));
    free_answer(&a);
    free_job(job);
}

/* ---- check ---- */

static void a_layout_that_makes_no_world_is_judged_by_size(void **state) {
    (void)state;
    ff_job *job = new_job("mixtral-8x7b", "2x8xh100-80gb-sxm", 4096, 0);
    ff_facts *facts = ff_facts_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_int_equal(ff_check(job, "tp=6,ep=16,dp=4", findings, facts), FF_NO);
    assert_true(has_code(findings, "FF0205"));
    assert_true(has_code(findings, "FF0210"));
    assert_true(has_code(findings, "FF0218"));
    const ff_fact *root = ff_facts_root(facts);
    assert_false(ff_fact_boolean(root, "legal"));
    assert_string_equal(ff_fact_text(root, "verdict"), "illegal");
    assert_int_equal(ff_fact_find(root, "findings")->count, ff_diagnostics_count(findings));
    assert_string_equal(ff_fact_text(ff_fact_find(root, "findings")->first, "where"),
                        "layout:1:1: tp=6,ep=16,dp=4");
    ff_facts_free(facts);
    ff_diagnostics_free(findings);
    free_job(job);
}

static void a_recipe_given_twice_must_agree(void **state) {
    (void)state;
    ff_job *job = small_job();
    job->recipe_given = true;
    job->recipe = FF_RECIPE_FP8_TE;
    ff_facts *facts = ff_facts_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_int_equal(ff_check(job, "dp=8,recipe=fp32", findings, facts), FF_INVALID);
    assert_true(has_code(findings, "FF0206"));
    ff_facts_free(facts);
    static const char *const texts[] = {"dp=8", "dp=8,recipe=fp8-te"};
    for (int i = 0; i < 2; i++) {
        facts = ff_facts_create();
        assert_int_equal(ff_check(job, texts[i], NULL, facts), FF_OK);
        const ff_fact *root = ff_facts_root(facts);
        assert_string_equal(ff_fact_text(root, "inputs.recipe"), "fp8-te");
        assert_string_equal(ff_fact_text(root, "estimate.layout_fields.recipe"), "fp8-te");
        ff_facts_free(facts);
    }
    ff_diagnostics_free(findings);
    free_job(job);
}

/* ---- explain field ---- */

static void assert_explained(const ff_job *job, const ff_fact *fact) {
    bool number = fact->kind == FF_FACT_INTEGER || fact->kind == FF_FACT_REAL;
    if (number && fact->name != NULL) {
        ff_facts *facts = ff_facts_create();
        if (ff_explain_field(job, "dp=8", fact->name, NULL, facts) != FF_OK)
            fail_msg("%s is not explained", fact->name);
        ff_facts_free(facts);
    }
    bool holds = fact->kind == FF_FACT_RECORD || fact->kind == FF_FACT_LIST;
    for (const ff_fact *f = holds ? fact->first : NULL; f != NULL; f = f->next)
        assert_explained(job, f);
}

static void every_number_is_explained(void **state) {
    (void)state;
    ff_job *job = small_job();
    answer a = ask(job, (ff_plan_options){.top = 2, .pareto = true});
    assert_explained(job, a.root);
    free_answer(&a);
    ff_facts *facts = ff_facts_create();
    assert_int_equal(ff_check(job, "dp=4,pp=2", NULL, facts), FF_OK);
    assert_explained(job, ff_facts_root(facts));
    ff_facts_free(facts);
    facts = ff_facts_create();
    ff_simulate_options options = {.columns = 80};
    assert_int_equal(ff_simulate(job, "dp=4,pp=2", &options, NULL, facts), FF_OK);
    assert_explained(job, ff_facts_root(facts));
    ff_facts_free(facts);
    free_job(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_is_no_plan),
        cmocka_unit_test(nothing_fits_says_by_how_much),
        cmocka_unit_test(offered_changes_would_fit),
        cmocka_unit_test(no_legal_layout_says_why),
        cmocka_unit_test(a_layout_that_makes_no_world_is_judged_by_size),
        cmocka_unit_test(a_recipe_given_twice_must_agree),
        cmocka_unit_test(every_number_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
