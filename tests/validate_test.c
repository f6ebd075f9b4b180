/* Validation: rules and rows, FLOP conventions, ranges, weights, quantiles, regret, and a whole run
 * over a table of a few rows. Expected values are worked by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "fivefold/validate.h"
#include "input/reader.h"
#include "presets/presets.h"
#include "validate/score.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void close_to(double got, double wanted, double share) {
    if (fabs(got - wanted) > share * fabs(wanted) + 1e-12)
        fail_msg("%.9g instead of %.9g", got, wanted);
}

/* ---- statistics ---- */

static void test_statistics(void **state) {
    (void)state;
    ff_sample equal[] = {{3, 1}, {1, 1}, {2, 1}, {10, 1}};
    close_to(ff_weighted_mean(equal, 4), 4, 0);
    close_to(ff_weighted_quantile(equal, 4, 0.5), 2.5, 0);
    close_to(ff_weighted_quantile(equal, 4, 0.9), 10, 0);
    ff_sample heavy[] = {{1, 3}, {5, 1}, {9, 1}};
    close_to(ff_weighted_mean(heavy, 3), 3.4, 1e-12);
    close_to(ff_weighted_quantile(heavy, 3, 0.5), 1, 0);
    double up[] = {1, 2, 3}, down[] = {3, 2, 1}, tied[] = {1, 1, 2}, flat[] = {1, 1, 1};
    close_to(ff_rank_correlation(up, up, 3), 1, 0);
    close_to(ff_rank_correlation(up, down, 3), -1, 0);
    close_to(ff_rank_correlation(up, tied, 3), 2 / sqrt(6), 1e-12);
    close_to(ff_rank_correlation(up, flat, 3), 0, 0);
    close_to(ff_range_nearest((ff_range){2, 3}, 2.5), 2.5, 0);
    close_to(ff_range_nearest((ff_range){2, 3}, 1), 2, 0);
    close_to(ff_range_nearest((ff_range){2, 3}, 9), 3, 0);
}

/* ---- rows ---- */

static void test_patterns(void **state) {
    (void)state;
    assert_true(ff_row_matches("H100", "H100"));
    assert_false(ff_row_matches("H100 (DGX)", "H100"));
    assert_true(ff_row_matches("H100 (DGX)", "H100*"));
    assert_true(ff_row_matches("a torch b", "*torch*"));
    assert_true(ff_row_matches("a torch", "*torch"));
    assert_false(ff_row_matches("a torch b", "*torch"));
    assert_true(ff_row_matches("a=1; b=2; c", "*a=1*b=2*"));
    assert_false(ff_row_matches("b=2; a=1", "*a=1*b=2*"));
    assert_true(ff_row_matches("ababx", "*abx"));
    assert_true(ff_row_matches("", ""));
    assert_false(ff_row_matches("x", ""));
    assert_true(ff_row_matches("x", "!y"));
    assert_false(ff_row_matches("tor", "*torch*"));
}

typedef struct setting {
    const char *column, *value;
} setting;

/* A row with these columns, all others empty. */
static ff_row row_of(const setting *settings) {
    ff_row row = {0};
    for (int i = 0; i < FF_ROW_COUNT; i++)
        row.value[i] = "";
    for (; settings->column != NULL; settings++)
        row.value[ff_row_column_find(settings->column)] = settings->value;
    return row;
}

static void test_rules(void **state) {
    (void)state;
    static const char text[] = "- {fills: zero, with: \"1\", if: {stack: [a, b]}, why: first}\n"
                               "- {fills: zero, with: \"2\", why: second}\n"
                               "- {fills: mbs, with: [\"1\", \"2\"], if: {zero: \"1\"}}\n"
                               "- {fills: mbs, with: \"8\"}\n"
                               "- {fills: nothing, with: \"8\"}\n";
    ff_arena *arena = ff_arena_create();
    const ff_field *rules;
    assert_int_equal(ff_fields_read(arena, "r", text, strlen(text), NULL, &rules), FF_OK);
    ff_row row = row_of((setting[]){{"stack", "b"}, {NULL, NULL}});
    ff_row_assume(rules, &row);
    assert_string_equal(row.value[FF_ROW_zero], "1");
    assert_string_equal(row.why[FF_ROW_zero], "first");
    assert_non_null(row.choices[FF_ROW_mbs]);
    assert_string_equal(row.value[FF_ROW_mbs], "");
    row = row_of((setting[]){{"stack", "c"}, {"zero", "3"}, {NULL, NULL}});
    ff_row_assume(rules, &row);
    assert_string_equal(row.value[FF_ROW_zero], "3");
    assert_null(row.why[FF_ROW_zero]);
    assert_string_equal(row.value[FF_ROW_mbs], "8");
    ff_arena_free(arena);
}

/* What the words of published tables mean: every device of the library is found under the names that
 * people print, the longer before the shorter. */
static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *column, *printed;
        ff_row_column means;
        const char *meaning;
    } words[] = {
        {"gpu", "NVIDIA H100 SXM5 80GB", FF_ROW_device, "h100-80gb-sxm"},
        {"gpu", "H100 PCIe", FF_ROW_device, "h100-80gb-pcie"},
        {"gpu", "H200", FF_ROW_device, "h200-141gb-sxm"},
        {"gpu", "H20-96GB", FF_ROW_device, "h20-96gb-sxm"},
        {"gpu", "GH200-96GB", FF_ROW_device, "gh200-96gb"},
        {"gpu", "GB200", FF_ROW_device, "gb200-186gb"},
        {"gpu", "B200 (power limited)", FF_ROW_device, "b200-180gb-sxm"},
        {"gpu", "A100-SXM-80GB (400W)", FF_ROW_device, "a100-80gb-sxm"},
        {"gpu", "A100-40GB", FF_ROW_device, "a100-40gb-sxm"},
        {"gpu", "A100-PCIE-40GB", FF_ROW_device, "a100-40gb-pcie"},
        {"gpu", "A100 80GB PCIe", FF_ROW_device, "a100-80gb-pcie"},
        {"gpu", "MI355X", FF_ROW_device, "mi355x-288gb"},
        {"gpu", "MI250X", FF_ROW_device, "mi250x-gcd-64gb"},
        {"gpu", "L40S", FF_ROW_device, "l40s-48gb"},
        {"gpu", "NVIDIA L4", FF_ROW_device, "l4-24gb"},
        {"gpu", "A10G", FF_ROW_device, "a10g-24gb"},
        {"gpu", "RTX 4090", FF_ROW_device, "rtx-4090-24gb"},
        {"gpu", "RTX A6000", FF_ROW_device, "rtx-a6000-48gb"},
        {"gpu", "A40-48GB", FF_ROW_device, "a40-48gb"},
        {"gpu", "V100-SXM2-16GB", FF_ROW_precision, "fp16"},
        {"zero", "ZeRO-3", FF_ROW_sharding, "3"},
        {"zero", "fsdp", FF_ROW_sharding, "3"},
        {"zero", "zero1", FF_ROW_sharding, "1"},
        {"zero", "DDP", FF_ROW_sharding, "0"},
        {"schedule", "AFAB", FF_ROW_pipeline, "gpipe"},
        {"schedule", "interleaved-1f1b", FF_ROW_pipeline, "interleaved"},
        {"cp_kind", "all-gather", FF_ROW_context, "allgather"},
        {"cp_kind", "ring (load-balanced P2P)", FF_ROW_context, "ring-balanced"},
        {"notes", "configs of EleutherAI/gpt-neox", FF_ROW_profile, "megatron-deepspeed"},
        {"notes", "configs of EleutherAI/gpt-neox", FF_ROW_flash_attention, "0"},
        {"recompute", "selective (core_attn)", FF_ROW_remat, "selective"},
        {"precision", "tf32", FF_ROW_recipe, "fp32"},
    };
    const ff_field *rules = ff_field_find(ff_preset_tree("validation"), "rules");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        ff_row row = row_of((setting[]){{words[i].column, words[i].printed}, {NULL, NULL}});
        ff_row_assume(rules, &row);
        if (strcmp(row.value[words[i].means], words[i].meaning) != 0)
            fail_msg("%s %s is read as %s", words[i].column, words[i].printed,
                     row.value[words[i].means]);
    }
}

/* ---- conventions: 2 layers, hidden 8, 2 heads, ffn 32 plain, vocabulary 16, 4 tokens ---- */

static void test_conventions(void **state) {
    (void)state;
    ff_row row = row_of((setting[]){{"params_b", "2"}, {NULL, NULL}});
    ff_model *model = calloc(1, sizeof *model);
    model->hidden = model->embedding_width = 8;
    model->vocab = 16;
    model->layers = 2;
    model->kinds = 1;
    model->kind[0].attention =
        (ff_attention){.heads = 2, .kv_heads = 2, .qk_head_dim = 4, .v_head_dim = 4};
    model->kind[0].mlp.width = 32;
    /* a layer: 4*8*8 + 2*8*32 = 768 weights; head 128; attention 12*2*8*4 = 768 a token */
    double layers = 6 * 2 * 768, head = 6 * 128, attention = 768;
    const struct {
        const char *name;
        double flop;
    } wanted[] = {
        {"model", layers + head + attention},
        {"causal", layers + head + attention * 2.5 / 4},
        {"with-embedding", layers + 2 * head + attention},
        {"hardware", (layers + attention) * 4 / 3 + head},
        {"nominal", 12e9},
        {"nominal-hardware", 16e9},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        row.value[FF_ROW_flop_convention] = wanted[i].name;
        close_to(ff_convention_flop(&row, model, 4), wanted[i].flop, 1e-12);
    }
    free(model);
}

/* ---- scores of made-up predictions ---- */

static ff_scored scored(const ff_row *row, double measured_s, double low_s, double high_s) {
    return (ff_scored){.row = row,
                       .p = {.measured_s = measured_s,
                             .measured_as = "measured_iter_s",
                             .step_s = {low_s, high_s},
                             .model_flops = 1 / measured_s,
                             .ran = true,
                             .fits = true}};
}

/* Two rows of one cluster err by 100 % and weigh one together; one row errs by nothing. */
static void test_weights(void **state) {
    (void)state;
    ff_arena *arena = ff_arena_create();
    ff_row series = row_of((setting[]){{"cluster", "s"}, {NULL, NULL}});
    ff_row alone = row_of((setting[]){{NULL, NULL}});
    ff_scored rows[] = {scored(&series, 1, 2, 2), scored(&series, 1, 2, 2),
                        scored(&alone, 1, 0.5, 3)};
    rows[2].p.ran = false;
    const ff_scored *all[] = {&rows[0], &rows[1], &rows[2]};
    ff_group_score score;
    ff_score_group(arena, "g", all, 3, &score);
    assert_int_equal(score.scored, 3);
    close_to(score.time.weight, 2, 1e-12);
    close_to(score.time.mean, 0.5, 1e-12);
    assert_int_equal(score.right, 2);
    assert_int_equal(score.false_fit, 1);
    rows[0].skip = FF_SKIP_SHAPE;
    ff_score_group(arena, "g", all, 3, &score);
    assert_int_equal(score.skipped[FF_SKIP_SHAPE], 1);
    close_to(score.time.mean, 0.5, 1e-12);
    ff_arena_free(arena);
}

/* The predicted best (tp 2) runs 20 % longer than the best (tp 4); a layout given twice is one. */
static void test_regret(void **state) {
    (void)state;
    ff_arena *arena = ff_arena_create();
    ff_row layouts[] = {row_of((setting[]){{"tp", "1"}, {NULL, NULL}}),
                        row_of((setting[]){{"tp", "2"}, {NULL, NULL}}),
                        row_of((setting[]){{"tp", "4"}, {NULL, NULL}})};
    ff_scored rows[] = {scored(&layouts[0], 3, 3, 3), scored(&layouts[1], 1.2, 0.9, 0.9),
                        scored(&layouts[2], 0.8, 1, 1), scored(&layouts[2], 1.2, 1, 1)};
    const ff_scored *all[] = {&rows[0], &rows[1], &rows[2], &rows[3]};
    ff_ranking ranking;
    ff_score_ranking(arena, all, 4, &ranking);
    assert_int_equal(ranking.groups, 1);
    close_to(ranking.mean_regret, 0.2, 1e-9);
    close_to(ranking.median_regret, 0.2, 1e-9);
    close_to(ranking.mean_correlation, 1.0 / 3, 1e-9);
    ff_score_ranking(arena, all, 2, &ranking);
    assert_int_equal(ranking.groups, 0);
    ff_arena_free(arena);
}

/* ---- a whole run ---- */

static void add_heading(ff_text *text) {
    for (int i = 0; i < FF_ROW_READ; i++)
        ff_text_printf(text, "%s%s", i == 0 ? "" : ",", ff_row_column_name((ff_row_column)i));
    ff_text_append(text, "\n");
}

static const setting base[] = {{"outcome", "ran"},
                               {"quality", "good"},
                               {"class", "dense"},
                               {"stack", "megatron-core"},
                               {"id", "x"},
                               {"source", "s"},
                               {"model_name", "m"},
                               {"layers", "32"},
                               {"hidden", "4096"},
                               {"ffn_hidden", "14336"},
                               {"heads", "32"},
                               {"kv_heads", "8"},
                               {"head_dim", "128"},
                               {"vocab", "128256"},
                               {"seq_len", "8192"},
                               {"attn", "gqa"},
                               {"activation", "swiglu"},
                               {"gpu", "H100-SXM-80GB"},
                               {"gpus", "8"},
                               {"gpus_per_node", "8"},
                               {"tp", "1"},
                               {"pp", "1"},
                               {"cp", "1"},
                               {"ep", "1"},
                               {"zero", "1"},
                               {"mbs", "1"},
                               {"gbs_sequences", "128"},
                               {"recompute", "full"},
                               {"precision", "bf16"},
                               {"measured_iter_s", "16"},
                               {NULL, NULL}};

/* The base row with some columns changed; `changes` ends with NULL. */
static void add_row(ff_text *text, const setting *changes) {
    ff_row row = row_of(base);
    for (; changes->column != NULL; changes++)
        row.value[ff_row_column_find(changes->column)] = changes->value;
    for (int i = 0; i < FF_ROW_READ; i++)
        ff_text_printf(text, "%s%s", i == 0 ? "" : ",", row.value[i]);
    ff_text_append(text, "\n");
}

static ff_facts *run(const ff_text *text, const ff_validate_options *options) {
    ff_facts *facts = ff_facts_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_validation *v = ff_validation_create(NULL);
    assert_int_equal(ff_validation_add(v, "t.csv", ff_text_bytes(text), text->length, findings),
                     FF_OK);
    ff_validation_run(v, options, findings, facts);
    ff_validation_free(v);
    ff_diagnostics_free(findings);
    return facts;
}

static const ff_validate_options plain = {.by = "id", .quality = "good", .worst = 9};

static const ff_fact *worst_row(const ff_facts *facts, const char *id) {
    const ff_fact *worst = ff_fact_find(ff_facts_root(facts), "worst");
    for (const ff_fact *row = worst->first; row != NULL; row = row->next)
        if (strcmp(ff_fact_text(row, "id"), id) == 0)
            return row;
    fail_msg("no row %s", id);
    return NULL;
}

/* Iteration time, tokens/s and model TFLOP/s of one run say the same; an empty microbatch makes a
 * range that holds the complete row's prediction. */
static void test_a_run(void **state) {
    (void)state;
    ff_text text = {0};
    add_heading(&text);
    add_row(&text, (setting[]){{"id", "iter"}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "rate"},
                               {"measured_iter_s", ""},
                               {"measured_tokens_per_s_per_gpu", "8192"},
                               {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "range"}, {"mbs", ""}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "bad"}, {"quality", "suspect"}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "shapeless"}, {"hidden", ""}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "nowhere"}, {"gpu", "abacus"}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "oom"}, {"outcome", "oom"}, {"mbs", "16"}, {NULL, NULL}});
    ff_facts *facts = run(&text, &plain);
    const ff_fact *root = ff_facts_root(facts);
    assert_int_equal(ff_fact_integer(root, "total.rows"), 6);
    assert_int_equal(ff_fact_integer(root, "total.scored"), 4);
    assert_int_equal(ff_fact_integer(root, "total.time.rows"), 3);
    assert_int_equal(ff_fact_integer(root, "total.fit.right"), 4);
    const ff_fact *iter = worst_row(facts, "iter"), *range = worst_row(facts, "range");
    close_to(ff_fact_real(worst_row(facts, "rate"), "measured_s"), 16, 1e-9);
    double step_s = ff_fact_real(iter, "predicted_low_s");
    close_to(ff_fact_real(iter, "predicted_high_s"), step_s, 0);
    assert_true(ff_fact_real(range, "predicted_low_s") <= step_s);
    assert_true(ff_fact_real(range, "predicted_high_s") >= step_s);
    double parts = ff_fact_real(iter, "time.compute_s") + ff_fact_real(iter, "time.bubble_s") +
                   ff_fact_real(iter, "time.dp_s") + ff_fact_real(iter, "time.optimizer_s");
    close_to(parts, step_s, 1e-9);
    assert_true(step_s > 8 && step_s < 32);
    ff_facts_free(facts);
    ff_text_free(&text);
}

/* Where recomputation is not stated, the lightest that about fits its memory ran; what is stated
 * stays. 8 sequences of 8192 need 8 times 35 GB without any, 8 times 2 with all. */
static void test_lightest_recomputation(void **state) {
    (void)state;
    ff_text text = {0};
    add_heading(&text);
    add_row(&text, (setting[]){{"id", "small"}, {"recompute", ""}, {"mbs", "1"}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "large"}, {"recompute", ""}, {"mbs", "8"}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "none"}, {"recompute", "none"}, {"mbs", "8"}, {NULL, NULL}});
    ff_facts *facts = run(&text, &plain);
    assert_null(strstr(ff_fact_text(worst_row(facts, "small"), "layout"), "recompute"));
    assert_non_null(strstr(ff_fact_text(worst_row(facts, "large"), "layout"), "recompute=full"));
    assert_null(strstr(ff_fact_text(worst_row(facts, "none"), "layout"), "recompute"));
    const ff_fact *large = worst_row(facts, "large");
    close_to(ff_fact_real(large, "predicted_high_s"), ff_fact_real(large, "predicted_low_s"), 0);
    ff_facts_free(facts);
    ff_text_free(&text);
}

/* What notes say about a run: uneven ends, optimizer instances, BLAS workspaces. */
static void test_notes(void **state) {
    (void)state;
    const char *const ends =
        "decoder-first-pipeline-num-layers=2; decoder-last-pipeline-num-layers=2";
    ff_text text = {0};
    add_heading(&text);
    add_row(&text,
            (setting[]){{"id", "ends"}, {"pp", "4"}, {"vpp", "1"}, {"notes", ends}, {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "two"},
                               {"notes", "num-distributed-optimizer-instances=2; x"},
                               {NULL, NULL}});
    add_row(&text, (setting[]){{"id", "one"}, {NULL, NULL}});
    ff_facts *facts = run(&text, &plain);
    assert_non_null(strstr(ff_fact_text(worst_row(facts, "ends"), "layout"), "layers=2/14/14/2"));
    /* Twelve bytes of 8.03 G parameters over 4 ranks, not 8. */
    double two = (double)ff_fact_integer(worst_row(facts, "two"), "memory.optimizer_bytes"),
           one = (double)ff_fact_integer(worst_row(facts, "one"), "memory.optimizer_bytes");
    close_to(two / one, 2, 1e-6);
    ff_facts_free(facts);
    ff_text_free(&text);
}

/* DeepSeek-V3's 61 layers and its prediction block on 16 stages: fifteen times 4, and 1 with the block;
 * on 32 chunks of 8 stages thirty times 2, then 1, then the block alone. */
static void test_prediction_blocks_take_a_place(void **state) {
    (void)state;
    static const setting deepseek[] = {{"class", "moe"},
                                       {"hidden", "7168"},
                                       {"heads", "128"},
                                       {"layers", "61"},
                                       {"ffn_hidden", "18432"},
                                       {"kv_heads", ""},
                                       {"head_dim", ""},
                                       {"attn", "mla"},
                                       {"moe_experts", "256"},
                                       {"moe_topk", "8"},
                                       {"moe_ffn_hidden", "2048"},
                                       {"gpus", "256"},
                                       {"ep", "8"},
                                       {"vocab", "129280"},
                                       {"gbs_sequences", "2048"},
                                       {NULL, NULL}};
    setting wide[24], deep[24];
    int count = 0;
    for (; deepseek[count].column != NULL; count++)
        wide[count] = deep[count] = deepseek[count];
    const setting ends[2][4] = {{{"id", "wide"}, {"pp", "16"}, {"vpp", "1"}, {NULL, NULL}},
                                {{"id", "deep"}, {"pp", "8"}, {"vpp", "4"}, {NULL, NULL}}};
    memcpy(&wide[count], ends[0], sizeof ends[0]);
    memcpy(&deep[count], ends[1], sizeof ends[1]);
    ff_text text = {0};
    add_heading(&text);
    add_row(&text, wide);
    add_row(&text, deep);
    ff_facts *facts = run(&text, &plain);
    assert_non_null(strstr(ff_fact_text(worst_row(facts, "wide"), "layout"), "layers=4*15/1"));
    assert_non_null(strstr(ff_fact_text(worst_row(facts, "deep"), "layout"), "layers=2*30/1/0"));
    ff_facts_free(facts);
    ff_text_free(&text);
}

static void expect_heading(const char *heading, const char *code) {
    ff_text text = {0};
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_validation *v = ff_validation_create(NULL);
    ff_text_printf(&text, "%s\n", heading);
    assert_int_equal(ff_validation_add(v, "t.csv", ff_text_bytes(&text), text.length, findings),
                     FF_INVALID);
    bool found = false;
    for (int i = 0; i < ff_diagnostics_count(findings); i++)
        found = found || strcmp(ff_diagnostics_at(findings, i)->code, code) == 0;
    assert_true(found);
    ff_validation_free(v);
    ff_diagnostics_free(findings);
    ff_text_free(&text);
}

static void test_headings(void **state) {
    (void)state;
    expect_heading("outcome,qualty", "FF0601");
    expect_heading("outcome", "FF0602");
    expect_heading("outcome,outcome", "FF0603");
    ff_text text = {0};
    add_heading(&text);
    ff_text_printf(&text, "%s", "");
    char *heading = strndup(ff_text_bytes(&text), text.length - 1);
    expect_heading(heading, "FF0604");
    free(heading);
    ff_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_conventions),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_regret),
        cmocka_unit_test(test_a_run),
        cmocka_unit_test(test_lightest_recomputation),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_prediction_blocks_take_a_place),
        cmocka_unit_test(test_headings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
