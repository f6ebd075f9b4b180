#include "plan/space.h"

#include "base/number.h"
#include "layout/keys.h"
#include "plan/dimensions.h"
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
    memcpy(layout->dense_order, ff_dimension_order(point->value[FF_DIM_ORDER]),
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
    ff_values sizes, kinds, sps, recipes, modes;
    ff_pipelines pipelines;
    ff_zero_forms forms;
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
            w->point.recomputed = ff_space_is_counted(&w->point); /* at least one layer */
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
    ff_zero_forms_fill(w->space, &sizes, &w->forms);
    if (w->forms.count == 0)
        return;
    for (int i = 0; i < w->sizes.count * w->pipelines.count; i++)
        w->entries[i].made = false;
    walk_blocks(w);
}

static void walk_orders(walk *w, const ff_layout *sizes) {
    ff_values placements;
    ff_values_fill(w->space, FF_DIM_ORDER, sizes, &placements);
    for (int o = 0; o < placements.count && !w->stopped; o++) {
        w->point.value[FF_DIM_ORDER] = placements.value[o];
        walk_grid(w);
    }
}

static void walk_experts(walk *w, int64_t dp) {
    const ff_space *space = w->space;
    ff_values experts, expert_tps;
    int32_t *at = w->point.value;
    ff_layout sizes = {.tp = at[FF_DIM_TP], .pp = at[FF_DIM_PP], .cp = at[FF_DIM_CP], .dp = dp};
    at[FF_DIM_DP] = (int32_t)dp;
    ff_values_fill(space, FF_DIM_MBS, &sizes, &w->sizes);
    ff_pipelines_fill(space, sizes.pp, &w->pipelines);
    ff_values_fill(space, FF_DIM_CP_KIND, &sizes, &w->kinds);
    ff_values_fill(space, FF_DIM_SP, &sizes, &w->sps);
    ff_values_fill(space, FF_DIM_RECIPE, &sizes, &w->recipes);
    ff_values_fill(space, FF_DIM_RECOMPUTE, &sizes, &w->modes);
    ff_values_fill(space, FF_DIM_EP, &sizes, &experts);
    for (int e = 0; e < experts.count && !w->stopped; e++) {
        sizes.ep = at[FF_DIM_EP] = experts.value[e];
        ff_values_fill(space, FF_DIM_ETP, &sizes, &expert_tps);
        for (int t = 0; t < expert_tps.count; t++) {
            at[FF_DIM_ETP] = expert_tps.value[t];
            walk_orders(w, &sizes);
        }
    }
}

void ff_space_walk(const ff_space *space, ff_arena *arena, const ff_walker *walker) {
    walk w = {.space = space, .walker = walker};
    int64_t devices = space->job->cluster.devices;
    ff_layout sizes = {0};
    ff_values tps, pps, cps;
    w.entries = FF_ARENA_ARRAY(arena, FF_MOST_CHOICES * FF_MOST_CHOICES, entry);
    ff_values_fill(space, FF_DIM_TP, &sizes, &tps);
    ff_values_fill(space, FF_DIM_PP, &sizes, &pps);
    ff_values_fill(space, FF_DIM_CP, &sizes, &cps);
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
