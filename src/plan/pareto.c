#include "plan/pareto.h"

#include "base/fact.h"

#include "plan/trial.h"
#include <string.h>

static const double WORTH_A_ROW = 0.9; /* of the peak memory of the row before */
static const double TOO_SLOW = 2;      /* times the fastest of as many devices */

/* Undominated layouts of one cluster, by rising time and falling memory. */
typedef struct front {
    ff_plan_set set; /* what judging needs of one: job, space, evaluator */
    ff_candidate *best;
    int64_t count, room;
} front;

typedef struct row {
    int64_t devices, peak_bytes;
    double step_s, s_per_token, tokens_per_s_per_device;
    ff_verdict verdict;
    const char *layout;
} row;

typedef struct rows {
    ff_arena *arena;
    int64_t count, room;
    row *of;
} rows;

/* ---- one cluster ---- */

static void insert(front *f, const ff_candidate *c) {
    int64_t at = 0, kept;
    while (at < f->count && f->best[at].s_per_token <= c->s_per_token)
        at++;
    if (at > 0 && f->best[at - 1].peak_bytes <= c->peak_bytes)
        return;
    kept = at;
    while (kept < f->count && f->best[kept].peak_bytes >= c->peak_bytes)
        kept++;
    if (f->count + 1 - (kept - at) > f->room) {
        ff_candidate *more = FF_ARENA_ARRAY(f->set.arena, 2 * f->room, ff_candidate);
        memcpy(more, f->best, (size_t)f->count * sizeof *more);
        f->best = more;
        f->room *= 2;
    }
    memmove(&f->best[at + 1], &f->best[kept], (size_t)(f->count - kept) * sizeof *f->best);
    f->best[at] = *c;
    f->count += 1 - (kept - at);
}

static bool visit(void *context, const ff_point *point, ff_layout *layout) {
    front *f = context;
    ff_estimate estimate;
    ff_candidate c = {.point = *point};
    if (ff_space_is_counted(point)) {
        int64_t capacity = f->set.job.cluster.device.memory_bytes;
        if (ff_evaluate_fewest_recomputed(f->set.evaluator, layout, capacity) != FF_COUNT_SOME)
            return true;
        c.point.recomputed = (int32_t)layout->recompute_layers;
    }
    ff_evaluate_memory(f->set.evaluator, layout, &estimate, NULL);
    if (estimate.verdict == FF_TOO_BIG)
        return true;
    ff_evaluate_time(f->set.evaluator, layout, &estimate);
    c.peak_bytes = estimate.peak_bytes;
    c.s_per_token = estimate.s_per_token;
    insert(f, &c);
    return true;
}

static bool beats(const row *a, const row *b) {
    return a->devices <= b->devices && a->s_per_token <= b->s_per_token &&
           a->peak_bytes <= b->peak_bytes;
}

/* Rows are chosen by formula and timed by the run, so that one may beat others that came before. */
static void add(rows *all, const row *r) {
    int64_t left = 0;
    for (int64_t i = 0; i < all->count; i++)
        if (beats(&all->of[i], r))
            return;
    for (int64_t i = 0; i < all->count; i++)
        if (!beats(r, &all->of[i]))
            all->of[left++] = all->of[i];
    if (left == all->room) {
        all->room = all->room == 0 ? 64 : 2 * all->room;
        row *more = FF_ARENA_ARRAY(all->arena, all->room, row);
        if (left > 0)
            memcpy(more, all->of, (size_t)left * sizeof *more);
        all->of = more;
    }
    all->of[left++] = *r;
    all->count = left;
}

static void add_row(const ff_plan_set *set, const ff_candidate *c, rows *all) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_layout layout;
    ff_estimate e;
    ff_candidate_layout(set, c, &layout);
    ff_evaluate_memory(set->evaluator, &layout, &e, NULL);
    if (set->options.by_formula)
        ff_evaluate_time(set->evaluator, &layout, &e);
    else
        ff_evaluate_exactly(set->evaluator, &layout, &e);
    ff_layout_print(&layout, FF_LAYOUT_SHORT, text, sizeof text);
    add(all, &(row){.devices = set->job.cluster.devices,
                    .peak_bytes = e.peak_bytes,
                    .step_s = e.time.step_s,
                    .s_per_token = e.s_per_token,
                    .tokens_per_s_per_device = e.tokens_per_s_per_device,
                    .verdict = e.verdict,
                    .layout = ff_arena_copy(all->arena, text, strlen(text))});
}

static void add_front(const ff_plan_set *set, int64_t nodes, rows *all) {
    front *f = FF_ARENA_NEW(set->arena, front);
    f->set.arena = set->arena;
    f->set.job = set->job;
    f->set.options = set->options;
    ff_trial_set_nodes(&f->set.job.cluster, nodes);
    f->set.space = set->space;
    f->set.space.job = &f->set.job;
    f->set.evaluator = ff_evaluator_create(&f->set.job, NULL);
    f->room = 256;
    f->best = FF_ARENA_ARRAY(set->arena, f->room, ff_candidate);
    ff_walker walker = {.context = f, .visit = visit};
    if (f->set.evaluator != NULL)
        ff_space_walk(&f->set.space, set->arena, &walker);
    double before = 0;
    for (int64_t i = 0; i < f->count; i++) {
        double peak = (double)f->best[i].peak_bytes;
        if (f->best[i].s_per_token > TOO_SLOW * f->best[0].s_per_token)
            break;
        if (i > 0 && peak > WORTH_A_ROW * before)
            continue;
        before = peak;
        add_row(&f->set, &f->best[i], all);
    }
    ff_evaluator_free(f->set.evaluator);
}

/* ---- all ---- */

static void row_facts(const row *r, ff_facts *facts) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_integer(facts, "devices", r->devices);
    ff_facts_add_text(facts, "layout", "%s", r->layout);
    ff_facts_add_real(facts, "step_s", r->step_s);
    ff_facts_add_real(facts, "s_per_token", r->s_per_token);
    ff_facts_add_real(facts, "tokens_per_s_per_device", r->tokens_per_s_per_device);
    ff_facts_add_integer(facts, "peak_bytes", r->peak_bytes);
    ff_facts_add_text(facts, "verdict", "%s", ff_verdict_name(r->verdict));
    ff_facts_close(facts);
}

/* From the fewest devices, which beat more devices when they are as fast. */
void ff_pareto_facts(const ff_plan_set *set, ff_facts *facts) {
    rows *all = FF_ARENA_NEW(set->arena, rows);
    all->arena = set->arena;
    int64_t nodes = set->job.cluster.nodes, halvings = 0;
    while (nodes % 2 == 0 && nodes > 1) {
        nodes /= 2;
        halvings++;
    }
    for (int64_t i = 0; i <= halvings; i++, nodes *= 2) {
        if (i == halvings)
            add_row(set, &set->best[0], all);
        if (nodes * set->job.cluster.devices_per_node > 1)
            add_front(set, nodes, all);
    }
    ff_facts_open_list(facts, "pareto");
    for (int64_t i = 0; i < all->count; i++)
        row_facts(&all->of[i], facts);
    ff_facts_close(facts);
}
