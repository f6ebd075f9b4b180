/* See score.h. */
#include "validate/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double ff_weighted_mean(const ff_sample *samples, int count) {
    double sum = 0, weight = 0;
    for (int i = 0; i < count; i++) {
        sum += samples[i].value * samples[i].weight;
        weight += samples[i].weight;
    }
    return weight > 0 ? sum / weight : 0;
}

static int by_value(const void *a, const void *b) {
    double x = ((const ff_sample *)a)->value, y = ((const ff_sample *)b)->value;
    return (x > y) - (x < y);
}

double ff_weighted_quantile(ff_sample *samples, int count, double share) {
    const double close = 1e-9;
    double weight = 0, below = 0;
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    for (int i = 0; i < count; i++)
        weight += samples[i].weight;
    for (int i = 0; i < count; i++) {
        below += samples[i].weight;
        if (fabs(below - share * weight) < close * weight && i + 1 < count)
            return (samples[i].value + samples[i + 1].value) / 2;
        if (below > share * weight)
            return samples[i].value;
    }
    return count > 0 ? samples[count - 1].value : 0;
}

double ff_rank_correlation(const double *a, const double *b, int count) {
    double agree = 0, a_pairs = 0, b_pairs = 0;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++) {
            int x = (a[i] > a[j]) - (a[i] < a[j]), y = (b[i] > b[j]) - (b[i] < b[j]);
            agree += x * y;
            a_pairs += x != 0;
            b_pairs += y != 0;
        }
    return a_pairs > 0 && b_pairs > 0 ? agree / sqrt(a_pairs * b_pairs) : 0;
}

/* ---- weights ---- */

static bool is_scored(const ff_scored *s) {
    return s->skip == FF_SKIP_NONE;
}

typedef struct named {
    const char *name;
    int index;
} named;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* 1 over the number of scored rows of the row's cluster. */
static double *weights_of(ff_arena *arena, const ff_scored *const *rows, int count) {
    double *weight = FF_ARENA_ARRAY(arena, count, double);
    named *clusters = FF_ARENA_ARRAY(arena, count, named);
    int used = 0;
    for (int i = 0; i < count; i++) {
        weight[i] = 1;
        if (is_scored(rows[i]) && ff_row_says(rows[i]->row, FF_ROW_cluster))
            clusters[used++] = (named){rows[i]->row->value[FF_ROW_cluster], i};
    }
    qsort(clusters, (size_t)used, sizeof *clusters, by_name);
    for (int i = 0, next; i < used; i = next) {
        for (next = i; next < used && strcmp(clusters[i].name, clusters[next].name) == 0; next++)
            ;
        for (int j = i; j < next; j++)
            weight[clusters[j].index] = 1.0 / (next - i);
    }
    return weight;
}

/* ---- errors ---- */

/* Signed relative error of a row; false when it has none of the kind. */
typedef bool error_of(const ff_scored *s, double extra, double *error);

static bool time_error(const ff_scored *s, double unused, double *error) {
    (void)unused;
    if (s->p.measured_s <= 0)
        return false;
    *error = ff_range_nearest(s->p.step_s, s->p.measured_s) / s->p.measured_s - 1;
    return true;
}

static bool memory_error(const ff_scored *s, double unused, double *error) {
    (void)unused;
    if (s->p.measured_bytes <= 0)
        return false;
    *error = ff_range_nearest(s->p.peak_bytes, s->p.measured_bytes) / s->p.measured_bytes - 1;
    return true;
}

static bool baseline_error(const ff_scored *s, double efficiency, double *error) {
    if (s->p.measured_s <= 0 || efficiency <= 0)
        return false;
    *error = s->p.model_flops / efficiency - 1;
    return true;
}

static ff_errors errors_of(ff_arena *arena, const ff_scored *const *rows, int count,
                           const double *weight, error_of *of, double extra) {
    ff_sample *absolute = FF_ARENA_ARRAY(arena, count, ff_sample);
    ff_sample *sign = FF_ARENA_ARRAY(arena, count, ff_sample);
    ff_errors e = {0};
    double error;
    for (int i = 0; i < count; i++) {
        if (!is_scored(rows[i]) || !of(rows[i], extra, &error))
            continue;
        absolute[e.rows] = (ff_sample){fabs(error), weight[i]};
        sign[e.rows++] = (ff_sample){error, weight[i]};
        e.weight += weight[i];
    }
    e.mean = ff_weighted_mean(absolute, e.rows);
    e.median = ff_weighted_quantile(absolute, e.rows, 0.5);
    e.p90 = ff_weighted_quantile(absolute, e.rows, 0.9);
    e.bias = ff_weighted_quantile(sign, e.rows, 0.5);
    return e;
}

/* The share of peak that, used for every row, makes the median error zero. */
static double fitted_efficiency(ff_arena *arena, const ff_scored *const *rows, int count,
                                const double *weight) {
    ff_sample *shares = FF_ARENA_ARRAY(arena, count, ff_sample);
    int used = 0;
    for (int i = 0; i < count; i++)
        if (is_scored(rows[i]) && rows[i]->p.measured_s > 0)
            shares[used++] = (ff_sample){rows[i]->p.model_flops, weight[i]};
    return ff_weighted_quantile(shares, used, 0.5);
}

static void count_fits(const ff_scored *s, ff_group_score *score) {
    bool right = s->p.fits == s->p.ran;
    score->right += right;
    score->false_fit += !right && s->p.fits;
    score->false_oom += !right && !s->p.fits;
}

void ff_score_group(ff_arena *arena, const char *name, const ff_scored *const *rows, int count,
                    ff_group_score *score) {
    double *weight = weights_of(arena, rows, count);
    *score = (ff_group_score){.name = name, .rows = count};
    for (int i = 0; i < count; i++) {
        score->skipped[rows[i]->skip] += !is_scored(rows[i]);
        if (!is_scored(rows[i]))
            continue;
        score->scored++;
        count_fits(rows[i], score);
    }
    score->time = errors_of(arena, rows, count, weight, time_error, 0);
    score->memory = errors_of(arena, rows, count, weight, memory_error, 0);
    score->baseline = errors_of(arena, rows, count, weight, baseline_error,
                                fitted_efficiency(arena, rows, count, weight));
    ff_score_ranking(arena, rows, count, &score->ranking);
}
