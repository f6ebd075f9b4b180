#include "base/fact.h"

#include "base/arena.h"
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { DEEPEST = 32 };

struct ff_facts {
    ff_arena *arena;
    ff_fact *open[DEEPEST];
    int depth;
    bool in_section;
};

ff_facts *ff_facts_create(void) {
    ff_arena *arena = ff_arena_create();
    ff_facts *facts = FF_ARENA_NEW(arena, ff_facts);
    facts->arena = arena;
    facts->open[0] = FF_ARENA_NEW(arena, ff_fact);
    facts->open[0]->kind = FF_FACT_RECORD;
    return facts;
}

void ff_facts_free(ff_facts *facts) {
    if (facts != NULL)
        ff_arena_free(facts->arena);
}

const ff_fact *ff_facts_root(const ff_facts *facts) {
    return facts->open[0];
}

static const ff_fact *child_named(const ff_fact *record, const char *name, size_t length) {
    for (const ff_fact *f = record->first; f != NULL; f = f->next)
        if (f->name != NULL && strncmp(f->name, name, length) == 0 && f->name[length] == '\0')
            return f;
    return NULL;
}

const ff_fact *ff_fact_find(const ff_fact *record, const char *path) {
    const ff_fact *at = record;
    while (at != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        at = child_named(at, path, length);
        path += length + (path[length] == '.');
    }
    return at;
}

int64_t ff_fact_integer(const ff_fact *record, const char *path) {
    const ff_fact *f = ff_fact_find(record, path);
    if (f == NULL)
        return 0;
    return f->kind == FF_FACT_REAL ? (int64_t)f->real : f->integer;
}

double ff_fact_real(const ff_fact *record, const char *path) {
    const ff_fact *f = ff_fact_find(record, path);
    if (f == NULL)
        return 0.0;
    return f->kind == FF_FACT_INTEGER ? (double)f->integer : f->real;
}

bool ff_fact_boolean(const ff_fact *record, const char *path) {
    const ff_fact *f = ff_fact_find(record, path);
    return f != NULL && f->boolean;
}

const char *ff_fact_text(const ff_fact *record, const char *path) {
    const ff_fact *f = ff_fact_find(record, path);
    return f == NULL || f->text == NULL ? "" : f->text;
}

const char *ff_basis_name(ff_basis basis) {
    static const char *const names[] = {"closed_form", "simulated", "executed", "measured",
                                        "assumed"};
    return names[basis];
}

static ff_fact *append(ff_facts *facts, const char *name, ff_fact_kind kind) {
    ff_fact *parent = facts->open[facts->depth];
    assert((parent->kind == FF_FACT_RECORD) == (name != NULL));
    ff_fact *fact = FF_ARENA_NEW(facts->arena, ff_fact);
    fact->name = name;
    fact->kind = kind;
    if (parent->last == NULL)
        parent->first = fact;
    else
        parent->last->next = fact;
    parent->last = fact;
    parent->count++;
    return fact;
}

static void open_child(ff_facts *facts, const char *name, ff_fact_kind kind) {
    assert(facts->depth + 1 < DEEPEST);
    ff_fact *fact = append(facts, name, kind);
    facts->open[++facts->depth] = fact;
}

void ff_facts_open_record(ff_facts *facts, const char *name) {
    open_child(facts, name, FF_FACT_RECORD);
}

void ff_facts_open_list(ff_facts *facts, const char *name) {
    open_child(facts, name, FF_FACT_LIST);
}

void ff_facts_close(ff_facts *facts) {
    assert(facts->depth > 0);
    facts->depth--;
}

void ff_facts_add_integer(ff_facts *facts, const char *name, int64_t value) {
    append(facts, name, FF_FACT_INTEGER)->integer = value;
}

void ff_facts_add_real(ff_facts *facts, const char *name, double value) {
    ff_fact *fact = append(facts, name, isfinite(value) ? FF_FACT_REAL : FF_FACT_NULL);
    fact->real = isfinite(value) ? value : 0.0;
}

void ff_facts_add_boolean(ff_facts *facts, const char *name, bool value) {
    append(facts, name, FF_FACT_BOOL)->boolean = value;
}

void ff_facts_add_null(ff_facts *facts, const char *name) {
    append(facts, name, FF_FACT_NULL);
}

static void add_text(ff_facts *facts, const char *name, const char *format, va_list arguments) {
    ff_fact *fact = append(facts, name, FF_FACT_TEXT);
    fact->text = ff_arena_vprintf(facts->arena, format, arguments);
}

#define ADD_FORMATTED(facts, name, format)                                                         \
    do {                                                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        add_text(facts, name, format, arguments);                                                  \
        va_end(arguments);                                                                         \
    } while (0)

void ff_facts_add_text(ff_facts *facts, const char *name, const char *format, ...) {
    ADD_FORMATTED(facts, name, format);
}

void ff_facts_add_basis(ff_facts *facts, ff_basis basis) {
    ff_facts_add_text(facts, "basis", "%s", ff_basis_name(basis));
}

void ff_document_open(ff_facts *facts, const char *title, ...) {
    ADD_FORMATTED(facts, "title", title);
    ff_facts_open_list(facts, "sections");
    facts->in_section = false;
}

static void end_section(ff_facts *facts) {
    if (!facts->in_section)
        return;
    ff_facts_close(facts); /* blocks */
    ff_facts_close(facts); /* section */
    facts->in_section = false;
}

void ff_document_section(ff_facts *facts, const char *heading, ...) {
    end_section(facts);
    ff_facts_open_record(facts, NULL);
    ADD_FORMATTED(facts, "heading", heading);
    ff_facts_open_list(facts, "blocks");
    facts->in_section = true;
}

void ff_document_say(ff_facts *facts, const char *paragraph, ...) {
    ff_facts_open_record(facts, NULL);
    ADD_FORMATTED(facts, "text", paragraph);
    ff_facts_close(facts);
}

void ff_document_item(ff_facts *facts, const char *label, const char *text, ...) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "label", "%s", label);
    ADD_FORMATTED(facts, "text", text);
    ff_facts_close(facts);
}

void ff_document_draw(ff_facts *facts, const char *drawing) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "drawing", "%s", drawing);
    ff_facts_close(facts);
}

void ff_document_table(ff_facts *facts, const ff_column *columns) {
    ff_facts_open_record(facts, NULL);
    ff_facts_open_record(facts, "table");
    ff_facts_open_list(facts, "columns");
    for (const ff_column *c = columns; c->key != NULL; c++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "key", "%s", c->key);
        ff_facts_add_text(facts, "label", "%s", c->label);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
    ff_facts_open_list(facts, "rows");
}

void ff_document_table_end(ff_facts *facts) {
    ff_facts_close(facts); /* rows */
    ff_facts_close(facts); /* table */
    ff_facts_close(facts); /* block */
}

void ff_document_close(ff_facts *facts) {
    end_section(facts);
    ff_facts_close(facts); /* sections */
}
