/* The ledger: bytes on one rank of a pipeline stage, by category, from the program.
 *
 *   weights, gradients, optimizer   state of the stage's weights, each part divided by its shards
 *   activations                     kept from forward to backward, times what is in flight, and the
 *                                   working set of the layer that runs (rebuilt tensors included)
 *   buffers                         gathered layers and gradients (ZeRO-3), buckets, pipeline
 *                                   transfers, logits and loss
 *   runtime                         context, communicators, workspaces, fragmentation
 *
 * Formulas: docs/model.md D. A closed form; counts come from program/ and schedule/. */
#ifndef FIVEFOLD_MEMORY_H
#define FIVEFOLD_MEMORY_H

#include "fivefold/layer.h"
#include "fivefold/layout.h"
#include "fivefold/model.h"
#include "fivefold/program.h"

typedef struct ff_block_memory {
    int64_t kept_bytes;    /* from forward to backward, a microbatch */
    int64_t working_bytes; /* while it runs backward */
    int64_t waiting_bytes; /* from B to W, where backward is split */
} ff_block_memory;

/* Summaries that are made once for all layouts that share tp, cp, ep, mbs, recompute and recipe. */
typedef struct ff_memory_blocks {
    ff_block_memory layer[FF_MODEL_MAX_KINDS][2]; /* [kind][recomputed] */
    ff_block_memory embedding, head, mtp;
    ff_shard_params layer_params[FF_MODEL_MAX_KINDS];
    ff_shard_params first_params, last_params, last_params_with_copy, mtp_params;
} ff_memory_blocks;

FF_API ff_block_memory ff_block_memory_of(const ff_layer_list *list);
/* Everything in one go, for a single layout. */
FF_API void ff_memory_blocks_build(const ff_model *model, const ff_layout *layout,
                                   const ff_program_options *options, ff_memory_blocks *blocks);

typedef struct ff_stage_memory {
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes, buffers_bytes, runtime_bytes;
    int64_t total_bytes;
    /* What the sums are made of. */
    ff_shard_params params;
    int64_t in_flight;     /* chunk-microbatches at the peak, F to B or (split) W */
    int64_t kept_bytes;    /* of all in flight */
    int64_t working_bytes; /* of the largest layer of the chunk that runs */
    int64_t gathered_bytes, bucket_bytes, transfer_bytes, loss_bytes;
    int64_t context_bytes, communicator_bytes, fragmentation_bytes;
} ff_stage_memory;

/* What one chunk adds, the same for all chunks of equal content: made once, summed often. */
typedef struct ff_chunk_memory {
    ff_shard_params params;
    int64_t kept_bytes;      /* of a microbatch in flight */
    int64_t waiting_bytes;   /* of a microbatch between B and W, where backward is split */
    int64_t loss_kept_bytes; /* likewise, of the head */
    int64_t loss_waiting_bytes;
    int64_t working_bytes; /* of the layer that runs; with a head, beyond what its logits took */
    int64_t loss_working_bytes; /* logits of one microbatch */
    int64_t largest_unit;       /* parameters that ZeRO-3 gathers at once */
    int64_t tied_unit;          /* the embedding's, where both its uses are on this stage */
} ff_chunk_memory;
FF_API void ff_ledger_chunk(const ff_model *model, const ff_layout *layout,
                            const ff_memory_blocks *blocks, const ff_chunk_content *content,
                            ff_chunk_memory *chunk);
/* The chunks of a stage (vpp of them). */
FF_API void ff_ledger_chunks(const ff_model *model, const ff_layout *layout,
                             const ff_memory_blocks *blocks, int64_t stage,
                             ff_chunk_memory *chunks);
/* When a stage whose chunks (vpp of them) are these holds most: what each holds (`held[vpp]`), and
 * which chunk runs backward; -1: none. */
FF_API int32_t ff_ledger_peak(const ff_layout *layout, const ff_chunk_memory *const *chunks,
                              int64_t stage, ff_held *held);
/* What a schedule is told of a stage's chunks: `holds[vpp]`. */
FF_API void ff_ledger_holds(int64_t vpp, const ff_chunk_memory *const *chunks,
                            ff_chunk_hold *holds);
/* What does not depend on the microbatch (but on their number where gradients add up as a tree):
 * made once for a stage's chunks and a ZeRO stage. */
typedef struct ff_ledger_fixed {
    ff_shard_params params;
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t in_step_bytes; /* of the optimizer too, but only while it runs */
    int64_t gathered_bytes, bucket_bytes;
    int64_t context_bytes, communicator_bytes;
    double fragmentation_ratio;
} ff_ledger_fixed;
FF_API void ff_ledger_fix(const ff_model *model, const ff_layout *layout,
                          const ff_runtime_memory *runtime, const ff_chunk_memory *const *chunks,
                          ff_ledger_fixed *fixed);
/* A stage's bytes, when its chunks and transfers hold so much of them. */
FF_API int64_t ff_ledger_total(const ff_ledger_fixed *fixed, int64_t held_bytes);
/* A stage from its chunks and what each holds when `running` runs backward. Returns what chunks and
 * transfers hold, whatever is fixed. */
FF_API int64_t ff_ledger_sum(int64_t vpp, const ff_ledger_fixed *fixed, int64_t transfer_bytes,
                             const ff_chunk_memory *const *chunks, const ff_held *held,
                             int32_t running, ff_stage_memory *memory);
/* Buffers of pipeline transfers: one each way, twice. */
FF_API int64_t ff_ledger_transfer_bytes(const ff_model *model, const ff_layout *layout,
                                        int64_t seq);
/* The ledger of one stage. */
FF_API void ff_ledger_stage(const ff_model *model, const ff_layout *layout, int64_t seq,
                            const ff_memory_blocks *blocks, const ff_runtime_memory *runtime,
                            int64_t stage, ff_stage_memory *memory);

typedef enum ff_verdict { FF_FITS, FF_TIGHT, FF_TOO_BIG } ff_verdict;
FF_API const char *ff_verdict_name(ff_verdict verdict);
/* `margin_bytes` of 0 is 5% of the device or 3 GiB, the larger. */
FF_API int64_t ff_ledger_margin(int64_t capacity_bytes, int64_t margin_bytes);
FF_API ff_verdict ff_ledger_verdict(int64_t peak_bytes, int64_t capacity_bytes,
                                    int64_t margin_bytes);

/* Communicators of more than one rank that a layout makes on a rank; those of the expert grid only
 * for a model with experts. */
FF_API int ff_ledger_communicators(const ff_model *model, const ff_layout *layout);

/* The largest tensors alive at a stage's peak, largest first; all of them add up to its total. */
typedef struct ff_live_tensor {
    const char *name;
    int64_t bytes;
} ff_live_tensor;
FF_API int ff_ledger_tensors(const ff_model *model, const ff_layout *layout,
                             const ff_program_options *options, const ff_stage_memory *memory,
                             int64_t stage, int most, ff_live_tensor *tensors);

#endif
