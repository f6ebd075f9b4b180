/* The answer of a search as facts: the plans, the three steps of the first with this model's
 * numbers, the second's difference term by term, and the contrasts. */
#include "base/number.h"
#include "base/units.h"
#include "cluster/describe.h"
#include "plan/entry.h"
#include "plan/lesson.h"
#include "plan/pareto.h"
#include "plan/reasons.h"
#include "plan/refine.h"
#include "plan/remedy.h"
#include "plan/search.h"
#include <stdio.h>
#include <string.h>

static const double GIB = 1024.0 * 1024.0 * 1024.0;

/* A candidate looked at again, in full. */
typedef struct view {
    ff_layout layout;
    ff_estimate estimate;
    ff_stage_memory *stages;
    const char *text;
} view;

static void look_again(const ff_plan_set *set, const ff_candidate *candidate, bool timed, view *v) {
    char whole[FF_LAYOUT_TEXT_BYTES];
    ff_candidate_layout(set, candidate, &v->layout);
    v->stages = FF_ARENA_ARRAY(set->arena, v->layout.pp, ff_stage_memory);
    ff_evaluate_memory(set->evaluator, &v->layout, &v->estimate, v->stages);
    bool run = candidate->formula_rank > 0; /* the others were ranked by formula */
    if (timed && !run && set->options.objective == FF_OBJECTIVE_TOKENS)
        ff_evaluate_time(set->evaluator, &v->layout, &v->estimate);
    else if (timed)
        ff_evaluate_exactly(set->evaluator, &v->layout, &v->estimate);
    ff_layout_print(&v->layout, FF_LAYOUT_SHORT, whole, sizeof whole);
    v->text = ff_arena_copy(set->arena, whole, strlen(whole));
}

static int64_t state_bytes(const ff_stage_memory *m) {
    return ff_add(ff_add(m->weights_bytes, m->gradients_bytes), m->optimizer_bytes);
}

/* ---- the three steps ---- */

static void open_step(ff_facts *facts, const char *step) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "step", "%s", step);
}

/* What splits the state: "tp=4, pp=2 and zero=1 over 16 ranks". */
static void describe_split(const ff_layout *l, char *text, size_t bytes) {
    char parts[4][48];
    int count = 0;
    const struct {
        const char *name;
        int64_t size;
    } splits[] = {{"tp", l->tp}, {"pp", l->pp}, {"ep", l->ep}};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (splits[i].size > 1)
            snprintf(parts[count++], sizeof parts[0], "%s=%lld", splits[i].name,
                     (long long)splits[i].size);
    if (l->zero > 0 && ff_dense_shard_ranks(l) > 1)
        snprintf(parts[count++], sizeof parts[0], "zero=%d over %lld ranks", l->zero,
                 (long long)ff_dense_shard_ranks(l));
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                 i == 0           ? ""
                                 : i == count - 1 ? " and "
                                                  : ", ",
                                 parts[i]);
    if (count == 0)
        snprintf(text, bytes, "nothing is split");
}

static void fit_step(const view *v, ff_facts *facts) {
    const ff_stage_memory *m = &v->stages[v->estimate.peak_stage];
    int64_t held = ff_add(m->activations_bytes, m->buffers_bytes);
    const char *flights = v->layout.vpp > 1   ? "chunks of microbatches"
                          : m->in_flight == 1 ? "microbatch"
                                              : "microbatches";
    char split[256];
    describe_split(&v->layout, split, sizeof split);
    open_step(facts, "fit");
    ff_facts_add_text(facts, "text",
                      "%s: states %.1f GiB; activations and buffers %.1f (%lld %s in flight); "
                      "runtime %.1f; together %.1f of %.1f GiB on stage %lld",
                      split, (double)state_bytes(m) / GIB, (double)held / GIB,
                      (long long)m->in_flight, flights, (double)m->runtime_bytes / GIB,
                      (double)v->estimate.peak_bytes / GIB,
                      (double)v->estimate.capacity_bytes / GIB, (long long)v->estimate.peak_stage);
    ff_facts_close(facts);
}

/* Interleaving grows the batch by whole groups of microbatches. */
static int64_t batch_unit(const ff_job *job, const ff_layout *l) {
    int64_t microbatches = l->schedule == FF_SCHEDULE_INTERLEAVED ? l->pp : 1;
    return ff_mul(ff_mul3(l->mbs, l->dp, job->seq), microbatches);
}

static void batch_step(const ff_job *job, const view *v, ff_facts *facts) {
    const ff_layout *l = &v->layout;
    int64_t actual = v->estimate.batch_tokens, smaller = actual - batch_unit(job, l);
    char batch[FF_VALUE_BYTES], below[FF_VALUE_BYTES], seq[FF_VALUE_BYTES], less[128];
    ff_format_count((double)actual, 4, batch, sizeof batch);
    ff_format_count((double)smaller, 4, below, sizeof below);
    ff_format_integer(job->seq, seq, sizeof seq);
    snprintf(less, sizeof less,
             smaller > 0 ? "the next smaller batch is %s" : "it cannot run a smaller batch", below);
    open_step(facts, "batch");
    ff_facts_add_text(facts, "text",
                      "dp=%lld x mbs=%lld x %lld microbatch%s x %s = %s tokens "
                      "(%+.1f%%); %s",
                      (long long)l->dp, (long long)l->mbs, (long long)l->microbatches,
                      l->microbatches == 1 ? "" : "es", seq, batch,
                      100 * ((double)actual / (double)job->gbs_tokens - 1), less);
    ff_facts_close(facts);
}

static double share(double part_s, const ff_step_time *time) {
    return 100 * part_s / time->step_s;
}

static void speed_step(const view *v, const ff_reaches *reaches, ff_facts *facts) {
    const ff_step_time *t = &v->estimate.time;
    static const char *const names[FF_EXPOSED_COUNT] = {"TP", "PP", "CP", "EP", "DP"};
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, "compute %.1f%%", share(t->compute_s, t));
    if (v->layout.pp > 1)
        used += (size_t)snprintf(text + used, sizeof text - used, ", bubble %.1f%%",
                                 share(t->bubble_s, t));
    const bool active[FF_EXPOSED_COUNT] = {v->layout.tp > 1, v->layout.pp > 1, v->layout.cp > 1,
                                           v->layout.ep > 1, v->layout.dp * v->layout.cp > 1};
    const ff_reach *reach[FF_EXPOSED_COUNT] = {&reaches->tp, &reaches->pp, &reaches->cp,
                                               &reaches->ep, &reaches->dp_cp};
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        if (active[i])
            used +=
                (size_t)snprintf(text + used, sizeof text - used, ", %s %.1f%% exposed (%s)",
                                 names[i], share(t->exposed_s[i], t),
                                 reach[i]->domains > 1 ? "over the network" : "inside the domain");
    open_step(facts, "speed");
    ff_facts_add_text(facts, "text", "%s, optimizer %.1f%%", text, share(t->optimizer_s, t));
    ff_facts_close(facts);
}

static int64_t head_stage(const ff_layout *layout) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    int32_t last = ff_schedule_model_chunks(&shape) - 1, stage = shape.stages - 1;
    for (int32_t s = 0; s < shape.stages; s++)
        if (ff_schedule_position(&shape, s, shape.chunks - 1) == last)
            stage = s;
    return stage;
}

/* Only where stages were cut anew; the head's weight is the usual reason, so it says where that is. */
static void cut_step(const view *v, ff_facts *facts) {
    char text[256];
    int64_t stage = head_stage(&v->layout);
    ff_split_describe(&v->layout, text, sizeof text);
    open_step(facts, "cut");
    ff_facts_add_text(facts, "text", "%s; the head lies on stage %lld", text, (long long)stage);
    ff_facts_close(facts);
}

static void steps_facts(const ff_plan_set *set, const view *first, ff_facts *facts) {
    ff_reaches reaches;
    ff_evaluate_reaches(set->evaluator, &first->layout, &reaches);
    ff_facts_open_list(facts, "steps");
    fit_step(first, facts);
    batch_step(&set->job, first, facts);
    speed_step(first, &reaches, facts);
    if (set->best[0].cut != NULL)
        cut_step(first, facts);
    ff_facts_close(facts);
}

/* ---- first against second ---- */

typedef struct term {
    const char *name;
    double first_s, second_s;
} term;

enum { TERMS = 3 + FF_EXPOSED_COUNT };

static void terms_of(const ff_step_time *a, const ff_step_time *b, term *terms) {
    static const char *const names[FF_EXPOSED_COUNT] = {"TP", "PP transfers", "CP", "EP", "DP"};
    terms[0] = (term){"compute", a->compute_s, b->compute_s};
    terms[1] = (term){"bubble", a->bubble_s, b->bubble_s};
    terms[2] = (term){"optimizer", a->optimizer_s, b->optimizer_s};
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        terms[3 + i] = (term){names[i], a->exposed_s[i], b->exposed_s[i]};
}

/* Steps of different batches are compared at the first one's batch, by what counts of each. */
static double scale_of(const view *to, const view *from) {
    return (double)to->estimate.counted_tokens / (double)from->estimate.counted_tokens;
}

static void against_facts(const view *first, const view *second, ff_facts *facts) {
    term terms[TERMS];
    double scale = scale_of(first, second);
    terms_of(&first->estimate.time, &second->estimate.time, terms);
    ff_facts_open_record(facts, "against");
    ff_facts_add_text(facts, "first", "%s", first->text);
    ff_facts_add_text(facts, "second", "%s", second->text);
    ff_facts_add_real(facts, "total_s",
                      first->estimate.time.step_s - scale * second->estimate.time.step_s);
    ff_facts_add_boolean(facts, "batches_differ",
                         first->estimate.batch_tokens != second->estimate.batch_tokens);
    ff_facts_open_list(facts, "terms");
    for (int i = 0; i < TERMS; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "term", "%s", terms[i].name);
        ff_facts_add_real(facts, "delta_s", terms[i].first_s - scale * terms[i].second_s);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
    ff_facts_close(facts);
}

/* ---- contrasts ---- */

/* The term that costs most against the first plan, in words. */
static void worst_term(const ff_plan_set *set, const view *first, const view *slow, char *text,
                       size_t bytes) {
    term terms[TERMS];
    double scale = scale_of(first, slow), worst_s = 0;
    int worst = 0;
    terms_of(&first->estimate.time, &slow->estimate.time, terms);
    for (int i = 0; i < TERMS; i++) {
        double extra_s = scale * terms[i].second_s - terms[i].first_s;
        if (extra_s > worst_s) {
            worst_s = extra_s;
            worst = i;
        }
    }
    const ff_cluster *cluster = &set->job.cluster;
    if (slow->layout.tp > cluster->domain_devices)
        snprintf(text, bytes,
                 "TP leaves the domain of %lld: %.0f GB/s a device instead of %.0f; %s +%.2f s",
                 (long long)cluster->domain_devices, cluster->tier[FF_TIER_NETWORK].Bps / 1e9,
                 cluster->tier[FF_TIER_DOMAIN].Bps / 1e9, terms[worst].name, worst_s);
    else
        snprintf(text, bytes, "%s +%.2f s a step", terms[worst].name, worst_s);
}

/* When the first fits only tightly: the fastest one with room to spare. */
static void with_room_facts(const ff_plan_set *set, const view *first, ff_facts *facts) {
    view roomy;
    if (first->estimate.verdict == FF_FITS || !set->has_roomy)
        return;
    look_again(set, &set->roomy, true, &roomy);
    ff_facts_open_record(facts, "with_room");
    ff_facts_add_text(facts, "layout", "%s", roomy.text);
    ff_facts_add_real(facts, "step_s", roomy.estimate.time.step_s);
    ff_facts_add_real(facts, "ratio", roomy.estimate.s_per_token / first->estimate.s_per_token);
    ff_facts_add_integer(facts, "peak_bytes", roomy.estimate.peak_bytes);
    ff_facts_close(facts);
}

/* The best of a kind of layout that fits but is known to be slow: tp outside the domain, else
 * recomputing all. A search of its own finds it, since bounds skip it in the first. */
static bool find_slow(const ff_plan_set *set, ff_candidate *slow) {
    char across[96];
    const char *const wheres[] = {across, "recompute=full,zero_group=0,order=0"};
    snprintf(across, sizeof across, "tp=%lld,zero_group=0,order=0",
             (long long)ff_mul(2, set->job.cluster.domain_devices));
    for (size_t i = 0; i < sizeof wheres / sizeof *wheres; i++) {
        ff_plan_options options = {.top = 1,
                                   .where = wheres[i],
                                   .by_formula = set->options.by_formula,
                                   .without_reasons = true};
        ff_plan_set *found = NULL;
        bool fits = ff_plan_search(&set->job, &options, NULL, &found) == FF_OK;
        if (fits)
            *slow = ff_candidate_copy(set->arena, &found->best[0]);
        ff_plan_free(found);
        if (fits)
            return true;
    }
    return false;
}

static void slow_facts(const ff_plan_set *set, const view *first, ff_facts *facts) {
    ff_candidate candidate;
    view slow;
    char why[256];
    if (!find_slow(set, &candidate))
        return;
    look_again(set, &candidate, true, &slow);
    double ratio = slow.estimate.s_per_token / first->estimate.s_per_token;
    if (ratio < 1.02)
        return;
    worst_term(set, first, &slow, why, sizeof why);
    ff_facts_open_record(facts, "slow");
    ff_facts_add_text(facts, "layout", "%s", slow.text);
    ff_facts_add_real(facts, "step_s", slow.estimate.time.step_s);
    ff_facts_add_real(facts, "ratio", ratio);
    ff_facts_add_text(facts, "why", "%s", why);
    ff_facts_close(facts);
}

static const char *dominant_part(const ff_stage_memory *m, int64_t *bytes) {
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {{"weights", m->weights_bytes},           {"gradients", m->gradients_bytes},
                 {"optimizer state", m->optimizer_bytes}, {"activations", m->activations_bytes},
                 {"buffers", m->buffers_bytes},           {"runtime", m->runtime_bytes}};
    size_t largest = 0;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes > parts[largest].bytes)
            largest = i;
    *bytes = parts[largest].bytes;
    return parts[largest].name;
}

static void memory_gap_facts(const view *v, ff_facts *facts) {
    ff_facts_add_text(facts, "layout", "%s", v->text);
    ff_facts_add_integer(facts, "peak_bytes", v->estimate.peak_bytes);
    ff_facts_add_integer(facts, "capacity_bytes", v->estimate.capacity_bytes);
    ff_facts_add_integer(facts, "over_bytes", v->estimate.peak_bytes - v->estimate.capacity_bytes);
}

static void too_big_facts(const ff_plan_set *set, ff_facts *facts) {
    view v;
    int64_t bytes;
    look_again(set, &set->too_big, false, &v);
    const char *part = dominant_part(&v.stages[v.estimate.peak_stage], &bytes);
    ff_facts_open_record(facts, "too_big");
    memory_gap_facts(&v, facts);
    ff_facts_add_text(facts, "why", "%.1f GiB of %s", (double)bytes / GIB, part);
    ff_facts_close(facts);
}

/* ---- when nothing fits ---- */

static void nothing_fits_facts(const ff_plan_set *set, ff_facts *facts) {
    view v;
    int64_t bytes;
    look_again(set, &set->nearest, false, &v);
    const char *part = dominant_part(&v.stages[v.estimate.peak_stage], &bytes);
    ff_remedy remedies[FF_MOST_REMEDIES];
    int count = ff_remedies_find(set, v.estimate.peak_bytes, remedies);
    ff_facts_open_record(facts, "nothing_fits");
    memory_gap_facts(&v, facts);
    ff_facts_add_text(facts, "dominant", "%.1f GiB of %s", (double)bytes / GIB, part);
    ff_facts_open_list(facts, "changes");
    for (int i = 0; i < count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "text", "%s", remedies[i].text);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
    ff_facts_close(facts);
}

/* ---- the document ---- */

/* What running the best came to. */
static void refined_facts(const ff_plan_set *set, ff_facts *facts) {
    const ff_refined *r = &set->refined;
    ff_facts_open_record(facts, "simulated");
    ff_facts_add_integer(facts, "layouts", r->count - r->lifted);
    ff_facts_add_integer(facts, "lifted", r->lifted);
    ff_facts_add_real(facts, "bound_ratio", FF_REFINE_BOUND);
    ff_facts_add_boolean(facts, "capped", r->capped);
    ff_facts_add_integer(facts, "moved", r->moved);
    ff_facts_add_boolean(facts, "order_changed", r->moved > 0);
    ff_facts_add_integer(facts, "first_was", set->best[0].formula_rank);
    ff_facts_add_integer(facts, "stages_changed", r->cuts);
    ff_facts_close(facts);
}

static void search_facts(const ff_plan_set *set, double elapsed_s, ff_facts *facts) {
    const ff_search_counts *c = &set->counts;
    ff_facts_open_record(facts, "search");
    ff_facts_add_integer(facts, "considered", c->considered);
    ff_facts_add_integer(facts, "illegal", c->illegal);
    ff_facts_add_integer(facts, "pruned", c->pruned);
    ff_facts_add_integer(facts, "too_big", c->too_big);
    ff_facts_add_integer(facts, "estimated", c->estimated);
    ff_facts_add_real(facts, "elapsed_s", elapsed_s);
    if (set->refined.count > 0)
        refined_facts(set, facts);
    ff_facts_close(facts);
}

static void full_facts(const ff_plan_set *set, ff_facts *facts) {
    view first, second;
    ff_facts_open_list(facts, "plans");
    for (int64_t i = 0; i < set->shown; i++) {
        view v;
        look_again(set, &set->best[i], true, &v);
        ff_facts_open_record(facts, NULL);
        ff_facts_add_integer(facts, "rank", i + 1);
        ff_entry_facts(&set->job, &v.layout, &v.estimate, v.stages, facts);
        ff_facts_close(facts);
        if (i == 0)
            first = v;
        if (i == 1)
            second = v;
    }
    ff_facts_close(facts);
    if (set->kept == 0) {
        if (set->has_nearest)
            nothing_fits_facts(set, facts);
        return;
    }
    steps_facts(set, &first, facts);
    if (set->shown > 1)
        against_facts(&first, &second, facts);
    with_room_facts(set, &first, facts);
    slow_facts(set, &first, facts);
    if (set->has_too_big)
        too_big_facts(set, facts);
    if (set->options.pareto)
        ff_pareto_facts(set, facts);
    if (!set->options.without_reasons)
        ff_reasons_facts(set, facts);
}

/* The question's own settings, so that an answer says what it answers. */
static void options_facts(const ff_plan_options *o, ff_facts *facts) {
    ff_facts_open_record(facts, "options");
    ff_facts_add_integer(facts, "top", o->top);
    ff_facts_add_text(facts, "where", "%s", o->where == NULL ? "" : o->where);
    ff_facts_add_text(facts, "grid", "%s", o->grid == NULL ? "" : o->grid);
    ff_facts_add_text(facts, "objective", "%s",
                      o->objective == FF_OBJECTIVE_MEMORY ? "memory" : "tokens");
    ff_facts_add_real(facts, "near_ratio", o->near_ratio);
    ff_facts_add_integer(facts, "share", o->shares > 0 ? o->share : 1);
    ff_facts_add_integer(facts, "shares", o->shares > 0 ? o->shares : 1);
    ff_facts_add_boolean(facts, "prune", !o->no_prune);
    ff_facts_add_boolean(facts, "simulate", !o->by_formula);
    ff_facts_close(facts);
}

void ff_plan_facts(const ff_plan_set *set, double elapsed_s, ff_facts *facts) {
    ff_document_head(facts, "plan");
    ff_inputs_of_job(&set->job, facts);
    options_facts(&set->options, facts);
    ff_facts_open_record(facts, "model");
    ff_model_summary(&set->job.model, facts);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "cluster");
    ff_cluster_facts(&set->job.cluster, facts);
    ff_facts_close(facts);
    search_facts(set, elapsed_s, facts);
    if (set->lesson != NULL)
        ff_lesson_facts(set->lesson, &set->job, set->options.top, facts);
    else
        full_facts(set, facts);
}
