/* Findings as a good compiler prints them:
 *
 *     error[FF0107]: unknown key "num_attention_head"
 *       --> my-model.json:7:5
 *        |
 *      7 |     "num_attention_head": 64,
 *        |     ^^^^^^^^^^^^^^^^^^^^ did you mean "num_attention_heads"?
 *
 * A help that fits stands behind the carets; else, and where there is no place, lines "= rule" and
 * "= help" follow. Of a line wider than the look (a config in one line) only the surroundings of
 * the place are shown, with dots where it is cut. A note without a place is its message alone, unless
 * more is asked for (-v). */
#include "output/lines.h"

#include "base/number.h"
#include <stdio.h>
#include <string.h>

static const ff_paint paint_of[] = {
    [FF_NOTE] = FF_PAINT_NOTE, [FF_WARNING] = FF_PAINT_DOUBTFUL, [FF_ERROR] = FF_PAINT_BAD};

enum { EXCERPT_BYTES = 512, MOST_FINDINGS = 20 };

/* The part of a line that is shown, and where the place is in it. Columns of a place count
 * characters from 1; `caret` counts from 0. */
typedef struct excerpt {
    char text[EXCERPT_BYTES];
    int caret, length;
    bool cut_before, cut_after;
} excerpt;

static const char *skip_characters(const char *text, int count) {
    while (count > 0 && *text != '\0') {
        text++;
        while (((unsigned char)*text & 0xC0) == 0x80)
            text++;
        count--;
    }
    return text;
}

static excerpt cut_line(const ff_place *where, int room) {
    excerpt e = {0};
    const char *line = where->line_text;
    int width = ff_text_columns(line), column = where->column > 0 ? where->column - 1 : 0;
    int first = 0;
    if (width > room) {
        first = column - room / 3;
        first = first > width - room ? width - room : first;
        first = first < 0 ? 0 : first;
    }
    const char *from = skip_characters(line, first), *to = skip_characters(from, room);
    size_t bytes = (size_t)(to - from);
    if (bytes >= sizeof e.text)
        bytes = sizeof e.text - 1;
    memcpy(e.text, from, bytes);
    e.text[bytes] = '\0';
    e.cut_before = first > 0;
    e.cut_after = *to != '\0';
    e.caret = column - first;
    int shown = ff_text_columns(e.text);
    e.caret = e.caret > shown ? shown : e.caret;
    e.length = where->length < 1 ? 1 : where->length;
    e.length = e.length > shown - e.caret ? shown - e.caret : e.length;
    e.length = e.length < 1 ? 1 : e.length;
    return e;
}

/* Prints the line and its carets; true when the help stood behind them. */
static bool print_excerpt(ff_text *out, const ff_diagnostic *d, int gutter, const ff_look *look) {
    enum { DOTS = 4 };
    int columns = ff_look_columns(look);
    excerpt e = cut_line(&d->where, columns - gutter - 3 - 2 * DOTS);
    ff_text_repeat(out, ' ', gutter);
    ff_painted(out, " |\n", FF_PAINT_QUIET, look);
    char number[16];
    snprintf(number, sizeof number, "%*d |", gutter, d->where.line);
    ff_painted(out, number, FF_PAINT_QUIET, look);
    ff_text_append(out, e.cut_before ? " ... " : " ");
    ff_plain(out, e.text, look);
    ff_text_append(out, e.cut_after ? " ...\n" : "\n");
    ff_text_repeat(out, ' ', gutter);
    ff_painted(out, " |", FF_PAINT_QUIET, look);
    ff_text_repeat(out, ' ', 1 + e.caret + (e.cut_before ? DOTS : 0));
    ff_text carets = {0};
    ff_text_repeat(&carets, '^', e.length);
    ff_painted(out, ff_text_bytes(&carets), paint_of[d->severity], look);
    ff_text_free(&carets);
    int used = gutter + 4 + e.caret + e.length + (e.cut_before ? DOTS : 0);
    bool help_fits = d->help != NULL && strchr(d->help, '\n') == NULL &&
                     used + ff_text_columns(d->help) <= columns;
    if (help_fits) {
        ff_text_append(out, " ");
        ff_painted(out, d->help, paint_of[d->severity], look);
    }
    ff_text_append(out, "\n");
    return help_fits;
}

static int digits_of(int number) {
    int digits = 1;
    for (; number > 9; number /= 10)
        digits++;
    return digits;
}

static void print_note(ff_text *out, int gutter, const char *label, const char *text,
                       const ff_look *look) {
    ff_text_repeat(out, ' ', gutter + 1);
    ff_text_append(out, "= ");
    ff_painted(out, label, FF_PAINT_LABEL, look);
    ff_text_append(out, "   ");
    ff_wrap(out, text, gutter + 1 + 2 + 4 + 3, look);
}

static void print_place(ff_text *out, const ff_place *where, int gutter, const ff_look *look) {
    ff_text_repeat(out, ' ', gutter);
    ff_painted(out, "--> ", FF_PAINT_QUIET, look);
    ff_plain(out, where->file, look);
    if (where->line > 0)
        ff_text_printf(out, ":%d", where->line);
    if (where->line > 0 && where->column > 0)
        ff_text_printf(out, ":%d", where->column);
    ff_text_append(out, "\n");
}

static void print_one(ff_text *out, const ff_diagnostic *d, const ff_look *look) {
    char head[64];
    snprintf(head, sizeof head, "%s[%s]", ff_severity_name(d->severity), d->code);
    ff_painted(out, head, paint_of[d->severity], look);
    ff_text_append(out, ": ");
    ff_wrap(out, d->message, (int)strlen(head) + 2, look);
    bool placed = d->where.file != NULL, help_shown = false;
    if (d->severity == FF_NOTE && !placed && !look->verbose)
        return;
    int gutter = placed && d->where.line > 0 ? digits_of(d->where.line) : 1;
    gutter = gutter < 2 ? 2 : gutter;
    if (placed)
        print_place(out, &d->where, gutter, look);
    if (d->where.line_text != NULL && d->where.line > 0)
        help_shown = print_excerpt(out, d, gutter, look);
    if (d->rule != NULL)
        print_note(out, gutter, "rule", d->rule, look);
    if (d->help != NULL && !help_shown)
        print_note(out, gutter, "help", d->help, look);
}

void ff_render_diagnostics(const ff_diagnostics *list, ff_severity least, const ff_look *look,
                           ff_text *out) {
    int printed = 0, left_out = 0;
    for (int i = 0; i < ff_diagnostics_count(list); i++) {
        if (ff_diagnostics_at(list, i)->severity < least)
            continue;
        if (printed == MOST_FINDINGS && !look->verbose) {
            left_out++;
            continue;
        }
        print_one(out, ff_diagnostics_at(list, i), look);
        printed++;
    }
    if (left_out > 0)
        ff_text_printf(out, "and %d more like these (-v prints all)\n", left_out);
}
