/* Memory and time of a layout, from parts that are made once and summed often.
 *
 *     grid     tp pp cp dp ep etp order zero_group    reaches of the groups
 *     blocks   grid's reaches, mbs, recompute, recipe   bytes and seconds of a layer, the ends
 *     chunks   pp vpp split, recompute                 contents of chunks; stages alike are one class
 *     pipeline blocks x chunks, microbatches           span, bubble, exposed TP, CP, EP
 *     zero     grid x chunks, zero                     reductions, gathers, update
 *
 * Each level remembers what it was made for, so a search that varies the last levels fastest pays for
 * them alone. Stages of one class differ only in what they have in flight, which never grows from
 * stage to stage, so the first of a class is its largest.
 *
 * An evaluator belongs to one job and is not shared between threads. */
#ifndef FF_PLAN_EVALUATE_H
#define FF_PLAN_EVALUATE_H

#include "base/arena.h"
#include "cost/cost.h"
#include "fivefold/memory.h"
#include "fivefold/plan.h"

typedef struct ff_evaluator ff_evaluator;

/* NULL with findings when there is no physics for the device. */
ff_evaluator *ff_evaluator_create(const ff_job *job, ff_diagnostics *findings);
void ff_evaluator_free(ff_evaluator *evaluator);
const ff_cost *ff_evaluator_cost(const ff_evaluator *evaluator);
ff_program_options ff_evaluator_options(const ff_evaluator *evaluator);

typedef struct ff_estimate {
    int64_t peak_bytes, capacity_bytes, peak_stage;
    ff_verdict verdict;
    ff_step_time time; /* zero when not timed */
    int64_t batch_tokens;
    double s_per_token; /* step_s / batch_tokens */
    double tokens_per_s_per_device, model_flops_per_device, mfu;
} ff_estimate;

/* Memory only; `stages` (pp entries) may be NULL. The layout is derived and legal. */
void ff_evaluate_memory(ff_evaluator *evaluator, const ff_layout *layout, ff_estimate *estimate,
                        ff_stage_memory *stages);
/* Time; its memory must be what was evaluated last. */
void ff_evaluate_time(ff_evaluator *evaluator, const ff_layout *layout, ff_estimate *estimate);
/* No layout of the same grid and block (any vpp, split and ZeRO form) takes less time a token: the
 * slowest stage is no faster than the mean of all, and nothing else is counted. */
double ff_evaluate_floor_s(ff_evaluator *evaluator, const ff_layout *layout);
/* The groups of a layout on the job's cluster. */
void ff_evaluate_reaches(const ff_evaluator *evaluator, const ff_layout *layout,
                         ff_reaches *reaches);

/* Target batch in sequences, rounded up; 0 = none. */
int64_t ff_job_sequences(const ff_job *job);

#endif
