#include "base/diagnose.h"

#include "base/arena.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const ff_place FF_NOWHERE = {0};

enum { NOTE = FF_NOTE, WARNING = FF_WARNING, ERROR = FF_ERROR };

static const ff_code_entry catalogue[] = {
#define FF_CODE(name, severity, title, rule) {#name, (ff_severity)severity, title, rule},
#include "base/codes.def"
#undef FF_CODE
};

struct ff_diagnostics {
    ff_arena *arena;
    ff_diagnostic *items;
    int count, capacity;
};

const ff_code_entry *ff_code_describe(ff_code code) {
    return &catalogue[code];
}

ff_code ff_code_find(const char *name) {
    for (int i = 0; i < FF_CODE_COUNT; i++)
        if (strcasecmp(catalogue[i].name, name) == 0)
            return (ff_code)i;
    return FF_CODE_COUNT;
}

ff_diagnostics *ff_diagnostics_create(void) {
    ff_arena *arena = ff_arena_create();
    ff_diagnostics *list = FF_ARENA_NEW(arena, ff_diagnostics);
    list->arena = arena;
    return list;
}

void ff_diagnostics_free(ff_diagnostics *list) {
    if (list == NULL)
        return;
    free(list->items);
    ff_arena_free(list->arena);
}

int ff_diagnostics_count(const ff_diagnostics *list) {
    return list == NULL ? 0 : list->count;
}

int ff_diagnostics_count_of(const ff_diagnostics *list, ff_severity severity) {
    int count = 0;
    for (int i = 0; i < ff_diagnostics_count(list); i++)
        count += list->items[i].severity == severity;
    return count;
}

const ff_diagnostic *ff_diagnostics_at(const ff_diagnostics *list, int index) {
    return &list->items[index];
}

const char *ff_severity_name(ff_severity severity) {
    static const char *const names[] = {
        [FF_NOTE] = "note", [FF_WARNING] = "warning", [FF_ERROR] = "error"};
    return names[severity];
}

bool ff_has_errors(const ff_diagnostics *list) {
    return ff_diagnostics_count_of(list, FF_ERROR) > 0;
}

static ff_diagnostic *next_item(ff_diagnostics *list) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        list->items = realloc(list->items, (size_t)list->capacity * sizeof *list->items);
        if (list->items == NULL)
            abort();
    }
    ff_diagnostic *item = &list->items[list->count++];
    *item = (ff_diagnostic){0};
    return item;
}

static const char *copy_or_null(ff_arena *arena, const char *text) {
    return text == NULL ? NULL : ff_arena_copy(arena, text, strlen(text));
}

static void set_place(ff_diagnostics *list, ff_diagnostic *item, ff_place where) {
    item->where = where;
    item->where.file = copy_or_null(list->arena, where.file);
    item->where.line_text = copy_or_null(list->arena, where.line_text);
}

void ff_report(ff_diagnostics *list, ff_code code, ff_place where, const char *message, ...) {
    if (list == NULL)
        return;
    const ff_code_entry *entry = ff_code_describe(code);
    ff_diagnostic *item = next_item(list);
    item->severity = entry->severity;
    item->code = entry->name;
    set_place(list, item, where);
    item->rule = entry->rule[0] == '\0' ? NULL : entry->rule;
    va_list arguments;
    va_start(arguments, message);
    item->message = ff_arena_vprintf(list->arena, message, arguments);
    va_end(arguments);
}

void ff_report_help(ff_diagnostics *list, const char *help, ...) {
    if (list == NULL || list->count == 0)
        return;
    va_list arguments;
    va_start(arguments, help);
    list->items[list->count - 1].help = ff_arena_vprintf(list->arena, help, arguments);
    va_end(arguments);
}

void ff_report_rule(ff_diagnostics *list, const char *rule, ...) {
    if (list == NULL || list->count == 0)
        return;
    va_list arguments;
    va_start(arguments, rule);
    list->items[list->count - 1].rule = ff_arena_vprintf(list->arena, rule, arguments);
    va_end(arguments);
}

void ff_report_where(ff_diagnostics *list, ff_place where) {
    if (list != NULL && list->count > 0 && list->items[list->count - 1].where.file == NULL)
        set_place(list, &list->items[list->count - 1], where);
}
