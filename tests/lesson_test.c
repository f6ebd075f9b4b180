/* The lesson's coarse ledger: the whole list against a second implementation written from its
 * definition, and a check that names each violated condition and no other. */
#include "plan_support.h"

#include <math.h>

#define SEVENTY "params=70e9,layers=80,hidden=8192,heads=64"

/* ---- a second implementation ---- */

typedef struct found {
    int dp, tp, pp, cp, zero, m;
    double bytes;
} found;

typedef struct problem {
    double params, layers, hidden, heads, devices, node, memory, seq, target;
} problem;

static int by_definition(const problem *p, found *list) {
    static const int sizes[] = {1, 2, 4, 8};
    int count = 0;
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 4; s++)
            for (int c = 0; c < 4; c++)
                for (int zero = 0; zero <= 3; zero++) {
                    found f = {.tp = sizes[t], .pp = sizes[s], .cp = sizes[c], .zero = zero};
                    double dp = p->devices / (f.tp * f.pp * f.cp), n = dp * f.tp;
                    if (dp != floor(dp) || f.tp > p->node || f.tp > p->heads)
                        continue;
                    double state = zero == 0   ? 16 * p->params / f.tp
                                   : zero == 1 ? 4 * p->params / f.tp + 12 * p->params / n
                                   : zero == 2 ? 2 * p->params / f.tp + 14 * p->params / n
                                               : 16 * p->params / n;
                    double activations = floor(2 * p->layers * p->seq / f.cp) * p->hidden * 2;
                    f.dp = (int)dp;
                    f.m = (int)ceil(p->target / (dp * p->seq));
                    f.bytes = state + activations + 2.0 * 1024 * 1024 * 1024;
                    if (f.bytes <= p->memory)
                        list[count++] = f;
                }
    return count;
}

static void assert_same_list(const answer *a, const found *list, int count) {
    assert_int_equal(plan_count(a), count);
    const ff_fact *plan = plans_of(a)->first;
    for (int i = 0; i < count; i++, plan = plan->next) {
        const ff_fact *f = ff_fact_find(plan, "layout_fields");
        assert_int_equal(ff_fact_integer(f, "dp"), list[i].dp);
        assert_int_equal(ff_fact_integer(f, "tp"), list[i].tp);
        assert_int_equal(ff_fact_integer(f, "pp"), list[i].pp);
        assert_int_equal(ff_fact_integer(f, "cp"), list[i].cp);
        assert_int_equal(ff_fact_integer(f, "ep"), 1);
        assert_int_equal(ff_fact_integer(f, "zero"), list[i].zero);
        assert_int_equal(ff_fact_integer(f, "mbs"), 1);
        assert_int_equal(ff_fact_integer(f, "microbatches"), list[i].m);
        double peak = (double)ff_fact_integer(plan, "memory.peak_bytes");
        assert_true(fabs(peak - list[i].bytes) <= 1);
    }
}

static ff_job *lesson_job(const char *model, const char *cluster, int64_t seq, int64_t gbs) {
    ff_job *job = new_job(model, cluster, seq, gbs);
    job->ledger = FF_LEDGER_LESSON;
    return job;
}

static void the_70b_case_has_60_layouts(void **state) {
    (void)state;
    ff_job *job = lesson_job(SEVENTY, "16x8x(mem=80GiB)", 4096, 4000000);
    problem p = {70e9, 80, 8192, 64, 128, 8, 80.0 * (1 << 30), 4096, 4e6};
    found list[256];
    int count = by_definition(&p, list);
    assert_int_equal(count, 60);
    answer a = ask(job, (ff_plan_options){.top = 0});
    assert_int_equal(a.status, FF_OK);
    assert_same_list(&a, list, count);
    assert_string_equal(ff_fact_text(plan_at(&a, 1), "layout"),
                        "dp=128,tp=1,pp=1,cp=1,zero=3,mbs=1,microbatches=8");
    assert_int_equal(ff_fact_integer(a.root, "search.considered"), 240);
    assert_int_equal(ff_fact_integer(a.root, "search.too_big"), 180);
    assert_int_equal(ff_fact_integer(a.root, "search.estimated"), 60);
    free_answer(&a);
    a = ask(job, (ff_plan_options){.top = 7});
    assert_same_list(&a, list, 7);
    free_answer(&a);
    free_job(job);
}

static void other_cases_match_too(void **state) {
    (void)state;
    static const struct {
        const char *model, *cluster;
        int64_t seq, gbs;
        problem p;
    } cases[] = {
        {"params=7e9,layers=32,hidden=4096,heads=32",
         "2x8x(mem=24GiB)",
         2048,
         1000000,
         {7e9, 32, 4096, 32, 16, 8, 24.0 * (1 << 30), 2048, 1e6}},
        {"params=7e9,layers=32,hidden=4096,heads=2",
         "2x4x(mem=40GiB)",
         8191,
         3,
         {7e9, 32, 4096, 2, 8, 4, 40.0 * (1 << 30), 8191, 3}},
        {"params=13e9,layers=40,hidden=5120,heads=40",
         "3x4x(mem=80GiB)",
         4096,
         4000000,
         {13e9, 40, 5120, 40, 12, 4, 80.0 * (1 << 30), 4096, 4e6}},
        {"params=405e9,layers=126,hidden=16384,heads=128",
         "64x8x(mem=80GiB)",
         131072,
         16000000,
         {405e9, 126, 16384, 128, 512, 8, 80.0 * (1 << 30), 131072, 16e6}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_job *job = lesson_job(cases[i].model, cases[i].cluster, cases[i].seq, cases[i].gbs);
        found list[256];
        int count = by_definition(&cases[i].p, list);
        answer a = ask(job, (ff_plan_options){.top = 0});
        assert_same_list(&a, list, count);
        free_answer(&a);
        free_job(job);
    }
}

static void nothing_found_is_an_empty_list(void **state) {
    (void)state;
    ff_job *job = lesson_job(SEVENTY, "1x8x(mem=16GiB)", 4096, 4000000);
    answer a = ask(job, (ff_plan_options){.top = 5});
    assert_int_equal(a.status, FF_NO);
    assert_int_equal(plan_count(&a), 0);
    assert_true(has_code(a.findings, "FF0501"));
    free_answer(&a);
    free_job(job);
}

static int lesson_count(const ff_job *job, const char *where, const char *grid) {
    answer a = ask(job, (ff_plan_options){.top = 0, .where = where, .grid = grid});
    int count = a.set == NULL ? -1 : plan_count(&a);
    assert_true(a.set != NULL || has_code(a.findings, "FF0403"));
    free_answer(&a);
    return count;
}

static void grid_and_where_choose(void **state) {
    (void)state;
    ff_job *job = lesson_job(SEVENTY, "16x8x(mem=80GiB)", 4096, 4000000);
    assert_int_equal(lesson_count(job, NULL, "tp=1,2,4,8 pp=1,2,4,8 cp=1,2,4,8 zero=0,1,2,3"), 60);
    assert_int_equal(lesson_count(job, "tp<=8,cp>=1", NULL), 60);
    int by_tp = 0;
    for (int tp = 1; tp <= 8; tp *= 2) {
        char grid[16], where[16];
        snprintf(grid, sizeof grid, "tp=%d", tp);
        snprintf(where, sizeof where, "tp=%d", tp);
        int count = lesson_count(job, where, NULL);
        assert_int_equal(lesson_count(job, NULL, grid), count);
        by_tp += count;
    }
    assert_int_equal(by_tp, 60);
    assert_int_equal(lesson_count(job, "zero=0", NULL) + lesson_count(job, "zero=1|2|3", NULL), 60);
    assert_int_equal(lesson_count(job, "dp=128", NULL), 1);
    assert_int_equal(lesson_count(job, NULL, "dp=128"), 1);
    assert_int_equal(lesson_count(job, "mbs=2", NULL), 0);
    assert_true(lesson_count(job, NULL, "mbs=2 tp=8 zero=3") > 0);
    assert_int_equal(lesson_count(job, NULL, "tp=16"), 0); /* beyond a node: illegal */
    assert_int_equal(lesson_count(job, "vpp=2", NULL), -1);
    assert_int_equal(lesson_count(job, NULL, "recompute=full"), -1);
    free_job(job);
}

/* ---- checks ---- */

static void each_violated_condition_is_named_alone(void **state) {
    (void)state;
    static const struct {
        const char *model, *cluster, *text, *codes, *verdict;
    } checks[] = {
        {SEVENTY, "16x8x(mem=80GiB)", "dp=128,zero=3,m=8", "", "fits"},
        {SEVENTY, "16x8x(mem=80GiB)", "zero=3", "", "fits"}, /* dp and m follow */
        {SEVENTY, "16x8x(mem=80GiB)", "dp=64,zero=3,m=16", "FF0510", "illegal"},
        {SEVENTY, "16x8x(mem=80GiB)", "tp=16,zero=3,m=123", "FF0511", "illegal"},
        {"params=7e9,layers=32,hidden=4096,heads=4", "16x8x(mem=80GiB)", "tp=8,zero=3", "FF0512",
         "illegal"},
        {SEVENTY, "16x8x(mem=80GiB)", "dp=128,zero=3,m=7", "FF0513", "illegal"},
        {SEVENTY, "16x8x(mem=80GiB)", "dp=128,zero=0,m=8", "FF0514", "too_big"},
        {SEVENTY, "16x8x(mem=80GiB)", "dp=3,tp=12,zero=0,m=1", "FF0510 FF0511 FF0513 FF0514",
         "illegal"},
        {"params=7e9,layers=32,hidden=4096,heads=4", "1x8x(mem=4GiB)", "tp=16,dp=1,m=1",
         "FF0510 FF0511 FF0512 FF0513 FF0514", "illegal"},
        /* pp beyond the layers, a ragged sequence, ep on a dense model, a schedule: not its affair */
        {SEVENTY, "16x8x(mem=80GiB)", "pp=128,zero=0,tp=1,m=977", "FF0514", "too_big"},
        {SEVENTY, "16x8x(mem=80GiB)", "dp=16,ep=8,zero=3,tp=1,schedule=zb-v,vpp=7,etp=3", "",
         "fits"},
        {"params=7e9,layers=32,hidden=4096,heads=6,head_dim=64", "2x8x(mem=80GiB)",
         "tp=4,cp=2,dp=2,zero=3", "", "fits"},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        ff_job *job = lesson_job(checks[i].model, checks[i].cluster, 4096, 4000000);
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_facts *facts = ff_facts_create();
        ff_status status = ff_check(job, checks[i].text, findings, facts);
        char codes[64] = "";
        for (int n = 0; n < ff_diagnostics_count(findings); n++) {
            strcat(codes, n == 0 ? "" : " ");
            strcat(codes, ff_diagnostics_at(findings, n)->code);
        }
        const ff_fact *root = ff_facts_root(facts);
        assert_string_equal(codes, checks[i].codes);
        assert_string_equal(ff_fact_text(root, "verdict"), checks[i].verdict);
        assert_int_equal(status, codes[0] == '\0' ? FF_OK : FF_NO);
        assert_int_equal(ff_fact_boolean(root, "fits"), status == FF_OK);
        assert_int_equal(ff_fact_boolean(root, "legal"), strcmp(checks[i].verdict, "illegal") != 0);
        ff_facts_free(facts);
        ff_diagnostics_free(findings);
        free_job(job);
    }
}

/* What the search lists, a check accepts. */
static void what_is_found_is_accepted(void **state) {
    (void)state;
    ff_job *job = lesson_job(SEVENTY, "16x8x(mem=80GiB)", 4096, 4000000);
    answer a = ask(job, (ff_plan_options){.top = 0});
    for (const ff_fact *p = plans_of(&a)->first; p != NULL; p = p->next) {
        ff_facts *facts = ff_facts_create();
        assert_int_equal(ff_check(job, ff_fact_text(p, "layout"), NULL, facts), FF_OK);
        const ff_fact *estimate = ff_fact_find(ff_facts_root(facts), "estimate");
        assert_string_equal(ff_fact_text(estimate, "layout"), ff_fact_text(p, "layout"));
        assert_int_equal(ff_fact_integer(estimate, "memory.peak_bytes"),
                         ff_fact_integer(p, "memory.peak_bytes"));
        ff_facts_free(facts);
    }
    free_answer(&a);
    free_job(job);
}

/* Heads are those of softmax attention, also where linear layers come first. */
static void heads_of_mixed_models(void **state) {
    (void)state;
    ff_job *job = lesson_job("qwen3-next-80b-a3b", "4x32x(mem=192GiB)", 4096, 4000000);
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_facts *facts = ff_facts_create();
    ff_check(job, "tp=16,zero=3", findings, facts); /* 16 query heads, 32 value heads */
    assert_false(has_code(findings, "FF0512"));
    ff_check(job, "tp=32,zero=3", findings, facts);
    assert_true(has_code(findings, "FF0512"));
    ff_facts_free(facts);
    ff_diagnostics_free(findings);
    free_job(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_70b_case_has_60_layouts),
        cmocka_unit_test(other_cases_match_too),
        cmocka_unit_test(nothing_found_is_an_empty_list),
        cmocka_unit_test(grid_and_where_choose),
        cmocka_unit_test(each_violated_condition_is_named_alone),
        cmocka_unit_test(what_is_found_is_accepted),
        cmocka_unit_test(heads_of_mixed_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
