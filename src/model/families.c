/* The table of model families.
 *
 * Sources: the configuration and modelling files of Hugging Face transformers for each model_type,
 * held against published parameter counts in tests/model_test.c. Defaults are those of the config
 * class, and stand here only where published config.json files leave the key out.
 *
 * To add a family: a row, a config in data/models/, its counts in data/models/params_exact.csv. */
#include "model/family.h"

#include <stddef.h>
#include <string.h>

/* Before the "new decoder", Falcon has one KV head where it is multi-query, whatever the KV key
 * says; from it on, num_kv_heads counts, and attention and MLP have a norm each unless
 * num_ln_in_parallel_attn says otherwise. */
static void adjust_falcon(ff_reading *r) {
    bool fresh = ff_reading_flag(r, (ff_flag_rule){"new_decoder_architecture", false});
    bool parallel = ff_reading_flag(r, (ff_flag_rule){"parallel_attn", true});
    int64_t norms = fresh ? 2 : 1;
    if (fresh)
        ff_reading_key(r, "num_ln_in_parallel_attn", 1, 2, &norms);
    else
        r->kv_heads = ff_reading_flag(r, (ff_flag_rule){"multi_query", true}) ? 1 : r->heads;
    r->model->kind[0].parallel_residual = fresh || parallel;
    r->model->kind[0].norms = fresh || parallel ? (int)norms : 2;
}

static void adjust_gpt_bigcode(ff_reading *r) {
    r->kv_heads = ff_reading_flag(r, (ff_flag_rule){"multi_query", true}) ? 1 : r->heads;
}

/* OPT-350m norms after each block and has no norm at the end; it embeds narrower than it is. */
static void adjust_opt(ff_reading *r) {
    r->model->final_norm = ff_reading_flag(r, (ff_flag_rule){"do_layer_norm_before", true}) &&
                           !ff_reading_flag(r, (ff_flag_rule){"_remove_final_layer_norm", false});
    ff_reading_key(r, "word_embed_proj_dim", 1, 1 << 20, &r->model->embedding_width);
}

#define LLAMA_BIASES                                                                               \
    .qkv_bias = {"attention_bias", false}, .output_bias = {"attention_bias", false},               \
    .mlp_bias = {"mlp_bias", false}
#define ALL_BIASES .qkv_bias = FF_ALWAYS, .output_bias = FF_ALWAYS, .mlp_bias = FF_ALWAYS
#define ATTENTION_BIASES                                                                           \
    .qkv_bias = {"attention_bias", false}, .output_bias = {"attention_bias", false}
#define QK_NORM_EACH_HEAD .qk_norm = FF_QK_NORM_HEAD, .qk_norm_on = FF_ALWAYS
#define QK_NORM_WHOLE_WIDTH .qk_norm = FF_QK_NORM_WIDTH, .qk_norm_on = FF_ALWAYS
#define FULL_EVERY(n) .pattern = FF_PATTERN_PERIODIC, .period = (n)
#define SILU .activation = FF_ACTIVATION_SILU
#define GELU .activation = FF_ACTIVATION_GELU
#define GPT_BODY .plain_mlp = true, GELU, .layer_norm = true
#define GPT2_KEYS                                                                                  \
    .key = {[FF_ROLE_HIDDEN] = "n_embd",                                                           \
            [FF_ROLE_LAYERS] = "n_layer",                                                          \
            [FF_ROLE_HEADS] = "n_head",                                                            \
            [FF_ROLE_FFN] = "n_inner",                                                             \
            [FF_ROLE_MAX_SEQ] = "n_positions"}
#define DEEPSEEK_KEYS .key = {[FF_ROLE_EXPERTS] = "n_routed_experts"}, .experts = true
#define QWEN_MOE_KEYS .key = {[FF_ROLE_EXPERTS] = "num_experts"}, .experts = true
#define EXPERTS_OF_FFN_WIDTH [FF_ROLE_EXPERT_FFN] = "intermediate_size"

static const ff_family families[] = {
    {.types = {"gpt2"},
     GPT2_KEYS,
     .ffn_is_four_hidden = true,
     GPT_BODY,
     .tied = true,
     .dropout = true,
     ALL_BIASES,
     .learned_positions = true},
    {.types = {"gpt_bigcode"},
     GPT2_KEYS,
     .ffn_is_four_hidden = true,
     GPT_BODY,
     .tied = true,
     .dropout = true,
     ALL_BIASES,
     .learned_positions = true,
     .adjust = adjust_gpt_bigcode},
    {.types = {"opt"},
     .key = {[FF_ROLE_FFN] = "ffn_dim"},
     .plain_mlp = true,
     .activation = FF_ACTIVATION_RELU,
     .layer_norm = true,
     .tied = true,
     .dropout = true,
     .qkv_bias = {"enable_bias", true},
     .output_bias = {"enable_bias", true},
     .mlp_bias = {"enable_bias", true},
     .learned_positions = true,
     .extra_position_rows = 2,
     .adjust = adjust_opt},
    {.types = {"bloom"},
     .key = {[FF_ROLE_LAYERS] = "n_layer",
             [FF_ROLE_HEADS] = "n_head",
             [FF_ROLE_MAX_SEQ] = "seq_length"},
     .ffn_is_four_hidden = true,
     GPT_BODY,
     .tied = true,
     ALL_BIASES,
     .embedding_norm = true},
    {.types = {"gptj"},
     GPT2_KEYS,
     .ffn_is_four_hidden = true,
     GPT_BODY,
     .norms = 1,
     .parallel_residual = FF_ALWAYS,
     .mlp_bias = FF_ALWAYS,
     .head_bias = FF_ALWAYS},
    {.types = {"gpt_neox"},
     GPT_BODY,
     .parallel_residual = {"use_parallel_residual", true},
     .qkv_bias = {"attention_bias", true},
     .output_bias = {"attention_bias", true},
     .mlp_bias = FF_ALWAYS},
    {.types = {"falcon", "RefinedWeb", "RefinedWebModel"},
     .key = {[FF_ROLE_KV_HEADS] = "num_kv_heads", [FF_ROLE_FFN] = "ffn_hidden_size"},
     .defaults = {{"max_position_embeddings", 2048}},
     .ffn_is_four_hidden = true,
     GPT_BODY,
     .tied = true,
     .qkv_bias = {"bias", false},
     .output_bias = {"bias", false},
     .mlp_bias = {"bias", false},
     .adjust = adjust_falcon},
    {.types = {"llama", "yi", "Yi"}, SILU, LLAMA_BIASES},
    {.types = {"mistral", "ministral"}, SILU, .pattern = FF_PATTERN_ALL},
    {.types = {"mixtral"},
     SILU,
     .key = {EXPERTS_OF_FFN_WIDTH},
     .experts = true,
     .pattern = FF_PATTERN_ALL},
    {.types = {"llama4", "llama4_text"},
     SILU,
     .key = {EXPERTS_OF_FFN_WIDTH},
     .experts = true,
     .shared_expert = true,
     .dense_ffn = "intermediate_size_mlp",
     ATTENTION_BIASES,
     .qk_norm = FF_QK_NORM_UNWEIGHTED,
     .qk_norm_on = {"use_qk_norm", true},
     FULL_EVERY(4),
     .pattern_type = FF_LAYER_CHUNKED,
     .period_key = "no_rope_layer_interval",
     .window_key = "attention_chunk_size"},
    {.types = {"qwen2", "qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text"},
     SILU,
     .qkv_bias = FF_ALWAYS,
     .pattern = FF_PATTERN_FROM_LAYER},
    {.types = {"qwen2_moe"},
     SILU,
     QWEN_MOE_KEYS,
     .shared_gate = true,
     .qkv_bias = {"qkv_bias", true},
     .pattern = FF_PATTERN_FROM_LAYER},
    {.types = {"qwen3", "qwen3_vl_text"},
     SILU,
     .defaults = {{"head_dim", 128}},
     ATTENTION_BIASES,
     QK_NORM_EACH_HEAD,
     .pattern = FF_PATTERN_FROM_LAYER},
    {.types = {"qwen3_moe", "qwen3_vl_moe_text"},
     SILU,
     QWEN_MOE_KEYS,
     ATTENTION_BIASES,
     QK_NORM_EACH_HEAD,
     .pattern = FF_PATTERN_FROM_LAYER},
    {.types = {"qwen3_5", "qwen3_5_text"},
     SILU,
     .defaults = {{"head_dim", 256}},
     ATTENTION_BIASES,
     QK_NORM_EACH_HEAD,
     .output_gate = {"attn_output_gate", true},
     FULL_EVERY(4),
     .pattern_type = FF_LAYER_LINEAR,
     .period_key = "full_attention_interval"},
    {.types = {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"},
     SILU,
     QWEN_MOE_KEYS,
     .defaults = {{"head_dim", 256}},
     .shared_gate = true,
     ATTENTION_BIASES,
     QK_NORM_EACH_HEAD,
     .output_gate = {"attn_output_gate", true},
     FULL_EVERY(4),
     .pattern_type = FF_LAYER_LINEAR,
     .period_key = "full_attention_interval"},
    {.types = {"deepseek"}, SILU, DEEPSEEK_KEYS, .experts_optional = true, ATTENTION_BIASES},
    {.types = {"deepseek_v2"},
     SILU,
     DEEPSEEK_KEYS,
     .experts_optional = true,
     .mla = true,
     ATTENTION_BIASES},
    {.types = {"deepseek_v3", "kimi_k2", "glm4_moe_lite"},
     SILU,
     DEEPSEEK_KEYS,
     .router_bias = true,
     .mla = true,
     ATTENTION_BIASES},
    {.types = {"glm"}, SILU, .defaults = {{"head_dim", 128}}, .qkv_bias = {"attention_bias", true}},
    {.types = {"glm4"},
     SILU,
     .defaults = {{"head_dim", 128}},
     .norms = 4,
     .qkv_bias = {"attention_bias", false}},
    {.types = {"glm4_moe"},
     SILU,
     DEEPSEEK_KEYS,
     .defaults = {{"head_dim", 128}},
     .router_bias = true,
     .qkv_bias = {"attention_bias", false},
     .qk_norm = FF_QK_NORM_HEAD,
     .qk_norm_on = {"use_qk_norm", false}},
    {.types = {"gemma"}, GELU, .defaults = {{"head_dim", 256}}, .tied = true, ATTENTION_BIASES},
    {.types = {"gemma2"},
     GELU,
     .defaults = {{"head_dim", 256}, {"sliding_window", 4096}},
     .tied = true,
     .norms = 4,
     ATTENTION_BIASES,
     FULL_EVERY(2)},
    {.types = {"gemma3", "gemma3_text"},
     GELU,
     .defaults = {{"vocab_size", 262208},
                  {"num_attention_heads", 8},
                  {"num_key_value_heads", 4},
                  {"head_dim", 256},
                  {"sliding_window", 4096},
                  {"max_position_embeddings", 131072}},
     .tied = true,
     .norms = 4,
     ATTENTION_BIASES,
     QK_NORM_EACH_HEAD,
     FULL_EVERY(6),
     .period_key = "sliding_window_pattern"},
    {.types = {"phi"},
     GPT_BODY,
     .norms = 1,
     .parallel_residual = FF_ALWAYS,
     ALL_BIASES,
     .head_bias = FF_ALWAYS,
     .qk_norm = FF_QK_NORM_HEAD,
     .qk_norm_on = {"qk_layernorm", false}},
    {.types = {"phi3", "phi4"}, SILU, .pattern = FF_PATTERN_BELOW_MAX},
    {.types = {"phimoe"},
     SILU,
     .key = {EXPERTS_OF_FFN_WIDTH},
     .experts = true,
     .layer_norm = true,
     ATTENTION_BIASES,
     .head_bias = {"lm_head_bias", false},
     .pattern = FF_PATTERN_BELOW_MAX},
    {.types = {"gpt_oss"},
     SILU,
     .key = {EXPERTS_OF_FFN_WIDTH},
     .defaults = {{"head_dim", 64}},
     .experts = true,
     .router_bias = true,
     .expert_bias = true,
     .sinks = true,
     .qkv_bias = {"attention_bias", true},
     .output_bias = {"attention_bias", true},
     FULL_EVERY(2)},
    {.types = {"grok-1", "grok1", "grok"},
     GELU,
     .key = {[FF_ROLE_EXPERTS] = "num_experts", EXPERTS_OF_FFN_WIDTH},
     .experts = true,
     .tied = true,
     .norms = 4,
     ATTENTION_BIASES},
    {.types = {"olmo"}, SILU, .norm_unweighted = true, ATTENTION_BIASES},
    {.types = {"olmo2"}, SILU, ATTENTION_BIASES, QK_NORM_WHOLE_WIDTH},
    {.types = {"olmo3"}, SILU, ATTENTION_BIASES, QK_NORM_WHOLE_WIDTH, FULL_EVERY(4)},
    {.types = {"olmoe"},
     SILU,
     .key = {[FF_ROLE_EXPERTS] = "num_experts", EXPERTS_OF_FFN_WIDTH},
     .experts = true,
     ATTENTION_BIASES,
     QK_NORM_WHOLE_WIDTH},
    {.types = {"starcoder2"},
     GPT_BODY,
     .tied = true,
     .qkv_bias = {"use_bias", true},
     .output_bias = {"use_bias", true},
     .mlp_bias = {"use_bias", true},
     .pattern = FF_PATTERN_ALL},
    {.types = {"cohere"},
     SILU,
     .tied = true,
     .norms = 1,
     .parallel_residual = FF_ALWAYS,
     ATTENTION_BIASES,
     .qk_norm = FF_QK_NORM_WIDTH,
     .qk_norm_on = {"use_qk_norm", false}},
    {.types = {"cohere2"},
     SILU,
     .tied = true,
     .norms = 1,
     .parallel_residual = FF_ALWAYS,
     ATTENTION_BIASES,
     FULL_EVERY(4),
     .period_key = "sliding_window_pattern"},
};

const ff_family ff_family_unknown = {
    SILU,
    LLAMA_BIASES,
    .experts = true,
    .experts_optional = true,
};

/* Types whose fields could pass for a decoder's, so that they would be counted and planned wrongly.
 */
static const struct other_kind {
    const char *type, *kind;
} other_kinds[] = {
    {"t5", "an encoder-decoder"},
    {"mt5", "an encoder-decoder"},
    {"umt5", "an encoder-decoder"},
    {"bart", "an encoder-decoder"},
    {"mbart", "an encoder-decoder"},
    {"whisper", "an encoder-decoder"},
    {"bert", "an encoder"},
    {"distilbert", "an encoder"},
    {"roberta", "an encoder"},
    {"xlm-roberta", "an encoder"},
    {"vit", "an image encoder"},
    {"clip", "a pair of encoders"},
    {"mamba", "a state-space model"},
    {"mamba2", "a state-space model"},
    {"falcon_mamba", "a state-space model"},
    {"rwkv", "a recurrent network"},
};

const char *ff_family_other_kind(const char *model_type) {
    for (size_t i = 0; i < sizeof other_kinds / sizeof *other_kinds; i++)
        if (strcmp(other_kinds[i].type, model_type) == 0)
            return other_kinds[i].kind;
    return NULL;
}

const ff_family *ff_family_find(const char *model_type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (const char *const *type = families[i].types; *type != NULL; type++)
            if (strcmp(*type, model_type) == 0)
                return &families[i];
    return NULL;
}
