/* Time of a step, from the program's operators (docs/model.md E, F, G).
 *
 *     operators --gemm.c, collective.c--> block times --step.c--> step
 *                 once per block                     once per layout
 *
 * Everything here is a closed form; seconds are doubles. */
#ifndef FF_COST_COST_H
#define FF_COST_COST_H

#include "cost/physics.h"
#include "cost/profile.h"
#include "fivefold/layer.h"
#include "fivefold/mesh.h"
#include "fivefold/program.h"
#include "layout/recipe.h"

struct ff_list_memo; /* schedule/by_list.h */

/* GEMMs priced before, by everything that decides their time: a search meets few of them often.
 * Zeroed to begin with; belongs to one cost and one thread. */
enum { FF_GEMM_MEMO_SLOTS = 4096 };
typedef struct ff_gemm_memo_slot {
    int64_t m, n, k, batch;
    double memory_bytes, seconds;
    int phase, dtype;
} ff_gemm_memo_slot;
typedef struct ff_gemm_memo {
    ff_gemm_memo_slot slot[FF_GEMM_MEMO_SLOTS];
} ff_gemm_memo;

/* What does not change while layouts are tried. */
typedef struct ff_cost {
    const ff_model *model;
    const ff_cluster *cluster;
    const ff_profile *profile;
    ff_physics physics;
    int64_t seq;
    double imbalance;
    ff_gemm_memo *gemm_memo; /* NULL: every GEMM is worked out */
} ff_cost;

/* How a group lies on the cluster. */
typedef struct ff_reach {
    int64_t ranks;
    int64_t inside, domains; /* ranks in one domain at most; domains touched */
    int64_t pods;            /* parts of the network below the spine */
    int64_t narrow;          /* 1: between domains it uses one adapter of a domain; no bool, since
                              * reaches are compared as bytes */
} ff_reach;

/* The reach of every group of a layout. */
typedef struct ff_reaches {
    ff_reach tp, cp, dp_cp, pp, ep, etp, expert, edp, world;
} ff_reaches;
void ff_reaches_of(const ff_mesh *mesh, const ff_cluster *cluster, ff_reaches *reaches);
ff_reach ff_reach_of_operator(const ff_reaches *reaches, const ff_operator *op);
/* The same for what data parallelism sends: some stacks' ZeRO-3 is narrow. */
ff_reach ff_reach_of_sync(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                          const ff_operator *op);

double ff_peak_flops(const ff_device *device, ff_dtype dtype);
/* Device time of one operator that is no collective. */
double ff_operator_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op);
/* One call of a collective. */
double ff_collective_s(const ff_cost *cost, const ff_reach *reach, ff_collective collective,
                       double bytes);
/* `calls` of them, one after another without a wait between, of `bytes` together. */
double ff_collectives_s(const ff_cost *cost, const ff_reach *reach, ff_collective collective,
                        double bytes, double calls);

/* An all-to-all of `bytes` a rank; of what crosses domains only `share` is sent. */
double ff_all_to_all_s(const ff_cost *cost, const ff_reach *reach, double bytes, double share);

typedef enum ff_exposure {
    FF_EXPOSED_TP,
    FF_EXPOSED_PP,
    FF_EXPOSED_CP,
    FF_EXPOSED_EP,
    FF_EXPOSED_DP,
    FF_EXPOSED_COUNT
} ff_exposure;
const char *ff_exposure_name(ff_exposure exposure);
ff_exposure ff_exposure_of(ff_axes group);

/* What one operator adds to its block: compute, or communication by what is felt of it. */
typedef struct ff_operator_time {
    double compute_s, exposed_s, hidden_s;
    double slowdown_s; /* compute lost to what is hidden */
} ff_operator_time;
/* `split`: the backward is, so that weight gradients cover nothing of B. */
ff_operator_time ff_operator_time_of(const ff_cost *cost, ff_dtype dtype, const ff_reaches *reaches,
                                     const ff_layer_list *list, const ff_operator *op, bool split);

/* One block (a layer, an end) in one microbatch. */
typedef struct ff_block_time {
    double forward_s, backward_s;               /* compute; backward with recompute */
    double forward_exposed_s[FF_EXPOSED_COUNT]; /* communication that blocks */
    double backward_exposed_s[FF_EXPOSED_COUNT];
    double weight_s; /* the part of backward_s that is weight gradients, which a split lets wait */
    double backward_wait_s; /* the part of it in which the device waits for the host */
    /* What else a split backward costs: communication that would hide behind a weight gradient is
     * exposed, and slows nothing down. */
    double split_exposed_s[FF_EXPOSED_COUNT], split_saved_s;
} ff_block_time;
void ff_block_time_of(const ff_cost *cost, ff_dtype dtype, const ff_reaches *reaches,
                      const ff_layer_list *list, bool is_layer, ff_block_time *time);

typedef struct ff_time_blocks {
    ff_block_time layer[FF_MODEL_MAX_KINDS][2]; /* [kind][recomputed] */
    ff_block_time embedding, head, mtp;
} ff_time_blocks;
void ff_time_blocks_build(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                          ff_time_blocks *blocks);

/* One stage in one microbatch: its chunks' blocks summed. */
typedef struct ff_stage_time {
    double forward_s, backward_s; /* exposed communication included */
    double compute_s;             /* of these, compute */
    double exposed_s[FF_EXPOSED_COUNT];
    double weight_s;    /* the part of backward_s that a split backward lets wait */
    double share;       /* of a step's microbatches that pass a chunk: 1, or 1/2 both ways */
    bool splits;        /* the schedule runs weight gradients apart */
    bool returns_later; /* other microbatches lie between its forward and backward */
    double
        ahead_left_s; /* what the host could get ahead of the device if more layers waited for it */
} ff_stage_time;
/* A stage without chunks yet, under the layout's schedule. */
/* How far the host gets ahead while the device works on a head: its forward where backward follows at
 * once, and what runs before the layers' backward. */
double ff_ahead_s(const ff_block_time *head, const ff_stage_time *stage);
ff_stage_time ff_stage_time_start(const ff_layout *layout);
void ff_stage_time_add(const ff_model *model, const ff_time_blocks *blocks,
                       const ff_chunk_content *content, ff_stage_time *stage);

/* Data-parallel communication of a stage, before anything hides it. */
typedef struct ff_sync_time {
    double before_forward_s, before_backward_s, after_backward_s; /* in each microbatch */
    double once_gradient_s, once_gather_s;                        /* once a step */
    double slice_s;  /* of the last slice, which nothing hides */
    double update_s; /* the optimizer's update */
    int64_t units;   /* what ZeRO-3 gathers one by one: layers and the ends */
} ff_sync_time;
void ff_sync_time_of(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     ff_shard_params params, int64_t units, ff_sync_time *time);
int64_t ff_stage_units(const ff_layout *layout, int64_t stage);
/* Reductions at the step's end that wait for all gradients. */
double ff_step_end_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     int64_t replicated_params);
/* One pipeline message. */
double ff_transfer_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches);

typedef struct ff_step_time {
    double step_s;
    double compute_s; /* of the slowest stage, all microbatches */
    double bubble_s;
    double exposed_s[FF_EXPOSED_COUNT];
    double optimizer_s; /* with the step's fixed time */
    int64_t slowest_stage;
    double transfer_s; /* one pipeline message */
    double gradient_s,
        gather_s; /* all data-parallel reductions and gathers of a step, hidden or not */
} ff_step_time;

/* The pipeline's part: compute, bubble, exposed TP, CP, EP, PP. `stages[pp]` may share entries;
 * `scratch` has room for 3*pp doubles; `lists` may be NULL. Nothing here depends on the ZeRO stage. */
void ff_pipeline_time_of(const ff_layout *layout, const ff_stage_time *const *stages,
                         double transfer_s, struct ff_list_memo *lists, double *scratch,
                         ff_step_time *time);
/* The same with no bubble and no transfers: no schedule runs these stages faster. */
void ff_pipeline_least_of(const ff_layout *layout, const ff_stage_time *const *stages,
                          ff_step_time *time);
/* Adds a stage's data-parallel part (the worst stage counts), then, once, the sum. */
void ff_step_time_add_stage(const ff_cost *cost, const ff_layout *layout,
                            const ff_stage_time *stage, const ff_sync_time *sync,
                            ff_step_time *time);
void ff_step_time_finish(const ff_cost *cost, double step_end_s, ff_step_time *time);

/* All of it for one layout. step_s is the sum of compute, bubble, exposed and optimizer.
 * `stage_params[pp]` are the weights of a rank of each stage. */
void ff_step_time_of(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     const ff_time_blocks *blocks, const ff_shard_params *stage_params,
                     ff_step_time *time);

#endif
