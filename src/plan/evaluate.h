/* Memory and time of a layout, from parts that are made once and summed often.
 * What the parts are, and how long they are kept, is in levels.h.
 *
 * An evaluator belongs to one job and is not shared between threads. */
#ifndef FF_PLAN_EVALUATE_H
#define FF_PLAN_EVALUATE_H

#include "base/arena.h"
#include "cost/cost.h"
#include "fivefold/memory.h"
#include "fivefold/plan.h"
#include "plan/split.h"

typedef struct ff_evaluator ff_evaluator;

/* NULL with findings when there is no physics for the device. */
ff_evaluator *ff_evaluator_create(const ff_job *job, ff_diagnostics *findings);
void ff_evaluator_free(ff_evaluator *evaluator);
const ff_cost *ff_evaluator_cost(const ff_evaluator *evaluator);
ff_program_options ff_evaluator_options(const ff_evaluator *evaluator);

typedef struct ff_estimate {
    int64_t peak_bytes, capacity_bytes, peak_stage;
    ff_verdict verdict;
    ff_step_time time;    /* zero when not timed */
    bool simulated;       /* the pipeline was run */
    double formula_ratio; /* step by formula over step by run; 1 when it was not run */
    int64_t batch_tokens;
    int64_t
        counted_tokens; /* of these, what counts in a ranking: at most a tenth beyond the target */
    double s_per_token; /* step_s / counted_tokens */
    double tokens_per_s_per_device, model_flops_per_device, mfu;
} ff_estimate;

/* Memory only; `stages` (pp entries) may be NULL. The layout is derived and legal. */
void ff_evaluate_memory(ff_evaluator *evaluator, const ff_layout *layout, ff_estimate *estimate,
                        ff_stage_memory *stages);
/* Time; its memory must be what was evaluated last. */
void ff_evaluate_time(ff_evaluator *evaluator, const ff_layout *layout, ff_estimate *estimate);
/* The same with the pipeline run at schedule level (simulate/simulate.h) where the closed form is an
 * estimate: dearer, for what is shown. */
void ff_evaluate_exactly(ff_evaluator *evaluator, const ff_layout *layout, ff_estimate *estimate);
/* A lower bound of its time a token, however its layers are cut, at a fraction of the cost where a
 * schedule has to be run: even stages, no bubble, no transfers. Its memory must be what was evaluated
 * last, and its recomputation stays what it is. */
double ff_evaluate_least_s(ff_evaluator *evaluator, const ff_layout *layout);

/* Of a layout that recomputes whole layers: sets recompute_layers to the fewest of every stage with
 * which the peak stays at or below the limit, and makes that the layout evaluated last. */
typedef enum ff_count_answer {
    FF_COUNT_SOME,
    FF_COUNT_NONE,    /* it fits with none */
    FF_COUNT_ALL,     /* it fits with all alone */
    FF_COUNT_TOO_FEW, /* it does not fit with all */
} ff_count_answer;
ff_count_answer ff_evaluate_fewest_recomputed(ff_evaluator *evaluator, ff_layout *layout,
                                              int64_t limit_bytes);

/* The same a token, if its stages could be cut so that all take the mean: no cut takes less. */
double ff_evaluate_evened_s(ff_evaluator *evaluator, const ff_layout *layout,
                            const ff_estimate *estimate);
/* Of the layout evaluated last, once timed: forward and backward of a microbatch, [pp], in the
 * arena; and what cutting it into other stages needs. */
const double *ff_evaluate_stages_s(ff_evaluator *evaluator, const ff_layout *layout,
                                   ff_arena *arena);
ff_split_inputs ff_evaluate_split_inputs(ff_evaluator *evaluator, const ff_layout *layout,
                                         int64_t limit_bytes, ff_cut_recompute recompute);

/* No layout of the same grid and block (any vpp, split and ZeRO form) takes less time a token: the
 * slowest stage is no faster than the mean of all, and nothing else is counted. */
double ff_evaluate_floor_s(ff_evaluator *evaluator, const ff_layout *layout);
/* The groups of a layout on the job's cluster. */
void ff_evaluate_reaches(const ff_evaluator *evaluator, const ff_layout *layout,
                         ff_reaches *reaches);

/* Target batch in sequences, rounded up; 0 = none. */
int64_t ff_job_sequences(const ff_job *job);

#endif
