/* Whether anything fits: a walk that stops at the first layout that does, looking only where memory is
 * least (one sequence a microbatch, full recomputation, unless the user says otherwise). */
#ifndef FF_PLAN_TRIAL_H
#define FF_PLAN_TRIAL_H

#include "plan/evaluate.h"
#include "plan/space.h"

/* `points_left` bounds the work of several trials together; when it runs out the answer is no. */
bool ff_trial_fits(const ff_space *space, const ff_job *job, int64_t mbs, int64_t *points_left);
/* The same cluster with another number of nodes. */
void ff_trial_set_nodes(ff_cluster *cluster, int64_t nodes);

#endif
