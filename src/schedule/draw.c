/* Draws a schedule as characters: one line a stage, time to the right, backward twice as long as
 * forward (split: its two parts as long as forward each), nothing else taking time.
 *
 *     stage 0  0 1 2 3 · · · · · 0━━   1━━
 *
 * A forward is the bare number of its microbatch, a backward the number with a tail; a chunk has
 * its own alphabet (0-9, a-j, A-J, ...), so that all chunks of a stage fit on its line. An input
 * gradient is the number in a circle, a weight gradient a shade: its order is that of the circles.
 * A unit of time is three, two or one column wide, the widest that fits; only the widest has room
 * for numbers above 9, the others show the last digit. What does not fit even then is cut, and ends
 * in "...". */
#include "schedule/run.h"

#include "base/text.h"
#include <stdio.h>

enum { FORWARD_UNITS = 1, BACKWARD_UNITS = 2, WIDEST_UNIT = 3, LEAST_COLUMNS = 24 };

static const char *const alphabets[] = {"0123456789", "abcdefghij", "ABCDEFGHIJ", "klmnopqrst",
                                        "KLMNOPQRST"};
enum { ALPHABETS = sizeof alphabets / sizeof *alphabets };

/* Kinds that split backward have at most two chunks. */
static const char *const circles[2][10] = {{"⓪", "①", "②", "③", "④", "⑤", "⑥", "⑦", "⑧", "⑨"},
                                           {"ⓐ", "ⓑ", "ⓒ", "ⓓ", "ⓔ", "ⓕ", "ⓖ", "ⓗ", "ⓘ", "ⓙ"}};
static const char *const shades[2] = {"░", "▒"};

typedef struct canvas {
    const ff_schedule *schedule;
    const ff_run *run;
    int label_columns; /* before the cells */
    int cell_columns;  /* for the cells */
    int unit;          /* columns of a unit of time */
    bool numbers;      /* microbatches in full, not by their last digit */
} canvas;

static int label_columns(const ff_schedule_shape *shape) {
    return snprintf(NULL, 0, "stage %d  ", shape->stages - 1);
}

/* Digits in full need one chunk (one alphabet) and a blank between two numbers. */
static bool shows_numbers(const ff_schedule_shape *shape, int unit) {
    int digits = snprintf(NULL, 0, "%d", shape->microbatches - 1);
    return digits == 1 || (shape->chunks == 1 && digits < unit);
}

static void choose_unit(canvas *drawing) {
    for (drawing->unit = WIDEST_UNIT; drawing->unit > 1; drawing->unit--)
        if (drawing->run->span_s * drawing->unit <= drawing->cell_columns)
            break;
    bool wide = shows_numbers(&drawing->schedule->shape, drawing->unit);
    /* Three columns a unit are only worth it for two digits. */
    if (drawing->unit == WIDEST_UNIT && shows_numbers(&drawing->schedule->shape, 2))
        drawing->unit = 2;
    drawing->numbers = wide;
}

static int units_of(const ff_action *action) {
    return action->kind == FF_ACTION_BACKWARD ? BACKWARD_UNITS : FORWARD_UNITS;
}

/* What names a computation; returns its columns. */
static int append_name(const canvas *drawing, const ff_action *action, ff_text *line) {
    size_t before = line->length;
    if (action->kind == FF_ACTION_BACKWARD_WEIGHT)
        ff_text_append(line, shades[action->chunk % 2]);
    else if (action->kind == FF_ACTION_BACKWARD_INPUT)
        ff_text_append(line, circles[action->chunk % 2][action->microbatch % 10]);
    else if (drawing->numbers && drawing->schedule->shape.chunks == 1)
        ff_text_printf(line, "%d", action->microbatch);
    else
        ff_text_append_bytes(line, &alphabets[action->chunk % ALPHABETS][action->microbatch % 10],
                             1);
    bool plain = action->kind == FF_ACTION_FORWARD || action->kind == FF_ACTION_BACKWARD;
    return plain ? (int)(line->length - before) : 1;
}

/* One computation: its name, then a tail or blanks up to its end. */
static void append_cell(const canvas *drawing, const ff_action *action, ff_text *line) {
    static const char *const tails[] = {[FF_ACTION_FORWARD] = " ",
                                        [FF_ACTION_BACKWARD] = "━",
                                        [FF_ACTION_BACKWARD_INPUT] = " ",
                                        [FF_ACTION_BACKWARD_WEIGHT] = " "};
    int rest = drawing->unit * units_of(action) - append_name(drawing, action, line);
    int blanks = drawing->unit > 1 && rest > 0 ? 1 : 0;
    for (int i = 0; i < rest - blanks; i++)
        ff_text_append(line, tails[action->kind]);
    ff_text_repeat(line, ' ', blanks);
}

static void append_idle(const canvas *drawing, int64_t units, ff_text *line) {
    for (int64_t i = 0; i < units && i <= drawing->cell_columns; i++) {
        ff_text_append(line, "·");
        ff_text_repeat(line, ' ', drawing->unit - 1);
    }
}

/* Copies at most `columns` columns; "..." in the last three where something was cut. */
static void append_cut(ff_text *to, const char *line, int columns) {
    int used = 0, room = ff_text_columns(line) <= columns ? columns : columns - 3;
    const char *c = line;
    while (*c != '\0') {
        const char *next = c + 1;
        while (((unsigned char)*next & 0xC0) == 0x80)
            next++;
        if (used++ == room)
            break;
        ff_text_append_bytes(to, c, (size_t)(next - c));
        c = next;
    }
    if (*c != '\0')
        ff_text_append(to, "...");
}

static void trim(ff_text *text) {
    while (text->length > 0 && text->bytes[text->length - 1] == ' ')
        text->bytes[--text->length] = '\0';
}

static void draw_stage(const canvas *drawing, int32_t stage, ff_text *text) {
    const ff_schedule *schedule = drawing->schedule;
    ff_text line = {0};
    int64_t now = 0;
    for (int64_t i = schedule->first[stage]; i < schedule->first[stage + 1]; i++) {
        const ff_action *action = &schedule->actions[i];
        if (!ff_action_computes(action->kind))
            continue;
        int64_t start = (int64_t)drawing->run->start_s[i];
        append_idle(drawing, start - now, &line);
        append_cell(drawing, action, &line);
        now = start + units_of(action);
        if (now * drawing->unit > drawing->cell_columns)
            break; /* the rest is cut anyway */
    }
    append_idle(drawing, (int64_t)drawing->run->span_s - now, &line);
    trim(&line);
    char label[32];
    snprintf(label, sizeof label, "stage %d", stage);
    ff_text_printf(text, "%-*s", drawing->label_columns, label);
    append_cut(text, ff_text_bytes(&line), drawing->cell_columns);
    ff_text_append(text, "\n");
    ff_text_free(&line);
}

static bool has_kind(const ff_schedule *schedule, ff_action_kind kind) {
    int64_t count;
    const ff_action *actions = ff_schedule_actions(schedule, 0, &count);
    for (int64_t i = 0; i < count; i++)
        if (actions[i].kind == kind)
            return true;
    return false;
}

static void append_legend(const canvas *drawing, ff_text *text) {
    const ff_schedule_shape *shape = &drawing->schedule->shape;
    ff_text_printf(text, "\n%-*s0 forward", drawing->label_columns, "");
    if (has_kind(drawing->schedule, FF_ACTION_BACKWARD))
        ff_text_printf(text, "  %s backward", drawing->unit > 1 ? "0━━" : "0━");
    bool splits = has_kind(drawing->schedule, FF_ACTION_BACKWARD_INPUT);
    if (splits)
        ff_text_append(text, "  ⓪ input gradient  ░ weight gradient");
    ff_text_append(text, splits ? "  · waits\n" : "  · waits   (time runs right)\n");
    if (!drawing->numbers)
        ff_text_printf(text, "%-*smicrobatches by their last digit\n", drawing->label_columns, "");
    if (shape->chunks == 1)
        return;
    ff_text_printf(text, "%-*s", drawing->label_columns, "");
    for (int32_t chunk = 0; chunk < shape->chunks && chunk < ALPHABETS; chunk++)
        ff_text_printf(text, "%s%c-%c chunk %d", chunk == 0 ? "" : "   ", alphabets[chunk][0],
                       alphabets[chunk][9], chunk);
    ff_text_printf(text, "%s\n", shape->chunks > ALPHABETS ? "   then again" : "");
}

static ff_run unit_run(const ff_schedule *schedule) {
    int64_t chunks = (int64_t)schedule->shape.stages * schedule->shape.chunks;
    ff_arena *arena = ff_arena_create();
    double *forward = FF_ARENA_ARRAY(arena, chunks, double);
    double *backward = FF_ARENA_ARRAY(arena, chunks, double);
    for (int64_t i = 0; i < chunks; i++) {
        forward[i] = FORWARD_UNITS;
        backward[i] = BACKWARD_UNITS;
    }
    ff_run run = ff_schedule_run(schedule, &(ff_run_times){forward, backward, forward, 0});
    ff_arena_free(arena);
    return run;
}

char *ff_schedule_draw(const ff_schedule *schedule, int columns) {
    if (columns < LEAST_COLUMNS)
        columns = LEAST_COLUMNS;
    ff_run run = unit_run(schedule);
    canvas drawing = {.schedule = schedule, .run = &run};
    drawing.label_columns = label_columns(&schedule->shape);
    drawing.cell_columns = columns - drawing.label_columns;
    choose_unit(&drawing);
    ff_text text = {0};
    for (int32_t stage = 0; stage < schedule->shape.stages; stage++)
        draw_stage(&drawing, stage, &text);
    append_legend(&drawing, &text);
    ff_run_free(&run);
    return text.bytes;
}
