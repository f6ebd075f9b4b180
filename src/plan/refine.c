#include "plan/refine.h"

#include "base/number.h"
#include "layout/keys.h"
#include "plan/split.h"
#include <string.h>

enum { MOST_MOVES = 4 };

/* A candidate in work: the layout, and the best that was made of it. */
typedef struct work {
    ff_plan_set *set;
    ff_candidate *candidate;
    ff_layout layout;
    int64_t limit_bytes;
} work;

/* ---- trying ---- */

/* Takes the layout's figures when it is faster and fits no tighter. */
static bool adopt(work *w, const ff_layout *layout) {
    ff_estimate estimate;
    ff_candidate *c = w->candidate;
    ff_evaluate_memory(w->set->evaluator, layout, &estimate, NULL);
    if (estimate.peak_bytes > w->limit_bytes)
        return false;
    ff_evaluate_exactly(w->set->evaluator, layout, &estimate);
    if (estimate.s_per_token >= FF_WORTHWHILE * c->s_per_token)
        return false;
    c->formula_ratio = estimate.formula_ratio;
    c->s_per_token = estimate.s_per_token;
    c->peak_bytes = estimate.peak_bytes;
    c->verdict = estimate.verdict;
    w->layout = *layout;
    ff_layout *cut = FF_ARENA_NEW(w->set->arena, ff_layout);
    *cut = *layout;
    c->cut = cut;
    return true;
}

/* ---- the best cut ---- */

static bool has_one_chunk(const ff_layout *layout) {
    return ff_schedule_own_chunks((ff_schedule_kind)layout->schedule) == 1;
}

static bool allows(const work *w, int choice) {
    return ff_space_allows(&w->set->space, FF_DIM_RECOMPUTE, choice);
}

/* Whether the user allows what a layout recomputes. */
static bool is_allowed(const work *w, const ff_layout *layout) {
    for (int i = 0; i < ff_recompute_choice_count; i++) {
        const ff_recompute_choice *choice = &ff_recompute_choices[i];
        bool counted = layout->recompute_layers > 0 || layout->recompute_stages > 0;
        if (choice->mode == layout->recompute && choice->modules == layout->recompute_modules &&
            choice->counted == counted)
            return allows(w, i);
    }
    return false;
}

/* Other numbers of recomputed layers only where the user allows a count at all. */
static ff_cut_recompute cut_recompute(const work *w) {
    bool counts = false;
    for (int i = 0; i < ff_recompute_choice_count; i++)
        counts |= ff_recompute_choices[i].counted && allows(w, i);
    if (w->layout.recompute == FF_RECOMPUTE_SELECTIVE)
        return FF_CUT_RECOMPUTES_NONE;
    if (counts)
        return FF_CUT_RECOMPUTES_FEWEST;
    return w->layout.recompute == FF_RECOMPUTE_FULL ? FF_CUT_RECOMPUTES_ALL
                                                    : FF_CUT_RECOMPUTES_NONE;
}

static void try_best_cut(work *w) {
    ff_split split;
    ff_split_inputs in =
        ff_evaluate_split_inputs(w->set->evaluator, &w->layout, w->limit_bytes, cut_recompute(w));
    if (!ff_split_best(&in, &split))
        return;
    ff_layout layout = ff_split_layout(&w->layout, &split);
    if (is_allowed(w, &layout))
        adopt(w, &layout);
}

/* ---- recomputed layers by stage ---- */

/* Stages do not share memory, so all are bisected at once. */
static void try_counts_by_stage(work *w) {
    ff_layout layout = w->layout;
    int64_t pp = layout.pp;
    ff_stage_memory *stages = FF_ARENA_ARRAY(w->set->arena, pp, ff_stage_memory);
    int16_t less[FF_LAYOUT_MAX_CHUNKS], enough[FF_LAYOUT_MAX_CHUNKS];
    ff_estimate estimate;
    for (int64_t s = 0; s < pp; s++) {
        less[s] = -1;
        enough[s] = (int16_t)layout.recompute_layers;
    }
    layout.recompute_stages = (int)pp;
    for (int64_t range = layout.recompute_layers + 1; range > 0; range /= 2) {
        for (int64_t s = 0; s < pp; s++)
            layout.recompute_of_stage[s] = (int16_t)((less[s] + enough[s] + 1) / 2);
        ff_evaluate_memory(w->set->evaluator, &layout, &estimate, stages);
        for (int64_t s = 0; s < pp; s++) {
            bool fits = stages[s].total_bytes <= w->limit_bytes;
            int16_t *end = fits ? enough : less;
            if (enough[s] - less[s] > 1)
                end[s] = layout.recompute_of_stage[s];
        }
    }
    memcpy(layout.recompute_of_stage, enough, (size_t)pp * sizeof *enough);
    layout.recompute_layers = 0;
    adopt(w, &layout);
}

/* ---- single layers ---- */

/* Of a stage's chunks the one with the most layers (sign 1, the last of several) or the fewest (-1,
 * the first), by its place in the model. */
static int64_t chunk_of(const ff_layout *layout, int64_t stage, int sign) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    int64_t best = ff_schedule_position(&shape, (int32_t)stage, 0);
    for (int32_t chunk = 1; chunk < shape.chunks; chunk++) {
        int64_t position = ff_schedule_position(&shape, (int32_t)stage, chunk);
        int more = sign * (layout->layers_of_chunk[position] - layout->layers_of_chunk[best]);
        if (more > 0 || (more == 0 && sign * (position - best) > 0))
            best = position;
    }
    return best;
}

/* From the slowest stage's largest chunk to the fastest one's smallest. */
static bool move_layer(work *w) {
    ff_layout layout = w->layout;
    const double *stage_s = ff_evaluate_stages_s(w->set->evaluator, &layout, w->set->arena);
    int64_t slowest = 0, fastest = 0;
    for (int64_t s = 1; s < layout.pp; s++) {
        slowest = stage_s[s] > stage_s[slowest] ? s : slowest;
        fastest = stage_s[s] < stage_s[fastest] ? s : fastest;
    }
    int64_t from = chunk_of(&layout, slowest, 1), to = chunk_of(&layout, fastest, -1);
    double layer_s = stage_s[slowest] / (double)ff_max(1, ff_stage_units(&layout, slowest));
    if (layout.layers_of_chunk[from] < 2 || stage_s[slowest] - stage_s[fastest] < layer_s)
        return false;
    layout.layers_of_chunk[from]--;
    layout.layers_of_chunk[to]++;
    ff_split_mark(&layout);
    return adopt(w, &layout);
}

/* ---- one candidate ---- */

static void refine(ff_plan_set *set, ff_candidate *c) {
    work w = {.set = set, .candidate = c};
    ff_estimate estimate;
    int64_t capacity = set->job.cluster.device.memory_bytes;
    ff_candidate_layout(set, c, &w.layout);
    ff_evaluate_memory(set->evaluator, &w.layout, &estimate, NULL);
    ff_evaluate_exactly(set->evaluator, &w.layout, &estimate);
    c->formula_ratio = estimate.formula_ratio;
    c->s_per_token = estimate.s_per_token;
    w.limit_bytes = c->verdict == FF_TIGHT
                        ? capacity
                        : capacity - ff_ledger_margin(capacity, set->job.margin_bytes);
    if (w.layout.pp == 1)
        return;
    if (has_one_chunk(&w.layout)) {
        try_best_cut(&w);
        return;
    }
    if (w.layout.recompute_layers > 0)
        try_counts_by_stage(&w);
    for (int moves = 0; moves < MOST_MOVES && move_layer(&w); moves++)
        ;
}

/* ---- all ---- */

/* Stable: equal times keep their order. */
static void sort_by_time(ff_candidate *best, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        ff_candidate c = best[i];
        int64_t at = i;
        for (; at > 0 && ff_candidate_compare(&c, &best[at - 1], FF_OBJECTIVE_TOKENS) < 0; at--)
            best[at] = best[at - 1];
        best[at] = c;
    }
}

static int64_t place_of(const ff_plan_set *set, int64_t order) {
    int64_t at = 0;
    while (at < set->kept && set->best[at].order != order)
        at++;
    return at;
}

/* The best with room may be another one now. */
static void refine_roomy(ff_plan_set *set, int64_t count) {
    if (set->has_roomy) {
        set->roomy.formula_rank = (int32_t)place_of(set, set->roomy.order) + 1;
        refine(set, &set->roomy);
    }
    for (int64_t i = 0; i < count && set->has_roomy; i++) {
        if (set->best[i].verdict != FF_FITS)
            continue;
        if (ff_candidate_compare(&set->best[i], &set->roomy, FF_OBJECTIVE_TOKENS) < 0)
            set->roomy = set->best[i];
        return;
    }
}

int ff_refined_most(const ff_plan_options *options) {
    return options->without_reasons ? FF_FEW_REFINED : FF_MOST_REFINED;
}

/* Two points may have been cut into one layout. */
static bool is_same(const ff_plan_set *set, const ff_candidate *a, const ff_candidate *b) {
    char one[FF_LAYOUT_TEXT_BYTES], other[FF_LAYOUT_TEXT_BYTES];
    ff_layout layout;
    if (a->s_per_token != b->s_per_token || a->peak_bytes != b->peak_bytes)
        return false;
    ff_candidate_layout(set, a, &layout);
    ff_layout_print(&layout, FF_LAYOUT_FULL, one, sizeof one);
    ff_candidate_layout(set, b, &layout);
    ff_layout_print(&layout, FF_LAYOUT_FULL, other, sizeof other);
    return strcmp(one, other) == 0;
}

/* Leaves out what is the same as one before it; equal ones lie next to each other in time. */
static int64_t drop_twins(ff_plan_set *set, int64_t count) {
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        bool twin = false;
        for (int64_t j = left - 1;
             j >= 0 && !twin && set->best[j].s_per_token == set->best[i].s_per_token; j--)
            twin = is_same(set, &set->best[j], &set->best[i]);
        if (!twin)
            set->best[left++] = set->best[i];
    }
    memmove(&set->best[left], &set->best[count], (size_t)(set->kept - count) * sizeof *set->best);
    set->kept -= count - left;
    return left;
}

/* Whether one that was not run might be first: the formula is at most so much above the run. */
static bool is_capped(const ff_plan_set *set, int64_t count) {
    double limit = set->best[0].s_per_token * (1 + FF_REFINE_BOUND);
    return count < set->kept && set->best[count].s_per_token <= limit;
}

/* Moves a candidate, which may be none of the kept, to the end of those that were run. */
static void promote(ff_plan_set *set, const ff_candidate *c, int64_t count) {
    int64_t at = place_of(set, c->order);
    set->kept += at == set->kept;
    memmove(&set->best[count + 1], &set->best[count], (size_t)(at - count) * sizeof *set->best);
    set->best[count] = *c;
}

/* Those that are not among the best by formula, but may be once their stages are even. Only what
 * then comes before the last of the best counts, so that bounds cannot have skipped it. */
static int64_t lift_uneven(ff_plan_set *set, int64_t count, double limit_s) {
    for (int64_t i = 0; i < set->unevens; i++) {
        ff_candidate c = set->uneven[i];
        int64_t at = place_of(set, c.order);
        if (c.evened_s >= limit_s || at < count)
            continue;
        c.formula_rank = (int32_t)at + 1;
        refine(set, &c);
        if (c.cut == NULL || c.s_per_token >= limit_s)
            continue;
        promote(set, &c, count++);
    }
    return count;
}

void ff_refine(ff_plan_set *set) {
    if (set->kept == 0 || set->options.objective != FF_OBJECTIVE_TOKENS)
        return;
    int64_t count = ff_min(set->kept, ff_refined_most(&set->options));
    double limit_s = set->best[count - 1].s_per_token;
    for (int64_t i = 0; i < count; i++) {
        set->best[i].formula_rank = (int32_t)i + 1;
        refine(set, &set->best[i]);
    }
    int64_t by_formula = count;
    count = lift_uneven(set, count, limit_s);
    sort_by_time(set->best, count);
    count = drop_twins(set, count);
    refine_roomy(set, count);
    set->refined = (ff_refined){.count = count, .capped = is_capped(set, count)};
    for (int64_t i = 0; i < count; i++) {
        set->refined.lifted += set->best[i].formula_rank > by_formula;
        set->refined.cuts += set->best[i].cut != NULL;
        set->refined.moved += i > 0 && set->best[i].formula_rank < set->best[i - 1].formula_rank;
    }
}
