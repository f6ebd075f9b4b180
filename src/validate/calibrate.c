/* Calibration: the few constants of a profile fitted to the user's own runs.
 *
 *     rows -> errors of step time and memory under a profile -> coordinate search -> profile
 *
 * Each constant moves between half and twice its value (inside what is possible), by steps that
 * shrink; a move is kept when it lowers the mean of median and mean error. Cross-validation fits on
 * all folds but one and scores that one, so that its figure tells what new runs may expect. With
 * fewer rows than MOST_FREE constants would need (two each), only the first ones move: those that
 * matter most. */
#include "validate/calibrate.h"

#include "base/text.h"
#include "validate/report.h"
#include <math.h>
#include <string.h>

enum { ROUNDS = 6, MOST_FREE = 8, MOST_FOLDS = 5, ROWS_A_CONSTANT = 2 };

/* In the order in which they are set free. */
static const char *const free_keys[MOST_FREE] = {
    "gemm_clock_ratio",     "host_ms_per_layer", "link_rate_ratio", "network_rate_ratio",
    "attention_rate_ratio", "kernel_launch_us",  "step_fixed_ms",   "fragmentation_ratio"};

typedef struct fit {
    ff_arena *arena;
    ff_validate_library *library;
    ff_row *const *rows;
    int count, fold, folds; /* rows with index % folds == fold are left out; folds 0 = none */
    ff_case *c;
    int index[MOST_FREE], free;
    double least[MOST_FREE], most[MOST_FREE];
} fit;

static bool is_held_out(const fit *f, int row) {
    return f->folds > 0 && row % f->folds == f->fold;
}

/* Mean of median and mean absolute error of the rows of one side of the fold; memory counts like
 * time where a row has both. Negative when nothing could be scored. */
static double error_of(const fit *f, const ff_profile *profile, bool held_out) {
    ff_sample *errors = FF_ARENA_ARRAY(f->arena, 2 * f->count, ff_sample);
    int used = 0;
    f->library->forced = profile;
    for (int i = 0; i < f->count; i++) {
        ff_prediction p;
        if (is_held_out(f, i) != held_out ||
            ff_case_of(f->library, f->rows[i], f->c) != FF_SKIP_NONE)
            continue;
        ff_predict(f->rows[i], f->c, &p);
        if (p.measured_s > 0)
            errors[used++] =
                (ff_sample){fabs(ff_range_nearest(p.step_s, p.measured_s) / p.measured_s - 1), 1};
        if (p.measured_bytes > 0)
            errors[used++] = (ff_sample){
                fabs(ff_range_nearest(p.peak_bytes, p.measured_bytes) / p.measured_bytes - 1), 1};
    }
    if (used == 0)
        return -1;
    return (ff_weighted_mean(errors, used) + ff_weighted_quantile(errors, used, 0.5)) / 2;
}

static void choose_constants(fit *f, const ff_profile *start) {
    int room = f->count / ROWS_A_CONSTANT;
    for (int k = 0; k < MOST_FREE && f->free < room; k++)
        for (int i = 0; ff_profile_constant(i).key != NULL; i++) {
            ff_constant constant = ff_profile_constant(i);
            if (strcmp(constant.key, free_keys[k]) != 0)
                continue;
            double value = ff_profile_get(start, i);
            f->index[f->free] = i;
            f->least[f->free] = fmax(constant.least, value / 2);
            f->most[f->free++] = fmin(constant.most, value * 2);
        }
}

/* Moves one constant as long as that helps; true when it moved. */
static bool move(const fit *f, int k, double step, ff_profile *profile, double *best) {
    bool moved = false;
    for (int direction = -1; direction <= 1; direction += 2)
        for (;;) {
            ff_profile next = *profile;
            double from = ff_profile_get(profile, f->index[k]);
            double to = fmin(f->most[k], fmax(f->least[k], from + direction * step));
            ff_profile_set(&next, f->index[k], to);
            double error = to == from ? INFINITY : error_of(f, &next, false);
            if (error < 0 || error >= *best - 1e-6)
                break;
            *best = error;
            *profile = next;
            moved = true;
        }
    return moved;
}

static double search(const fit *f, ff_profile *profile) {
    double best = error_of(f, profile, false), width = 0.25;
    for (int round = 0; round < ROUNDS && best >= 0; round++, width /= 2)
        for (int k = 0; k < f->free; k++)
            move(f, k, width * (f->most[k] - f->least[k]), profile, &best);
    return best;
}

/* Mean error of held-out folds; negative with too few rows. */
static double cross_validate(fit *f, const ff_profile *start) {
    double sum = 0;
    int scored = 0;
    f->folds = f->count < MOST_FOLDS ? f->count : MOST_FOLDS;
    for (f->fold = 0; f->fold < f->folds && f->count > 2; f->fold++) {
        ff_profile profile = *start;
        search(f, &profile);
        double error = error_of(f, &profile, true);
        sum += error >= 0 ? error : 0;
        scored += error >= 0;
    }
    f->folds = 0;
    return scored > 0 ? sum / scored : -1;
}

static void moved_facts(const fit *f, const ff_profile *start, const ff_profile *end,
                        ff_facts *facts) {
    static const ff_column columns[] = {
        {"constant", "constant"}, {"before", "before"}, {"after", "after"}, {NULL, NULL}};
    ff_document_table(facts, columns);
    for (int k = 0; k < f->free; k++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "constant", "%s", ff_profile_constant(f->index[k]).key);
        ff_facts_add_real(facts, "before", ff_profile_get(start, f->index[k]));
        ff_facts_add_real(facts, "after", ff_profile_get(end, f->index[k]));
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

ff_status ff_calibrate(ff_arena *arena, ff_validate_library *library, ff_row *const *rows,
                       int count, const ff_profile *start, ff_facts *facts, ff_profile *end) {
    fit f = {.arena = arena,
             .library = library,
             .rows = rows,
             .count = count,
             .c = FF_ARENA_NEW(arena, ff_case)};
    *end = *start;
    choose_constants(&f, start);
    double before = error_of(&f, start, false);
    if (before < 0)
        return FF_NO;
    double after = search(&f, end), expected = cross_validate(&f, start);
    ff_document_open(facts, "Calibration of %s on %d rows", start->name, count);
    ff_document_section(facts, "Errors");
    ff_document_item(facts, "before", "%.1f %%", 100 * before);
    ff_document_item(facts, "after", "%.1f %%", 100 * after);
    if (expected >= 0)
        ff_document_item(facts, "cross-validated", "%.1f %%, what new runs may expect",
                         100 * expected);
    ff_document_section(facts, "Constants");
    moved_facts(&f, start, end, facts);
    ff_document_close(facts);
    return FF_OK;
}
