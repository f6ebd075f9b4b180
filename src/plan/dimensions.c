#include "plan/dimensions.h"

#include "base/number.h"
#include "cost/profile.h"
#include <string.h>

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

static void add(const ff_space *space, ff_dimension dimension, ff_values *v, int64_t value) {
    int room = (int)(sizeof v->value / sizeof *v->value);
    if (v->count < room && ff_space_allows(space, dimension, value))
        v->value[v->count++] = (int32_t)value;
}

static bool add_choices(const ff_space *space, ff_dimension dimension, ff_values *v) {
    v->count = 0;
    for (int i = 0; i < space->choices[dimension]; i++)
        add(space, dimension, v, space->choice[dimension][i]);
    return space->choices[dimension] > 0;
}

/* Divisors of `whole` in rising order. */
static void divisors(const ff_space *space, ff_dimension dimension, int64_t whole, int64_t most,
                     ff_values *v) {
    if (add_choices(space, dimension, v))
        return;
    for (int64_t d = 1; d <= ff_min(whole, most); d++)
        if (whole % d == 0)
            add(space, dimension, v, d);
}

static void powers(const ff_space *space, ff_dimension dimension, int64_t most, ff_values *v) {
    if (add_choices(space, dimension, v))
        return;
    for (int64_t value = 1; value <= ff_max(1, most); value *= 2)
        add(space, dimension, v, value);
}

static void numbers(const ff_space *space, ff_dimension dimension, int first, int last,
                    ff_values *v) {
    if (add_choices(space, dimension, v))
        return;
    for (int value = first; value <= last; value++)
        add(space, dimension, v, value);
}

/* Chunks a stage: those that split a stage's layers evenly, and powers of two. */
static void chunk_counts(const ff_space *space, int64_t pp, ff_values *v) {
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
static void schedule_kinds(const ff_space *space, ff_values *v) {
    bool named = ff_space_names(space, FF_DIM_SCHEDULE);
    if (add_choices(space, FF_DIM_SCHEDULE, v))
        return;
    for (int kind = 0; kind < FF_SCHEDULE_COUNT; kind++)
        if (named || (space->job->profile->schedules & 1u << kind) != 0)
            add(space, FF_DIM_SCHEDULE, v, kind);
}

static void add_pipelines(ff_schedule_kind kind, const ff_values *chunks, ff_pipelines *all) {
    int own = ff_schedule_own_chunks(kind);
    for (int i = 0; i < chunks->count && all->count < FF_MOST_CHOICES; i++)
        if (own == 0 ? chunks->value[i] > 1 : chunks->value[i] == own)
            all->of[all->count++] = (ff_pipeline){(int32_t)kind, chunks->value[i]};
}

/* On one stage all schedules are one. */
void ff_pipelines_fill(const ff_space *space, int64_t pp, ff_pipelines *all) {
    ff_values kinds, chunks;
    schedule_kinds(space, &kinds);
    chunk_counts(space, pp, &chunks);
    all->count = 0;
    for (int i = 0; i < kinds.count; i++)
        if (pp > 1 || kinds.value[i] == FF_SCHEDULE_1F1B)
            add_pipelines((ff_schedule_kind)kinds.value[i], &chunks, all);
}

/* The job's recipe, or those that the user names. */
static void recipes(const ff_space *space, ff_values *v) {
    if (add_choices(space, FF_DIM_RECIPE, v))
        return;
    const ff_job *job = space->job;
    bool named = ff_space_names(space, FF_DIM_RECIPE);
    for (int recipe = 0; recipe < FF_RECIPE_COUNT; recipe++)
        if (named || recipe == (int)(job->recipe_given ? job->recipe : FF_RECIPE_BF16_MEGATRON))
            add(space, FF_DIM_RECIPE, v, recipe);
}

static void expert_counts(const ff_space *space, int64_t ranks, ff_values *v) {
    const ff_layer_kind *kind = ff_model_moe_kind(&space->job->model);
    divisors(space, FF_DIM_EP, ranks, kind == NULL ? 1 : kind->moe.experts, v);
}

/* Expert tensor parallelism beyond tp would cut experts finer than everything else. */
static void expert_tp_counts(const ff_space *space, int64_t ranks, int64_t tp, ff_values *v) {
    v->count = 0;
    if (ff_model_moe_kind(&space->job->model) == NULL)
        add(space, FF_DIM_ETP, v, 1);
    else
        divisors(space, FF_DIM_ETP, ff_gcd(ranks, tp), tp, v);
}

static int64_t largest_mbs(const ff_space *space, int64_t dp) {
    int64_t sequences = space->job->gbs_tokens == 0
                            ? LARGEST_MBS
                            : ff_ceil_div(space->job->gbs_tokens, space->job->seq) / dp;
    return ff_min(LARGEST_MBS, sequences);
}

static void named_cp_kinds(const ff_space *space, int64_t cp, ff_values *v) {
    if (cp > 1) {
        add(space, FF_DIM_CP_KIND, v, (int64_t)FF_CP_RING_PLAIN);
        add(space, FF_DIM_CP_KIND, v, (int64_t)FF_CP_RING_BALANCED);
    }
    for (int64_t ulysses = 2; ulysses < cp; ulysses++)
        add(space, FF_DIM_CP_KIND, v, ff_cp_choice(FF_CP_HYBRID, ulysses));
}

/* The ring is the usual one; gathering K and V trades overlap for fewer steps; Ulysses exchanges
 * heads; a hybrid does so inside the domain and runs a ring between domains. The plain ring is never
 * faster than the zigzag one, and the balanced one is for who names it: few stacks have it. */
static void cp_kinds(const ff_space *space, int64_t tp, int64_t cp, ff_values *v) {
    static const ff_cp_kind kinds[] = {FF_CP_RING, FF_CP_ALLGATHER, FF_CP_ULYSSES};
    if (add_choices(space, FF_DIM_CP_KIND, v))
        return;
    for (size_t i = 0; i < (cp > 1 ? sizeof kinds / sizeof *kinds : 1); i++)
        add(space, FF_DIM_CP_KIND, v, (int64_t)kinds[i]);
    int64_t inside = space->job->cluster.domain_devices / tp;
    if (ff_space_names(space, FF_DIM_CP_KIND))
        named_cp_kinds(space, cp, v);
    else if (inside > 1 && inside < cp && cp % inside == 0)
        add(space, FF_DIM_CP_KIND, v, ff_cp_choice(FF_CP_HYBRID, inside));
}

/* Sequence parallelism first; experts need it. */
static void sequence_parallel(const ff_space *space, int64_t tp, ff_values *v) {
    v->count = 0;
    add(space, FF_DIM_SP, v, tp > 1);
    if (tp > 1 && ff_model_moe_kind(&space->job->model) == NULL)
        add(space, FF_DIM_SP, v, 0);
}

/* ---- placement ---- */

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

static void orders_of(const ff_space *space, const ff_layout *sizes, bool experts, ff_values *v) {
    if (add_choices(space, FF_DIM_ORDER, v))
        return;
    for (int i = 0; i < ORDERS; i++)
        if (i == 0 || (!experts && places_anew(sizes, &space->job->cluster, i)))
            add(space, FF_DIM_ORDER, v, i);
}

/* ---- forms of ZeRO ---- */

static void add_form(const ff_space *space, int zero, int weights, int64_t group,
                     ff_zero_forms *forms) {
    bool allowed = ff_space_allows(space, FF_DIM_ZERO, zero) &&
                   ff_space_allows(space, FF_DIM_GROUP, group) &&
                   (zero < 3 || ff_space_allows(space, FF_DIM_WEIGHTS, weights));
    int room = (int)(sizeof forms->form / sizeof *forms->form);
    if (allowed && forms->count < room)
        forms->form[forms->count++] = (ff_zero_form){zero, weights, (int32_t)group};
}

/* Ranks of dp*cp that share a domain, when they are some but not all of them. */
static int64_t domain_group(const ff_space *space, const ff_layout *layout) {
    int64_t ranks = layout->dp * layout->cp;
    int64_t inside = space->job->cluster.domain_devices / layout->tp;
    return inside > 1 && inside < ranks && ranks % inside == 0 ? inside : 0;
}

static bool has_choice(const ff_values *v, int32_t value) {
    for (int i = 0; i < v->count; i++)
        if (v->value[i] == value)
            return true;
    return false;
}

/* Resident weights send what ZeRO-1 sends and hold a shard more, so they are walked only when they
 * are asked for, or when ZeRO-1 is not there. */
static bool walks_resident(const ff_space *space, const ff_values *stages) {
    return ff_space_names(space, FF_DIM_WEIGHTS) || !has_choice(stages, 1);
}

/* All ranks (0), and the ranks of a domain; any other group where the user names some. */
static void groups_of(const ff_space *space, const ff_layout *layout, ff_values *v) {
    int64_t ranks = layout->dp * layout->cp, domain = domain_group(space, layout);
    v->count = 0;
    add(space, FF_DIM_GROUP, v, 0);
    for (int64_t group = 2; group < ranks; group++)
        if (ranks % group == 0 && (group == domain || ff_space_names(space, FF_DIM_GROUP)))
            add(space, FF_DIM_GROUP, v, group);
}

/* With dp*cp of 1 all stages are one: the default, or another when the user bars it. */
void ff_zero_forms_fill(const ff_space *space, const ff_layout *layout, ff_zero_forms *forms) {
    ff_values stages, groups;
    bool replicated = layout->dp * layout->cp > 1;
    int usual = layout->pp > 1 ? FF_ZERO3_RESIDENT : FF_ZERO3_STREAM;
    forms->count = 0;
    numbers(space, FF_DIM_ZERO, 0, 3, &stages);
    groups_of(space, layout, &groups);
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
            for (int g = 0; g < groups.count; g++)
                if (groups.value[g] == 0 || zero > 0)
                    add_form(space, zero, weights, groups.value[g], forms);
        }
    }
}

/* ---- all ---- */

static bool has_experts(const ff_space *space) {
    return ff_model_moe_kind(&space->job->model) != NULL;
}

void ff_values_fill(const ff_space *space, ff_dimension dimension, const ff_layout *l,
                    ff_values *v) {
    int64_t devices = space->job->cluster.devices, ranks = l->tp * l->cp * l->dp;
    switch (dimension) {
    case FF_DIM_PP:
        divisors(space, dimension, devices, space->job->model.layers, v);
        break;
    case FF_DIM_EP:
        expert_counts(space, ranks, v);
        break;
    case FF_DIM_ETP:
        expert_tp_counts(space, ranks / ff_min(ranks, l->ep), l->tp, v);
        break;
    case FF_DIM_ORDER:
        orders_of(space, l, has_experts(space), v);
        break;
    case FF_DIM_MBS:
        powers(space, dimension, largest_mbs(space, l->dp), v);
        break;
    case FF_DIM_CP_KIND:
        cp_kinds(space, l->tp, l->cp, v);
        break;
    case FF_DIM_SP:
        sequence_parallel(space, l->tp, v);
        break;
    case FF_DIM_RECIPE:
        recipes(space, v);
        break;
    case FF_DIM_RECOMPUTE:
        numbers(space, dimension, 0, ff_recompute_choice_count - 1, v);
        break;
    default:
        divisors(space, dimension, devices, devices, v);
    }
}

const ff_axis *ff_dimension_order(int32_t index) {
    return orders[index];
}

int ff_dimension_orders(void) {
    return ORDERS;
}
