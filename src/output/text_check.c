/* The answer of `check` as text: how the layout was read, the verdict, where the memory and the
 * time go, and a last line that says whether to launch it. The findings themselves are printed as
 * diagnostics by the caller. */
#include "base/units.h"
#include "output/lines.h"
#include "output/summary.h"
#include "output/table.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 2, MOST_STAGES = 8, MOST_TENSORS = 8, BAR_COLUMNS = 20 };

static void heading(ff_text *out, const char *text, const ff_look *look) {
    ff_text_append(out, "\n  ");
    ff_painted(out, text, FF_PAINT_HEADING, look);
    ff_text_append(out, "\n");
}

static void print_verdict(ff_text *out, const ff_fact *root, const ff_look *look) {
    const char *verdict = ff_fact_text(root, "verdict");
    const ff_fact *memory = ff_fact_find(root, "estimate.memory");
    if (verdict[0] == '\0')
        return;
    ff_text_repeat(out, ' ', INDENT);
    ff_painted(out, "verdict", FF_PAINT_LABEL, look);
    ff_text_repeat(out, ' ', FF_SUMMARY_LABEL - 7 + 2);
    ff_painted(out, ff_verdict_words(verdict), ff_paint_of_verdict(verdict), look);
    if (memory != NULL) {
        char peak[FF_VALUE_BYTES], capacity[FF_VALUE_BYTES];
        ff_text_printf(
            out, ": peak %s of %s",
            ff_format_bytes(ff_fact_real(memory, "peak_bytes"), peak, sizeof peak),
            ff_format_bytes(ff_fact_real(memory, "capacity_bytes"), capacity, sizeof capacity));
        if (ff_fact_find(memory, "peak_stage") != NULL)
            ff_text_printf(out, ", on stage %lld",
                           (long long)ff_fact_integer(memory, "peak_stage"));
    }
    ff_text_append(out, "\n");
}

static const struct {
    const char *heading, *path;
    int keep;
} categories[] = {
    {"weights", "weights_bytes", 5},          {"grads", "gradients_bytes", 4},
    {"optim", "optimizer_bytes", 6},          {"acts", "activations_bytes", 7},
    {"buffers", "buffers_bytes", 2},          {"runtime", "runtime_bytes", 3},
    {"total", "total_bytes", FF_KEEP_ALWAYS},
};
enum { CATEGORIES = sizeof categories / sizeof categories[0] };

static void stage_row(ff_table *table, const ff_fact *stage, bool is_peak) {
    char text[FF_VALUE_BYTES];
    snprintf(text, sizeof text, "%lld", (long long)ff_fact_integer(stage, "stage"));
    ff_table_cell(table, text, FF_PAINT_NONE);
    for (int i = 0; i < CATEGORIES; i++) {
        bool there = ff_fact_find(stage, categories[i].path) != NULL;
        double bytes = ff_fact_real(stage, categories[i].path);
        ff_table_cell(table, there ? ff_format_gib(bytes, text, sizeof text) : "-",
                      is_peak && i == CATEGORIES - 1 ? FF_PAINT_HEADING : FF_PAINT_NONE);
    }
    ff_table_cell(table, is_peak ? "peak" : "", FF_PAINT_QUIET);
}

/* Says how many stages are left out; none of them is larger than those shown. */
static void gap_row(ff_table *table, int count) {
    char text[FF_VALUE_BYTES];
    snprintf(text, sizeof text, "+%d", count);
    ff_table_cell(table, text, FF_PAINT_QUIET);
    for (int i = 0; i < CATEGORIES; i++)
        ff_table_cell(table, "", FF_PAINT_NONE);
    ff_table_cell(table, "no larger", FF_PAINT_QUIET);
}

static void print_stages(ff_text *out, const ff_fact *memory, const ff_look *look) {
    const ff_fact *stages = ff_fact_find(memory, "stages");
    if (stages == NULL || stages->first == NULL)
        return;
    ff_table *table = ff_table_create(INDENT + 2, look);
    ff_table_add_column(table, (ff_table_column){.heading = "stage", .right = true});
    for (int i = 0; i < CATEGORIES; i++)
        ff_table_add_column(table, (ff_table_column){.heading = categories[i].heading,
                                                     .right = true,
                                                     .keep = categories[i].keep});
    ff_table_add_column(table, (ff_table_column){.heading = "", .keep = 3});
    int64_t peak = ff_fact_integer(memory, "peak_stage");
    int left_out = 0, index = 0;
    for (const ff_fact *s = stages->first; s != NULL; s = s->next, index++) {
        bool is_peak = ff_fact_integer(s, "stage") == peak && stages->count > 1;
        bool shown = look->verbose || stages->count <= MOST_STAGES || index == 0 ||
                     s->next == NULL || is_peak;
        left_out += !shown;
        if (shown && left_out > 0) {
            gap_row(table, left_out);
            left_out = 0;
        }
        if (shown)
            stage_row(table, s, is_peak);
    }
    heading(out, "memory a device, GiB", look);
    ff_table_print(table, out);
    ff_table_free(table);
}

static void print_tensors(ff_text *out, const ff_fact *tensors, const ff_look *look) {
    if (tensors == NULL || tensors->first == NULL)
        return;
    ff_table *table = ff_table_create(INDENT + 2, look);
    ff_table_add_column(table, (ff_table_column){.heading = "", .flow = true});
    ff_table_add_column(table, (ff_table_column){.heading = "", .right = true});
    int shown = 0;
    for (const ff_fact *t = tensors->first; t != NULL && (look->verbose || shown < MOST_TENSORS);
         t = t->next, shown++) {
        char text[FF_VALUE_BYTES];
        ff_table_cell(table, ff_fact_text(t, "name"), FF_PAINT_NONE);
        ff_table_cell(table, ff_format_bytes(ff_fact_real(t, "bytes"), text, sizeof text),
                      FF_PAINT_NONE);
    }
    heading(out, "largest at the peak", look);
    ff_table_print(table, out);
    ff_table_free(table);
}

static const struct {
    const char *words, *path;
} time_terms[] = {
    {"compute", "compute_s"},        {"pipeline bubble", "bubble_s"},
    {"TP, exposed", "exposed.tp_s"}, {"PP, exposed", "exposed.pp_s"},
    {"CP, exposed", "exposed.cp_s"}, {"EP, exposed", "exposed.ep_s"},
    {"DP, exposed", "exposed.dp_s"}, {"optimizer", "optimizer_s"},
};

static void time_row(ff_table *table, const char *words, double seconds, double step_s,
                     const ff_look *look) {
    char text[FF_VALUE_BYTES];
    ff_text bar = {0};
    ff_table_cell(table, words, FF_PAINT_NONE);
    ff_table_cell(table, ff_format_seconds(seconds, text, sizeof text), FF_PAINT_NONE);
    ff_table_cell(table, ff_format_percent(seconds / step_s, text, sizeof text), FF_PAINT_NONE);
    ff_bar(&bar, seconds / step_s, BAR_COLUMNS, look);
    ff_table_cell_raw(table, ff_text_bytes(&bar));
    ff_text_free(&bar);
}

static void print_time(ff_text *out, const ff_fact *time, const ff_look *look) {
    double step_s = time == NULL ? 0.0 : ff_fact_real(time, "step_s");
    if (step_s <= 0.0)
        return;
    char text[FF_VALUE_BYTES], title[80];
    ff_table *table = ff_table_create(INDENT + 2, look);
    ff_table_add_column(table, (ff_table_column){.heading = ""});
    ff_table_add_column(table, (ff_table_column){.heading = "", .right = true});
    ff_table_add_column(table, (ff_table_column){.heading = "", .right = true});
    ff_table_add_column(table, (ff_table_column){.heading = "", .keep = 1});
    for (size_t i = 0; i < sizeof time_terms / sizeof time_terms[0]; i++) {
        double seconds = ff_fact_real(time, time_terms[i].path);
        if (seconds != 0.0)
            time_row(table, time_terms[i].words, seconds, step_s, look);
    }
    snprintf(title, sizeof title, "time a step, %s", ff_format_seconds(step_s, text, sizeof text));
    heading(out, title, look);
    ff_table_print(table, out);
    ff_table_free(table);
}

static void print_speed(ff_text *out, const ff_fact *estimate, const ff_look *look) {
    static const struct {
        const char *path, *unit, *after;
    } parts[] = {
        {"gbs_tokens_actual", "tokens", " tokens a step"},
        {"tokens_per_s_per_device", "", " tokens/s a device"},
        {"model_tflops_per_device", "", " TFLOP/s a device"},
        {"mfu", "ratio", " MFU"},
    };
    ff_text text = {0};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char number[FF_VALUE_BYTES];
        double value = ff_fact_real(estimate, parts[i].path);
        if (value > 0.0)
            ff_text_printf(&text, "%s%s%s", text.length > 0 ? ", " : "",
                           ff_format_number(parts[i].unit, value, number, sizeof number),
                           parts[i].after);
    }
    if (text.length > 0) {
        ff_text_append(out, "\n  ");
        ff_wrap(out, ff_text_bytes(&text), INDENT, look);
    }
    ff_text_free(&text);
}

static void append_counted(ff_text *text, int count, const char *word) {
    if (count > 0)
        ff_text_printf(text, "%s%d %s%s", text->length > 0 ? ", " : "", count, word,
                       count == 1 ? "" : "s");
}

/* "2 errors, 1 warning; not launched as it stands". */
static void print_closing(ff_text *out, const ff_fact *root, const ff_look *look) {
    int errors = 0, warnings = 0;
    const ff_fact *findings = ff_fact_find(root, "findings");
    for (const ff_fact *f = findings == NULL ? NULL : findings->first; f != NULL; f = f->next) {
        errors += strcmp(ff_fact_text(f, "severity"), "error") == 0;
        warnings += strcmp(ff_fact_text(f, "severity"), "warning") == 0;
    }
    ff_text text = {0};
    append_counted(&text, errors, "error");
    append_counted(&text, warnings, "warning");
    const ff_fact *fits = ff_fact_find(root, "fits"), *legal = ff_fact_find(root, "legal");
    if (strcmp(ff_fact_text(root, "verdict"), "too_big") == 0 && errors == 0)
        ff_text_printf(&text, "%sdoes not fit", text.length > 0 ? ", " : "");
    if (text.length == 0)
        ff_text_append(&text, "nothing to object to");
    bool no = errors > 0 || (legal != NULL && !legal->boolean) ||
              (fits != NULL && fits->kind == FF_FACT_BOOL && !fits->boolean);
    ff_text_append(&text, no ? "; not launched as it stands" : "; it can be launched");
    ff_text_append(out, "\n");
    ff_painted(out, ff_text_bytes(&text), no ? FF_PAINT_BAD : FF_PAINT_GOOD, look);
    ff_text_append(out, "\n");
    ff_text_free(&text);
}

void ff_render_check(const ff_fact *root, const ff_look *look, ff_text *out) {
    const ff_fact *estimate = ff_fact_find(root, "estimate");
    ff_text_append(out, "\n");
    ff_print_summary(out, root, look);
    const char *layout = ff_fact_text(root, "layout");
    if (layout[0] != '\0')
        ff_item(out, INDENT, "layout", FF_SUMMARY_LABEL, layout, look);
    if (look->verbose && ff_fact_text(root, "layout_full")[0] != '\0')
        ff_item(out, INDENT, "in full", FF_SUMMARY_LABEL, ff_fact_text(root, "layout_full"), look);
    print_verdict(out, root, look);
    if (estimate != NULL && estimate->kind == FF_FACT_RECORD) {
        const ff_fact *memory = ff_fact_find(estimate, "memory");
        if (memory != NULL)
            print_stages(out, memory, look);
        print_tensors(out, ff_fact_find(estimate, "tensors"), look);
        print_time(out, ff_fact_find(estimate, "time"), look);
        print_speed(out, estimate, look);
    }
    print_closing(out, root, look);
}
