/* See fivefold/validate.h. Rows are predicted once; groups are sets of pointers to them. */
#include "fivefold/validate.h"

#include "base/text.h"
#include "presets/presets.h"
#include "validate/calibrate.h"
#include "validate/report.h"
#include "validate/score.h"
#include <stdlib.h>
#include <string.h>

struct ff_validation {
    ff_arena *arena;
    ff_validate_library library;
    ff_row *rows;
    int count;
};

ff_validation *ff_validation_create(const ff_profile *profile) {
    ff_arena *arena = ff_arena_create();
    ff_validation *v = FF_ARENA_NEW(arena, ff_validation);
    v->arena = arena;
    ff_validate_library_init(arena, profile, &v->library);
    return v;
}

void ff_validation_free(ff_validation *validation) {
    if (validation != NULL)
        ff_arena_free(validation->arena);
}

ff_status ff_validation_add(ff_validation *v, const char *file, const char *text, size_t length,
                            ff_diagnostics *findings) {
    ff_csv csv;
    ff_status status = ff_csv_read(v->arena, file, text, length, findings, &csv);
    return status == FF_OK ? ff_rows_read(v->arena, &csv, findings, &v->rows, &v->count) : status;
}

/* ---- which rows ---- */

static bool is_word_of(const char *list, const char *word) {
    size_t length = strlen(word);
    while (list != NULL && *list != '\0') {
        size_t next = strcspn(list, ",");
        if (next == length && strncmp(list, word, length) == 0)
            return true;
        list += next + (list[next] == ',');
    }
    return false;
}

static bool wanted(const ff_row *row, const ff_validate_options *o) {
    bool all = strcmp(o->quality, "all") == 0;
    return (all || ff_row_is(row, FF_ROW_quality, o->quality)) &&
           (o->classes == NULL || is_word_of(o->classes, row->value[FF_ROW_class]));
}

static ff_scored predict_row(ff_validation *v, ff_row *row, ff_case *c) {
    ff_scored s = {.row = row};
    ff_row_assume(v->library.rules, row);
    s.skip = ff_case_of(&v->library, row, c);
    s.broken = c->broken;
    if (s.skip == FF_SKIP_NONE)
        ff_predict(row, c, &s.p);
    bool says_nothing = s.p.ran && s.p.measured_s <= 0 && s.p.measured_bytes <= 0;
    if (s.skip == FF_SKIP_NONE && says_nothing)
        s.skip = FF_SKIP_NOTHING;
    return s;
}

/* ---- groups ---- */

static const char *group_name(const ff_scored *s, const char *by) {
    if (strcmp(by, "field") == 0)
        return s->p.measured_as != NULL && s->p.measured_as[0] != '\0' ? s->p.measured_as : "none";
    const char *name = s->row->value[ff_row_column_find(by)];
    return name[0] == '\0' ? "(empty)" : name;
}

typedef struct keyed {
    const char *name;
    const ff_scored *scored;
    int order;
} keyed;

static int by_key(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : x->order - y->order;
}

static void score_groups(ff_validation *v, const ff_scored *all, int count, const char *by,
                         ff_report_input *report) {
    keyed *keys = FF_ARENA_ARRAY(v->arena, count, keyed);
    const ff_scored **pointers = FF_ARENA_ARRAY(v->arena, count, const ff_scored *);
    report->group = FF_ARENA_ARRAY(v->arena, count, ff_group_score);
    report->members = FF_ARENA_ARRAY(v->arena, count, const ff_scored *const *);
    for (int i = 0; i < count; i++)
        keys[i] = (keyed){group_name(&all[i], by), &all[i], i};
    qsort(keys, (size_t)count, sizeof *keys, by_key);
    for (int i = 0; i < count; i++)
        pointers[i] = keys[i].scored;
    for (int i = 0, next; i < count; i = next) {
        for (next = i; next < count && strcmp(keys[i].name, keys[next].name) == 0; next++)
            ;
        report->members[report->groups] = &pointers[i];
        ff_score_group(v->arena, keys[i].name, &pointers[i], next - i,
                       &report->group[report->groups++]);
    }
    report->all = pointers;
    report->rows = count;
    ff_score_group(v->arena, "total", pointers, count, &report->total);
}

static bool check_options(const ff_validate_options *o, ff_diagnostics *findings) {
    if (strcmp(o->by, "field") == 0 || ff_row_column_find(o->by) < FF_ROW_COUNT)
        return true;
    ff_report(findings, FF0601, FF_NOWHERE, "rows cannot be grouped by \"%.60s\"", o->by);
    ff_report_help(findings, "source, stack, class, gpu, field, or any other column");
    return false;
}

ff_status ff_validation_run(ff_validation *v, const ff_validate_options *options,
                            ff_diagnostics *findings, ff_facts *facts) {
    if (!check_options(options, findings))
        return FF_INVALID;
    ff_scored *all = FF_ARENA_ARRAY(v->arena, v->count, ff_scored);
    ff_case *c = FF_ARENA_NEW(v->arena, ff_case);
    int count = 0, scored = 0;
    for (int i = 0; i < v->count; i++) {
        if (!wanted(&v->rows[i], options))
            continue;
        all[count] = predict_row(v, &v->rows[i], c);
        scored += all[count++].skip == FF_SKIP_NONE;
    }
    ff_report_input report = {.options = options, .library = &v->library};
    score_groups(v, all, count, options->by, &report);
    ff_validation_facts(v->arena, &report, facts);
    return scored > 0 ? FF_OK : FF_NO;
}

ff_status ff_validation_calibrate(ff_validation *v, const ff_profile *start,
                                  ff_diagnostics *findings, ff_facts *facts, char **profile_text) {
    ff_row **rows = FF_ARENA_ARRAY(v->arena, v->count, ff_row *);
    int count = 0;
    for (int i = 0; i < v->count; i++) {
        if (ff_row_is(&v->rows[i], FF_ROW_quality, "suspect"))
            continue;
        ff_row_assume(v->library.rules, &v->rows[i]);
        rows[count++] = &v->rows[i];
    }
    ff_profile end;
    ff_status status = ff_calibrate(v->arena, &v->library, rows, count, start, facts, &end);
    ff_text text = {0};
    if (status == FF_OK)
        ff_profile_write(&end, &text);
    else
        ff_report(findings, FF0605, FF_NOWHERE, "none of %d rows can be scored", count);
    *profile_text = text.bytes;
    return status;
}
