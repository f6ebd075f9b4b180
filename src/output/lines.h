/* Lines of text for a terminal: safe characters, colour, wrapping, labelled items, bars.
 *
 *     heading
 *       label    text that is wrapped at the look's columns and goes on
 *                under its own beginning
 *
 * Everything printed comes through ff_plain first: what a user's file or argument holds can neither
 * move the cursor nor change colours, and where the terminal has no UTF-8, arrows, bars and
 * dots become ASCII of the same width. */
#ifndef FF_OUTPUT_LINES_H
#define FF_OUTPUT_LINES_H

#include "base/text.h"
#include "output/render.h"

enum {
    FF_WIDEST = 100, /* no line is longer, however wide the terminal */
    FF_ITEM_GAP = 2, /* between a label and its text */
};

typedef enum ff_paint {
    FF_PAINT_NONE,
    FF_PAINT_HEADING,
    FF_PAINT_LABEL,
    FF_PAINT_QUIET,
    FF_PAINT_GOOD,
    FF_PAINT_DOUBTFUL,
    FF_PAINT_BAD,
    FF_PAINT_NOTE,
} ff_paint;

/* The columns to print in: the terminal's, but between 40 and FF_WIDEST. */
int ff_look_columns(const ff_look *look);

/* Appends a text of the user's made safe. Line breaks are kept, tabs become a blank. */
void ff_plain(ff_text *out, const char *text, const ff_look *look);
/* Appends a text in a colour (none without look->colour), made safe. */
void ff_painted(ff_text *out, const char *text, ff_paint paint, const ff_look *look);
/* Good, doubtful or bad for "fits", "tight", "too_big" and the like. */
ff_paint ff_paint_of_verdict(const char *verdict);
/* "too_big" as "too big". */
const char *ff_verdict_words(const char *verdict);

/* Appends words that begin at column `indent` of a line already begun, and go on there on further
 * lines; ends the line. A word wider than the room is never cut. */
void ff_wrap(ff_text *out, const char *text, int indent, const ff_look *look);
/* A label at `indent`, its text from `indent + label_columns + 2`, wrapped. */
void ff_item(ff_text *out, int indent, const char *label, int label_columns, const char *text,
             const ff_look *look);
/* The same on a line already filled up to column `at`. */
void ff_item_here(ff_text *out, int at, const char *label, int label_columns, const char *text,
                  const ff_look *look);
/* A shell command, broken with a backslash where it is too long, so that it can be pasted. */
void ff_shell_command(ff_text *out, const char *command, int indent, const ff_look *look);

/* A bar of at most `columns`: eighths of a block, or '#'. The ratio is cut at 1. */
void ff_bar(ff_text *out, double ratio, int columns, const ff_look *look);

#endif
