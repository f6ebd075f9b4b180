/* --where and --grid: which values the user allows.
 *
 *     --where 'tp=8,pp<=16,zero!=3,cp=1|2'     conditions, all of which hold
 *     --grid 'tp=1,2,4 pp=1,2'                 the values to try, instead of every one that makes sense
 *
 * Values are written as in a layout: sizes and words. */
#include "plan/dimensions.h"

#include "base/number.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

static const char *const dimension_names[FF_DIM_COUNT] = {
    "tp", "pp",     "cp",        "ep",       "etp", "order", "mbs",           "cp_kind",
    "sp", "recipe", "recompute", "schedule", "vpp", "zero",  "zero3_weights", "zero_group",
    "dp"};

/* ---- reading --where and --grid ---- */

const char *ff_dimension_name(ff_dimension dimension) {
    return dimension_names[dimension];
}

/* As a layout writes it; "full:N" is the choice whose number is found. */
static bool read_recompute(const char *text, int32_t *value) {
    char item[128];
    ff_layout written;
    bool counted = strcmp(text, "full:N") == 0;
    snprintf(item, sizeof item, "recompute=%s", counted ? "full" : text);
    if (strchr(text, ',') != NULL || ff_layout_parse(item, NULL, &written) != FF_OK)
        return false;
    for (int i = 0; i < ff_recompute_choice_count; i++) {
        const ff_recompute_choice *choice = &ff_recompute_choices[i];
        if (choice->mode == written.recompute && choice->modules == written.recompute_modules &&
            choice->counted == counted && written.recompute_layers == 0 &&
            written.recompute_stages == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static int word_of(ff_dimension dimension, const ff_layout *layout) {
    switch (dimension) {
    case FF_DIM_CP_KIND:
        return ff_cp_choice(layout->cp_kind, layout->ulysses);
    case FF_DIM_RECIPE:
        return (int)layout->recipe;
    case FF_DIM_SCHEDULE:
        return layout->schedule;
    default:
        return layout->zero3_weights;
    }
}

/* A word of a layout key whose field holds the value. */
static bool read_word(ff_dimension dimension, const char *text, int32_t *value) {
    char item[128];
    ff_layout written;
    snprintf(item, sizeof item, "%s=%s", dimension_names[dimension], text);
    if (strchr(text, ',') != NULL || ff_layout_parse(item, NULL, &written) != FF_OK)
        return false;
    *value = word_of(dimension, &written);
    return true;
}

/* Dimensions whose values are words: they have no order. */
static bool has_words(ff_dimension dimension) {
    return dimension == FF_DIM_RECOMPUTE || dimension == FF_DIM_CP_KIND ||
           dimension == FF_DIM_WEIGHTS || dimension == FF_DIM_RECIPE ||
           dimension == FF_DIM_SCHEDULE;
}

/* As a number, or as a layout writes it. */
static bool read_order(const char *text, int32_t *value) {
    char item[128];
    ff_layout written;
    int64_t index;
    if (ff_parse_count(text, &index)) {
        *value = (int32_t)index;
        return index < ff_dimension_orders();
    }
    snprintf(item, sizeof item, "order=%s", text);
    if (strchr(text, ',') != NULL || ff_layout_parse(item, NULL, &written) != FF_OK)
        return false;
    for (*value = 0; *value < ff_dimension_orders(); ++*value)
        if (memcmp(written.dense_order, ff_dimension_order(*value), sizeof written.dense_order) ==
            0)
            return true;
    return false;
}

static bool read_value(ff_dimension dimension, const char *text, int32_t *value) {
    int64_t count;
    if (dimension == FF_DIM_ORDER)
        return read_order(text, value);
    if (dimension == FF_DIM_RECOMPUTE)
        return read_recompute(text, value);
    if (has_words(dimension))
        return read_word(dimension, text, value);
    if (!ff_parse_count(text, &count) || count > (1 << 20))
        return false;
    *value = (int32_t)count;
    switch (dimension) {
    case FF_DIM_ZERO:
        return count <= 3;
    case FF_DIM_SP:
        return count <= 1;
    case FF_DIM_GROUP:
        return true;
    default:
        return count >= 1;
    }
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
        ff_report_help(findings,
                       "dimensions: tp pp cp ep etp dp sp cp_kind mbs vpp zero recompute schedule "
                       "recipe");
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
        return "none, selective:norm+act, selective:core, selective:mlp+norm, full:N or full";
    if (dimension == FF_DIM_CP_KIND)
        return "ring, allgather, ulysses or hybrid:U";
    if (dimension == FF_DIM_RECIPE || dimension == FF_DIM_SCHEDULE)
        return dimension == FF_DIM_RECIPE ? ff_layout_key_help_of("recipe")->values
                                          : ff_layout_key_help_of("schedule")->values;
    if (dimension == FF_DIM_WEIGHTS)
        return "stream or resident";
    if (dimension == FF_DIM_SP)
        return "0 or 1";
    if (dimension == FF_DIM_ORDER)
        return "axes from innermost out, tp first: tp-cp-dp-pp, tp-dp-cp-pp, tp-cp-pp-dp, "
               "tp-pp-cp-dp, tp-dp-pp-cp or tp-pp-dp-cp";
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

/* A bound is one number; only = and != take several values, and words have no order. */
static bool check_bound(const struct relation *relation, ff_diagnostics *findings,
                        ff_condition *condition) {
    bool is_bound = relation->relation == FF_AT_MOST || relation->relation == FF_AT_LEAST;
    const char *name = dimension_names[condition->dimension];
    condition->relation = relation->relation;
    condition->value[0] += relation->offset;
    if (!is_bound || (condition->values == 1 && !has_words(condition->dimension)))
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

/* ",," or a comma at an end: something was left out. */
static bool has_gap(const char *text) {
    bool gap = true;
    for (; *text != '\0'; text++) {
        if (*text == ',' && gap)
            return true;
        gap = *text == ',' || (gap && *text == ' ');
    }
    return gap;
}

static void read_where(ff_space *space, char *copy, ff_diagnostics *findings) {
    char *rest = NULL;
    if (has_gap(copy)) {
        ff_report(findings, FF0403, FF_NOWHERE, "--where: a condition between commas is empty");
        ff_report_help(findings, "for example tp=8,pp<=16,zero!=3,cp=1|2");
    }
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
    *space = (ff_space){.job = job, .share = options->share, .shares = options->shares};
    if (options->where != NULL)
        read_where(space, ff_arena_copy(arena, options->where, strlen(options->where)), findings);
    if (options->grid != NULL)
        read_grid(space, ff_arena_copy(arena, options->grid, strlen(options->grid)), findings);
    return ff_diagnostics_count_of(findings, FF_ERROR) > errors ? FF_INVALID : FF_OK;
}

bool ff_space_names(const ff_space *space, ff_dimension dimension) {
    for (int i = 0; i < space->conditions; i++)
        if (space->condition[i].dimension == dimension)
            return true;
    return space->choices[dimension] > 0;
}

static bool meets(const ff_condition *c, int32_t value) {
    if (c->relation == FF_AT_MOST)
        return value <= c->value[0];
    if (c->relation == FF_AT_LEAST)
        return value >= c->value[0];
    return is_one_of(value, c->value, c->values) == (c->relation == FF_IS_ONE_OF);
}

bool ff_space_allows(const ff_space *space, ff_dimension dimension, int64_t value) {
    int choices = space->choices[dimension];
    if (choices > 0 && !is_one_of((int32_t)value, space->choice[dimension], choices))
        return false;
    for (int i = 0; i < space->conditions; i++)
        if (space->condition[i].dimension == dimension &&
            !meets(&space->condition[i], (int32_t)value))
            return false;
    return true;
}
