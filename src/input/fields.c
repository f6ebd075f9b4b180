/* Access to a tree of fields, and what is said about a value that cannot be used. Lookups are
 * linear: a config has some dozens of keys, and the reader bounds the rest. */
#include "input/fields.h"

#include "base/number.h"
#include "base/text.h"
#include <inttypes.h>
#include <string.h>

const ff_field *ff_field_find(const ff_field *map, const char *name) {
    if (map == NULL || map->kind != FF_FIELD_MAP)
        return NULL;
    for (const ff_field *f = map->first; f != NULL; f = f->next)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

const char *ff_field_kind_name(ff_field_kind kind) {
    static const char *const names[] = {
        [FF_FIELD_NULL] = "null", [FF_FIELD_BOOL] = "true or false", [FF_FIELD_NUMBER] = "a number",
        [FF_FIELD_TEXT] = "text", [FF_FIELD_LIST] = "a list",        [FF_FIELD_MAP] = "a map",
    };
    return names[kind];
}

/* The field when there is a value to read; null counts as absent. */
static const ff_field *find_value(const ff_field *map, const char *name) {
    const ff_field *f = ff_field_find(map, name);
    return f == NULL || f->kind == FF_FIELD_NULL ? NULL : f;
}

static void report_kind(const ff_field *f, const char *wanted, ff_diagnostics *findings) {
    ff_report(findings, FF0108, f->where, "\"%s\" must be %s, not %s", f->name, wanted,
              ff_field_kind_name(f->kind));
    int64_t count;
    if (f->kind == FF_FIELD_TEXT && strstr(wanted, "number") && ff_parse_count(f->text, &count))
        ff_report_help(findings, "write it without quotes and suffix: %" PRId64, count);
}

static bool only_digits(const char *text) {
    text += *text == '-' || *text == '+';
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static void report_not_whole(const ff_field *f, int64_t least, int64_t most,
                             ff_diagnostics *findings) {
    if (only_digits(f->text))
        ff_report(findings, FF0109, f->where,
                  "\"%s\" is out of range: it must be from %" PRId64 " to %" PRId64, f->name, least,
                  most);
    else
        ff_report(findings, FF0108, f->where, "\"%s\" must be a whole number, not %.40s", f->name,
                  f->text);
}

bool ff_field_get_integer(const ff_field *map, const char *name, int64_t least, int64_t most,
                          ff_diagnostics *findings, int64_t *value) {
    const ff_field *f = find_value(map, name);
    if (f == NULL)
        return false;
    if (f->kind != FF_FIELD_NUMBER) {
        report_kind(f, "a whole number", findings);
        return false;
    }
    if (!f->is_integer) {
        report_not_whole(f, least, most, findings);
        return false;
    }
    if (f->integer < least || f->integer > most) {
        ff_report(findings, FF0109, f->where,
                  "\"%s\" is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, f->name,
                  f->integer, least, most);
        ff_report_help(findings, "nearest legal: %" PRId64, f->integer < least ? least : most);
        return false;
    }
    *value = f->integer;
    return true;
}

bool ff_field_get_real(const ff_field *map, const char *name, double least, double most,
                       ff_diagnostics *findings, double *value) {
    const ff_field *f = find_value(map, name);
    if (f == NULL)
        return false;
    if (f->kind != FF_FIELD_NUMBER) {
        report_kind(f, "a number", findings);
        return false;
    }
    if (f->real < least || f->real > most) {
        ff_report(findings, FF0109, f->where, "\"%s\" is %.40s; it must be from %.15g to %.15g",
                  f->name, f->text, least, most);
        return false;
    }
    *value = f->real;
    return true;
}

bool ff_field_get_boolean(const ff_field *map, const char *name, ff_diagnostics *findings,
                          bool *value) {
    const ff_field *f = find_value(map, name);
    if (f == NULL)
        return false;
    if (f->kind != FF_FIELD_BOOL) {
        report_kind(f, "true or false", findings);
        return false;
    }
    *value = f->boolean;
    return true;
}

bool ff_field_get_text(const ff_field *map, const char *name, ff_diagnostics *findings,
                       const char **value) {
    const ff_field *f = find_value(map, name);
    if (f == NULL)
        return false;
    if (f->kind != FF_FIELD_TEXT) {
        report_kind(f, "text", findings);
        return false;
    }
    *value = f->text;
    return true;
}

const ff_field *ff_field_misspelled(const ff_field *map, const char *name) {
    const ff_field *best = NULL;
    int best_edits = 2 + (int)strlen(name) / 10;
    for (const ff_field *f = map->first; f != NULL; f = f->next) {
        int edits = ff_edit_distance(f->name, name);
        if (edits < best_edits) {
            best = f;
            best_edits = edits;
        }
    }
    return best;
}

void ff_field_report_missing(const ff_field *map, const char *name, ff_diagnostics *findings) {
    if (map->kind == FF_FIELD_MAP && ff_field_find(map, name) == NULL) {
        const ff_field *near_miss = ff_field_misspelled(map, name);
        if (near_miss != NULL) {
            ff_report(findings, FF0107, near_miss->name_where, "unknown key \"%s\"",
                      near_miss->name);
            ff_report_help(findings, "did you mean \"%s\"?", name);
            return;
        }
    }
    const ff_field *null_value = ff_field_find(map, name);
    if (null_value != NULL)
        ff_report(findings, FF0110, null_value->where, "\"%s\" is needed, but has no value", name);
    else
        ff_report(findings, FF0110, map->where, "\"%s\" is needed, but missing", name);
}

void ff_field_report_unknown(const ff_field *map, const char *const *known,
                             ff_diagnostics *findings) {
    int count = 0;
    while (known[count] != NULL)
        count++;
    for (const ff_field *f = map->first; f != NULL; f = f->next) {
        bool found = false;
        for (int i = 0; i < count && !found; i++)
            found = strcmp(f->name, known[i]) == 0;
        if (found)
            continue;
        ff_report(findings, FF0107, f->name_where, "unknown key \"%s\"", f->name);
        int nearest = ff_nearest_word(f->name, known, count);
        if (nearest >= 0)
            ff_report_help(findings, "did you mean \"%s\"?", known[nearest]);
    }
}
