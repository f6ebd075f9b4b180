/* See remedy.h.
 *
 *     change                      tried
 *     16-bit gradients            once, where the recipe keeps 32 bits and was not asked for
 *     more nodes                  twice as many, four times, ... up to the largest cluster
 *     larger devices              not at all: the smallest peak is known
 *     shorter sequences           half, a quarter, ... down to 256 tokens
 *
 * A walk looks only where memory is least, at one sequence a microbatch and full recomputation, and
 * all walks of an answer together at MOST_POINTS points, so that a hopeless job is answered soon.
 * What was not reached is not offered. */
#include "plan/remedy.h"

#include "base/number.h"
#include <stdio.h>
#include <string.h>

enum { MOST_POINTS = 60000, LARGEST_CLUSTER = 1 << 20, SHORTEST_SEQ = 256 };

static const double GIB = 1024.0 * 1024.0 * 1024.0;

typedef struct trial {
    ff_job job;
    ff_space space;
    ff_evaluator *evaluator;
    int64_t *points_left;
    bool fits;
} trial;

static bool try_point(void *context, const ff_point *point, const ff_layout *layout) {
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

/* Whether any layout of the changed job fits. */
static bool fits(const ff_plan_set *set, const ff_job *changed, int64_t *points_left) {
    trial t = {.job = *changed, .space = set->space, .points_left = points_left};
    if (*points_left <= 0)
        return false;
    t.space.job = &t.job;
    pin(&t.space, FF_DIM_RECOMPUTE, ff_recompute_choice_count - 1);
    pin(&t.space, FF_DIM_MBS, 1);
    t.evaluator = ff_evaluator_create(&t.job, NULL);
    ff_arena *scratch = ff_arena_create();
    ff_walker walker = {.context = &t, .visit = try_point};
    if (t.evaluator != NULL)
        ff_space_walk(&t.space, scratch, &walker);
    ff_arena_free(scratch);
    ff_evaluator_free(t.evaluator);
    return t.fits;
}

static bool smaller_recipe(const ff_plan_set *set, int64_t *points_left, char *text,
                           size_t text_bytes) {
    ff_job changed = set->job;
    if (set->job.recipe_given)
        return false;
    changed.recipe_given = true;
    changed.recipe = FF_RECIPE_BF16_CLASSIC;
    snprintf(text, text_bytes, "--recipe %s: gradients in 16 bits instead of 32",
             ff_recipe_name(changed.recipe));
    return fits(set, &changed, points_left);
}

/* Placement does not matter here, so tiers stay as they are. */
static bool more_nodes(const ff_plan_set *set, int64_t *points_left, char *text,
                       size_t text_bytes) {
    ff_job changed = set->job;
    ff_cluster *cluster = &changed.cluster;
    while (cluster->devices <= LARGEST_CLUSTER / 2) {
        cluster->nodes *= 2;
        cluster->devices *= 2;
        snprintf(text, text_bytes, "%lld nodes instead of %lld", (long long)cluster->nodes,
                 (long long)set->job.cluster.nodes);
        if (fits(set, &changed, points_left))
            return true;
    }
    return false;
}

static bool shorter_sequences(const ff_plan_set *set, int64_t *points_left, char *text,
                              size_t text_bytes) {
    ff_job changed = set->job;
    while (changed.seq >= 2 * SHORTEST_SEQ) {
        changed.seq /= 2;
        snprintf(text, text_bytes, "sequences of %lld tokens instead of %lld",
                 (long long)changed.seq, (long long)set->job.seq);
        if (fits(set, &changed, points_left))
            return true;
    }
    return false;
}

int ff_remedies_find(const ff_plan_set *set, int64_t nearest_bytes,
                     ff_remedy remedies[FF_MOST_REMEDIES]) {
    typedef bool remedy_finder(const ff_plan_set *set, int64_t *points_left, char *text,
                               size_t text_bytes);
    remedy_finder *const finders[] = {smaller_recipe, shorter_sequences, more_nodes};
    int64_t points_left = MOST_POINTS;
    int count = 0;
    for (size_t i = 0; i < sizeof finders / sizeof *finders; i++)
        count += finders[i](set, &points_left, remedies[count].text, sizeof remedies[count].text);
    snprintf(remedies[count].text, sizeof remedies[count].text, "devices of %lld GiB or more",
             (long long)((double)nearest_bytes / GIB) + 1);
    return count + 1;
}
