/* See span.h. */
#include "schedule/span.h"

#include <assert.h>

double ff_schedule_split_span(const ff_schedule *schedule, const ff_run_times *times) {
    ff_run run = ff_schedule_run(schedule, times);
    assert(run.complete);
    double span_s = run.span_s;
    ff_run_free(&run);
    return span_s;
}

double ff_schedule_span(const ff_schedule *schedule, const double *forward_s,
                        const double *backward_s, double transfer_s) {
    return ff_schedule_split_span(schedule,
                                  &(ff_run_times){forward_s, backward_s, NULL, transfer_s});
}

double ff_schedule_split_estimate(const ff_schedule_shape *shape, const ff_pipeline_times *times) {
    const ff_generator *generator = ff_generator_find(shape->kind);
    assert(generator != NULL);
    return generator->span_estimate(shape, times);
}

double ff_schedule_span_estimate(const ff_schedule_shape *shape, const double *stage_forward_s,
                                 const double *stage_backward_s, double transfer_s) {
    assert(!ff_schedule_splits(shape));
    return ff_schedule_split_estimate(
        shape, &(ff_pipeline_times){stage_forward_s, stage_backward_s, NULL, transfer_s, NULL});
}
