/* See row.h. */
#include "validate/row.h"

#include "base/number.h"
#include "base/text.h"
#include <string.h>

static const char *const names[] = {
#define X(name) [FF_ROW_##name] = #name,
    FF_ROW_COLUMNS(X) FF_ROW_DERIVED(X)
#undef X
};

const char *ff_row_column_name(ff_row_column column) {
    return column < FF_ROW_COUNT ? names[column] : "";
}

ff_row_column ff_row_column_find(const char *name) {
    for (int i = 0; i < FF_ROW_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return (ff_row_column)i;
    return FF_ROW_COUNT;
}

/* ---- heading ---- */

static ff_place heading_place(const ff_csv *csv) {
    return (ff_place){.file = csv->file, .line = csv->line[0], .column = 1};
}

/* column_of[i]: where column i of a row stands in the table. */
static bool read_heading(const ff_csv *csv, ff_diagnostics *findings, int *column_of) {
    bool good = true;
    for (int i = 0; i < FF_ROW_READ; i++)
        column_of[i] = -1;
    for (int at = 0; at < csv->columns; at++) {
        const char *name = ff_csv_at(csv, 0, at);
        ff_row_column column = ff_row_column_find(name);
        if (column >= FF_ROW_READ) {
            ff_report(findings, FF0601, heading_place(csv), "no column is called \"%.60s\"", name);
            int nearest = ff_nearest_word(name, names, FF_ROW_READ);
            if (nearest >= 0)
                ff_report_help(findings, "did you mean \"%s\"?", names[nearest]);
            good = false;
        } else if (column_of[column] >= 0) {
            ff_report(findings, FF0603, heading_place(csv), "\"%s\" is given twice", name);
            good = false;
        } else {
            column_of[column] = at;
        }
    }
    for (int i = 0; i < FF_ROW_READ; i++) {
        if (column_of[i] >= 0)
            continue;
        ff_report(findings, FF0602, heading_place(csv), "there is no column \"%s\"", names[i]);
        good = false;
    }
    return good;
}

/* A source that says "unknown" says nothing. */
static const char *said(const char *text) {
    return strcmp(text, "unknown") == 0 ? "" : text;
}

ff_status ff_rows_read(ff_arena *arena, const ff_csv *csv, ff_diagnostics *findings, ff_row **rows,
                       int *count) {
    int column_of[FF_ROW_READ];
    if (!read_heading(csv, findings, column_of))
        return FF_INVALID;
    if (csv->rows < 2) {
        ff_report(findings, FF0604, heading_place(csv), "the table has a heading only");
        return FF_INVALID;
    }
    int more = csv->rows - 1;
    ff_row *all = FF_ARENA_ARRAY(arena, *count + more, ff_row);
    if (*count > 0)
        memcpy(all, *rows, (size_t)*count * sizeof *all);
    for (int r = 0; r < more; r++) {
        ff_row *row = &all[*count + r];
        row->file = csv->file;
        row->line = csv->line[r + 1];
        for (int i = 0; i < FF_ROW_COUNT; i++)
            row->value[i] = i < FF_ROW_READ ? said(ff_csv_at(csv, r + 1, column_of[i])) : "";
    }
    *rows = all;
    *count += more;
    return FF_OK;
}

/* ---- values ---- */

int64_t ff_row_integer(const ff_row *row, ff_row_column column) {
    int64_t value;
    return ff_parse_count(row->value[column], &value) ? value : 0;
}

double ff_row_real(const ff_row *row, ff_row_column column) {
    double value;
    return ff_parse_real(row->value[column], &value) ? value : 0;
}

bool ff_row_is(const ff_row *row, ff_row_column column, const char *value) {
    return strcmp(row->value[column], value) == 0;
}

bool ff_row_says(const ff_row *row, ff_row_column column) {
    return row->value[column][0] != '\0';
}

/* ---- rules ---- */

bool ff_row_matches(const char *text, const char *pattern) {
    if (pattern[0] == '!')
        return !ff_row_matches(text, pattern + 1);
    const char *after_star = NULL, *from = text;
    while (*text != '\0') {
        if (*pattern == '*') {
            after_star = ++pattern;
            from = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (after_star != NULL) { /* the star takes one more */
            pattern = after_star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool one_matches(const ff_field *patterns, const char *text) {
    if (patterns->kind != FF_FIELD_LIST)
        return ff_row_matches(text, patterns->text);
    for (const ff_field *p = patterns->first; p != NULL; p = p->next)
        if (ff_row_matches(text, p->text))
            return true;
    return false;
}

/* Each entry is a column and the patterns of which one must match. */
static bool conditions_hold(const ff_field *conditions, const ff_row *row) {
    for (const ff_field *c = conditions == NULL ? NULL : conditions->first; c != NULL;
         c = c->next) {
        ff_row_column column = ff_row_column_find(c->name);
        if (column == FF_ROW_COUNT || !one_matches(c, row->value[column]))
            return false;
    }
    return true;
}

static void apply(const ff_field *rule, ff_row *row) {
    const ff_field *fills = ff_field_find(rule, "fills"), *with = ff_field_find(rule, "with");
    const ff_field *why = ff_field_find(rule, "why");
    ff_row_column column = fills == NULL ? FF_ROW_COUNT : ff_row_column_find(fills->text);
    if (column == FF_ROW_COUNT || with == NULL || ff_row_says(row, column) ||
        row->choices[column] != NULL || !conditions_hold(ff_field_find(rule, "if"), row))
        return;
    if (with->kind == FF_FIELD_LIST)
        row->choices[column] = with;
    else
        row->value[column] = with->text;
    row->first_fitting[column] = ff_field_find(rule, "pick") != NULL;
    row->why[column] = why == NULL ? "" : why->text;
}

void ff_row_assume(const ff_field *rules, ff_row *row) {
    for (const ff_field *rule = rules->first; rule != NULL; rule = rule->next)
        apply(rule, row);
}
