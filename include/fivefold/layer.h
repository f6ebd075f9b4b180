/* The layer recipe: what one layer does in a microbatch once it is sharded.
 *
 *     forward    norm  [AG]  qkv  rope  {CP}  core  out  [RS]  +  norm  [AG]  up,gate  act  down
 * [RS]  + backward   the mirror, each GEMM twice: input gradient (B) and weight gradient (W)
 *
 * It is one list of operators (GEMMs, attention, memory-bound work, collectives) and one list of
 * named tensors that wait for backward, with what frees them. Everything that counts bytes, FLOP or
 * calls of a layer reads these two lists; there is no second copy.
 *
 * Sources: docs/model.md C and D, after Korthikanti 2022 (2205.05198), Narayanan 2021 (2104.04473),
 * Liu 2023 (2310.01889), Jacobs 2023 (2309.14509), DeepSeek-V3 (2412.19437) and Megatron-LM's
 * tensor_parallel and moe packages. */
#ifndef FIVEFOLD_LAYER_H
#define FIVEFOLD_LAYER_H

#include "fivefold/layout.h"
#include "fivefold/mesh.h"
#include "fivefold/model.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum ff_phase {
    FF_PHASE_FORWARD,
    FF_PHASE_RECOMPUTE, /* forward again, just before backward */
    FF_PHASE_BACKWARD,  /* input gradients, B */
    FF_PHASE_WEIGHT,    /* weight gradients, W */
    FF_PHASE_STEP,      /* once a step: gradients, norm, optimizer */
    FF_PHASE_COUNT
} ff_phase;

typedef enum ff_operator_kind {
    FF_OPERATOR_GEMM,
    FF_OPERATOR_ATTENTION,
    FF_OPERATOR_MEMORY, /* bound by memory traffic */
    FF_OPERATOR_COLLECTIVE,
} ff_operator_kind;

typedef enum ff_collective {
    FF_ALL_REDUCE,
    FF_ALL_GATHER,
    FF_REDUCE_SCATTER,
    FF_ALL_TO_ALL,
    FF_SEND_RECEIVE, /* one step of a ring, or a pipeline transfer */
    FF_COLLECTIVE_COUNT
} ff_collective;

/* When a collective's time is felt. */
typedef enum ff_timing {
    FF_TIMING_BLOCKS,        /* the next operator needs the result */
    FF_TIMING_IN_OPERATOR,   /* a ring step beside the attention block it feeds */
    FF_TIMING_BEHIND_GEMM,   /* beside a GEMM of the same layer's backward */
    FF_TIMING_BEHIND_LAYERS, /* beside other layers: gradients, weight prefetch */
    FF_TIMING_COUNT
} ff_timing;

typedef struct ff_operator {
    const char *name; /* "attention.qkv", "mlp.all-gather" */
    ff_operator_kind kind;
    ff_phase phase;
    unsigned module; /* FF_MODULE_* whose recomputation runs it again */
    /* GEMM: `batch` products of m x k by k x n. Attention: `batch` heads of sequences, each m queries
     * by n keys of k dimensions; m is 0 where the core is no softmax. */
    int64_t m, n, k, batch;
    double flop;         /* GEMM and attention */
    double memory_bytes; /* traffic to device memory */
    bool fused; /* a compiler makes it part of the operator before it: no start of its own */
    /* Collective: elements of the full (gathered, unreduced) tensor; of an all-to-all the elements
     * one rank holds; of a send what is sent. `calls` repeats it (ring steps). */
    ff_collective collective;
    ff_axes group;
    int64_t ranks; /* in the group; fewer than its axes span when only a part takes part */
    bool outer;    /* of such a part: every ranks-th rank, not neighbours */
    int64_t elements, calls;
    int element_bytes;
    ff_timing timing;
    int behind; /* index of the operator it runs beside, or -1 */
} ff_operator;

typedef struct ff_saved_tensor {
    const char *name;
    unsigned module;  /* FF_MODULE_* whose recomputation drops it */
    int64_t elements; /* on one rank, of one microbatch */
    int element_bytes;
    ff_phase freed_by;      /* FF_PHASE_BACKWARD or FF_PHASE_WEIGHT */
    bool kept;              /* waits for backward under the layer's recompute mode */
    const char *divided_by; /* axes that divide it, for people: "tp cp" */
} ff_saved_tensor;

/* Memory that a block needs while it runs, beside what is saved. */
typedef struct ff_working_set {
    const char *name;
    int64_t bytes;
} ff_working_set;

enum { FF_LAYER_MAX_OPERATORS = 256, FF_LAYER_MAX_TENSORS = 96, FF_LAYER_MAX_WORKING = 8 };

typedef struct ff_layer_list {
    int operators, tensors, working_sets;
    ff_operator op[FF_LAYER_MAX_OPERATORS]; /* in order of execution within each phase */
    ff_saved_tensor tensor[FF_LAYER_MAX_TENSORS];
    ff_working_set working[FF_LAYER_MAX_WORKING];
} ff_layer_list;

/* What the software stack's kernels are like, as far as memory and traffic go. */
typedef struct ff_kernels {
    bool flash_attention;    /* scores never reach memory */
    bool flash_2;            /* the kernels of 2023 on; the first ones reach half of their rate */
    bool flash_3;            /* kernels that use a Hopper's asynchronous copies, or cuDNN's */
    bool eager_accumulation; /* gradients are added to their fp32 sums by kernels of their own */
    bool mixed_accumulation; /* the same by one kernel, without a cast before it */
    bool eager_softmax;      /* without flash: scale, mask and softmax apart, in fp32 */
    bool eager_rope;         /* rotary embedding in eager code: five passes, its factors kept */
    bool fused_norm;         /* an eager norm keeps an fp32 copy: 4h more */
    bool fused_activation;   /* an eager SwiGLU keeps silu(gate) too: 2f more */
    bool keeps_gathered;     /* SP: a linear's input is kept as gathered, not gathered again */
    bool gathers_logits;     /* the loss sees all of the vocabulary on every TP rank */
    bool stops_early;        /* recomputation ends with the last tensor that backward needs */
    bool stepwise_loss;  /* a vocabulary-parallel loss in place, a kernel for every step of it */
    bool narrow_gathers; /* ZeRO-3 moves tensor by tensor, at the rate of one adapter of a domain */
    bool node_dispatch;  /* a token goes to a domain once, however many of its experts are there */
    bool keeps_logits;   /* an eager loss with its bf16 logits beside it to the end: 14 */
    bool fused_loss;     /* cross-entropy in place: 6 bytes a logit instead of 10 */
} ff_kernels;

/* What the software stack holds on a device besides tensors. */
typedef struct ff_runtime_memory {
    int64_t context_bytes;      /* driver context and loaded kernels */
    int64_t communicator_bytes; /* each communicator of more than one rank */
    int64_t workspace_bytes;    /* BLAS and attention workspaces */
    double fragmentation_ratio; /* of activations and buffers that come and go */
} ff_runtime_memory;

/* How a layer is sharded and run. All sizes at least 1. */
typedef struct ff_layer_shape {
    int64_t seq;       /* S */
    int64_t sequences; /* b */
    int64_t tp, cp, ep, etp, ulysses;
    bool sp;
    ff_cp_kind cp_kind;
    ff_recompute_mode recompute; /* of this very layer: FULL means this one is recomputed */
    unsigned modules;
    int activation_bytes, gemm_input_bytes; /* of one element */
    /* Moved beside a product, an element: of its weight, forward; of the weight's gradient; of the
     * other operand, in every phase. 0: none. */
    int weight_cast_bytes, gradient_cast_bytes, input_cast_bytes;
    double imbalance; /* tokens of the busiest expert rank over the mean */
    ff_kernels kernels;
} ff_layer_shape;

/* T = S*b/c, tokens on a rank before SP divides them. */
FF_API int64_t ff_layer_tokens(const ff_layer_shape *shape);

FF_API void ff_layer_build(const ff_model *model, int kind, const ff_layer_shape *shape,
                           ff_layer_list *list);
/* Token and position embedding, on the first stage. */
FF_API void ff_embedding_build(const ff_model *model, const ff_layer_shape *shape,
                               ff_layer_list *list);
/* Final norm, head and loss, on the last stage. */
FF_API void ff_head_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list);
/* What a multi-token-prediction block does beside its decoder layer and its pass through the head:
 * the lookup, two norms and the projection of [hidden, embedding] from 2h to h. */
FF_API void ff_mtp_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list);

/* Bytes of the kept tensors that wait for B / for W (kept from F on). */
FF_API int64_t ff_layer_kept_bytes(const ff_layer_list *list);
/* Bytes that wait between a split backward's two halves, B and W: the GEMM inputs that W needs
 * (rebuilt ones too) and the output gradients that B made. */
FF_API int64_t ff_layer_waiting_bytes(const ff_layer_list *list);
/* All saved tensors whether kept or dropped: what recomputation of the layer rebuilds. */
FF_API int64_t ff_layer_full_bytes(const ff_layer_list *list);
/* The largest working set; under recomputation, the rebuilt tensors are added. */
FF_API int64_t ff_layer_working_bytes(const ff_layer_list *list);
FF_API int64_t ff_saved_tensor_bytes(const ff_saved_tensor *tensor);
FF_API double ff_layer_flop(const ff_layer_list *list, ff_phase phase);

/* Bytes that one rank sends in one call: (n-1)/n of an all-gather or reduce-scatter, twice that of
 * an all-reduce, (n-1)/n of an all-to-all, all of a send. Exact when n divides the elements. */
FF_API double ff_collective_sent_bytes(ff_collective collective, int64_t elements,
                                       int element_bytes, int64_t ranks);

FF_API const char *ff_phase_name(ff_phase phase);
FF_API const char *ff_collective_name(ff_collective collective);
FF_API const char *ff_timing_name(ff_timing timing);

/* Elements of a weight tensor on one rank, vocabulary padded to 128*tp (docs/model.md A). */
FF_API int64_t ff_tensor_shard_elements(const ff_tensor *tensor, int64_t tp, int64_t ep,
                                        int64_t etp);
FF_API int64_t ff_padded_vocab(int64_t vocab, int64_t tp);

/* Weights of one rank, apart by what ZeRO shards them over. */
typedef struct ff_shard_params {
    int64_t dense;      /* over dp*cp */
    int64_t expert;     /* over edp */
    int64_t replicated; /* the part of dense that tp replicates: SP reduces its gradients over tp */
} ff_shard_params;

FF_API ff_shard_params ff_layer_shard_params(const ff_model *model, int kind, int64_t tp,
                                             int64_t ep, int64_t etp);
/* Embedding and positions / final norm and head. `last_of_several`: the last stage of pp > 1, which
 * holds a copy of the embedding where it is needed there: as the head's weight (tied), or to look
 * up the tokens of multi-token prediction. */
FF_API ff_shard_params ff_first_shard_params(const ff_model *model, int64_t tp);
FF_API ff_shard_params ff_last_shard_params(const ff_model *model, int64_t tp,
                                            bool last_of_several);
FF_API bool ff_needs_embedding_copy(const ff_model *model);
FF_API ff_shard_params ff_mtp_shard_params(const ff_model *model, int64_t tp, int64_t ep,
                                           int64_t etp);

#endif
