/* The words of model configs: the spellings of each role with the range of its values, and the
 * other keys that are read. A key that nearly is one of these is taken for a slip of the pen. */
#include "model/family.h"

#include <stddef.h>
#include <string.h>

enum { MAX_WIDTH = 1 << 24 };

const ff_role_entry ff_roles[FF_ROLE_COUNT] = {
    [FF_ROLE_HIDDEN] = {{"hidden_size", "n_embd", "n_embed", "d_model"}, 1 << 20, true},
    [FF_ROLE_LAYERS] = {{"num_hidden_layers", "n_layer", "n_layers", "num_layers"},
                        FF_MODEL_MAX_LAYERS,
                        true},
    [FF_ROLE_HEADS] = {{"num_attention_heads", "n_head", "n_heads"}, 1 << 16, true},
    [FF_ROLE_KV_HEADS] = {{"num_key_value_heads", "num_kv_heads", "n_head_kv"}, 1 << 16, true},
    [FF_ROLE_HEAD_DIM] = {{"head_dim"}, 1 << 16, true},
    [FF_ROLE_FFN] = {{"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"},
                     MAX_WIDTH,
                     true},
    [FF_ROLE_VOCAB] = {{"vocab_size"}, 1 << 26, true},
    [FF_ROLE_MAX_SEQ] = {{"max_position_embeddings", "n_positions", "n_ctx", "seq_length",
                          "max_sequence_length", "model_max_length"},
                         INT64_C(1) << 40,
                         false},
    [FF_ROLE_EXPERTS] = {{"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts",
                          "n_experts"},
                         1 << 16,
                         true},
    [FF_ROLE_EXPERTS_PER_TOKEN] = {{"num_experts_per_tok", "experts_per_token",
                                    "num_experts_per_token", "num_selected_experts", "moe_k",
                                    "moe_top_k", "moe_topk"},
                                   1 << 16,
                                   true},
    [FF_ROLE_EXPERT_FFN] = {{"moe_intermediate_size"}, MAX_WIDTH, true},
};

/* Keys beside the roles'. */
static const char *const other_keys[] = {
    "model_type",
    "text_config",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "qkv_bias",
    "use_bias",
    "enable_bias",
    "bias",
    "lm_head_bias",
    "use_qk_norm",
    "qk_layernorm",
    "layer_types",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "full_attention_interval",
    "attention_chunk_size",
    "no_rope_layers",
    "no_rope_layer_interval",
    "attn_output_gate",
    "intermediate_size_mlp",
    "first_k_dense_replace",
    "moe_layer_freq",
    "decoder_sparse_step",
    "mlp_only_layers",
    "interleave_moe_layer_step",
    "moe_layers",
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "n_group",
    "topk_group",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "word_embed_proj_dim",
    "do_layer_norm_before",
    "rms_norm_eps",
    "layer_norm_epsilon",
    "layer_norm_eps",
    "norm_epsilon",
    "norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_dim",
    "new_decoder_architecture",
    "parallel_attn",
    "multi_query",
    "num_ln_in_parallel_attn",
    "use_parallel_residual",
    "hidden_act",
    "hidden_activation",
    "activation_function",
};

const char *ff_family_known_key(int n) {
    for (int role = 0; role < FF_ROLE_COUNT; role++)
        for (const char *const *name = ff_roles[role].names; *name != NULL; name++)
            if (n-- == 0)
                return *name;
    return n < (int)(sizeof other_keys / sizeof *other_keys) ? other_keys[n] : NULL;
}

bool ff_family_knows_key(const char *name) {
    const char *key;
    for (int n = 0; (key = ff_family_known_key(n)) != NULL; n++)
        if (strcmp(key, name) == 0)
            return true;
    return false;
}
