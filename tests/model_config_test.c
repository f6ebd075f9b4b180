/* Configs: what each family's fields mean, what a faulty config is told and where, and shapes. */
#include "model_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LLAMA                                                                                      \
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 4,"                   \
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, \"vocab_size\": 1000"

static ff_model *model_of(const char *text) {
    ff_model *model = calloc(1, sizeof *model);
    ff_diagnostics *findings = ff_diagnostics_create();
    if (model_of_text(text, findings, model) != FF_OK)
        fail_msg("%s: %s", text, ff_diagnostics_at(findings, 0)->message);
    ff_diagnostics_free(findings);
    return model;
}

static ff_model_count count_of(const char *text) {
    ff_model *model = model_of(text);
    ff_model_count count;
    ff_model_params(model, &count);
    free(model);
    return count;
}

static int64_t total_of(const char *text) {
    return count_of(text).total;
}

/* By hand: 2 * 1000*64 + 4 * (64*64 + 2*16*64 + 64*64 + 3*64*128 + 2*64) + 64. */
static void test_llama_by_hand(void **state) {
    (void)state;
    assert_int_equal(total_of("{\"model_type\": \"llama\", " LLAMA "}"), 267840);
    /* Biases: 64 + 2*16 + 64 a layer; a tied head saves 64000. */
    assert_int_equal(total_of("{\"model_type\": \"llama\", \"attention_bias\": true, " LLAMA "}"),
                     267840 + 4 * 160);
    assert_int_equal(
        total_of("{\"model_type\": \"llama\", \"tie_word_embeddings\": true, " LLAMA "}"),
        267840 - 64000);
    /* head_dim 16 instead of 8 doubles the attention. */
    assert_int_equal(total_of("{\"model_type\": \"llama\", \"head_dim\": 16, " LLAMA "}"),
                     267840 + 4 * (64 * 64 + 2 * 16 * 64 + 64 * 64));
}

/* What the model_type alone implies, against the same numbers as Llama. */
static void test_family_differences(void **state) {
    (void)state;
    static const struct difference {
        const char *type;
        int64_t more; /* than Llama */
    } differences[] = {
        {"mistral", 0},
        {"phi3", 0},
        {"qwen2", 4 * 96},                                   /* bias on q, k, v */
        {"gemma", -64000 + 4 * 2 * 248 * (64 * 8 + 64 * 2)}, /* tied; head_dim 256, not 8 */
        {"olmo2", 4 * (64 + 16)},                            /* norms of the q and k width */
        {"starcoder2", -64000 + 4 * (160 + 192 - 64 * 128) + 9 * 64}, /* plain, biases, LayerNorm */
        {"cohere", -64000 - 4 * 64},                                  /* tied, one norm */
        {"olmo", -9 * 64},                                            /* norms without weights */
    };
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"model_type\": \"%s\", " LLAMA "}", differences[i].type);
        if (total_of(text) != 267840 + differences[i].more)
            fail_msg("%s: %lld", differences[i].type, (long long)total_of(text));
    }
}

/* Layers doubled: what stands in layers doubles, the rest stays. */
static void test_layers_doubled(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama-3.1-8b", "mixtral-8x7b", "bloom-560m"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ff_model *model = model_of_preset(names[i]);
        ff_model_count once, twice;
        ff_model_params(model, &once);
        model->layers *= 2;
        for (int layer = 0; layer < model->layers; layer++)
            model->layer_kind[layer] = model->layer_kind[layer % (model->layers / 2)];
        ff_model_params(model, &twice);
        for (int c = FF_CLASS_ATTENTION; c <= FF_CLASS_SHARED_EXPERTS; c++)
            assert_int_equal(twice.by_class[c], 2 * once.by_class[c]);
        assert_int_equal(twice.by_class[FF_CLASS_EMBEDDING], once.by_class[FF_CLASS_EMBEDDING]);
        free(model);
    }
}

/* Kinds of the first layers, one letter a layer: attention F S C L, capital where it has experts.
 */
static void expect_layers(const char *text, const char *expected) {
    ff_model *model = model_of(text);
    for (int i = 0; expected[i] != '\0'; i++) {
        const ff_layer_kind *kind = &model->kind[model->layer_kind[i]];
        char letter = kind->attention.type == FF_ATTENTION_LINEAR ? 'l'
                      : kind->attention.chunked                   ? 'c'
                      : kind->attention.window > 0                ? 's'
                                                                  : 'f';
        letter = (char)(kind->moe.experts > 0 ? letter - 32 : letter);
        if (letter != expected[i])
            fail_msg("%s: layer %d is %c, not %c", text, i, letter, expected[i]);
    }
    free(model);
}

static void test_windows(void **state) {
    (void)state;
    expect_layers("{\"model_type\": \"mistral\", \"sliding_window\": null, " LLAMA "}", "ffff");
    expect_layers("{\"model_type\": \"mistral\", \"sliding_window\": 16, " LLAMA "}", "ssss");
    expect_layers("{\"model_type\": \"llama\", \"sliding_window\": 16, " LLAMA "}", "ffff");
    expect_layers("{\"model_type\": \"qwen2\", \"sliding_window\": 16, \"max_window_layers\": 1, "
                  "\"use_sliding_window\": false, " LLAMA "}",
                  "ffff");
    expect_layers("{\"model_type\": \"qwen2\", \"sliding_window\": 16, \"max_window_layers\": 1, "
                  "\"use_sliding_window\": true, " LLAMA "}",
                  "fsss");
    expect_layers("{\"model_type\": \"gemma2\", \"sliding_window\": 16, " LLAMA "}", "sfsf");
    expect_layers("{\"model_type\": \"gemma3_text\", \"sliding_window\": 16, "
                  "\"_sliding_window_pattern\": 3, " LLAMA "}",
                  "ssfs");
    expect_layers("{\"model_type\": \"phi3\", \"sliding_window\": 16, "
                  "\"max_position_embeddings\": 16, " LLAMA "}",
                  "ffff");
    expect_layers("{\"model_type\": \"phi3\", \"sliding_window\": 15, "
                  "\"max_position_embeddings\": 16, " LLAMA "}",
                  "ssss");
    expect_layers("{\"model_type\": \"qwen3\", \"sliding_window\": 16, \"layer_types\": "
                  "[\"full_attention\", \"sliding_attention\", \"full_attention\", "
                  "\"sliding_attention\"], " LLAMA "}",
                  "fsfs");
}

#define EXPERTS "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, "

static void test_expert_layers(void **state) {
    (void)state;
    expect_layers("{\"model_type\": \"deepseek\", \"n_routed_experts\": 4, " EXPERTS
                  "\"first_k_dense_replace\": 1, " LLAMA "}",
                  "fFFF");
    expect_layers("{\"model_type\": \"deepseek\", \"n_routed_experts\": 4, " EXPERTS
                  "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 2, " LLAMA "}",
                  "ffFf");
    expect_layers("{\"model_type\": \"deepseek\", \"n_routed_experts\": null, " LLAMA "}", "ffff");
    expect_layers("{\"model_type\": \"qwen3_moe\", \"num_experts\": 4, " EXPERTS
                  "\"decoder_sparse_step\": 2, " LLAMA "}",
                  "fFfF");
    expect_layers("{\"model_type\": \"qwen3_moe\", \"num_experts\": 4, " EXPERTS
                  "\"mlp_only_layers\": [0, 3], " LLAMA "}",
                  "fFFf");
    expect_layers("{\"model_type\": \"llama4_text\", \"num_local_experts\": 4, "
                  "\"num_experts_per_tok\": 1, \"attention_chunk_size\": 32, "
                  "\"intermediate_size_mlp\": 256, \"interleave_moe_layer_step\": 2, " LLAMA "}",
                  "cCcF");
    expect_layers("{\"model_type\": \"qwen3_5\", \"linear_num_key_heads\": 2, "
                  "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, "
                  "\"linear_value_head_dim\": 8, \"linear_conv_kernel_dim\": 4, " LLAMA "}",
                  "lllf");
}

/* Old and new spellings, nesting, and where the tie flag stands. */
static void test_spellings(void **state) {
    (void)state;
    int64_t bloom = total_of("{\"model_type\": \"bloom\", \"n_layer\": 2, \"n_head\": 4, "
                             "\"hidden_size\": 64, \"vocab_size\": 100}");
    assert_int_equal(bloom, total_of("{\"model_type\": \"bloom\", \"num_hidden_layers\": 2, "
                                     "\"num_attention_heads\": 4, \"n_embed\": 64, "
                                     "\"vocab_size\": 100}"));
    int64_t plain = total_of("{\"model_type\": \"mistral\", " LLAMA "}");
    assert_int_equal(plain, total_of("{\"model_type\": \"mistral3\", \"text_config\": "
                                     "{\"model_type\": \"mistral\", " LLAMA "}}"));
    assert_int_equal(plain - 64000,
                     total_of("{\"model_type\": \"mistral3\", \"tie_word_embeddings\": true, "
                              "\"text_config\": {\"model_type\": \"mistral\", " LLAMA "}}"));
    assert_int_equal(total_of("{\"model_type\": \"falcon\", \"hidden_size\": 64, "
                              "\"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
                              "\"num_kv_heads\": 4, \"vocab_size\": 100}"),
                     /* multi-query: one KV head, one norm before the two, one after */
                     6400 + 64 * 64 + 2 * 8 * 64 + 64 * 64 + 2 * 64 * 256 + 2 * 128);
}

static void test_unknown_type(void **state) {
    (void)state;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_model model;
    assert_int_equal(model_of_text("{\n \"model_type\": \"nova\",\n " LLAMA "}", findings, &model),
                     FF_OK);
    assert_int_equal(ff_diagnostics_count(findings), 1);
    const ff_diagnostic *d = ff_diagnostics_at(findings, 0);
    assert_string_equal(d->code, "FF0121");
    assert_int_equal(d->severity, FF_WARNING);
    assert_true(d->where.line == 2 && d->where.column == 16);
    assert_non_null(strstr(d->message, "RMSNorm"));
    assert_non_null(strstr(d->message, "untied head"));
    ff_diagnostics_free(findings);
    assert_int_equal(total_of("{\"model_type\": \"nova\", " LLAMA "}"), 267840);
    assert_int_equal(total_of("{" LLAMA "}"), 267840);
}

/* Reads a config of no known family; its first finding must be the warning with these words. */
static void expect_assumed(const char *fields, const char *words, int64_t total) {
    char text[1024];
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_model model;
    ff_model_count count;
    snprintf(text, sizeof text, "{\"model_type\": \"nova\", %s" LLAMA "}", fields);
    assert_int_equal(model_of_text(text, findings, &model), FF_OK);
    ff_model_params(&model, &count);
    const ff_diagnostic *d = ff_diagnostics_at(findings, 0);
    if (ff_diagnostics_count(findings) != 1 || strcmp(d->code, "FF0121") != 0 ||
        strstr(d->message, words) == NULL || count.total != total)
        fail_msg("%s: %lld, %s", fields, (long long)count.total, d->message);
    ff_diagnostics_free(findings);
}

/* Which activation an unknown MLP has tells whether it has a gate: a third of its weights. */
static void test_unknown_mlp(void **state) {
    (void)state;
    static const struct mlp {
        const char *fields;
        bool plain;
    } mlps[] = {
        {"", false},
        {"\"hidden_act\": \"relu\", ", true},
        {"\"hidden_act\": \"relu2\", ", true},
        {"\"hidden_act\": \"gelu\", ", true},
        {"\"activation_function\": \"gelu_new\", ", true},
        {"\"activation_function\": \"gelu_fast\", ", true},
        {"\"hidden_act\": \"quick_gelu\", ", true},
        {"\"hidden_act\": \"silu\", ", false},
        {"\"hidden_act\": \"swish\", ", false},
        {"\"hidden_act\": \"geglu\", ", false},
        {"\"hidden_act\": \"swiglu\", ", false},
        {"\"hidden_act\": \"gelu_pytorch_tanh\", ", false},
        {"\"hidden_act\": \"novel\", ", false},
    };
    for (size_t i = 0; i < sizeof mlps / sizeof *mlps; i++)
        expect_assumed(mlps[i].fields, mlps[i].plain ? "plain MLP" : "gated MLP",
                       mlps[i].plain ? 267840 - 4 * 64 * 128 : 267840);
    /* Experts are MLPs of the same kind: 4 of 2 * 64*32 and a router instead of 3 * 64*128. */
    expect_assumed("\"hidden_act\": \"relu2\", \"n_experts\": 4, \"moe_k\": 2, "
                   "\"moe_intermediate_size\": 32, ",
                   "plain MLP", 267840 + 4 * (4 * 2 * 64 * 32 + 4 * 64 - 3 * 64 * 128));
}

/* Experts under any spelling in use; what looks like experts or state spaces and is not read is
 * named, since the count leaves it out. */
static void test_unknown_experts(void **state) {
    (void)state;
    static const char *const counts[] = {"moe_num_experts", "n_experts", "num_experts"};
    static const char *const top_ks[] = {"moe_k", "moe_top_k", "num_experts_per_token"};
    char text[512];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            snprintf(text, sizeof text, "\"%s\": 4, \"%s\": 2, \"moe_intermediate_size\": 32, ",
                     counts[i], top_ks[j]);
            expect_assumed(text, "no norm on queries and keys",
                           267840 + 4 * (4 * 3 * 64 * 32 + 4 * 64 - 3 * 64 * 128));
        }
    }
    expect_assumed("\"expert_layer_period\": 2, \"mamba_d_state\": 16, \"x_expert\": null, ",
                   "not read, so not counted: \"expert_layer_period\", \"mamba_d_state\"", 267840);
    expect_assumed("\"hybrid_override_pattern\": \"M-M*\", \"ssm_cfg\": {}, ",
                   "\"hybrid_override_pattern\", \"ssm_cfg\"", 267840);
    expect_assumed("\"n_shared_experts\": 2, ", "\"n_shared_experts\"", 267840);
}

/* Types that are known to be something else; the fields alone could pass for a decoder's. */
static void test_no_decoder(void **state) {
    (void)state;
    static const char *const types[] = {"t5",     "mt5",  "bert", "roberta", "whisper", "mamba",
                                        "mamba2", "rwkv", "vit",  "clip",    "bart"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[512];
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_model model;
        snprintf(text, sizeof text, "{\n\"model_type\": \"%s\", %s" LLAMA "%s}", types[i],
                 i % 2 == 0 ? "" : "\"text_config\": {", i % 2 == 0 ? "" : "}");
        assert_int_equal(model_of_text(text, findings, &model), FF_INVALID);
        const ff_diagnostic *d = ff_diagnostics_at(findings, 0);
        if (ff_diagnostics_count(findings) != 1 || strcmp(d->code, "FF0120") != 0 ||
            strstr(d->message, types[i]) == NULL || d->where.line != 2 ||
            strstr(d->message, "decoder-only transformer") == NULL)
            fail_msg("%s: %s", text, d->message);
        ff_diagnostics_free(findings);
    }
    assert_int_equal(total_of("{\"model_type\": \"clip\", \"text_config\": {\"model_type\": "
                              "\"llama\", " LLAMA "}}"),
                     267840);
}

/* A field that is missing under its usual name may stand under another in an unknown family. */
static void test_unknown_type_lacks_field(void **state) {
    (void)state;
    static const struct lack {
        const char *text, *help;
    } lacks[] = {
        {"{\"model_type\": \"mpt\", \"d_model\": 64, \"n_heads\": 8, \"n_layers\": 4, "
         "\"vocab_size\": 1000, \"expansion_ratio\": 4}",
         "model_type \"mpt\" is not known"},
        {"{\"model_type\": \"gpt_neo\", \"hidden_size\": 64, \"num_layers\": 4, "
         "\"num_heads\": 8, \"vocab_size\": 1000, \"intermediate_size\": null}",
         "model_type \"gpt_neo\" is not known"},
        {"{\"d_model\": 64, \"n_heads\": 8, \"n_layers\": 4}", "no \"model_type\" is given"},
    };
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_model model;
        assert_int_equal(model_of_text(lacks[i].text, findings, &model), FF_INVALID);
        const ff_diagnostic *error = NULL;
        for (int k = 0; k < ff_diagnostics_count(findings); k++)
            if (ff_diagnostics_at(findings, k)->severity == FF_ERROR)
                error = ff_diagnostics_at(findings, k);
        if (ff_diagnostics_count_of(findings, FF_ERROR) != 1 ||
            strcmp(error->code, "FF0110") != 0 || error->help == NULL ||
            strstr(error->help, lacks[i].help) == NULL)
            fail_msg("%s: %s", lacks[i].text, error->message);
        ff_diagnostics_free(findings);
    }
}

#define HEAD "{\n\"model_type\": \"llama\",\n\"hidden_size\": 64,\n"

static void test_bad_configs(void **state) {
    (void)state;
    static const struct bad {
        const char *text, *code;
        int line, column;
    } bads[] = {
        {"[1]", "FF0108", 1, 1},
        {HEAD "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 8}",
         "FF0110", 1, 1},
        {HEAD "\"intermediate_size\": 8, \"num_hidden_layers\": 1,\n \"num_attention_head\": 8, "
              "\"vocab_size\": 9}",
         "FF0107", 5, 2},
        {"{\"model_type\": \"llama\",\n\"num_key_value_head\": 2, \"hidden_size\": 64, "
         "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
         "\"vocab_size\": 9}",
         "FF0107", 2, 1},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"head_dim\": 0}", "FF0109", 2, 13},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"head_dim\": -8}", "FF0109", 2, 13},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"head_dim\": 8.5}", "FF0108", 2, 13},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"head_dim\": \"8\"}", "FF0108", 2, 13},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"attention_bias\": 1}", "FF0108", 2, 19},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"n_layers\": 5}", "FF0122", 2, 13},
        {"{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 8,\n"
         "\"num_hidden_layers\": 1025, \"num_attention_heads\": 8, \"vocab_size\": 9}",
         "FF0109", 2, 22},
        {"{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 8, "
         "\"num_hidden_layers\": 1,\n\"num_attention_heads\": 8, \"num_key_value_heads\": 3, "
         "\"vocab_size\": 9}",
         "FF0122", 2, 50},
        {"{\"model_type\": \"llama\", \"hidden_size\": 65, \"intermediate_size\": 8, "
         "\"num_hidden_layers\": 1,\n\"num_attention_heads\": 8, \"vocab_size\": 9}",
         "FF0122", 2, 24},
        {"{\"model_type\": \"llama\", " LLAMA ",\n\"layer_types\": [\"full_attention\"]}", "FF0122",
         2, 16},
        {"{\"model_type\": \"gpt_oss\", \"num_local_experts\": 4, " LLAMA
         ",\n\"experts_per_token\": 5, \"sliding_window\": 9}",
         "FF0122", 2, 22},
        {"{\"model_type\": \"deepseek\", \"n_routed_experts\": 4, " EXPERTS LLAMA
         ",\n\"first_k_dense_replace\": 5}",
         "FF0122", 2, 26},
        {"{\"model_type\": \"deepseek\", \"n_routed_experts\": 4, " EXPERTS LLAMA
         ",\n\"topk_group\": 1, \"n_group\": 3}",
         "FF0122", 2, 29},
        {"{\"model_type\": \"mixtral\", " LLAMA "}", "FF0110", 1, 1},
        {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 4, \"num_experts_per_tok\": 2, " LLAMA
         "}",
         "FF0110", 1, 1},
        {"{\"model_type\": \"deepseek_v3\", " EXPERTS "\"n_routed_experts\": 4, "
         "\"kv_lora_rank\": 8, \"qk_rope_head_dim\": 8, \"qk_nope_head_dim\": 8, " LLAMA "}",
         "FF0110", 1, 1},
        {"{\"model_type\": \"deepseek_v3\", " EXPERTS "\"n_routed_experts\": 4, \"v_head_dim\": 8, "
         "\"kv_lora_rank\": 8, \"qk_rope_head_dim\": 8, " LLAMA "}",
         "FF0110", 1, 1},
        {"{\"model_type\": \"gemma3\",\n\"text_config\": {\"hidden_size\": 64, "
         "\"intermediate_size\": 8}}",
         "FF0110", 2, 16},
        {"{\"model_type\": \"deepseek\", \"num_hidden_layers\": 1024, \"vocab_size\": 9, "
         "\"hidden_size\": 1048576, \"num_attention_heads\": 8, \"n_routed_experts\": 65536, "
         "\"num_experts_per_tok\": 1, \"moe_intermediate_size\": 16777216}",
         "FF0123", 1, 1},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_model model;
        ff_status status = model_of_text(bads[i].text, findings, &model);
        assert_int_equal(status, FF_INVALID);
        const ff_diagnostic *d = ff_diagnostics_at(findings, 0);
        if (ff_diagnostics_count(findings) != 1 || strcmp(d->code, bads[i].code) != 0 ||
            d->where.line != bads[i].line || d->where.column != bads[i].column)
            fail_msg("case %zu: %d findings, %s at %d:%d: %s", i, ff_diagnostics_count(findings),
                     d->code, d->where.line, d->where.column, d->message);
        ff_diagnostics_free(findings);
    }
}

/* Every fault is reported, and earlier findings of the caller do not decide. */
static void test_findings_add_up(void **state) {
    (void)state;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_model model;
    model_of_text("{\"model_type\": \"llama\", \"hidden_size\": 0, \"vocab_size\": \"x\"}",
                  findings, &model);
    assert_int_equal(ff_diagnostics_count(findings), 4);
    assert_int_equal(model_of_text("{\"model_type\": \"llama\", " LLAMA "}", findings, &model),
                     FF_OK);
    ff_diagnostics_free(findings);
}

static void test_dropout(void **state) {
    (void)state;
    static const struct dropout {
        const char *text;
        bool dropout;
    } cases[] = {
        {"{\"model_type\": \"llama\", " LLAMA "}", false},
        {"{\"model_type\": \"llama\", \"attention_dropout\": 0.1, " LLAMA "}", true},
        {"{\"model_type\": \"gpt2\", \"n_positions\": 8, " LLAMA "}", true},
        {"{\"model_type\": \"gpt2\", \"n_positions\": 8, \"resid_pdrop\": 0, \"attn_pdrop\": "
         "0.0, " LLAMA "}",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_model *model = model_of(cases[i].text);
        assert_int_equal(model->dropout, cases[i].dropout);
        free(model);
    }
}

/* Numbers that only running the model needs, under the names that configs have for them; left out,
 * what the config classes take. */
static void test_numerics(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double epsilon, theta;
        bool altered;
    } cases[] = {
        {"{\"model_type\": \"llama\", " LLAMA "}", 1e-6, 1e4, false},
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0, " LLAMA "}",
         1e-5, 5e5, false},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_theta\": 100, \"rope_type\":"
         " \"default\"}, " LLAMA "}",
         1e-6, 100, false},
        {"{\"model_type\": \"llama\", \"rope_scaling\": null, " LLAMA "}", 1e-6, 1e4, false},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\"}, " LLAMA "}",
         1e-6, 1e4, true},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}, " LLAMA "}", 1e-6,
         1e4, true},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.25, " LLAMA "}", 1e-5, 1e4, true},
        {"{\"model_type\": \"gpt_neox\", \"layer_norm_eps\": 0.125, " LLAMA "}", 0.125, 1e4, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_model *model = model_of(cases[i].text);
        assert_true(model->norm_epsilon == cases[i].epsilon);
        assert_true(model->rope_theta == cases[i].theta);
        assert_int_equal(model->rope_altered, cases[i].altered);
        free(model);
    }
    ff_model *gpt2 =
        model_of("{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 1, \"n_head\": 1,"
                 " \"n_positions\": 8, \"vocab_size\": 8, \"layer_norm_epsilon\": 0.25}");
    assert_true(gpt2->norm_epsilon == 0.25);
    free(gpt2);
    ff_model bad;
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_int_equal(model_of_text("{\"model_type\": \"llama\", \"rms_norm_eps\": -1, " LLAMA "}",
                                   findings, &bad),
                     FF_INVALID);
    ff_diagnostics_free(findings);
}

static void test_shapes(void **state) {
    (void)state;
    ff_model model;
    ff_model_count count;
    assert_int_equal(
        ff_model_from_shape("layers=4,hidden=64,heads=8,kv=2,ffn=128,vocab=1000", NULL, &model),
        FF_OK);
    ff_model_params(&model, &count);
    assert_int_equal(count.total, 267840);
    assert_string_equal(model.family, "shape");
    assert_int_equal(model.stated_params, 0);
    assert_int_equal(
        ff_model_from_shape("params=70e9,layers=80,hidden=8192,heads=64,seq=4096", NULL, &model),
        FF_OK);
    assert_int_equal(model.stated_params, 70000000000);
    assert_int_equal(model.max_seq, 4096);
    ff_model_params(&model, &count);
    int64_t step = INT64_C(80) * 3 * 8192;
    assert_true(llabs(count.total - 70000000000) <= step / 2);
    assert_int_equal(ff_model_from_shape("layers=1,hidden=4096,heads=32", NULL, &model), FF_OK);
    assert_int_equal(model.kind[0].mlp.width, 11008); /* Llama 7B's own width */
    assert_int_equal(ff_model_from_shape("params=47B,layers=32,hidden=4096,heads=32,kv=8,experts=8,"
                                         "topk=2",
                                         NULL, &model),
                     FF_OK);
    ff_model_params(&model, &count);
    assert_true(fabs((double)count.total / 47e9 - 1) < 1e-3);
    assert_true(count.active < count.total / 3);
}

static void test_bad_shapes(void **state) {
    (void)state;
    static const struct bad {
        const char *text, *code, *help;
        int column;
    } bads[] = {
        {"layers=80,hiden=8192,heads=64,hidden=8192", "FF0124", "did you mean \"hidden\"?", 11},
        {"layers=80,hidden=8192", "FF0124", NULL, 1},
        {"layers=80,layers=81,hidden=8192,heads=64", "FF0124", NULL, 18},
        {"layers=80,hidden=8192,heads=", "FF0124", NULL, 23},
        {"layers=80,hidden=8192,heads=64,", "FF0124", NULL, 32},
        {"layers=0,hidden=8192,heads=64", "FF0124", "nearest legal: 1", 8},
        {"layers=-1,hidden=8192,heads=64", "FF0124", NULL, 8},
        {"layers=1.5,hidden=8192,heads=64", "FF0124", NULL, 8},
        {"layers=80,hidden=9999999,heads=64", "FF0124", "nearest legal: 1048576", 18},
        {"layers=80,hidden=8192,heads=60", "FF0122", NULL, 29},
        {"layers=80,hidden=8192,heads=64,kv=7", "FF0122", NULL, 35},
        {"layers=80,hidden=8192,heads=64,experts=4,topk=8", "FF0122", NULL, 47},
        {"params=1e6,layers=80,hidden=8192,heads=64", "FF0122", NULL, 8},
        {"params=99999999999999999999,layers=80,hidden=8192,heads=64", "FF0124", NULL, 8},
        {"layers=1024,hidden=1048576,heads=64,experts=65536,ffn=16777216", "FF0123", NULL, 1},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_model model;
        assert_int_equal(ff_model_from_shape(bads[i].text, findings, &model), FF_INVALID);
        const ff_diagnostic *d = ff_diagnostics_at(findings, 0);
        if (ff_diagnostics_count(findings) != 1 || strcmp(d->code, bads[i].code) != 0 ||
            d->where.column != bads[i].column ||
            (bads[i].help != NULL && strcmp(d->help, bads[i].help) != 0))
            fail_msg("%s: %d findings, %s at %d: %s", bads[i].text, ff_diagnostics_count(findings),
                     d->code, d->where.column, d->message);
        ff_diagnostics_free(findings);
    }
    assert_true(ff_model_is_shape("layers=3"));
    assert_false(ff_model_is_shape("llama-3.1-70b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_by_hand),   cmocka_unit_test(test_family_differences),
        cmocka_unit_test(test_layers_doubled),  cmocka_unit_test(test_windows),
        cmocka_unit_test(test_expert_layers),   cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_unknown_type),    cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_findings_add_up), cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_unknown_mlp),     cmocka_unit_test(test_unknown_experts),
        cmocka_unit_test(test_no_decoder),      cmocka_unit_test(test_unknown_type_lacks_field),
        cmocka_unit_test(test_numerics),        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bad_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
