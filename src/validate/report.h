/* The scores as facts: inputs, groups, total, assumptions, and the worst rows term by term. */
#ifndef FF_VALIDATE_REPORT_H
#define FF_VALIDATE_REPORT_H

#include "base/fact.h"
#include "fivefold/validate.h"
#include "validate/score.h"

typedef struct ff_report_input {
    const ff_validate_options *options;
    const ff_validate_library *library;
    ff_group_score *group, total;
    const ff_scored *const **members; /* of each group */
    int groups;
    const ff_scored *const *all;
    int rows;
} ff_report_input;

void ff_validation_facts(ff_arena *arena, const ff_report_input *report, ff_facts *facts);

#endif
