/* See csv.h. One pass over the text; cells are copied into the arena, their addresses collected in
 * an array that doubles. */
#include "input/csv.h"

#include <string.h>

typedef struct reading {
    ff_arena *arena;
    ff_diagnostics *findings;
    ff_csv *csv;
    const char *at, *end;
    int line;
    const char **cell;
    int *lines;
    size_t cells, capacity;
    int rows, row_capacity;
} reading;

static ff_place place(const reading *r, int line) {
    return (ff_place){.file = r->csv->file, .line = line, .column = 1};
}

static void push_cell(reading *r, const char *text) {
    if (r->cells == r->capacity) {
        size_t capacity = r->capacity == 0 ? 1024 : 2 * r->capacity;
        const char **more = FF_ARENA_ARRAY(r->arena, capacity, const char *);
        if (r->cells > 0)
            memcpy(more, r->cell, r->cells * sizeof *more);
        r->cell = more;
        r->capacity = capacity;
    }
    r->cell[r->cells++] = text;
}

static void push_line(reading *r, int line) {
    if (r->rows == r->row_capacity) {
        int capacity = r->row_capacity == 0 ? 256 : 2 * r->row_capacity;
        int *more = FF_ARENA_ARRAY(r->arena, capacity, int);
        if (r->rows > 0)
            memcpy(more, r->lines, (size_t)r->rows * sizeof *more);
        r->lines = more;
        r->row_capacity = capacity;
    }
    r->lines[r->rows++] = line;
}

static bool at_break(const reading *r) {
    return r->at < r->end && (*r->at == '\n' || *r->at == '\r');
}

static void skip_break(reading *r) {
    if (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n')
        r->at++;
    r->at++;
    r->line++;
}

static bool refuse(reading *r, int line, const char *what) {
    ff_report(r->findings, FF0111, place(r, line), "%s", what);
    return false;
}

/* A field that began with a quote; the reader stands behind it. */
static bool read_quoted(reading *r) {
    int begun = r->line;
    size_t room = 64, used = 0;
    char *text = ff_arena_alloc(r->arena, room);
    for (;;) {
        if (r->at == r->end)
            return refuse(r, begun, "a quoted field has no closing quote");
        char c = *r->at++;
        if (c == '"' && (r->at == r->end || *r->at != '"'))
            break;
        r->at += c == '"';
        r->line += c == '\n';
        if (c == '\0')
            return refuse(r, r->line, "a field holds a NUL byte");
        if (used + 1 == room) {
            char *more = ff_arena_alloc(r->arena, 2 * room);
            memcpy(more, text, used);
            text = more;
            room *= 2;
        }
        text[used++] = c;
    }
    text[used] = '\0';
    push_cell(r, text);
    if (r->at < r->end && *r->at != ',' && !at_break(r))
        return refuse(r, r->line, "text follows a field's closing quote");
    return true;
}

static bool read_bare(reading *r) {
    const char *begin = r->at;
    while (r->at < r->end && *r->at != ',' && !at_break(r)) {
        if (*r->at == '"')
            return refuse(r, r->line, "a quote stands inside a field that does not begin with one");
        if (*r->at == '\0')
            return refuse(r, r->line, "a field holds a NUL byte");
        r->at++;
    }
    push_cell(r, begin == r->at ? "" : ff_arena_copy(r->arena, begin, (size_t)(r->at - begin)));
    return true;
}

static bool check_count(reading *r, int begun, int fields) {
    if (r->rows == 0)
        r->csv->columns = fields;
    if (fields != r->csv->columns) {
        ff_report(r->findings, FF0112, place(r, begun), "%d fields, but the heading has %d", fields,
                  r->csv->columns);
        return false;
    }
    return true;
}

static bool read_record(reading *r) {
    int begun = r->line, fields = 0;
    for (;;) {
        bool quoted = r->at < r->end && *r->at == '"';
        r->at += quoted;
        if (!(quoted ? read_quoted(r) : read_bare(r)))
            return false;
        if (++fields > FF_CSV_MOST_COLUMNS || r->rows >= FF_CSV_MOST_ROWS) {
            ff_report(r->findings, FF0113, place(r, begun), "at most %d columns and %d rows",
                      FF_CSV_MOST_COLUMNS, FF_CSV_MOST_ROWS);
            return false;
        }
        if (r->at == r->end || at_break(r))
            break;
        r->at++;
    }
    if (r->at < r->end)
        skip_break(r);
    if (!check_count(r, begun, fields))
        return false;
    push_line(r, begun);
    return true;
}

ff_status ff_csv_read(ff_arena *arena, const char *file, const char *text, size_t length,
                      ff_diagnostics *findings, ff_csv *csv) {
    static const char mark[] = "\xEF\xBB\xBF";
    *csv = (ff_csv){.file = file};
    reading r = {.arena = arena,
                 .findings = findings,
                 .csv = csv,
                 .at = text,
                 .end = text + length,
                 .line = 1};
    if (length >= 3 && memcmp(text, mark, 3) == 0)
        r.at += 3;
    while (r.at < r.end) {
        if (at_break(&r))
            skip_break(&r);
        else if (!read_record(&r))
            return FF_INVALID;
    }
    if (r.rows == 0) {
        refuse(&r, 1, "the file is empty; a heading is needed");
        return FF_INVALID;
    }
    csv->rows = r.rows;
    csv->cell = r.cell;
    csv->line = r.lines;
    return FF_OK;
}

const char *ff_csv_at(const ff_csv *csv, int row, int column) {
    return csv->cell[(size_t)row * (size_t)csv->columns + (size_t)column];
}
