/* The search: its counts, its order, its options, its answers when there is none; `check` beside it.
 * What is best is found a second time by brute force over check's own figures. */
#include "plan_support.h"

#include "base/number.h"
#include <math.h>

/* ---- counts and order ---- */

static void counts_add_up(void **state) {
    (void)state;
    static const char *const jobs[][2] = {
        {SMALL, "1x8xh100-80gb-sxm"},          {SMALL, "1x2xh100-80gb-sxm"},
        {SMALL_MOE, "3x4xa100-40gb-sxm"},      {"llama-3.1-70b", "1x8xa100-40gb-sxm"},
        {"mixtral-8x7b", "2x8xa100-40gb-sxm"}, {"gpt2", "7x1xl4"}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        ff_job *job = new_job(jobs[i][0], jobs[i][1], 1024, 1000000);
        answer a = ask(job, EVERY);
        assert_counts_add_up(&a);
        assert_true(ff_fact_integer(a.root, "search.considered") > 0);
        assert_int_equal(plan_count(&a), ff_fact_integer(a.root, "search.estimated"));
        free_answer(&a);
        free_job(job);
    }
}

static void ranks_rise_in_time_a_token(void **state) {
    (void)state;
    ff_job *job = small_job();
    answer a = ask(job, EVERY);
    double before = 0;
    int rank = 1;
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next, rank++) {
        assert_int_equal(ff_fact_integer(p, "rank"), rank);
        assert_true(s_per_token(p) >= before * (1 - 1e-12));
        before = s_per_token(p);
    }
    free_answer(&a);
    free_job(job);
}

static void no_layout_comes_twice(void **state) {
    (void)state;
    ff_job *job = new_job(SMALL_MOE, "1x4xh100-80gb-sxm", 1024, 32768);
    answer a = ask(job, EVERY);
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next)
        for (const ff_fact *q = p->next; q != NULL; q = q->next)
            assert_string_not_equal(ff_fact_text(p, "layout"), ff_fact_text(q, "layout"));
    free_answer(&a);
    free_job(job);
}

static void assert_same_plans(const answer *a, const answer *b, int count) {
    const ff_fact *p = plans_of(a)->first, *q = plans_of(b)->first;
    for (int i = 0; i < count; i++, p = p->next, q = q->next) {
        assert_string_equal(ff_fact_text(p, "layout"), ff_fact_text(q, "layout"));
        assert_true(ff_fact_real(p, "time.step_s") == ff_fact_real(q, "time.step_s"));
        assert_int_equal(ff_fact_integer(p, "memory.peak_bytes"),
                         ff_fact_integer(q, "memory.peak_bytes"));
    }
}

static void answers_are_the_same_twice(void **state) {
    (void)state;
    ff_job *job = small_job();
    answer a = ask(job, FIVE), b = ask(job, FIVE);
    assert_int_equal(plan_count(&a), 5);
    assert_same_plans(&a, &b, 5);
    free_answer(&a);
    free_answer(&b);
    free_job(job);
}

/* However many are asked for, and by whatever order, fewer are the first of more. */
static void fewer_are_the_first_of_more(void **state) {
    (void)state;
    ff_job *job = small_job();
    for (int objective = 0; objective <= FF_OBJECTIVE_MEMORY; objective++) {
        for (int near = 0; near < 2; near++) {
            ff_plan_options options = {
                .top = 0, .objective = (ff_objective)objective, .near_ratio = near ? 0.05 : 0};
            answer all = ask(job, options);
            static const int tops[] = {1, 2, 7, 50, 1000, 1001};
            for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
                options.top = tops[i];
                answer some = ask(job, options);
                int expected = (int)ff_min(tops[i], plan_count(&all));
                assert_int_equal(plan_count(&some), expected);
                assert_same_plans(&some, &all, expected);
                free_answer(&some);
            }
            free_answer(&all);
        }
    }
    free_job(job);
}

/* ---- brute force ---- */

typedef struct best {
    double s_per_token;
    int64_t peak_bytes;
    int fitting;
} best;

/* One layout by way of `check`, which reads it from its text. */
static bool fits(const ff_job *job, const char *text, const char *recompute, best *b) {
    char whole[320];
    snprintf(whole, sizeof whole, "%s,recompute=%s", text, recompute);
    ff_facts *facts = ff_facts_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    bool fits = ff_check(job, whole, findings, facts) == FF_OK;
    if (fits) {
        const ff_fact *estimate = ff_fact_find(ff_facts_root(facts), "estimate");
        b->fitting++;
        b->s_per_token = fmin(b->s_per_token, s_per_token(estimate));
        b->peak_bytes = ff_min(b->peak_bytes, ff_fact_integer(estimate, "memory.peak_bytes"));
    }
    ff_diagnostics_free(findings);
    ff_facts_free(facts);
    return fits;
}

static int most_layers_of_a_stage(const char *text, int layers) {
    ff_layout layout;
    int most = 0;
    ff_layout_parse(text, NULL, &layout);
    ff_layout_derive(&layout, &(ff_layout_context){.layers = layers}, NULL);
    for (int stage = 0; stage < layout.pp; stage++) {
        int own = 0;
        for (int chunk = stage; chunk < layout.chunks; chunk += (int)layout.pp)
            own += layout.layers_of_chunk[chunk];
        most = own > most ? own : most;
    }
    return most;
}

/* All modes; and where all layers recomputed fit and none do not, the fewest that do. */
static void try_text(const ff_job *job, const char *text, best *b) {
    static const char *const modes[] = {"selective:norm+act", "selective:core",
                                        "selective:mlp+norm"};
    bool none = fits(job, text, "none", b), all = fits(job, text, "full", b), found = none || !all;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        fits(job, text, modes[i], b);
    for (int n = 1; !found && n < job->model.layers; n++) {
        char count[32];
        snprintf(count, sizeof count, "full:%d", n);
        best counted = *b;
        found = fits(job, text, count, &counted);
        if (found && n < most_layers_of_a_stage(text, job->model.layers))
            *b = counted;
    }
}

/* Keys that a layout of these sizes can take besides; "" is what is derived. */
static void try_forms(const ff_job *job, const char *sizes, int64_t tp, int64_t cp, int zero,
                      bool with_experts, best *b) {
    static const char *const sps[] = {"", ",sp=0"};
    static const char *const kinds[] = {"", ",cp_kind=allgather", ",cp_kind=ulysses",
                                        ",cp_kind=hybrid:2"};
    bool crosses = job->cluster.domain_devices == 2 * tp && cp > 2;
    static const char *const weights[] = {",zero3_weights=stream", ",zero3_weights=resident"};
    for (int s = 0; s < (tp > 1 && !with_experts ? 2 : 1); s++) {
        for (int k = 0; k < (crosses ? 4 : cp > 1 ? 3 : 1); k++) {
            for (int w = 0; w < (zero == 3 ? 2 : 1); w++) {
                char text[256];
                snprintf(text, sizeof text, "%s%s%s%s", sizes, sps[s], kinds[k],
                         zero == 3 ? weights[w] : "");
                try_text(job, text, b);
            }
        }
    }
}

static best brute_force(const ff_job *job, bool with_experts) {
    best b = {INFINITY, FF_SATURATED, 0};
    int64_t world = job->cluster.devices, sequences = job->gbs_tokens / job->seq;
    for (int64_t tp = 1; tp <= world; tp++)
        for (int64_t pp = 1; tp * pp <= world && pp <= job->model.layers; pp++)
            for (int64_t cp = 1; tp * pp * cp <= world; cp++)
                for (int64_t ep = 1; ep <= (with_experts ? world / pp : 1); ep++)
                    for (int zero = 0; zero <= 3; zero++)
                        for (int64_t mbs = 1; mbs <= 16; mbs *= 2)
                            for (int64_t vpp = 1; vpp <= (pp > 1 ? 8 : 1); vpp++) {
                                char text[160];
                                int64_t dp = world / (tp * pp * cp);
                                bool uneven = job->model.layers % (pp * vpp) != 0;
                                if (world % (tp * pp * cp) != 0 ||
                                    mbs > ff_max(1, sequences / dp) ||
                                    (dp * cp == 1 && zero != 1) ||
                                    (uneven && (vpp & (vpp - 1)) != 0))
                                    continue;
                                snprintf(text, sizeof text,
                                         "tp=%lld,pp=%lld,cp=%lld,ep=%lld,zero=%d,mbs=%lld,"
                                         "vpp=%lld",
                                         (long long)tp, (long long)pp, (long long)cp, (long long)ep,
                                         zero, (long long)mbs, (long long)vpp);
                                try_forms(job, text, tp, cp, zero, with_experts, &b);
                            }
    return b;
}

/* Placement, expert tensor parallelism and ZeRO groups have tests of their own. */
#define PLAIN "order=0,etp=1,zero_group=0,zero3_weights=stream|resident"

static void check_against_brute_force(const char *model, const char *cluster, bool with_experts) {
    ff_job *job = new_job(model, cluster, 1024, 32768);
    answer by_time = ask(job, (ff_plan_options){.top = 5, .where = PLAIN, .no_prune = true});
    answer by_memory =
        ask(job, (ff_plan_options){.top = 1, .where = PLAIN, .objective = FF_OBJECTIVE_MEMORY});
    best b = brute_force(job, with_experts);
    assert_int_equal(ff_fact_integer(by_time.root, "search.estimated"), b.fitting);
    assert_true(fabs(s_per_token(plan_at(&by_time, 1)) - b.s_per_token) <= 1e-12 * b.s_per_token);
    assert_int_equal(ff_fact_integer(plan_at(&by_memory, 1), "memory.peak_bytes"), b.peak_bytes);
    free_answer(&by_time);
    free_answer(&by_memory);
    free_job(job);
}

/* A bound skips nothing that would have been kept. */
static void pruning_changes_no_answer(void **state) {
    (void)state;
    static const char *const jobs[][2] = {{SMALL, "2x8xh100-80gb-sxm"},
                                          {SMALL, "2x2x(mem=8GiB)"},
                                          {SMALL_MOE, "1x8xa100-40gb-sxm"},
                                          {"llama-3.1-8b", "2x8xa100-80gb-sxm"},
                                          {"gpt2-xl", "1x4xv100-16gb-sxm2"}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        ff_job *job = new_job(jobs[i][0], jobs[i][1], 1024, 131072);
        for (int top = 1; top <= 5; top += 2) {
            answer pruned = ask(job, (ff_plan_options){.top = top});
            answer whole = ask(job, (ff_plan_options){.top = top, .no_prune = true});
            int count = plan_count(&whole);
            assert_int_equal(plan_count(&pruned), count);
            assert_same_plans(&pruned, &whole, count);
            assert_string_equal(ff_fact_text(pruned.root, "with_room.layout"),
                                ff_fact_text(whole.root, "with_room.layout"));
            assert_counts_add_up(&pruned);
            assert_int_equal(ff_fact_integer(whole.root, "search.pruned"), 0);
            assert_int_equal(ff_fact_integer(pruned.root, "search.considered"),
                             ff_fact_integer(whole.root, "search.considered"));
            free_answer(&pruned);
            free_answer(&whole);
        }
        free_job(job);
    }
}

static void search_finds_what_brute_force_finds(void **state) {
    (void)state;
    check_against_brute_force(SMALL, "1x8xh100-80gb-sxm", false);
    check_against_brute_force(SMALL, "2x2x(mem=8GiB)", false);
    check_against_brute_force(SMALL_MOE, "1x4xh100-80gb-sxm", true);
}

/* What a plan says of a layout, a check of the printed layout says too. */
static void plan_and_check_agree(void **state) {
    (void)state;
    ff_job *job = new_job("mixtral-8x7b", "4x8xh100-80gb-sxm", 4096, 1000000);
    answer a = ask(job, (ff_plan_options){.top = 40});
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next) {
        ff_facts *facts = ff_facts_create();
        assert_int_equal(ff_check(job, ff_fact_text(p, "layout"), NULL, facts), FF_OK);
        const ff_fact *c = ff_fact_find(ff_facts_root(facts), "estimate");
        assert_string_equal(ff_fact_text(c, "layout"), ff_fact_text(p, "layout"));
        static const char *const same[] = {"time.step_s", "memory.peak_bytes", "gbs_tokens_actual",
                                           "mfu", "tokens_per_s_per_device"};
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            assert_true(ff_fact_real(c, same[i]) == ff_fact_real(p, same[i]));
        ff_facts_free(facts);
    }
    free_answer(&a);
    free_job(job);
}

/* ---- the batch ---- */

/* The smallest batch that the layout reaches and that is not below the target. */
static void batches_are_the_smallest_that_reach(void **state) {
    (void)state;
    static const int64_t targets[] = {1, 2048, 2049, 65536, 100000, 1000000};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        ff_job *job = new_job(SMALL, "1x8xh100-80gb-sxm", 2048, targets[i]);
        answer a = ask(job, EVERY);
        for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next) {
            const ff_fact *f = ff_fact_find(p, "layout_fields");
            int64_t m = field(f, "microbatches");
            int64_t group = field(f, "vpp") > 1 ? field(f, "pp") : 1;
            int64_t batch = ff_fact_integer(p, "gbs_tokens_actual");
            assert_int_equal(batch, m * field(f, "mbs") * field(f, "dp") * job->seq);
            assert_true(batch >= targets[i]);
            assert_int_equal(m % group, 0);
            assert_true(m == group || batch - batch / m * group < targets[i]);
        }
        free_answer(&a);
        free_job(job);
    }
}

static void doubling_a_factor_doubles_the_batch(void **state) {
    (void)state;
    ff_job *job = new_job(SMALL, "1x8xh100-80gb-sxm", 1024, 0);
    int64_t batch = batch_of(job, "tp=4,dp=2,mbs=1,m=2");
    assert_int_equal(batch, 2 * 1 * 2 * 1024);
    assert_int_equal(batch_of(job, "tp=2,dp=4,mbs=1,m=2"), 2 * batch);
    assert_int_equal(batch_of(job, "tp=4,dp=2,mbs=2,m=2"), 2 * batch);
    assert_int_equal(batch_of(job, "tp=4,dp=2,mbs=1,m=4"), 2 * batch);
    job->seq = 2048;
    assert_int_equal(batch_of(job, "tp=4,dp=2,mbs=1,m=2"), 2 * batch);
    free_job(job);
}

static void an_exact_batch_is_met_exactly(void **state) {
    (void)state;
    ff_job *job = new_job(SMALL, "1x8xh100-80gb-sxm", 2048, 6 * 2048);
    job->gbs_exact = true;
    answer a = ask(job, EVERY);
    assert_int_equal(a.status, FF_OK);
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next)
        assert_int_equal(ff_fact_integer(p, "gbs_tokens_actual"), 6 * 2048);
    assert_true(ff_fact_integer(a.root, "search.illegal") > 0); /* those with dp=8, for one */
    free_answer(&a);
    ff_facts *facts = ff_facts_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_int_equal(ff_check(job, "dp=4,tp=2", findings, facts), FF_NO);
    assert_true(has_code(findings, "FF0222"));
    assert_int_equal(ff_check(job, "dp=2,tp=4", NULL, facts), FF_OK);
    ff_diagnostics_free(findings);
    ff_facts_free(facts);
    free_job(job);
}

/* ---- placement ---- */

static double step_of(const char *model, const char *cluster, const char *text) {
    ff_job *job = new_job(model, cluster, 2048, 65536);
    ff_facts *facts = ff_facts_create();
    ff_check(job, text, NULL, facts);
    double step_s = ff_fact_real(ff_facts_root(facts), "estimate.time.step_s");
    assert_true(step_s > 0);
    ff_facts_free(facts);
    free_job(job);
    return step_s;
}

/* On the same number of devices: nodes that a TP group fits in, and smaller ones. */
static void tp_across_nodes_is_slower(void **state) {
    (void)state;
    static const struct {
        const char *model, *inside, *across, *layout;
        double at_least;
    } pairs[] = {
        {SMALL, "1x8xh100-80gb-sxm", "2x4xh100-80gb-sxm", "tp=8", 1},
        {"llama-3.1-8b", "1x8xh100-80gb-sxm", "2x4xh100-80gb-sxm", "tp=8", 1}, /* host-bound */
        {"llama-3.1-8b", "1x8xh100-80gb-sxm", "8x1xh100-80gb-sxm", "tp=8", 1.3},
        {"llama-3.1-70b", "2x8xa100-80gb-sxm", "4x4xa100-80gb-sxm", "tp=8,pp=2", 1.1},
        {"mixtral-8x7b", "2x8xh100-80gb-sxm", "8x2xh100-80gb-sxm", "tp=4,pp=2,ep=2", 1.1},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(step_of(pairs[i].model, pairs[i].across, pairs[i].layout) >
                    pairs[i].at_least * step_of(pairs[i].model, pairs[i].inside, pairs[i].layout));
    /* the same ranks in the same nodes, TP innermost or outermost; layers that the host does not
     * hold up */
    assert_true(step_of("llama-3.1-70b", "2x4xh100-80gb-sxm", "tp=4,dp=2,order=dp-cp-tp-pp") >
                step_of("llama-3.1-70b", "2x4xh100-80gb-sxm", "tp=4,dp=2"));
}

/* A step is the sum of its terms, whatever the layout. */
static void a_step_is_the_sum_of_its_terms(void **state) {
    (void)state;
    ff_job *job = new_job(SMALL_MOE, "2x4xh100-80gb-sxm", 1024, 65536);
    answer a = ask(job, EVERY);
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next) {
        const ff_fact *t = ff_fact_find(p, "time"), *exposed = ff_fact_find(t, "exposed");
        double sum = ff_fact_real(t, "compute_s") + ff_fact_real(t, "bubble_s") +
                     ff_fact_real(t, "optimizer_s");
        for (const ff_fact *e = exposed->first; e != NULL; e = e->next) {
            assert_true(e->real >= 0);
            sum += e->real;
        }
        assert_true(ff_fact_real(t, "bubble_s") >= 0);
        assert_true(fabs(sum - ff_fact_real(t, "step_s")) <= 1e-9 * sum);
    }
    free_answer(&a);
    free_job(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(ranks_rise_in_time_a_token),
        cmocka_unit_test(no_layout_comes_twice),
        cmocka_unit_test(answers_are_the_same_twice),
        cmocka_unit_test(fewer_are_the_first_of_more),
        cmocka_unit_test(search_finds_what_brute_force_finds),
        cmocka_unit_test(pruning_changes_no_answer),
        cmocka_unit_test(plan_and_check_agree),
        cmocka_unit_test(batches_are_the_smallest_that_reach),
        cmocka_unit_test(doubling_a_factor_doubles_the_batch),
        cmocka_unit_test(an_exact_batch_is_met_exactly),
        cmocka_unit_test(tp_across_nodes_is_slower),
        cmocka_unit_test(a_step_is_the_sum_of_its_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
