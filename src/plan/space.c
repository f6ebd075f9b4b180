#include "plan/space.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

/* From cheap to dear; core attention is offered where the kernels keep scores. */
const ff_recompute_choice ff_recompute_choices[] = {
    {"none", FF_RECOMPUTE_NONE, 0},
    {"selective:norm+act", FF_RECOMPUTE_SELECTIVE, FF_MODULE_NORM | FF_MODULE_ACTIVATION},
    {"selective:core", FF_RECOMPUTE_SELECTIVE, FF_MODULE_CORE},
    {"selective:mlp+norm", FF_RECOMPUTE_SELECTIVE, FF_MODULE_MLP | FF_MODULE_NORM},
    {"full", FF_RECOMPUTE_FULL, 0},
};
const int ff_recompute_choice_count = sizeof ff_recompute_choices / sizeof *ff_recompute_choices;

enum { LARGEST_MBS = 16, LARGEST_VPP = 8 };

static const char *const dimension_names[FF_DIM_COUNT] = {"tp",  "pp",  "cp",        "ep", "zero",
                                                          "mbs", "vpp", "recompute", "dp"};

/* ---- reading --where and --grid ---- */

const char *ff_dimension_name(ff_dimension dimension) {
    return dimension_names[dimension];
}

/* As a layout writes it. */
static bool read_recompute(const char *text, int32_t *value) {
    char item[128];
    ff_layout written;
    snprintf(item, sizeof item, "recompute=%s", text);
    if (strchr(text, ',') != NULL || ff_layout_parse(item, NULL, &written) != FF_OK)
        return false;
    for (int i = 0; i < ff_recompute_choice_count; i++) {
        const ff_recompute_choice *choice = &ff_recompute_choices[i];
        if (choice->mode == written.recompute && choice->modules == written.recompute_modules &&
            written.recompute_layers == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool read_value(ff_dimension dimension, const char *text, int32_t *value) {
    int64_t count;
    if (dimension == FF_DIM_RECOMPUTE)
        return read_recompute(text, value);
    if (!ff_parse_count(text, &count) || count > (1 << 20))
        return false;
    *value = (int32_t)count;
    return dimension == FF_DIM_ZERO ? count <= 3 : count >= 1;
}

static bool read_dimension(const char *name, const char *option, ff_diagnostics *findings,
                           ff_dimension *dimension) {
    for (int i = 0; i < FF_DIM_COUNT; i++) {
        if (strcmp(name, dimension_names[i]) == 0) {
            *dimension = (ff_dimension)i;
            return true;
        }
    }
    int nearest = ff_nearest_word(name, dimension_names, FF_DIM_COUNT);
    ff_report(findings, FF0403, FF_NOWHERE, "%s: unknown dimension \"%s\"", option, name);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean \"%s\"?", dimension_names[nearest]);
    else
        ff_report_help(findings, "dimensions: tp pp cp ep dp zero mbs vpp recompute");
    return false;
}

static bool is_one_of(int32_t value, const int32_t *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] == value)
            return true;
    return false;
}

static const char *help_on_values(ff_dimension dimension, const char *word) {
    if (strchr(word, '=') != NULL)
        return "a blank separates dimensions: --grid \"tp=1,2 pp=1,2\"";
    if (dimension == FF_DIM_ZERO)
        return "0, 1, 2 or 3";
    if (dimension == FF_DIM_RECOMPUTE)
        return "none, selective:norm+act, selective:core, selective:mlp+norm or full";
    return "a positive whole number, at most 1048576";
}

/* Values separated by `separator` into `values`, each once; false with a finding for the first that
 * is none. */
static bool read_values(ff_dimension dimension, char *text, const char *separator,
                        const char *option, ff_diagnostics *findings, int32_t *values, int *count) {
    char *rest = NULL;
    const char *name = dimension_names[dimension];
    *count = 0;
    for (char *word = strtok_r(text, separator, &rest); word != NULL;
         word = strtok_r(NULL, separator, &rest)) {
        int32_t value;
        if (!read_value(dimension, word, &value)) {
            ff_report(findings, FF0403, FF_NOWHERE, "%s: \"%s\" is no value of %s", option, word,
                      name);
            ff_report_help(findings, "%s", help_on_values(dimension, word));
            return false;
        }
        if (is_one_of(value, values, *count))
            continue;
        if (*count == FF_MOST_CHOICES) {
            ff_report(findings, FF0403, FF_NOWHERE, "%s: more than %d values of %s", option,
                      FF_MOST_CHOICES, name);
            return false;
        }
        values[(*count)++] = value;
    }
    if (*count == 0)
        ff_report(findings, FF0403, FF_NOWHERE, "%s: %s has no value", option, name);
    return *count > 0;
}

static const struct relation {
    const char *text;
    int relation, offset; /* `<` is at most one less */
} relations[] = {{"<=", FF_AT_MOST, 0}, {">=", FF_AT_LEAST, 0}, {"!=", FF_IS_NONE_OF, 0},
                 {"<", FF_AT_MOST, -1}, {">", FF_AT_LEAST, 1},  {"=", FF_IS_ONE_OF, 0}};

/* A bound is one number; only = and != take several values, and those of recompute have no order. */
static bool check_bound(const struct relation *relation, ff_diagnostics *findings,
                        ff_condition *condition) {
    bool is_bound = relation->relation == FF_AT_MOST || relation->relation == FF_AT_LEAST;
    const char *name = dimension_names[condition->dimension];
    condition->relation = relation->relation;
    condition->value[0] += relation->offset;
    if (!is_bound || (condition->values == 1 && condition->dimension != FF_DIM_RECOMPUTE))
        return true;
    if (condition->values > 1)
        ff_report(findings, FF0403, FF_NOWHERE, "--where: %s%s is a bound and takes one value",
                  name, relation->text);
    else
        ff_report(findings, FF0403, FF_NOWHERE, "--where: values of %s have no order", name);
    ff_report_help(findings, "%s=A|B names several values", name);
    return false;
}

static bool read_condition(char *text, ff_diagnostics *findings, ff_condition *condition) {
    size_t name_length = strcspn(text, "<>=!");
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
        size_t length = strlen(relations[i].text);
        if (strncmp(text + name_length, relations[i].text, length) != 0)
            continue;
        char name[32];
        ff_copy_text(name, name_length + 1 < sizeof name ? name_length + 1 : sizeof name, text);
        return read_dimension(name, "--where", findings, &condition->dimension) &&
               read_values(condition->dimension, text + name_length + length, "|", "--where",
                           findings, condition->value, &condition->values) &&
               check_bound(&relations[i], findings, condition);
    }
    ff_report(findings, FF0403, FF_NOWHERE, "--where: \"%s\" is no condition", text);
    ff_report_help(findings, "for example tp=8,pp<=16,zero!=3,cp=1|2");
    return false;
}

static void read_where(ff_space *space, char *copy, ff_diagnostics *findings) {
    char *rest = NULL;
    for (char *word = strtok_r(copy, ", ", &rest); word != NULL;
         word = strtok_r(NULL, ", ", &rest)) {
        if (space->conditions == FF_MOST_CONDITIONS) {
            ff_report(findings, FF0403, FF_NOWHERE, "--where: more than %d conditions",
                      FF_MOST_CONDITIONS);
            break;
        }
        if (read_condition(word, findings, &space->condition[space->conditions]))
            space->conditions++;
    }
}

/* "tp=1,2,4 pp=1,2": a word with '=' opens a dimension, words without continue it. */
static void read_grid(ff_space *space, char *copy, ff_diagnostics *findings) {
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ;", &rest); word != NULL;
         word = strtok_r(NULL, " ;", &rest)) {
        char *equals = strchr(word, '=');
        ff_dimension dimension;
        if (equals == NULL) {
            ff_report(findings, FF0403, FF_NOWHERE, "--grid: \"%s\" names no dimension", word);
            ff_report_help(findings, "for example --grid tp=1,2,4 or --grid \"tp=1,2 pp=1,2\"");
            continue;
        }
        *equals = '\0';
        if (read_dimension(word, "--grid", findings, &dimension))
            read_values(dimension, equals + 1, ",", "--grid", findings, space->choice[dimension],
                        &space->choices[dimension]);
    }
}

ff_status ff_space_init(ff_space *space, ff_arena *arena, const ff_job *job,
                        const ff_plan_options *options, ff_diagnostics *findings) {
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    *space = (ff_space){.job = job};
    if (options->where != NULL)
        read_where(space, ff_arena_copy(arena, options->where, strlen(options->where)), findings);
    if (options->grid != NULL)
        read_grid(space, ff_arena_copy(arena, options->grid, strlen(options->grid)), findings);
    return ff_diagnostics_count_of(findings, FF_ERROR) > errors ? FF_INVALID : FF_OK;
}

/* ---- walking ---- */

static bool meets(const ff_condition *c, int32_t value) {
    if (c->relation == FF_AT_MOST)
        return value <= c->value[0];
    if (c->relation == FF_AT_LEAST)
        return value >= c->value[0];
    return is_one_of(value, c->value, c->values) == (c->relation == FF_IS_ONE_OF);
}

bool ff_space_allows(const ff_space *space, ff_dimension dimension, int64_t value) {
    int dps = dimension == FF_DIM_DP ? space->choices[FF_DIM_DP] : 0;
    if (dps > 0 && !is_one_of((int32_t)value, space->choice[FF_DIM_DP], dps))
        return false;
    for (int i = 0; i < space->conditions; i++)
        if (space->condition[i].dimension == dimension &&
            !meets(&space->condition[i], (int32_t)value))
            return false;
    return true;
}

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

static void expert_counts(const ff_space *space, int64_t ranks, values *v) {
    const ff_layer_kind *kind = ff_model_moe_kind(&space->job->model);
    if (add_choices(space, FF_DIM_EP, v))
        return;
    int64_t most = kind == NULL ? 1 : kind->moe.experts;
    divisors(space, FF_DIM_EP, ranks, most, v);
}

static int64_t largest_mbs(const ff_space *space, int64_t dp) {
    int64_t sequences = space->job->gbs_tokens == 0
                            ? LARGEST_MBS
                            : ff_ceil_div(space->job->gbs_tokens, space->job->seq) / dp;
    return ff_min(LARGEST_MBS, sequences);
}

/* With dp*cp of 1 all ZeRO stages are one: the default, or another when the user bars it. */
static void zero_stages(const ff_space *space, bool replicated, values *v) {
    if (!replicated && space->choices[FF_DIM_ZERO] == 0 && ff_space_allows(space, FF_DIM_ZERO, 1)) {
        numbers(space, FF_DIM_ZERO, 1, 1, v);
        return;
    }
    numbers(space, FF_DIM_ZERO, 0, 3, v);
    if (!replicated)
        v->count = v->count > 0;
}

typedef struct walk {
    const ff_space *space;
    ff_point_visitor *visit;
    void *context;
    ff_point point;
    bool stopped;
} walk;

static void walk_inner(walk *w, const values *zeros, const values *sizes, const values *chunks,
                       const values *modes) {
    int32_t *at = w->point.value;
    for (int z = 0; z < zeros->count && !w->stopped; z++) {
        at[FF_DIM_ZERO] = zeros->value[z];
        for (int b = 0; b < sizes->count && !w->stopped; b++) {
            at[FF_DIM_MBS] = sizes->value[b];
            for (int c = 0; c < chunks->count && !w->stopped; c++) {
                at[FF_DIM_VPP] = chunks->value[c];
                for (int r = 0; r < modes->count && !w->stopped; r++) {
                    at[FF_DIM_RECOMPUTE] = modes->value[r];
                    w->stopped = !w->visit(w->context, &w->point);
                }
            }
        }
    }
}

static void walk_rest(walk *w, int64_t dp) {
    const ff_space *space = w->space;
    values experts, zeros, sizes, chunks, modes;
    int32_t *at = w->point.value;
    at[FF_DIM_DP] = (int32_t)dp;
    if (!ff_space_allows(space, FF_DIM_DP, dp))
        return;
    expert_counts(space, (int64_t)at[FF_DIM_TP] * at[FF_DIM_CP] * dp, &experts);
    zero_stages(space, dp * at[FF_DIM_CP] > 1, &zeros);
    powers(space, FF_DIM_MBS, largest_mbs(space, dp), &sizes);
    chunk_counts(space, at[FF_DIM_PP], &chunks);
    numbers(space, FF_DIM_RECOMPUTE, 0, ff_recompute_choice_count - 1, &modes);
    for (int e = 0; e < experts.count && !w->stopped; e++) {
        at[FF_DIM_EP] = experts.value[e];
        walk_inner(w, &zeros, &sizes, &chunks, &modes);
    }
}

void ff_space_walk(const ff_space *space, ff_point_visitor *visit, void *context) {
    walk w = {.space = space, .visit = visit, .context = context};
    int64_t devices = space->job->cluster.devices;
    values tps, pps, cps;
    divisors(space, FF_DIM_TP, devices, devices, &tps);
    divisors(space, FF_DIM_PP, devices, space->job->model.layers, &pps);
    divisors(space, FF_DIM_CP, devices, devices, &cps);
    for (int t = 0; t < tps.count; t++) {
        for (int p = 0; p < pps.count; p++) {
            for (int c = 0; c < cps.count && !w.stopped; c++) {
                int64_t ranks = ff_mul3(tps.value[t], pps.value[p], cps.value[c]);
                if (ranks > devices || devices % ranks != 0)
                    continue;
                w.point.value[FF_DIM_TP] = tps.value[t];
                w.point.value[FF_DIM_PP] = pps.value[p];
                w.point.value[FF_DIM_CP] = cps.value[c];
                walk_rest(&w, devices / ranks);
            }
        }
    }
}

bool ff_space_layout(const ff_space *space, const ff_point *point, ff_diagnostics *findings,
                     ff_layout *layout) {
    const ff_recompute_choice *mode = &ff_recompute_choices[point->value[FF_DIM_RECOMPUTE]];
    ff_layout_init(layout);
    layout->tp = point->value[FF_DIM_TP];
    layout->pp = point->value[FF_DIM_PP];
    layout->cp = point->value[FF_DIM_CP];
    layout->dp = point->value[FF_DIM_DP];
    layout->ep = point->value[FF_DIM_EP];
    layout->zero = point->value[FF_DIM_ZERO];
    layout->mbs = point->value[FF_DIM_MBS];
    layout->vpp = point->value[FF_DIM_VPP];
    layout->recompute = mode->mode;
    layout->recompute_modules = mode->modules;
    if (space->job->recipe_given)
        layout->recipe = space->job->recipe;
    ff_layout_context context = {
        .world = space->job->cluster.devices,
        .gbs_sequences =
            space->job->gbs_tokens == 0 ? 0 : ff_ceil_div(space->job->gbs_tokens, space->job->seq),
        .layers = space->job->model.layers,
    };
    return ff_layout_derive(layout, &context, findings) == FF_OK;
}
