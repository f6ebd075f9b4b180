/* The values that each dimension of the space takes: what --grid names, else every value that makes
 * sense, of both those that --where allows.
 *
 *     tp pp cp       divisors of the devices; pp at most the layers
 *     ep etp         divisors of tp*cp*dp, of what is left of it; at most the experts, tp
 *     order          orders that place some group on other tiers than the ones before
 *     mbs            powers of two, while dp replicas do not overshoot the batch
 *     pipelines      schedules that the stack runs, each with the chunks that it can hold
 *     zero forms     stages 0 to 3; groups of all ranks or of a domain; streamed or resident weights
 *
 * Values come in the order in which ties are broken. */
#ifndef FF_PLAN_DIMENSIONS_H
#define FF_PLAN_DIMENSIONS_H

#include "plan/space.h"

typedef struct ff_values {
    int count;
    int32_t value[FF_MOST_CHOICES * 4];
} ff_values;
/* `sizes` holds what is settled before: tp, pp, cp, dp, and for etp ep. */
void ff_values_fill(const ff_space *space, ff_dimension dimension, const ff_layout *sizes,
                    ff_values *values);

/* What runs the pipeline: schedule and chunks a stage together. */
typedef struct ff_pipeline {
    int32_t schedule, vpp;
} ff_pipeline;
typedef struct ff_pipelines {
    int count;
    ff_pipeline of[FF_MOST_CHOICES];
} ff_pipelines;
void ff_pipelines_fill(const ff_space *space, int64_t pp, ff_pipelines *pipelines);

/* What the innermost loop runs over: stage, weights and group together. */
typedef struct ff_zero_form {
    int32_t zero, weights, group;
} ff_zero_form;
typedef struct ff_zero_forms {
    int count;
    ff_zero_form form[FF_MOST_CHOICES * 4];
} ff_zero_forms;
void ff_zero_forms_fill(const ff_space *space, const ff_layout *sizes, ff_zero_forms *forms);

/* The dense axes from innermost out, of a value of FF_DIM_ORDER; how many values there are. */
const ff_axis *ff_dimension_order(int32_t index);
int ff_dimension_orders(void);

#endif
