#include "plan/trial.h"

#include "base/number.h"

typedef struct trial {
    ff_evaluator *evaluator;
    int64_t *points_left;
    bool fits;
} trial;

static bool try_point(void *context, const ff_point *point, ff_layout *layout) {
    trial *t = context;
    ff_estimate estimate;
    (void)point;
    if (--*t->points_left <= 0)
        return false;
    ff_evaluate_memory(t->evaluator, layout, &estimate, NULL);
    t->fits = estimate.verdict != FF_TOO_BIG;
    return !t->fits;
}

/* Pins a dimension that the user leaves open. */
static void pin(ff_space *space, ff_dimension dimension, int32_t value) {
    if (space->choices[dimension] > 0 || !ff_space_allows(space, dimension, value))
        return;
    space->choices[dimension] = 1;
    space->choice[dimension][0] = value;
}

bool ff_trial_fits(const ff_space *space, const ff_job *job, int64_t mbs, int64_t *points_left) {
    trial t = {.points_left = points_left};
    ff_space reduced = *space;
    if (*points_left <= 0)
        return false;
    reduced.job = job;
    pin(&reduced, FF_DIM_RECOMPUTE, ff_recompute_choice_count - 1);
    pin(&reduced, FF_DIM_MBS, (int32_t)mbs);
    pin(&reduced, FF_DIM_ORDER, 0);
    t.evaluator = ff_evaluator_create(job, NULL);
    ff_arena *scratch = ff_arena_create();
    ff_walker walker = {.context = &t, .visit = try_point};
    if (t.evaluator != NULL)
        ff_space_walk(&reduced, scratch, &walker);
    ff_arena_free(scratch);
    ff_evaluator_free(t.evaluator);
    return t.fits;
}

void ff_trial_set_nodes(ff_cluster *cluster, int64_t nodes) {
    bool one_pod = cluster->tier[FF_TIER_NETWORK].devices >= cluster->devices;
    cluster->nodes = nodes;
    cluster->devices = ff_mul(nodes, cluster->devices_per_node);
    cluster->domain_devices = ff_min(cluster->domain_devices, cluster->devices);
    cluster->tier[FF_TIER_DOMAIN].devices = cluster->domain_devices;
    if (one_pod || cluster->tier[FF_TIER_NETWORK].devices > cluster->devices)
        cluster->tier[FF_TIER_NETWORK].devices = cluster->devices;
    cluster->tier[FF_TIER_SPINE].devices = cluster->devices;
}
