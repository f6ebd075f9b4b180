/* Dynamic programming over stages: the best cut whose first s stages hold the first b layers extends
 * a best cut of s-1 stages, since what a stage takes depends on its own layers and its place alone.
 *
 *     best(s, b) = min over a < b of max(best(s-1, a), stage s with layers a .. b-1)
 *
 * A stage's time is what it takes with the fewest layers recomputed that make it fit; recomputing
 * more never takes less time. Among cuts with the same slowest stage a second pass takes the one
 * with the least time of all stages (fewest layers recomputed). Stages hold at most REACH times
 * their even share, which no best cut exceeds unless the ends weigh more than the layers; every
 * stage holds a layer, as the balanced split gives it one.
 *
 * Cost: pp * layers * REACH * share steps, twice, about 100,000 for 126 layers on 16; a stage is
 * evaluated once for each number of layers, and again where it begins among other kinds of
 * layers. */
#include "plan/split.h"

#include "base/arena.h"
#include "base/number.h"
#include "base/text.h"
#include "layout/keys.h"
#include <float.h>
#include <string.h>

enum { REACH = 3, SLACK = 4 };

typedef struct state {
    double slowest_s, all_s; /* DBL_MAX: no such cut */
    int16_t from, recomputed;
} state;

/* A stage that was looked at: the last of each number of layers, since most are alike. */
typedef struct known {
    int from;
    int recomputed; /* -1: no number is enough */
    double own_s;
} known;

typedef struct table {
    const ff_split_inputs *in;
    int64_t stages;
    int layers;
    known *known;   /* of the current stage, [layers + 1]; own_s of 0: nothing yet */
    double limit_s; /* no stage takes longer; DBL_MAX while that is looked for */
    state *best;    /* [stage * (layers + 1) + layers held by the first stage + 1 stages] */
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
    int least = t->in->recompute == FF_CUT_RECOMPUTES_ALL ? to - from : 0;
    int most = t->in->recompute == FF_CUT_RECOMPUTES_NONE ? 0 : to - from;
    for (int recomputed = least; recomputed <= most; recomputed++) {
        ff_chunk_content content = content_of(t, stage, from, to, recomputed);
        if (fits(t, stage, &content))
            return recomputed;
    }
    return -1;
}

/* ---- the table ---- */

/* The first pass looks for the least slowest stage, the second for the least sum that keeps it. */
static bool better(const table *t, double slowest_s, double all_s, const state *than) {
    if (t->limit_s < DBL_MAX)
        return slowest_s <= t->limit_s && all_s < than->all_s;
    return slowest_s < than->slowest_s;
}

static bool may_help(const table *t, const state *before, const state *now) {
    return t->limit_s < DBL_MAX ? before->all_s < now->all_s : before->slowest_s < now->slowest_s;
}

static const known *know(table *t, int64_t stage, int from, int to) {
    const ff_model *model = t->in->cost->model;
    known *k = &t->known[to - from];
    size_t bytes = (size_t)(to - from) * sizeof *model->layer_kind;
    if (k->own_s > 0 && memcmp(&model->layer_kind[from], &model->layer_kind[k->from], bytes) == 0)
        return k;
    k->from = from;
    k->recomputed = fewest_recomputed(t, stage, from, to);
    ff_chunk_content content = content_of(t, stage, from, to, (int)ff_max(0, k->recomputed));
    k->own_s = time_of(t, &content);
    return k;
}

static void extend(table *t, int64_t stage, int from, int to, const state *before) {
    const known *k = know(t, stage, from, to);
    if (k->recomputed < 0)
        return;
    double slowest_s = k->own_s > before->slowest_s ? k->own_s : before->slowest_s;
    state *now = at(t, stage, to);
    if (better(t, slowest_s, before->all_s + k->own_s, now))
        *now = (state){slowest_s, before->all_s + k->own_s, (int16_t)from, (int16_t)k->recomputed};
}

static void fill(table *t) {
    int64_t widest = REACH * ff_ceil_div(t->layers, t->stages) + SLACK;
    for (int64_t i = 0; i < t->stages * (t->layers + 1); i++)
        t->best[i] = (state){DBL_MAX, DBL_MAX, 0, 0};
    for (int64_t stage = 0; stage < t->stages; stage++) {
        memset(t->known, 0, (size_t)(t->layers + 1) * sizeof *t->known);
        for (int to = (int)stage + 1; to <= t->layers; to++) {
            int first = (int)ff_max(stage, to - widest);
            for (int from = first; from < to; from++) {
                static const state none = {0, 0, 0, 0};
                const state *before = stage == 0 ? &none : at(t, stage - 1, from);
                bool starts = stage > 0 || from == 0;
                /* No better than what is known: nothing to look at. */
                if (starts && may_help(t, before, at(t, stage, to)))
                    extend(t, stage, from, to, before);
            }
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

bool ff_split_best(const ff_split_inputs *inputs, ff_split *split) {
    const ff_layout *layout = inputs->layout;
    table t = {.in = inputs, .stages = layout->pp, .layers = inputs->cost->model->layers};
    if (layout->vpp != 1 || t.stages > t.layers)
        return false;
    ff_arena *arena = ff_arena_create();
    t.known = FF_ARENA_ARRAY(arena, t.layers + 1, known);
    t.best = FF_ARENA_ARRAY(arena, t.stages * (t.layers + 1), state);
    t.limit_s = DBL_MAX;
    fill(&t);
    double slowest_s = at(&t, t.stages - 1, t.layers)->slowest_s;
    if (slowest_s < DBL_MAX) {
        t.limit_s = slowest_s;
        fill(&t);
    }
    bool possible = at(&t, t.stages - 1, t.layers)->slowest_s < DBL_MAX;
    if (possible)
        read_back(&t, split);
    ff_arena_free(arena);
    return possible;
}

/* As one number, as a list, or as the mode that says the same. */
static void put_counts(const ff_split *split, ff_layout *layout) {
    bool alike = true, all = true;
    int most = 0;
    for (int64_t s = 0; s < layout->pp; s++) {
        layout->recompute_of_stage[s] = split->recomputed[s];
        alike &= split->recomputed[s] == split->recomputed[0];
        all &= split->recomputed[s] == split->layers[s];
        most = (int)ff_max(most, split->recomputed[s]);
    }
    layout->recompute = most == 0 ? FF_RECOMPUTE_NONE : FF_RECOMPUTE_FULL;
    layout->recompute_layers = alike && !all ? most : 0;
    layout->recompute_stages = alike || all ? 0 : (int)layout->pp;
}

void ff_split_mark(ff_layout *layout) {
    int16_t balanced[FF_LAYOUT_MAX_CHUNKS];
    int layers = 0;
    for (int i = 0; i < layout->chunks; i++)
        layers += layout->layers_of_chunk[i];
    ff_default_split(layers, layout->chunks, balanced);
    size_t bytes = (size_t)layout->chunks * sizeof *balanced;
    unsigned bit = ff_layout_key_bit("layers");
    layout->given &= ~bit;
    if (memcmp(balanced, layout->layers_of_chunk, bytes) != 0)
        layout->given |= bit;
}

ff_layout ff_split_layout(const ff_layout *base, const ff_split *split) {
    ff_layout layout = *base;
    layout.chunks = (int)layout.pp;
    memcpy(layout.layers_of_chunk, split->layers, (size_t)layout.pp * sizeof *split->layers);
    ff_split_mark(&layout);
    if (layout.recompute != FF_RECOMPUTE_SELECTIVE)
        put_counts(split, &layout);
    return layout;
}

/* ---- in words ---- */

static void append_list(ff_text *out, const int64_t *count, int64_t stages) {
    for (int64_t s = 0, run = 1; s < stages; s += run) {
        for (run = 1; s + run < stages && count[s + run] == count[s];)
            run++;
        ff_text_printf(out, s == 0 ? "%lld" : "/%lld", (long long)count[s]);
        if (run > 1)
            ff_text_printf(out, "*%lld", (long long)run);
    }
    ff_text_append(out, " by stage");
}

static void append_counts(ff_text *out, const int64_t *count, int64_t stages, const char *unit) {
    int64_t usual = count[stages > 2 ? 1 : 0];
    bool simple = true;
    for (int64_t s = 1; s < stages - 1; s++)
        simple &= count[s] == usual;
    if (!simple) {
        append_list(out, count, stages);
        return;
    }
    ff_text_printf(out, "%lld%s a stage", (long long)usual, unit);
    if (count[0] != usual)
        ff_text_printf(out, ", %lld on the first", (long long)count[0]);
    if (count[stages - 1] != usual)
        ff_text_printf(out, ", %lld on the last", (long long)count[stages - 1]);
}

void ff_split_describe(const ff_layout *layout, char *text, size_t bytes) {
    int64_t layers[FF_LAYOUT_MAX_CHUNKS], recomputed[FF_LAYOUT_MAX_CHUNKS];
    ff_text out = {0};
    for (int64_t s = 0; s < layout->pp; s++) {
        layers[s] = ff_schedule_stage_layers(layout, s);
        recomputed[s] = layout->recompute_of_stage[s];
    }
    append_counts(&out, layers, layout->pp, " layers");
    if (layout->recompute_stages > 0) {
        ff_text_append(&out, "; of these recomputed ");
        append_counts(&out, recomputed, layout->pp, "");
    }
    ff_copy_text(text, bytes, ff_text_bytes(&out));
    ff_text_free(&out);
}
