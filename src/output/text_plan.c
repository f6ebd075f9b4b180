/* The answer of `plan` as text: five seconds to see it, thirty to believe it, then act.
 *
 *     what was asked        model, cluster, batch, profile, search
 *     the best layouts      a table; bars, tok/s and MFU give way where it is narrow
 *     why                   the three steps: fit, batch, speed; first against second
 *     the contrast          one that fits but is slow, one that does not fit
 *     next                  commands to paste
 *
 * Each part is left out when its facts are absent, so the coarse ledger (no time) and an empty
 * answer (nothing fits) take the same path. */
#include "base/units.h"
#include "output/lines.h"
#include "output/summary.h"
#include "output/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Differences below it are none: they come from rounding. */
static const double SAME_S = 5e-6;

enum { INDENT = 2, BAR_COLUMNS = 10, WHY_LABEL = 5, CONTRAST_LABEL = 13, MOST_OF_A_SIZE = 5 };

/* A number of the table of plans: where it stands, how it is headed, when it goes. */
typedef struct plan_column {
    const char *heading, *path, *unit;
    int keep;
} plan_column;

static const plan_column numbers[] = {
    {"s/step", "time.step_s", "", FF_KEEP_ALWAYS},
    {"tok/s/dev", "tokens_per_s_per_device", "", 2},
    {"MFU", "mfu", "ratio", 3},
    {"peak memory", "memory.peak_bytes", "bytes", FF_KEEP_ALWAYS},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static bool any_has(const ff_fact *plans, const char *path) {
    for (const ff_fact *p = plans->first; p != NULL; p = p->next)
        if (ff_fact_find(p, path) != NULL)
            return true;
    return false;
}

static void number_cell(ff_table *table, const ff_fact *plan, const plan_column *column) {
    char text[FF_VALUE_BYTES] = "-";
    const ff_fact *f = ff_fact_find(plan, column->path);
    if (f != NULL && f->kind != FF_FACT_NULL)
        ff_format_number(column->unit, ff_fact_real(plan, column->path), text, sizeof text);
    ff_table_cell(table, text, FF_PAINT_NONE);
}

static void bar_cell(ff_table *table, const ff_fact *plan, const ff_look *look) {
    ff_text bar = {0};
    double capacity = ff_fact_real(plan, "memory.capacity_bytes");
    if (capacity > 0.0)
        ff_bar(&bar, ff_fact_real(plan, "memory.peak_bytes") / capacity, BAR_COLUMNS, look);
    ff_table_cell_raw(table, ff_text_bytes(&bar));
    ff_text_free(&bar);
}

static void print_plans(ff_text *out, const ff_fact *plans, const ff_look *look) {
    ff_table *table = ff_table_create(INDENT, look);
    ff_table_flow_after(table, 1); /* bars may go, numbers stay */
    bool shown[NUMBERS];
    ff_table_add_column(table, (ff_table_column){.heading = "#", .right = true});
    ff_table_add_column(table, (ff_table_column){.heading = "layout", .flow = true});
    for (int i = 0; i < NUMBERS; i++) {
        shown[i] = any_has(plans, numbers[i].path);
        if (shown[i])
            ff_table_add_column(table, (ff_table_column){.heading = numbers[i].heading,
                                                         .right = true,
                                                         .keep = numbers[i].keep});
    }
    ff_table_add_column(table, (ff_table_column){.heading = "", .keep = 1});
    ff_table_add_column(table, (ff_table_column){.heading = ""});
    for (const ff_fact *p = plans->first; p != NULL; p = p->next) {
        char rank[FF_VALUE_BYTES];
        ff_table_cell(table, ff_format_integer(ff_fact_integer(p, "rank"), rank, sizeof rank),
                      FF_PAINT_QUIET);
        ff_table_cell(table, ff_fact_text(p, "layout"),
                      ff_fact_integer(p, "rank") == 1 ? FF_PAINT_HEADING : FF_PAINT_NONE);
        for (int i = 0; i < NUMBERS; i++)
            if (shown[i])
                number_cell(table, p, &numbers[i]);
        bar_cell(table, p, look);
        const char *verdict = ff_fact_text(p, "verdict");
        ff_table_cell(table, ff_verdict_words(verdict), ff_paint_of_verdict(verdict));
    }
    ff_text_append(out, "\n");
    ff_table_print(table, out);
    ff_table_free(table);
}

/* The rank that `against.first` or `.second` means: a rank, or the layout of one. */
static int64_t rank_meant(const ff_fact *root, const char *path, int64_t otherwise) {
    const ff_fact *f = ff_fact_find(root, path), *plans = ff_fact_find(root, "plans");
    if (f == NULL || f->kind == FF_FACT_INTEGER)
        return f == NULL ? otherwise : f->integer;
    for (const ff_fact *p = plans == NULL ? NULL : plans->first; p != NULL; p = p->next)
        if (f->text != NULL && strcmp(ff_fact_text(p, "layout"), f->text) == 0)
            return ff_fact_integer(p, "rank");
    return otherwise;
}

/* Differences share one unit, so that they can be added up in the head. */
static void append_difference(ff_text *text, double delta_s, bool in_ms) {
    double value = in_ms ? 1e3 * delta_s : delta_s;
    ff_text_printf(text, fabs(value) < 9.995 ? "%+.2f" : "%+.1f", value);
}

static void print_against(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *terms = ff_fact_find(root, "against.terms");
    double largest = fabs(ff_fact_real(root, "against.total_s"));
    for (const ff_fact *t = terms == NULL ? NULL : terms->first; t != NULL; t = t->next)
        largest = fmax(largest, fabs(ff_fact_real(t, "delta_s")));
    bool in_ms = largest < 0.1;
    ff_text text = {0};
    if (largest < SAME_S) {
        ff_text_append(&text, "the same time a step");
        terms = NULL;
    } else {
        append_difference(&text, ff_fact_real(root, "against.total_s"), in_ms);
        ff_text_append(&text, in_ms ? " ms a step" : " s a step");
        if (ff_fact_boolean(root, "against.batches_differ"))
            ff_text_append(&text, " of the first's batch");
    }
    const char *separator = ": ";
    for (const ff_fact *t = terms == NULL ? NULL : terms->first; t != NULL; t = t->next) {
        double delta_s = ff_fact_real(t, "delta_s");
        if (fabs(delta_s) < 0.005 * largest)
            continue;
        ff_text_printf(&text, "%s%s ", separator, ff_fact_text(t, "term"));
        append_difference(&text, delta_s, in_ms);
        separator = ", ";
    }
    char label[48];
    snprintf(label, sizeof label, "%lld v %lld", (long long)rank_meant(root, "against.first", 1),
             (long long)rank_meant(root, "against.second", 2));
    ff_item(out, INDENT, label, WHY_LABEL, ff_text_bytes(&text), look);
    ff_text_free(&text);
}

static void print_steps(ff_text *out, const ff_fact *steps, const ff_look *look) {
    int number = 1, widest = 0;
    for (const ff_fact *s = steps->first; s != NULL; s = s->next) {
        int columns = ff_text_columns(ff_fact_text(s, "step"));
        widest = columns > widest ? columns : widest;
    }
    for (const ff_fact *s = steps->first; s != NULL; s = s->next, number++) {
        char step[FF_VALUE_BYTES];
        snprintf(step, sizeof step, "%d %s", number, ff_fact_text(s, "step"));
        ff_text_repeat(out, ' ', INDENT);
        ff_painted(out, number == 1 ? "why 1" : "     ", FF_PAINT_LABEL, look);
        ff_text_repeat(out, ' ', WHY_LABEL + FF_ITEM_GAP - 5);
        ff_item_here(out, INDENT + WHY_LABEL + FF_ITEM_GAP, step, widest + 2,
                     ff_fact_text(s, "text"), look);
    }
}

static void print_why(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *steps = ff_fact_find(root, "steps");
    bool has_steps = steps != NULL && steps->first != NULL;
    const ff_fact *against = ff_fact_find(root, "against");
    bool has_against = against != NULL && against->kind == FF_FACT_RECORD && against->first != NULL;
    if (has_steps || has_against)
        ff_text_append(out, "\n");
    if (has_steps)
        print_steps(out, steps, look);
    if (has_against)
        print_against(out, root, look);
}

/* What is to be said about a layout, and the layout on a line of its own. */
static void print_contrast(ff_text *out, const char *label, const char *layout, ff_text *about,
                           const ff_look *look) {
    ff_item(out, INDENT, label, CONTRAST_LABEL, ff_text_bytes(about), look);
    ff_text_repeat(out, ' ', 2 * INDENT);
    ff_text_printf(out, "%s\n", layout);
    ff_text_free(about);
}

static void append_why(ff_text *text, const ff_fact *record) {
    const char *why = ff_fact_text(record, "why");
    if (why[0] != '\0')
        ff_text_printf(text, ": %s", why);
}

static void print_with_room(ff_text *out, const ff_fact *roomy, const ff_look *look) {
    char seconds[FF_VALUE_BYTES], peak[FF_VALUE_BYTES];
    ff_text about = {0};
    ff_text_printf(&about, "%s a step (%+.1f%% a token), peak %s",
                   ff_format_seconds(ff_fact_real(roomy, "step_s"), seconds, sizeof seconds),
                   100 * (ff_fact_real(roomy, "ratio") - 1),
                   ff_format_bytes(ff_fact_real(roomy, "peak_bytes"), peak, sizeof peak));
    print_contrast(out, "with room", ff_fact_text(roomy, "layout"), &about, look);
}

static void print_slow(ff_text *out, const ff_fact *slow, const ff_look *look) {
    char seconds[FF_VALUE_BYTES], times[FF_VALUE_BYTES];
    ff_text about = {0};
    ff_text_printf(&about, "%s a step",
                   ff_format_seconds(ff_fact_real(slow, "step_s"), seconds, sizeof seconds));
    if (ff_fact_real(slow, "ratio") > 0.0)
        ff_text_printf(&about, ", %s times the first a token",
                       ff_format_significant(ff_fact_real(slow, "ratio"), times, sizeof times));
    append_why(&about, slow);
    print_contrast(out, "fits but slow", ff_fact_text(slow, "layout"), &about, look);
}

static void append_too_big(ff_text *text, const ff_fact *record) {
    char peak[FF_VALUE_BYTES], capacity[FF_VALUE_BYTES], over[FF_VALUE_BYTES];
    ff_text_printf(
        text, "%s a device of %s, %s too much",
        ff_format_bytes(ff_fact_real(record, "peak_bytes"), peak, sizeof peak),
        ff_format_bytes(ff_fact_real(record, "capacity_bytes"), capacity, sizeof capacity),
        ff_format_bytes(ff_fact_real(record, "over_bytes"), over, sizeof over));
}

static void print_too_big(ff_text *out, const ff_fact *too_big, const ff_look *look) {
    ff_text about = {0};
    append_too_big(&about, too_big);
    append_why(&about, too_big);
    print_contrast(out, "does not fit", ff_fact_text(too_big, "layout"), &about, look);
}

static void print_contrasts(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *slow = ff_fact_find(root, "slow.layout");
    const ff_fact *too_big = ff_fact_find(root, "too_big.layout");
    const ff_fact *roomy = ff_fact_find(root, "with_room");
    if (slow != NULL || too_big != NULL || roomy != NULL)
        ff_text_append(out, "\n");
    if (roomy != NULL)
        print_with_room(out, roomy, look);
    if (slow != NULL)
        print_slow(out, ff_fact_find(root, "slow"), look);
    if (too_big != NULL)
        print_too_big(out, ff_fact_find(root, "too_big"), look);
}

/* How firmly the first wins: room, rivals within the model's error, constants that would flip it. */
static void print_cliff(ff_text *out, const ff_fact *root, const ff_look *look) {
    char spare[FF_VALUE_BYTES], share[FF_VALUE_BYTES];
    ff_text text = {0};
    ff_text_printf(&text, "%s to spare on stage %lld; the largest loss is %s, %s of the step",
                   ff_format_bytes(ff_fact_real(root, "cliff.spare_bytes"), spare, sizeof spare),
                   (long long)ff_fact_integer(root, "cliff.stage"),
                   ff_fact_text(root, "cliff.loss"),
                   ff_format_percent(ff_fact_real(root, "cliff.loss_ratio"), share, sizeof share));
    ff_item(out, INDENT, "binds", CONTRAST_LABEL, ff_text_bytes(&text), look);
    ff_text_free(&text);
}

static void print_close(ff_text *out, const ff_fact *root, const ff_look *look) {
    char error[FF_VALUE_BYTES];
    ff_text text = {0};
    long long layouts = ff_fact_integer(root, "close.layouts");
    ff_text_printf(&text, "%lld layout%s%s within %s of 1, the model's own error", layouts,
                   layouts == 1 ? "" : "s",
                   ff_fact_boolean(root, "close.at_least") ? " or more" : "",
                   ff_format_percent(ff_fact_real(root, "close.error_ratio"), error, sizeof error));
    const ff_fact *rival = ff_fact_find(root, "close.rival");
    if (rival != NULL)
        ff_text_printf(&text, "; to decide, measure 1 and this one (%+.1f%% a token)",
                       100 * (ff_fact_real(root, "close.ratio") - 1));
    if (rival != NULL)
        print_contrast(out, "close", rival->text, &text, look);
    else
        ff_item(out, INDENT, "close", CONTRAST_LABEL, ff_text_bytes(&text), look);
    ff_text_free(&text);
}

/* The constant that is nearest to changing the winner. */
static const ff_fact *nearest_flip(const ff_fact *list) {
    const ff_fact *nearest = NULL;
    double least = 1e9;
    for (const ff_fact *k = list->first; k != NULL; k = k->next) {
        double factor = ff_fact_real(k, "factor");
        double distance = factor > 0 ? fabs(log(factor)) : 1e9;
        if (distance < least) {
            least = distance;
            nearest = k;
        }
    }
    return nearest;
}

static void print_flip(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *list = ff_fact_find(root, "sensitivity");
    const ff_fact *k = list == NULL ? NULL : nearest_flip(list);
    char at[FF_VALUE_BYTES], now[FF_VALUE_BYTES];
    if (k == NULL)
        return;
    const char *unit = ff_fact_text(k, "unit");
    ff_text text = {0};
    ff_text_printf(&text, "%s at %s instead of %s makes another layout win",
                   ff_fact_text(k, "words"),
                   ff_format_number(unit, ff_fact_real(k, "flips_at"), at, sizeof at),
                   ff_format_number(unit, ff_fact_real(k, "value"), now, sizeof now));
    print_contrast(out, "flips", ff_fact_text(k, "to"), &text, look);
}

static void print_other_schedule(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *other = ff_fact_find(root, "other_schedule");
    if (other == NULL)
        return;
    ff_text text = {0};
    ff_text_printf(&text, "%s, which %s does not run: %+.1f%% a token against 1",
                   ff_fact_text(other, "schedule"), ff_fact_text(other, "profile"),
                   100 * (ff_fact_real(other, "ratio") - 1));
    print_contrast(out, "schedule", ff_fact_text(other, "layout"), &text, look);
}

static void print_baselines(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *list = ff_fact_find(root, "baselines");
    for (const ff_fact *b = list == NULL ? NULL : list->first; b != NULL; b = b->next) {
        const char *layout = ff_fact_text(b, "layout");
        ff_text text = {0};
        if (layout[0] == '\0') {
            ff_text_printf(&text, "%s: nothing fits", ff_fact_text(b, "name"));
            ff_item(out, INDENT, "rule of thumb", CONTRAST_LABEL, ff_text_bytes(&text), look);
            ff_text_free(&text);
            continue;
        }
        ff_text_printf(&text, "%s: %+.1f%% a token against 1", ff_fact_text(b, "name"),
                       100 * (ff_fact_real(b, "ratio") - 1));
        print_contrast(out, "rule of thumb", layout, &text, look);
    }
}

static void print_reasons(ff_text *out, const ff_fact *root, const ff_look *look) {
    if (ff_fact_find(root, "cliff") == NULL)
        return;
    ff_text_append(out, "\n");
    print_cliff(out, root, look);
    print_close(out, root, look);
    print_flip(out, root, look);
    print_other_schedule(out, root, look);
    print_baselines(out, root, look);
}

/* One table, from the fewest devices on. */
static void print_pareto(ff_text *out, const ff_fact *root, const ff_look *look) {
    static const plan_column columns[] = {{"s/step", "step_s", "", FF_KEEP_ALWAYS},
                                          {"tok/s/dev", "tokens_per_s_per_device", "", 2},
                                          {"peak memory", "peak_bytes", "bytes", FF_KEEP_ALWAYS}};
    const ff_fact *rows = ff_fact_find(root, "pareto");
    if (rows == NULL)
        return;
    ff_table *table = ff_table_create(INDENT, look);
    ff_table_flow_after(table, 1);
    ff_table_add_column(table, (ff_table_column){.heading = "devices", .right = true});
    ff_table_add_column(table, (ff_table_column){.heading = "layout", .flow = true});
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        ff_table_add_column(table, (ff_table_column){.heading = columns[i].heading,
                                                     .right = true,
                                                     .keep = columns[i].keep});
    ff_table_add_column(table, (ff_table_column){.heading = ""});
    int64_t size = 0;
    int of_size = 0, left_out = 0;
    for (const ff_fact *r = rows->first; r != NULL; r = r->next) {
        char devices[FF_VALUE_BYTES];
        of_size = ff_fact_integer(r, "devices") == size ? of_size + 1 : 1;
        size = ff_fact_integer(r, "devices");
        if (of_size > MOST_OF_A_SIZE && !look->verbose) {
            left_out++;
            continue;
        }
        ff_table_cell(table,
                      ff_format_integer(ff_fact_integer(r, "devices"), devices, sizeof devices),
                      FF_PAINT_QUIET);
        ff_table_cell(table, ff_fact_text(r, "layout"), FF_PAINT_NONE);
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            number_cell(table, r, &columns[i]);
        const char *verdict = ff_fact_text(r, "verdict");
        ff_table_cell(table, ff_verdict_words(verdict), ff_paint_of_verdict(verdict));
    }
    ff_text_append(out, "\n  ");
    ff_painted(out, "beaten by none in time, memory and devices at once", FF_PAINT_HEADING, look);
    ff_text_append(out, "\n\n");
    ff_table_print(table, out);
    ff_table_free(table);
    if (left_out > 0)
        ff_text_printf(out,
                       "  (%d slower ones with less memory left out; -v and -o json have all)\n",
                       left_out);
}

static void print_nothing_fits(ff_text *out, const ff_fact *root, const ff_look *look) {
    const ff_fact *nothing = ff_fact_find(root, "nothing_fits");
    if (nothing == NULL || nothing->kind != FF_FACT_RECORD)
        return;
    ff_text_append(out, "\n  ");
    ff_painted(out, "nothing fits", FF_PAINT_BAD, look);
    ff_text_append(out, "\n\n");
    if (ff_fact_find(nothing, "layout") != NULL) {
        ff_text about = {0};
        append_too_big(&about, nothing);
        print_contrast(out, "nearest", ff_fact_text(nothing, "layout"), &about, look);
    }
    const char *dominant = ff_fact_text(nothing, "dominant");
    if (dominant[0] != '\0')
        ff_item(out, INDENT, "most of it", CONTRAST_LABEL, dominant, look);
    const ff_fact *changes = ff_fact_find(nothing, "changes");
    for (const ff_fact *c = changes == NULL ? NULL : changes->first; c != NULL; c = c->next)
        ff_item(out, INDENT, c == changes->first ? "would fit" : "", CONTRAST_LABEL,
                ff_fact_text(c, "text"), look);
}

static void print_next(ff_text *out, const ff_fact *next, const ff_look *look) {
    if (next == NULL || next->first == NULL)
        return;
    ff_text_append(out, "\n");
    for (const ff_fact *n = next->first; n != NULL; n = n->next) {
        ff_text_repeat(out, ' ', INDENT);
        ff_painted(out, n == next->first ? "next" : "    ", FF_PAINT_LABEL, look);
        ff_text_repeat(out, ' ', WHY_LABEL + FF_ITEM_GAP - 4);
        ff_shell_command(out, ff_fact_text(n, "text"), INDENT + WHY_LABEL + FF_ITEM_GAP, look);
    }
}

static void print_what_if(ff_text *out, const ff_fact *root, const ff_look *look) {
    char value[FF_VALUE_BYTES];
    if (ff_fact_find(root, "what_if") == NULL)
        return;
    ff_text text = {0};
    ff_text_printf(&text, "%s: %s", ff_fact_text(root, "what_if.words"),
                   ff_format_integer(ff_fact_integer(root, "what_if.value"), value, sizeof value));
    ff_text_append(out, "  ");
    ff_painted(out, ff_text_bytes(&text), FF_PAINT_HEADING, look);
    ff_text_append(out, "\n\n");
    ff_text_free(&text);
}

void ff_render_plan(const ff_fact *root, const ff_look *look, ff_text *out) {
    ff_text_append(out, "\n");
    print_what_if(out, root, look);
    ff_print_summary(out, root, look);
    const ff_fact *plans = ff_fact_find(root, "plans");
    if (plans != NULL && plans->first != NULL)
        print_plans(out, plans, look);
    print_nothing_fits(out, root, look);
    print_why(out, root, look);
    print_contrasts(out, root, look);
    print_reasons(out, root, look);
    print_pareto(out, root, look);
    print_next(out, ff_fact_find(root, "next"), look);
    ff_text_append(out, "\n");
}
