/* Layouts that people reported, held against rules, ledger and verdict (golden/cases.json says
 * where they come from). A verdict may be more careful than what happened, never less. */
#include "plan_support.h"

#include "base/number.h"
#include "fivefold/memory.h"
#include "input/reader.h"
#include "model_support.h"
#include "rules/rules.h"
#include <math.h>

/* Reports without a sequence length say nothing on activations; states decide them. */
enum { USUAL_SEQ = 4096 };

static ff_arena *arena;
static const ff_field *cases;

static int read_cases(void **state) {
    (void)state;
    size_t length = 0;
    char *text = load_file("tests/golden/cases.json", &length);
    assert_non_null(text);
    arena = ff_arena_create();
    assert_int_equal(ff_fields_read(arena, "cases.json", text, length, NULL, &cases), FF_OK);
    free(text);
    return 0;
}

static int free_cases(void **state) {
    (void)state;
    ff_arena_free(arena);
    return 0;
}

static const ff_field *at(const ff_field *field, const char *first, const char *second) {
    const ff_field *found = ff_field_find(field, first);
    return found == NULL || second == NULL ? found : ff_field_find(found, second);
}

static int64_t whole(const ff_field *field, const char *first, const char *second,
                     int64_t otherwise) {
    const ff_field *found = at(field, first, second);
    return found == NULL ? otherwise : found->integer;
}

static const char *text_of(const ff_field *field, const char *first, const char *second) {
    const ff_field *found = at(field, first, second);
    return found == NULL ? "" : found->text;
}

static void fail_case(const ff_field *row, const char *what) {
    fail_msg("%s %s on %lld: %s (the report: %s)", text_of(row, "case", NULL),
             text_of(row, "spelled", NULL), (long long)whole(row, "world", NULL, 0), what,
             text_of(row, "expect", "reason"));
}

static bool expected_legal(const ff_field *row) {
    const ff_field *ours = at(row, "ours", "legal");
    return (ours != NULL ? ours : at(row, "expect", "legal"))->boolean;
}

static const ff_model *model_of(const ff_field *row) {
    static ff_model model;
    read_model(text_of(row, "model", NULL), &model);
    return &model;
}

/* Parses and derives; what a case does not say about the world is the layout's own. */
static bool derive(const ff_field *row, const ff_model *model, ff_diagnostics *findings,
                   ff_layout *layout) {
    assert_int_equal(ff_layout_parse(text_of(row, "spelled", NULL), findings, layout), FF_OK);
    ff_layout_context context = {.world = whole(row, "world", NULL, 0),
                                 .gbs_sequences = whole(row, "batch", "gbs", 0),
                                 .layers = model->layers};
    return ff_layout_derive(layout, &context, findings) == FF_OK;
}

static bool is_legal(const ff_field *row, ff_diagnostics *findings, ff_layout *layout) {
    const ff_model *model = model_of(row);
    if (!derive(row, model, findings, layout))
        return false;
    const ff_field *exact = at(row, "batch", "exact");
    ff_rule_case c = {.model = model,
                      .layout = layout,
                      .seq = whole(row, "batch", "seq", USUAL_SEQ),
                      .gbs_sequences = whole(row, "batch", "gbs", 0),
                      .gbs_exact = exact != NULL && exact->boolean};
    bool legal = ff_rules_check(&c, findings);
    assert_int_equal(legal, ff_rules_legal(&c));
    return legal;
}

static void legality_is_as_reported(void **state) {
    (void)state;
    int count = 0;
    const ff_field *rows = at(cases, "layouts", NULL);
    for (const ff_field *row = rows->first; row != NULL; row = row->next, count++) {
        ff_layout layout;
        ff_diagnostics *findings = ff_diagnostics_create();
        bool legal = is_legal(row, findings, &layout);
        if (legal != expected_legal(row)) {
            print_findings(findings);
            fail_case(row, legal ? "is legal" : "is refused");
        }
        if (legal && layout.ep > 1 && at(row, "expect", "edp") != NULL)
            assert_int_equal(layout.edp, whole(row, "expect", "edp", 0));
        ff_diagnostics_free(findings);
    }
    assert_true(count > 40);
}

/* Weights, gradients and optimizer of each stage within half a per cent. The reports' counts leave
 * multi-token prediction out. */
static void check_states(const ff_field *row, const ff_field *stages) {
    ff_layout layout;
    ff_model counted = *model_of(row);
    const ff_model *model = &counted;
    counted.mtp_layers = 0;
    assert_true(derive(row, model, NULL, &layout));
    assert_int_equal(layout.pp, stages->count);
    ff_memory_blocks *blocks = calloc(1, sizeof *blocks);
    ff_program_options options = {.seq = whole(row, "batch", "seq", USUAL_SEQ), .imbalance = 1};
    ff_runtime_memory runtime = {0};
    ff_memory_blocks_build(model, &layout, &options, blocks);
    int64_t stage = 0;
    for (const ff_field *s = stages->first; s != NULL; s = s->next, stage++) {
        ff_stage_memory m;
        ff_ledger_stage(model, &layout, options.seq, blocks, &runtime, stage, &m);
        double gb = (double)(m.weights_bytes + m.gradients_bytes + m.optimizer_bytes) / 1e9;
        if (fabs(gb - s->real) > 0.005 * s->real) {
            print_message("stage %d: %.3f GB instead of %.3f\n", (int)stage, gb, s->real);
            fail_case(row, "states differ");
        }
    }
    free(blocks);
}

static void states_are_as_counted(void **state) {
    (void)state;
    int count = 0;
    for (const ff_field *row = at(cases, "layouts", NULL)->first; row != NULL; row = row->next) {
        const ff_field *stages = at(row, "expect", "states_gb_per_stage");
        if (stages == NULL)
            continue;
        check_states(row, stages);
        count++;
    }
    assert_true(count >= 15);
}

static bool allows(const ff_field *verdicts, const char *verdict) {
    for (const ff_field *v = verdicts->first; v != NULL; v = v->next)
        if (strcmp(v->text, verdict) == 0)
            return true;
    return false;
}

static void check_verdict(const ff_field *row, const ff_field *verdicts) {
    char cluster[128], what[128];
    int64_t world = whole(row, "world", NULL, 0), node = whole(row, "gpus_per_node", NULL, 8);
    snprintf(cluster, sizeof cluster, "%lldx%lldx(mem=%lldGiB)", (long long)(world / node),
             (long long)node, (long long)whole(row, "gpu_mem_gib", NULL, 0));
    int64_t seq = whole(row, "batch", "seq", USUAL_SEQ);
    ff_job *job = new_job(text_of(row, "model", NULL), cluster, seq,
                          ff_mul(whole(row, "batch", "gbs", 0), seq));
    ff_facts *facts = ff_facts_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_check(job, text_of(row, "spelled", NULL), findings, facts);
    const ff_fact *root = ff_facts_root(facts);
    snprintf(what, sizeof what, "%s at %.1f of %.1f GiB", ff_fact_text(root, "verdict"),
             (double)ff_fact_integer(root, "estimate.memory.peak_bytes") / (1 << 30),
             (double)job->cluster.device.memory_bytes / (1 << 30));
    print_message("    %s %-70s %s\n", text_of(row, "case", NULL), text_of(row, "spelled", NULL),
                  what);
    if (!allows(verdicts, ff_fact_text(root, "verdict"))) {
        print_findings(findings);
        fail_case(row, what);
    }
    ff_diagnostics_free(findings);
    ff_facts_free(facts);
    free_job(job);
}

static void verdicts_are_allowed(void **state) {
    (void)state;
    int count = 0;
    for (const ff_field *row = at(cases, "layouts", NULL)->first; row != NULL; row = row->next) {
        const ff_field *verdicts = at(row, "expect", "verdicts");
        if (verdicts == NULL)
            continue;
        check_verdict(row, verdicts);
        count++;
    }
    assert_true(count >= 14);
}

/* ---- numbers ---- */

static double logits_bytes(const ff_field *in) {
    return 4.0 * (double)whole(in, "tokens", NULL, 0) * (double)whole(in, "vocab", NULL, 0) /
           (double)whole(in, "tp", NULL, 1);
}

/* The head's fp32 softmax is the largest tensor that the ledger keeps of the loss. */
static double head_bytes(const ff_field *in) {
    char shape[128];
    ff_model model;
    snprintf(shape, sizeof shape, "layers=1,hidden=64,heads=1,vocab=%lld",
             (long long)whole(in, "vocab", NULL, 0));
    read_model(shape, &model);
    ff_layer_shape s = {.seq = whole(in, "tokens", NULL, 0),
                        .sequences = 1,
                        .tp = 1,
                        .cp = 1,
                        .ep = 1,
                        .etp = 1,
                        .ulysses = 1,
                        .activation_bytes = 2,
                        .gemm_input_bytes = 2,
                        .imbalance = 1,
                        .kernels = {.flash_attention = true,
                                    .fused_norm = true,
                                    .fused_activation = true,
                                    .fused_loss = true}};
    static ff_layer_list list;
    ff_head_build(&model, &s, &list);
    double largest = 0;
    for (int i = 0; i < list.tensors; i++)
        largest = fmax(largest, (double)ff_saved_tensor_bytes(&list.tensor[i]));
    return largest;
}

static double expert_gb(const ff_field *in) {
    double params = at(in, "n_expert_params", NULL)->real;
    return 2 * params /
           (double)(whole(in, "ep", NULL, 1) * whole(in, "etp", NULL, 1) *
                    whole(in, "pp", NULL, 1)) /
           1e9;
}

/* Experts of a model with `n` parameters in them, of which a rank holds params / (ep etp pp). */
static double ledger_expert_gb(const ff_field *in) {
    int64_t ep = whole(in, "ep", NULL, 1), etp = whole(in, "etp", NULL, 1);
    int64_t pp = whole(in, "pp", NULL, 1), hidden = 6144, experts = 8, layers = 64;
    double params = at(in, "n_expert_params", NULL)->real;
    char shape[160];
    ff_model model;
    snprintf(shape, sizeof shape,
             "layers=%lld,hidden=%lld,heads=48,kv_heads=8,experts=%lld,expert_ffn=%.0f",
             (long long)layers, (long long)hidden, (long long)experts,
             2 * floor(params / (double)(layers * experts * 3 * hidden) / 2 + 0.5));
    read_model(shape, &model);
    ff_layout layout;
    char text[64];
    snprintf(text, sizeof text, "ep=%lld,etp=%lld,pp=%lld", (long long)ep, (long long)etp,
             (long long)pp);
    assert_int_equal(ff_layout_parse(text, NULL, &layout), FF_OK);
    ff_layout_context context = {.layers = model.layers};
    assert_int_equal(ff_layout_derive(&layout, &context, NULL), FF_OK);
    return 2 * (double)ff_program_stage_params(&model, &layout, 0).expert / 1e9;
}

static double min_world(const ff_field *in) {
    ff_layout layout;
    ff_layout_init(&layout);
    layout.pp = whole(in, "pp", NULL, 1);
    layout.tp = whole(in, "tp", NULL, 1);
    layout.cp = whole(in, "cp", NULL, 1);
    layout.ep = whole(in, "ep", NULL, 1);
    layout.etp = whole(in, "etp", NULL, 1);
    return (double)ff_layout_min_world(&layout);
}

/* The idle share of a step, from the ratio of idle to work. */
static double bubble(const ff_field *in) {
    ff_schedule_shape shape = {.kind = FF_SCHEDULE_1F1B,
                               .stages = (int32_t)whole(in, "pp", NULL, 1),
                               .chunks = (int32_t)whole(in, "vpp", NULL, 1),
                               .microbatches = (int32_t)whole(in, "m", NULL, 1)};
    double ratio = ff_schedule_bubble_ratio(&shape);
    return ratio / (1 + ratio);
}

static double padded_vocab(const ff_field *in) {
    assert_int_equal(whole(in, "divisor", NULL, 0), 128);
    return (double)ff_padded_vocab(whole(in, "vocab", NULL, 0), whole(in, "tp", NULL, 1));
}

static void numbers_are_as_reported(void **state) {
    (void)state;
    static const struct {
        const char *quantity;
        double (*count)(const ff_field *inputs);
        double (*of_ledger)(const ff_field *inputs); /* the same from the modules, or NULL */
        double tolerance;
    } quantities[] = {
        {"logits_fp32_bytes", logits_bytes, head_bytes, 1e-3},
        {"expert_bf16_gb_per_rank", expert_gb, ledger_expert_gb, 1e-3},
        {"min_gpus", min_world, NULL, 0},
        {"pipeline_bubble_fraction", bubble, NULL, 1e-12},
        {"padded_vocab", padded_vocab, NULL, 0},
    };
    int count = 0;
    for (const ff_field *row = at(cases, "numbers", NULL)->first; row != NULL; row = row->next) {
        const ff_field *inputs = at(row, "inputs", NULL);
        double expected = at(row, "expected", NULL)->real;
        for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++) {
            if (strcmp(quantities[i].quantity, text_of(row, "quantity", NULL)) != 0)
                continue;
            double got = quantities[i].count(inputs), room = quantities[i].tolerance * expected;
            assert_true(fabs(got - expected) <= fmax(room, 1e-12));
            if (quantities[i].of_ledger != NULL)
                assert_true(fabs(quantities[i].of_ledger(inputs) - expected) <= room);
            count++;
        }
    }
    assert_int_equal(count, at(cases, "numbers", NULL)->count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legality_is_as_reported),
        cmocka_unit_test(states_are_as_counted),
        cmocka_unit_test(verdicts_are_allowed),
        cmocka_unit_test(numbers_are_as_reported),
    };
    return cmocka_run_group_tests(tests, read_cases, free_cases);
}
