/* See timeline.h. Time is cut into bins of equal width; when it outgrows them, pairs are merged and
 * the width doubles, so that nothing has to be known beforehand and memory stays small.
 *
 *     pipeline                                    activations
 *     stage 0  ░░░░····▒██░██░██··██              ▁▂▃▄▄▄▄▃▃▃▂▂▁   10.7 GiB
 */
#include "plan/timeline.h"

#include "base/arena.h"
#include "base/number.h"
#include "base/units.h"
#include <stdio.h>
#include <string.h>

enum { BINS = 1024, KINDS = 4, MOST_STAGES = 16, LEVELS = 8, PEAK_COLUMNS = 10 };

typedef struct bins {
    int64_t busy_ps[BINS][KINDS]; /* by ff_action_kind of computations */
    int64_t held_bytes[BINS];     /* the most in the bin */
    int64_t last_bytes, last_bin, peak_bytes;
} bins;

struct ff_timeline {
    ff_arena *arena;
    ff_observer observer;
    const ff_observer *next;
    int64_t stages, width_ps;
    bins *stage;
};

static const char *const glyphs[KINDS] = {"░", "█", "▓", "▒"};
static const char *const levels[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

static void merge(ff_timeline *t) {
    for (int64_t s = 0; s < t->stages; s++) {
        bins *b = &t->stage[s];
        for (int i = 0; i < BINS; i++) {
            bool inside = 2 * i < BINS;
            for (int kind = 0; kind < KINDS; kind++)
                b->busy_ps[i][kind] =
                    inside ? b->busy_ps[2 * i][kind] + b->busy_ps[2 * i + 1][kind] : 0;
            b->held_bytes[i] = inside ? ff_max(b->held_bytes[2 * i], b->held_bytes[2 * i + 1]) : 0;
        }
        b->last_bin /= 2;
    }
    t->width_ps *= 2;
}

static void reach(ff_timeline *t, int64_t at_ps) {
    while (at_ps >= BINS * t->width_ps)
        merge(t);
}

static void see_interval(void *context, const ff_interval *interval) {
    ff_timeline *t = context;
    bool whole =
        interval->stream == FF_STREAM_COMPUTE && interval->action != NULL && interval->whole;
    if (whole) {
        reach(t, interval->end_ps);
        bins *b = &t->stage[interval->stage];
        for (int64_t at = interval->begin_ps; at < interval->end_ps;) {
            int64_t bin = at / t->width_ps;
            int64_t end = ff_min(interval->end_ps, (bin + 1) * t->width_ps);
            b->busy_ps[bin][interval->action->kind] += end - at;
            at = end;
        }
    }
    if (t->next != NULL && t->next->interval != NULL)
        t->next->interval(t->next->context, interval);
}

static void see_message(void *context, const ff_message *message) {
    ff_timeline *t = context;
    if (t->next != NULL && t->next->message != NULL)
        t->next->message(t->next->context, message);
}

/* What is held stays until the next change. */
static void see_memory(void *context, const ff_memory_point *point) {
    ff_timeline *t = context;
    bins *b = &t->stage[point->stage];
    reach(t, point->at_ps);
    int64_t bin = point->at_ps / t->width_ps;
    for (int64_t i = b->last_bin; i <= bin; i++)
        b->held_bytes[i] = ff_max(b->held_bytes[i], b->last_bytes);
    b->last_bytes = point->kept_bytes + point->working_bytes + point->loss_bytes;
    b->last_bin = bin;
    b->held_bytes[bin] = ff_max(b->held_bytes[bin], b->last_bytes);
    b->peak_bytes = ff_max(b->peak_bytes, b->last_bytes);
    if (t->next != NULL && t->next->memory != NULL)
        t->next->memory(t->next->context, point);
}

ff_timeline *ff_timeline_create(int64_t stages, const ff_observer *next) {
    ff_arena *arena = ff_arena_create();
    ff_timeline *t = FF_ARENA_NEW(arena, ff_timeline);
    *t = (ff_timeline){.arena = arena, .next = next, .stages = stages, .width_ps = 1000};
    t->stage = FF_ARENA_ARRAY(arena, stages, bins);
    t->observer = (ff_observer){
        .context = t, .interval = see_interval, .message = see_message, .memory = see_memory};
    return t;
}

void ff_timeline_free(ff_timeline *timeline) {
    if (timeline != NULL)
        ff_arena_free(timeline->arena);
}

const ff_observer *ff_timeline_observer(ff_timeline *timeline) {
    return &timeline->observer;
}

/* ---- drawing ---- */

/* The part of `bin` that lies in [begin, end), in 0..1. */
static double share_of(const ff_timeline *t, int64_t bin, double begin, double end) {
    double from = (double)(bin * t->width_ps), to = from + (double)t->width_ps;
    double low = begin > from ? begin : from, high = end < to ? end : to;
    return high > low ? (high - low) / (double)t->width_ps : 0;
}

/* A column shows one kind; what a mix does not show in one it shows in the next, so that shares are
 * right over several. `credit` is what each kind (the last: idle) is still owed, in columns. */
static void draw_activity(const ff_timeline *t, const bins *b, double begin, double end,
                          double *credit, ff_text *text) {
    double idle = 1;
    int most = KINDS;
    for (int64_t bin = (int64_t)(begin / (double)t->width_ps);
         bin < BINS && (double)(bin * t->width_ps) < end; bin++)
        for (int kind = 0; kind < KINDS; kind++) {
            double share =
                (double)b->busy_ps[bin][kind] * share_of(t, bin, begin, end) / (end - begin);
            credit[kind] += share;
            idle -= share;
        }
    credit[KINDS] += idle;
    for (int kind = 0; kind < KINDS; kind++)
        most = credit[kind] > credit[most] ? kind : most;
    credit[most] -= 1;
    ff_text_append(text, most == KINDS ? "·" : glyphs[most]);
}

static void draw_memory(const ff_timeline *t, const bins *b, double begin, double end,
                        int64_t scale, ff_text *text) {
    int64_t most = 0;
    for (int64_t bin = (int64_t)(begin / (double)t->width_ps);
         bin < BINS && (double)(bin * t->width_ps) < end; bin++)
        most = ff_max(most, b->held_bytes[bin]);
    if (most == 0 || scale == 0) {
        ff_text_append(text, " ");
        return;
    }
    int level = (int)((double)most / (double)scale * LEVELS);
    ff_text_append(text, levels[level >= LEVELS ? LEVELS - 1 : level]);
}

/* Stages to show: all, or some at even distances, the first and the last among them. */
static int64_t shown_stage(const ff_timeline *t, int64_t row, int64_t rows) {
    return rows <= 1 ? 0 : row * (t->stages - 1) / (rows - 1);
}

static void draw_rows(const ff_timeline *t, int64_t step_ps, int columns, bool memory,
                      ff_text *text) {
    int64_t rows = ff_min(t->stages, MOST_STAGES), scale = 0;
    char label[24], peak[FF_VALUE_BYTES];
    int label_columns = snprintf(label, sizeof label, "stage %lld  ", (long long)t->stages - 1);
    int cells = columns - label_columns - (memory ? PEAK_COLUMNS : 0);
    for (int64_t s = 0; s < t->stages; s++)
        scale = ff_max(scale, t->stage[s].peak_bytes);
    for (int64_t row = 0; row < rows; row++) {
        int64_t stage = shown_stage(t, row, rows);
        const bins *b = &t->stage[stage];
        snprintf(label, sizeof label, "stage %lld", (long long)stage);
        double credit[KINDS + 1] = {0};
        ff_text_printf(text, "%-*s", label_columns, label);
        for (int c = 0; c < cells; c++) {
            double begin = (double)step_ps * c / cells, end = (double)step_ps * (c + 1) / cells;
            if (memory)
                draw_memory(t, b, begin, end, scale, text);
            else
                draw_activity(t, b, begin, end, credit, text);
        }
        if (memory)
            ff_text_printf(text, "%*s", PEAK_COLUMNS,
                           ff_format_bytes((double)b->peak_bytes, peak, sizeof peak));
        ff_text_append(text, "\n");
    }
}

static bool has_kind(const ff_timeline *t, int kind) {
    for (int64_t s = 0; s < t->stages; s++)
        for (int i = 0; i < BINS; i++)
            if (t->stage[s].busy_ps[i][kind] > 0)
                return true;
    return false;
}

void ff_timeline_draw(const ff_timeline *t, int64_t step_ps, int columns, ff_text *text) {
    static const char *const names[KINDS] = {"forward", "backward", "input gradient",
                                             "weight gradient"};
    int used = 0;
    draw_rows(t, step_ps, columns, false, text);
    ff_text_append(text, "\n  · waits");
    used = 9;
    for (int kind = 0; kind < KINDS; kind++) {
        if (!has_kind(t, kind))
            continue;
        int more = (int)strlen(names[kind]) + 5;
        if (used + more > columns) {
            ff_text_append(text, "\n");
            used = 0;
        }
        ff_text_printf(text, "   %s %s", glyphs[kind], names[kind]);
        used += more;
    }
    ff_text_append(text, "\n\n");
    draw_rows(t, step_ps, columns, true, text);
}
