/* See report.h. */
#include "validate/report.h"

#include "fivefold/version.h"
#include "presets/presets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Groups smaller than this have no part in the means over groups. */
enum { LEAST_ROWS = 5, MOST_REASONS = 64 };

/* ---- counted texts ---- */

typedef struct tally {
    const char *text[MOST_REASONS], *column[MOST_REASONS];
    int rows[MOST_REASONS];
    int count;
} tally;

static void count_text(tally *t, const char *column, const char *text) {
    int i = 0;
    while (i < t->count && (strcmp(t->text[i], text) != 0 || strcmp(t->column[i], column) != 0))
        i++;
    if (i == MOST_REASONS)
        return;
    t->text[i] = text;
    t->column[i] = column;
    t->rows[i]++;
    t->count += i == t->count;
}

static const char *skip_text(const ff_scored *s) {
    return s->skip == FF_SKIP_BY_RULE ? s->row->value[FF_ROW_skip] : ff_skip_reason(s->skip);
}

static void skipped_facts(const ff_scored *const *rows, int count, ff_facts *facts) {
    tally t = {0};
    for (int i = 0; i < count; i++)
        if (rows[i]->skip != FF_SKIP_NONE)
            count_text(&t, "", skip_text(rows[i]));
    ff_facts_open_list(facts, "skipped");
    for (int i = 0; i < t.count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "reason", "%s", t.text[i]);
        ff_facts_add_integer(facts, "rows", t.rows[i]);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

static void assumption_facts(const ff_report_input *r, ff_facts *facts) {
    tally t = {0};
    for (int i = 0; i < r->rows; i++)
        for (int c = 0; c < FF_ROW_READ; c++)
            if (r->all[i]->skip == FF_SKIP_NONE && r->all[i]->row->why[c] != NULL)
                count_text(&t, ff_row_column_name((ff_row_column)c), r->all[i]->row->why[c]);
    ff_facts_open_list(facts, "assumptions");
    for (int i = 0; i < t.count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "column", "%s", t.column[i]);
        ff_facts_add_text(facts, "assumed", "%s", t.text[i]);
        ff_facts_add_integer(facts, "rows", t.rows[i]);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

/* ---- groups ---- */

static void error_facts(const char *name, const ff_errors *e, ff_facts *facts) {
    ff_facts_open_record(facts, name);
    ff_facts_add_integer(facts, "rows", e->rows);
    if (e->rows > 0) {
        ff_facts_add_real(facts, "mape", e->mean);
        ff_facts_add_real(facts, "median_ape", e->median);
        ff_facts_add_real(facts, "p90_ape", e->p90);
        ff_facts_add_real(facts, "bias", e->bias);
    }
    ff_facts_close(facts);
}

static void score_facts(const ff_group_score *g, ff_facts *facts) {
    error_facts("time", &g->time, facts);
    error_facts("baseline", &g->baseline, facts);
    error_facts("memory", &g->memory, facts);
    ff_facts_open_record(facts, "fit");
    ff_facts_add_integer(facts, "right", g->right);
    ff_facts_add_integer(facts, "false_fit", g->false_fit);
    ff_facts_add_integer(facts, "false_oom", g->false_oom);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "ranking");
    ff_facts_add_integer(facts, "groups", g->ranking.groups);
    ff_facts_add_real(facts, "mean_regret", g->ranking.mean_regret);
    ff_facts_add_real(facts, "median_regret", g->ranking.median_regret);
    ff_facts_add_real(facts, "mean_rank_correlation", g->ranking.mean_correlation);
    ff_facts_close(facts);
}

static void group_facts(const ff_group_score *g, const ff_scored *const *rows, ff_facts *facts) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "group", "%s", g->name);
    ff_facts_add_integer(facts, "rows", g->rows);
    ff_facts_add_integer(facts, "scored", g->scored);
    skipped_facts(rows, g->rows, facts);
    score_facts(g, facts);
    ff_facts_close(facts);
}

/* Means over groups that have enough rows of the kind: small sources do not drown in large ones. */
static void mean_facts(const ff_report_input *r, ff_facts *facts) {
    double median[3] = {0}, mean[3] = {0};
    int groups[3] = {0};
    static const char *const names[] = {"time", "baseline", "memory"};
    for (int g = 0; g < r->groups; g++) {
        const ff_errors *kinds[] = {&r->group[g].time, &r->group[g].baseline, &r->group[g].memory};
        for (int k = 0; k < 3; k++) {
            if (kinds[k]->rows < LEAST_ROWS)
                continue;
            median[k] += kinds[k]->median;
            mean[k] += kinds[k]->mean;
            groups[k]++;
        }
    }
    ff_facts_open_record(facts, "means_over_groups");
    ff_facts_add_integer(facts, "least_rows", LEAST_ROWS);
    for (int k = 0; k < 3; k++) {
        if (groups[k] == 0)
            continue;
        ff_facts_open_record(facts, names[k]);
        ff_facts_add_integer(facts, "groups", groups[k]);
        ff_facts_add_real(facts, "mape", mean[k] / groups[k]);
        ff_facts_add_real(facts, "median_ape", median[k] / groups[k]);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

/* ---- worst rows ---- */

static double worst_error(const ff_scored *s) {
    if (s->skip != FF_SKIP_NONE)
        return -1;
    if (s->p.measured_s > 0)
        return fabs(ff_range_nearest(s->p.step_s, s->p.measured_s) / s->p.measured_s - 1);
    if (s->p.measured_bytes > 0)
        return fabs(ff_range_nearest(s->p.peak_bytes, s->p.measured_bytes) / s->p.measured_bytes -
                    1);
    return s->p.fits == s->p.ran ? 0 : 1;
}

static int by_error(const void *a, const void *b) {
    double x = worst_error(*(const ff_scored *const *)a),
           y = worst_error(*(const ff_scored *const *)b);
    return (x < y) - (x > y);
}

static void range_facts(const char *low, const char *high, ff_range range, ff_facts *facts) {
    ff_facts_add_real(facts, low, range.low);
    ff_facts_add_real(facts, high, range.high);
}

static void term_facts(const ff_prediction *p, ff_facts *facts) {
    ff_facts_open_record(facts, "time");
    ff_facts_add_real(facts, "compute_s", p->time.compute_s);
    ff_facts_add_real(facts, "bubble_s", p->time.bubble_s);
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        ff_facts_add_real(facts, ff_exposure_name((ff_exposure)i), p->time.exposed_s[i]);
    ff_facts_add_real(facts, "optimizer_s", p->time.optimizer_s);
    ff_facts_add_real(facts, "gradient_s", p->time.gradient_s);
    ff_facts_add_real(facts, "gather_s", p->time.gather_s);
    ff_facts_add_integer(facts, "slowest_stage", p->time.slowest_stage);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "memory");
    ff_facts_add_integer(facts, "weights_bytes", p->memory.weights_bytes);
    ff_facts_add_integer(facts, "gradients_bytes", p->memory.gradients_bytes);
    ff_facts_add_integer(facts, "optimizer_bytes", p->memory.optimizer_bytes);
    ff_facts_add_integer(facts, "kept_bytes", p->memory.kept_bytes);
    ff_facts_add_integer(facts, "working_bytes", p->memory.working_bytes);
    ff_facts_add_integer(facts, "loss_bytes", p->memory.loss_bytes);
    ff_facts_add_integer(facts, "buffers_bytes", p->memory.buffers_bytes);
    ff_facts_add_integer(facts, "runtime_bytes", p->memory.runtime_bytes);
    ff_facts_close(facts);
}

static void row_facts(const ff_scored *s, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    const ff_prediction *p = &s->p;
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "id", "%s", s->row->value[FF_ROW_id]);
    ff_facts_add_text(facts, "stack", "%s", s->row->value[FF_ROW_stack]);
    ff_facts_add_text(facts, "skipped", "%s", s->skip == FF_SKIP_NONE ? "" : skip_text(s));
    ff_facts_add_text(facts, "broken_rule", "%s", s->broken == NULL ? "" : s->broken);
    if (s->skip == FF_SKIP_NONE) {
        ff_facts_add_text(facts, "layout", "%s",
                          ff_layout_print(&p->layout, FF_LAYOUT_SHORT, text, sizeof text));
        ff_facts_add_integer(facts, "microbatches", p->layout.microbatches);
        ff_facts_add_real(facts, "measured_s", p->measured_s);
        range_facts("predicted_low_s", "predicted_high_s", p->step_s, facts);
        ff_facts_add_real(facts, "measured_bytes", p->measured_bytes);
        range_facts("predicted_low_bytes", "predicted_high_bytes", p->peak_bytes, facts);
        ff_facts_add_boolean(facts, "ran", p->ran);
        ff_facts_add_boolean(facts, "predicted_fits", p->fits);
        term_facts(p, facts);
    }
    ff_facts_close(facts);
}

static void worst_facts(ff_arena *arena, const ff_report_input *r, ff_facts *facts) {
    const ff_scored **order = FF_ARENA_ARRAY(arena, r->rows, const ff_scored *);
    for (int i = 0; i < r->rows; i++)
        order[i] = r->all[i];
    qsort(order, (size_t)r->rows, sizeof *order, by_error);
    ff_facts_open_list(facts, "worst");
    for (int i = 0; i < r->rows && i < r->options->worst; i++)
        row_facts(order[i], facts);
    ff_facts_close(facts);
}

void ff_validation_facts(ff_arena *arena, const ff_report_input *r, ff_facts *facts) {
    const ff_validate_options *o = r->options;
    const ff_profile *forced = r->library->forced;
    ff_facts_add_text(facts, "schema", "fivefold/validate/1");
    ff_facts_add_text(facts, "version", "%s", FF_VERSION);
    ff_facts_open_record(facts, "inputs");
    ff_facts_add_text(facts, "by", "%s", o->by);
    ff_facts_add_text(facts, "class", "%s", o->classes == NULL ? "all" : o->classes);
    ff_facts_add_text(facts, "quality", "%s", o->quality);
    ff_facts_add_text(facts, "profile", "%s", forced == NULL ? "of the row's stack" : forced->name);
    ff_facts_close(facts);
    ff_facts_open_list(facts, "groups");
    for (int i = 0; i < r->groups; i++)
        group_facts(&r->group[i], r->members[i], facts);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "total");
    ff_facts_add_integer(facts, "rows", r->total.rows);
    ff_facts_add_integer(facts, "scored", r->total.scored);
    skipped_facts(r->all, r->rows, facts);
    score_facts(&r->total, facts);
    mean_facts(r, facts);
    ff_facts_close(facts);
    assumption_facts(r, facts);
    if (o->worst > 0)
        worst_facts(arena, r, facts);
}
