/* Ranks as processes of this machine over shared memory: the transport, and the driver that forks and
 * watches them.
 *
 *     parent -- maps memory, forks a process a rank --> rank 0, rank 1, ...   (before any thread)
 *        '----- sees a rank that died, ends the others, names it
 *
 * They reach each other by rings in shared memory (rings.h). */
#ifndef FF_CLI_LOCAL_H
#define FF_CLI_LOCAL_H

#include "engine/loop.h"
#include "verify/digest.h"

/* What ranks tell the parent, in memory that all share. */
typedef struct ff_local_report {
    int64_t passes_done;
    ff_digest digest; /* at the end */
    char fault[240];
} ff_local_report;

typedef struct ff_local ff_local;

/* What is run, pass after pass: steps, and evaluations as numbers below 0 (engine/rank.h). */
typedef struct ff_passes {
    const int64_t *step; /* [count] */
    int64_t count;
    /* The rate of learning in a step. */
    double (*rate)(void *context, int64_t step);
    /* Called in the parent when a pass is over on all ranks. */
    void (*told)(void *context, int64_t step, double loss, double norm);
    void *context;
} ff_passes;

/* Maps memory for the ranks of a setup. NULL when the system refuses. The passes stay the caller's. */
ff_local *ff_local_create(const ff_setup *setup, const ff_passes *passes);
void ff_local_free(ff_local *local);

/* Forks, runs, waits. FF_ENVIRONMENT with findings when a rank dies, FF_NO when one fails. */
ff_status ff_local_run(ff_local *local, ff_diagnostics *findings);
const ff_local_report *ff_local_report_of(const ff_local *local, int rank);

#endif
