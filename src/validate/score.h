/* Figures of a group of rows: weighted errors, fit verdicts, ranking, and the one-efficiency
 * baseline.
 *
 * Rows that share a `cluster` are one observation printed twice or one series, and weigh one
 * together within a group. */
#ifndef FF_VALIDATE_SCORE_H
#define FF_VALIDATE_SCORE_H

#include "validate/predict.h"

typedef struct ff_scored {
    const ff_row *row;
    ff_skip skip;
    const char *broken; /* code of a broken rule */
    ff_prediction p;    /* when not skipped */
} ff_scored;

/* One value with its weight. */
typedef struct ff_sample {
    double value, weight;
} ff_sample;
double ff_weighted_mean(const ff_sample *samples, int count);
/* The least value that at least `share` of the weight does not exceed; the mean of two neighbours
 * when the share falls between them. Sorts the samples. */
double ff_weighted_quantile(ff_sample *samples, int count, double share);
/* Kendall's tau-b of two lists; 0 when either is constant. */
double ff_rank_correlation(const double *a, const double *b, int count);

typedef struct ff_errors {
    int rows;
    double weight;
    double mean, median, p90, bias; /* of absolute relative errors; bias: median signed error */
} ff_errors;

typedef struct ff_ranking {
    int groups;
    double mean_regret, median_regret, mean_correlation;
} ff_ranking;

typedef struct ff_group_score {
    const char *name;
    int rows, scored;
    int skipped[FF_SKIP_COUNT];
    ff_errors time, memory, baseline;
    int right, false_fit, false_oom;
    ff_ranking ranking;
} ff_group_score;

/* Scores `count` rows together. */
void ff_score_group(ff_arena *arena, const char *name, const ff_scored *const *rows, int count,
                    ff_group_score *score);
/* In rank.c. */
void ff_score_ranking(ff_arena *arena, const ff_scored *const *rows, int count,
                      ff_ranking *ranking);

#endif
