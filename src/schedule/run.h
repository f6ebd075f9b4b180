/* Runs a set of action lists with given durations: blocking receives, buffered sends.
 *
 * Each stage works through its list. A computation takes its time; a send costs the sender nothing
 * and arrives `transfer_s` after it; a receive waits for its message. Nothing limits how many
 * messages are under way. The result does not depend on the order in which stages are advanced. */
#ifndef FF_SCHEDULE_RUN_H
#define FF_SCHEDULE_RUN_H

#include "schedule/generators.h"

/* Durations, [stage * chunks + chunk]; backward holds its weight part (NULL: nothing of it). */
typedef struct ff_run_times {
    const double *forward_s, *backward_s, *weight_s;
    double transfer_s;
} ff_run_times;

typedef struct ff_run {
    ff_arena *arena;
    bool complete;   /* false: the stages wait for each other */
    double span_s;   /* when the last action ended */
    int64_t *cursor; /* [stage]: actions done */
    double *start_s; /* [action of the schedule]: when it began (a receive: when it was ready) */
} ff_run;

/* Freed with ff_run_free. */
ff_run ff_schedule_run(const ff_schedule *schedule, const ff_run_times *times);
void ff_run_free(ff_run *run);

#endif
