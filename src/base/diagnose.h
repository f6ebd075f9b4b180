/* Reporting side of the diagnostics list, and the catalogue of codes.
 *
 * The catalogue is a set of tables, one a module, in src/base/codes_<module>.def; each line is
 *     FF_CODE(FF0210, ERROR, "title", "rule, the reason why")
 * A code keeps its number for ever. Ranges: 01xx input and models, 02xx layouts, 03xx clusters,
 * 04xx the command line, 05xx plans. */
#ifndef FF_BASE_DIAGNOSE_H
#define FF_BASE_DIAGNOSE_H

#include "fivefold/diagnostics.h"
#include <stdbool.h>

typedef enum ff_code {
#define FF_CODE(name, severity, title, rule) name,
#include "base/codes.def"
#undef FF_CODE
    FF_CODE_COUNT
} ff_code;

typedef struct ff_code_entry {
    const char *name; /* "FF0210" */
    ff_severity severity;
    const char *title;
    const char *rule; /* "" when the message says it all */
} ff_code_entry;

const ff_code_entry *ff_code_describe(ff_code code);
/* The code with a name such as "FF0210" (any case), or FF_CODE_COUNT. */
ff_code ff_code_find(const char *name);

/* Adds a finding; texts are copied. A NULL list is allowed and drops it. */
void ff_report(ff_diagnostics *list, ff_code code, ff_place where, const char *message, ...)
    FF_PRINTF(4, 5);
/* Gives the last finding a way out. */
void ff_report_help(ff_diagnostics *list, const char *help, ...) FF_PRINTF(2, 3);
/* Replaces the last finding's rule by one in the user's own numbers. */
void ff_report_rule(ff_diagnostics *list, const char *rule, ...) FF_PRINTF(2, 3);

/* Gives the last finding a place, when it has none. */
void ff_report_where(ff_diagnostics *list, ff_place where);

bool ff_has_errors(const ff_diagnostics *list);

extern const ff_place FF_NOWHERE;

#endif
