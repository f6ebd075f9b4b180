/* What is trained: a transformer as a list of layer kinds, and every weight tensor in it.
 *
 *     tokens -> embedding (+ positions) -> layer 0 .. layer L-1 -> final norm -> head -> loss
 *                                            each of one of `kinds` kinds
 *
 * Layers may differ (sliding or full attention, linear attention, dense or expert MLP), so a model
 * is a list of kinds and, for each layer, which kind it is; never one kind times L.
 *
 * Vocabulary padding belongs to the layout (128*tp in Megatron), not to the model. */
#ifndef FIVEFOLD_MODEL_H
#define FIVEFOLD_MODEL_H

#include "fivefold/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { FF_MODEL_MAX_LAYERS = 1024, FF_MODEL_MAX_KINDS = 16 };

typedef enum ff_attention_type {
    FF_ATTENTION_SOFTMAX, /* multi-head, grouped-query, multi-query */
    FF_ATTENTION_MLA,     /* low-rank Q and KV (DeepSeek V2/V3) */
    FF_ATTENTION_LINEAR,  /* gated delta rule with a short convolution (Qwen3.5) */
} ff_attention_type;

typedef enum ff_qk_norm {
    FF_QK_NORM_NONE,
    FF_QK_NORM_HEAD,      /* one weight a head dimension, shared by the heads (Qwen3, Gemma 3) */
    FF_QK_NORM_WIDTH,     /* one weight a projected channel (OLMo-2) */
    FF_QK_NORM_UNWEIGHTED /* normalises, has no weight (Llama 4) */
} ff_qk_norm;

typedef struct ff_attention {
    ff_attention_type type;
    int64_t heads, kv_heads;
    int64_t qk_head_dim, v_head_dim; /* equal but for MLA (there 128 + rope_head_dim and 128) */
    int64_t window;                  /* tokens seen at most; 0 = all before */
    bool chunked;                    /* the window is a fixed chunk, not a sliding one (Llama 4) */
    bool qkv_bias, output_bias;
    bool sinks;       /* one learned logit a head (gpt-oss) */
    bool output_gate; /* Q projection doubled by a gate on the output (Qwen3.5) */
    ff_qk_norm qk_norm;
    int64_t q_lora_rank, kv_lora_rank, rope_head_dim;   /* MLA; q_lora_rank 0 = full-rank Q */
    int64_t key_heads, value_heads, key_dim, value_dim; /* linear attention */
    int64_t conv_kernel;
} ff_attention;

typedef struct ff_mlp {
    int64_t width; /* 0 = the layer has experts instead */
    bool gated;    /* three matrices (up, gate, down) instead of two */
    bool bias;
} ff_mlp;

typedef struct ff_moe {
    int64_t experts; /* 0 = a dense layer */
    int64_t experts_per_token;
    int64_t expert_width;
    int64_t shared_width; /* summed width of the shared experts; 0 = none */
    bool gated, bias;
    bool shared_gate; /* a sigmoid gate of h weights on the shared expert (Qwen2-MoE, 3.5) */
    bool router_bias; /* one element an expert beside the router matrix */
    int64_t router_groups, router_group_limit; /* node-limited routing; 0 = none */
} ff_moe;

typedef struct ff_layer_kind {
    char name[48]; /* "dense", "moe", "moe-sliding", ... */
    ff_attention attention;
    ff_mlp mlp;
    ff_moe moe;
    int norms;              /* hidden-wide norms in the layer: 2, or 4 (Gemma 2, Grok), or 1 */
    bool parallel_residual; /* attention and MLP read the same input (Falcon, GPT-NeoX) */
} ff_layer_kind;

typedef enum ff_activation {
    FF_ACTIVATION_GELU,
    FF_ACTIVATION_RELU,
    FF_ACTIVATION_SILU
} ff_activation;

typedef struct ff_model {
    char name[FF_NAME_BYTES];
    char family[48]; /* model_type as read; "shape" for a bare shape */
    int64_t hidden;
    int64_t vocab;
    int64_t position_rows;   /* learned position table; 0 = none */
    int64_t embedding_width; /* differs from hidden where the embedding is projected (OPT-350m) */
    int64_t max_seq;         /* 0 = the config does not say */
    int layers;
    int kinds;
    ff_layer_kind kind[FF_MODEL_MAX_KINDS];
    uint8_t layer_kind[FF_MODEL_MAX_LAYERS]; /* index into kind[] */
    bool tied_head, head_bias;
    bool norm_bias;       /* LayerNorm (weight and bias) instead of RMSNorm */
    bool norm_unweighted; /* norms without any weight (OLMo 1) */
    bool embedding_norm;  /* BLOOM */
    bool final_norm;
    bool dropout; /* trains with dropout: masks are saved */
    ff_activation activation;
    double norm_epsilon;   /* added to a variance; 0 = not said */
    double rope_theta;     /* base of rotary positions; 0 = not said */
    bool rope_altered;     /* scaled for longer sequences, or a part of the head only */
    int mtp_layers;        /* multi-token-prediction blocks, on the last stage */
    int mtp_kind;          /* their layer kind, index into kind[] */
    int64_t stated_params; /* what a bare shape or a preset claims; 0 = nothing claimed */
} ff_model;

/* Classes of params_by_class, in its order. */
typedef enum ff_tensor_class {
    FF_CLASS_EMBEDDING,
    FF_CLASS_POSITION,
    FF_CLASS_NORMS,
    FF_CLASS_ATTENTION,
    FF_CLASS_MLP_DENSE,
    FF_CLASS_ROUTER,
    FF_CLASS_EXPERTS,
    FF_CLASS_SHARED_EXPERTS,
    FF_CLASS_HEAD,
    FF_CLASS_MTP,
    FF_CLASS_COUNT
} ff_tensor_class;
FF_API const char *ff_tensor_class_name(ff_tensor_class tensor_class);

/* Which axis divides a tensor, beside pipeline stages and ZeRO. */
typedef enum ff_shard {
    FF_SHARD_REPLICATED,   /* every TP rank holds all of it */
    FF_SHARD_TP,           /* split over tp by heads or width */
    FF_SHARD_TP_KV,        /* split over tp by KV heads; a head is replicated when tp > kv_heads */
    FF_SHARD_VOCAB,        /* rows split over tp after padding */
    FF_SHARD_EXPERT,       /* whole experts split over ep, each over etp by width */
    FF_SHARD_EXPERT_WHOLE, /* whole experts split over ep, not divided by etp (row biases) */
} ff_shard;

/* One weight tensor: `count` copies of rows x columns. A vector has one column. */
typedef struct ff_tensor {
    const char *name; /* "attention.qkv", a literal */
    ff_tensor_class tensor_class;
    ff_shard shard;
    int64_t rows, columns, count;
    bool matmul;      /* a GEMM weight that tokens meet: counts in P_matmul */
    int64_t kv_heads; /* of FF_SHARD_TP_KV: parts it can be split into */
} ff_tensor;

enum { FF_MODEL_MAX_TENSORS = 48 };

/* Tensors of one layer of a kind / of everything before the layers (embedding, positions, their
 * norm) / after them (final norm, head) / of all MTP blocks, beside their decoder layers. Writes at
 * most FF_MODEL_MAX_TENSORS entries and returns how many. A tied head has no tensor of its own. */
FF_API int ff_model_layer_tensors(const ff_model *model, int kind, ff_tensor *tensors);
FF_API int ff_model_first_tensors(const ff_model *model, ff_tensor *tensors);
FF_API int ff_model_last_tensors(const ff_model *model, ff_tensor *tensors);
FF_API int ff_model_mtp_tensors(const ff_model *model, ff_tensor *tensors);

typedef struct ff_model_count {
    int64_t total;  /* without the MTP class */
    int64_t active; /* dense tensors, router, shared experts, top-k experts; embedding and head */
    int64_t by_class[FF_CLASS_COUNT]; /* MTP holds the MTP blocks, layers included */
    int64_t matmul; /* P_matmul: GEMM weights a token meets (active experts, router, head) */
} ff_model_count;

FF_API void ff_model_params(const ff_model *model, ff_model_count *count);

/* Elements of one tensor, all copies. */
FF_API int64_t ff_tensor_elements(const ff_tensor *tensor);

typedef enum ff_flop_convention {
    FF_FLOP_FULL,   /* attention not halved: PaLM, Megatron papers, llm-foundry, nanotron */
    FF_FLOP_CAUSAL, /* exact mean context (S+1)/2 and windows: Megatron-LM now */
} ff_flop_convention;

/* Mean keys a query meets in one layer: S, or (S+1)/2 causal; with a window w min(S,w), or
 * w - w(w-1)/(2S); chunked likewise within its chunk. (docs/model.md A) */
FF_API double ff_attention_context(const ff_attention *attention, int64_t seq,
                                   ff_flop_convention convention);

/* Model FLOP a token of forward and backward: 6 * P_matmul + 12 * a * d * context a layer, with
 * a*(qk+v)/2 for a*d; linear attention by its state size. (docs/model.md A) */
FF_API double ff_model_flop_per_token(const ff_model *model, int64_t seq,
                                      ff_flop_convention convention);

/* Number of layers of a kind / that have experts. */
FF_API int ff_model_layers_of_kind(const ff_model *model, int kind);
FF_API int ff_model_moe_layers(const ff_model *model);
/* The first kind with experts, or NULL for a dense model. */
FF_API const ff_layer_kind *ff_model_moe_kind(const ff_model *model);

#endif
