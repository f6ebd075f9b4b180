/* The answer of `verify` as text: what is equal, traffic and memory beside the plan, the verdict.
 *
 * Collectives of all layers are one line; memory shows the rank whose peak is largest. */
#include "base/units.h"
#include "output/lines.h"
#include "output/table.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 2, LABEL = 10, MOST_ROWS = 64 };

static void item(ff_text *out, const char *label, const ff_look *look, const char *text) {
    ff_item(out, INDENT, label, LABEL, text, look);
}

static void heading(ff_text *out, const char *text, const ff_look *look) {
    ff_text_append(out, "\n  ");
    ff_painted(out, text, FF_PAINT_HEADING, look);
    ff_text_append(out, "\n");
}

static void print_runs(ff_text *out, const ff_fact *root, const ff_look *look) {
    char text[256], ranks[FF_VALUE_BYTES], batch[FF_VALUE_BYTES];
    snprintf(text, sizeof text, "%s ranks, %lld steps of %s tokens, %s, %s kernels",
             ff_format_integer(ff_fact_integer(root, "ranks"), ranks, sizeof ranks),
             (long long)ff_fact_integer(root, "steps"),
             ff_format_integer(ff_fact_integer(root, "batch_tokens"), batch, sizeof batch),
             ff_fact_text(root, "number"), ff_fact_text(root, "kernel"));
    item(out, "layout", look, ff_fact_text(root, "layout"));
    item(out, "run", look, text);
    if (!ff_fact_boolean(root, "exact_order")) {
        snprintf(text, sizeof text, "within %.2g of the largest number, since %s",
                 ff_fact_real(root, "bound_ratio"), ff_fact_text(root, "exact_order_why"));
        item(out, "compared", look, text);
    }
}

static const char *words_of(const char *equal) {
    return strcmp(equal, "bits") == 0        ? "the same bits as one rank"
           : strcmp(equal, "tolerance") == 0 ? "within the bound of one rank"
                                             : "NOT as one rank";
}

static void print_equal(ff_text *out, const ff_fact *root, const ff_look *look) {
    static const char *const names[] = {"loss", "gradients", "weights"};
    for (int i = 0; i < 3; i++) {
        char path[48];
        snprintf(path, sizeof path, "equal.%s", names[i]);
        const char *equal = ff_fact_text(root, path);
        ff_text_repeat(out, ' ', INDENT);
        ff_painted(out, names[i], FF_PAINT_LABEL, look);
        ff_text_repeat(out, ' ', LABEL + FF_ITEM_GAP - (int)strlen(names[i]));
        ff_painted(out, words_of(equal), strcmp(equal, "no") == 0 ? FF_PAINT_BAD : FF_PAINT_GOOD,
                   look);
        ff_text_append(out, "\n");
    }
    item(out, "order", look,
         ff_fact_boolean(root, "order_equal") ? "every rank did what its list says, in its order"
                                              : "NOT as the program says");
    if (ff_fact_find(root, "processes_equal") != NULL)
        item(out, "processes", look,
             ff_fact_boolean(root, "processes_equal")
                 ? "over shared memory the same, in bits, bytes and order"
                 : "NOT as when one process plays all ranks");
}

/* --- traffic --- */

typedef struct traffic {
    const char *op, *group, *phase;
    int64_t calls, planned_calls, bytes, planned_bytes;
} traffic;

static traffic *row_of(traffic *rows, int *count, const ff_fact *c) {
    const char *op = ff_fact_text(c, "op"), *group = ff_fact_text(c, "group"),
               *phase = ff_fact_text(c, "phase");
    for (int i = 0; i < *count; i++)
        if (strcmp(rows[i].op, op) == 0 && strcmp(rows[i].group, group) == 0 &&
            strcmp(rows[i].phase, phase) == 0)
            return &rows[i];
    if (*count == MOST_ROWS)
        return &rows[MOST_ROWS - 1];
    rows[*count] = (traffic){.op = op, .group = group, .phase = phase};
    return &rows[(*count)++];
}

static void traffic_cells(ff_table *table, const traffic *t) {
    char text[FF_VALUE_BYTES];
    bool equal = t->calls == t->planned_calls && t->bytes == t->planned_bytes;
    ff_table_cell(table, t->op, FF_PAINT_NONE);
    ff_table_cell(table, t->group, FF_PAINT_NONE);
    ff_table_cell(table, t->phase, FF_PAINT_NONE);
    ff_table_cell(table, ff_format_integer(t->calls, text, sizeof text), FF_PAINT_NONE);
    ff_table_cell(table, ff_format_integer(t->bytes, text, sizeof text), FF_PAINT_NONE);
    ff_table_cell(table, ff_format_integer(t->planned_bytes, text, sizeof text), FF_PAINT_NONE);
    ff_table_cell(table, equal ? "" : "differs", FF_PAINT_BAD);
}

static void print_traffic(ff_text *out, const ff_fact *list, const ff_look *look) {
    traffic rows[MOST_ROWS];
    int count = 0;
    if (list == NULL || list->first == NULL)
        return;
    for (const ff_fact *c = list->first; c != NULL; c = c->next) {
        traffic *t = row_of(rows, &count, c);
        t->calls += ff_fact_integer(c, "calls");
        t->planned_calls += ff_fact_integer(c, "planned_calls");
        t->bytes += ff_fact_integer(c, "bytes");
        t->planned_bytes += ff_fact_integer(c, "planned_bytes");
    }
    ff_table *table = ff_table_create(INDENT + 2, look);
    static const char *const headings[] = {"collective", "over",    "phase", "calls",
                                           "bytes sent", "planned", ""};
    for (int i = 0; i < 7; i++)
        ff_table_add_column(table,
                            (ff_table_column){.heading = headings[i], .right = i >= 3 && i < 6});
    for (int i = 0; i < count; i++)
        traffic_cells(table, &rows[i]);
    heading(out, "messages of a step, all ranks and layers", look);
    ff_table_print(table, out);
    ff_table_free(table);
}

/* --- memory --- */

static void memory_cells(ff_table *table, const ff_fact *m) {
    char text[FF_VALUE_BYTES];
    int64_t peak = ff_fact_integer(m, "peak_bytes"), planned = ff_fact_integer(m, "planned_bytes");
    bool has_plan = ff_fact_find(m, "planned_bytes")->kind == FF_FACT_INTEGER;
    const char *compared = ff_fact_text(m, "compared");
    bool good = ff_fact_boolean(m, "as_planned");
    ff_table_cell(table, ff_fact_text(m, "category"), FF_PAINT_NONE);
    ff_table_cell(table, ff_format_integer(ff_fact_integer(m, "rank"), text, sizeof text),
                  FF_PAINT_NONE);
    ff_table_cell(table, ff_format_integer(peak, text, sizeof text), FF_PAINT_NONE);
    ff_table_cell(table, has_plan ? ff_format_integer(planned, text, sizeof text) : "-",
                  FF_PAINT_NONE);
    ff_table_cell(table,
                  !good                              ? "differs"
                  : strcmp(compared, "no") == 0      ? "not compared"
                  : strcmp(compared, "at_most") == 0 ? "at most"
                                                     : "",
                  good ? FF_PAINT_QUIET : FF_PAINT_BAD);
}

static bool is_largest(const ff_fact *list, const ff_fact *m) {
    for (const ff_fact *other = list->first; other != NULL; other = other->next) {
        if (strcmp(ff_fact_text(other, "category"), ff_fact_text(m, "category")) != 0)
            continue;
        int64_t theirs = ff_fact_integer(other, "peak_bytes");
        int64_t ours = ff_fact_integer(m, "peak_bytes");
        bool earlier = ff_fact_integer(other, "rank") < ff_fact_integer(m, "rank");
        if (theirs > ours || (theirs == ours && earlier))
            return false;
    }
    return true;
}

static void print_memory(ff_text *out, const ff_fact *list, const ff_look *look) {
    if (list == NULL || list->first == NULL)
        return;
    ff_table *table = ff_table_create(INDENT + 2, look);
    static const char *const headings[] = {"memory", "rank", "peak bytes", "planned", ""};
    for (int i = 0; i < 5; i++)
        ff_table_add_column(table,
                            (ff_table_column){.heading = headings[i], .right = i >= 1 && i < 4});
    for (const ff_fact *m = list->first; m != NULL; m = m->next)
        if (look->verbose || is_largest(list, m))
            memory_cells(table, m);
    heading(out, look->verbose ? "memory of every rank" : "memory of the rank that needs most",
            look);
    ff_table_print(table, out);
    ff_table_free(table);
}

void ff_render_verify(const ff_fact *root, const ff_look *look, ff_text *out) {
    const char *verdict = ff_fact_text(root, "verdict");
    ff_painted(out, ff_fact_text(root, "model"), FF_PAINT_HEADING, look);
    ff_text_append(out, "\n\n");
    if (strcmp(verdict, "failed") != 0) {
        print_runs(out, root, look);
        print_equal(out, root, look);
        print_traffic(out, ff_fact_find(root, "collectives"), look);
        print_memory(out, ff_fact_find(root, "memory"), look);
        ff_text_append(out, "\n");
    }
    ff_text_repeat(out, ' ', INDENT);
    bool equal = strcmp(verdict, "equal") == 0;
    ff_painted(out,
               equal                             ? "executed as planned"
               : strcmp(verdict, "differs") == 0 ? "execution DIFFERS from the plan"
                                                 : "the step FAILED",
               equal ? FF_PAINT_GOOD : FF_PAINT_BAD, look);
    ff_text_append(out, "\n");
}
