/* The answer of `validate` as text: a line a group, the totals, what was skipped and assumed, and
 * the worst rows term by term. */
#include "output/lines.h"
#include "output/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INDENT = 2, LONGEST_GROUP = 30 };

static const char *percent(const ff_fact *record, const char *path, char *text, size_t bytes) {
    if (ff_fact_find(record, path) == NULL)
        return "-";
    snprintf(text, bytes, "%.1f", 100 * ff_fact_real(record, path));
    return text;
}

static void heading(ff_text *out, const char *text, const ff_look *look) {
    ff_text_append(out, "\n  ");
    ff_painted(out, text, FF_PAINT_HEADING, look);
    ff_text_append(out, "\n");
}

static const struct {
    const char *heading, *path;
    bool count;
    int keep;
} columns[] = {
    {"rows", "rows", true, FF_KEEP_ALWAYS},
    {"timed", "time.rows", true, FF_KEEP_ALWAYS},
    {"median", "time.median_ape", false, FF_KEEP_ALWAYS},
    {"mean", "time.mape", false, FF_KEEP_ALWAYS},
    {"p90", "time.p90_ape", false, 6},
    {"bias", "time.bias", false, 7},
    {"one eff.", "baseline.median_ape", false, 5},
    {"mem", "memory.median_ape", false, 4},
    {"right", "fit.right", true, 3},
    {"fit!", "fit.false_fit", true, 2},
    {"oom!", "fit.false_oom", true, 1},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void score_row(ff_table *table, const char *name, const ff_fact *group) {
    char text[64];
    snprintf(text, sizeof text, "%.*s", LONGEST_GROUP, name);
    ff_table_cell(table, text, FF_PAINT_NONE);
    for (int i = 0; i < COLUMNS; i++) {
        if (columns[i].count) {
            snprintf(text, sizeof text, "%lld", (long long)ff_fact_integer(group, columns[i].path));
            ff_table_cell(table, text, FF_PAINT_NONE);
        } else {
            ff_table_cell(table, percent(group, columns[i].path, text, sizeof text), FF_PAINT_NONE);
        }
    }
}

static void print_groups(ff_text *out, const ff_fact *root, const ff_look *look) {
    ff_table *table = ff_table_create(INDENT, look);
    ff_table_add_column(table, (ff_table_column){"group", false, FF_KEEP_ALWAYS, false});
    for (int i = 0; i < COLUMNS; i++)
        ff_table_add_column(table,
                            (ff_table_column){columns[i].heading, true, columns[i].keep, false});
    const ff_fact *groups = ff_fact_find(root, "groups");
    for (const ff_fact *g = groups->first; g != NULL; g = g->next)
        score_row(table, ff_fact_text(g, "group"), g);
    score_row(table, "total", ff_fact_find(root, "total"));
    ff_table_print(table, out);
    ff_table_free(table);
}

static void print_means(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *total = ff_fact_find(root, "total");
    const ff_fact *means = ff_fact_find(total, "means_over_groups");
    ff_text line = {0};
    char a[32], b[32];
    ff_text_printf(&line, "step time: median %s, mean %s",
                   percent(means, "time.median_ape", a, sizeof a),
                   percent(means, "time.mape", b, sizeof b));
    ff_text_printf(&line, "; one efficiency: median %s, mean %s",
                   percent(means, "baseline.median_ape", a, sizeof a),
                   percent(means, "baseline.mape", b, sizeof b));
    ff_text_printf(&line, "; peak memory: median %s, mean %s (in %%, groups of at least %lld rows)",
                   percent(means, "memory.median_ape", a, sizeof a),
                   percent(means, "memory.mape", b, sizeof b),
                   (long long)ff_fact_integer(means, "least_rows"));
    ff_text_append(out, "\n");
    ff_item(out, INDENT, "means of groups", 15, ff_text_bytes(&line), look);
    ff_text_free(&line);
}

static void print_ranking(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *ranking = ff_fact_find(root, "total.ranking");
    ff_text line = {0};
    ff_text_printf(
        &line, "%lld groups of layouts: regret mean %.1f, median %.1f %%; rank correlation %.2f",
        (long long)ff_fact_integer(ranking, "groups"), 100 * ff_fact_real(ranking, "mean_regret"),
        100 * ff_fact_real(ranking, "median_regret"),
        ff_fact_real(ranking, "mean_rank_correlation"));
    ff_item(out, INDENT, "ranking", 15, ff_text_bytes(&line), look);
    ff_text_free(&line);
}

static void print_counted(ff_text *out, const char *title, const ff_fact *list, const char *text,
                          const char *column, const ff_look *look) {
    if (list == NULL || list->first == NULL)
        return;
    heading(out, title, look);
    for (const ff_fact *f = list->first; f != NULL; f = f->next) {
        char rows[32];
        ff_text line = {0};
        snprintf(rows, sizeof rows, "%5lld", (long long)ff_fact_integer(f, "rows"));
        if (column != NULL)
            ff_text_printf(&line, "%s: ", ff_fact_text(f, column));
        ff_text_append(&line, ff_fact_text(f, text));
        ff_item(out, INDENT, rows, 5, ff_text_bytes(&line), look);
        ff_text_free(&line);
    }
}

/* ---- worst rows ---- */

static void add_term(ff_text *line, const char *name, double seconds, double step_s) {
    if (step_s > 0 && fabs(seconds) >= 0.005 * step_s)
        ff_text_printf(line, ", %s %.3g", name, seconds);
}

static void print_times(ff_text *out, const ff_fact *row, const ff_look *look) {
    static const struct {
        const char *name, *path;
    } terms[] = {{"bubble", "time.bubble_s"},
                 {"tp", "time.tp_s"},
                 {"pp", "time.pp_s"},
                 {"cp", "time.cp_s"},
                 {"ep", "time.ep_s"},
                 {"dp", "time.dp_s"},
                 {"optimizer", "time.optimizer_s"}};
    double step_s = ff_fact_real(row, "predicted_low_s");
    ff_text line = {0};
    ff_text_printf(&line, "compute %.3g", ff_fact_real(row, "time.compute_s"));
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        add_term(&line, terms[i].name, ff_fact_real(row, terms[i].path), step_s);
    ff_item(out, INDENT + 2, "seconds", 8, ff_text_bytes(&line), look);
    ff_text_free(&line);
}

static void print_memory(ff_text *out, const ff_fact *row, const ff_look *look) {
    static const char *const names[] = {"weights", "gradients", "optimizer", "kept",
                                        "working", "buffers",   "runtime"};
    ff_text line = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "memory.%s_bytes", names[i]);
        ff_text_printf(&line, "%s%s %.2f", i == 0 ? "" : ", ", names[i],
                       ff_fact_real(row, path) / 1073741824.0);
    }
    ff_item(out, INDENT + 2, "GiB", 8, ff_text_bytes(&line), look);
    ff_text_free(&line);
}

static void print_row(ff_text *out, const ff_fact *row, const ff_look *look) {
    double measured_s = ff_fact_real(row, "measured_s");
    double measured = ff_fact_real(row, "measured_bytes") / 1073741824.0;
    ff_text line = {0};
    ff_text_printf(&line, "%s", ff_fact_text(row, "layout"));
    if (measured_s > 0)
        ff_text_printf(&line, "; %.3g s measured, %.3g predicted", measured_s,
                       ff_fact_real(row, "predicted_low_s"));
    if (measured > 0)
        ff_text_printf(&line, "; %.1f GiB measured, %.1f predicted", measured,
                       ff_fact_real(row, "predicted_low_bytes") / 1073741824.0);
    if (ff_fact_boolean(row, "ran") != ff_fact_boolean(row, "predicted_fits"))
        ff_text_append(&line, ff_fact_boolean(row, "ran") ? "; ran, predicted too big"
                                                          : "; out of memory, predicted to fit");
    ff_item(out, INDENT, ff_fact_text(row, "id"), 18, ff_text_bytes(&line), look);
    ff_text_free(&line);
    print_times(out, row, look);
    print_memory(out, row, look);
}

void ff_render_validation(const ff_fact *root, const ff_look *look, ff_text *out) {
    const ff_fact *worst = ff_fact_find(root, "worst");
    ff_text_append(out, "\n");
    print_groups(out, root, look);
    print_means(out, root, look);
    print_ranking(out, root, look);
    print_counted(out, "skipped", ff_fact_find(root, "total.skipped"), "reason", NULL, look);
    if (look->verbose)
        print_counted(out, "assumed where a row is silent", ff_fact_find(root, "assumptions"),
                      "assumed", "column", look);
    if (worst != NULL) {
        heading(out, "worst rows", look);
        for (const ff_fact *row = worst->first; row != NULL; row = row->next)
            if (ff_fact_text(row, "skipped")[0] == '\0')
                print_row(out, row, look);
    }
}
