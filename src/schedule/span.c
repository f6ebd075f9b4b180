/* See span.h. */
#include "schedule/span.h"

#include "schedule/run.h"
#include <assert.h>

double ff_schedule_span(const ff_schedule *schedule, const double *forward_s,
                        const double *backward_s, double transfer_s) {
    ff_run run = ff_schedule_run(schedule, &(ff_run_times){forward_s, backward_s, transfer_s});
    assert(run.complete);
    double span_s = run.span_s;
    ff_run_free(&run);
    return span_s;
}

double ff_schedule_span_estimate(const ff_schedule_shape *shape, const double *stage_forward_s,
                                 const double *stage_backward_s, double transfer_s) {
    const ff_generator *generator = ff_generator_find(shape->kind);
    assert(generator != NULL);
    return generator->span_estimate(shape, stage_forward_s, stage_backward_s, transfer_s);
}
