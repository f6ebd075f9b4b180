/* Help, manual page and completion, all from the tables of commands, options, layout keys and
 * topics. */
#include "cli/commands.h"

#include "cli/inputs.h"
#include "fivefold/version.h"
#include "output/table.h"
#include <stdio.h>
#include <string.h>

static const char about[] = "which 5D-parallel layout (DP, TP+SP, PP, CP, EP, ZeRO) should train "
                            "this model on this cluster; "
                            "will it fit, how fast will it be, and why?";

static const struct {
    const char *word, *meaning;
} words[] = {
    {"MODEL", "a Hugging Face config.json or its folder, a preset, or a bare shape such as "
              "params=70e9,layers=80,hidden=8192,heads=64"},
    {"CLUSTER", "a YAML file, a preset, or NODESxDEVICESxDEVICE such as 16x8xh100-80gb-sxm"},
    {"LAYOUT",
     "such as tp=8,pp=2,zero=1,mbs=1; what is left out is derived (fivefold help layout)"},
};
enum { WORDS = sizeof words / sizeof words[0] };

static const struct {
    int status;
    const char *meaning;
} statuses[] = {
    {0, "yes"},
    {1, "the honest answer is no: nothing fits, or the check found errors"},
    {2, "wrong usage or bad input"},
    {3, "the environment failed: a file cannot be read, a disk is full"},
    {70, "a bug in fivefold"},
};
enum { STATUSES = sizeof statuses / sizeof statuses[0] };

static void heading(ff_text *out, const char *text, const ff_look *look) {
    ff_text_append(out, "\n");
    ff_painted(out, text, FF_PAINT_HEADING, look);
    ff_text_append(out, "\n");
}

/* "-o, --output FORM" */
static const char *option_usage(const ff_option *option, char *text, size_t text_bytes) {
    char letter[8] = "    ";
    if (option->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(text, text_bytes, "%s--%s%s%s", letter, option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    return text;
}

static void print_options(ff_text *out, unsigned commands, const ff_look *look) {
    enum { LABEL = 23 };
    for (int i = 0; ff_option_at(i) != NULL; i++) {
        char usage[64];
        if ((ff_option_at(i)->commands & commands) != 0)
            ff_item(out, 2, option_usage(ff_option_at(i), usage, sizeof usage), LABEL,
                    ff_option_at(i)->help, look);
    }
}

static void print_words(ff_text *out, const char *positionals, const ff_look *look) {
    for (int i = 0; i < WORDS; i++)
        if (strstr(positionals, words[i].word) != NULL)
            ff_item(out, 2, words[i].word, 7, words[i].meaning, look);
}

static void print_topics(ff_text *out, const ff_look *look) {
    heading(out, "topics", look);
    for (int i = 0; ff_explain_topic(i) != NULL; i++)
        ff_item(out, 2, ff_explain_topic(i)->name, 12, ff_explain_topic(i)->about, look);
}

static void print_example(ff_text *out, const char *example, const ff_look *look) {
    ff_text line = {0};
    ff_text_printf(&line, "fivefold %s", example);
    ff_text_append(out, "  ");
    ff_shell_command(out, ff_text_bytes(&line), 2, look);
    ff_text_free(&line);
}

void ff_help_overview(ff_text *out, const ff_look *look) {
    ff_painted(out, "fivefold", FF_PAINT_HEADING, look);
    ff_text_append(out, ": ");
    ff_wrap(out, about, 10, look);
    heading(out, "commands", look);
    for (int i = 0; ff_command_at(i) != NULL; i++)
        ff_item(out, 2, ff_command_at(i)->name, 9, ff_command_at(i)->summary, look);
    heading(out, "arguments", look);
    print_words(out, "MODEL CLUSTER LAYOUT", look);
    heading(out, "start here", look);
    print_example(out, ff_command_at(0)->example, look);
    print_example(out, "help plan", look);
}

void ff_help_command(ff_text *out, const ff_command *command, const ff_look *look) {
    ff_painted(out, "fivefold ", FF_PAINT_HEADING, look);
    ff_painted(out, command->name, FF_PAINT_HEADING, look);
    ff_text_printf(out, " %s\n\n  ", command->positionals);
    ff_wrap(out, command->about[0] != '\0' ? command->about : command->summary, 2, look);
    if (strstr(command->positionals, "MODEL") != NULL) {
        heading(out, "arguments", look);
        print_words(out, command->positionals, look);
    }
    if (command->bit == FF_COMMAND_EXPLAIN)
        print_topics(out, look);
    heading(out, "options", look);
    print_options(out, command->bit, look);
    heading(out, "example", look);
    print_example(out, command->example, look);
}

static void print_layout_keys(ff_text *out, const ff_look *look) {
    ff_painted(out, "layout", FF_PAINT_HEADING, look);
    ff_text_append(out, "  key=value,key=value,...  What is left out is derived or defaulted.\n\n");
    ff_table *table = ff_table_create(2, look);
    ff_table_flow_after(table, 0);
    ff_table_add_column(table, (ff_table_column){.heading = "key"});
    ff_table_add_column(table, (ff_table_column){.heading = "values", .flow = true});
    ff_table_add_column(table, (ff_table_column){.heading = "left out"});
    for (int i = 0; ff_layout_key_describe(i) != NULL; i++) {
        ff_table_cell(table, ff_layout_key_describe(i)->name, FF_PAINT_LABEL);
        ff_table_cell(table, ff_layout_key_describe(i)->values, FF_PAINT_NONE);
        ff_table_cell(table, ff_layout_key_describe(i)->left_out, FF_PAINT_NONE);
    }
    ff_table_print(table, out);
    ff_table_free(table);
}

ff_status ff_help_run(ff_session *s) {
    const ff_options *options = &s->arguments->options;
    const char *name = s->arguments->count > 1 ? s->arguments->word[1] : NULL;
    if (options->man)
        ff_help_manual(s->plain);
    else if (options->completion)
        ff_help_completion(s->plain);
    else if (name == NULL)
        ff_help_overview(s->plain, &s->look);
    else if (strcmp(name, "layout") == 0)
        print_layout_keys(s->plain, &s->look);
    else if (ff_command_find(name) != NULL)
        ff_help_command(s->plain, ff_command_find(name), &s->look);
    else
        return ff_command_report_unknown(name, s->findings);
    return FF_OK;
}

/* --- manual page (man macros) --- */

/* Text of roff: hyphens and backslashes kept, no line starts a request. */
static void roff(ff_text *out, const char *text) {
    if (text[0] == '.' || text[0] == '\'')
        ff_text_append(out, "\\&");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '-' || *c == '\\')
            ff_text_append(out, *c == '-' ? "\\" : "\\e");
        if (*c != '\\')
            ff_text_append_bytes(out, c, 1);
    }
}

static void roff_item(ff_text *out, const char *label, const char *text) {
    ff_text_append(out, ".TP\n.B ");
    roff(out, label);
    ff_text_append(out, "\n");
    roff(out, text);
    ff_text_append(out, "\n");
}

static void manual_commands(ff_text *out) {
    for (int i = 0; ff_command_at(i) != NULL; i++) {
        const ff_command *command = ff_command_at(i);
        ff_text_append(out, ".SS ");
        roff(out, command->name);
        ff_text_append(out, " ");
        roff(out, command->positionals);
        ff_text_append(out, "\n");
        roff(out, command->about[0] != '\0' ? command->about : command->summary);
        ff_text_append(out, "\n.PP\n.EX\n    fivefold ");
        roff(out, command->example);
        ff_text_append(out, "\n.EE\n");
    }
}

static void manual_options(ff_text *out) {
    for (int i = 0; ff_option_at(i) != NULL; i++) {
        const ff_option *option = ff_option_at(i);
        char usage[64];
        ff_text text = {0};
        ff_text_printf(&text, "%s. Of:", option->help);
        for (int j = 0; ff_command_at(j) != NULL; j++)
            if ((ff_command_at(j)->bit & option->commands) != 0)
                ff_text_printf(&text, " %s", ff_command_at(j)->name);
        const char *label = option_usage(option, usage, sizeof usage);
        roff_item(out, label + strspn(label, " "), ff_text_bytes(&text));
        ff_text_free(&text);
    }
}

void ff_help_manual(ff_text *out) {
    ff_text_printf(
        out,
        ".TH FIVEFOLD 1 \"\" \"fivefold %s\"\n.SH NAME\nfivefold \\- plans 5D\\-parallel "
        "layouts for training large language models\n.SH SYNOPSIS\n.B fivefold\n"
        "COMMAND [ARGUMENT ...] [OPTION ...]\n.SH DESCRIPTION\n",
        FF_VERSION);
    roff(out, about);
    ff_text_append(out, "\n");
    for (int i = 0; i < WORDS; i++)
        roff_item(out, words[i].word, words[i].meaning);
    ff_text_append(out, ".SH COMMANDS\n");
    manual_commands(out);
    ff_text_append(out, ".SH OPTIONS\n");
    manual_options(out);
    ff_text_append(out, ".SH LAYOUT KEYS\n");
    for (int i = 0; ff_layout_key_describe(i) != NULL; i++) {
        ff_text text = {0};
        ff_text_printf(&text, "%s; left out: %s", ff_layout_key_describe(i)->values,
                       ff_layout_key_describe(i)->left_out);
        roff_item(out, ff_layout_key_describe(i)->name, ff_text_bytes(&text));
        ff_text_free(&text);
    }
    ff_text_append(out, ".SH EXIT STATUS\n");
    for (int i = 0; i < STATUSES; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", statuses[i].status);
        roff_item(out, number, statuses[i].meaning);
    }
    ff_text_append(out, ".SH ENVIRONMENT\n");
    roff_item(out, "NO_COLOR", "no colour, also on a terminal");
    roff_item(out, "LC_ALL, LC_CTYPE, LANG", "bars and arrows beyond ASCII where they say UTF-8");
}

/* --- completion --- */

static void completion_case(ff_text *out, const char *pattern, unsigned commands) {
    ff_text_printf(out, "    %s) words=\"", pattern);
    for (int i = 0; ff_option_at(i) != NULL; i++)
        if ((ff_option_at(i)->commands & commands) != 0)
            ff_text_printf(out, "--%s ", ff_option_at(i)->name);
    ff_text_append(out, "\" ;;\n");
}

void ff_help_completion(ff_text *out) {
    ff_text_append(out, "# bash completion of fivefold; made by: fivefold help --completion\n"
                        "_fivefold() {\n"
                        "    local words= word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
                        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                        "        words=\"");
    for (int i = 0; ff_command_at(i) != NULL; i++)
        ff_text_printf(out, "%s ", ff_command_at(i)->name);
    ff_text_append(out, "\"\n"
                        "    elif [ \"${word:0:1}\" = - ]; then\n"
                        "    case $command in\n");
    for (int i = 0; ff_command_at(i) != NULL; i++)
        completion_case(out, ff_command_at(i)->name, ff_command_at(i)->bit);
    ff_text_append(out, "    esac\n"
                        "    fi\n"
                        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                        "}\n"
                        "complete -o default -F _fivefold fivefold\n");
}
