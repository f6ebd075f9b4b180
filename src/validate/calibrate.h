/* Fits the few constants of a profile to rows of the user's own runs, says how far each moved, what
 * error is left, and what error new runs may expect (cross-validated). */
#ifndef FF_VALIDATE_CALIBRATE_H
#define FF_VALIDATE_CALIBRATE_H

#include "base/fact.h"
#include "validate/case.h"

/* The rows have been through ff_row_assume. FF_NO when none can be scored. */
ff_status ff_calibrate(ff_arena *arena, ff_validate_library *library, ff_row *const *rows,
                       int count, const ff_profile *start, ff_facts *facts, ff_profile *end);

#endif
