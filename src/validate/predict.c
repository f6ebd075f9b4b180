/* See predict.h. */
#include "validate/predict.h"

#include "base/number.h"
#include <math.h>
#include <string.h>

double ff_range_nearest(ff_range range, double value) {
    if (value < range.low)
        return range.low;
    return value > range.high ? range.high : value;
}

/* What one layout is predicted to do. */
typedef struct outcome {
    double step_s, peak_bytes;
    bool fits;
    ff_estimate estimate;
    ff_stage_memory memory;
} outcome;

/* A stage's peak in the meaning of the measured figure. */
static double peak_in_meaning(const ff_row *row, const ff_runtime_memory *runtime,
                              const ff_stage_memory *m) {
    double all = (double)m->total_bytes;
    if (ff_row_is(row, FF_ROW_memory_meaning, "device"))
        return all;
    /* Libraries' workspaces come from the framework's allocator too. */
    double tensors = all - (double)m->runtime_bytes + (double)runtime->workspace_bytes;
    if (ff_row_is(row, FF_ROW_memory_meaning, "allocated"))
        return tensors;
    return tensors + (double)m->fragmentation_bytes;
}

static void find_peak(const ff_row *row, const ff_runtime_memory *runtime,
                      const ff_stage_memory *stages, int64_t pp, outcome *o) {
    bool last_only = ff_row_is(row, FF_ROW_memory_rank, "last");
    for (int64_t s = last_only ? pp - 1 : 0; s < pp; s++) {
        double bytes = peak_in_meaning(row, runtime, &stages[s]);
        if (bytes < o->peak_bytes)
            continue;
        o->peak_bytes = bytes;
        o->memory = stages[s];
    }
}

static outcome evaluate(ff_evaluator *evaluator, const ff_row *row, const ff_case *c,
                        const ff_layout *layout, ff_stage_memory *stages) {
    outcome o = {0};
    ff_evaluate_memory(evaluator, layout, &o.estimate, stages);
    ff_evaluate_exactly(evaluator, layout, &o.estimate);
    o.step_s = o.estimate.s_per_token * (double)c->job.gbs_tokens;
    o.fits = o.estimate.verdict != FF_TOO_BIG;
    find_peak(row, &c->job.profile->runtime, stages, layout->pp, &o);
    return o;
}

/* How far an outcome is from what was measured; memory decides where there is no time. */
static double distance(const ff_prediction *p, const outcome *o) {
    if (p->measured_s > 0)
        return fabs(o->step_s / p->measured_s - 1);
    return p->measured_bytes > 0 ? fabs(o->peak_bytes / p->measured_bytes - 1) : 0;
}

static void widen(ff_range *range, double value, bool first) {
    range->low = first || value < range->low ? value : range->low;
    range->high = first || value > range->high ? value : range->high;
}

/* Peaks are predicted to some 6 %, so a little too much is no proof. */
static bool about_fits(const outcome *o) {
    return (double)o->estimate.peak_bytes <= 1.1 * (double)o->estimate.capacity_bytes;
}

/* What cannot have run: what does not fit where another does; where recomputation is to be found,
 * all of a family but the lightest that about fits. */
static bool is_out(const ff_case *c, const outcome *outcomes, int at, bool one_fits) {
    if (!c->lightest)
        return one_fits && !outcomes[at].fits;
    bool last = true;
    for (int i = 0; i < c->layouts; i++) {
        if (i == at || c->family[i] != c->family[at])
            continue;
        if (i < at && about_fits(&outcomes[i]))
            return true;
        last = last && i < at;
    }
    return !about_fits(&outcomes[at]) && !last;
}

static void gather(ff_prediction *p, const ff_case *c, const outcome *outcomes) {
    double best = INFINITY;
    bool first = true;
    bool one_fits = false;
    for (int i = 0; i < c->layouts; i++)
        one_fits = one_fits || outcomes[i].fits;
    for (int i = 0; i < c->layouts; i++) {
        const outcome *o = &outcomes[i];
        if (is_out(c, outcomes, i, one_fits))
            continue;
        p->fits = p->fits || o->fits;
        widen(&p->step_s, o->step_s, first);
        widen(&p->peak_bytes, o->peak_bytes, first);
        first = false;
        if (distance(p, o) >= best)
            continue;
        best = distance(p, o);
        p->layout = c->layout[i];
        p->time = o->estimate.time;
        p->memory = o->memory;
    }
}

static double share_of_peak(const ff_case *c, double step_s) {
    const ff_device *d = &c->job.cluster.device;
    double peak = d->bf16_flops > 0 ? d->bf16_flops : d->fp16_flops;
    double flop = ff_model_flop_per_token(&c->job.model, c->job.seq, FF_FLOP_FULL);
    return flop * (double)c->job.gbs_tokens / (step_s * (double)c->job.cluster.devices * peak);
}

void ff_predict(const ff_row *row, const ff_case *c, ff_prediction *p) {
    static const double GIB = 1024.0 * 1024.0 * 1024.0;
    *p = (ff_prediction){.ran = ff_row_is(row, FF_ROW_outcome, "ran")};
    if (p->ran && !ff_row_is(row, FF_ROW_score_time, "no"))
        p->measured_s =
            ff_measured_step_s(row, &c->job.model, &c->job.cluster, c->job.seq, &p->measured_as);
    p->measured_bytes = p->ran ? ff_row_real(row, FF_ROW_measured_peak_mem_gib) * GIB : 0;
    ff_evaluator *evaluator = ff_evaluator_create(&c->job, NULL);
    if (evaluator == NULL)
        return;
    ff_arena *arena = ff_arena_create();
    outcome *outcomes = FF_ARENA_ARRAY(arena, c->layouts, outcome);
    for (int i = 0; i < c->layouts; i++) {
        ff_stage_memory *stages = FF_ARENA_ARRAY(arena, c->layout[i].pp, ff_stage_memory);
        outcomes[i] = evaluate(evaluator, row, c, &c->layout[i], stages);
    }
    gather(p, c, outcomes);
    if (p->measured_s > 0)
        p->model_flops = share_of_peak(c, p->measured_s);
    ff_arena_free(arena);
    ff_evaluator_free(evaluator);
}
