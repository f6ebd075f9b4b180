/* Layout strings: what is read, what is refused and how, what is derived, and that a printed layout
 * derives to itself again. */
#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "fivefold/layout.h"
#include "layout/keys.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- helpers --- */

static bool has_code(const ff_diagnostics *list, const char *code) {
    for (int i = 0; i < ff_diagnostics_count(list); i++)
        if (strcmp(ff_diagnostics_at(list, i)->code, code) == 0)
            return true;
    return false;
}

static void print_findings(const ff_diagnostics *list) {
    for (int i = 0; i < ff_diagnostics_count(list); i++) {
        const ff_diagnostic *item = ff_diagnostics_at(list, i);
        print_message("%s: %s | rule %s | help %s\n", item->code, item->message,
                      item->rule ? item->rule : "-", item->help ? item->help : "-");
    }
}

static ff_layout derived(const char *text, ff_layout_context context) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_layout layout;
    bool good = ff_layout_parse(text, findings, &layout) == FF_OK &&
                ff_layout_derive(&layout, &context, findings) == FF_OK;
    if (!good) {
        print_message("%s\n", text);
        print_findings(findings);
    }
    assert_true(good);
    assert_false(ff_has_errors(findings));
    ff_diagnostics_free(findings);
    return layout;
}

/* The text is refused (by parse or derive) with `code`, and `words` stand in its message, rule or
 * help. */
static void assert_refused(const char *text, ff_layout_context context, const char *code,
                           const char *words) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_layout layout;
    ff_status status = ff_layout_parse(text, findings, &layout);
    if (status == FF_OK)
        status = ff_layout_derive(&layout, &context, findings);
    assert_int_equal(status, FF_INVALID);
    bool found = false;
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *item = ff_diagnostics_at(findings, i);
        const char *texts[] = {item->message, item->rule, item->help};
        for (int j = 0; j < 3 && strcmp(item->code, code) == 0; j++)
            found |= texts[j] != NULL && strstr(texts[j], words) != NULL;
    }
    if (!found) {
        print_message("%s: expected %s \"%s\"\n", text, code, words);
        print_findings(findings);
    }
    assert_true(found);
    ff_diagnostics_free(findings);
}

static const ff_layout_context NOTHING = {0};

static void assert_short(const char *text, ff_layout_context context, const char *expected) {
    char printed[FF_LAYOUT_TEXT_BYTES];
    ff_layout layout = derived(text, context);
    assert_string_equal(ff_layout_print(&layout, FF_LAYOUT_SHORT, printed, sizeof printed),
                        expected);
}

/* All but what the user wrote. */
static bool same(ff_layout a, ff_layout b) {
    a.given = b.given = 0;
    return a.dp == b.dp && a.tp == b.tp && a.pp == b.pp && a.cp == b.cp && a.ep == b.ep &&
           a.etp == b.etp && a.edp == b.edp && a.sp == b.sp && a.vpp == b.vpp &&
           a.cp_kind == b.cp_kind && a.ulysses == b.ulysses && a.zero == b.zero &&
           a.zero_group == b.zero_group && a.zero3_weights == b.zero3_weights && a.mbs == b.mbs &&
           a.microbatches == b.microbatches && a.accumulate == b.accumulate &&
           a.recompute == b.recompute && a.recompute_modules == b.recompute_modules &&
           a.recompute_layers == b.recompute_layers && a.recipe == b.recipe &&
           a.schedule == b.schedule && a.grid == b.grid && a.chunks == b.chunks &&
           a.recompute_stages == b.recompute_stages &&
           memcmp(a.recompute_of_stage, b.recompute_of_stage, sizeof a.recompute_of_stage) == 0 &&
           memcmp(a.dense_order, b.dense_order, sizeof a.dense_order) == 0 &&
           memcmp(a.expert_order, b.expert_order, sizeof a.expert_order) == 0 &&
           memcmp(a.layers_of_chunk, b.layers_of_chunk,
                  (size_t)a.chunks * sizeof *a.layers_of_chunk) == 0;
}

/* --- reading --- */

static void test_reads_every_key(void **state) {
    (void)state;
    ff_layout a = derived("dp=4,tp=2,pp=2,cp=4,ep=8,etp=2,sp=0,vpp=2,cp_kind=hybrid:2,zero=fsdp,"
                          "zero_group=8,zero3_weights=stream,mbs=3,grad_acc=6,accumulate=tree,"
                          "recompute=selective:mlp+core,recipe=fp8-te,schedule=interleaved-1f1b,"
                          "order=cp-tp-dp-pp,layers=20/22/22/16,grid=folded",
                          NOTHING);
    assert_int_equal(a.dp, 4);
    assert_int_equal(a.tp, 2);
    assert_int_equal(a.pp, 2);
    assert_int_equal(a.cp, 4);
    assert_int_equal(a.ep, 8);
    assert_int_equal(a.etp, 2);
    assert_int_equal(a.edp, 2); /* 4*2*4 / (2*8) */
    assert_int_equal(a.sp, 0);
    assert_int_equal(a.vpp, 2);
    assert_int_equal(a.cp_kind, FF_CP_HYBRID);
    assert_int_equal(a.ulysses, 2);
    assert_int_equal(a.zero, 3);
    assert_int_equal(a.zero_group, 8);
    assert_int_equal(a.zero3_weights, FF_ZERO3_STREAM);
    assert_int_equal(a.mbs, 3);
    assert_int_equal(a.microbatches, 6);
    assert_int_equal(a.accumulate, FF_ACCUMULATE_TREE);
    assert_int_equal(a.recompute, FF_RECOMPUTE_SELECTIVE);
    assert_int_equal(a.recompute_modules, FF_MODULE_CORE | FF_MODULE_MLP);
    assert_int_equal(a.recipe, FF_RECIPE_FP8_TE);
    assert_int_equal(a.schedule, FF_SCHEDULE_INTERLEAVED);
    assert_int_equal(a.dense_order[0], FF_AXIS_CP);
    assert_int_equal(a.expert_order[0], FF_AXIS_EP); /* follows */
    assert_int_equal(a.chunks, 4);
    assert_int_equal(a.layers_of_chunk[3], 16);
    assert_int_equal(ff_layout_world(&a), 64);
    assert_int_equal(ff_layout_min_world(&a), 2 * 16); /* pp * lcm(8, 16) */
    assert_int_equal(ff_layout_batch_sequences(&a), 3 * 6 * 4);
    assert_int_equal(ff_layout_active_dimensions(&a), 5);
}

static void test_left_out(void **state) {
    (void)state;
    ff_layout a = derived("", NOTHING);
    assert_int_equal(ff_layout_world(&a), 1);
    assert_int_equal(a.zero, 1);
    assert_int_equal(a.sp, 0);
    assert_int_equal(a.microbatches, 1);
    assert_int_equal(a.schedule, FF_SCHEDULE_1F1B);
    assert_int_equal(a.recipe, FF_RECIPE_BF16_MEGATRON);
    assert_int_equal(a.zero3_weights, FF_ZERO3_STREAM);
    assert_int_equal(a.chunks, 0); /* no layers known, no split */
    assert_int_equal(a.given, 0);
    ff_layout b = derived(" tp = 8 ,\tpp=4\n", (ff_layout_context){.world = 128, .layers = 126});
    assert_int_equal(b.dp, 4);
    assert_int_equal(b.sp, 1);
    assert_int_equal(b.zero_group, 4);
    assert_int_equal(b.zero3_weights, FF_ZERO3_RESIDENT);
    assert_int_equal(b.edp, 32);
    assert_int_equal(b.chunks, 4);
    ff_layout c = derived("vpp=3,pp=2", NOTHING);
    assert_int_equal(c.schedule, FF_SCHEDULE_INTERLEAVED);
    assert_int_equal(c.microbatches, 2);
    ff_layout d = derived("recompute=selective", NOTHING);
    assert_int_equal(d.recompute_modules, FF_MODULE_CORE);
    ff_layout e = derived("recompute=full:3,cp=4,cp_kind=ulysses", NOTHING);
    assert_int_equal(e.recompute_layers, 3);
    assert_int_equal(e.ulysses, 4);
    ff_layout f = derived("pp=5,layers=20/22*3/16,recompute=full:4/3*2/0/0", NOTHING);
    assert_int_equal(f.chunks, 5);
    assert_int_equal(f.layers_of_chunk[3], 22);
    assert_int_equal(f.layers_of_chunk[4], 16);
    assert_int_equal(f.recompute_stages, 5);
    assert_int_equal(f.recompute_of_stage[2], 3);
    assert_int_equal(f.recompute_of_stage[4], 0);
}

static void test_refuses(void **state) {
    (void)state;
    const struct {
        const char *text, *code, *words;
    } cases[] = {
        {"tpp=8", "FF0202", "\"tp\""},
        {"TP=8", "FF0202", "\"tp\""},
        {"zero-group=8", "FF0202", "\"zero_group\""},
        {"qqqqq=1", "FF0202", "keys: dp, tp"},
        {"=3", "FF0202", "unknown"},
        {"tp=8,tp=8", "FF0203", "twice"},
        {"m=8,microbatches=8", "FF0203", "microbatches is given twice"},
        {"tp8", "FF0201", "tp=8"},
        {"tp=8,,pp=2", "FF0201", "empty"},
        {"tp=8,", "FF0201", "empty"},
        {"tp=", "FF0204", "missing"},
        {"tp=0", "FF0204", "positive"},
        {"tp=-4", "FF0204", "negative"},
        {"tp=1.5", "FF0204", "whole"},
        {"tp=1k", "FF0204", "whole"},
        {"tp=0x8", "FF0204", "whole"},
        {"tp=8=8", "FF0204", "whole"},
        {"tp=1048577", "FF0204", "range"},
        {"tp=99999999999999999999999999", "FF0204", "range"},
        {"mbs=2147483648", "FF0204", "range"},
        {"sp=2", "FF0204", "0, 1"},
        {"zero=4", "FF0204", "0, 1, 2, 3"},
        {"schedule=interleave", "FF0204", "did you mean \"interleaved\""},
        {"recipe=bf16-megatrn", "FF0204", "bf16-megatron"},
        {"cp_kind=hybrid", "FF0204", "hybrid:4"},
        {"cp_kind=hybrid:0", "FF0204", "positive"},
        {"recompute=full:0", "FF0204", "positive"},
        {"recompute=none:1", "FF0204", "nothing behind"},
        {"recompute=selective:core+core", "FF0204", "twice"},
        {"recompute=selective:", "FF0204", "modules"},
        {"order=tp-cp-dp", "FF0204", "once each"},
        {"order=tp-cp-dp-dp", "FF0204", "once each"},
        {"order=tp-cp-dp-pp-tp", "FF0204", "once each"},
        {"order=tp-cp-dp-pp/etp", "FF0204", "etp, ep, edp"},
        {"layers=4/x/4", "FF0204", "one a chunk"},
        {"layers=40000", "FF0204", "one a chunk"},
        {"layers=4*x", "FF0204", "one a chunk"},
        {"layers=4*0", "FF0204", "one a chunk"},
        {"layers=4*1025", "FF0204", "1024 chunks"},
        {"recompute=full:3/x", "FF0204", "one a stage"},
        {"recompute=full:3*99999", "FF0204", "one a stage"},
        {"grid=both", "FF0204", "folded"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].text, NOTHING, cases[i].code, cases[i].words);
}

static void test_refuses_contradictions(void **state) {
    (void)state;
    const struct {
        const char *text;
        ff_layout_context context;
        const char *code, *words;
    } cases[] = {
        {"tp=6", {.world = 128}, "FF0205", "nearest legal: tp=4, tp=8"},
        {"tp=6", {.world = 128}, "FF0205", "128 / 6 leaves 2"},
        {"tp=6,pp=2", {.world = 128}, "FF0205", "tp=4, tp=8"},
        {"tp=8,dp=3", {.world = 128}, "FF0205", "makes 24 ranks; the world has 128"},
        {"tp=8,dp=3", {.world = 128}, "FF0205", "dp=16"},
        {"dp=2,tp=8,cp=2,pp=4,ep=4", {.world = 1024}, "FF0205", "128 ranks, and 512 with ep 4"},
        {"dp=2,tp=8,ep=8,grid=folded", {.world = 128}, "FF0205", "16 ranks"},
        {"dp=2,tp=8,ep=2,grid=product", {.world = 16}, "FF0205", "16 ranks, and 32"},
        {"tp=4,ep=16", {.world = 8}, "FF0205", "nearest legal: ep=8"},
        {"tp=4,ep=16,pp=2", {.world = 16}, "FF0205", "= 32"},
        {"tp=2,etp=3,dp=2", {.world = 4}, "FF0205", "nearest legal: etp=2, etp=4"},
        {"tp=1048576,pp=1048576,cp=1048576,dp=1048576", {0}, "FF0205", "overflow"},
        {"tp=1024,pp=1024,dp=2", {0}, "FF0205", "2097152 ranks"},
        {"", {.world = 2000000}, "FF0205", "at most 1048576"},
        {"zero_group=6,dp=16", {0}, "FF0206", "zero_group=4, zero_group=8"},
        {"cp=8,cp_kind=hybrid:3", {0}, "FF0206", "hybrid=2, hybrid=4"},
        {"schedule=interleaved,pp=4", {0}, "FF0206", "vpp=2"},
        {"schedule=1f1b,pp=4,vpp=2", {0}, "FF0206", "schedule=interleaved"},
        {"pp=4,layers=20/20/20", {0}, "FF0206", "3 numbers"},
        {"pp=4,recompute=full:3/2", {0}, "FF0206", "recompute=full:3"},
        {"pp=2,vpp=2,layers=41/39", {0}, "FF0206", "layers=21/20/20/19"},
        {"pp=4,layers=20/22/22/15", {.layers = 80}, "FF0206", "79"},
        {"pp=512,vpp=4", {0}, "FF0204", "2048 chunks"},
        {"order=tp-pp-dp-cp,tp=2,pp=2,ep=2,dp=2", {0}, "FF0208", "apart"},
        {"", {.gbs_sequences = INT64_C(1) << 40}, "FF0204", "1099511627776"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].text, cases[i].context, cases[i].code, cases[i].words);
}

static void test_reports_all_faults_with_places(void **state) {
    (void)state;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_layout layout;
    const char *text = "tpp=8, pp=0,zero=9,pp=2";
    assert_int_equal(ff_layout_parse(text, findings, &layout), FF_INVALID);
    assert_int_equal(ff_diagnostics_count(findings), 4);
    const ff_diagnostic *second = ff_diagnostics_at(findings, 1);
    assert_string_equal(second->where.file, "layout");
    assert_int_equal(second->where.line, 1);
    assert_int_equal(second->where.column, 11); /* the 0 of pp=0 */
    assert_int_equal(second->where.length, 1);
    assert_string_equal(second->where.line_text, text);
    assert_int_equal(ff_diagnostics_at(findings, 0)->where.length, 3);
    assert_string_equal(ff_diagnostics_at(findings, 3)->code, "FF0203");
    ff_diagnostics_free(findings);
    findings = ff_diagnostics_create();
    ff_layout_context context = {.world = 10, .layers = 80};
    assert_int_equal(ff_layout_parse("tp=4,schedule=interleaved,cp=2,cp_kind=hybrid:4,layers=79",
                                     findings, &layout),
                     FF_OK);
    assert_int_equal(ff_layout_derive(&layout, &context, findings), FF_INVALID);
    assert_int_equal(ff_diagnostics_count_of(findings, FF_ERROR), 4); /* world, U, vpp, sum */
    ff_diagnostics_free(findings);
}

static void test_hostile_text(void **state) {
    (void)state;
    ff_layout layout;
    ff_diagnostics *findings = ff_diagnostics_create();
    size_t bytes = 70000;
    char *text = malloc(bytes + 1);
    memset(text, ',', bytes);
    text[bytes] = '\0';
    assert_int_equal(ff_layout_parse(text, findings, &layout), FF_INVALID); /* too long */
    assert_int_equal(ff_diagnostics_count(findings), 1);
    text[60000] = '\0';
    assert_int_equal(ff_layout_parse(text, findings, &layout), FF_INVALID);
    assert_in_range(ff_diagnostics_count(findings), 10, 70); /* bounded */
    ff_diagnostics_free(findings);
    findings = ff_diagnostics_create();
    assert_int_equal(ff_layout_parse("tp=\033[31m\x80\xff,\x01=\x02", findings, &layout),
                     FF_INVALID);
    for (int i = 0; i < ff_diagnostics_count(findings); i++)
        for (const char *c = ff_diagnostics_at(findings, i)->message; *c != '\0'; c++)
            assert_in_range((unsigned char)*c, ' ', 126);
    ff_diagnostics_free(findings);
    free(text);
}

/* --- the two grids --- */

/* The lesson's figure: 1,024 devices as TP 8 x CP 2 x PP 4 x EP 8 x DP 2. */
static void test_product_grid(void **state) {
    (void)state;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_layout layout;
    ff_layout_context context = {.world = 1024};
    assert_int_equal(ff_layout_parse("dp=2,tp=8,cp=2,pp=4,ep=8", findings, &layout), FF_OK);
    assert_int_equal(ff_layout_derive(&layout, &context, findings), FF_OK);
    assert_true(has_code(findings, "FF0207"));
    ff_diagnostics_free(findings);
    assert_int_equal(layout.dp, 16);
    assert_int_equal(layout.etp, 8);
    assert_int_equal(layout.edp, 4); /* dp*cp as written */
    assert_int_equal(layout.grid, FF_GRID_FOLDED);
    assert_int_equal(ff_layout_world(&layout), 1024);
    assert_int_equal(layout.etp * layout.ep * layout.edp * layout.pp, 1024);
    char text[FF_LAYOUT_TEXT_BYTES];
    assert_string_equal(ff_layout_print(&layout, FF_LAYOUT_SHORT, text, sizeof text),
                        "dp=16,tp=8,pp=4,cp=2,ep=8,etp=8,zero=1,mbs=1");
    ff_layout again = derived(text, context);
    assert_true(same(layout, again));
    ff_layout folded = derived("dp=16,tp=8,cp=2,pp=4,ep=8", context);
    assert_int_equal(folded.etp, 1);
    assert_int_equal(folded.edp, 32);
    ff_layout explicit_grid = derived("tp=8,cp=2,pp=4,ep=8,grid=product", context);
    assert_true(same(layout, explicit_grid));
    ff_layout no_world = derived("dp=2,tp=8,cp=2,pp=4,ep=8", NOTHING); /* folded fits: 128 */
    assert_int_equal(ff_layout_world(&no_world), 128);
    ff_layout only_product = derived("dp=2,tp=2,ep=8", NOTHING); /* 8 experts ranks on 4: product */
    assert_int_equal(ff_layout_world(&only_product), 32);
    ff_layout smallest = derived("tp=2,ep=8,pp=2", NOTHING); /* the smallest dp with room */
    assert_int_equal(smallest.dp, 4);
    assert_int_equal(ff_layout_world(&smallest), ff_layout_min_world(&smallest));
}

/* pp inside dp: both grids must still see the same stages. */
static void test_orders(void **state) {
    (void)state;
    ff_mesh mesh;
    ff_layout a = derived("order=tp-cp-pp-dp,tp=4,cp=2,pp=2,dp=3", NOTHING);
    assert_int_equal(a.etp, 8);
    assert_int_equal(a.edp, 3);
    assert_int_equal(ff_layout_mesh(&a, NULL, &mesh), FF_OK);
    assert_int_equal(mesh.world, 48);
    assert_int_equal(mesh.stride[FF_AXIS_PP], 8);
    assert_short("order=tp-cp-pp-dp,tp=4,cp=2,pp=2,dp=3", NOTHING,
                 "dp=3,tp=4,pp=2,cp=2,zero=1,mbs=1,order=tp-cp-pp-dp");
    ff_layout b = derived("tp=4,pp=2,dp=6,ep=8", NOTHING);
    assert_int_equal(ff_layout_mesh(&b, NULL, &mesh), FF_OK);
    assert_int_equal(mesh.size[FF_AXIS_EDP], 3);
    assert_short("order=dp-tp-cp-pp", NOTHING, "zero=1,mbs=1,order=dp-tp-cp-pp");
    assert_short("order=tp-cp-dp-pp/ep-etp-edp-pp", NOTHING,
                 "zero=1,mbs=1,order=tp-cp-dp-pp/ep-etp-edp-pp");
}

/* --- what is derived --- */

static void test_split(void **state) {
    (void)state;
    ff_layout a = derived("pp=16", (ff_layout_context){.layers = 126});
    assert_int_equal(a.chunks, 16);
    assert_int_equal(a.layers_of_chunk[0], 7);
    assert_int_equal(a.layers_of_chunk[15], 7);
    for (int i = 1; i < 15; i++)
        assert_int_equal(a.layers_of_chunk[i], 8);
    for (int layers = 1; layers < 140; layers++) {
        for (int pp = 1; pp < 40; pp++) {
            char text[32];
            snprintf(text, sizeof text, "pp=%d", pp);
            ff_layout b = derived(text, (ff_layout_context){.layers = layers});
            int sum = 0, least = INT16_MAX, most = 0;
            for (int i = 0; i < pp; i++) {
                sum += b.layers_of_chunk[i];
                least = b.layers_of_chunk[i] < least ? b.layers_of_chunk[i] : least;
                most = b.layers_of_chunk[i] > most ? b.layers_of_chunk[i] : most;
            }
            assert_int_equal(sum, layers);
            assert_true(most - least <= 1);
            if (layers % pp <= pp - 2) /* neither end holds more than the least */
                assert_true(b.layers_of_chunk[0] == least && b.layers_of_chunk[pp - 1] == least);
        }
    }
}

static void test_microbatches(void **state) {
    (void)state;
    ff_layout_context context = {.world = 128, .gbs_sequences = 977};
    assert_int_equal(derived("tp=8", context).microbatches, 62); /* 16*62 = 992 >= 977 > 976 */
    assert_int_equal(derived("tp=8,mbs=2", context).microbatches, 31);
    assert_int_equal(derived("tp=8,m=5", context).microbatches, 5);
    assert_int_equal(derived("tp=8,pp=8", context).microbatches, 489);       /* dp 2 */
    assert_int_equal(derived("tp=8,pp=8,vpp=2", context).microbatches, 496); /* multiple of 8 */
}

static void test_sp_without_tp(void **state) {
    (void)state;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_layout layout;
    assert_int_equal(ff_layout_parse("sp=1", findings, &layout), FF_OK);
    assert_int_equal(ff_layout_derive(&layout, &NOTHING, findings), FF_OK);
    assert_int_equal(layout.sp, 0);
    assert_true(has_code(findings, "FF0200"));
    assert_false(ff_has_errors(findings));
    ff_diagnostics_free(findings);
}

static void test_names(void **state) {
    (void)state;
    ff_schedule_kind kind;
    ff_recipe recipe;
    assert_true(ff_schedule_find("afab", &kind) && kind == FF_SCHEDULE_GPIPE);
    assert_true(ff_schedule_find("zb-1p", &kind) && kind == FF_SCHEDULE_ZB_H1);
    assert_true(ff_schedule_find("zb-2p", &kind) && kind == FF_SCHEDULE_ZB_H2);
    assert_false(ff_schedule_find("zb", &kind));
    for (int i = 0; i < FF_SCHEDULE_COUNT; i++)
        assert_true(ff_schedule_find(ff_schedule_name((ff_schedule_kind)i), &kind) &&
                    (int)kind == i);
    for (int i = 0; i < FF_RECIPE_COUNT; i++)
        assert_true(ff_recipe_find(ff_recipe_name((ff_recipe)i), &recipe) && (int)recipe == i);
    assert_string_equal(ff_schedule_name(FF_SCHEDULE_GPIPE), "gpipe");
    int keys = 0;
    while (ff_layout_key_describe(keys) != NULL) {
        const ff_layout_key_help *help = ff_layout_key_describe(keys++);
        assert_non_null(help->name);
        assert_non_null(help->values);
        assert_non_null(help->left_out);
    }
    assert_int_equal(keys, 21);
    char text[64];
    ff_layout layout = derived("recompute=selective:norm+moe", NOTHING);
    assert_string_equal(ff_recompute_print(&layout, text, sizeof text), "selective:norm+moe");
    assert_string_equal(ff_recompute_print(&layout, text, 6), "selec");
}

/* --- printing --- */

static void test_short_form(void **state) {
    (void)state;
    ff_layout_context context = {.world = 128, .gbs_sequences = 1024, .layers = 80};
    assert_short("tp=4,pp=2,vpp=4", context, "dp=16,tp=4,pp=2,vpp=4,zero=1,mbs=1");
    assert_short("schedule=interleaved,tp=4,pp=2,vpp=4,zero=1,sp=1,etp=1,grid=folded", context,
                 "dp=16,tp=4,pp=2,vpp=4,zero=1,mbs=1");
    assert_short("tp=4,sp=0,m=64,recompute=full", context,
                 "dp=32,tp=4,sp=0,zero=1,mbs=1,microbatches=64,recompute=full");
    assert_short("zero=fsdp,zero_group=8,tp=1", context, "dp=128,zero=3,zero_group=8,mbs=1");
    assert_short("pp=2,layers=41/39,zero=3,zero3_weights=stream", context,
                 "dp=64,pp=2,zero=3,zero3_weights=stream,mbs=1,layers=41/39");
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_layout layout = derived("tp=2,pp=2,m=8", (ff_layout_context){.world = 8, .layers = 32});
    assert_string_equal(
        ff_layout_print(&layout, FF_LAYOUT_FULL, text, sizeof text),
        "dp=2,tp=2,pp=2,cp=1,ep=1,etp=1,sp=1,vpp=1,cp_kind=ring,zero=1,zero_group=2,"
        "zero3_weights=resident,mbs=1,microbatches=8,accumulate=chain,recompute=none,recipe=bf16-"
        "megatron,"
        "schedule=1f1b,order=tp-cp-dp-pp,layers=16/16,grid=folded");
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static int below(uint64_t *seed, int limit) {
    return (int)(next_random(seed) >> 33) % limit;
}

static const char *pick(uint64_t *seed, const char *const *texts, int count) {
    return texts[below(seed, count)];
}

#define PICK(seed, ...)                                                                            \
    pick((seed), (const char *const[]){__VA_ARGS__},                                               \
         (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* A layout of random keys; most are legal, the others are skipped by the caller. */
static void random_layout(uint64_t *seed, ff_text *text) {
    static const char *const keys[] = {"dp",       "tp",    "pp",         "cp",
                                       "ep",       "etp",   "sp",         "vpp",
                                       "cp_kind",  "zero",  "zero_group", "zero3_weights",
                                       "mbs",      "m",     "recompute",  "recipe",
                                       "schedule", "order", "grid"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *key = keys[i], *value;
        if (below(seed, 3) == 0)
            continue;
        if (i < 4)
            value = PICK(seed, "1", "2", "3", "4", "8");
        else if (i < 6 || i == 7 || i == 12)
            value = PICK(seed, "1", "1", "2", "4");
        else if (i == 6)
            value = PICK(seed, "0", "1");
        else if (i == 8)
            value = PICK(seed, "ring", "ring-plain", "ring-balanced", "allgather", "ulysses",
                         "hybrid:1", "hybrid:2");
        else if (i == 9)
            value = PICK(seed, "0", "1", "2", "3", "fsdp");
        else if (i == 10)
            value = PICK(seed, "0", "1", "2", "4");
        else if (i == 11)
            value = PICK(seed, "stream", "resident");
        else if (i == 13)
            value = PICK(seed, "1", "7", "24");
        else if (i == 14)
            value = PICK(seed, "none", "full", "full:2", "full:2*2", "full:1/0", "selective",
                         "selective:core+mlp", "selective:activation+norm+moe");
        else if (i == 15)
            value = PICK(seed, "bf16-classic", "fp32", "bf16-fsdp2", "bf16-fsdp", "bf16-autocast",
                         "fp8-rowwise");
        else if (i == 16)
            value = PICK(seed, "gpipe", "1f1b", "interleaved", "zb-2p", "dualpipe-v");
        else if (i == 17)
            value = PICK(seed, "tp-cp-dp-pp", "tp-cp-pp-dp", "cp-tp-dp-pp", "pp-tp-dp-cp",
                         "tp-cp-dp-pp/ep-etp-edp-pp", "tp-pp-cp-dp/etp-pp-edp-ep");
        else
            value = PICK(seed, "folded", "product", "folded");
        ff_text_printf(text, "%s%s=%s", text->length == 0 ? "" : ",", key, value);
    }
}

static bool try_derive(const char *text, ff_layout_context context, ff_layout *layout) {
    return ff_layout_parse(text, NULL, layout) == FF_OK &&
           ff_layout_derive(layout, &context, NULL) == FF_OK;
}

/* Whatever is derived prints, in both forms, as a text that derives to the same layout. */
static void test_round_trip(void **state) {
    (void)state;
    uint64_t seed = UINT64_C(0x9E3779B97F4A7C15);
    int held = 0;
    for (int i = 0; i < 40000; i++) {
        static const int worlds[] = {0, 0, 0, 16, 48, 64, 96, 128};
        ff_layout_context context = {.world = worlds[below(&seed, 8)],
                                     .gbs_sequences = below(&seed, 2) * below(&seed, 5000),
                                     .layers = below(&seed, 2) * (1 + below(&seed, 130))};
        ff_text text = {0};
        random_layout(&seed, &text);
        ff_layout layout, again;
        if (try_derive(ff_text_bytes(&text), context, &layout)) {
            held++;
            assert_int_equal(ff_layout_world(&layout),
                             layout.etp * layout.ep * layout.edp * layout.pp);
            assert_true(context.world == 0 || ff_layout_world(&layout) == context.world);
            assert_true(ff_layout_world(&layout) % ff_layout_min_world(&layout) == 0);
            ff_mesh mesh;
            assert_int_equal(ff_layout_mesh(&layout, NULL, &mesh), FF_OK);
            for (int style = 0; style < 2; style++) {
                char printed[FF_LAYOUT_TEXT_BYTES], twice[FF_LAYOUT_TEXT_BYTES];
                ff_layout_print(&layout, (ff_layout_style)style, printed, sizeof printed);
                bool good = try_derive(printed, context, &again) && same(layout, again);
                if (!good)
                    print_message("world %lld: %s\n -> %s\n", (long long)context.world,
                                  ff_text_bytes(&text), printed);
                assert_true(good);
                ff_layout_print(&again, (ff_layout_style)style, twice, sizeof twice);
                assert_string_equal(printed, twice);
            }
            again = layout;
            assert_int_equal(ff_layout_derive(&again, &context, NULL), FF_OK);
            assert_true(same(layout, again));
        }
        ff_text_free(&text);
    }
    print_message("round trips: %d layouts\n", held);
    assert_in_range(held, 3000, 40000);
}

/* A full form needs no derivation but of edp and ulysses. */
static void test_full_form_is_parsed_alone(void **state) {
    (void)state;
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_layout_context context = {.world = 64, .gbs_sequences = 100, .layers = 30}, none = {0};
    ff_layout layout = derived("tp=2,pp=2,vpp=3,cp=2,ep=4,zero=3,cp_kind=ulysses", context);
    ff_layout_print(&layout, FF_LAYOUT_FULL, text, sizeof text);
    assert_true(same(layout, derived(text, none)));
}

/* Bytes from an alphabet that comes close to layouts. */
static void test_garbage(void **state) {
    (void)state;
    static const char alphabet[] = "tpcdezrom=,,==0123489 :+-/_klayers\t\xc3";
    uint64_t seed = 42;
    for (int i = 0; i < 30000; i++) {
        char text[48];
        int length = below(&seed, (int)sizeof text);
        for (int j = 0; j < length; j++)
            text[j] = alphabet[below(&seed, (int)sizeof alphabet - 1)];
        text[length] = '\0';
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_layout layout;
        ff_status status = ff_layout_parse(text, findings, &layout);
        assert_int_equal(status == FF_OK, !ff_has_errors(findings));
        if (status == FF_OK)
            ff_layout_derive(&layout, &NOTHING, findings);
        ff_diagnostics_free(findings);
    }
}

/* Help names every word that a key without aliases takes. */
static void test_help_names_words(void **state) {
    (void)state;
    const struct {
        const char *key;
        const ff_word *words;
    } keys[] = {{"recipe", ff_recipe_words},
                {"cp_kind", ff_cp_kind_words},
                {"grid", ff_grid_words},
                {"zero3_weights", ff_zero3_words}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (const ff_word *w = keys[i].words; w->name != NULL; w++)
            if (strstr(ff_layout_key_help_of(keys[i].key)->values, w->name) == NULL)
                fail_msg("help of %s does not name %s", keys[i].key, w->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_every_key),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_refuses_contradictions),
        cmocka_unit_test(test_reports_all_faults_with_places),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_product_grid),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_microbatches),
        cmocka_unit_test(test_sp_without_tp),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_short_form),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_full_form_is_parsed_alone),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_help_names_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
