/* Documents (base/fact.h) as text:
 *
 *     title
 *
 *       heading
 *         a paragraph, wrapped
 *         label    its text, wrapped under itself
 *         key      s/step   peak memory          a table: numbers to the right
 *
 * Labels of neighbouring items share one column. Of a table the widest column of words is wrapped;
 * where that is not enough, columns go from the right, and a line says so. A tree that is no
 * document is printed as it is, a line a value. */
#include "base/units.h"
#include "output/lines.h"
#include "output/table.h"

#include <ctype.h>
#include <string.h>

enum { INDENT = 2, MOST_LABEL = 26 };

typedef enum block_kind {
    BLOCK_NONE,
    BLOCK_TEXT,
    BLOCK_ITEM,
    BLOCK_DRAWING,
    BLOCK_TABLE
} block_kind;

static block_kind kind_of(const ff_fact *block) {
    if (ff_fact_find(block, "table") != NULL)
        return BLOCK_TABLE;
    if (ff_fact_find(block, "drawing") != NULL)
        return BLOCK_DRAWING;
    if (ff_fact_find(block, "label") != NULL)
        return BLOCK_ITEM;
    return ff_fact_find(block, "text") != NULL ? BLOCK_TEXT : BLOCK_NONE;
}

/* A number with at most a unit: "8.91", "-0.15 s", "43.1%", "450 GB/s". */
static bool reads_as_number(const char *text) {
    const char *c = text + strspn(text, "+-<>~ ");
    if (*c == '\0')
        return true; /* blank or a dash: does not decide */
    if (!isdigit((unsigned char)*c))
        return false;
    c += strspn(c, "0123456789.,");
    if (*c == '%' || *c == '\0')
        return true;
    return *c == ' ' && strlen(c) <= 10 && strchr(c + 1, ' ') == NULL;
}

static const char *cell_text(const ff_fact *row, const char *key, char *text, size_t text_bytes) {
    const ff_fact *f = ff_fact_find(row, key);
    return f == NULL ? "" : ff_format_fact(f, key, text, text_bytes);
}

typedef struct column_shape {
    bool numbers;
    int columns;
} column_shape;

static column_shape shape_of(const ff_fact *rows, const char *key) {
    column_shape shape = {.numbers = true};
    bool any = false;
    for (const ff_fact *row = rows->first; row != NULL; row = row->next) {
        char text[FF_VALUE_BYTES];
        const char *cell = cell_text(row, key, text, sizeof text);
        any = any || cell[strspn(cell, "- ")] != '\0';
        shape.numbers = shape.numbers && reads_as_number(cell);
        int columns = ff_text_columns(cell);
        shape.columns = columns > shape.columns ? columns : shape.columns;
    }
    shape.numbers = shape.numbers && any;
    return shape;
}

/* Index of the widest column of words, or -1. */
static int widest_words(const ff_fact *columns, const ff_fact *rows) {
    int widest = -1, most = 0, index = 0;
    for (const ff_fact *c = columns->first; c != NULL; c = c->next, index++) {
        column_shape shape = shape_of(rows, ff_fact_text(c, "key"));
        if (!shape.numbers && shape.columns > most) {
            most = shape.columns;
            widest = index;
        }
    }
    return widest;
}

static void print_table(ff_text *out, const ff_fact *record, int indent, const ff_look *look) {
    const ff_fact *columns = ff_fact_find(record, "columns"), *rows = ff_fact_find(record, "rows");
    if (columns == NULL || rows == NULL || columns->count > FF_TABLE_COLUMNS)
        return;
    ff_table *table = ff_table_create(indent, look);
    ff_table_flow_after(table, 0);
    int flow = widest_words(columns, rows), index = 0;
    for (const ff_fact *c = columns->first; c != NULL; c = c->next, index++)
        ff_table_add_column(table, (ff_table_column){
                                       .heading = ff_fact_text(c, "label"),
                                       .right = shape_of(rows, ff_fact_text(c, "key")).numbers,
                                       .keep = index == 0 || index == flow ? FF_KEEP_ALWAYS
                                                                           : columns->count - index,
                                       .flow = index == flow,
                                   });
    for (const ff_fact *row = rows->first; row != NULL; row = row->next)
        for (const ff_fact *c = columns->first; c != NULL; c = c->next) {
            char text[FF_VALUE_BYTES];
            const char *cell = cell_text(row, ff_fact_text(c, "key"), text, sizeof text);
            ff_table_cell(table, ff_verdict_words(cell), ff_paint_of_verdict(cell));
        }
    int dropped = ff_table_print(table, out);
    if (dropped > 0) {
        ff_text_repeat(out, ' ', indent);
        ff_text_printf(out, "(%d column%s left out: too narrow; -o json has all)\n", dropped,
                       dropped == 1 ? "" : "s");
    }
    ff_table_free(table);
}

static void print_drawing(ff_text *out, const char *drawing, int indent, const ff_look *look) {
    ff_text plain = {0};
    ff_plain(&plain, drawing, look);
    for (const char *line = ff_text_bytes(&plain); *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (length > 0)
            ff_text_repeat(out, ' ', indent);
        ff_text_append_bytes(out, line, length);
        ff_text_append(out, "\n");
        line += length + (line[length] == '\n');
    }
    ff_text_free(&plain);
}

/* The widest label of the items that follow each other from `block` on. */
static int label_columns(const ff_fact *block) {
    int widest = 0;
    for (; block != NULL && kind_of(block) == BLOCK_ITEM; block = block->next) {
        int columns = ff_text_columns(ff_fact_text(block, "label"));
        widest = columns > widest && columns <= MOST_LABEL ? columns : widest;
    }
    return widest;
}

static void print_block(ff_text *out, const ff_fact *block, int indent, int labels,
                        const ff_look *look) {
    switch (kind_of(block)) {
    case BLOCK_TEXT:
        ff_text_repeat(out, ' ', indent);
        ff_wrap(out, ff_fact_text(block, "text"), indent, look);
        break;
    case BLOCK_ITEM:
        ff_item(out, indent, ff_fact_text(block, "label"), labels, ff_fact_text(block, "text"),
                look);
        break;
    case BLOCK_DRAWING:
        print_drawing(out, ff_fact_text(block, "drawing"), indent, look);
        break;
    case BLOCK_TABLE:
        print_table(out, ff_fact_find(block, "table"), indent, look);
        break;
    case BLOCK_NONE:
        break;
    }
}

static void print_section(ff_text *out, const ff_fact *section, const ff_look *look) {
    const char *heading = ff_fact_text(section, "heading");
    int indent = INDENT;
    if (heading[0] != '\0') {
        ff_text_repeat(out, ' ', INDENT);
        ff_painted(out, heading, FF_PAINT_HEADING, look);
        ff_text_append(out, "\n");
        indent += INDENT;
    }
    const ff_fact *blocks = ff_fact_find(section, "blocks");
    block_kind before = BLOCK_NONE;
    int labels = 0;
    for (const ff_fact *b = blocks == NULL ? NULL : blocks->first; b != NULL; b = b->next) {
        block_kind kind = kind_of(b);
        if (kind == BLOCK_NONE)
            continue;
        if (kind == BLOCK_ITEM && before != BLOCK_ITEM)
            labels = label_columns(b);
        if (before != BLOCK_NONE && kind != before)
            ff_text_append(out, "\n");
        print_block(out, b, indent, labels, look);
        before = kind;
    }
}

static void print_tree(ff_text *out, const ff_fact *fact, int indent, const ff_look *look) {
    for (const ff_fact *f = fact->first; f != NULL; f = f->next) {
        char value[FF_VALUE_BYTES];
        bool nested = f->kind == FF_FACT_RECORD || f->kind == FF_FACT_LIST;
        const char *name = f->name != NULL ? f->name : "-";
        if (nested) {
            ff_text_repeat(out, ' ', indent);
            ff_painted(out, name, FF_PAINT_LABEL, look);
            ff_text_append(out, "\n");
            print_tree(out, f, indent + INDENT, look);
        } else {
            ff_item(out, indent, name, MOST_LABEL, ff_format_fact(f, NULL, value, sizeof value),
                    look);
        }
    }
}

void ff_render_document(const ff_fact *root, const ff_look *look, ff_text *out) {
    const ff_fact *sections = ff_fact_find(root, "sections");
    if (sections == NULL) {
        print_tree(out, root, INDENT, look);
        return;
    }
    const char *title = ff_fact_text(root, "title");
    if (title[0] != '\0') {
        ff_painted(out, title, FF_PAINT_HEADING, look);
        ff_text_append(out, "\n");
    }
    for (const ff_fact *s = sections->first; s != NULL; s = s->next) {
        ff_text_append(out, "\n");
        print_section(out, s, look);
    }
}
