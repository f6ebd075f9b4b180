/* Looking again at the best: how far formula and run may lie apart, that nothing becomes worse, and
 * that what was changed is what is printed. */
#include "plan_support.h"

#include "plan/refine.h"
#include <math.h>

static const char *const jobs[][3] = {
    /* model, cluster, profile ("" the default) */
    {"llama-3.1-70b", "8x8xh100-80gb-sxm", ""},
    {"llama-3.1-70b", "4x8xa100-80gb-sxm", ""},
    {"llama-3.1-8b", "2x8xa100-40gb-sxm", ""},
    {"mixtral-8x7b", "4x8xh100-80gb-sxm", ""},
    {"gpt2-xl", "1x4xv100-16gb-sxm2", ""},
    {"gpt3-175b", "16x8xa100-80gb-sxm", ""},
    {"llama-3.1-70b", "8x8xh100-80gb-sxm", "torchtitan"},
    {"llama-3.1-8b", "1x8xa100-40gb-sxm", "zero-bubble"},
};
enum { JOBS = sizeof jobs / sizeof jobs[0] };

static ff_job *job_of(int index, int64_t gbs_tokens) {
    ff_job *job = new_job(jobs[index][0], jobs[index][1], 2048, gbs_tokens);
    if (jobs[index][2][0] != '\0')
        read_profile(jobs[index][2], (ff_profile *)(uintptr_t)job->profile);
    return job;
}

/* The time of a layout as its text is checked. */
static double checked_s_per_token(const ff_job *job, const char *text, ff_verdict *verdict,
                                  int64_t *peak_bytes) {
    ff_facts *facts = ff_facts_create();
    ff_check(job, text, NULL, facts);
    const ff_fact *estimate = ff_fact_find(ff_facts_root(facts), "estimate");
    double s = s_per_token(estimate);
    *verdict = strcmp(ff_fact_text(estimate, "verdict"), "fits") == 0 ? FF_FITS : FF_TIGHT;
    *peak_bytes = ff_fact_integer(estimate, "memory.peak_bytes");
    ff_facts_free(facts);
    return s;
}

/* Candidates that are not shown are looked at too: all that were run. */
static void formula_and_run_stay_within_the_bound(void **state) {
    (void)state;
    double least = 2, most = 0;
    int run = 0;
    for (int i = 0; i < JOBS; i++) {
        for (int batch = 0; batch < 2; batch++) {
            ff_job *job = job_of(i, batch == 0 ? 131072 : 4194304);
            answer a = ask(job, (ff_plan_options){.top = 1, .where = "pp>1"});
            for (int64_t k = 0; a.set != NULL && k < a.set->refined.count; k++, run++) {
                if (a.set->best[k].cut != NULL)
                    continue;
                least = fmin(least, a.set->best[k].formula_ratio);
                most = fmax(most, a.set->best[k].formula_ratio);
            }
            free_answer(&a);
            free_job(job);
        }
    }
    print_message("formula over run, %d layouts: %.4f to %.4f\n", run, least, most);
    assert_true(run > 200);
    assert_true(least >= 0.9 && most <= 1 + FF_REFINE_BOUND);
}

/* Ranks rise by the run's time, and every printed line, checked by itself, is what was ranked. */
static void what_is_ranked_is_what_is_printed(void **state) {
    (void)state;
    int uneven = 0;
    for (int i = 0; i < JOBS; i++) {
        ff_job *job = job_of(i, 1048576);
        answer a = ask(job, (ff_plan_options){.top = 64});
        double before = 0;
        for (int64_t k = 0; a.set != NULL && k < a.set->shown && k < 64; k++) {
            const ff_candidate *c = &a.set->best[k];
            ff_verdict verdict;
            int64_t peak_bytes;
            const char *text = layout_at(&a, (int)k + 1);
            double s = checked_s_per_token(job, text, &verdict, &peak_bytes);
            if (s != c->s_per_token || peak_bytes != c->peak_bytes || verdict != c->verdict)
                fail_msg("%s: %.9g s a token, ranked with %.9g", text, s, c->s_per_token);
            assert_true(c->s_per_token >= before);
            before = c->s_per_token;
            uneven += c->cut != NULL;
        }
        free_answer(&a);
        free_job(job);
    }
    print_message("%d layouts with stages of their own\n", uneven);
    assert_true(uneven > 0);
}

/* No layout that was run is slower or tighter than the plain one it was made of. */
static void a_change_of_stages_is_a_gain(void **state) {
    (void)state;
    for (int i = 0; i < JOBS; i++) {
        ff_job *job = job_of(i, 1048576);
        answer a = ask(job, (ff_plan_options){.top = 1, .where = "pp>1"});
        for (int64_t k = 0; a.set != NULL && k < a.set->refined.count; k++) {
            const ff_candidate *c = &a.set->best[k];
            char text[FF_LAYOUT_TEXT_BYTES];
            ff_layout plain;
            ff_verdict verdict;
            int64_t peak_bytes;
            if (c->cut == NULL)
                continue;
            ff_space_layout(&a.set->space, &c->point, NULL, &plain);
            ff_layout_print(&plain, FF_LAYOUT_SHORT, text, sizeof text);
            double s = checked_s_per_token(job, text, &verdict, &peak_bytes);
            assert_true(c->s_per_token < s);
            assert_true(c->verdict <= verdict);
        }
        free_answer(&a);
        free_job(job);
    }
}

/* One recomputed layer a stage less does not fit. */
static void counts_are_the_fewest_that_fit(void **state) {
    (void)state;
    ff_job *job = new_job("llama-3.1-70b", "4x8xa100-80gb-sxm", 4096, 1048576);
    answer a =
        ask(job, (ff_plan_options){.top = 30, .where = "recompute=full:N", .by_formula = true});
    assert_int_equal(plan_count(&a), 30);
    for (int64_t k = 0; k < 30; k++) {
        char text[FF_LAYOUT_TEXT_BYTES];
        ff_layout layout;
        ff_facts *facts = ff_facts_create();
        ff_candidate_layout(a.set, &a.set->best[k], &layout);
        assert_true(layout.recompute_layers > 0);
        ff_layout_print(&layout, FF_LAYOUT_SHORT, text, sizeof text);
        assert_int_equal(ff_check(job, text, NULL, facts), FF_OK);
        layout.recompute = layout.recompute_layers > 1 ? FF_RECOMPUTE_FULL : FF_RECOMPUTE_NONE;
        layout.recompute_layers--;
        ff_layout_print(&layout, FF_LAYOUT_SHORT, text, sizeof text);
        assert_int_equal(ff_check(job, text, NULL, facts), FF_NO);
        ff_facts_free(facts);
    }
    free_answer(&a);
    free_job(job);
}

/* Bounds skip the same with schedules that must be run to be timed, and with several recipes. */
static void pruning_changes_no_answer_of_run_schedules(void **state) {
    (void)state;
    static const char *const grids[] = {"schedule=1f1b,zb-h1,zb-h2,zb-v,v-half,dualpipe,dualpipe-v",
                                        "recipe=bf16-megatron,fp8-te schedule=interleaved,zb-v",
                                        "schedule=zb-v,interleaved recompute=full:N,none"};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        ff_job *job = new_job(SMALL, "2x8xh100-80gb-sxm", 2048, 524288);
        ff_plan_options options = {.top = 8, .where = "pp>1,cp=1", .grid = grids[i]};
        answer pruned = ask(job, options);
        options.no_prune = true;
        answer whole = ask(job, options);
        assert_int_equal(plan_count(&pruned), plan_count(&whole));
        for (int k = 1; k <= plan_count(&whole); k++)
            assert_string_equal(layout_at(&pruned, k), layout_at(&whole, k));
        assert_counts_add_up(&pruned);
        assert_int_equal(ff_fact_integer(pruned.root, "search.considered"),
                         ff_fact_integer(whole.root, "search.considered"));
        assert_true(ff_fact_integer(pruned.root, "search.pruned") > 0);
        free_answer(&pruned);
        free_answer(&whole);
        free_job(job);
    }
}

/* Memory is tight here, so counts are found and cuts recompute less; each stack runs other
 * schedules. */
static void pruning_changes_no_answer_where_memory_is_tight(void **state) {
    (void)state;
    static const struct {
        const char *model, *cluster, *profile, *where, *grid;
        int64_t seq, sequences;
        int top;
    } cases[] = {
        {"gemma-2-9b", "2x8xh100-80gb-sxm", "nanotron", NULL, NULL, 4096, 128, 3},
        {"llama-2-13b", "1x8xa100-40gb-sxm", "megatron-core", NULL, "recompute=full:N,full", 4096,
         64, 10},
        {"llama-3.2-3b", "2x8xa100-80gb-sxm", "zero-bubble", "cp=1", NULL, 4096, 256, 20},
        {"llama-3.1-8b", "1x8xa100-40gb-sxm", "torchtitan", "cp=1", NULL, 4096, 64, 10},
        {"mixtral-8x7b", "2x8xa100-80gb-sxm", "megatron-core", "cp=1,tp<=2", NULL, 4096, 64, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_job *job = new_job(cases[i].model, cases[i].cluster, cases[i].seq,
                              cases[i].seq * cases[i].sequences);
        read_profile(cases[i].profile, (ff_profile *)(uintptr_t)job->profile);
        ff_plan_options options = {
            .top = cases[i].top, .where = cases[i].where, .grid = cases[i].grid};
        answer pruned = ask(job, options);
        options.no_prune = true;
        answer whole = ask(job, options);
        assert_int_equal(plan_count(&pruned), plan_count(&whole));
        for (int k = 1; k <= plan_count(&whole); k++)
            if (strcmp(layout_at(&pruned, k), layout_at(&whole, k)) != 0)
                fail_msg("%s, %d: %s instead of %s", cases[i].model, k, layout_at(&pruned, k),
                         layout_at(&whole, k));
        free_answer(&pruned);
        free_answer(&whole);
        free_job(job);
    }
}

/* A cut keeps to what the user allows, and no layout comes twice. */
static void cuts_keep_to_the_conditions(void **state) {
    (void)state;
    ff_job *job = new_job("llama-3.1-8b", "1x8xa100-40gb-sxm", 4096, 262144);
    static const char *const wheres[] = {"recompute=full,pp>1,vpp=1", "recompute=none,pp>1,vpp=1",
                                         "recompute=full:N|full,pp>1,vpp=1"};
    for (size_t i = 0; i < sizeof wheres / sizeof *wheres; i++) {
        answer a = ask(job, (ff_plan_options){.top = 40, .where = wheres[i]});
        for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next) {
            const char *mode = ff_fact_text(p, "layout_fields.recompute");
            bool allowed = i == 0   ? strcmp(mode, "full") == 0
                           : i == 1 ? strcmp(mode, "none") == 0
                                    : strncmp(mode, "full", 4) == 0;
            if (!allowed)
                fail_msg("%s: %s", wheres[i], ff_fact_text(p, "layout"));
            for (const ff_fact *q = p->next; q != NULL; q = q->next)
                assert_string_not_equal(ff_fact_text(p, "layout"), ff_fact_text(q, "layout"));
        }
        free_answer(&a);
    }
    free_job(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula_and_run_stay_within_the_bound),
        cmocka_unit_test(what_is_ranked_is_what_is_printed),
        cmocka_unit_test(a_change_of_stages_is_a_gain),
        cmocka_unit_test(counts_are_the_fewest_that_fit),
        cmocka_unit_test(pruning_changes_no_answer_of_run_schedules),
        cmocka_unit_test(pruning_changes_no_answer_where_memory_is_tight),
        cmocka_unit_test(cuts_keep_to_the_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
