#include "plan/evaluate.h"

#include "base/number.h"
#include "layout/keys.h"
#include "plan/blocks.h"
#include "plan/stages.h"
#include "presets/presets.h"
#include <string.h>

enum { MOST_ZERO_FORMS = 12, MOST_MAPS = 512, MOST_GRID_MAPS = 16 };

/* What the groups and the weights of a rank depend on. */
typedef struct grid_key {
    int64_t tp, pp, cp, dp, ep, etp;
    ff_axis dense_order[4], expert_order[4];
} grid_key;

typedef struct map_key {
    int64_t pp, vpp, chunks, in_a_v, whole, recompute_layers;
} map_key;

/* What the blocks depend on beside the grid. */
typedef struct block_key {
    int64_t mbs, ulysses, sp, cp_kind, recompute, modules, recipe;
} block_key;

typedef struct map_entry {
    map_key key;
    ff_stage_map *map;
} map_entry;

/* Sums of a class of stages under the current grid, blocks and chunks. */
typedef struct class_parts {
    ff_chunk_memory const **chunks; /* [vpp] */
    ff_held *held;                  /* [vpp], at the peak, when chunk `running` runs */
    int32_t running;
    ff_stage_time time;
    int64_t replicated_params;
} class_parts;

/* State and data-parallel parts of every class, for one ZeRO form under the current grid and
 * chunks. */
typedef struct zero_parts {
    bool made, timed;
    int zero, weights, recipe;
    int64_t group;
    ff_ledger_fixed *fixed; /* [classes] */
    ff_sync_time *sync;     /* [classes], when timed */
} zero_parts;

struct ff_evaluator {
    ff_arena *arena;
    const ff_job *job;
    ff_cost cost;
    ff_program_options options;
    double flop_per_token;
    ff_block_store *store;
    map_entry *maps; /* of balanced splits */
    int map_count;
    /* the levels, and what each was made for */
    grid_key grid;
    ff_reaches reaches;
    block_key block;
    ff_blocks *blocks;
    map_key map_of;
    unsigned split_bit; /* of a layout's given keys */
    const ff_stage_map *map;
    int64_t microbatches, schedule, transfer_bytes;
    ff_arena *scratch;             /* of the parts below, renewed with blocks or map */
    ff_chunk_memory *chunk_memory; /* [contents] */
    class_parts *parts;            /* [classes] */
    bool timed;
    ff_step_time pipeline; /* without data parallelism */
    double step_end_s;
    const ff_stage_map *grid_map[MOST_GRID_MAPS]; /* maps seen with the current grid */
    int grid_maps, at_map;
    zero_parts zeros[MOST_GRID_MAPS][MOST_ZERO_FORMS];
    ff_arena *zero_scratch; /* of zeros, renewed with the grid */
};

ff_evaluator *ff_evaluator_create(const ff_job *job, ff_diagnostics *findings) {
    ff_physics physics;
    ff_physics_data data = ff_physics_presets();
    if (ff_physics_of_device(&data, &job->cluster.device, findings, &physics) != FF_OK)
        return NULL;
    ff_arena *arena = ff_arena_create();
    ff_evaluator *e = FF_ARENA_NEW(arena, ff_evaluator);
    e->arena = arena;
    e->job = job;
    e->cost = (ff_cost){.model = &job->model,
                        .cluster = &job->cluster,
                        .profile = job->profile,
                        .physics = physics,
                        .seq = job->seq,
                        .imbalance = job->imbalance,
                        .gemm_memo = FF_ARENA_NEW(arena, ff_gemm_memo)};
    e->options = (ff_program_options){job->seq, job->profile->kernels, job->imbalance};
    e->flop_per_token = ff_model_flop_per_token(&job->model, job->seq, FF_FLOP_FULL);
    e->split_bit = ff_layout_key_bit("layers");
    e->store = ff_block_store_create(arena);
    e->maps = FF_ARENA_ARRAY(arena, MOST_MAPS, map_entry);
    e->scratch = ff_arena_create();
    e->zero_scratch = ff_arena_create();
    return e;
}

void ff_evaluator_free(ff_evaluator *evaluator) {
    if (evaluator == NULL)
        return;
    ff_arena_free(evaluator->scratch);
    ff_arena_free(evaluator->zero_scratch);
    ff_arena_free(evaluator->arena);
}

const ff_cost *ff_evaluator_cost(const ff_evaluator *evaluator) {
    return &evaluator->cost;
}

ff_program_options ff_evaluator_options(const ff_evaluator *evaluator) {
    return evaluator->options;
}

int64_t ff_job_sequences(const ff_job *job) {
    return job->gbs_tokens == 0 ? 0 : ff_ceil_div(job->gbs_tokens, job->seq);
}

void ff_evaluate_reaches(const ff_evaluator *evaluator, const ff_layout *layout,
                         ff_reaches *reaches) {
    ff_mesh mesh;
    *reaches = (ff_reaches){0};
    if (ff_layout_mesh(layout, NULL, &mesh) == FF_OK)
        ff_reaches_of(&mesh, evaluator->cost.cluster, reaches);
}

/* ---- levels ---- */

static grid_key grid_key_of(const ff_layout *l) {
    grid_key key;
    memset(&key, 0, sizeof key);
    key.tp = l->tp;
    key.pp = l->pp;
    key.cp = l->cp;
    key.dp = l->dp;
    key.ep = l->ep;
    key.etp = l->etp;
    memcpy(key.dense_order, l->dense_order, sizeof key.dense_order);
    memcpy(key.expert_order, l->expert_order, sizeof key.expert_order);
    return key;
}

static bool set_grid(ff_evaluator *e, const ff_layout *layout) {
    grid_key key = grid_key_of(layout);
    if (e->map != NULL && memcmp(&key, &e->grid, sizeof key) == 0)
        return false;
    e->grid = key;
    ff_evaluate_reaches(e, layout, &e->reaches);
    return true;
}

/* A split that the user gave is mapped anew each time; balanced ones are few and kept. */
static const ff_stage_map *find_map(ff_evaluator *e, const ff_layout *layout) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    map_key key = {layout->pp,
                   layout->vpp,
                   layout->chunks,
                   ff_schedule_position(&shape, 0, shape.chunks - 1),
                   layout->recompute == FF_RECOMPUTE_FULL,
                   layout->recompute == FF_RECOMPUTE_FULL ? layout->recompute_layers : 0};
    bool balanced = (layout->given & e->split_bit) == 0;
    if (balanced && e->map != NULL && memcmp(&key, &e->map_of, sizeof key) == 0)
        return e->map;
    e->map_of = balanced ? key : (map_key){0};
    for (int i = 0; balanced && i < e->map_count; i++)
        if (memcmp(&e->maps[i].key, &key, sizeof key) == 0)
            return e->maps[i].map;
    ff_stage_map *map = ff_stage_map_make(e->arena, e->cost.model, layout);
    if (balanced && e->map_count < MOST_MAPS)
        e->maps[e->map_count++] = (map_entry){key, map};
    return map;
}

static void make_class(ff_evaluator *e, const ff_layout *layout, int index) {
    class_parts *p = &e->parts[index];
    int64_t stage = e->map->first_stage[index];
    p->chunks = FF_ARENA_ARRAY(e->scratch, layout->vpp, const ff_chunk_memory *);
    p->held = FF_ARENA_ARRAY(e->scratch, layout->vpp, ff_held);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
        const ff_chunk_memory *m =
            &e->chunk_memory[e->map->content_of[stage * layout->vpp + chunk]];
        p->chunks[chunk] = m;
        p->replicated_params = ff_add(p->replicated_params, m->params.replicated);
    }
}

static void make_parts(ff_evaluator *e, const ff_layout *layout) {
    ff_arena_reset(e->scratch);
    e->chunk_memory = FF_ARENA_ARRAY(e->scratch, e->map->contents, ff_chunk_memory);
    e->parts = FF_ARENA_ARRAY(e->scratch, e->map->classes, class_parts);
    for (int i = 0; i < e->map->contents; i++)
        ff_ledger_chunk(e->cost.model, layout, &e->blocks->memory, &e->map->content[i],
                        &e->chunk_memory[i]);
    for (int i = 0; i < e->map->classes; i++)
        make_class(e, layout, i);
    e->microbatches = 0;
}

static void set_in_flight(ff_evaluator *e, const ff_layout *layout) {
    for (int i = 0; i < e->map->classes; i++) {
        class_parts *p = &e->parts[i];
        p->running = ff_ledger_peak(layout, p->chunks, e->map->first_stage[i], p->held);
    }
    e->transfer_bytes = ff_ledger_transfer_bytes(e->cost.model, layout, e->cost.seq);
    e->microbatches = layout->microbatches;
    e->schedule = layout->schedule;
    e->timed = false;
}

static ff_blocks *find_blocks(ff_evaluator *e, const ff_layout *l, bool new_grid) {
    block_key key = {l->mbs,
                     l->ulysses,
                     l->sp,
                     (int64_t)l->cp_kind,
                     (int64_t)l->recompute,
                     (int64_t)l->recompute_modules,
                     (int64_t)l->recipe};
    if (!new_grid && e->blocks != NULL && memcmp(&key, &e->block, sizeof key) == 0)
        return e->blocks;
    e->block = key;
    return ff_block_store_get(e->store, &e->cost, &e->options, l, &e->reaches);
}

/* Picks the zero parts that go with a map; when a grid has had too many maps, the last slot is made
 * anew. */
static void select_zeros(ff_evaluator *e, const ff_stage_map *map) {
    for (e->at_map = 0; e->at_map < e->grid_maps; e->at_map++)
        if (e->grid_map[e->at_map] == map)
            return;
    if (e->at_map == MOST_GRID_MAPS)
        e->at_map--;
    else
        e->grid_maps++;
    e->grid_map[e->at_map] = map;
    memset(e->zeros[e->at_map], 0, sizeof e->zeros[e->at_map]);
}

static void set_levels(ff_evaluator *e, const ff_layout *layout) {
    bool new_grid = set_grid(e, layout);
    const ff_stage_map *map = find_map(e, layout);
    ff_blocks *b = find_blocks(e, layout, new_grid);
    if (new_grid) {
        ff_arena_reset(e->zero_scratch);
        e->grid_maps = 0;
    }
    if (new_grid || map != e->map)
        select_zeros(e, map);
    if (new_grid || map != e->map || b != e->blocks) {
        e->map = map;
        e->blocks = b;
        make_parts(e, layout);
    }
    if (e->microbatches != layout->microbatches || e->schedule != layout->schedule)
        set_in_flight(e, layout);
}

static bool is_form(const zero_parts *z, const ff_layout *layout) {
    return z->zero == layout->zero && z->weights == layout->zero3_weights &&
           z->group == layout->zero_group && z->recipe == (int)layout->recipe;
}

/* The parts of a ZeRO form; the last slot serves all forms beyond the others. */
static zero_parts *zero_of(ff_evaluator *e, const ff_layout *layout) {
    zero_parts *z = e->zeros[e->at_map], *last = &z[MOST_ZERO_FORMS - 1];
    while (z < last && z->made && !is_form(z, layout))
        z++;
    if (z->made && is_form(z, layout))
        return z;
    *z = (zero_parts){.made = true,
                      .zero = layout->zero,
                      .weights = layout->zero3_weights,
                      .group = layout->zero_group,
                      .recipe = (int)layout->recipe};
    z->fixed = FF_ARENA_ARRAY(e->zero_scratch, e->map->classes, ff_ledger_fixed);
    for (int i = 0; i < e->map->classes; i++)
        ff_ledger_fix(e->cost.model, layout, &e->cost.profile->runtime, e->parts[i].chunks,
                      &z->fixed[i]);
    return z;
}

/* ---- memory ---- */

static void stage_memory(ff_evaluator *e, const ff_layout *layout, int64_t stage,
                         ff_stage_memory *memory) {
    int class = e->map->class_of[stage];
    ff_held held[FF_LAYOUT_MAX_CHUNKS];
    int32_t running = ff_ledger_peak(layout, e->parts[class].chunks, stage, held);
    ff_ledger_sum(layout->vpp, &zero_of(e, layout)->fixed[class], e->transfer_bytes,
                  e->parts[class].chunks, held, running, memory);
}

static bool splits_backward(const ff_layout *layout) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    return ff_schedule_splits(&shape);
}

/* Where backward is split, later stages of a class may hold more than its first. */
static void worst_stage(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate) {
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        ff_stage_memory memory;
        stage_memory(e, layout, stage, &memory);
        if (memory.total_bytes > estimate->peak_bytes) {
            estimate->peak_bytes = memory.total_bytes;
            estimate->peak_stage = stage;
        }
    }
}

void ff_evaluate_memory(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate,
                        ff_stage_memory *stages) {
    set_levels(e, layout);
    const zero_parts *z = zero_of(e, layout);
    *estimate = (ff_estimate){.capacity_bytes = e->cost.cluster->device.memory_bytes};
    for (int i = 0; i < e->map->classes; i++) {
        ff_stage_memory memory;
        ff_ledger_sum(layout->vpp, &z->fixed[i], e->transfer_bytes, e->parts[i].chunks,
                      e->parts[i].held, e->parts[i].running, &memory);
        if (memory.total_bytes > estimate->peak_bytes) {
            estimate->peak_bytes = memory.total_bytes;
            estimate->peak_stage = e->map->first_stage[i];
        }
    }
    if (splits_backward(layout))
        worst_stage(e, layout, estimate);
    for (int64_t stage = 0; stages != NULL && stage < layout->pp; stage++)
        stage_memory(e, layout, stage, &stages[stage]);
    estimate->verdict =
        ff_ledger_verdict(estimate->peak_bytes, estimate->capacity_bytes, e->job->margin_bytes);
}

/* ---- time ---- */

static void make_pipeline(ff_evaluator *e, const ff_layout *layout) {
    double scratch[3 * FF_LAYOUT_MAX_CHUNKS];
    const ff_stage_time *stages[FF_LAYOUT_MAX_CHUNKS];
    ff_blocks_time(e->blocks, &e->cost, layout, &e->reaches);
    for (int i = 0; i < e->map->classes; i++) {
        e->parts[i].time = ff_stage_time_start(layout);
        int64_t first = e->map->first_stage[i] * layout->vpp;
        for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
            ff_stage_time_add(e->cost.model, &e->blocks->time,
                              &e->map->content[e->map->content_of[first + chunk]],
                              &e->parts[i].time);
    }
    for (int64_t stage = 0; stage < layout->pp; stage++)
        stages[stage] = &e->parts[e->map->class_of[stage]].time;
    ff_pipeline_time_of(layout, stages, ff_transfer_s(&e->cost, layout, &e->reaches), scratch,
                        &e->pipeline);
    e->step_end_s = ff_step_end_s(&e->cost, layout, &e->reaches, e->parts[0].replicated_params);
    e->timed = true;
}

static const zero_parts *timed_zero_of(ff_evaluator *e, const ff_layout *layout) {
    zero_parts *z = zero_of(e, layout);
    if (z->timed)
        return z;
    z->timed = true;
    z->sync = FF_ARENA_ARRAY(e->zero_scratch, e->map->classes, ff_sync_time);
    for (int i = 0; i < e->map->classes; i++)
        ff_sync_time_of(&e->cost, layout, &e->reaches, z->fixed[i].params,
                        ff_stage_units(layout, e->map->first_stage[i]), &z->sync[i]);
    return z;
}

void ff_evaluate_time(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate) {
    if (!e->timed)
        make_pipeline(e, layout);
    const zero_parts *z = timed_zero_of(e, layout);
    estimate->time = e->pipeline;
    for (int i = 0; i < e->map->classes; i++)
        ff_step_time_add_stage(&e->cost, layout, &e->parts[i].time, &z->sync[i], &estimate->time);
    ff_step_time_finish(&e->cost, e->step_end_s, &estimate->time);
    double step_s = estimate->time.step_s, devices = (double)ff_layout_world(layout);
    ff_dtype dtype = ff_recipe_describe(layout->recipe)->compute;
    estimate->batch_tokens = ff_mul(ff_layout_batch_sequences(layout), e->cost.seq);
    estimate->s_per_token = step_s / (double)estimate->batch_tokens;
    estimate->tokens_per_s_per_device = (double)estimate->batch_tokens / step_s / devices;
    estimate->model_flops_per_device = estimate->tokens_per_s_per_device * e->flop_per_token;
    estimate->mfu =
        estimate->model_flops_per_device / ff_peak_flops(&e->cost.cluster->device, dtype);
}

/* Layers of each kind, whole model; recomputed ones as the layout says. */
static void add_all_layers(const ff_evaluator *e, const ff_layout *layout, ff_stage_time *sum) {
    const ff_model *model = e->cost.model;
    ff_chunk_content all = {.layers = model->layers, .embedding = true, .head = true};
    bool whole = layout->recompute == FF_RECOMPUTE_FULL && layout->recompute_layers == 0;
    for (int i = 0; i < model->layers; i++) {
        all.of_kind[model->layer_kind[i]]++;
        all.recomputed_of_kind[model->layer_kind[i]] += whole;
    }
    ff_stage_time_add(model, &e->blocks->time, &all, sum);
}

double ff_evaluate_floor_s(ff_evaluator *e, const ff_layout *layout) {
    ff_stage_time sum = {.share = 1};
    set_levels(e, layout);
    ff_blocks_time(e->blocks, &e->cost, layout, &e->reaches);
    add_all_layers(e, layout, &sum);
    double tokens = (double)ff_mul3(layout->mbs, layout->dp, e->cost.seq);
    return (sum.forward_s + sum.backward_s) / (double)layout->pp / tokens;
}
