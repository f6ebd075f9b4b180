/* How long a step's pipeline takes with uneven stages: exactly, and by a closed form for search.
 *
 * Exact: the lists are run (run.h): nothing limits overlap, a transfer adds its latency to the
 * message and costs the sender nothing.
 * Estimate: from each stage's times alone, as the longest of some paths of the run, so with equal
 * chunks in a stage it is a lower bound. The formula stands in the generator's file.
 *
 * Estimate against exact run, worst of thousands of random pipelines (p to 16, v to 4, backward 1.5
 * to 2.5 forwards; "25%": stages between 75% and 100% of the slowest; transfers in parts of a
 * chunk's forward; tests/schedule_span_test.c asserts bounds like these):
 *
 *     gpipe          any stage times, any transfer             exact
 *     1f1b           equal stages, no transfer                 exact
 *                    25%, transfers to 10%                     -0.3%
 *                    50%, transfers to 30%                     -2.7%
 *     interleaved    equal stages, transfers to 30%            exact
 *                    25%, transfers to 6%, m >= 2p             -4.4%
 *                    50%, transfers to 30%, m >= 2p            -5.7%
 *                    25%, m = p too                            -6%
 *                    equal, but last chunk longer by 5% of a stage: -0.2%
 *                    chunks of a stage uneven by 25%           -10% .. +3%
 *                    25%, last chunk longer by 30% of a stage  -13%
 *
 * Interleaved stages move in lock step, so a long chunk delays all stages when its turn comes,
 * which stage sums cannot show: where it matters, run the lists. */
#ifndef FF_SCHEDULE_SPAN_H
#define FF_SCHEDULE_SPAN_H

#include "schedule/run.h"

/* Times are indexed [stage * chunks + chunk]; `transfer_s` is one message over one boundary. The
 * first is for whole backwards, the second takes backward's weight part apart. */
double ff_schedule_span(const ff_schedule *schedule, const double *forward_s,
                        const double *backward_s, double transfer_s);
double ff_schedule_split_span(const ff_schedule *schedule, const ff_run_times *times);

/* Times are of a whole stage (its chunks together), indexed [stage]; likewise. */
double ff_schedule_span_estimate(const ff_schedule_shape *shape, const double *stage_forward_s,
                                 const double *stage_backward_s, double transfer_s);
double ff_schedule_split_estimate(const ff_schedule_shape *shape, const ff_pipeline_times *times);

#endif
