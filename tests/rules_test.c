/* The rules: each has a layout that breaks it and one that does not; findings point into the layout
 * and name legal values; what the search asks and what a check reports agree. */
#include "plan_support.h"

#include "base/number.h"
#include "rules/rules.h"
#include "rules/table.h"

/* ---- one case a rule ---- */

#define LLAMA "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256,seq=131072"
#define MOE "layers=32,hidden=4096,heads=32,kv_heads=8,experts=8,topk=2,expert_ffn=14336"
#define FINE_MOE "layers=32,hidden=4096,heads=32,kv_heads=8,experts=64,topk=2,expert_ffn=512"

static const struct rule_row {
    const char *code, *model;
    int64_t seq, gbs_sequences;
    bool exact;
    const char *cluster; /* NULL: none */
    const char *bad, *good;
} rows[] = {
    {"FF0210", LLAMA, 4096, 0, false, NULL, "tp=6", "tp=8"},
    {"FF0211", "layers=2,hidden=1536,heads=24,kv_heads=4", 4096, 0, false, NULL, "tp=6", "tp=8"},
    {"FF0212", "layers=2,hidden=512,heads=8,ffn=1020", 4096, 0, false, NULL, "tp=8", "tp=4"},
    {"FF0213", LLAMA, 4096, 0, false, NULL, "pp=33", "pp=32"},
    {"FF0214", LLAMA, 4100, 0, false, NULL, "cp=4", "cp=2"},
    {"FF0215", LLAMA, 4097, 0, false, NULL, "tp=2", "tp=2,sp=0"},
    {"FF0216", LLAMA, 4096, 0, false, NULL, "cp=3,cp_kind=ulysses", "cp=16,cp_kind=ulysses"},
    {"FF0217", LLAMA, 4096, 0, false, NULL, "ep=2", "ep=1"},
    {"FF0218", MOE, 4096, 0, false, NULL, "ep=16", "ep=8"},
    {"FF0219", MOE, 4096, 0, false, NULL, "etp=3", "etp=2"},
    {"FF0220", MOE, 4096, 0, false, NULL, "tp=2,sp=0", "tp=2"},
    {"FF0221", LLAMA, 4096, 65, false, NULL, "dp=8,m=8", "dp=8,m=9"},
    {"FF0222", LLAMA, 4096, 65, true, NULL, "dp=8", "dp=5"},
    {"FF0223", LLAMA, 4096, 0, false, "1x8xv100-32gb-sxm2", "dp=8", "dp=8,recipe=fp16-megatron"},
    {"FF0224", "qwen3-next-80b-a3b", 4096, 0, false, NULL, "tp=2,cp=16", "tp=2,cp=8"},
    {"FF0225", LLAMA, 4096, 0, false, "2x8xh100-80gb-sxm", "dp=8", "dp=16"},
    {"FF0226", "gpt2", 2048, 0, false, NULL, "dp=2", NULL},
    {"FF0228", LLAMA, INT64_C(1) << 31, 0, false, NULL, "mbs=2", "mbs=2,cp=2"},
    {"FF0244", LLAMA, 4096, 0, false, NULL, "pp=4,vpp=2,m=6", "pp=4,vpp=2,m=8"},
    {"FF0250", LLAMA, 4096, 0, false, "2x8xh100-80gb-sxm", "tp=16", "tp=8"},
    {"FF0251", LLAMA, 4096, 0, false, NULL, "dp=2,pp=2,zero=3,zero3_weights=stream",
     "dp=2,pp=2,zero=3"},
    {"FF0252", LLAMA, 32764, 0, false, NULL, "cp=2", "cp=1"},
    {"FF0253", LLAMA, 4096, 0, false, NULL, "pp=4,m=29", "pp=4,m=30"},
    {"FF0254", MOE, 4096, 0, false, "2x4xh100-80gb-sxm", "ep=8", "ep=4"},
    {"FF0255", LLAMA, 4096, 0, false, NULL, "tp=16", "tp=8"},
    {"FF0256", LLAMA, 4096, 0, false, NULL, "dp=2,zero=2,m=2", "dp=2,zero=2,m=1"},
    {"FF0257", LLAMA, 4096, 0, false, NULL, "pp=3", "pp=4"},
    {"FF0258", MOE, 4096, 0, false, NULL, "dp=8,ep=8", "dp=16,ep=8"},
    {"FF0259", LLAMA, 4096, 100, false, NULL, "dp=53", "dp=105"},
    {"FF0260", LLAMA, 4096, 0, false, NULL, "tp=2,zero=1", "tp=2,zero=0"},
    {"FF0261", LLAMA, 4096, 0, false, NULL, "dp=2,zero=0", "dp=2,zero=1"},
    {"FF0262", LLAMA, 4096, 0, false, NULL, "cp=2,cp_kind=ring-plain", "cp=2,cp_kind=ring"},
    {"FF0263", "layers=2,hidden=4096,heads=32,ffn=11008", 4096, 0, false, NULL, "tp=8", "tp=4"},
    {"FF0264", LLAMA, 131076, 0, false, NULL, "dp=2", NULL},
    {"FF0265", FINE_MOE, 4096, 0, false, NULL, "dp=8", "dp=8,ep=8"},
    {"FF0266", "layers=2,hidden=512,heads=8,vocab=1025", 4096, 0, false, NULL, "tp=2", NULL},
    {"FF0267", LLAMA, 4096, 0, false, "2x8xh100-80gb-sxm", "dp=16,zero=3,mbs=1",
     "dp=16,zero=3,mbs=2"}, /* 4,096 tokens of 989e12 / 47e9 / 4 = 5,262 */
    {"FF0268", LLAMA, 4096, 0, false, NULL, "dp=2", "dp=2,m=2"},
    {"FF0269", LLAMA, 4096, 0, false, NULL, "dp=2,recompute=full:999", "dp=2,recompute=full:1"},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* A layout against a row; findings may be NULL. Layouts make their own world. */
static bool check(const struct rule_row *row, const char *text, ff_diagnostics *findings) {
    static ff_model model;
    static ff_cluster cluster;
    read_model(row->model, &model);
    if (row->cluster != NULL)
        assert_int_equal(ff_cluster_preset(row->cluster, NULL, &cluster), FF_OK);
    ff_layout layout;
    assert_int_equal(ff_layout_parse(text, NULL, &layout), FF_OK);
    ff_layout_context context = {.gbs_sequences = row->gbs_sequences, .layers = model.layers};
    if (ff_layout_derive(&layout, &context, NULL) != FF_OK)
        fail_msg("%s: %s cannot be derived", row->code, text);
    ff_rule_case c = {.model = &model,
                      .cluster = row->cluster == NULL ? NULL : &cluster,
                      .layout = &layout,
                      .seq = row->seq,
                      .gbs_sequences = row->gbs_sequences,
                      .gbs_exact = row->exact,
                      .text = text};
    bool legal = ff_rules_check(&c, findings);
    assert_int_equal(legal, ff_rules_legal(&c));
    return legal;
}

static const struct rule_row *row_of(const char *code) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].code, code) == 0)
            return &rows[i];
    return NULL;
}

/* The schedule's rule reports codes of the schedule's own. */
static bool reports(const ff_diagnostics *findings, const char *code) {
    if (strcmp(code, "FF0244") != 0)
        return has_code(findings, code);
    for (int i = 0; i < ff_diagnostics_count(findings); i++)
        if (strncmp(ff_diagnostics_at(findings, i)->code, "FF024", 5) == 0)
            return true;
    return false;
}

static void every_rule_is_broken_and_kept(void **state) {
    (void)state;
    const ff_rule *rule;
    int count = 0;
    for (; (rule = ff_rule_at(count)) != NULL; count++) {
        const char *code = ff_code_describe(rule->code)->name;
        const struct rule_row *row = row_of(code);
        if (row == NULL)
            fail_msg("%s has no case here", code);
        ff_diagnostics *bad = ff_diagnostics_create(), *good = ff_diagnostics_create();
        bool legal = check(row, row->bad, bad);
        if (!reports(bad, code))
            fail_msg("%s is not reported for %s", code, row->bad);
        if (ff_code_describe(rule->code)->severity == FF_ERROR)
            assert_false(legal);
        if (row->good != NULL)
            check(row, row->good, good);
        if (reports(good, code))
            fail_msg("%s is reported for %s", code, row->good);
        ff_diagnostics_free(bad);
        ff_diagnostics_free(good);
    }
    assert_int_equal(count, ROWS);
    assert_null(ff_rule_at(count));
    assert_null(ff_rule_at(-1));
}

static void rules_without_a_good_layout_depend_on_the_job(void **state) {
    (void)state;
    const struct {
        const char *code;
        struct rule_row row;
    } jobs[] = {
        {"FF0226", {"", "gpt2", 1024, 0, false, NULL, "dp=2", NULL}},
        {"FF0264", {"", LLAMA, 131072, 0, false, NULL, "dp=2", NULL}},
        {"FF0266",
         {"", "layers=2,hidden=512,heads=8,vocab=1024", 4096, 0, false, NULL, "tp=2", NULL}},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        check(&jobs[i].row, jobs[i].row.bad, findings);
        assert_false(has_code(findings, jobs[i].code));
        ff_diagnostics_free(findings);
    }
}

/* Every finding teaches: a reason in the catalogue or a way out. */
static void findings_have_a_reason(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        check(&rows[i], rows[i].bad, findings);
        for (int n = 0; n < ff_diagnostics_count(findings); n++) {
            const ff_diagnostic *d = ff_diagnostics_at(findings, n);
            assert_true(d->message[0] != '\0');
            if (d->rule == NULL && d->help == NULL && strcmp(d->code, "FF0264") != 0)
                fail_msg("%s says neither why nor what to do", d->code);
        }
        ff_diagnostics_free(findings);
    }
}

/* ---- where a finding points, and what it advises ---- */

static const ff_diagnostic *found(const ff_diagnostics *findings, const char *code) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++)
        if (strcmp(ff_diagnostics_at(findings, i)->code, code) == 0)
            return ff_diagnostics_at(findings, i);
    fail_msg("%s is not reported", code);
    return NULL;
}

static void findings_point_at_their_key(void **state) {
    (void)state;
    static const struct {
        const char *code, *text;
        int column, length;
    } places[] = {
        {"FF0210", "tp=6", 1, 4},
        {"FF0210", "etp=1,tp=6,dp=2", 7, 4},
        {"FF0210", " dp=2 ,  tp = 6  , mbs=1", 10, 6},
        {"FF0218", "tp=1,ep=16,mbs=2", 6, 5},
        {"FF0221", "dp=1,mbs=1,m=3", 12, 3},
        {"FF0221", "dp=1,grad_acc=3,mbs=1", 6, 10},
        {"FF0221", "microbatches=3", 1, 14},
        {"FF0272", "pp=4,m=6,schedule=dualpipe", 10, 17},
        {"FF0244", "pp=4,vpp=2,m=6,schedule=interleaved", 16, 20},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct rule_row row = {places[i].code, MOE, 4096, 100, false, NULL, NULL, NULL};
        ff_diagnostics *findings = ff_diagnostics_create();
        check(&row, places[i].text, findings);
        const ff_diagnostic *d = found(findings, places[i].code);
        assert_string_equal(d->where.file, "layout");
        assert_string_equal(d->where.line_text, places[i].text);
        assert_int_equal(d->where.line, 1);
        assert_int_equal(d->where.column, places[i].column);
        assert_int_equal(d->where.length, places[i].length);
        ff_diagnostics_free(findings);
    }
}

static void a_key_left_out_has_no_place(void **state) {
    (void)state;
    struct rule_row row = {"", LLAMA, 4096, 53, true, NULL, NULL, NULL};
    ff_diagnostics *findings = ff_diagnostics_create();
    check(&row, "dp=8", findings); /* of FF0222's mbs nothing is written */
    assert_null(found(findings, "FF0222")->where.file);
    ff_diagnostics_free(findings);
}

static void advice_is_the_nearest_legal_value(void **state) {
    (void)state;
    static const struct {
        const char *code, *model, *cluster;
        int64_t seq, gbs;
        bool exact;
        const char *text, *help;
    } advice[] = {
        {"FF0210", LLAMA, NULL, 4096, 0, false, "tp=6", "nearest legal: tp=4, tp=8"},
        {"FF0210", LLAMA, NULL, 4096, 0, false, "tp=33", "nearest legal: tp=32"},
        {"FF0210", LLAMA, "3x8xh100-80gb-sxm", 4096, 0, false, "tp=12,dp=2", "nearest legal: tp=8"},
        /* 7 divides the heads, but not the 4 KV heads */
        {"FF0210", "layers=4,hidden=1792,heads=28,kv_heads=4,ffn=28672", NULL, 4096, 0, false,
         "tp=6", "nearest legal: tp=4"},
        {"FF0211", "layers=2,hidden=1536,heads=24,kv_heads=4", NULL, 4096, 0, false, "tp=6",
         "nearest legal: tp=4, tp=8"},
        {"FF0213", LLAMA, NULL, 4096, 0, false, "pp=40", "nearest legal: pp=32"},
        {"FF0214", LLAMA, NULL, 4104, 0, false, "cp=8",
         "nearest legal: cp=6, cp=9; or --seq 4096, 4112"},
        {"FF0214", LLAMA, NULL, 8, 0, false, "cp=8", "nearest legal: cp=4; or --seq 16"},
        {"FF0215", LLAMA, NULL, 4097, 0, false, "tp=4", "nearest legal: --seq 4096, 4100"},
        {"FF0215", LLAMA, NULL, 4097, 0, false, "tp=4,mbs=2", "nearest legal: --seq 4096, 4098"},
        {"FF0218", MOE, NULL, 4096, 0, false, "ep=16", "nearest legal: ep=8"},
        {"FF0218", MOE, NULL, 4096, 0, false, "ep=3", "nearest legal: ep=2, ep=4"},
        {"FF0221", LLAMA, NULL, 4096, 100, false, "dp=8,m=3", "microbatches=13"},
        {"FF0221", LLAMA, NULL, 4096, 100, false, "dp=8,m=4,pp=4,vpp=2", "microbatches=16"},
        {"FF0222", LLAMA, NULL, 4096, 100, true, "dp=8", "nearest batches: 96, 104 sequences"},
        {"FF0222", LLAMA, NULL, 4096, 3, true, "dp=8", "nearest batches: 8 sequences"},
        {"FF0253", LLAMA, NULL, 4096, 0, false, "pp=4,m=4",
         "30 microbatches or more, or a larger vpp"},
        {"FF0253", LLAMA, NULL, 4096, 0, false, "pp=4,vpp=2,m=4",
         "16 microbatches or more, or a larger vpp"},
    };
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
        struct rule_row row = {advice[i].code,  advice[i].model,   advice[i].seq, advice[i].gbs,
                               advice[i].exact, advice[i].cluster, NULL,          NULL};
        ff_diagnostics *findings = ff_diagnostics_create();
        check(&row, advice[i].text, findings);
        const ff_diagnostic *d = found(findings, advice[i].code);
        assert_string_equal(d->help == NULL ? "" : d->help, advice[i].help);
        ff_diagnostics_free(findings);
    }
}

/* A check reports everything, each once. */
static void all_findings_are_reported(void **state) {
    (void)state;
    struct rule_row row = {"", MOE, 4097, 7, true, "1x8xh100-80gb-sxm", NULL, NULL};
    ff_diagnostics *findings = ff_diagnostics_create();
    check(&row, "tp=3,ep=3,etp=3,dp=3,sp=1,zero=2,mbs=2", findings);
    const char *const codes[] = {"FF0210", "FF0211", "FF0218", "FF0219", "FF0225", "FF0222"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_true(has_code(findings, codes[i]));
    for (int a = 0; a < ff_diagnostics_count(findings); a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(ff_diagnostics_at(findings, a)->code,
                                    ff_diagnostics_at(findings, b)->code);
    ff_diagnostics_free(findings);
}

/* ---- agreement, and sizes without sense ---- */

static void fill_at_random(ff_layout *l, uint64_t *seed, bool absurd) {
    static const int64_t sizes[] = {1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 16, 24, 32, 64};
    static const int64_t wild[] = {1,    2,     3,       1023,      1024,
                                   1025, 65536, 1 << 20, INT32_MAX, FF_SATURATED};
    int64_t *const fields[] = {&l->dp,  &l->tp,  &l->pp,  &l->cp,           &l->ep,
                               &l->etp, &l->vpp, &l->mbs, &l->microbatches, &l->edp};
    ff_layout_init(l);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = absurd ? wild[random_below(seed, sizeof wild / sizeof *wild)]
                            : sizes[random_below(seed, sizeof sizes / sizeof *sizes)];
    l->sp = (int)random_below(seed, 2);
    l->zero = (int)random_below(seed, 4);
    l->zero3_weights = (int)random_below(seed, 2);
    l->schedule = (int)random_below(seed, FF_SCHEDULE_COUNT);
    l->cp_kind = (ff_cp_kind)random_below(seed, 5);
    l->recipe = (ff_recipe)random_below(seed, FF_RECIPE_COUNT);
    l->ulysses = l->cp_kind >= FF_CP_ULYSSES ? l->cp : 1;
    l->zero_group = ff_mul(l->dp, l->cp);
}

static void legal_and_check_agree(void **state) {
    (void)state;
    static const char *const models[] = {LLAMA, MOE, "gpt2", "qwen3-next-80b-a3b", "deepseek-v3"};
    enum { MODELS = 5, TRIES = 20000 };
    static ff_model model[MODELS];
    static ff_cluster cluster;
    uint64_t seed = 20240607;
    int legal = 0;
    for (int i = 0; i < MODELS; i++)
        read_model(models[i], &model[i]);
    assert_int_equal(ff_cluster_preset("4x8xh100-80gb-sxm", NULL, &cluster), FF_OK);
    for (int i = 0; i < TRIES; i++) {
        ff_layout layout;
        bool absurd = i % 4 == 0;
        fill_at_random(&layout, &seed, absurd);
        ff_rule_case c = {.model = &model[i % MODELS],
                          .cluster = i % 3 == 0 ? &cluster : NULL,
                          .layout = &layout,
                          .seq = absurd ? random_below(&seed, FF_SATURATED)
                                        : 16 * random_below(&seed, 64),
                          .gbs_sequences = absurd ? random_below(&seed, FF_SATURATED)
                                                  : 8 * random_below(&seed, 8),
                          .gbs_exact = i % 8 == 0};
        /* What to advise on wild sizes is searched for at length: only whether is asked. */
        ff_diagnostics *findings = absurd ? NULL : ff_diagnostics_create();
        bool is_legal = ff_rules_check(&c, findings);
        assert_int_equal(is_legal, ff_rules_legal(&c));
        legal += is_legal;
        ff_diagnostics_free(findings);
    }
    assert_true(legal > TRIES / 1000); /* both sides are met */
}

/* The search counts on it: what is illegal is so under every ZeRO stage and recompute mode. */
static void errors_know_neither_zero_nor_recompute(void **state) {
    (void)state;
    static ff_model model;
    uint64_t seed = 7;
    read_model(MOE, &model);
    for (int i = 0; i < 5000; i++) {
        ff_layout layout;
        fill_at_random(&layout, &seed, false);
        ff_rule_case c = {.model = &model, .layout = &layout, .seq = 1024, .gbs_sequences = 8};
        bool legal = ff_rules_legal(&c);
        for (layout.zero = 0; layout.zero <= 3; layout.zero++)
            for (int mode = FF_RECOMPUTE_NONE; mode <= FF_RECOMPUTE_FULL; mode++) {
                layout.recompute = (ff_recompute_mode)mode;
                layout.recompute_modules = mode == FF_RECOMPUTE_SELECTIVE ? FF_MODULE_MLP : 0;
                assert_int_equal(ff_rules_legal(&c), legal);
            }
    }
}

/* ---- the catalogue ---- */

static void codes_are_unique_and_titled(void **state) {
    (void)state;
    for (int a = 0; a < FF_CODE_COUNT; a++) {
        const ff_code_entry *entry = ff_code_describe((ff_code)a);
        assert_int_equal(strlen(entry->name), 6);
        assert_int_equal(strncmp(entry->name, "FF", 2), 0);
        assert_true(entry->title[0] != '\0');
        assert_int_equal(ff_code_find(entry->name), a);
        for (int b = 0; b < a; b++)
            assert_string_not_equal(entry->name, ff_code_describe((ff_code)b)->name);
    }
    const ff_rule *rule;
    for (int i = 0; (rule = ff_rule_at(i)) != NULL; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(rule->code, ff_rule_at(j)->code);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_is_broken_and_kept),
        cmocka_unit_test(rules_without_a_good_layout_depend_on_the_job),
        cmocka_unit_test(findings_have_a_reason),
        cmocka_unit_test(findings_point_at_their_key),
        cmocka_unit_test(a_key_left_out_has_no_place),
        cmocka_unit_test(advice_is_the_nearest_legal_value),
        cmocka_unit_test(all_findings_are_reported),
        cmocka_unit_test(legal_and_check_agree),
        cmocka_unit_test(errors_know_neither_zero_nor_recompute),
        cmocka_unit_test(codes_are_unique_and_titled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
