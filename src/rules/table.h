/* The rules, in groups that each end with an empty row; the groups end with NULL. */
#ifndef FF_RULES_TABLE_H
#define FF_RULES_TABLE_H

#include "rules/rules.h"
#include <stddef.h>
#include <stdint.h>

extern const ff_rule ff_rules_shape[];  /* shape.c: sizes against the model */
extern const ff_rule ff_rules_batch[];  /* batch.c: sequence, batch, world */
extern const ff_rule ff_rules_advice[]; /* advice.c: legal, but unwise or wasteful */
extern const ff_rule *const ff_rule_tables[];

#define FF_REMEDY(member) offsetof(ff_layout, member)
#define FF_NO_REMEDY SIZE_MAX

#endif
