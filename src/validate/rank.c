/* Ranking: within rows of one source, model, devices and batch that differ in layout only, does the
 * order of predicted times follow the order of measured ones, and what does it cost to launch the
 * layout that is predicted to be best?
 *
 *     regret = measured time of the layout ranked first / best measured time - 1
 *
 * Rows of one layout count once, with their mean time; a group needs three layouts. */
#include "validate/score.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_LAYOUTS = 3 };

static const ff_row_column same[] = {
    FF_ROW_source, FF_ROW_model_name,    FF_ROW_layers,    FF_ROW_hidden,
    FF_ROW_heads,  FF_ROW_seq_len,       FF_ROW_vocab,     FF_ROW_gpu,
    FF_ROW_gpus,   FF_ROW_gbs_sequences, FF_ROW_precision, FF_ROW_flash_attention};
static const ff_row_column layout[] = {
    FF_ROW_tp,      FF_ROW_sp, FF_ROW_pp,  FF_ROW_vpp,  FF_ROW_schedule, FF_ROW_cp,
    FF_ROW_cp_kind, FF_ROW_ep, FF_ROW_etp, FF_ROW_zero, FF_ROW_mbs,      FF_ROW_recompute};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static int compare(const ff_row *a, const ff_row *b, const ff_row_column *columns, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int order = strcmp(a->value[columns[i]], b->value[columns[i]]);
        if (order != 0)
            return order;
    }
    return 0;
}

static int by_group(const void *a, const void *b) {
    const ff_row *x = (*(const ff_scored *const *)a)->row, *y = (*(const ff_scored *const *)b)->row;
    int order = compare(x, y, same, COUNT(same));
    return order != 0 ? order : compare(x, y, layout, COUNT(layout));
}

/* Mean times of the layouts of one group; returns how many there are. */
static int layouts_of(const ff_scored *const *rows, int count, double *predicted,
                      double *measured) {
    int layouts = 0;
    for (int i = 0, next; i < count; i = next, layouts++) {
        predicted[layouts] = measured[layouts] = 0;
        for (next = i;
             next < count && compare(rows[i]->row, rows[next]->row, layout, COUNT(layout)) == 0;
             next++) {
            const ff_prediction *p = &rows[next]->p;
            predicted[layouts] += ff_range_nearest(p->step_s, p->measured_s);
            measured[layouts] += p->measured_s;
        }
        predicted[layouts] /= next - i;
        measured[layouts] /= next - i;
    }
    return layouts;
}

static double regret_of(const double *predicted, const double *measured, int count) {
    int first = 0, best = 0;
    for (int i = 1; i < count; i++) {
        first = predicted[i] < predicted[first] ? i : first;
        best = measured[i] < measured[best] ? i : best;
    }
    return measured[first] / measured[best] - 1;
}

void ff_score_ranking(ff_arena *arena, const ff_scored *const *rows, int count,
                      ff_ranking *ranking) {
    const ff_scored **timed = FF_ARENA_ARRAY(arena, count, const ff_scored *);
    double *predicted = FF_ARENA_ARRAY(arena, count, double);
    double *measured = FF_ARENA_ARRAY(arena, count, double);
    ff_sample *regrets = FF_ARENA_ARRAY(arena, count, ff_sample);
    int used = 0;
    double correlation = 0;
    *ranking = (ff_ranking){0};
    for (int i = 0; i < count; i++)
        if (rows[i]->skip == FF_SKIP_NONE && rows[i]->p.measured_s > 0)
            timed[used++] = rows[i];
    qsort(timed, (size_t)used, sizeof *timed, by_group);
    for (int i = 0, next; i < used; i = next) {
        for (next = i;
             next < used && compare(timed[i]->row, timed[next]->row, same, COUNT(same)) == 0;
             next++)
            ;
        int layouts = layouts_of(&timed[i], next - i, predicted, measured);
        if (layouts < LEAST_LAYOUTS)
            continue;
        regrets[ranking->groups++] = (ff_sample){regret_of(predicted, measured, layouts), 1};
        correlation += ff_rank_correlation(predicted, measured, layouts);
    }
    if (ranking->groups == 0)
        return;
    ranking->mean_correlation = correlation / ranking->groups;
    ranking->mean_regret = ff_weighted_mean(regrets, ranking->groups);
    ranking->median_regret = ff_weighted_quantile(regrets, ranking->groups, 0.5);
}
