/* What is wrong with an input, said so that it teaches: a stable code, the place in the user's
 * file, the fact, the rule with its reason, and a way out.
 *
 *     error[FF0210]: tp 6 does not divide 32 attention heads      code, message
 *       --> model.json:7:5                                        where
 *        = rule   each tensor-parallel rank holds whole heads     rule
 *        = help   nearest legal: tp=4, tp=8                       help
 *
 * A list collects every finding of a check, in the order found. It owns its texts; a diagnostic
 * is valid until its list is freed. */
#ifndef FIVEFOLD_DIAGNOSTICS_H
#define FIVEFOLD_DIAGNOSTICS_H

#include "fivefold/status.h"

typedef enum ff_severity { FF_NOTE, FF_WARNING, FF_ERROR } ff_severity;

/* A place in a text the user gave. `file` is NULL when there is none; lines and columns count
 * from 1, a length of 0 marks a point. `line_text` is the whole line, without its newline. */
typedef struct ff_place {
    const char *file;
    int line, column, length;
    const char *line_text;
} ff_place;

typedef struct ff_diagnostic {
    ff_severity severity;
    const char *code; /* "FF0210" */
    ff_place where;
    const char *message;
    const char *rule; /* NULL when the code has none */
    const char *help; /* NULL when nothing useful can be said */
} ff_diagnostic;

typedef struct ff_diagnostics ff_diagnostics;

FF_API ff_diagnostics *ff_diagnostics_create(void);
FF_API void ff_diagnostics_free(ff_diagnostics *list);
FF_API int ff_diagnostics_count(const ff_diagnostics *list);
FF_API int ff_diagnostics_count_of(const ff_diagnostics *list, ff_severity severity);
FF_API const ff_diagnostic *ff_diagnostics_at(const ff_diagnostics *list, int index);

/* The word for a severity: "error", "warning", "note". */
FF_API const char *ff_severity_name(ff_severity severity);

#endif
