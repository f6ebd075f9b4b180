#include "plan/search.h"

#include "base/number.h"
#include "plan/lesson.h"
#include "plan/refine.h"
#include "rules/rules.h"
#include <stdlib.h>
#include <string.h>

/* Up to here the best are kept in order as they come; above, all are kept and sorted. */
enum { LARGEST_ORDERED_TOP = 1000, MOST_ACTIVE = 5 };

static int sign(double difference) {
    return difference < 0 ? -1 : difference > 0;
}

/* What the objective wants small. */
static double merit(const ff_candidate *c, ff_objective objective) {
    return objective == FF_OBJECTIVE_MEMORY ? (double)c->peak_bytes : c->s_per_token;
}

/* Time a token or peak memory first; then time; then the earlier point. */
int ff_candidate_compare(const ff_candidate *a, const ff_candidate *b, ff_objective objective) {
    int first = 0;
    if (objective == FF_OBJECTIVE_MEMORY)
        first = sign((double)(a->peak_bytes - b->peak_bytes));
    if (first == 0)
        first = sign(a->s_per_token - b->s_per_token);
    return first != 0 ? first : sign((double)(a->order - b->order));
}

void ff_candidate_layout(const ff_plan_set *set, const ff_candidate *candidate, ff_layout *layout) {
    if (candidate->cut != NULL)
        *layout = *candidate->cut;
    else
        ff_space_layout(&set->space, &candidate->point, NULL, layout);
}

ff_candidate ff_candidate_copy(ff_arena *arena, const ff_candidate *candidate) {
    ff_candidate copy = *candidate;
    if (candidate->cut != NULL) {
        ff_layout *cut = FF_ARENA_NEW(arena, ff_layout);
        *cut = *candidate->cut;
        copy.cut = cut;
    }
    return copy;
}

int ff_point_active_dimensions(const ff_point *point) {
    return (point->value[FF_DIM_TP] > 1) + (point->value[FF_DIM_PP] > 1) +
           (point->value[FF_DIM_CP] > 1) + (point->value[FF_DIM_EP] > 1) +
           (point->value[FF_DIM_DP] > 1);
}

/* ---- keeping the best ---- */

static void keep(ff_plan_set *set, const ff_candidate *candidate) {
    bool all = set->keeps_all;
    if (set->kept == set->room) {
        if (!all &&
            ff_candidate_compare(candidate, &set->best[set->kept - 1], set->options.objective) >= 0)
            return;
        if (all) {
            set->room *= 2;
            ff_candidate *more =
                FF_ARENA_ARRAY(set->arena, set->room + FF_MOST_REFINED, ff_candidate);
            for (int64_t i = 0; i < set->kept; i++)
                more[i] = set->best[i];
            set->best = more;
        } else {
            set->kept--;
        }
    }
    int64_t at = set->kept++;
    if (!all)
        for (; at > 0 &&
               ff_candidate_compare(candidate, &set->best[at - 1], set->options.objective) < 0;
             at--)
            set->best[at] = set->best[at - 1];
    set->best[at] = *candidate;
}

static int compare_by_tokens(const void *a, const void *b) {
    return ff_candidate_compare(a, b, FF_OBJECTIVE_TOKENS);
}

static int compare_by_memory(const void *a, const void *b) {
    return ff_candidate_compare(a, b, FF_OBJECTIVE_MEMORY);
}

static void rank_all(ff_plan_set *set) {
    if (set->keeps_all && set->kept > 1)
        qsort(set->best, (size_t)set->kept, sizeof *set->best,
              set->options.objective == FF_OBJECTIVE_MEMORY ? compare_by_memory
                                                            : compare_by_tokens);
}

/* Among what is within the given share of the best, the fewest active dimensions come first, each
 * in its order. */
static void prefer_plain(ff_plan_set *set) {
    ff_objective objective = set->options.objective;
    if (set->options.near_ratio <= 0 || set->kept == 0)
        return;
    double limit = merit(&set->best[0], objective) * (1 + set->options.near_ratio);
    int64_t within = 0, placed = 0;
    while (within < set->kept && merit(&set->best[within], objective) <= limit)
        within++;
    ff_candidate *ranked = FF_ARENA_ARRAY(set->arena, within, ff_candidate);
    for (int active = 0; active <= MOST_ACTIVE; active++)
        for (int64_t i = 0; i < within; i++)
            if (ff_point_active_dimensions(&set->best[i].point) == active)
                ranked[placed++] = set->best[i];
    memcpy(set->best, ranked, (size_t)within * sizeof *ranked);
}

static void cut_to_top(ff_plan_set *set) {
    bool cut = set->options.top > 0 && set->kept > set->options.top;
    set->shown = cut ? set->options.top : set->kept;
}

/* ---- contrasts ---- */

static void note_roomy(ff_plan_set *set, const ff_candidate *c) {
    bool better =
        c->verdict == FF_FITS &&
        (!set->has_roomy || ff_candidate_compare(c, &set->roomy, set->options.objective) < 0);
    if (!better)
        return;
    set->roomy = *c;
    set->has_roomy = true;
}

/* Plainer: fewer active dimensions, then no recomputation, then the lower ZeRO stage. */
static bool plainer(const ff_candidate *a, const ff_candidate *b) {
    int difference = ff_point_active_dimensions(&a->point) - ff_point_active_dimensions(&b->point);
    return difference != 0 ? difference < 0 : a->order < b->order;
}

static void note_too_big(ff_plan_set *set, const ff_candidate *c) {
    if (!set->has_too_big || plainer(c, &set->too_big))
        set->too_big = *c;
    set->has_too_big = true;
    if (!set->has_nearest || c->peak_bytes < set->nearest.peak_bytes)
        set->nearest = *c;
    set->has_nearest = true;
}

/* ---- the walk ---- */

/* The first is looked at again for its reason, in case all are illegal. */
static void note_illegal(void *context, const ff_point *point, int64_t points) {
    ff_plan_set *set = context;
    ff_layout layout;
    set->counts.considered += points;
    set->counts.illegal += points;
    if (set->first_illegal != NULL)
        return;
    set->first_illegal = ff_diagnostics_create();
    ff_rule_case c = {.model = &set->job.model,
                      .cluster = &set->job.cluster,
                      .layout = &layout,
                      .seq = set->job.seq,
                      .gbs_sequences = ff_job_sequences(&set->job),
                      .gbs_exact = set->job.gbs_exact};
    if (ff_space_layout(&set->space, point, set->first_illegal, &layout))
        ff_rules_check(&c, set->first_illegal);
}

/* Whether bounds may be used: only where time decides, and once enough is kept. */
static bool is_bounded(const ff_plan_set *set) {
    return !set->options.no_prune && !set->keeps_all && set->kept == set->room && set->has_roomy &&
           set->options.objective == FF_OBJECTIVE_TOKENS;
}

/* Slower than all that is kept, and than the best with room: neither list can change. */
static bool is_hopeless(const ff_plan_set *set, double least_s) {
    return least_s >= set->best[set->kept - 1].s_per_token && least_s >= set->roomy.s_per_token;
}

static bool reject_too_big(ff_plan_set *set, const ff_candidate *candidate) {
    set->counts.too_big++;
    note_too_big(set, candidate);
    return true;
}

/* A cut may also lower a count of recomputed layers: then only the floor holds. */
static double least_s(const ff_plan_set *set, const ff_layout *layout,
                      const ff_candidate *candidate) {
    return ff_space_is_counted(&candidate->point) ? ff_evaluate_floor_s(set->evaluator, layout)
                                                  : ff_evaluate_least_s(set->evaluator, layout);
}

/* Schedules that must be run to be timed are first held against a bound. */
static bool time_it(ff_plan_set *set, const ff_layout *layout, ff_estimate *estimate,
                    ff_candidate *candidate) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    if (ff_schedule_splits(&shape) && is_bounded(set) &&
        is_hopeless(set, least_s(set, layout, candidate)))
        return false;
    ff_evaluate_time(set->evaluator, layout, estimate);
    candidate->s_per_token = estimate->s_per_token;
    return true;
}

/* Stages that differ by less are not cut anew (refine.h). */
static void note_uneven(ff_plan_set *set, const ff_layout *layout, const ff_estimate *estimate,
                        ff_candidate c) {
    if (layout->pp == 1 || set->options.by_formula)
        return;
    c.evened_s = ff_evaluate_evened_s(set->evaluator, layout, estimate);
    bool full = set->unevens == FF_MOST_REFINED;
    if (c.evened_s > FF_WORTHWHILE * c.s_per_token ||
        (full && c.evened_s >= set->uneven[set->unevens - 1].evened_s))
        return;
    int64_t at = set->unevens += !full;
    for (at--; at > 0 && c.evened_s < set->uneven[at - 1].evened_s; at--)
        set->uneven[at] = set->uneven[at - 1];
    set->uneven[at] = c;
}

static void keep_timed(ff_plan_set *set, const ff_layout *layout, ff_estimate *estimate,
                       ff_candidate *candidate) {
    if (!time_it(set, layout, estimate, candidate)) {
        set->counts.pruned++;
        return;
    }
    set->counts.estimated++;
    keep(set, candidate);
    note_roomy(set, candidate);
    note_uneven(set, layout, estimate, *candidate);
}

/* With the fewest recomputed layers that leave room, when the fewest that fit are tight. */
static void note_roomier(ff_plan_set *set, ff_layout *layout, ff_candidate candidate) {
    ff_estimate estimate;
    int64_t capacity = set->job.cluster.device.memory_bytes;
    int64_t limit = capacity - ff_ledger_margin(capacity, set->job.margin_bytes);
    if (ff_evaluate_fewest_recomputed(set->evaluator, layout, limit) != FF_COUNT_SOME)
        return;
    ff_evaluate_memory(set->evaluator, layout, &estimate, NULL);
    candidate.point.recomputed = (int32_t)layout->recompute_layers;
    candidate.verdict = estimate.verdict;
    candidate.peak_bytes = estimate.peak_bytes;
    if (time_it(set, layout, &estimate, &candidate))
        note_roomy(set, &candidate);
}

/* The fewest layers that fit. Where that is none or all of them the layout is another point's, and
 * not one of its own. */
static bool judge_counted(ff_plan_set *set, ff_candidate *candidate, ff_layout *layout) {
    ff_estimate estimate;
    ff_count_answer answer =
        ff_evaluate_fewest_recomputed(set->evaluator, layout, set->job.cluster.device.memory_bytes);
    if (answer == FF_COUNT_NONE || answer == FF_COUNT_ALL) {
        set->counts.illegal++;
        return true;
    }
    ff_evaluate_memory(set->evaluator, layout, &estimate, NULL);
    candidate->point.recomputed = (int32_t)layout->recompute_layers;
    candidate->verdict = estimate.verdict;
    candidate->peak_bytes = estimate.peak_bytes;
    if (answer == FF_COUNT_TOO_FEW)
        return reject_too_big(set, candidate);
    keep_timed(set, layout, &estimate, candidate);
    if (candidate->verdict == FF_TIGHT)
        note_roomier(set, layout, *candidate);
    return true;
}

static bool judge(void *context, const ff_point *point, ff_layout *layout) {
    ff_plan_set *set = context;
    ff_estimate estimate;
    ff_candidate candidate = {.point = *point, .order = set->counts.considered++};
    if (ff_space_is_counted(point))
        return judge_counted(set, &candidate, layout);
    ff_evaluate_memory(set->evaluator, layout, &estimate, NULL);
    candidate.verdict = estimate.verdict;
    candidate.peak_bytes = estimate.peak_bytes;
    if (estimate.verdict == FF_TOO_BIG)
        return reject_too_big(set, &candidate);
    keep_timed(set, layout, &estimate, &candidate);
    return true;
}

static bool worth_entering(void *context, const ff_point *point, const ff_layout *layout,
                           int64_t points) {
    ff_plan_set *set = context;
    (void)point;
    if (!is_bounded(set) || !is_hopeless(set, ff_evaluate_floor_s(set->evaluator, layout)))
        return true;
    set->counts.considered += points;
    set->counts.pruned += points;
    return false;
}

/* The first error among what was found. */
static const ff_diagnostic *first_error(const ff_diagnostics *list) {
    for (int i = 0; i < ff_diagnostics_count(list); i++)
        if (ff_diagnostics_at(list, i)->severity == FF_ERROR)
            return ff_diagnostics_at(list, i);
    return NULL;
}

static void explain_nothing(const ff_plan_set *set, ff_diagnostics *findings) {
    const ff_diagnostic *first = first_error(set->first_illegal);
    const char *by = set->lesson != NULL ? " by the lesson's ledger" : "";
    if (set->counts.considered == 0) {
        ff_report(findings, FF0503, FF_NOWHERE, "--where and --grid leave no layout");
        ff_report_help(findings, "loosen a condition");
        return;
    }
    if (set->counts.too_big > 0) {
        ff_report(findings, FF0501, FF_NOWHERE,
                  "none of %lld legal layouts fits %.1f GiB a device%s",
                  (long long)set->counts.too_big,
                  (double)set->job.cluster.device.memory_bytes / (1024.0 * 1024.0 * 1024.0), by);
        return;
    }
    ff_report(findings, FF0502, FF_NOWHERE, "none of %lld layouts is legal%s",
              (long long)set->counts.considered, by);
    if (first != NULL)
        ff_report_help(findings, "the first fails with %s: %s", first->code, first->message);
}

static ff_status refuse_job(const ff_job *job, ff_diagnostics *findings) {
    if (job->cluster.devices == 1) {
        ff_report(findings, FF0305, FF_NOWHERE, "%s is a single device", job->cluster.name);
        ff_report_help(findings,
                       "`fivefold check MODEL CLUSTER tp=1` says whether a model fits on it");
        return FF_INVALID;
    }
    if (job->gbs_tokens == 0) {
        ff_report(findings, FF0404, FF_NOWHERE, "a plan needs the global batch");
        ff_report_help(findings, "--gbs 4M (tokens) or --gbs 1024seq");
        return FF_INVALID;
    }
    return FF_OK;
}

static ff_plan_set *new_set(const ff_job *job, const ff_plan_options *options) {
    ff_arena *arena = ff_arena_create();
    ff_plan_set *set = FF_ARENA_NEW(arena, ff_plan_set);
    set->arena = arena;
    set->job = *job;
    set->options = *options;
    set->keeps_all =
        options->top == 0 || options->top > LARGEST_ORDERED_TOP || options->near_ratio > 0;
    set->room = set->keeps_all ? 1024 : options->top;
    set->room = (int)ff_max(set->room, ff_refined_most(options));
    set->best =
        FF_ARENA_ARRAY(arena, set->room + FF_MOST_REFINED, ff_candidate); /* see ff_refine */
    set->uneven = FF_ARENA_ARRAY(arena, FF_MOST_REFINED, ff_candidate);
    return set;
}

static ff_status search_lesson(ff_plan_set *set, ff_diagnostics *findings) {
    set->lesson = ff_lesson_search(set->arena, &set->job, &set->space, &set->counts, findings);
    if (set->lesson == NULL)
        return FF_INVALID;
    return ff_lesson_found(set->lesson) > 0 ? FF_OK : FF_NO;
}

static ff_status search_full(ff_plan_set *set, ff_diagnostics *findings) {
    set->evaluator = ff_evaluator_create(&set->job, findings);
    if (set->evaluator == NULL)
        return FF_BUG;
    ff_walker walker = {
        .context = set, .visit = judge, .illegal = note_illegal, .enter = worth_entering};
    ff_space_walk(&set->space, set->arena, &walker);
    rank_all(set);
    if (!set->options.by_formula)
        ff_refine(set);
    prefer_plain(set);
    cut_to_top(set);
    return set->kept > 0 ? FF_OK : FF_NO;
}

ff_status ff_plan_search(const ff_job *job, const ff_plan_options *options,
                         ff_diagnostics *findings, ff_plan_set **result) {
    *result = NULL;
    if (refuse_job(job, findings) != FF_OK)
        return FF_INVALID;
    ff_plan_set *set = new_set(job, options);
    *result = set;
    ff_status status = ff_space_init(&set->space, set->arena, &set->job, options, findings);
    if (status == FF_OK)
        status = job->ledger == FF_LEDGER_LESSON ? search_lesson(set, findings)
                                                 : search_full(set, findings);
    if (status == FF_NO)
        explain_nothing(set, findings);
    if (status == FF_OK || status == FF_NO)
        return status;
    ff_plan_free(set);
    *result = NULL;
    return status;
}

void ff_plan_free(ff_plan_set *set) {
    if (set == NULL)
        return;
    ff_evaluator_free(set->evaluator);
    ff_diagnostics_free(set->first_illegal);
    ff_arena_free(set->arena);
}
