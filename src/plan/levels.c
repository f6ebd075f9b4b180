/* See levels.h. */
#include "plan/levels.h"

#include "base/number.h"
#include "layout/keys.h"
#include "schedule/by_list.h"
#include <string.h>

enum { MOST_ZERO_FORMS = 12, MAP_BUCKETS = 512, MOST_GRID_SPLITS = 16, MOST_LEVELS = 64 };
enum { NOTHING_RECOMPUTED = -1, FOUND_BY_NONE = -1 };

/* What the groups and the weights of a rank depend on. */
typedef struct grid_key {
    int64_t tp, pp, cp, dp, ep, etp;
    ff_axis dense_order[4], expert_order[4];
} grid_key;

/* `recomputed`: layers of a stage; 0 all of them. */
typedef struct map_key {
    int64_t pp, vpp, chunks, placement, whole, recomputed, apart;
} map_key;

typedef struct level_key {
    map_key map;
    int64_t microbatches, schedule;
} level_key;

/* What a level's key is made from, for layouts that give neither a split nor counts by stage. */
typedef struct level_source {
    int64_t pp, vpp, microbatches, recompute_layers;
    int chunks, schedule;
    ff_recompute_mode recompute;
    unsigned given;
} level_source;

/* What the blocks depend on beside the grid. */
typedef struct block_key {
    int64_t mbs, ulysses, sp, cp_kind, recompute, modules, recipe;
} block_key;

typedef struct map_entry {
    map_key key;
    ff_stage_map *map;
    struct map_entry *next;
} map_entry;

/* Of a schedule that splits backward. */
typedef struct peaks_entry {
    ff_schedule_shape shape;
    ff_peak_states *states; /* [stage] */
    struct peaks_entry *next;
} peaks_entry;

struct ff_levels {
    ff_arena *arena;
    const ff_cost *cost;
    unsigned split_bit; /* of a layout's given keys */
    ff_block_store *store;
    map_entry **maps; /* of balanced splits, by bucket */
    peaks_entry *peaks;
    ff_list_memo *lists;
    bool any;
    grid_key grid;
    ff_reaches reaches;
    block_key block;
    ff_blocks *blocks;
    level_key key[MOST_LEVELS];
    ff_chunk_level level[MOST_LEVELS]; /* of the current grid and blocks */
    int levels, at_level;
    bool has_source; /* of the current level */
    level_source source;
    ff_arena *scratch; /* of the levels, renewed with grid or blocks */
    const ff_stage_map *grid_split[MOST_GRID_SPLITS];
    int grid_splits, at_split;
    ff_zero_parts zeros[MOST_GRID_SPLITS][MOST_ZERO_FORMS];
    ff_arena *zero_scratch; /* of zeros, renewed with the grid */
};

ff_levels *ff_levels_create(ff_arena *arena, const ff_cost *cost,
                            const ff_program_options *options) {
    ff_levels *l = FF_ARENA_NEW(arena, ff_levels);
    l->arena = arena;
    l->cost = cost;
    l->split_bit = ff_layout_key_bit("layers");
    l->store = ff_block_store_create(arena, cost, options);
    l->maps = FF_ARENA_ARRAY(arena, MAP_BUCKETS, map_entry *);
    l->lists = ff_list_memo_create(arena);
    l->scratch = ff_arena_create();
    l->zero_scratch = ff_arena_create();
    return l;
}

void ff_levels_free(ff_levels *l) {
    ff_block_store_free(l->store);
    ff_list_memo_free(l->lists);
    ff_arena_free(l->scratch);
    ff_arena_free(l->zero_scratch);
}

/* ---- grid and blocks ---- */

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

static bool is_grid_of(const grid_key *grid, const ff_layout *l) {
    return grid->tp == l->tp && grid->pp == l->pp && grid->cp == l->cp && grid->dp == l->dp &&
           grid->ep == l->ep && grid->etp == l->etp &&
           memcmp(grid->dense_order, l->dense_order, sizeof grid->dense_order) == 0 &&
           memcmp(grid->expert_order, l->expert_order, sizeof grid->expert_order) == 0;
}

static bool set_grid(ff_levels *l, const ff_layout *layout) {
    ff_mesh mesh;
    if (l->any && is_grid_of(&l->grid, layout))
        return false;
    l->any = true;
    l->grid = grid_key_of(layout);
    l->reaches = (ff_reaches){0};
    if (ff_layout_mesh(layout, NULL, &mesh) == FF_OK)
        ff_reaches_of(&mesh, l->cost->cluster, &l->reaches);
    l->grid_splits = 0;
    ff_arena_reset(l->zero_scratch);
    return true;
}

static bool set_blocks(ff_levels *l, const ff_layout *layout, bool new_grid) {
    block_key key = {layout->mbs,
                     layout->ulysses,
                     layout->sp,
                     (int64_t)layout->cp_kind,
                     (int64_t)layout->recompute,
                     (int64_t)layout->recompute_modules,
                     (int64_t)layout->recipe};
    if (!new_grid && l->blocks != NULL && memcmp(&key, &l->block, sizeof key) == 0)
        return false;
    l->block = key;
    l->blocks = ff_block_store_get(l->store, layout, &l->reaches);
    return true;
}

/* ---- maps ---- */

/* Of a list by stage: 0 when it is not one number for all; so are lists that a user gave. */
static int64_t recomputed_of(const ff_layout *layout, bool *by_stage) {
    *by_stage = layout->recompute_stages > 0;
    if (!*by_stage)
        return layout->recompute_layers;
    for (int i = 0; i < layout->recompute_stages; i++)
        if (layout->recompute_of_stage[i] != 0)
            return 0;
    *by_stage = false;
    return NOTHING_RECOMPUTED;
}

/* False when the map is made anew each time: a split that the user gave, or counts by stage. */
static bool map_key_of(const ff_levels *l, const ff_layout *layout, map_key *key) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    bool whole = layout->recompute == FF_RECOMPUTE_FULL, by_stage = false;
    *key = (map_key){.pp = layout->pp,
                     .vpp = layout->vpp,
                     .chunks = layout->chunks,
                     .placement = ff_schedule_position(&shape, 0, shape.chunks - 1),
                     .whole = whole,
                     .recomputed = whole ? recomputed_of(layout, &by_stage) : 0,
                     .apart = ff_schedule_splits(&shape)};
    return (layout->given & l->split_bit) == 0 && !by_stage;
}

static map_entry **bucket_of(const ff_levels *l, const map_key *key) {
    int64_t mixed = key->pp * 131 + key->vpp * 31 + key->recomputed * 7 + key->whole + key->apart;
    return &l->maps[(uint64_t)mixed % MAP_BUCKETS];
}

static const ff_stage_map *find_map(const ff_levels *l, const map_key *key) {
    for (const map_entry *e = *bucket_of(l, key); e != NULL; e = e->next)
        if (memcmp(&e->key, key, sizeof *key) == 0)
            return e->map;
    return NULL;
}

static const ff_stage_map *make_map(ff_levels *l, const ff_layout *layout, const map_key *key,
                                    bool kept) {
    ff_stage_map *map = ff_stage_map_make(l->arena, l->cost->model, layout, key->apart);
    if (kept) {
        map_entry *e = FF_ARENA_NEW(l->arena, map_entry), **bucket = bucket_of(l, key);
        *e = (map_entry){*key, map, *bucket};
        *bucket = e;
    }
    return map;
}

static const ff_stage_map *map_of(ff_levels *l, const ff_layout *layout, const map_key *key,
                                  bool kept) {
    const ff_stage_map *map = kept ? find_map(l, key) : NULL;
    return map != NULL ? map : make_map(l, layout, key, kept);
}

/* The classes without recomputation. */
static const ff_stage_map *split_of(ff_levels *l, const ff_layout *layout, map_key key, bool kept) {
    key.whole = key.recomputed = key.apart = 0;
    const ff_stage_map *split = kept ? find_map(l, &key) : NULL;
    if (split != NULL)
        return split;
    ff_layout bare = *layout;
    bare.recompute = FF_RECOMPUTE_NONE;
    return make_map(l, &bare, &key, kept);
}

/* ---- chunks ---- */

static void make_class(ff_levels *l, const ff_layout *layout, const ff_chunk_memory *memory,
                       ff_chunk_level *level, int index) {
    ff_class_parts *p = &level->parts[index];
    int64_t first = level->map->first_stage[index] * layout->vpp;
    p->chunks = FF_ARENA_ARRAY(l->scratch, layout->vpp, const ff_chunk_memory *);
    p->held = FF_ARENA_ARRAY(l->scratch, layout->vpp, ff_held);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        p->chunks[chunk] = &memory[level->map->content_of[first + chunk]];
}

/* Lists are short, and those of many microbatches alike. */
static const ff_peak_states *peaks_of(ff_levels *l, const ff_layout *layout) {
    ff_schedule_shape shape = ff_list_shortened(ff_schedule_shape_of(layout));
    for (const peaks_entry *e = l->peaks; e != NULL; e = e->next)
        if (ff_schedule_same_shape(&e->shape, &shape))
            return e->states;
    peaks_entry *e = FF_ARENA_NEW(l->arena, peaks_entry);
    *e = (peaks_entry){shape, FF_ARENA_ARRAY(l->arena, shape.stages, ff_peak_states), l->peaks};
    for (int32_t stage = 0; stage < shape.stages; stage++)
        e->states[stage] = ff_list_peak_states(&shape, stage, l->arena);
    l->peaks = e;
    return e->states;
}

static int32_t peak_of(const ff_peak_states *states, const ff_layout *layout,
                       const ff_class_parts *p, int64_t stage, ff_held *held) {
    if (states == NULL)
        return ff_ledger_peak(layout, p->chunks, stage, held);
    ff_chunk_hold holds[FF_PEAK_MOST_CHUNKS];
    ff_ledger_holds(layout->vpp, p->chunks, holds);
    return ff_list_peak_among(&states[stage], holds, held).chunk;
}

static ff_chunk_level make_level(ff_levels *l, const ff_layout *layout, const map_key *key,
                                 bool kept) {
    ff_stage_memory unused;
    ff_chunk_level level = {.map = map_of(l, layout, key, kept)};
    const ff_stage_map *map = level.map;
    level.split = key->whole || key->apart ? split_of(l, layout, *key, kept) : map;
    const ff_memory_blocks *blocks = ff_levels_memory_blocks(l, layout);
    ff_chunk_memory *memory = FF_ARENA_ARRAY(l->scratch, map->contents, ff_chunk_memory);
    level.parts = FF_ARENA_ARRAY(l->scratch, map->classes, ff_class_parts);
    level.transfer_bytes = ff_ledger_transfer_bytes(l->cost->model, layout, l->cost->seq);
    for (int i = 0; i < map->contents; i++)
        ff_ledger_chunk(l->cost->model, layout, blocks, &map->content[i], &memory[i]);
    const ff_peak_states *states = key->apart ? peaks_of(l, layout) : NULL;
    for (int i = 0; i < map->classes; i++) {
        ff_class_parts *p = &level.parts[i];
        make_class(l, layout, memory, &level, i);
        p->running = peak_of(states, layout, p, map->first_stage[i], p->held);
        p->held_bytes = ff_ledger_sum(layout->vpp, &(ff_ledger_fixed){0}, level.transfer_bytes,
                                      p->chunks, p->held, p->running, &unused);
    }
    return level;
}

static void clear_levels(ff_levels *l) {
    l->levels = l->at_level = 0;
    l->has_source = false;
    ff_arena_reset(l->scratch);
}

static level_source source_of(const ff_layout *l) {
    return (level_source){.pp = l->pp,
                          .vpp = l->vpp,
                          .microbatches = l->microbatches,
                          .recompute_layers = l->recompute_layers,
                          .chunks = l->chunks,
                          .schedule = l->schedule,
                          .recompute = l->recompute,
                          .given = l->given};
}

static bool is_source(const level_source *a, const level_source *b) {
    return a->pp == b->pp && a->vpp == b->vpp && a->microbatches == b->microbatches &&
           a->recompute_layers == b->recompute_layers && a->chunks == b->chunks &&
           a->schedule == b->schedule && a->recompute == b->recompute && a->given == b->given;
}

/* Goes to the level of that key; the current one is looked at first. */
static bool find_level(ff_levels *l, const level_key *key) {
    for (int i = 0; i < l->levels; i++) {
        int at = (l->at_level + i) % l->levels;
        if (memcmp(&l->key[at], key, sizeof *key) != 0)
            continue;
        l->at_level = at;
        return true;
    }
    return false;
}

static void add_level(ff_levels *l, const ff_layout *layout, const level_key *key, bool kept) {
    if (l->levels == MOST_LEVELS)
        clear_levels(l);
    l->at_level = l->levels++;
    l->level[l->at_level] = make_level(l, layout, &key->map, kept);
    l->key[l->at_level] = *key;
}

static void set_chunks(ff_levels *l, const ff_layout *layout) {
    level_key key;
    level_source source = source_of(layout);
    if (l->has_source && layout->recompute_stages == 0 && is_source(&l->source, &source))
        return;
    bool kept = map_key_of(l, layout, &key.map);
    key.microbatches = layout->microbatches;
    key.schedule = kept ? layout->schedule : FOUND_BY_NONE;
    if (!kept || !find_level(l, &key))
        add_level(l, layout, &key, kept);
    l->has_source = kept && layout->recompute_stages == 0;
    l->source = source;
}

/* Picks the zero parts that go with the split; when a grid has had too many, the last slot is made
 * anew. */
static void set_split(ff_levels *l) {
    const ff_stage_map *split = l->level[l->at_level].split;
    if (l->grid_splits > 0 && l->grid_split[l->at_split] == split)
        return;
    for (l->at_split = 0; l->at_split < l->grid_splits; l->at_split++)
        if (l->grid_split[l->at_split] == split)
            return;
    if (l->at_split == MOST_GRID_SPLITS)
        l->at_split--;
    else
        l->grid_splits++;
    l->grid_split[l->at_split] = split;
    memset(l->zeros[l->at_split], 0, sizeof l->zeros[l->at_split]);
}

static void set_grid_and_blocks(ff_levels *l, const ff_layout *layout) {
    bool new_grid = set_grid(l, layout);
    if (set_blocks(l, layout, new_grid))
        clear_levels(l);
}

double ff_levels_least_s(ff_levels *l, const ff_layout *layout, bool recomputed) {
    set_grid_and_blocks(l, layout);
    return ff_blocks_least_s(l->store, l->blocks, layout, &l->reaches, recomputed);
}

void ff_levels_set(ff_levels *l, const ff_layout *layout) {
    set_grid_and_blocks(l, layout);
    set_chunks(l, layout);
    set_split(l);
}

/* ---- what is current ---- */

const ff_reaches *ff_levels_reaches(const ff_levels *l) {
    return &l->reaches;
}

const ff_memory_blocks *ff_levels_memory_blocks(ff_levels *l, const ff_layout *layout) {
    return ff_blocks_memory(l->store, l->blocks, layout);
}

const ff_time_blocks *ff_levels_time_blocks(ff_levels *l, const ff_layout *layout) {
    return ff_blocks_time(l->store, l->blocks, layout, &l->reaches);
}

const ff_chunk_level *ff_levels_chunks(const ff_levels *l) {
    return &l->level[l->at_level];
}

static void time_classes(ff_levels *l, const ff_layout *layout, ff_chunk_level *level) {
    const ff_stage_map *map = level->map;
    const ff_time_blocks *blocks = ff_levels_time_blocks(l, layout);
    for (int i = 0; i < map->classes; i++) {
        level->parts[i].time = ff_stage_time_start(layout);
        int64_t first = map->first_stage[i] * layout->vpp;
        for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
            ff_stage_time_add(l->cost->model, blocks, &map->content[map->content_of[first + chunk]],
                              &level->parts[i].time);
    }
}

static int64_t replicated_params(const ff_layout *layout, const ff_class_parts *p) {
    int64_t sum = 0;
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        sum = ff_add(sum, p->chunks[chunk]->params.replicated);
    return sum;
}

const ff_chunk_level *ff_levels_timed(ff_levels *l, const ff_layout *layout, bool run) {
    double scratch[3 * FF_LAYOUT_MAX_CHUNKS];
    const ff_stage_time *stages[FF_LAYOUT_MAX_CHUNKS];
    ff_chunk_level *level = &l->level[l->at_level];
    if (level->run || (level->timed && !run))
        return level;
    for (int64_t stage = 0; stage < layout->pp; stage++)
        stages[stage] = &level->parts[level->map->class_of[stage]].time;
    if (!level->timed) {
        time_classes(l, layout, level);
        ff_pipeline_least_of(layout, stages, &level->least);
        level->step_end_s =
            ff_step_end_s(l->cost, layout, &l->reaches, replicated_params(layout, level->parts));
        level->timed = true;
    }
    if (run) {
        ff_pipeline_time_of(layout, stages, ff_transfer_s(l->cost, layout, &l->reaches), l->lists,
                            scratch, &level->pipeline);
        level->run = true;
    }
    return level;
}

/* ---- ZeRO ---- */

static bool is_form(const ff_zero_parts *z, const ff_layout *layout) {
    return z->zero == layout->zero && z->weights == layout->zero3_weights &&
           z->group == layout->zero_group && z->recipe == (int)layout->recipe;
}

static ff_class_parts *class_of_stage(const ff_levels *l, int64_t stage) {
    const ff_chunk_level *level = &l->level[l->at_level];
    return &level->parts[level->map->class_of[stage]];
}

static void make_zero(ff_levels *l, const ff_layout *layout, ff_zero_parts *z) {
    const ff_stage_map *split = l->level[l->at_level].split;
    *z = (ff_zero_parts){.made = true,
                         .zero = layout->zero,
                         .weights = layout->zero3_weights,
                         .group = layout->zero_group,
                         .recipe = (int)layout->recipe};
    z->fixed = FF_ARENA_ARRAY(l->zero_scratch, split->classes, ff_ledger_fixed);
    for (int i = 0; i < split->classes; i++)
        ff_ledger_fix(l->cost->model, layout, &l->cost->profile->runtime,
                      class_of_stage(l, split->first_stage[i])->chunks, &z->fixed[i]);
}

static void time_zero(ff_levels *l, const ff_layout *layout, ff_zero_parts *z) {
    const ff_stage_map *split = l->level[l->at_level].split;
    z->timed = true;
    z->sync = FF_ARENA_ARRAY(l->zero_scratch, split->classes, ff_sync_time);
    for (int i = 0; i < split->classes; i++)
        ff_sync_time_of(l->cost, layout, &l->reaches, z->fixed[i].params,
                        ff_stage_units(layout, split->first_stage[i]), &z->sync[i]);
}

/* The last slot serves all forms beyond the others. */
const ff_zero_parts *ff_levels_zero(ff_levels *l, const ff_layout *layout, bool timed) {
    ff_zero_parts *z = l->zeros[l->at_split], *last = &z[MOST_ZERO_FORMS - 1];
    while (z < last && z->made && !is_form(z, layout))
        z++;
    if (!z->made || !is_form(z, layout))
        make_zero(l, layout, z);
    if (timed && !z->timed)
        time_zero(l, layout, z);
    return z;
}

void ff_levels_stage_memory(ff_levels *l, const ff_layout *layout, int64_t stage,
                            ff_stage_memory *memory) {
    const ff_chunk_level *level = &l->level[l->at_level];
    const ff_class_parts *p = class_of_stage(l, stage);
    ff_held held[FF_LAYOUT_MAX_CHUNKS];
    const ff_peak_states *states = level->map->apart ? peaks_of(l, layout) : NULL;
    int32_t running = peak_of(states, layout, p, stage, held);
    ff_ledger_sum(layout->vpp,
                  &ff_levels_zero(l, layout, false)->fixed[level->split->class_of[stage]],
                  level->transfer_bytes, p->chunks, held, running, memory);
}
