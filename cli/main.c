/* fivefold's command line: splits the arguments, asks the library, prints the answer.
 *
 *     argv -> options.c -> commands.c -> facts -> output/ -> standard output   (data)
 *                                     `-> findings -> output/ -> standard error (all else)
 *
 * The exit status is the ff_status of the answer; 3 when the answer cannot be written. */
#include "cli/commands.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Findings go to standard error; beside a document, or an error that leaves no answer, notes would
 * only be noise. */
static void print_findings(const ff_session *s) {
    const ff_options *o = &s->arguments->options;
    bool refused = ff_diagnostics_count_of(s->findings, FF_ERROR) > 0 &&
                   ff_facts_root(s->facts)->first == NULL;
    ff_severity least = o->form == FF_FORM_TEXT && !refused ? FF_NOTE : FF_WARNING;
    ff_look look = ff_terminal_look(STDERR_FILENO, (ff_colour_choice)o->colour);
    look.verbose = o->verbose;
    ff_text out = {0};
    ff_render_diagnostics(s->findings, o->quiet ? FF_ERROR : least, &look, &out);
    ff_terminal_write(STDERR_FILENO, ff_text_bytes(&out), out.length);
    ff_text_free(&out);
}

static void render(const ff_session *s, const ff_command *command, ff_text *out) {
    const ff_fact *root = ff_facts_root(s->facts);
    ff_text_append(out, ff_text_bytes(s->plain));
    if (command == NULL || command->render == NULL || root->first == NULL)
        return;
    switch ((ff_form)s->arguments->options.form) {
    case FF_FORM_TEXT:
        command->render(root, &s->look, out);
        break;
    case FF_FORM_JSON:
        ff_render_json(root, out);
        break;
    case FF_FORM_CSV:
        ff_render_csv(root, out);
        break;
    }
}

static ff_status refuse_count(ff_session *s, const ff_command *command, int words) {
    if (words < command->least)
        ff_report(s->findings, FF0404, FF_NOWHERE, "%s needs %s", command->name,
                  command->positionals);
    else
        ff_report(s->findings, FF0405, FF_NOWHERE, "%s has no use for \"%s\"", command->name,
                  s->arguments->word[1 + command->most]);
    ff_report_help(s->findings, "fivefold %s", command->example);
    return FF_INVALID;
}

/* What was asked, once the options are known to be good. */
static ff_status answer(ff_session *s, const ff_command **command) {
    const ff_arguments *a = s->arguments;
    if (a->options.version) {
        *command = ff_command_find("version");
        return (*command)->run(s);
    }
    if (a->count == 0) {
        ff_help_overview(s->plain, &s->look);
        return a->options.help ? FF_OK : FF_INVALID;
    }
    *command = ff_command_find(a->word[0]);
    if (*command == NULL)
        return ff_command_report_unknown(a->word[0], s->findings);
    if (a->options.help) {
        ff_help_command(s->plain, *command, &s->look);
        return FF_OK;
    }
    int words = a->count - 1;
    if (words < (*command)->least || words > (*command)->most)
        return refuse_count(s, *command, words);
    return (*command)->run(s);
}

/* Prints the answer where it belongs; a bare `fivefold` gets the overview on standard error. */
static ff_status deliver(const ff_session *s, const ff_command *command, ff_status status) {
    bool is_answer = status == FF_OK || status == FF_NO;
    ff_text out = {0};
    if (is_answer || s->plain->length > 0)
        render(s, is_answer ? command : NULL, &out);
    bool written = ff_terminal_write(is_answer ? STDOUT_FILENO : STDERR_FILENO, ff_text_bytes(&out),
                                     out.length);
    ff_text_free(&out);
    if (!written)
        perror("fivefold: cannot write the answer");
    return written ? status : FF_ENVIRONMENT;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    ff_text plain = {0};
    ff_arguments arguments;
    ff_session session = {
        .arena = ff_arena_create(),
        .arguments = &arguments,
        .findings = ff_diagnostics_create(),
        .facts = ff_facts_create(),
        .plain = &plain,
    };
    const ff_command *command = NULL;
    ff_status status = ff_arguments_parse(argc, argv, ff_command_bit_of, session.arena,
                                          session.findings, &arguments);
    session.look = ff_terminal_look(STDOUT_FILENO, (ff_colour_choice)arguments.options.colour);
    session.look.verbose = arguments.options.verbose;
    if (status == FF_OK)
        status = answer(&session, &command);
    print_findings(&session);
    status = deliver(&session, command, status);
    ff_text_free(&plain);
    ff_facts_free(session.facts);
    ff_diagnostics_free(session.findings);
    ff_arena_free(session.arena);
    return (int)status;
}
