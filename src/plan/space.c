#include "plan/space.h"

#include "base/number.h"
#include "cost/profile.h"
#include "layout/keys.h"
#include "rules/rules.h"
#include <string.h>

/* From cheap to dear; core attention is offered where the kernels keep scores. */
const ff_recompute_choice ff_recompute_choices[] = {
    {"none", FF_RECOMPUTE_NONE, 0, false},
    {"selective:norm+act", FF_RECOMPUTE_SELECTIVE, FF_MODULE_NORM | FF_MODULE_ACTIVATION, false},
    {"selective:core", FF_RECOMPUTE_SELECTIVE, FF_MODULE_CORE, false},
    {"selective:mlp+norm", FF_RECOMPUTE_SELECTIVE, FF_MODULE_MLP | FF_MODULE_NORM, false},
    {"full:N", FF_RECOMPUTE_FULL, 0, true},
    {"full", FF_RECOMPUTE_FULL, 0, false},
};
const int ff_recompute_choice_count = sizeof ff_recompute_choices / sizeof *ff_recompute_choices;

enum { LARGEST_MBS = 16, LARGEST_VPP = 8 };

/* Dense axes from innermost out; tp is always innermost, since every layer waits for it. */
static const ff_axis orders[][4] = {
    {FF_AXIS_TP, FF_AXIS_CP, FF_AXIS_DP, FF_AXIS_PP},
    {FF_AXIS_TP, FF_AXIS_DP, FF_AXIS_CP, FF_AXIS_PP},
    {FF_AXIS_TP, FF_AXIS_CP, FF_AXIS_PP, FF_AXIS_DP},
    {FF_AXIS_TP, FF_AXIS_PP, FF_AXIS_CP, FF_AXIS_DP},
    {FF_AXIS_TP, FF_AXIS_DP, FF_AXIS_PP, FF_AXIS_CP},
    {FF_AXIS_TP, FF_AXIS_PP, FF_AXIS_DP, FF_AXIS_CP},
};
enum { ORDERS = sizeof orders / sizeof *orders };

/* ---- values of a dimension ---- */

typedef struct values {
    int count;
    int32_t value[FF_MOST_CHOICES * 4];
} values;

static void add(const ff_space *space, ff_dimension dimension, values *v, int64_t value) {
    int room = (int)(sizeof v->value / sizeof *v->value);
    if (v->count < room && ff_space_allows(space, dimension, value))
        v->value[v->count++] = (int32_t)value;
}

static bool add_choices(const ff_space *space, ff_dimension dimension, values *v) {
    v->count = 0;
    for (int i = 0; i < space->choices[dimension]; i++)
        add(space, dimension, v, space->choice[dimension][i]);
    return space->choices[dimension] > 0;
}

/* Divisors of `whole` in rising order. */
static void divisors(const ff_space *space, ff_dimension dimension, int64_t whole, int64_t most,
                     values *v) {
    if (add_choices(space, dimension, v))
        return;
    for (int64_t d = 1; d <= ff_min(whole, most); d++)
        if (whole % d == 0)
            add(space, dimension, v, d);
}

static void powers(const ff_space *space, ff_dimension dimension, int64_t most, values *v) {
    if (add_choices(space, dimension, v))
        return;
    for (int64_t value = 1; value <= ff_max(1, most); value *= 2)
        add(space, dimension, v, value);
}

static void numbers(const ff_space *space, ff_dimension dimension, int first, int last, values *v) {
    if (add_choices(space, dimension, v))
        return;
    for (int value = first; value <= last; value++)
        add(space, dimension, v, value);
}

/* Chunks a stage: those that split a stage's layers evenly, and powers of two. */
static void chunk_counts(const ff_space *space, int64_t pp, values *v) {
    if (add_choices(space, FF_DIM_VPP, v))
        return;
    int64_t layers = space->job->model.layers, most = pp > 1 ? ff_min(LARGEST_VPP, layers / pp) : 1;
    for (int64_t chunks = 1; chunks <= ff_max(1, most); chunks++) {
        bool even = layers % (pp * chunks) == 0, power = (chunks & (chunks - 1)) == 0;
        if (chunks == 1 || even || power)
            add(space, FF_DIM_VPP, v, chunks);
    }
}

/* What the stack runs, unless the user names others. */
static void schedule_kinds(const ff_space *space, values *v) {
    bool named = ff_space_names(space, FF_DIM_SCHEDULE);
    if (add_choices(space, FF_DIM_SCHEDULE, v))
        return;
    for (int kind = 0; kind < FF_SCHEDULE_COUNT; kind++)
        if (named || (space->job->profile->schedules & 1u << kind) != 0)
            add(space, FF_DIM_SCHEDULE, v, kind);
}

/* What runs the pipeline: schedule and chunks a stage together. */
typedef struct pipeline {
    int32_t schedule, vpp;
} pipeline;

typedef struct pipelines {
    int count;
    pipeline of[FF_MOST_CHOICES];
} pipelines;

static void add_pipelines(ff_schedule_kind kind, const values *chunks, pipelines *all) {
    int own = ff_schedule_own_chunks(kind);
    for (int i = 0; i < chunks->count && all->count < FF_MOST_CHOICES; i++)
        if (own == 0 ? chunks->value[i] > 1 : chunks->value[i] == own)
            all->of[all->count++] = (pipeline){(int32_t)kind, chunks->value[i]};
}

/* On one stage all schedules are one. */
static void fill_pipelines(const ff_space *space, int64_t pp, pipelines *all) {
    values kinds, chunks;
    schedule_kinds(space, &kinds);
    chunk_counts(space, pp, &chunks);
    all->count = 0;
    for (int i = 0; i < kinds.count; i++)
        if (pp > 1 || kinds.value[i] == FF_SCHEDULE_1F1B)
            add_pipelines((ff_schedule_kind)kinds.value[i], &chunks, all);
}

/* The job's recipe, or those that the user names. */
static void recipes(const ff_space *space, values *v) {
    if (add_choices(space, FF_DIM_RECIPE, v))
        return;
    const ff_job *job = space->job;
    bool named = ff_space_names(space, FF_DIM_RECIPE);
    for (int recipe = 0; recipe < FF_RECIPE_COUNT; recipe++)
        if (named || recipe == (int)(job->recipe_given ? job->recipe : FF_RECIPE_BF16_MEGATRON))
            add(space, FF_DIM_RECIPE, v, recipe);
}

static void expert_counts(const ff_space *space, int64_t ranks, values *v) {
    const ff_layer_kind *kind = ff_model_moe_kind(&space->job->model);
    divisors(space, FF_DIM_EP, ranks, kind == NULL ? 1 : kind->moe.experts, v);
}

/* Expert tensor parallelism beyond tp would cut experts finer than everything else. */
static void expert_tp_counts(const ff_space *space, int64_t ranks, int64_t tp, values *v) {
    bool dense = ff_model_moe_kind(&space->job->model) == NULL;
    divisors(space, FF_DIM_ETP, ff_gcd(ranks, tp), dense ? 1 : tp, v);
}

static int64_t largest_mbs(const ff_space *space, int64_t dp) {
    int64_t sequences = space->job->gbs_tokens == 0
                            ? LARGEST_MBS
                            : ff_ceil_div(space->job->gbs_tokens, space->job->seq) / dp;
    return ff_min(LARGEST_MBS, sequences);
}

/* The ring is the usual one; gathering K and V trades overlap for fewer steps; Ulysses exchanges
 * heads; a hybrid does so inside the domain and runs a ring between domains. The plain ring is never
 * faster than the zigzag one. */
static void cp_kinds(const ff_space *space, int64_t tp, int64_t cp, values *v) {
    static const ff_cp_kind kinds[] = {FF_CP_RING, FF_CP_ALLGATHER, FF_CP_ULYSSES};
    if (add_choices(space, FF_DIM_CP_KIND, v))
        return;
    for (size_t i = 0; i < (cp > 1 ? sizeof kinds / sizeof *kinds : 1); i++)
        add(space, FF_DIM_CP_KIND, v, (int64_t)kinds[i]);
    int64_t inside = space->job->cluster.domain_devices / tp;
    if (ff_space_names(space, FF_DIM_CP_KIND))
        for (int64_t ulysses = 2; ulysses < cp; ulysses++)
            add(space, FF_DIM_CP_KIND, v, ff_cp_choice(FF_CP_HYBRID, ulysses));
    else if (inside > 1 && inside < cp && cp % inside == 0)
        add(space, FF_DIM_CP_KIND, v, ff_cp_choice(FF_CP_HYBRID, inside));
}

/* Sequence parallelism first; experts need it. */
static void sequence_parallel(const ff_space *space, int64_t tp, values *v) {
    if (add_choices(space, FF_DIM_SP, v))
        return;
    add(space, FF_DIM_SP, v, tp > 1);
    if (tp > 1 && ff_model_moe_kind(&space->job->model) == NULL)
        add(space, FF_DIM_SP, v, 0);
}

/* ---- forms of ZeRO ---- */

/* What the innermost loop runs over: stage, weights and group together. */
typedef struct zero_form {
    int32_t zero, weights, group;
} zero_form;

typedef struct zero_forms {
    int count;
    zero_form form[32];
} zero_forms;

static void add_form(const ff_space *space, int zero, int weights, int64_t group,
                     zero_forms *forms) {
    bool allowed = ff_space_allows(space, FF_DIM_ZERO, zero) &&
                   ff_space_allows(space, FF_DIM_GROUP, group) &&
                   (zero < 3 || ff_space_allows(space, FF_DIM_WEIGHTS, weights));
    int room = (int)(sizeof forms->form / sizeof *forms->form);
    if (allowed && forms->count < room)
        forms->form[forms->count++] = (zero_form){zero, weights, (int32_t)group};
}

/* Ranks of dp*cp that share a domain, when they are some but not all of them. */
static int64_t domain_group(const ff_space *space, const ff_layout *layout) {
    int64_t ranks = layout->dp * layout->cp;
    int64_t inside = space->job->cluster.domain_devices / layout->tp;
    return inside > 1 && inside < ranks && ranks % inside == 0 ? inside : 0;
}

static bool has_choice(const values *v, int32_t value) {
    for (int i = 0; i < v->count; i++)
        if (v->value[i] == value)
            return true;
    return false;
}

/* Resident weights send what ZeRO-1 sends and hold a shard more, so they are walked only when they
 * are asked for, or when ZeRO-1 is not there. */
static bool walks_resident(const ff_space *space, const values *stages) {
    return ff_space_names(space, FF_DIM_WEIGHTS) || !has_choice(stages, 1);
}

/* With dp*cp of 1 all stages are one: the default, or another when the user bars it. */
static void fill_forms(const ff_space *space, const ff_layout *layout, zero_forms *forms) {
    values stages;
    bool replicated = layout->dp * layout->cp > 1;
    int64_t group = replicated ? domain_group(space, layout) : 0;
    int usual = layout->pp > 1 ? FF_ZERO3_RESIDENT : FF_ZERO3_STREAM;
    forms->count = 0;
    numbers(space, FF_DIM_ZERO, 0, 3, &stages);
    if (!replicated) {
        bool one = stages.count > 1 && stages.value[1] == 1;
        if (stages.count > 0)
            add_form(space, one ? 1 : stages.value[0], usual, 0, forms);
        return;
    }
    for (int i = 0; i < stages.count; i++) {
        int zero = stages.value[i];
        for (int other = 0; other < (zero == 3 ? 2 : 1); other++) {
            int weights = other ? !usual : usual;
            if (zero == 3 && weights == FF_ZERO3_RESIDENT && !walks_resident(space, &stages))
                continue;
            add_form(space, zero, weights, 0, forms);
            if (group > 0 && zero > 0)
                add_form(space, zero, weights, group, forms);
        }
    }
}

/* ---- layouts ---- */

static ff_layout_context context_of(const ff_space *space) {
    return (ff_layout_context){
        .world = space->job->cluster.devices,
        .gbs_sequences =
            space->job->gbs_tokens == 0 ? 0 : ff_ceil_div(space->job->gbs_tokens, space->job->seq),
        .layers = space->job->model.layers,
    };
}

static void set_block(const ff_point *point, ff_layout *layout) {
    const ff_recompute_choice *mode = &ff_recompute_choices[point->value[FF_DIM_RECOMPUTE]];
    layout->sp = point->value[FF_DIM_SP];
    layout->cp_kind = (ff_cp_kind)(point->value[FF_DIM_CP_KIND] % FF_CP_CHOICES);
    layout->ulysses = layout->cp_kind == FF_CP_ULYSSES ? layout->cp
                      : layout->cp_kind == FF_CP_HYBRID
                          ? point->value[FF_DIM_CP_KIND] / FF_CP_CHOICES
                          : 1;
    layout->recipe = (ff_recipe)point->value[FF_DIM_RECIPE];
    layout->recompute = mode->mode;
    layout->recompute_modules = mode->modules;
    layout->recompute_layers = point->recomputed;
}

static void set_form(const ff_point *point, ff_layout *layout) {
    int64_t group = point->value[FF_DIM_GROUP];
    layout->zero = point->value[FF_DIM_ZERO];
    layout->zero3_weights = point->value[FF_DIM_WEIGHTS];
    layout->zero_group = group > 0 ? group : layout->dp * layout->cp;
}

static void set_grid(const ff_point *point, ff_layout *layout) {
    ff_layout_init(layout);
    layout->tp = point->value[FF_DIM_TP];
    layout->pp = point->value[FF_DIM_PP];
    layout->cp = point->value[FF_DIM_CP];
    layout->dp = point->value[FF_DIM_DP];
    layout->ep = point->value[FF_DIM_EP];
    layout->etp = point->value[FF_DIM_ETP];
    layout->mbs = point->value[FF_DIM_MBS];
    layout->schedule = point->value[FF_DIM_SCHEDULE];
    layout->vpp = point->value[FF_DIM_VPP];
    memcpy(layout->dense_order, orders[point->value[FF_DIM_ORDER] % ORDERS],
           sizeof layout->dense_order);
    ff_default_expert_order(layout->dense_order, layout->expert_order);
    if (point->value[FF_DIM_ORDER] > 0)
        layout->etp = 0; /* what lets both grids see the same stages */
}

bool ff_space_is_counted(const ff_point *point) {
    return ff_recompute_choices[point->value[FF_DIM_RECOMPUTE]].counted;
}

bool ff_space_layout(const ff_space *space, const ff_point *point, ff_diagnostics *findings,
                     ff_layout *layout) {
    ff_layout_context context = context_of(space);
    set_grid(point, layout);
    if (ff_layout_derive(layout, &context, findings) != FF_OK)
        return false;
    set_block(point, layout);
    set_form(point, layout);
    return true;
}

/* ---- the walk ---- */

/* A layout of the current grid for one mbs and pipeline, and what is known of it. */
typedef struct entry {
    bool made, derived, legal;
    int32_t sp, cp_kind, recipe; /* that `legal` was asked for */
    ff_layout layout;
} entry;

typedef struct walk {
    const ff_space *space;
    const ff_walker *walker;
    entry *entries; /* [mbs][pipeline] of the current grid */
    values sizes, kinds, sps, recipes, modes;
    pipelines pipelines;
    zero_forms forms;
    ff_point point;
    int64_t grids; /* passed so far */
    bool stopped;
} walk;

static entry *entry_of(walk *w, int size, int index) {
    entry *e = &w->entries[size * w->pipelines.count + index];
    if (e->made)
        return e;
    e->made = true;
    e->derived = ff_space_layout(w->space, &w->point, NULL, &e->layout);
    e->sp = -1;
    return e;
}

/* Legality depends on nothing that recomputation or ZeRO change (tests/space_test.c). */
static bool is_legal(walk *w, entry *e) {
    const int32_t *at = w->point.value;
    if (!e->derived || (e->sp == at[FF_DIM_SP] && e->cp_kind == at[FF_DIM_CP_KIND] &&
                        e->recipe == at[FF_DIM_RECIPE]))
        return e->derived && e->legal;
    const ff_job *job = w->space->job;
    ff_rule_case c = {.model = &job->model,
                      .cluster = &job->cluster,
                      .layout = &e->layout,
                      .seq = job->seq,
                      .gbs_sequences = context_of(w->space).gbs_sequences,
                      .gbs_exact = job->gbs_exact};
    e->legal = ff_rules_legal(&c);
    e->sp = at[FF_DIM_SP];
    e->cp_kind = at[FF_DIM_CP_KIND];
    e->recipe = at[FF_DIM_RECIPE];
    return e->legal;
}

static void walk_forms(walk *w, entry *e) {
    int32_t *at = w->point.value;
    for (int i = 0; i < w->forms.count && !w->stopped; i++) {
        at[FF_DIM_ZERO] = w->forms.form[i].zero;
        at[FF_DIM_WEIGHTS] = w->forms.form[i].weights;
        at[FF_DIM_GROUP] = w->forms.form[i].group;
        set_form(&w->point, &e->layout);
        w->stopped = !w->walker->visit(w->walker->context, &w->point, &e->layout);
    }
}

static void walk_pipelines(walk *w, int size) {
    int32_t *at = w->point.value;
    int64_t points = (int64_t)w->pipelines.count * w->forms.count;
    for (int i = 0; i < w->pipelines.count && !w->stopped; i++) {
        at[FF_DIM_SCHEDULE] = w->pipelines.of[i].schedule;
        at[FF_DIM_VPP] = w->pipelines.of[i].vpp;
        at[FF_DIM_ZERO] = w->forms.form[0].zero;
        at[FF_DIM_WEIGHTS] = w->forms.form[0].weights;
        at[FF_DIM_GROUP] = w->forms.form[0].group;
        entry *e = entry_of(w, size, i);
        if (e->derived)
            set_block(&w->point, &e->layout);
        bool legal = is_legal(w, e);
        if (!legal && w->walker->illegal != NULL)
            w->walker->illegal(w->walker->context, &w->point, w->forms.count);
        if (!legal)
            continue;
        if (points > 0 && w->walker->enter != NULL &&
            !w->walker->enter(w->walker->context, &w->point, &e->layout,
                              points - (int64_t)i * w->forms.count))
            return;
        points = 0; /* asked once, at the first legal one */
        walk_forms(w, e);
    }
}

static void walk_modes(walk *w, int size) {
    int32_t *at = w->point.value;
    for (int i = 0; i < w->recipes.count; i++) {
        at[FF_DIM_RECIPE] = w->recipes.value[i];
        for (int r = 0; r < w->modes.count && !w->stopped; r++) {
            at[FF_DIM_RECOMPUTE] = w->modes.value[r];
            walk_pipelines(w, size);
        }
    }
}

static void walk_blocks(walk *w) {
    int32_t *at = w->point.value;
    for (int b = 0; b < w->sizes.count; b++) {
        at[FF_DIM_MBS] = w->sizes.value[b];
        for (int k = 0; k < w->kinds.count; k++) {
            at[FF_DIM_CP_KIND] = w->kinds.value[k];
            for (int s = 0; s < w->sps.count; s++) {
                at[FF_DIM_SP] = w->sps.value[s];
                walk_modes(w, b);
            }
        }
    }
}

static void walk_grid(walk *w) {
    const int32_t *at = w->point.value;
    int shares = w->space->shares;
    if (shares > 0 && w->grids++ % shares != w->space->share - 1)
        return;
    ff_layout sizes = {
        .tp = at[FF_DIM_TP], .pp = at[FF_DIM_PP], .cp = at[FF_DIM_CP], .dp = at[FF_DIM_DP]};
    fill_forms(w->space, &sizes, &w->forms);
    if (w->forms.count == 0)
        return;
    for (int i = 0; i < w->sizes.count * w->pipelines.count; i++)
        w->entries[i].made = false;
    walk_blocks(w);
}

/* Whether an order places some group on other tiers than the orders before it. */
static bool places_anew(const ff_layout *l, const ff_cluster *cluster, int index) {
    ff_span span[ORDERS][3];
    for (int i = 0; i <= index; i++) {
        const int64_t size[FF_AXIS_COUNT] = {l->tp, l->cp, l->dp, l->pp, 1, 1, 1};
        int64_t stride[FF_AXIS_COUNT] = {0}, ranks = 1;
        ff_mesh mesh = {.world = cluster->devices};
        for (int place = 0; place < 4; place++) {
            stride[orders[i][place]] = ranks;
            ranks *= size[orders[i][place]];
        }
        memcpy(mesh.size, size, sizeof size);
        memcpy(mesh.stride, stride, sizeof stride);
        span[i][0] = ff_mesh_span(&mesh, FF_AXES(FF_AXIS_CP), cluster->domain_devices);
        span[i][1] =
            ff_mesh_span(&mesh, FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_CP), cluster->domain_devices);
        span[i][2] = ff_mesh_span(&mesh, FF_AXES(FF_AXIS_PP), cluster->domain_devices);
    }
    for (int i = 0; i < index; i++)
        if (memcmp(span[i], span[index], sizeof span[i]) == 0)
            return false;
    return true;
}

static void fill_orders(const ff_space *space, const ff_layout *sizes, bool experts, values *v) {
    if (add_choices(space, FF_DIM_ORDER, v))
        return;
    for (int i = 0; i < ORDERS; i++)
        if (i == 0 || (!experts && places_anew(sizes, &space->job->cluster, i)))
            add(space, FF_DIM_ORDER, v, i);
}

static void walk_experts(walk *w, int64_t dp) {
    const ff_space *space = w->space;
    values experts, expert_tps, placements;
    int32_t *at = w->point.value;
    ff_layout sizes = {.tp = at[FF_DIM_TP], .pp = at[FF_DIM_PP], .cp = at[FF_DIM_CP], .dp = dp};
    int64_t ranks = sizes.tp * sizes.cp * dp;
    at[FF_DIM_DP] = (int32_t)dp;
    powers(space, FF_DIM_MBS, largest_mbs(space, dp), &w->sizes);
    fill_pipelines(space, sizes.pp, &w->pipelines);
    cp_kinds(space, sizes.tp, sizes.cp, &w->kinds);
    sequence_parallel(space, sizes.tp, &w->sps);
    recipes(space, &w->recipes);
    numbers(space, FF_DIM_RECOMPUTE, 0, ff_recompute_choice_count - 1, &w->modes);
    expert_counts(space, ranks, &experts);
    for (int e = 0; e < experts.count && !w->stopped; e++) {
        at[FF_DIM_EP] = experts.value[e];
        expert_tp_counts(space, ranks / ff_min(ranks, experts.value[e]), sizes.tp, &expert_tps);
        fill_orders(space, &sizes, ff_model_moe_kind(&space->job->model) != NULL, &placements);
        for (int t = 0; t < expert_tps.count; t++) {
            at[FF_DIM_ETP] = expert_tps.value[t];
            for (int o = 0; o < placements.count && !w->stopped; o++) {
                at[FF_DIM_ORDER] = placements.value[o];
                walk_grid(w);
            }
        }
    }
}

void ff_space_walk(const ff_space *space, ff_arena *arena, const ff_walker *walker) {
    walk w = {.space = space, .walker = walker};
    int64_t devices = space->job->cluster.devices;
    values tps, pps, cps;
    w.entries = FF_ARENA_ARRAY(arena, FF_MOST_CHOICES * FF_MOST_CHOICES, entry);
    divisors(space, FF_DIM_TP, devices, devices, &tps);
    divisors(space, FF_DIM_PP, devices, space->job->model.layers, &pps);
    divisors(space, FF_DIM_CP, devices, devices, &cps);
    for (int t = 0; t < tps.count; t++) {
        for (int p = 0; p < pps.count; p++) {
            for (int c = 0; c < cps.count && !w.stopped; c++) {
                int64_t ranks = ff_mul3(tps.value[t], pps.value[p], cps.value[c]);
                if (ranks > devices || devices % ranks != 0 ||
                    !ff_space_allows(space, FF_DIM_DP, devices / ranks))
                    continue;
                w.point.value[FF_DIM_TP] = tps.value[t];
                w.point.value[FF_DIM_PP] = pps.value[p];
                w.point.value[FF_DIM_CP] = cps.value[c];
                walk_experts(&w, devices / ranks);
            }
        }
    }
}
