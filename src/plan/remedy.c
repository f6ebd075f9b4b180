/* See remedy.h.
 *
 *     change                      tried
 *     16-bit gradients            once, where the recipe keeps 32 bits and was not asked for
 *     more nodes                  twice as many, four times, ... up to the largest cluster
 *     larger devices              not at all: the smallest peak is known
 *     shorter sequences           half, a quarter, ... down to 256 tokens
 *
 * A walk looks only where memory is least, at one sequence a microbatch and full recomputation, and
 * all walks of a change together at MOST_POINTS points, so that a hopeless job is answered soon.
 * What was not reached is not offered. */
#include "plan/remedy.h"

#include "plan/trial.h"

#include "base/number.h"
#include <stdio.h>
#include <string.h>

enum { MOST_POINTS = 150000, LARGEST_CLUSTER = 1 << 20, SHORTEST_SEQ = 256 };

static const double GIB = 1024.0 * 1024.0 * 1024.0;

static bool fits(const ff_plan_set *set, const ff_job *changed, int64_t *points_left) {
    return ff_trial_fits(&set->space, changed, 1, points_left);
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

static bool more_nodes(const ff_plan_set *set, int64_t *points_left, char *text,
                       size_t text_bytes) {
    ff_job changed = set->job;
    ff_cluster *cluster = &changed.cluster;
    while (cluster->devices <= LARGEST_CLUSTER / 2) {
        ff_trial_set_nodes(cluster, 2 * cluster->nodes);
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
    int count = 0;
    for (size_t i = 0; i < sizeof finders / sizeof *finders; i++) {
        int64_t points_left = MOST_POINTS;
        count += finders[i](set, &points_left, remedies[count].text, sizeof remedies[count].text);
    }
    snprintf(remedies[count].text, sizeof remedies[count].text, "devices of %lld GiB or more",
             (long long)((double)nearest_bytes / GIB) + 1);
    return count + 1;
}
