/* Values of a config by role, by key and by flag rule, under any of their spellings. */
#include "model/family.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const ff_field *find_value(const ff_field *map, const char *key) {
    const ff_field *f = ff_field_find(map, key);
    return f == NULL || f->kind == FF_FIELD_NULL ? NULL : f;
}

static const char *own_spelling(const ff_reading *r, ff_role role) {
    const char *own = r->family->key[role];
    return own == NULL ? ff_roles[role].names[0] : own;
}

/* The field that plays the role: the family's own spelling first. */
static const ff_field *find_role(const ff_reading *r, ff_role role) {
    const ff_field *f = find_value(r->body, own_spelling(r, role));
    for (const char *const *name = ff_roles[role].names; f == NULL && *name != NULL; name++)
        f = find_value(r->body, *name);
    return f;
}

/* Two spellings of one thing with two values: neither can be trusted. */
static void check_agreement(const ff_reading *r, ff_role role, const ff_field *chosen) {
    if (!ff_roles[role].one_value)
        return;
    for (const char *const *name = ff_roles[role].names; *name != NULL; name++) {
        const ff_field *other = find_value(r->body, *name);
        if (other != NULL && other->is_integer && other->integer != chosen->integer)
            ff_report(r->findings, FF0122, other->where,
                      "\"%s\" is %" PRId64 ", but \"%s\" is %" PRId64, other->name, other->integer,
                      chosen->name, chosen->integer);
    }
}

static bool family_default(const ff_reading *r, const char *key, int64_t *value) {
    for (int i = 0; i < FF_FAMILY_DEFAULTS && r->family->defaults[i].key != NULL; i++) {
        if (strcmp(r->family->defaults[i].key, key) == 0) {
            *value = r->family->defaults[i].value;
            return true;
        }
    }
    return false;
}

bool ff_reading_is_reported(const ff_reading *r, ff_place where) {
    for (int i = 0; i < ff_diagnostics_count(r->findings); i++) {
        ff_place known = ff_diagnostics_at(r->findings, i)->where;
        if (known.line == where.line && known.column == where.column)
            return true;
    }
    return false;
}

/* Where findings about the field go: a field that is read twice is reported once. */
static ff_diagnostics *findings_about(const ff_reading *r, const ff_field *f) {
    return f != NULL && ff_reading_is_reported(r, f->where) ? NULL : r->findings;
}

/* In a family that is not known the field may well be there under another name; a slip of the pen,
 * which has its help already, is the nearer reason. */
static void explain_unknown_type(const ff_reading *r) {
    int count = ff_diagnostics_count(r->findings);
    if (r->family != &ff_family_unknown || ff_diagnostics_at(r->findings, count - 1)->help != NULL)
        return;
    const char *rest = "so fields are looked for under their usual names only";
    if (find_value(r->body, "model_type") == NULL)
        ff_report_help(r->findings, "no \"model_type\" is given, %s", rest);
    else
        ff_report_help(r->findings, "model_type \"%s\" is not known, %s", r->model->family, rest);
}

/* A key that is near to the missing one but has a meaning of its own is no misspelling of it
 * (qk_rope_head_dim for qk_nope_head_dim). */
static void report_missing(const ff_reading *r, const char *key) {
    const ff_field *near_miss = ff_field_misspelled(r->body, key);
    bool absent = ff_field_find(r->body, key) == NULL;
    if (absent && near_miss != NULL && ff_family_knows_key(near_miss->name))
        ff_report(r->findings, FF0110, r->body->where, "\"%s\" is needed, but missing", key);
    else
        ff_field_report_missing(r->body, key, r->findings);
    explain_unknown_type(r);
}

bool ff_reading_size(const ff_reading *r, ff_role role, int64_t *value) {
    const ff_field *f = find_role(r, role);
    if (f == NULL)
        return family_default(r, own_spelling(r, role), value);
    if (!ff_field_get_integer(r->body, f->name, 1, ff_roles[role].most, findings_about(r, f),
                              value))
        return false;
    check_agreement(r, role, f);
    return true;
}

bool ff_reading_need(const ff_reading *r, ff_role role, int64_t *value) {
    if (ff_reading_size(r, role, value))
        return true;
    if (find_role(r, role) == NULL)
        report_missing(r, own_spelling(r, role));
    return false;
}

bool ff_reading_key(const ff_reading *r, const char *key, int64_t least, int64_t most,
                    int64_t *value) {
    const ff_field *f = find_value(r->body, key);
    if (f == NULL)
        return family_default(r, key, value);
    return ff_field_get_integer(r->body, key, least, most, findings_about(r, f), value);
}

void ff_reading_need_key(const ff_reading *r, const char *key, int64_t most, int64_t *value) {
    if (!ff_reading_key(r, key, 1, most, value) && find_value(r->body, key) == NULL)
        report_missing(r, key);
}

bool ff_reading_failed(const ff_reading *r) {
    return ff_diagnostics_count_of(r->findings, FF_ERROR) > r->errors_before;
}

bool ff_reading_flag(const ff_reading *r, ff_flag_rule rule) {
    bool value = rule.otherwise;
    if (rule.key != NULL)
        ff_field_get_boolean(r->body, rule.key, findings_about(r, find_value(r->body, rule.key)),
                             &value);
    return value;
}

ff_place ff_reading_place(const ff_reading *r, const char *key) {
    const ff_field *f = find_value(r->body, key);
    return f == NULL ? r->body->where : f->where;
}

ff_place ff_reading_role_place(const ff_reading *r, ff_role role) {
    const ff_field *f = find_role(r, role);
    return f == NULL ? r->body->where : f->where;
}
