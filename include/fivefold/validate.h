/* Predictions held against published measurements.
 *
 *     table (CSV) -> rows -> assumptions -> prediction of each -> scores by group
 *
 * The columns are those of validation/README.md. What a row leaves open is assumed by rules that
 * are printed with the result, or predicted as a range. */
#ifndef FIVEFOLD_VALIDATE_H
#define FIVEFOLD_VALIDATE_H

#include "fivefold/diagnostics.h"
#include "fivefold/facts.h"
#include "fivefold/plan.h"
#include <stddef.h>

typedef struct ff_validation ff_validation;

/* `profile` is used for every row; NULL: the profile called like the row's stack. */
FF_API ff_validation *ff_validation_create(const ff_profile *profile);
FF_API void ff_validation_free(ff_validation *validation);
/* Adds the rows of a table; the text must live as long as the validation. */
FF_API ff_status ff_validation_add(ff_validation *validation, const char *file, const char *text,
                                   size_t length, ff_diagnostics *findings);

typedef struct ff_validate_options {
    const char *by;      /* a column, or "field": what the time was measured as */
    const char *classes; /* "dense,moe"; NULL = all */
    const char *quality; /* "good", "suspect" or "all" */
    int64_t worst;       /* rows to show term by term */
} ff_validate_options;
/* Predicts and scores. FF_NO when no row could be scored. */
FF_API ff_status ff_validation_run(ff_validation *validation, const ff_validate_options *options,
                                   ff_diagnostics *findings, ff_facts *facts);

/* Fits the constants of `start` to the rows and writes the fitted profile, a file that `plan` takes,
 * to `profile_text` (freed with free()). FF_NO when no row could be scored. */
FF_API ff_status ff_validation_calibrate(ff_validation *validation, const ff_profile *start,
                                         ff_diagnostics *findings, ff_facts *facts,
                                         char **profile_text);

#endif
