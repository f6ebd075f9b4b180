/* Options of the command line: one table says name, argument, which commands take it, and its help;
 * parsing, `help`, the manual page and the completion all read it.
 *
 * Options stand anywhere among the positional arguments, as `--seq 4096` or `--seq=4096`; `--` ends
 * them. The last of an option given twice counts, `--grid` adds up. */
#ifndef FF_CLI_OPTIONS_H
#define FF_CLI_OPTIONS_H

#include "base/arena.h"
#include "base/diagnose.h"
#include "cli/terminal.h"
#include "fivefold/plan.h"
#include <stdbool.h>
#include <stdint.h>

/* Commands as bits, for the options' table. */
typedef enum ff_command_bit {
    FF_COMMAND_PLAN = 1,
    FF_COMMAND_CHECK = 2,
    FF_COMMAND_EXPLAIN = 4,
    FF_COMMAND_SHOW = 8,
    FF_COMMAND_HELP = 16,
    FF_COMMAND_VERSION = 32,
    FF_COMMAND_VALIDATE = 64,
    FF_COMMAND_VERIFY = 128,
    FF_COMMAND_TRAIN = 256,
    FF_COMMAND_SIMULATE = 512,
    FF_COMMAND_CALIBRATE = 1024,
} ff_command_bit;

typedef enum ff_form { FF_FORM_TEXT, FF_FORM_JSON, FF_FORM_CSV } ff_form;

typedef enum ff_transport_choice { FF_TRANSPORT_LOCAL, FF_TRANSPORT_LOOPBACK } ff_transport_choice;

typedef struct ff_options {
    int64_t seq; /* 0 = not given */
    int64_t gbs_tokens, gbs_sequences;
    bool gbs_exact;
    int64_t top;
    const char *where, *grid;
    double near_ratio;
    bool no_prune;
    bool no_simulate;
    bool pareto;
    const char *share;
    int most, least;                     /* -1 = not asked, else the index of the word */
    int objective, ledger, form, colour; /* enums, by their table of words */
    const char *profile, *layout;
    const char *trace, *ranks; /* of simulate */
    int detail;                /* ff_detail */
    int recipe;                /* -1 = not given, else ff_recipe */
    int64_t margin_bytes;
    double imbalance;
    const char *by, *classes;
    int quality; /* enum, by its table of words */
    int64_t worst;
    const char *write; /* of calibrate */
    int64_t steps, seed;
    int transport; /* ff_transport_choice */
    const char *data, *log;
    bool quiet, verbose, help, version, man, completion;
} ff_options;

enum { FF_MOST_ARGUMENTS = 64 };
#define FF_LARGEST_BATCH_TOKENS INT64_C(1000000000000000)

typedef struct ff_arguments {
    const char *word[FF_MOST_ARGUMENTS];
    int count;
    ff_options options;
} ff_arguments;

/* One row an option. */
typedef struct ff_option {
    const char *name, *argument; /* argument NULL: a flag */
    char letter;                 /* 0: none */
    unsigned commands;
    const char *help;
} ff_option;
/* NULL past the end. */
const ff_option *ff_option_at(int index);

/* Splits argv[1..] into words (the command first) and options. `bit_of` says which command a word
 * is (0: none), for options that the command does not take. */
ff_status ff_arguments_parse(int argc, char **argv, unsigned (*bit_of)(const char *word),
                             ff_arena *arena, ff_diagnostics *findings, ff_arguments *arguments);

#endif
