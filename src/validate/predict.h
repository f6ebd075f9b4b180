/* What the planner says about a row, and what the row measured, in the same terms.
 *
 *     measured   iteration time, else tokens/s, else FLOP/s, else MFU  -> seconds of a step
 *                peak memory -> bytes, with its meaning: allocated, reserved, or the whole device
 *     predicted  the same of every layout that agrees with the row: a range, one value when the row
 *                is complete; layouts that do not fit are left out of a range where others do
 *
 * The error of a range is the distance to its nearer end. */
#ifndef FF_VALIDATE_PREDICT_H
#define FF_VALIDATE_PREDICT_H

#include "plan/evaluate.h"
#include "validate/case.h"

typedef struct ff_range {
    double low, high;
} ff_range;
/* The value of the range nearest to `value`. */
double ff_range_nearest(ff_range range, double value);

typedef struct ff_prediction {
    double measured_s, measured_bytes; /* 0 = the row has none */
    const char *measured_as;           /* column that the time came from */
    ff_range step_s, peak_bytes;
    bool ran, fits;
    double model_flops; /* share-free: FLOP/s a device at the measured time, over the peak */
    /* Of the layout nearest to what was measured. */
    ff_layout layout;
    ff_step_time time;
    ff_stage_memory memory;
} ff_prediction;

void ff_predict(const ff_row *row, const ff_case *c, ff_prediction *prediction);

/* Seconds of a step from the row's own figure; *column names it. 0 when there is none. */
double ff_measured_step_s(const ff_row *row, const ff_model *model, const ff_cluster *cluster,
                          int64_t seq, const char **column);
/* FLOP a token in the convention that the row's note names. */
double ff_convention_flop(const ff_row *row, const ff_model *model, int64_t seq);

#endif
