/* What the user may ask of a search: conditions and grids filter exactly, faults are refused, --near
 * prefers the plainer layout. */
#include "plan_support.h"

#include "base/number.h"
#include <math.h>

/* ---- --where and --grid ---- */

typedef bool plan_test(const ff_fact *fields);

static bool tp_is_2(const ff_fact *f) {
    return field(f, "tp") == 2;
}

static bool tp_at_most_2(const ff_fact *f) {
    return field(f, "tp") <= 2;
}

static bool pp_below_4(const ff_fact *f) {
    return field(f, "pp") < 4;
}

static bool pp_above_1(const ff_fact *f) {
    return field(f, "pp") > 1;
}

static bool dp_at_least_4(const ff_fact *f) {
    return field(f, "dp") >= 4;
}

static bool zero_not_3(const ff_fact *f) {
    return field(f, "zero") != 3;
}

static bool zero_neither_0_nor_3(const ff_fact *f) {
    return zero_not_3(f) && field(f, "zero") != 0;
}

static bool cp_1_or_4(const ff_fact *f) {
    return field(f, "cp") == 1 || field(f, "cp") == 4;
}

static bool recompute_full(const ff_fact *f) {
    return strcmp(ff_fact_text(f, "recompute"), "full") == 0;
}

static bool one_chunk(const ff_fact *f) {
    return field(f, "vpp") == 1;
}

static bool more_chunks(const ff_fact *f) {
    return field(f, "vpp") > 1;
}

static bool recompute_not_none(const ff_fact *f) {
    return strcmp(ff_fact_text(f, "recompute"), "none") != 0;
}

static bool recompute_norm(const ff_fact *f) {
    return strcmp(ff_fact_text(f, "recompute"), "selective:norm+act") == 0;
}

static bool dp_2_or_8(const ff_fact *f) {
    return field(f, "dp") == 2 || field(f, "dp") == 8;
}

static bool several(const ff_fact *f) {
    return tp_at_most_2(f) && pp_above_1(f) && zero_not_3(f) && field(f, "mbs") == 1 &&
           field(f, "vpp") != 2;
}

static bool three_tp_one_pp(const ff_fact *f) {
    return field(f, "tp") != 8 && field(f, "pp") == 2;
}

static bool tied_mbs(const ff_fact *f) {
    return field(f, "mbs") == 2 || field(f, "mbs") == 4;
}

/* The plans of a filtered search are exactly the plans of the whole that pass. */
static void check_filter(const ff_job *job, const answer *whole, const char *where,
                         const char *grid, plan_test *passes) {
    answer a =
        ask(job, (ff_plan_options){.top = 0, .where = where, .grid = grid, .by_formula = true});
    const ff_fact *q = plans_of(&a)->first;
    for (const ff_fact *p = plans_of(whole)->first; p != NULL; p = p->next) {
        if (!passes(ff_fact_find(p, "layout_fields")))
            continue;
        if (q == NULL || strcmp(ff_fact_text(p, "layout"), ff_fact_text(q, "layout")) != 0)
            fail_msg("%s %s: %s instead of %s", where ? where : "", grid ? grid : "",
                     q == NULL ? "nothing" : ff_fact_text(q, "layout"), ff_fact_text(p, "layout"));
        q = q->next;
    }
    if (q != NULL)
        fail_msg("%s %s: %s does not belong", where ? where : "", grid ? grid : "",
                 ff_fact_text(q, "layout"));
    assert_true(plan_count(&a) > 0);
    assert_counts_add_up(&a);
    free_answer(&a);
}

static void conditions_filter_exactly(void **state) {
    (void)state;
    static const struct {
        const char *where, *grid;
        plan_test *passes;
    } filters[] = {
        {"tp=2", NULL, tp_is_2},
        {"schedule=1f1b", NULL, one_chunk},
        {NULL, "schedule=interleaved", more_chunks},
        {"tp<=2", NULL, tp_at_most_2},
        {"tp<3", NULL, tp_at_most_2},
        {"pp<4", NULL, pp_below_4},
        {"pp>1", NULL, pp_above_1},
        {"pp>=2", NULL, pp_above_1},
        {"dp>=4", NULL, dp_at_least_4},
        {"zero!=3", NULL, zero_not_3},
        {"zero!=0|3", NULL, zero_neither_0_nor_3},
        {"zero!=0,zero!=3", NULL, zero_neither_0_nor_3},
        {"cp=1|4", NULL, cp_1_or_4},
        {"recompute=full", NULL, recompute_full},
        {"recompute!=none", NULL, recompute_not_none},
        {"recompute=selective:act+norm", NULL, recompute_norm},
        {"tp<=2, pp>1 ,zero!=3 mbs=1,vpp!=2", NULL, several},
        {NULL, "tp=2", tp_is_2},
        {NULL, "tp=1,2,2", tp_at_most_2},
        {NULL, "dp=2,8", dp_2_or_8},
        {NULL, "mbs=2,4", tied_mbs},
        {NULL, "recompute=full", recompute_full},
        {"pp=2", "tp=1,2,4", three_tp_one_pp},
        {NULL, "tp=1,2,4 pp=2", three_tp_one_pp},
        {NULL, "tp=1,2,4;pp=2", three_tp_one_pp},
    };
    ff_job *job = small_job();
    answer whole = ask(job, EVERY);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        check_filter(job, &whole, filters[i].where, filters[i].grid, filters[i].passes);
    free_answer(&whole);
    free_job(job);
}

static void faulty_conditions_are_refused(void **state) {
    (void)state;
    static const char *const wheres[] = {
        "tp",          "tp=",    "tp=0",          "tp=-1",          "tp==2",
        "tp=>2",       "tp<2|4", "foo=1",         "zero=4",         "=2",
        "<2",          "tp=2,x", "recompute=no",  "recompute<full", "tp~2",
        "tp=1048577",  "sp=2",   "tp=1.5",        "tp=2;pp=2",      "tp=2,,pp=2",
        "tp=2,",       ",tp=2",  "schedule<zb-v", "schedule=zb",    "recipe=fp9",
        "cp_kind>ring"};
    static const char *const grids[] = {"tp",     "tp=",       "tp=0", "foo=1",
                                        "zero=4", "tp=1,pp=2", "=1",   "1,2"};
    ff_job *job = small_job();
    for (size_t i = 0; i < sizeof wheres / sizeof *wheres; i++) {
        answer a = ask(job, (ff_plan_options){.top = 1, .where = wheres[i]});
        if (a.status != FF_INVALID || a.set != NULL || !has_code(a.findings, "FF0403"))
            fail_msg("--where %s is not refused", wheres[i]);
        free_answer(&a);
    }
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        answer a = ask(job, (ff_plan_options){.top = 1, .grid = grids[i]});
        if (a.status != FF_INVALID || a.set != NULL || !has_code(a.findings, "FF0403"))
            fail_msg("--grid %s is not refused", grids[i]);
        free_answer(&a);
    }
    free_job(job);
}

/* ---- --near ---- */

static int active(const ff_fact *plan) {
    const ff_fact *f = ff_fact_find(plan, "layout_fields");
    return (field(f, "dp") > 1) + (field(f, "tp") > 1) + (field(f, "pp") > 1) +
           (field(f, "cp") > 1) + (field(f, "ep") > 1);
}

static void near_prefers_fewer_dimensions(void **state) {
    (void)state;
    ff_job *job = new_job("llama-3.1-8b", "4x8xh100-80gb-sxm", 4096, 1000000);
    answer plain = ask(job, EVERY);
    answer near = ask(job, (ff_plan_options){.top = 0, .near_ratio = 0.10, .by_formula = true});
    double limit = s_per_token(plan_at(&plain, 1)) * 1.10, before = 0;
    int fewest = 9, within = 0;
    for (const ff_fact *p = plans_of(&plain)->first; p != NULL; p = p->next)
        if (s_per_token(p) <= limit) {
            within++;
            fewest = (int)ff_min(fewest, active(p));
        }
    assert_true(active(plan_at(&plain, 1)) >= fewest);
    assert_int_equal(active(plan_at(&near, 1)), fewest);
    /* within the limit by dimensions, then by time; after it by time alone */
    const ff_fact *p = plans_of(&near)->first;
    for (int i = 0, dimensions = 0; p != NULL; p = p->next, i++) {
        if (i == within || (i < within && active(p) > dimensions))
            before = 0;
        assert_true(i >= within || active(p) >= dimensions);
        assert_true((s_per_token(p) <= limit) == (i < within));
        assert_true(s_per_token(p) >= before * (1 - 1e-12));
        dimensions = active(p);
        before = s_per_token(p);
    }
    answer one = ask(job, (ff_plan_options){.top = 1, .near_ratio = 0.10, .by_formula = true});
    assert_string_equal(layout_at(&one, 1), layout_at(&near, 1));
    free_answer(&plain);
    free_answer(&near);
    free_answer(&one);
    free_job(job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_filter_exactly),
        cmocka_unit_test(faulty_conditions_are_refused),
        cmocka_unit_test(near_prefers_fewer_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
