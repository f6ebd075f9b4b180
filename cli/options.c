/* See options.h. A row's `kind` says how its value is read and into what; `place` is where in
 * ff_options it goes. */
#include "cli/options.h"

#include "base/number.h"
#include "base/text.h"
#include <ctype.h>
#include <stddef.h>
#include <string.h>

typedef enum value_kind {
    VALUE_FLAG,
    VALUE_TEXT,
    VALUE_ADDED_TEXT, /* several add up, a blank between */
    VALUE_COUNT,
    VALUE_BATCH,
    VALUE_TOP,
    VALUE_BYTES,
    VALUE_PERCENT,
    VALUE_FACTOR, /* a real from 1 on */
    VALUE_CHOICE,
    VALUE_RECIPE,
} value_kind;

typedef struct option_row {
    ff_option option;
    value_kind kind;
    size_t place;
    const char *const *choices; /* NULL-terminated, in the order of the enum */
} option_row;

enum {
    JOB = FF_COMMAND_PLAN | FF_COMMAND_CHECK | FF_COMMAND_EXPLAIN | FF_COMMAND_SIMULATE,
    VALIDATE = FF_COMMAND_VALIDATE,
    CALIBRATE = FF_COMMAND_CALIBRATE,
    VERIFY = FF_COMMAND_VERIFY | FF_COMMAND_TRAIN, /* steps are run */
    TRAIN = FF_COMMAND_TRAIN,
    DATA = JOB | FF_COMMAND_SHOW | VALIDATE | CALIBRATE | VERIFY,
    ANY = DATA | FF_COMMAND_HELP | FF_COMMAND_VERSION,
    PLAN = FF_COMMAND_PLAN,
};

static const char *const forms[] = {"text", "json", "csv", NULL};
static const char *const qualities[] = {"good", "suspect", "all", NULL};
static const char *const colours[] = {"auto", "always", "never", NULL};
static const char *const details[] = {"chunk", "operator", NULL};
static const char *const transports[] = {"local", "loopback", NULL};
static const char *const ledgers[] = {"full", "lesson", NULL};
static const char *const extremes[] = {"seq", "mbs", "params", NULL};
static const char *const minima[] = {"nodes", NULL};
static const char *const objectives[] = {"tokens", "memory", "devices", NULL};

#define PLACE(field) offsetof(ff_options, field)
#define ROW(name, letter, argument, commands, kind, field, choices, help)                          \
    { {name, argument, letter, commands, help}, kind, PLACE(field), choices }

static const option_row table[] = {
    ROW("seq", 0, "TOKENS", JOB | VERIFY, VALUE_COUNT, seq, NULL,
        "sequence length; left out: the model's maximum (verify, train: 32)"),
    ROW("gbs", 0, "BATCH", JOB | VERIFY, VALUE_BATCH, gbs_tokens, NULL,
        "global batch to reach, in tokens (4M, 4Mi) or sequences (1024seq)"),
    ROW("gbs-exact", 0, NULL, JOB, VALUE_FLAG, gbs_exact, NULL,
        "refuse layouts that overshoot the batch"),
    ROW("layout", 0, "LAYOUT", FF_COMMAND_CHECK | FF_COMMAND_EXPLAIN | VERIFY | FF_COMMAND_SIMULATE,
        VALUE_TEXT, layout, NULL, "the layout, instead of as an argument"),
    ROW("top", 0, "K|all", PLAN, VALUE_TOP, top, NULL, "how many layouts to print (5)"),
    ROW("where", 0, "EXPR", PLAN, VALUE_TEXT, where, NULL,
        "pin, bound or forbid: 'tp=8,pp<=16,zero!=3,cp=1|2'"),
    ROW("near", 0, "PCT", PLAN, VALUE_PERCENT, near_ratio, NULL,
        "among layouts within PCT of the best prefer the simplest (off)"),
    ROW("no-prune", 0, NULL, PLAN, VALUE_FLAG, no_prune, NULL,
        "price every layout, also where a bound shows that it cannot win"),
    ROW("no-simulate", 0, NULL, PLAN, VALUE_FLAG, no_simulate, NULL,
        "rank by formula alone; else pipelines of the best are run first"),
    ROW("pareto", 0, NULL, PLAN, VALUE_FLAG, pareto, NULL,
        "also list what none beats in time, memory and devices at once"),
    ROW("share", 0, "I/N", PLAN, VALUE_TEXT, share, NULL,
        "search only the I-th of N equal shares of the space"),
    ROW("max", 0, "WHAT", PLAN, VALUE_CHOICE, most, extremes,
        "instead of a plan: the longest seq, the largest mbs or params that fit"),
    ROW("min", 0, "WHAT", PLAN, VALUE_CHOICE, least, minima,
        "instead of a plan: the fewest nodes on which the model fits"),
    ROW("objective", 0, "WHAT", PLAN, VALUE_CHOICE, objective, objectives,
        "what is best: tokens (per second), memory (least) or devices (fewest)"),
    ROW("grid", 0, "CHOICES", PLAN, VALUE_ADDED_TEXT, grid, NULL,
        "sizes to try, such as tp=1,2,4; may be given once a dimension"),
    ROW("ledger", 0, "LEDGER", JOB, VALUE_CHOICE, ledger, ledgers,
        "memory by the full ledger or by the lesson's coarse one"),
    ROW("profile", 0, "NAME|FILE", JOB | VALIDATE | CALIBRATE, VALUE_TEXT, profile, NULL,
        "constants of a software stack; left out: by the devices' generation"),
    ROW("recipe", 0, "NAME", JOB, VALUE_RECIPE, recipe, NULL,
        "precision of every layout: bf16-megatron, fp8-te, ..."),
    ROW("margin", 0, "BYTES", JOB, VALUE_BYTES, margin_bytes, NULL,
        "room below which a fit is tight (4GiB); left out: 5% or 3 GiB, the larger"),
    ROW("imbalance", 0, "FACTOR", JOB, VALUE_FACTOR, imbalance, NULL,
        "tokens of the busiest expert rank over the mean (1)"),
    ROW("by", 0, "COLUMN", VALIDATE, VALUE_TEXT, by, NULL,
        "groups to score: source, stack, class, gpu, field or any column (source)"),
    ROW("class", 0, "CLASSES", VALIDATE, VALUE_TEXT, classes, NULL,
        "only rows of these: dense,moe,dense-incomplete,moe-incomplete"),
    ROW("quality", 0, "WHICH", VALIDATE, VALUE_CHOICE, quality, qualities,
        "only rows of this quality (good), or all"),
    ROW("worst", 0, "N", VALIDATE, VALUE_COUNT, worst, NULL, "show the N worst rows term by term"),
    ROW("write", 0, "FILE", CALIBRATE, VALUE_TEXT, write, NULL,
        "write the fitted profile, for --profile of other commands"),
    ROW("trace", 0, "FILE.json", FF_COMMAND_SIMULATE, VALUE_TEXT, trace, NULL,
        "write the timeline for ui.perfetto.dev"),
    ROW("ranks", 0, "N|LIST", FF_COMMAND_SIMULATE, VALUE_TEXT, ranks, NULL,
        "ranks in the trace: the first N, or a list such as 0,8; left out: one a stage"),
    ROW("detail", 0, "LEVEL", FF_COMMAND_SIMULATE, VALUE_CHOICE, detail, details,
        "simulate whole chunks or every operator: chunk, operator"),
    ROW("steps", 0, "N", VERIFY, VALUE_COUNT, steps, NULL, "steps to run (verify: 2, train: 100)"),
    ROW("data", 0, "FILE", TRAIN, VALUE_TEXT, data, NULL,
        "a text to learn byte by byte, or a file of tokens"),
    ROW("log", 0, "FILE", TRAIN, VALUE_TEXT, log, NULL, "write a line of JSON a step"),
    ROW("seed", 0, "N", TRAIN, VALUE_COUNT, seed, NULL, "of first weights and data (1)"),
    ROW("transport", 0, "HOW", TRAIN, VALUE_CHOICE, transport, transports,
        "ranks as processes (local), or all in one (loopback)"),
    ROW("output", 'o', "FORM", DATA, VALUE_CHOICE, form, forms, "text, json or csv"),
    ROW("color", 0, "WHEN", ANY, VALUE_CHOICE, colour, colours, "auto, always or never"),
    ROW("quiet", 'q', NULL, ANY, VALUE_FLAG, quiet, NULL, "no notes and warnings"),
    ROW("verbose", 'v', NULL, ANY, VALUE_FLAG, verbose, NULL, "every key, stage and finding"),
    ROW("man", 0, NULL, FF_COMMAND_HELP, VALUE_FLAG, man, NULL, "print the manual page"),
    ROW("completion", 0, NULL, FF_COMMAND_HELP, VALUE_FLAG, completion, NULL,
        "print the completion for bash"),
    ROW("help", 'h', NULL, ANY, VALUE_FLAG, help, NULL, "what a command does and takes"),
    ROW("version", 'V', NULL, ANY, VALUE_FLAG, version, NULL, "print the version"),
};
enum { ROWS = sizeof table / sizeof table[0] };

const ff_option *ff_option_at(int index) {
    return index < ROWS ? &table[index].option : NULL;
}

/* --- values --- */

typedef struct reading {
    ff_arena *arena;
    ff_diagnostics *findings;
    ff_options *options;
} reading;

static bool refuse(reading *r, const option_row *row, const char *value, const char *wants) {
    ff_report(r->findings, FF0403, FF_NOWHERE, "--%s %s: %s", row->option.name, value, wants);
    return false;
}

/* "1024seq" -> 1024 and true. */
static bool take_suffix(reading *r, const char **value, const char *suffix) {
    size_t length = strlen(*value), cut = strlen(suffix);
    if (length <= cut || strcmp(*value + length - cut, suffix) != 0)
        return false;
    *value = ff_arena_copy(r->arena, *value, length - cut);
    return true;
}

static bool read_positive(reading *r, const option_row *row, const char *value, int64_t most,
                          int64_t *count) {
    const char *digits = value;
    if (!ff_parse_count(digits, count) || *count < 1)
        return refuse(r, row, value, "needs a whole number from 1 on, such as 4096, 4M or 4Mi");
    if (*count > most)
        return refuse(r, row, value, "is out of all proportion");
    return true;
}

static bool read_batch(reading *r, const option_row *row, const char *value) {
    const char *digits = value;
    int64_t count;
    bool sequences = take_suffix(r, &digits, "seq");
    if (!ff_parse_count(digits, &count) || count < 1)
        return refuse(r, row, value, "needs tokens (4M, 4Mi) or sequences (1024seq)");
    if (count > FF_LARGEST_BATCH_TOKENS)
        return refuse(r, row, value, "is out of all proportion");
    r->options->gbs_tokens = sequences ? 0 : count;
    r->options->gbs_sequences = sequences ? count : 0;
    return true;
}

static bool read_bytes(reading *r, const option_row *row, const char *value, int64_t *bytes) {
    const char *digits = value;
    size_t length = strlen(value);
    if (length >= 2 && value[length - 1] == 'B' && isalpha((unsigned char)value[length - 2]))
        take_suffix(r, &digits, "B");
    if (!ff_parse_count(digits, bytes) || *bytes < 1)
        return refuse(r, row, value, "needs bytes, such as 4GiB");
    return true;
}

static bool read_percent(reading *r, const option_row *row, const char *value, double *ratio) {
    const char *digits = value;
    double percent;
    take_suffix(r, &digits, "%");
    if (!ff_parse_real(digits, &percent) || percent < 0.0 || percent > 100.0)
        return refuse(r, row, value, "needs per cent from 0 to 100, such as 2%");
    *ratio = percent / 100.0;
    return true;
}

static bool read_factor(reading *r, const option_row *row, const char *value, double *factor) {
    if (!ff_parse_real(value, factor) || *factor < 1.0 || *factor > 1e6)
        return refuse(r, row, value, "needs a factor from 1 on, such as 1.2");
    return true;
}

static bool read_choice(reading *r, const option_row *row, const char *value, int *choice) {
    ff_text all = {0};
    for (int i = 0; row->choices[i] != NULL; i++) {
        if (strcmp(row->choices[i], value) == 0) {
            *choice = i;
            ff_text_free(&all);
            return true;
        }
        ff_text_printf(&all, "%s%s", i == 0 ? "one of " : ", ", row->choices[i]);
    }
    refuse(r, row, value, "is none of its values");
    ff_report_help(r->findings, "%s", ff_text_bytes(&all));
    ff_text_free(&all);
    return false;
}

static bool read_recipe(reading *r, const option_row *row, const char *value, int *recipe) {
    ff_recipe found;
    if (ff_recipe_find(value, &found)) {
        *recipe = (int)found;
        return true;
    }
    ff_text all = {0};
    for (int i = 0; i < FF_RECIPE_COUNT; i++)
        ff_text_printf(&all, "%s%s", i == 0 ? "one of " : ", ", ff_recipe_name((ff_recipe)i));
    refuse(r, row, value, "is no recipe");
    ff_report_help(r->findings, "%s", ff_text_bytes(&all));
    ff_text_free(&all);
    return false;
}

static bool read_value(reading *r, const option_row *row, const char *value) {
    const int64_t most_seq = INT64_C(1) << 32, most_top = 1000000;
    void *place = (char *)r->options + row->place;
    switch (row->kind) {
    case VALUE_FLAG:
        *(bool *)place = true;
        return true;
    case VALUE_TEXT:
        *(const char **)place = value;
        return true;
    case VALUE_ADDED_TEXT: {
        const char **text = place;
        *text = *text == NULL ? value : ff_arena_printf(r->arena, "%s %s", *text, value);
        return true;
    }
    case VALUE_COUNT:
        return read_positive(r, row, value, most_seq, place);
    case VALUE_BATCH:
        return read_batch(r, row, value);
    case VALUE_TOP:
        if (strcmp(value, "all") == 0) {
            *(int64_t *)place = 0;
            return true;
        }
        return read_positive(r, row, value, most_top, place);
    case VALUE_BYTES:
        return read_bytes(r, row, value, place);
    case VALUE_PERCENT:
        return read_percent(r, row, value, place);
    case VALUE_FACTOR:
        return read_factor(r, row, value, place);
    case VALUE_CHOICE:
        return read_choice(r, row, value, place);
    case VALUE_RECIPE:
        return read_recipe(r, row, value, place);
    }
    return false;
}

/* --- words --- */

/* An option as it stands in argv, before the command is known. */
typedef struct seen {
    const option_row *row; /* NULL: unknown */
    const char *written, *value;
} seen;

static const option_row *find_long(const char *name, size_t length) {
    for (int i = 0; i < ROWS; i++)
        if (strlen(table[i].option.name) == length &&
            strncmp(table[i].option.name, name, length) == 0)
            return &table[i];
    return NULL;
}

static const option_row *find_letter(char letter) {
    for (int i = 0; i < ROWS; i++)
        if (table[i].option.letter == letter)
            return &table[i];
    return NULL;
}

static void report_unknown(ff_diagnostics *findings, const char *written, unsigned command) {
    const char *names[ROWS];
    int count = 0;
    for (int i = 0; i < ROWS; i++)
        if ((table[i].option.commands & command) != 0)
            names[count++] = table[i].option.name;
    ff_report(findings, FF0402, FF_NOWHERE, "unknown option %s", written);
    const char *bare = written + strspn(written, "-");
    int nearest = ff_nearest_word(bare, names, count);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean --%s?", names[nearest]);
}

static void report_misplaced(ff_diagnostics *findings, const option_row *row, const char *command) {
    ff_report(findings, FF0402, FF_NOWHERE, "%s takes no option --%s", command, row->option.name);
    ff_report_help(findings, "fivefold help %s lists those it takes", command);
}

/* Reads the option at argv[*at], and its value, which may be the next word. */
static seen read_long(char **argv, int argc, int *at, ff_arena *arena) {
    const char *word = argv[*at] + 2;
    size_t length = strcspn(word, "=");
    seen s = {.row = find_long(word, length),
              .written = ff_arena_copy(arena, argv[*at], length + 2)};
    if (word[length] == '=')
        s.value = word + length + 1;
    else if (s.row != NULL && s.row->option.argument != NULL && *at + 1 < argc &&
             strncmp(argv[*at + 1], "--", 2) != 0)
        s.value = argv[++*at];
    return s;
}

static seen read_letter(char **argv, int argc, int *at, ff_arena *arena) {
    const char *word = argv[*at];
    seen s = {.row = find_letter(word[1]), .written = ff_arena_copy(arena, word, 2)};
    bool takes_value = s.row != NULL && s.row->option.argument != NULL;
    if (!takes_value && word[2] != '\0') /* letters are not bundled */
        s = (seen){.written = word};
    else if (takes_value && word[2] != '\0')
        s.value = word + 2 + (word[2] == '=');
    else if (takes_value && *at + 1 < argc)
        s.value = argv[++*at];
    return s;
}

static bool settle(reading *r, const seen *s, unsigned command, const char *command_name) {
    if (s->row == NULL) {
        report_unknown(r->findings, s->written, command);
        return false;
    }
    const ff_option *option = &s->row->option;
    if ((option->commands & command) == 0) {
        report_misplaced(r->findings, s->row, command_name);
        return false;
    }
    if (option->argument == NULL && s->value != NULL) {
        ff_report(r->findings, FF0403, FF_NOWHERE, "%s takes no value", s->written);
        return false;
    }
    if (option->argument != NULL && (s->value == NULL || s->value[0] == '\0')) {
        ff_report(r->findings, FF0403, FF_NOWHERE, "%s needs a value: %s", s->written,
                  option->argument);
        return false;
    }
    return read_value(r, s->row, s->value == NULL ? "" : s->value);
}

static ff_options defaults(void) {
    return (ff_options){
        .by = "source", .top = 5, .recipe = -1, .imbalance = 1.0, .most = -1, .least = -1};
}

static ff_status refuse_many(ff_diagnostics *findings) {
    ff_report(findings, FF0405, FF_NOWHERE, "more than %d arguments", FF_MOST_ARGUMENTS);
    return FF_INVALID;
}

ff_status ff_arguments_parse(int argc, char **argv, unsigned (*bit_of)(const char *word),
                             ff_arena *arena, ff_diagnostics *findings, ff_arguments *arguments) {
    *arguments = (ff_arguments){.options = defaults()};
    seen *options = FF_ARENA_ARRAY(arena, argc > 0 ? argc : 1, seen);
    int count = 0;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_words && strcmp(word, "--") == 0)
            only_words = true;
        else if (!only_words && strncmp(word, "--", 2) == 0)
            options[count++] = read_long(argv, argc, &i, arena);
        else if (!only_words && word[0] == '-' && word[1] != '\0')
            options[count++] = read_letter(argv, argc, &i, arena);
        else if (arguments->count < FF_MOST_ARGUMENTS)
            arguments->word[arguments->count++] = word;
        else
            return refuse_many(findings);
    }
    const char *command = arguments->count > 0 ? arguments->word[0] : "";
    unsigned bit = arguments->count > 0 ? bit_of(command) : 0;
    reading r = {arena, findings, &arguments->options};
    bool good = true, unknown_command = arguments->count > 0 && bit == 0;
    for (int i = 0; i < count && !unknown_command; i++)
        good &= settle(&r, &options[i], bit == 0 ? (unsigned)ANY : bit, command);
    return good ? FF_OK : FF_INVALID;
}
