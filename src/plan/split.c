/* Dynamic programming over stages: the best cut whose first s stages hold the first b layers extends
 * a best cut of s-1 stages, since what a stage takes depends on its own layers and its place alone.
 *
 *     best(s, b) = min over a < b of max(best(s-1, a), stage s with layers a .. b-1)
 *
 * A stage's time is what it takes with the fewest layers recomputed that make it fit; recomputing
 * more never takes less time. Among cuts
 * with the same slowest stage the one with the least time of all stages is taken (fewest layers
 * recomputed). Stages hold at most REACH times their even share, which no best cut exceeds unless
 * the ends weigh more than the layers; every stage holds a layer, so that search and rules agree.
 *
 * Cost: pp * layers * REACH * share evaluations of a stage, about 50,000 for 126 layers on 16. */
#include "plan/split.h"

#include "base/arena.h"
#include "base/number.h"
#include <float.h>
#include <string.h>

enum { REACH = 3, SLACK = 4 };

typedef struct state {
    double slowest_s, all_s; /* DBL_MAX: no such cut */
    int16_t from, recomputed;
} state;

typedef struct table {
    const ff_split_inputs *in;
    int64_t stages;
    int layers;
    state *best; /* [stage * (layers + 1) + layers held by the first stage + 1 stages] */
} table;

static state *at(const table *t, int64_t stage, int layers) {
    return &t->best[stage * (t->layers + 1) + layers];
}

/* ---- one stage ---- */

static ff_chunk_content content_of(const table *t, int64_t stage, int from, int to,
                                   int recomputed) {
    ff_chunk_content content = {.first_layer = from,
                                .layers = to - from,
                                .embedding = stage == 0,
                                .head = stage == t->stages - 1};
    for (int layer = from; layer < to; layer++) {
        int kind = t->in->cost->model->layer_kind[layer];
        content.of_kind[kind]++;
        content.recomputed_of_kind[kind] += layer - from < recomputed;
    }
    return content;
}

static bool fits(const table *t, int64_t stage, const ff_chunk_content *content) {
    const ff_split_inputs *in = t->in;
    const ff_model *model = in->cost->model;
    ff_chunk_memory chunk;
    const ff_chunk_memory *chunks[1] = {&chunk};
    ff_held held[1];
    ff_ledger_fixed fixed;
    ff_stage_memory memory;
    ff_ledger_chunk(model, in->layout, in->memory, content, &chunk);
    int32_t running = ff_ledger_peak(in->layout, chunks, stage, held);
    ff_ledger_fix(model, in->layout, &in->cost->profile->runtime, chunks, &fixed);
    ff_ledger_sum(1, &fixed, ff_ledger_transfer_bytes(model, in->layout, in->cost->seq), chunks,
                  held, running, &memory);
    return memory.total_bytes <= in->limit_bytes;
}

static double time_of(const table *t, const ff_chunk_content *content) {
    ff_stage_time time = ff_stage_time_start(t->in->layout);
    ff_stage_time_add(t->in->cost->model, t->in->time, content, &time);
    return time.forward_s + time.backward_s;
}

/* The fewest layers to recompute; -1 when no number is enough. One by one: the first recomputed
 * layer may need more memory than it frees, since it is rebuilt whole. */
static int fewest_recomputed(const table *t, int64_t stage, int from, int to) {
    for (int recomputed = 0; recomputed <= to - from; recomputed++) {
        ff_chunk_content content = content_of(t, stage, from, to, recomputed);
        if (fits(t, stage, &content))
            return recomputed;
    }
    return -1;
}

/* ---- the table ---- */

static bool better(double slowest_s, double all_s, const state *than) {
    return slowest_s < than->slowest_s || (slowest_s == than->slowest_s && all_s < than->all_s);
}

static void extend(table *t, int64_t stage, int from, int to, const state *before) {
    int recomputed = fewest_recomputed(t, stage, from, to);
    if (recomputed < 0)
        return;
    ff_chunk_content content = content_of(t, stage, from, to, recomputed);
    double own_s = time_of(t, &content);
    double slowest_s = own_s > before->slowest_s ? own_s : before->slowest_s;
    state *now = at(t, stage, to);
    if (better(slowest_s, before->all_s + own_s, now))
        *now = (state){slowest_s, before->all_s + own_s, (int16_t)from, (int16_t)recomputed};
}

static void fill(table *t) {
    int64_t widest = REACH * ff_ceil_div(t->layers, t->stages) + SLACK;
    for (int64_t i = 0; i < t->stages * (t->layers + 1); i++)
        t->best[i] = (state){DBL_MAX, DBL_MAX, 0, 0};
    for (int64_t stage = 0; stage < t->stages; stage++)
        for (int to = (int)stage + 1; to <= t->layers; to++) {
            int first = (int)ff_max(stage, to - widest);
            for (int from = first; from < to; from++) {
                static const state none = {0, 0, 0, 0};
                const state *before = stage == 0 ? &none : at(t, stage - 1, from);
                bool starts = stage > 0 || from == 0;
                /* No better than what is known: nothing to look at. */
                if (starts && before->slowest_s < at(t, stage, to)->slowest_s)
                    extend(t, stage, from, to, before);
            }
        }
}

static void read_back(const table *t, ff_split *split) {
    int to = t->layers;
    for (int64_t stage = t->stages - 1; stage >= 0; stage--) {
        const state *s = at(t, stage, to);
        split->layers[stage] = (int16_t)(to - s->from);
        split->recomputed[stage] = s->recomputed;
        to = s->from;
    }
    split->slowest_s = at(t, t->stages - 1, t->layers)->slowest_s;
    split->all_s = at(t, t->stages - 1, t->layers)->all_s;
}

static void simplify(int64_t stages, ff_split *split) {
    split->simple = true;
    split->first = split->layers[0];
    split->last = split->layers[stages - 1];
    split->middle = stages > 2 ? split->layers[1] : 0;
    for (int64_t stage = 2; stage < stages - 1; stage++)
        split->simple &= split->layers[stage] == split->middle;
}

bool ff_split_best(const ff_split_inputs *inputs, ff_split *split) {
    const ff_layout *layout = inputs->layout;
    table t = {.in = inputs, .stages = layout->pp, .layers = inputs->cost->model->layers};
    if (layout->vpp != 1 || t.stages > t.layers)
        return false;
    ff_arena *arena = ff_arena_create();
    t.best = FF_ARENA_ARRAY(arena, t.stages * (t.layers + 1), state);
    fill(&t);
    bool possible = at(&t, t.stages - 1, t.layers)->slowest_s < DBL_MAX;
    if (possible) {
        read_back(&t, split);
        simplify(t.stages, split);
    }
    ff_arena_free(arena);
    return possible;
}

ff_layout ff_split_layout(const ff_split_inputs *inputs, const ff_split *split) {
    ff_layout layout = *inputs->layout;
    int most = 0;
    bool all = true;
    for (int64_t stage = 0; stage < layout.pp; stage++) {
        layout.layers_of_chunk[stage] = split->layers[stage];
        most = split->recomputed[stage] > most ? split->recomputed[stage] : most;
        all &= split->recomputed[stage] == split->layers[stage];
    }
    layout.chunks = (int)layout.pp;
    if (most > 0) {
        layout.recompute = FF_RECOMPUTE_FULL;
        layout.recompute_modules = 0;
        layout.recompute_layers = all ? 0 : most;
    } else if (layout.recompute == FF_RECOMPUTE_FULL) {
        layout.recompute = FF_RECOMPUTE_NONE;
        layout.recompute_layers = 0;
    }
    return layout;
}
