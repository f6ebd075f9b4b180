/* The step as a program: schedule x layer recipe x data-parallel actions, for one rank of a stage.
 *
 *     for each action of the stage's schedule
 *         forward   [gather weights] embedding? layer... head?
 *         backward  head? [gather weights] recompute, layer, [reduce gradients] ... embedding?
 *     step: reductions that wait for all gradients, norm, optimizer, [gather weights]
 *
 * `ff_program_walk` visits the list in order; `ff_program_counts` is its summary, made without the
 * list; a property test holds the two together (tests/program_test.c). */
#ifndef FIVEFOLD_PROGRAM_H
#define FIVEFOLD_PROGRAM_H

#include "fivefold/layer.h"
#include "fivefold/layout.h"
#include "fivefold/model.h"
#include "fivefold/schedule.h"

typedef enum ff_sync_moment {
    FF_SYNC_BEFORE_FORWARD,  /* of a layer */
    FF_SYNC_BEFORE_BACKWARD, /* of a layer */
    FF_SYNC_AFTER_BACKWARD,  /* of a layer or a bucket */
    FF_SYNC_AFTER_OPTIMIZER,
} ff_sync_moment;

/* One data-parallel action of a ZeRO stage: a row of the table in src/program/sync.c. */
typedef struct ff_sync {
    ff_sync_moment moment;
    ff_collective collective;
    bool of_weights;      /* else gradients */
    bool each_microbatch; /* else once a step, in the first (weights) or last microbatch */
    bool by_layer;        /* else in buckets */
    bool across_replicas; /* HSDP: over the groups that do not shard together, of 1/s */
    const char *why;
} ff_sync;

enum { FF_MOST_SYNCS = 4 };
/* The rows that a layout's ZeRO stage takes; returns how many. None when nothing is replicated,
 * neither dense weights (dp*cp) nor the model's experts, if it has any (edp). */
FF_API int ff_program_syncs(const ff_model *model, const ff_layout *layout, ff_sync *syncs);
/* Ranks that share one shard group for dense weights (zero_group) / for experts. */
FF_API int64_t ff_dense_shard_ranks(const ff_layout *layout);
FF_API int64_t ff_expert_shard_ranks(const ff_layout *layout);

/* What one chunk of a stage holds. */
typedef struct ff_chunk_content {
    int first_layer, layers;
    int of_kind[FF_MODEL_MAX_KINDS];            /* layers of each kind */
    int recomputed_of_kind[FF_MODEL_MAX_KINDS]; /* of these, recomputed whole */
    bool embedding, head;                       /* MTP blocks go with the head */
} ff_chunk_content;

/* Content of chunk `chunk` (0..vpp-1) of a stage. */
FF_API void ff_program_chunk(const ff_model *model, const ff_layout *layout, int64_t stage,
                             int64_t chunk, ff_chunk_content *content);
/* Whether the last stage holds a copy of a tied embedding (pp > 1, and not in a V). */
FF_API bool ff_program_copies_embedding(const ff_layout *layout);
/* Weights of one rank of a stage; both copies of dualpipe. */
FF_API ff_shard_params ff_program_stage_params(const ff_model *model, const ff_layout *layout,
                                               int64_t stage);

typedef struct ff_program_options {
    int64_t seq;
    ff_kernels kernels;
    double imbalance;
} ff_program_options;

/* How a layer is run under a layout; `recomputed` as a whole. */
FF_API ff_layer_shape ff_program_layer_shape(const ff_layout *layout,
                                             const ff_program_options *options, bool recomputed);

/* One thing done: an operator, or a schedule action's begin (op NULL). Reductions of the
 * data-parallel actions, pipeline transfers and the optimizer are operators too. */
typedef struct ff_event {
    const ff_action *action; /* NULL in the step's end */
    const ff_operator *op;   /* valid during the visit */
    int layer;               /* -1: embedding, head, transfers, reductions of a bucket, step */
} ff_event;

typedef void ff_event_visitor(void *context, const ff_event *event);

typedef struct ff_program ff_program;
/* NULL with findings when the schedule cannot run. The layout is derived and legal. */
FF_API ff_program *ff_program_create(const ff_model *model, const ff_layout *layout,
                                     const ff_program_options *options, ff_diagnostics *findings);
FF_API void ff_program_free(ff_program *program);
FF_API void ff_program_walk(const ff_program *program, int64_t stage, ff_event_visitor *visit,
                            void *context);
/* The list of one layer of a kind / of the ends. */
FF_API const ff_layer_list *ff_program_layer(const ff_program *program, int kind, bool recomputed);
FF_API const ff_layer_list *ff_program_embedding(const ff_program *program);
FF_API const ff_layer_list *ff_program_head(const ff_program *program);
FF_API const ff_layer_list *ff_program_mtp(const ff_program *program);
FF_API const ff_schedule *ff_program_schedule(const ff_program *program);

/* Calls and bytes of one collective in one group and phase, over a step of one rank. */
typedef struct ff_count {
    ff_collective collective;
    ff_axes group;
    ff_phase phase;
    int64_t calls;
    double sent_bytes; /* by this rank */
} ff_count;
enum { FF_MOST_COUNTS = 64 };
/* The summary for a rank of a stage; returns how many entries, ordered by group, phase, kind. */
FF_API int ff_program_counts(const ff_program *program, int64_t stage, ff_count *counts);
/* Adds `times` times a count. */
FF_API int ff_count_add(const ff_count *count, int64_t times, ff_count *counts, int entries);
/* Adds `times` runs of an operator to a set of counts; returns the new number of entries. Operators
 * that are no collective are left out. */
FF_API int ff_count_operator(const ff_operator *op, int64_t times, ff_count *counts, int entries);

/* Reductions and gathers are cut into this many equal slices of a chunk's `params`, each at least
 * 40 M elements or 1 M a rank of the group (Megatron-LM's bucket size). */
FF_API int64_t ff_bucket_count(int64_t params, int64_t ranks);

/* The reductions at the step's end, before the optimizer, as operators: gradients of replicated
 * weights over TP (SP), the embedding and its copy over first and last stage, the gradient norm. */
enum { FF_MOST_STEP_OPERATORS = 4 };
FF_API int ff_program_step_operators(const ff_model *model, const ff_layout *layout, int64_t stage,
                                     int64_t replicated_params, ff_operator *ops);
/* One data-parallel action on `params` elements a rank gathers or reduces; `expert` over edp.
 * False when its group has one rank or there is nothing to send. */
FF_API bool ff_program_sync_operator(const ff_layout *layout, const ff_sync *sync, int64_t params,
                                     bool expert, ff_operator *op);
/* A pipeline transfer of one microbatch's boundary activations or their gradient. */
FF_API ff_operator ff_program_transfer(const ff_model *model, const ff_layout *layout, int64_t seq,
                                       bool of_gradient);

#endif
