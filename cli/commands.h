/* Commands: one table of names, positional arguments, summary and function; `main` dispatches by it
 * and `help` is printed from it. */
#ifndef FF_CLI_COMMANDS_H
#define FF_CLI_COMMANDS_H

#include "cli/options.h"
#include "fivefold/facts.h"

/* What a command works with and leaves behind. */
typedef struct ff_session {
    ff_arena *arena;
    const ff_arguments *arguments; /* word[0] is the command */
    ff_diagnostics *findings;
    ff_facts *facts;
    ff_look look;   /* of standard output */
    ff_text *plain; /* what is printed as it stands (help); empty for facts */
} ff_session;

typedef void (*ff_render)(const ff_fact *root, const ff_look *look, ff_text *out);

typedef struct ff_command {
    const char *name;
    unsigned bit;
    const char *positionals; /* as help shows them */
    int least, most;         /* of them */
    const char *summary;
    const char *about;   /* a paragraph */
    const char *example; /* without the program's name */
    ff_status (*run)(ff_session *session);
    ff_render render;
} ff_command;

/* NULL past the end. */
const ff_command *ff_command_at(int index);
const ff_command *ff_command_find(const char *name);
unsigned ff_command_bit_of(const char *name);
/* FF0401 with the nearest name. */
ff_status ff_command_report_unknown(const char *name, ff_diagnostics *findings);

/* In help.c. */
ff_status ff_help_run(ff_session *session);
void ff_help_overview(ff_text *out, const ff_look *look);
void ff_help_command(ff_text *out, const ff_command *command, const ff_look *look);
void ff_help_manual(ff_text *out);
void ff_help_completion(ff_text *out);

#endif
