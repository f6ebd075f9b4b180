/* See table.h. Widths are decided once, from all cells, before anything is printed. */
#include "output/table.h"

#include "base/arena.h"
#include <assert.h>
#include <limits.h>
#include <string.h>

enum { GAP = 2, LEAST_FLOW = 24 };

typedef struct cell {
    const char *text;
    int columns;
    ff_paint paint;
    bool raw;
} cell;

struct ff_table {
    ff_arena *arena;
    ff_look look;
    int indent;
    int flow_after; /* columns kept up to this rank go before the flowing one is wrapped */
    int column_count, cell_count, cell_capacity;
    ff_table_column column[FF_TABLE_COLUMNS];
    bool dropped[FF_TABLE_COLUMNS];
    int width[FF_TABLE_COLUMNS];
    cell *cells;
};

ff_table *ff_table_create(int indent, const ff_look *look) {
    ff_arena *arena = ff_arena_create();
    ff_table *table = FF_ARENA_NEW(arena, ff_table);
    table->arena = arena;
    table->look = *look;
    table->indent = indent;
    table->flow_after = INT_MAX;
    return table;
}

void ff_table_free(ff_table *table) {
    if (table != NULL)
        ff_arena_free(table->arena);
}

void ff_table_add_column(ff_table *table, ff_table_column column) {
    assert(table->column_count < FF_TABLE_COLUMNS && table->cell_count == 0);
    table->column[table->column_count++] = column;
}

void ff_table_flow_after(ff_table *table, int keep) {
    table->flow_after = keep;
}

static cell *next_cell(ff_table *table) {
    assert(table->column_count > 0);
    if (table->cell_count == table->cell_capacity) {
        int capacity = table->cell_capacity == 0 ? 64 : 2 * table->cell_capacity;
        cell *grown = FF_ARENA_ARRAY(table->arena, capacity, cell);
        if (table->cell_count > 0)
            memcpy(grown, table->cells, (size_t)table->cell_count * sizeof *grown);
        table->cells = grown;
        table->cell_capacity = capacity;
    }
    return &table->cells[table->cell_count++];
}

void ff_table_cell(ff_table *table, const char *text, ff_paint paint) {
    ff_text plain = {0};
    ff_plain(&plain, text, &table->look);
    for (size_t i = 0; i < plain.length; i++)
        if (plain.bytes[i] == '\n')
            plain.bytes[i] = ' ';
    cell *c = next_cell(table);
    c->text = ff_arena_copy(table->arena, ff_text_bytes(&plain), plain.length);
    c->columns = ff_text_columns(c->text);
    c->paint = paint;
    ff_text_free(&plain);
}

void ff_table_cell_raw(ff_table *table, const char *text) {
    cell *c = next_cell(table);
    c->text = ff_arena_copy(table->arena, text, strlen(text));
    c->columns = ff_text_columns(text);
    c->raw = true;
}

static int rows_of(const ff_table *table) {
    return table->cell_count / table->column_count;
}

static const cell *cell_at(const ff_table *table, int row, int column) {
    return &table->cells[row * table->column_count + column];
}

static void measure(ff_table *table) {
    for (int j = 0; j < table->column_count; j++) {
        table->width[j] = ff_text_columns(table->column[j].heading);
        for (int i = 0; i < rows_of(table); i++)
            if (cell_at(table, i, j)->columns > table->width[j])
                table->width[j] = cell_at(table, i, j)->columns;
    }
}

static int total_width(const ff_table *table) {
    int total = table->indent - GAP;
    for (int j = 0; j < table->column_count; j++)
        if (!table->dropped[j])
            total += GAP + table->width[j];
    return total;
}

static int flow_column(const ff_table *table) {
    for (int j = 0; j < table->column_count; j++)
        if (table->column[j].flow)
            return j;
    return -1;
}

/* Drops the optional column that goes first, kept in no higher rank; false when none is left. */
static bool drop_one(ff_table *table, int most) {
    int first = -1;
    for (int j = 0; j < table->column_count; j++) {
        int keep = table->column[j].keep;
        if (keep == FF_KEEP_ALWAYS || keep > most || table->dropped[j])
            continue;
        if (first < 0 || keep < table->column[first].keep)
            first = j;
    }
    if (first >= 0)
        table->dropped[first] = true;
    return first >= 0;
}

static void drop_until_fits(ff_table *table, int room, int most) {
    while (total_width(table) > room && drop_one(table, most))
        continue;
}

/* Decides which columns are printed and how wide; returns how many are not. */
static int fit(ff_table *table) {
    int room = ff_look_columns(&table->look), flow = flow_column(table);
    measure(table);
    drop_until_fits(table, room, flow < 0 ? INT_MAX : table->flow_after);
    if (total_width(table) > room && flow >= 0) {
        /* Dropping alone does not help: keep the columns and narrow the flowing one instead. */
        memset(table->dropped, 0, sizeof table->dropped);
        int wanted = table->width[flow];
        table->width[flow] = LEAST_FLOW < wanted ? LEAST_FLOW : wanted;
        drop_until_fits(table, room, INT_MAX);
        int spare = room - total_width(table);
        if (spare > 0)
            table->width[flow] +=
                spare < wanted - table->width[flow] ? spare : wanted - table->width[flow];
    }
    int dropped = 0;
    for (int j = 0; j < table->column_count; j++)
        dropped += table->dropped[j];
    return dropped;
}

static void trim_blanks(ff_text *out) {
    while (out->length > 0 && out->bytes[out->length - 1] == ' ')
        out->bytes[--out->length] = '\0';
}

static void end_line(ff_text *out) {
    trim_blanks(out);
    ff_text_append(out, "\n");
}

static void put(ff_text *out, const ff_table *table, const char *text, int columns, int j,
                const cell *as) {
    int padding = table->width[j] > columns ? table->width[j] - columns : 0;
    if (table->column[j].right)
        ff_text_repeat(out, ' ', padding);
    if (as->raw)
        ff_text_append(out, text);
    else
        ff_painted(out, text, as->paint, &table->look);
    if (!table->column[j].right)
        ff_text_repeat(out, ' ', padding);
}

/* The longest beginning of `text` that ends at a blank and fits; all of a first word too wide. */
static size_t line_length(const char *text, int columns) {
    size_t best = 0;
    int used = 0;
    for (size_t i = 0;; i++) {
        if (text[i] == '\0' || text[i] == ' ') {
            if (used > columns && best > 0)
                return best;
            best = i;
            if (text[i] == '\0' || used > columns)
                return best;
        }
        used += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
}

static const char *skip_blanks(const char *text) {
    while (*text == ' ')
        text++;
    return text;
}

/* Prints one line of a row; `flowing` is what the flowing column shows on it. With `others` false
 * the other cells are left blank. */
static void print_line(ff_text *out, const ff_table *table, int row, int flow, const char *flowing,
                       bool others, bool with_first) {
    ff_text_repeat(out, ' ', table->indent);
    bool first = true;
    for (int j = 0; j < table->column_count; j++) {
        if (table->dropped[j])
            continue;
        if (!first)
            ff_text_repeat(out, ' ', GAP);
        first = false;
        const cell *c = cell_at(table, row, j);
        const char *text = j == flow ? flowing : (j < flow ? with_first : others) ? c->text : "";
        put(out, table, text, ff_text_columns(text), j, c);
    }
    end_line(out);
}

static void print_row(ff_text *out, const ff_table *table, int row, int flow) {
    if (flow < 0) {
        print_line(out, table, row, table->column_count, "", true, true);
        return;
    }
    const char *rest = cell_at(table, row, flow)->text;
    bool first = true, others_pending = true;
    do {
        size_t length = line_length(rest, table->width[flow]);
        char *line = ff_arena_copy(table->arena, rest, length);
        bool too_wide = ff_text_columns(line) > table->width[flow];
        print_line(out, table, row, flow, line, others_pending && !too_wide, first);
        others_pending = others_pending && too_wide;
        first = false;
        rest = skip_blanks(rest + length);
    } while (*rest != '\0');
    if (others_pending)
        print_line(out, table, row, flow, "", true, false);
}

static void print_heading(ff_text *out, const ff_table *table) {
    bool any = false;
    for (int j = 0; j < table->column_count; j++)
        any = any || table->column[j].heading[0] != '\0';
    if (!any)
        return;
    static const cell quiet = {"", 0, FF_PAINT_QUIET, false};
    ff_text_repeat(out, ' ', table->indent);
    bool first = true;
    for (int j = 0; j < table->column_count; j++) {
        if (table->dropped[j])
            continue;
        if (!first)
            ff_text_repeat(out, ' ', GAP);
        first = false;
        const char *heading = table->column[j].heading;
        put(out, table, heading, ff_text_columns(heading), j, &quiet);
    }
    end_line(out);
}

int ff_table_print(ff_table *table, ff_text *out) {
    if (table->cell_count == 0)
        return 0;
    assert(table->cell_count % table->column_count == 0);
    int dropped = fit(table);
    print_heading(out, table);
    for (int i = 0; i < rows_of(table); i++)
        print_row(out, table, i, flow_column(table));
    return dropped;
}
