/* Running the table, pointing at the key in the layout as written, and finding the nearest legal
 * values: the same predicate is asked about other values of the same key. */
#include "rules/rules.h"

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

/* The key's place in the layout string: "tp" in "dp=2,tp=8" but not in "etp=8". */
static ff_place place_of(const ff_rule_case *c, const char *key) {
    if (c->text == NULL || key == NULL)
        return FF_NOWHERE;
    size_t length = strlen(key);
    for (const char *at = strstr(c->text, key); at != NULL; at = strstr(at + 1, key)) {
        bool begins = at == c->text || strchr(", ", at[-1]) != NULL;
        if (begins && at[length] == '=') {
            size_t whole = length + 1 + strcspn(at + length + 1, ", ");
            return (ff_place){"layout", 1, (int)(at - c->text) + 1, (int)whole, c->text};
        }
    }
    return FF_NOWHERE;
}

static bool legal_with(const ff_rule *rule, const ff_rule_case *c, int64_t value) {
    ff_layout other = *c->layout;
    memcpy((char *)&other + rule->remedy, &value, sizeof value);
    ff_rule_case changed = *c;
    changed.layout = &other;
    return !rule->violated(&changed);
}

/* The nearest legal value below and above, looked for up to twice the value and a little more. */
static void help_with_nearest(const ff_rule *rule, const ff_rule_case *c,
                              ff_diagnostics *findings) {
    int64_t value, below = 0, above = 0;
    memcpy(&value, (const char *)c->layout + rule->remedy, sizeof value);
    for (int64_t v = value - 1; v >= 1 && below == 0; v--)
        below = legal_with(rule, c, v) ? v : 0;
    for (int64_t v = value + 1; v <= 2 * value + 8 && above == 0; v++)
        above = legal_with(rule, c, v) ? v : 0;
    if (below > 0 && above > 0)
        ff_report_help(findings, "nearest legal: %s=%lld, %s=%lld", rule->key, (long long)below,
                       rule->key, (long long)above);
    else if (below + above > 0)
        ff_report_help(findings, "nearest legal: %s=%lld", rule->key, (long long)(below + above));
}

bool ff_rules_check(const ff_rule_case *c, ff_diagnostics *findings) {
    bool legal = true;
    const ff_rule *rule;
    for (int n = 0; (rule = ff_rule_at(n)) != NULL; n++) {
        if (!rule->violated(c))
            continue;
        legal = legal && !is_error(rule);
        rule->say(c, place_of(c, rule->key), findings);
        if (rule->remedy != SIZE_MAX)
            help_with_nearest(rule, c, findings);
    }
    return legal;
}
