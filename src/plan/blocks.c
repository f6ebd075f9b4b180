/* A hash table with open addressing. A large search makes more blocks than are worth keeping: when
 * the table is full it is emptied, and what comes again is made again. The key holds every value that a
 * layer's list, its bytes or its seconds depend on; it is compared as bytes, so it is zeroed first. */
#include "plan/blocks.h"

#include <math.h>
#include <string.h>

typedef struct key {
    int64_t tp, cp, ep, etp, mbs, ulysses;
    int64_t sp, cp_kind, recompute, modules, recipe;
    ff_reach tp_reach, cp_reach, ep_reach, etp_reach, expert_reach;
} key;

struct ff_blocks {
    key of;
    ff_memory_blocks *memory; /* these two: NULL, not made yet */
    ff_time_blocks *time;
    double least_s[2]; /* none, all recomputed; 0: not made yet */
};

enum { CAPACITY = 1 << 18, MOST_ENTRIES = CAPACITY / 2 };

struct ff_block_store {
    const ff_cost *cost;
    const ff_program_options *options;
    ff_chunk_content whole[2]; /* the model, none and all of its layers recomputed */
    ff_arena *arena;           /* of the blocks */
    ff_blocks **table;         /* [CAPACITY] */
    size_t used;
};

static ff_chunk_content whole_model(const ff_model *model, bool recomputed) {
    ff_chunk_content all = {.layers = model->layers, .embedding = true, .head = true};
    for (int i = 0; i < model->layers; i++) {
        all.of_kind[model->layer_kind[i]]++;
        all.recomputed_of_kind[model->layer_kind[i]] += recomputed;
    }
    return all;
}

ff_block_store *ff_block_store_create(ff_arena *arena, const ff_cost *cost,
                                      const ff_program_options *options) {
    ff_block_store *store = FF_ARENA_NEW(arena, ff_block_store);
    store->cost = cost;
    store->options = options;
    store->whole[0] = whole_model(cost->model, false);
    store->whole[1] = whole_model(cost->model, true);
    store->arena = ff_arena_create();
    store->table = FF_ARENA_ARRAY(arena, CAPACITY, ff_blocks *);
    return store;
}

void ff_block_store_free(ff_block_store *store) {
    ff_arena_free(store->arena);
}

static uint64_t hash_of(const key *k) {
    const int64_t *words = (const int64_t *)k;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < sizeof *k / sizeof *words; i++) {
        hash ^= (uint64_t)words[i];
        hash *= UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    return hash;
}

static ff_blocks **slot_of(const ff_block_store *store, const key *k) {
    size_t at = hash_of(k) & (CAPACITY - 1);
    while (store->table[at] != NULL && memcmp(&store->table[at]->of, k, sizeof *k) != 0)
        at = (at + 1) & (CAPACITY - 1);
    return &store->table[at];
}

static void empty(ff_block_store *store) {
    ff_arena_free(store->arena);
    store->arena = ff_arena_create();
    memset(store->table, 0, CAPACITY * sizeof *store->table);
    store->used = 0;
}

static key key_of(const ff_layout *l, const ff_reaches *reaches) {
    key k;
    memset(&k, 0, sizeof k);
    k.tp = l->tp;
    k.cp = l->cp;
    k.ep = l->ep;
    k.etp = l->etp;
    k.mbs = l->mbs;
    k.ulysses = l->ulysses;
    k.sp = l->sp;
    k.cp_kind = (int64_t)l->cp_kind;
    k.recompute = (int64_t)l->recompute;
    k.modules = (int64_t)l->recompute_modules;
    k.recipe = (int64_t)l->recipe;
    k.tp_reach = reaches->tp;
    k.cp_reach = reaches->cp;
    k.ep_reach = reaches->ep;
    k.etp_reach = reaches->etp;
    k.expert_reach = reaches->expert;
    return k;
}

ff_blocks *ff_block_store_get(ff_block_store *store, const ff_layout *layout,
                              const ff_reaches *reaches) {
    key k = key_of(layout, reaches);
    ff_blocks **slot = slot_of(store, &k);
    if (*slot != NULL)
        return *slot;
    if (store->used == MOST_ENTRIES) {
        empty(store);
        slot = slot_of(store, &k);
    }
    ff_blocks *made = FF_ARENA_NEW(store->arena, ff_blocks);
    made->of = k;
    store->used++;
    *slot = made;
    return made;
}

const ff_memory_blocks *ff_blocks_memory(ff_block_store *store, ff_blocks *blocks,
                                         const ff_layout *layout) {
    if (blocks->memory == NULL) {
        blocks->memory = FF_ARENA_NEW(store->arena, ff_memory_blocks);
        ff_memory_blocks_build(store->cost->model, layout, store->options, blocks->memory);
    }
    return blocks->memory;
}

const ff_time_blocks *ff_blocks_time(ff_block_store *store, ff_blocks *blocks,
                                     const ff_layout *layout, const ff_reaches *reaches) {
    if (blocks->time == NULL) {
        blocks->time = FF_ARENA_NEW(store->arena, ff_time_blocks);
        ff_time_blocks_build(store->cost, layout, reaches, blocks->time);
    }
    return blocks->time;
}

static double whole_s(const ff_block_store *store, const ff_time_blocks *time, int recomputed,
                      bool splits) {
    ff_stage_time sum = {.share = 1, .splits = splits};
    ff_stage_time_add(store->cost->model, time, &store->whole[recomputed], &sum);
    return sum.forward_s + sum.backward_s;
}

/* A split backward may save what hiding communication costs. */
double ff_blocks_least_s(ff_block_store *store, ff_blocks *blocks, const ff_layout *layout,
                         const ff_reaches *reaches, bool recomputed) {
    if (blocks->least_s[recomputed] > 0)
        return blocks->least_s[recomputed];
    ff_time_blocks own;
    const ff_time_blocks *time = blocks->time;
    if (time == NULL) {
        ff_time_blocks_build(store->cost, layout, reaches, &own);
        time = &own;
    }
    for (int all = 0; all < 2; all++)
        blocks->least_s[all] =
            fmin(whole_s(store, time, all, false), whole_s(store, time, all, true));
    return blocks->least_s[recomputed];
}
