/* The answer of `simulate` as text: the step, the pipeline and memory as a drawing, where each
 * stage's time goes, and what the longest path is made of. */
#include "base/units.h"
#include "output/lines.h"
#include "output/summary.h"
#include "output/table.h"

#include <stdio.h>
#include <string.h>

static const double NOTHING_S = 1e-6;
enum { INDENT = 2, MOST_STAGES = 16, MOST_PARTS = 8, BAR_COLUMNS = 20 };

static void heading(ff_text *out, const char *text, const ff_look *look) {
    ff_text_append(out, "\n  ");
    ff_painted(out, text, FF_PAINT_HEADING, look);
    ff_text_append(out, "\n");
}

/* The drawing's lines, each indented. */
static void print_drawing(ff_text *out, const char *drawing, const ff_look *look) {
    heading(out, "pipeline, and activations held (time runs right)", look);
    while (*drawing != '\0') {
        size_t length = strcspn(drawing, "\n");
        ff_text line = {0};
        ff_text_append_bytes(&line, drawing, length);
        if (length > 0) {
            ff_text_repeat(out, ' ', INDENT + 2);
            ff_plain(out, ff_text_bytes(&line), look);
        }
        ff_text_append(out, "\n");
        ff_text_free(&line);
        drawing += length + (drawing[length] == '\n');
    }
}

static double exposed_s(const ff_fact *stage) {
    const ff_fact *exposed = ff_fact_find(stage, "exposed_s");
    double sum = 0;
    for (const ff_fact *e = exposed == NULL ? NULL : exposed->first; e != NULL; e = e->next)
        sum += e->real;
    return sum;
}

/* Durations were rounded to picoseconds one by one: what is far below a microsecond is none. */
static void seconds_cell(ff_table *table, double seconds) {
    char text[FF_VALUE_BYTES];
    bool none = seconds < NOTHING_S;
    ff_table_cell(table, ff_format_seconds(none ? 0 : seconds, text, sizeof text), FF_PAINT_NONE);
}

static void stage_row(ff_table *table, const ff_fact *stage) {
    char text[FF_VALUE_BYTES];
    snprintf(text, sizeof text, "%lld", (long long)ff_fact_integer(stage, "stage"));
    ff_table_cell(table, text, FF_PAINT_NONE);
    seconds_cell(table, ff_fact_real(stage, "busy_s"));
    seconds_cell(table, exposed_s(stage));
    seconds_cell(table, ff_fact_real(stage, "bubble_s"));
    seconds_cell(table, ff_fact_real(stage, "waits_s.step_end_s"));
    ff_table_cell(table, ff_format_bytes(ff_fact_real(stage, "peak_bytes"), text, sizeof text),
                  FF_PAINT_NONE);
    seconds_cell(table, ff_fact_real(stage, "peak_at_s"));
}

static void print_stages(ff_text *out, const ff_fact *root, const ff_look *look) {
    static const char *const headings[] = {"stage", "busy",        "exposed", "bubble",
                                           "end",   "peak memory", "at"};
    static const int keep[] = {0, 0, 0, 0, 2, 0, 1};
    const ff_fact *stages = ff_fact_find(root, "stages");
    ff_table *table = ff_table_create(INDENT + 2, look);
    for (int i = 0; i < 7; i++)
        ff_table_add_column(
            table, (ff_table_column){.heading = headings[i], .right = true, .keep = keep[i]});
    int index = 0;
    for (const ff_fact *s = stages->first; s != NULL; s = s->next, index++)
        if (look->verbose || stages->count <= MOST_STAGES || index < MOST_STAGES - 1 ||
            s->next == NULL)
            stage_row(table, s);
    heading(out, "where each stage's time goes", look);
    ff_table_print(table, out);
    ff_table_free(table);
}

static void print_path(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *path = ff_fact_find(root, "critical_path");
    double step_s = ff_fact_real(root, "step_s");
    int shown = 0;
    ff_table *table = ff_table_create(INDENT + 2, look);
    ff_table_add_column(table, (ff_table_column){.heading = "", .flow = true});
    ff_table_add_column(table, (ff_table_column){.heading = "", .right = true});
    ff_table_add_column(table, (ff_table_column){.heading = "", .right = true});
    ff_table_add_column(table, (ff_table_column){.heading = "", .keep = 1});
    for (const ff_fact *p = path->first; p != NULL && (look->verbose || shown < MOST_PARTS);
         p = p->next, shown++) {
        char text[FF_VALUE_BYTES];
        double share = step_s > 0 ? ff_fact_real(p, "s") / step_s : 0;
        ff_text bar = {0};
        ff_table_cell(table, ff_fact_text(p, "what"), FF_PAINT_NONE);
        seconds_cell(table, ff_fact_real(p, "s"));
        ff_table_cell(table, ff_format_percent(share, text, sizeof text), FF_PAINT_NONE);
        ff_bar(&bar, share, BAR_COLUMNS, look);
        ff_table_cell_raw(table, ff_text_bytes(&bar));
        ff_text_free(&bar);
    }
    heading(out, "the longest path through the step", look);
    ff_table_print(table, out);
    ff_table_free(table);
}

void ff_render_simulation(const ff_fact *root, const ff_look *look, ff_text *out) {
    char step[FF_VALUE_BYTES], estimated[FF_VALUE_BYTES], events[FF_VALUE_BYTES],
        elapsed[FF_VALUE_BYTES], line[512];
    double step_s = ff_fact_real(root, "step_s"),
           estimated_s = ff_fact_real(root, "estimated_step_s");
    ff_text_append(out, "\n");
    ff_item(out, INDENT, "layout", 8, ff_fact_text(root, "layout"), look);
    snprintf(line, sizeof line, "%s a step, simulated; the estimate says %s (%+.1f%%)",
             ff_format_seconds(step_s, step, sizeof step),
             ff_format_seconds(estimated_s, estimated, sizeof estimated),
             100 * (estimated_s / step_s - 1));
    ff_item(out, INDENT, "step", 8, line, look);
    print_drawing(out, ff_fact_text(root, "drawing"), look);
    print_stages(out, root, look);
    print_path(out, root, look);
    snprintf(line, sizeof line,
             "%s events in %s; --trace FILE.json writes the timeline for "
             "ui.perfetto.dev%s",
             ff_format_count(ff_fact_real(root, "events"), 3, events, sizeof events),
             ff_format_seconds(ff_fact_real(root, "elapsed_s"), elapsed, sizeof elapsed),
             ff_fact_find(root, "trace") == NULL ? "" : " (written)");
    ff_text_append(out, "\n");
    ff_item(out, INDENT, "events", 8, line, look);
}
