/* Facts as CSV (RFC 4180, line feeds): one table of exact numbers, units in the heading.
 *
 *     plan       a row a plan; nested records become dotted names (memory.peak_bytes), lists are
 *                left out
 *     validate   a row a group, likewise
 *     document   the rows of its first table; without one, its labelled items
 *     others     (check) one row of every scalar */
#include "output/json.h"
#include "output/render.h"

#include "base/arena.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 256, MOST_COLUMNS = 512 };

typedef struct heading {
    ff_arena *arena;
    const char *path[MOST_COLUMNS];
    int count;
} heading;

static void write_field(ff_text *out, const char *text) {
    if (strpbrk(text, ",\"\r\n") == NULL) {
        ff_text_append(out, text);
        return;
    }
    ff_text_append(out, "\"");
    for (const char *c = text; *c != '\0'; c++)
        ff_text_append_bytes(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    ff_text_append(out, "\"");
}

static void write_scalar(ff_text *out, const ff_fact *fact) {
    if (fact == NULL || fact->kind == FF_FACT_NULL)
        return;
    if (fact->kind == FF_FACT_TEXT)
        write_field(out, fact->text);
    else
        ff_json_write_scalar(out, fact);
}

static bool has_path(const heading *names, const char *path) {
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->path[i], path) == 0)
            return true;
    return false;
}

/* Collects the dotted names of a record's scalars, in order of first appearance. */
static void collect(heading *names, const ff_fact *record, const char *prefix) {
    for (const ff_fact *f = record->first; f != NULL; f = f->next) {
        if (f->name == NULL || f->kind == FF_FACT_LIST)
            continue;
        char *path =
            ff_arena_printf(names->arena, "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".", f->name);
        if (f->kind == FF_FACT_RECORD)
            collect(names, f, path);
        else if (names->count < MOST_COLUMNS && !has_path(names, path))
            names->path[names->count++] = path;
    }
}

static void write_heading(ff_text *out, const heading *names) {
    for (int i = 0; i < names->count; i++) {
        ff_text_append(out, i == 0 ? "" : ",");
        write_field(out, names->path[i]);
    }
    ff_text_append(out, "\n");
}

static void write_row(ff_text *out, const heading *names, const ff_fact *record) {
    for (int i = 0; i < names->count; i++) {
        ff_text_append(out, i == 0 ? "" : ",");
        write_scalar(out, ff_fact_find(record, names->path[i]));
    }
    ff_text_append(out, "\n");
}

static void write_records(ff_text *out, const ff_fact *first) {
    heading names = {.arena = ff_arena_create()};
    for (const ff_fact *row = first; row != NULL; row = row->next)
        collect(&names, row, "");
    if (names.count > 0) {
        write_heading(out, &names);
        for (const ff_fact *row = first; row != NULL; row = row->next)
            write_row(out, &names, row);
    }
    ff_arena_free(names.arena);
}

/* The first block of a document that has a child of this name, or NULL. */
static const ff_fact *first_block(const ff_fact *root, const char *child) {
    const ff_fact *sections = ff_fact_find(root, "sections");
    for (const ff_fact *s = sections->first; s != NULL; s = s->next) {
        const ff_fact *blocks = ff_fact_find(s, "blocks");
        for (const ff_fact *b = blocks == NULL ? NULL : blocks->first; b != NULL; b = b->next)
            if (ff_fact_find(b, child) != NULL)
                return b;
    }
    return NULL;
}

static void write_table(ff_text *out, const ff_fact *table) {
    heading names = {0};
    const ff_fact *columns = ff_fact_find(table, "columns");
    for (const ff_fact *c = columns->first; c != NULL && names.count < MOST_COLUMNS; c = c->next)
        names.path[names.count++] = ff_fact_text(c, "key");
    write_heading(out, &names);
    const ff_fact *rows = ff_fact_find(table, "rows");
    for (const ff_fact *row = rows->first; row != NULL; row = row->next)
        write_row(out, &names, row);
}

static void write_items(ff_text *out, const ff_fact *root) {
    ff_text_append(out, "section,label,text\n");
    const ff_fact *sections = ff_fact_find(root, "sections");
    for (const ff_fact *s = sections->first; s != NULL; s = s->next) {
        const ff_fact *blocks = ff_fact_find(s, "blocks");
        for (const ff_fact *b = blocks == NULL ? NULL : blocks->first; b != NULL; b = b->next) {
            if (ff_fact_find(b, "text") == NULL)
                continue;
            write_field(out, ff_fact_text(s, "heading"));
            ff_text_append(out, ",");
            write_field(out, ff_fact_text(b, "label"));
            ff_text_append(out, ",");
            write_field(out, ff_fact_text(b, "text"));
            ff_text_append(out, "\n");
        }
    }
}

void ff_render_csv(const ff_fact *root, ff_text *out) {
    const ff_fact *plans = ff_fact_find(root, "plans");
    if (plans == NULL)
        plans = ff_fact_find(root, "groups");
    if (plans != NULL) {
        write_records(out, plans->first);
    } else if (ff_fact_find(root, "sections") != NULL) {
        const ff_fact *block = first_block(root, "table");
        if (block != NULL)
            write_table(out, ff_fact_find(block, "table"));
        else
            write_items(out, root);
    } else {
        ff_fact alone = *root;
        alone.next = NULL;
        write_records(out, &alone);
    }
}
