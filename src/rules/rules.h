/* What makes a layout illegal, unwise or wasteful: one table, framework-neutral.
 *
 * A rule is a row: its code (base/codes_rules.def holds severity and reason), the key it is about,
 * a cheap predicate, and what to say in the user's numbers. Search runs the predicates of errors
 * only; a check runs all and reports every finding with the nearest legal values of the key. */
#ifndef FF_RULES_RULES_H
#define FF_RULES_RULES_H

#include "base/diagnose.h"
#include "fivefold/cluster.h"
#include "fivefold/layout.h"
#include "fivefold/model.h"

typedef struct ff_rule_case {
    const ff_model *model;
    const ff_cluster *cluster; /* NULL: nothing is said about placement and devices */
    const ff_layout *layout;   /* derived */
    int64_t seq;
    int64_t gbs_sequences; /* target; 0 = none */
    bool gbs_exact;
    const char *text; /* the layout as written, to point into; may be NULL */
} ff_rule_case;

typedef struct ff_rule {
    ff_code code;
    const char *key; /* of the layout that a finding points at */
    bool (*violated)(const ff_rule_case *c);
    void (*say)(const ff_rule_case *c, ff_place where, ff_diagnostics *findings);
    /* Where the remedy is another value of one size: its offset in ff_layout, else SIZE_MAX. */
    size_t remedy;
} ff_rule;

/* The n-th rule, NULL past the end. */
const ff_rule *ff_rule_at(int n);

/* No error applies. */
bool ff_rules_legal(const ff_rule_case *c);
/* Reports everything; true when legal. */
bool ff_rules_check(const ff_rule_case *c, ff_diagnostics *findings);
/* The same for the rules on sizes against the model alone: all that can be said about a layout that
 * could not be derived. */
bool ff_rules_check_sizes(const ff_rule_case *c, ff_diagnostics *findings);

#endif
