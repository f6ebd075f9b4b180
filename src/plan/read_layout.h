/* A layout string in a job's context. */
#ifndef FF_PLAN_READ_LAYOUT_H
#define FF_PLAN_READ_LAYOUT_H

#include "plan/evaluate.h"
#include "rules/rules.h"

/* FF_INVALID when the string does not parse, FF_NO when it cannot be derived (findings say why). */
ff_status ff_read_layout(const ff_job *job, const char *text, ff_diagnostics *findings,
                         ff_layout *layout);
ff_rule_case ff_rule_case_of(const ff_job *job, const ff_layout *layout, const char *text);

#endif
