/* See loop.h. */
#include "engine/loop.h"

#include "base/diagnose.h"
#include "engine/loopback.h"
#include "engine/random.h"
#include <stdlib.h>

ff_loop *ff_loop_create(const ff_setup *setup, uint64_t shuffle) {
    ff_loop *set = ff_engine_array(1, sizeof *set);
    int world = (int)ff_layout_world(&setup->layout);
    *set = (ff_loop){.setup = setup,
                     .transport = ff_loopback_create(world),
                     .rank = ff_engine_array(world, sizeof(ff_rank *)),
                     .world = world,
                     .shuffle = shuffle};
    for (int r = 0; r < world; r++)
        set->rank[r] = ff_rank_create(setup, r, set->transport);
    return set;
}

void ff_loop_free(ff_loop *set) {
    if (set == NULL)
        return;
    for (int r = 0; r < set->world; r++)
        ff_rank_free(set->rank[r]);
    ff_loopback_free(set->transport);
    free(set->rank);
    free(set);
}

/* Fisher and Yates. */
static void draw_order(const ff_loop *set, uint64_t round, int *order) {
    for (int i = 0; i < set->world; i++)
        order[i] = i;
    for (int i = set->world - 1; i > 0 && set->shuffle != 0; i--) {
        int j = (int)(ff_random(set->shuffle, round, (uint64_t)i) % (uint64_t)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void report_ranks(const ff_loop *set, ff_code code, bool faults_only,
                         ff_diagnostics *findings) {
    char text[320];
    for (int r = 0; r < set->world; r++) {
        if (faults_only && set->rank[r]->fault[0] == '\0')
            continue;
        ff_rank_describe(set->rank[r], text, sizeof text);
        ff_report(findings, code, FF_NOWHERE, "%s", text);
    }
}

double ff_loss_of(real *sums, int64_t count, int64_t tokens) {
    for (; count > 1; count = (count + 1) / 2)
        for (int64_t i = 0; i < (count + 1) / 2; i++)
            sums[i] = 2 * i + 1 < count ? sums[2 * i] + sums[2 * i + 1] : sums[2 * i];
    return (double)sums[0] / (double)tokens;
}

static double step_loss(const ff_loop *set) {
    const ff_layout *layout = &set->setup->layout;
    int64_t dp = layout->dp, m = layout->microbatches;
    real *sums = ff_engine_array(dp * m, sizeof *sums);
    for (int r = 0; r < set->world; r++) {
        const ff_rank *rank = set->rank[r];
        if (rank->stage != layout->pp - 1 || rank->tp_index != 0)
            continue;
        for (int64_t i = 0; i < m; i++)
            sums[set->setup->microbatch_major ? i * dp + rank->dp_index : rank->dp_index * m + i] =
                rank->losses[i];
    }
    double loss = ff_loss_of(sums, dp * m, set->setup->batch_tokens);
    free(sums);
    return loss;
}

ff_status ff_loop_step(ff_loop *set, ff_diagnostics *findings, double *loss) {
    int order[FF_ENGINE_MOST_RANKS];
    for (int r = 0; r < set->world; r++)
        ff_rank_begin_step(set->rank[r], set->step);
    for (int r = 0; r < set->world && set->rate > 0; r++)
        set->rank[r]->rate = set->rate;
    for (uint64_t round = 0;; round++) {
        int done = 0, moved = 0, faults = 0;
        draw_order(set, round, order);
        for (int i = 0; i < set->world; i++) {
            ff_progress progress = ff_rank_advance(set->rank[order[i]]);
            done += progress == FF_DONE;
            moved += progress == FF_MOVED;
            faults += progress == FF_FAULT;
        }
        if (faults > 0) {
            report_ranks(set, FF0703, true, findings);
            return FF_NO;
        }
        if (done == set->world)
            break;
        if (moved == 0) {
            report_ranks(set, FF0704, false, findings);
            return FF_NO;
        }
    }
    set->step++;
    *loss = step_loss(set);
    return FF_OK;
}
