/* What if: the longest sequence, the largest microbatch, the most layers, the fewest nodes with which
 * something still fits. The extreme is found by trials (trial.h) between a value that fits and one
 * that does not; then the job with that value is planned as any other.
 *
 * Assumption: what fits, fits also when it is smaller (or, for nodes, from the first count on). */
#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "plan/search.h"
#include "plan/trial.h"
#include <stdio.h>

enum { MOST_POINTS = 400000, MOST_NODE_COUNTS = 256, SEQ_STEP = 1024, LARGEST_MBS = 4096 };
static const int64_t LONGEST_SEQ = INT64_C(1) << 30;

typedef struct attempt {
    const ff_job *job;
    const ff_space *space;
    ff_job changed;
    int64_t mbs, points_left;
} attempt;

typedef bool fits_with(attempt *a, int64_t value);

static bool fits_now(attempt *a) {
    return ff_trial_fits(a->space, &a->changed, a->mbs, &a->points_left);
}

static bool fits_seq(attempt *a, int64_t units) {
    a->changed = *a->job;
    a->changed.seq = units * SEQ_STEP;
    if (a->changed.gbs_tokens < a->changed.seq)
        a->changed.gbs_tokens = a->changed.seq;
    return fits_now(a);
}

static bool fits_mbs(attempt *a, int64_t mbs) {
    a->changed = *a->job;
    a->mbs = mbs;
    if (a->changed.gbs_tokens < ff_mul(mbs, a->changed.seq))
        a->changed.gbs_tokens = ff_mul(mbs, a->changed.seq);
    return fits_now(a);
}

/* The model with more layers of the kinds it ends with, or fewer of them. */
static void set_layers(ff_model *model, int layers) {
    int last = model->layers, half = last > 1 ? last / 2 : 1;
    for (int i = last; i < layers; i++)
        model->layer_kind[i] = model->layer_kind[last - half + (i - last) % half];
    model->layers = layers;
    model->stated_params = 0;
    char name[sizeof model->name];
    snprintf(name, sizeof name, "%.80s with %d layers", model->name, layers);
    ff_copy_text(model->name, sizeof model->name, name);
}

static bool fits_layers(attempt *a, int64_t layers) {
    a->changed = *a->job;
    if (layers > FF_MODEL_MAX_LAYERS)
        return false;
    set_layers(&a->changed.model, (int)layers);
    return fits_now(a);
}

/* The largest value that fits, at least `least`; 0 when that does not. */
static int64_t largest(attempt *a, fits_with *fits, int64_t least, int64_t most) {
    int64_t good = 0, bad = least;
    while (bad <= most && fits(a, bad)) {
        good = bad;
        bad *= 2;
    }
    bad = ff_min(bad, most + 1);
    while (good > 0 && bad - good > 1) {
        int64_t middle = good + (bad - good) / 2;
        if (fits(a, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

/* Node counts from the fewest whose memory could hold the state at all. */
static int64_t fewest_nodes(attempt *a) {
    ff_model_count count;
    ff_model_params(&a->job->model, &count);
    double node =
        (double)a->job->cluster.device.memory_bytes * (double)a->job->cluster.devices_per_node;
    int64_t first = 1 + (int64_t)(16.0 * (double)count.total / node);
    if (first * a->job->cluster.devices_per_node < 2)
        first = 2;
    for (int64_t nodes = first; nodes < first + MOST_NODE_COUNTS; nodes++) {
        a->changed = *a->job;
        ff_trial_set_nodes(&a->changed.cluster, nodes);
        if (a->changed.cluster.devices > (1 << 20))
            return 0;
        if (fits_now(a))
            return nodes;
    }
    return 0;
}

static const char *const words[] = {
    [FF_EXTREME_SEQ] = "longest sequence, tokens",
    [FF_EXTREME_MBS] = "largest microbatch, sequences",
    [FF_EXTREME_PARAMS] = "most layers of this width",
    [FF_EXTREME_NODES] = "fewest nodes",
};

const char *ff_extreme_words(ff_extreme extreme) {
    return words[extreme];
}

static int64_t find(attempt *a, ff_extreme extreme) {
    switch (extreme) {
    case FF_EXTREME_SEQ:
        return largest(a, fits_seq, 1, LONGEST_SEQ / SEQ_STEP) * SEQ_STEP;
    case FF_EXTREME_MBS:
        return largest(a, fits_mbs, 1, LARGEST_MBS);
    case FF_EXTREME_PARAMS:
        return largest(a, fits_layers, 1, FF_MODEL_MAX_LAYERS);
    default:
        return fewest_nodes(a);
    }
}

static void apply(attempt *a, ff_extreme extreme, int64_t value) {
    switch (extreme) {
    case FF_EXTREME_SEQ:
        fits_seq(a, value / SEQ_STEP);
        break;
    case FF_EXTREME_MBS:
        fits_mbs(a, value);
        break;
    case FF_EXTREME_PARAMS:
        fits_layers(a, value);
        break;
    default:
        a->changed = *a->job;
        ff_trial_set_nodes(&a->changed.cluster, value);
    }
}

ff_status ff_plan_extreme(const ff_job *job, const ff_plan_options *options, ff_extreme extreme,
                          ff_diagnostics *findings, ff_job *changed, int64_t *value) {
    ff_arena *arena = ff_arena_create();
    ff_space *space = FF_ARENA_NEW(arena, ff_space);
    attempt *a = FF_ARENA_NEW(arena, attempt);
    ff_status status = ff_space_init(space, arena, job, options, findings);
    if (status == FF_OK) {
        *a = (attempt){.job = job, .space = space, .mbs = 1, .points_left = MOST_POINTS};
        *value = find(a, extreme);
        if (*value == 0) {
            ff_report(findings, FF0501, FF_NOWHERE, "%s: nothing fits, however it is set",
                      ff_extreme_words(extreme));
            status = FF_NO;
        } else {
            apply(a, extreme, *value);
            *changed = a->changed;
        }
    }
    ff_arena_free(arena);
    return status;
}
