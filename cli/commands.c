/* See commands.h. Each function turns words and options into a question of plan.h and leaves the
 * answer in the session's facts; none of them prints. */
#include "cli/commands.h"

#include "base/fact.h"
#include "base/text.h"
#include "cli/execute.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/next.h"
#include "cli/output_file.h"
#include "fivefold/validate.h"
#include "fivefold/version.h"
#include "output/lines.h"
#include "output/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *word(const ff_session *s, int index) {
    return index < s->arguments->count ? s->arguments->word[index] : "";
}

static ff_status refuse_missing(ff_session *s, const char *what, const char *help) {
    ff_report(s->findings, FF0404, FF_NOWHERE, "%s needs %s", word(s, 0), what);
    ff_report_help(s->findings, "%s", help);
    return FF_INVALID;
}

static ff_status refuse_extra(ff_session *s, const char *extra) {
    ff_report(s->findings, FF0405, FF_NOWHERE, "%s has no use for \"%s\"", word(s, 0), extra);
    ff_report_help(s->findings, "fivefold help %s shows what it takes", word(s, 0));
    return FF_INVALID;
}

/* Model, cluster and options of a command whose words `at` and `at + 1` name them. */
static ff_status read_inputs(ff_session *s, int at, ff_inputs **inputs) {
    *inputs = FF_ARENA_NEW(s->arena, ff_inputs);
    return ff_inputs_read(word(s, at), word(s, at + 1), &s->arguments->options, s->arena,
                          s->findings, *inputs);
}

/* The layout of a command: an option, or the word at *at, which is then passed. */
static ff_status read_layout(ff_session *s, int *at, const char **layout) {
    *layout = s->arguments->options.layout;
    if (*layout != NULL)
        return FF_OK;
    if (*at >= s->arguments->count)
        return refuse_missing(s, "a LAYOUT", "such as tp=8,pp=2,zero=1, or --layout");
    *layout = word(s, (*at)++);
    return FF_OK;
}

/* MODEL CLUSTER LAYOUT from the word `from` on, and nothing after them. */
static ff_status read_job(ff_session *s, int from, ff_inputs **inputs, const char **layout) {
    int at = from + 2;
    ff_status status = read_layout(s, &at, layout);
    if (status == FF_OK && at < s->arguments->count)
        return refuse_extra(s, word(s, at));
    return status == FF_OK ? read_inputs(s, from, inputs) : status;
}

/* "2/4": the second of four shares. */
static ff_status read_share(ff_session *s, ff_plan_options *options) {
    const char *text = s->arguments->options.share;
    int share, shares, used = 0;
    if (text == NULL)
        return FF_OK;
    if (sscanf(text, "%d/%d%n", &share, &shares, &used) == 2 && text[used] == '\0' && share >= 1 &&
        share <= shares && shares <= 1 << 20) {
        options->share = share;
        options->shares = shares;
        return FF_OK;
    }
    ff_report(s->findings, FF0403, FF_NOWHERE, "--share: \"%s\" is no share", text);
    ff_report_help(s->findings, "1/4 is the first of four");
    return FF_INVALID;
}

enum { FEWEST_DEVICES = FF_OBJECTIVE_MEMORY + 1 }; /* the last of --objective */

/* With --max, --min or the fewest devices as objective the job is changed to the extreme, which is
 * then planned; as objective within the cluster at hand. */
static ff_status reach_extreme(ff_session *s, ff_plan_options *options, ff_job *job) {
    const ff_options *o = &s->arguments->options;
    bool objective = o->most < 0 && o->least < 0 && o->objective == FEWEST_DEVICES;
    if (o->most < 0 && o->least < 0 && !objective)
        return FF_OK;
    ff_extreme extreme = o->most >= 0 ? (ff_extreme)o->most : FF_EXTREME_NODES;
    ff_job *changed = FF_ARENA_NEW(s->arena, ff_job);
    int64_t value = 0;
    ff_status status =
        ff_plan_extreme(job, options, extreme, objective ? NULL : s->findings, changed, &value);
    if (objective && (status == FF_NO || changed->cluster.devices > job->cluster.devices))
        return FF_OK; /* nothing fits: the search says by how much */
    if (status != FF_OK)
        return status;
    *job = *changed;
    if (extreme == FF_EXTREME_MBS)
        options->grid = ff_arena_printf(
            s->arena, "%s mbs=%lld", options->grid == NULL ? "" : options->grid, (long long)value);
    ff_facts_open_record(s->facts, "what_if");
    ff_facts_add_text(s->facts, "words", "%s", ff_extreme_words(extreme));
    ff_facts_add_integer(s->facts, "value", value);
    ff_facts_close(s->facts);
    return FF_OK;
}

static ff_status refuse_pair(ff_session *s, const char *pair, const char *help) {
    ff_report(s->findings, FF0403, FF_NOWHERE, "%s do not go together", pair);
    ff_report_help(s->findings, "%s", help);
    return FF_INVALID;
}

static ff_status run_plan(ff_session *s) {
    const ff_options *o = &s->arguments->options;
    if (o->gbs_tokens == 0 && o->gbs_sequences == 0)
        return refuse_missing(s, "--gbs, the batch to reach", "such as --gbs 4M or --gbs 1024seq");
    if (o->most >= 0 && o->least >= 0)
        return refuse_pair(s, "--max and --min", "one extreme at a time");
    if (o->pareto && o->form == FF_FORM_CSV)
        return refuse_pair(s, "--pareto and -o csv", "csv holds one table; -o json has both");
    ff_inputs *inputs;
    ff_status status = read_inputs(s, 1, &inputs);
    if (status != FF_OK)
        return status;
    ff_plan_options options = {
        .top = (int)o->top,
        .where = o->where,
        .grid = o->grid,
        .near_ratio = o->near_ratio,
        .objective =
            o->objective == FF_OBJECTIVE_MEMORY ? FF_OBJECTIVE_MEMORY : FF_OBJECTIVE_TOKENS,
        .no_prune = o->no_prune,
        .by_formula = o->no_simulate,
        .pareto = o->pareto,
    };
    status = read_share(s, &options);
    if (status == FF_OK)
        status = reach_extreme(s, &options, &inputs->job);
    if (status != FF_OK)
        return status;
    ff_plan_set *set = NULL;
    double begun_s = ff_terminal_clock_s();
    status = ff_plan_search(&inputs->job, &options, s->findings, &set);
    double elapsed_s = ff_terminal_clock_s() - begun_s;
    if (set == NULL)
        return status;
    ff_plan_facts(set, elapsed_s, s->facts);
    ff_inputs_facts(inputs, s->facts);
    /* Another model or cluster has no word to paste. */
    if (o->least < 0 && o->most != FF_EXTREME_PARAMS && o->objective != FEWEST_DEVICES)
        ff_next_facts(word(s, 1), word(s, 2), &s->arguments->options, &inputs->job, s->facts);
    ff_plan_free(set);
    return status;
}

static ff_status run_check(ff_session *s) {
    ff_inputs *inputs;
    const char *layout;
    ff_status status = read_job(s, 1, &inputs, &layout);
    if (status != FF_OK)
        return status;
    /* A document holds the layout's findings. */
    bool told = s->arguments->options.form == FF_FORM_JSON;
    status = ff_check(&inputs->job, layout, told ? NULL : s->findings, s->facts);
    if (status == FF_OK || status == FF_NO)
        ff_inputs_facts(inputs, s->facts);
    else if (told)
        ff_check(&inputs->job, layout, s->findings, s->facts); /* no document: say why */
    return status;
}

static ff_status simulate(ff_session *s, const ff_inputs *inputs, const char *layout,
                          const ff_observer *observer) {
    const ff_options *o = &s->arguments->options;
    ff_simulate_options options = {.by_operator = o->detail == FF_DETAIL_OPERATOR,
                                   .ranks = o->ranks,
                                   .columns = ff_look_columns(&s->look) - 4,
                                   .observer = observer};
    double begun_s = ff_terminal_clock_s();
    ff_status status = ff_simulate(&inputs->job, layout, &options, s->findings, s->facts);
    if (status == FF_OK)
        ff_facts_add_real(s->facts, "elapsed_s", ff_terminal_clock_s() - begun_s);
    return status;
}

static bool write_trace(void *context, const char *bytes, size_t count) {
    return ff_output_file_write(context, bytes, count);
}

static ff_status simulate_to_file(ff_session *s, const ff_inputs *inputs, const char *layout,
                                  const char *path) {
    ff_output_file file;
    ff_status status = ff_output_file_open(path, s->arena, s->findings, &file);
    if (status != FF_OK)
        return status;
    ff_trace *trace = ff_trace_create(write_trace, &file);
    status = simulate(s, inputs, layout, ff_trace_observer(trace));
    ff_trace_finish(trace);
    ff_trace_free(trace);
    ff_status written = ff_output_file_close(&file, status == FF_OK, s->findings);
    if (status == FF_OK && written == FF_OK)
        ff_facts_add_text(s->facts, "trace", "%s", path);
    return status == FF_OK ? written : status;
}

static ff_status run_simulate(ff_session *s) {
    ff_inputs *inputs;
    const char *layout, *trace = s->arguments->options.trace;
    ff_status status = read_job(s, 1, &inputs, &layout);
    if (status != FF_OK)
        return status;
    status = trace == NULL ? simulate(s, inputs, layout, NULL)
                           : simulate_to_file(s, inputs, layout, trace);
    if (status == FF_OK)
        ff_inputs_facts(inputs, s->facts);
    return status;
}

/* explain field NAME [MODEL CLUSTER LAYOUT] */
static ff_status explain_field(ff_session *s) {
    if (s->arguments->count < 3)
        return refuse_missing(s, "the NAME of a field", "such as explain field memory.peak_bytes");
    if (s->arguments->count == 3)
        return ff_explain_field(NULL, NULL, word(s, 2), s->findings, s->facts);
    ff_inputs *inputs;
    const char *layout;
    ff_status status = read_job(s, 3, &inputs, &layout);
    if (status != FF_OK)
        return status;
    return ff_explain_field(&inputs->job, layout, word(s, 2), s->findings, s->facts);
}

/* explain MODEL CLUSTER LAYOUT [TOPIC | field NAME] */
static ff_status explain_layout(ff_session *s) {
    ff_inputs *inputs;
    const char *layout;
    int at = 3;
    if (s->arguments->count < 3)
        return refuse_missing(s, "MODEL, CLUSTER and LAYOUT",
                              "or a code (explain FF0210), or explain field NAME");
    ff_status status = read_layout(s, &at, &layout);
    bool of_field = at + 1 < s->arguments->count && strcmp(word(s, at), "field") == 0;
    int last = at + (of_field ? 1 : 0);
    if (status == FF_OK && last + 1 < s->arguments->count)
        return refuse_extra(s, word(s, last + 1));
    if (status == FF_OK)
        status = read_inputs(s, 1, &inputs);
    if (status != FF_OK)
        return status;
    if (of_field)
        return ff_explain_field(&inputs->job, layout, word(s, last), s->findings, s->facts);
    return ff_explain(&inputs->job, layout, word(s, at), s->findings, s->facts);
}

static bool is_code(const char *text) {
    return strlen(text) == 6 && strncasecmp(text, "FF", 2) == 0 &&
           strspn(text + 2, "0123456789") == 4;
}

static ff_status run_explain(ff_session *s) {
    if (is_code(word(s, 1))) {
        if (s->arguments->count > 2)
            return refuse_extra(s, word(s, 2));
        return ff_explain_code(word(s, 1), s->findings, s->facts);
    }
    return strcmp(word(s, 1), "field") == 0 ? explain_field(s) : explain_layout(s);
}

static ff_status show_list(ff_session *s) {
    return ff_show_list(word(s, 1), s->findings, s->facts);
}

static ff_status show_rules(ff_session *s) {
    ff_show_rules(s->facts);
    return FF_OK;
}

static ff_status show_model(ff_session *s) {
    ff_model *model = FF_ARENA_NEW(s->arena, ff_model);
    const char *source;
    ff_status status = ff_input_model(word(s, 2), s->arena, s->findings, model, &source);
    if (status == FF_OK)
        ff_show_model(model, s->facts);
    return status;
}

static ff_status show_cluster(ff_session *s) {
    ff_cluster *cluster = FF_ARENA_NEW(s->arena, ff_cluster);
    const char *source;
    ff_status status = ff_input_cluster(word(s, 2), s->arena, s->findings, cluster, &source);
    if (status == FF_OK)
        ff_show_cluster(cluster, s->facts);
    return status;
}

static ff_status show_device(ff_session *s) {
    return ff_show_device(word(s, 2), s->findings, s->facts);
}

static ff_status show_profile(ff_session *s) {
    return ff_show_profile(word(s, 2), s->findings, s->facts);
}

static ff_status show_rule(ff_session *s) {
    return ff_show_rule(word(s, 2), s->findings, s->facts);
}

static ff_status show_schedule(ff_session *s) {
    const char *settings = "";
    for (int i = 3; i < s->arguments->count; i++)
        settings = ff_arena_printf(s->arena, "%s%s%s", settings, i == 3 ? "" : " ", word(s, i));
    return ff_show_schedule(word(s, 2), settings, ff_look_columns(&s->look), s->findings, s->facts);
}

/* What `show` can show; `names` is how many words follow. */
static const struct {
    const char *what;
    int least, most;
    const char *needs;
    ff_status (*run)(ff_session *session);
} subjects[] = {
    {"models", 0, 0, "", show_list},
    {"clusters", 0, 0, "", show_list},
    {"devices", 0, 0, "", show_list},
    {"profiles", 0, 0, "", show_list},
    {"rules", 0, 0, "", show_rules},
    {"model", 1, 1, "a MODEL", show_model},
    {"cluster", 1, 1, "a CLUSTER", show_cluster},
    {"device", 1, 1, "the NAME of a device", show_device},
    {"profile", 1, 1, "the NAME of a profile", show_profile},
    {"rule", 1, 1, "the CODE of a rule", show_rule},
    {"schedule", 1, FF_MOST_ARGUMENTS, "the NAME of a schedule", show_schedule},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

static ff_status refuse_subject(ff_session *s) {
    const char *names[SUBJECTS];
    for (int i = 0; i < SUBJECTS; i++)
        names[i] = subjects[i].what;
    ff_report(s->findings, FF0408, FF_NOWHERE, "show knows no \"%s\"", word(s, 1));
    int nearest = ff_nearest_word(word(s, 1), names, SUBJECTS);
    ff_report_help(s->findings, nearest >= 0 ? "did you mean %s?" : "fivefold help show lists them",
                   nearest >= 0 ? names[nearest] : "");
    return FF_INVALID;
}

static ff_status run_show(ff_session *s) {
    int names = s->arguments->count - 2;
    for (int i = 0; i < SUBJECTS; i++) {
        if (strcmp(word(s, 1), subjects[i].what) != 0)
            continue;
        if (names < subjects[i].least)
            return refuse_missing(s, subjects[i].needs, "fivefold help show has examples");
        if (names > subjects[i].most)
            return refuse_extra(s, word(s, 2 + subjects[i].most));
        return subjects[i].run(s);
    }
    return refuse_subject(s);
}

/* Reads every file, so that what is wrong with any of them is reported. */
static ff_status add_tables(ff_session *s, ff_validation *validation) {
    ff_status worst = FF_OK;
    for (int i = 1; i < s->arguments->count; i++) {
        const char *text;
        size_t length;
        ff_status status = ff_file_read(s->arena, word(s, i), s->findings, &text, &length);
        if (status == FF_OK)
            status = ff_validation_add(validation, word(s, i), text, length, s->findings);
        worst = status > worst ? status : worst;
    }
    return worst;
}

static ff_status run_validate(ff_session *s) {
    static const char *const qualities[] = {"good", "suspect", "all"};
    const ff_options *o = &s->arguments->options;
    ff_profile *profile = NULL;
    if (o->profile != NULL) {
        const char *source;
        profile = FF_ARENA_NEW(s->arena, ff_profile);
        ff_status status = ff_input_profile(o->profile, s->arena, s->findings, profile, &source);
        if (status != FF_OK)
            return status;
    }
    ff_validate_options options = {
        .by = o->by, .classes = o->classes, .quality = qualities[o->quality], .worst = o->worst};
    ff_validation *validation = ff_validation_create(profile);
    ff_status status = add_tables(s, validation);
    if (status == FF_OK)
        status = ff_validation_run(validation, &options, s->findings, s->facts);
    ff_validation_free(validation);
    return status;
}

/* The profile's text is written only when rows could be scored. */
static ff_status run_calibrate(ff_session *s) {
    const ff_options *o = &s->arguments->options;
    const char *source;
    ff_profile start;
    ff_status status = ff_input_profile(o->profile == NULL ? "generic" : o->profile, s->arena,
                                        s->findings, &start, &source);
    if (status != FF_OK)
        return status;
    ff_validation *validation = ff_validation_create(&start);
    char *text = NULL;
    status = add_tables(s, validation);
    if (status == FF_OK)
        status = ff_validation_calibrate(validation, &start, s->findings, s->facts, &text);
    if (status == FF_OK && o->write != NULL)
        status = ff_file_write(s->arena, o->write, text, strlen(text), s->findings);
    free(text);
    ff_validation_free(validation);
    return status;
}

static ff_status run_version(ff_session *s) {
    ff_text_printf(s->plain, "fivefold %s\n", FF_VERSION);
    return FF_OK;
}

static const ff_command table[] = {
    {"plan", FF_COMMAND_PLAN, "MODEL CLUSTER", 2, 2, "find the best layouts, and say why",
     "Searches every legal layout of the model on the cluster, prices those that fit, and prints "
     "the "
     "best with their reasons: what makes them fit, how the batch is reached, where the time goes.",
     "plan llama-3.1-70b 16x8xh100-80gb-sxm --seq 4096 --gbs 4M", run_plan, ff_render_plan},
    {"check", FF_COMMAND_CHECK, "MODEL CLUSTER LAYOUT", 2, 3,
     "judge one layout: legal, does it fit, how fast",
     "Reports every rule that the layout breaks, its memory by pipeline stage and its time by "
     "cause. "
     "The exit status is 1 when it should not be launched.",
     "check mixtral-8x7b 8x8xh100-80gb-sxm tp=4,pp=2,ep=8,zero=1,mbs=1 --seq 4096 --gbs 1M",
     run_check, ff_render_check},
    {"explain", FF_COMMAND_EXPLAIN, "MODEL CLUSTER LAYOUT [TOPIC | field NAME] | CODE | field NAME",
     1, 6, "say what happens in a step, and why",
     "Without a topic: what each dimension splits, saves and sends, and where it belongs. A code "
     "(FF0210) explains a finding; a field explains a number of the JSON output.",
     "explain llama-3.1-70b 16x8xh100-80gb-sxm tp=8,pp=2,zero=1,mbs=1 --seq 4096 --gbs 4M memory",
     run_explain, ff_render_document},
    {"simulate", FF_COMMAND_SIMULATE, "MODEL CLUSTER LAYOUT", 2, 3,
     "run one step of a layout as discrete events",
     "Runs the step's program: every forward, backward, message and collective of one rank a "
     "stage. "
     "Prints the pipeline, memory over time, where each stage's time goes and the longest path; "
     "--trace writes the timeline for ui.perfetto.dev.",
     "simulate llama-3.1-70b 16x8xh100-80gb-sxm dp=4,tp=8,pp=4,vpp=5,zero=1,mbs=1 --seq 4096 "
     "--gbs 1M",
     run_simulate, ff_render_simulation},
    {"show", FF_COMMAND_SHOW, "WHAT [NAME]", 1, FF_MOST_ARGUMENTS,
     "list models, clusters, devices, rules; show one",
     "WHAT is models, clusters, devices, profiles or rules; or model, cluster, device, profile, "
     "rule "
     "or schedule with a NAME.",
     "show schedule 1f1b pp=4 microbatches=8", run_show, ff_render_document},
    {"validate", FF_COMMAND_VALIDATE, "FILE...", 1, FF_MOST_ARGUMENTS,
     "hold predictions against published runs",
     "Reads tables of measured training runs (CSV, the columns of validation/README.md), predicts "
     "every row with the profile of its software stack, and prints the errors of step time, peak "
     "memory, fit verdicts and ranking, beside what one fitted efficiency would do.",
     "validate validation/papers.csv --by stack", run_validate, ff_render_validation},
    {"calibrate", FF_COMMAND_CALIBRATE, "FILE...", 1, FF_MOST_ARGUMENTS,
     "fit a profile to your own runs",
     "Reads tables of measured runs, as validate does, and moves the constants of a profile "
     "(--profile, else generic) to where they predict the runs best. Prints how far each "
     "moved, the error left, and the error that new runs may expect (cross-validated).",
     "calibrate validation/papers.csv --profile megatron-core --write mine.yaml", run_calibrate,
     ff_render_document},
    {"verify", FF_COMMAND_VERIFY, "MODEL [LAYOUT]", 1, 2, "run a layout's steps: is the plan true?",
     "Trains the model for a few steps with all ranks of the layout, on the CPU, and holds them "
     "against one rank (losses, gradients, weights: bit for bit where sizes are powers of two) and "
     "against the plan (bytes and calls of every collective, peak memory, order). The exit status "
     "is 1 when anything differs.",
     "verify layers=4,hidden=64,heads=4,vocab=512 tp=2,pp=2,dp=2,zero=1 --seq 32 --gbs 16seq",
     ff_verify_run, ff_render_verify},
    {"train", FF_COMMAND_TRAIN, "MODEL [LAYOUT]", 1, 2,
     "train a small model on a text, under a layout",
     "Trains the model on a text or a file of tokens with all ranks of the layout, as processes of "
     "this machine, and prints the loss. Layouts without sequence parallelism whose sizes are "
     "powers of two print the same losses to the last digit.",
     "train layers=4,hidden=128,heads=4,vocab=256 tp=2,dp=2 --data README.md --seq 64 --gbs 8seq",
     ff_train_run, ff_render_train},
    {"help", FF_COMMAND_HELP, "[COMMAND | layout]", 0, 1, "say what a command does and takes",
     "`help layout` lists the keys of a layout.", "help plan", ff_help_run, NULL},
    {"version", FF_COMMAND_VERSION, "", 0, 0, "print the version", "", "version", run_version,
     NULL},
};
enum { COMMANDS = sizeof table / sizeof table[0] };

const ff_command *ff_command_at(int index) {
    return index < COMMANDS ? &table[index] : NULL;
}

const ff_command *ff_command_find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

unsigned ff_command_bit_of(const char *name) {
    const ff_command *command = ff_command_find(name);
    return command == NULL ? 0 : command->bit;
}

ff_status ff_command_report_unknown(const char *name, ff_diagnostics *findings) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = table[i].name;
    ff_report(findings, FF0401, FF_NOWHERE, "unknown command \"%s\"", name);
    int nearest = ff_nearest_word(name, names, COMMANDS);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean %s?", names[nearest]);
    else
        ff_report_help(findings, "fivefold help lists the commands");
    return FF_INVALID;
}
