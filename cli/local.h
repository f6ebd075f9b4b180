/* Ranks as processes of this machine over shared memory: the transport, and the driver that forks and
 * watches them.
 *
 *     parent -- maps memory, forks a process a rank --> rank 0, rank 1, ...   (before any thread)
 *        '----- sees a rank that died, ends the others, names it
 *
 * Each ordered pair of ranks has a ring of bytes with one writer and one reader; a message is its
 * length and its bytes, in as many pieces as the ring takes. Nobody sleeps in the transport: a rank
 * that cannot go on yields the processor, since there may be more ranks than cores. */
#ifndef FF_CLI_LOCAL_H
#define FF_CLI_LOCAL_H

#include "engine/loop.h"

/* What ranks tell the parent, in memory that all share. */
typedef struct ff_local_report {
    int64_t steps_done;
    uint64_t weights_hash; /* of the rank's own numbers */
    char fault[240];
} ff_local_report;

typedef struct ff_local ff_local;

/* Maps memory for the ranks of a setup and `steps` losses. NULL when the system refuses. */
ff_local *ff_local_create(const ff_setup *setup, int64_t steps);
void ff_local_free(ff_local *local);

/* The rate of learning in a step. */
typedef double ff_rate(void *context, int64_t step);

/* Forks, runs, waits. `told` is called in the parent when a step is over on all ranks. FF_ENVIRONMENT
 * with findings when a rank dies, FF_NO when one fails. */
typedef void ff_step_told(void *context, int64_t step, double loss, double norm);
ff_status ff_local_run(ff_local *local, ff_rate *rate, ff_step_told *told, void *context,
                       ff_diagnostics *findings);
const ff_local_report *ff_local_report_of(const ff_local *local, int rank);

#endif
