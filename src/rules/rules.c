/* Running the table, pointing at the key in the layout as written, and finding the nearest legal
 * values: the same predicate is asked about other values of the same key. */
#include "rules/rules.h"

#include "base/number.h"
#include "layout/keys.h"
#include "rules/table.h"
#include <string.h>

const ff_rule *ff_rule_at(int n) {
    if (n < 0)
        return NULL;
    for (int t = 0; ff_rule_tables[t] != NULL; t++) {
        int count = 0;
        while (ff_rule_tables[t][count].violated != NULL)
            count++;
        if (n < count)
            return &ff_rule_tables[t][n];
        n -= count;
    }
    return NULL;
}

static bool is_error(const ff_rule *rule) {
    return ff_code_describe(rule->code)->severity == FF_ERROR;
}

bool ff_rules_legal(const ff_rule_case *c) {
    for (int t = 0; ff_rule_tables[t] != NULL; t++)
        for (const ff_rule *rule = ff_rule_tables[t]; rule->violated != NULL; rule++)
            if (is_error(rule) && rule->violated(c))
                return false;
    return true;
}

/* ---- nearest legal values ---- */

/* A layout whose value of one key is tried out. */
typedef struct trial {
    const ff_rule *rule; /* the broken one, whose key it is */
    ff_layout layout;
    ff_rule_case c; /* of that layout */
} trial;

static void set_value(trial *t, int64_t value) {
    memcpy((char *)&t->layout + t->rule->remedy, &value, sizeof value);
}

/* tp, pp or cp is no remedy when no dp could then fill the cluster. */
static bool leaves_room_for_dp(const trial *t) {
    const size_t dense[] = {FF_REMEDY(tp), FF_REMEDY(pp), FF_REMEDY(cp)};
    const ff_layout *l = &t->layout;
    bool is_dense = false;
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        is_dense = is_dense || t->rule->remedy == dense[i];
    return !is_dense || t->c.cluster == NULL ||
           t->c.cluster->devices % ff_mul3(l->tp, l->pp, l->cp) == 0;
}

/* Legal by every rule that the same key can mend. */
static bool legal_with(trial *t, int64_t value) {
    set_value(t, value);
    for (int i = 0; ff_rule_tables[i] != NULL; i++)
        for (const ff_rule *rule = ff_rule_tables[i]; rule->violated != NULL; rule++)
            if (rule->remedy == t->rule->remedy && rule->violated(&t->c))
                return false;
    return leaves_room_for_dp(t);
}

/* What the rule itself advises comes after. */
static void add_help(ff_diagnostics *findings, const char *key, int64_t below, int64_t above) {
    const char *advice = ff_diagnostics_at(findings, ff_diagnostics_count(findings) - 1)->help;
    const char *joint = advice == NULL ? "" : "; or ";
    advice = advice == NULL ? "" : advice;
    if (below > 0 && above > 0)
        ff_report_help(findings, "nearest legal: %s=%lld, %s=%lld%s%s", key, (long long)below, key,
                       (long long)above, joint, advice);
    else if (below + above > 0)
        ff_report_help(findings, "nearest legal: %s=%lld%s%s", key, (long long)(below + above),
                       joint, advice);
}

/* The nearest legal value below and above, looked for up to twice the value and a little more. */
static void help_with_nearest(const ff_rule *rule, const ff_rule_case *c,
                              ff_diagnostics *findings) {
    if (findings == NULL)
        return;
    int64_t value, below = 0, above = 0;
    memcpy(&value, (const char *)c->layout + rule->remedy, sizeof value);
    trial t = {.rule = rule, .layout = *c->layout, .c = *c};
    t.c.layout = &t.layout;
    for (int64_t v = value - 1; v >= 1 && below == 0; v--)
        below = legal_with(&t, v) ? v : 0;
    for (int64_t v = value + 1; v <= 2 * value + 8 && above == 0; v++)
        above = legal_with(&t, v) ? v : 0;
    add_help(findings, rule->key, below, above);
}

/* ---- checking ---- */

static bool check_table(const ff_rule *table, const ff_rule_case *c, ff_diagnostics *findings) {
    bool legal = true;
    for (const ff_rule *rule = table; rule->violated != NULL; rule++) {
        if (!rule->violated(c))
            continue;
        legal = legal && !is_error(rule);
        ff_place where = rule->key == NULL ? FF_NOWHERE : ff_layout_place(c->text, rule->key);
        rule->say(c, where, findings);
        if (rule->remedy != FF_NO_REMEDY)
            help_with_nearest(rule, c, findings);
    }
    return legal;
}

bool ff_rules_check(const ff_rule_case *c, ff_diagnostics *findings) {
    bool legal = true;
    for (int t = 0; ff_rule_tables[t] != NULL; t++)
        legal = check_table(ff_rule_tables[t], c, findings) && legal;
    return legal;
}

bool ff_rules_check_sizes(const ff_rule_case *c, ff_diagnostics *findings) {
    return check_table(ff_rules_shape, c, findings);
}
