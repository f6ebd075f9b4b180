/* A hash table with open addressing; entries are never removed. The key holds every value that a
 * layer's list, its bytes or its seconds depend on; it is compared as bytes, so it is zeroed first. */
#include "plan/blocks.h"

#include <string.h>

typedef struct key {
    int64_t tp, cp, ep, etp, mbs, ulysses;
    int64_t sp, cp_kind, recompute, modules, recipe;
    ff_reach tp_reach, cp_reach, ep_reach, etp_reach, expert_reach;
} key;

typedef struct entry {
    key of;
    ff_blocks blocks;
} entry;

struct ff_block_store {
    ff_arena *arena;
    entry **table; /* a power of two */
    size_t capacity, used;
};

enum { FIRST_CAPACITY = 1024 };

ff_block_store *ff_block_store_create(ff_arena *arena) {
    ff_block_store *store = FF_ARENA_NEW(arena, ff_block_store);
    store->arena = arena;
    store->capacity = FIRST_CAPACITY;
    store->table = FF_ARENA_ARRAY(arena, store->capacity, entry *);
    return store;
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

static entry **slot_of(entry **table, size_t capacity, const key *k) {
    size_t at = hash_of(k) & (capacity - 1);
    while (table[at] != NULL && memcmp(&table[at]->of, k, sizeof *k) != 0)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static void grow(ff_block_store *store) {
    size_t capacity = 2 * store->capacity;
    entry **table = FF_ARENA_ARRAY(store->arena, capacity, entry *);
    for (size_t i = 0; i < store->capacity; i++)
        if (store->table[i] != NULL)
            *slot_of(table, capacity, &store->table[i]->of) = store->table[i];
    store->table = table;
    store->capacity = capacity;
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

ff_blocks *ff_block_store_get(ff_block_store *store, const ff_cost *cost,
                              const ff_program_options *options, const ff_layout *layout,
                              const ff_reaches *reaches) {
    key k = key_of(layout, reaches);
    entry **slot = slot_of(store->table, store->capacity, &k);
    if (*slot != NULL)
        return &(*slot)->blocks;
    if (2 * (store->used + 1) > store->capacity) {
        grow(store);
        slot = slot_of(store->table, store->capacity, &k);
    }
    entry *made = FF_ARENA_NEW(store->arena, entry);
    made->of = k;
    ff_memory_blocks_build(cost->model, layout, options, &made->blocks.memory);
    store->used++;
    *slot = made;
    return &made->blocks;
}

void ff_blocks_time(ff_blocks *blocks, const ff_cost *cost, const ff_layout *layout,
                    const ff_reaches *reaches) {
    if (blocks->timed)
        return;
    ff_time_blocks_build(cost, layout, reaches, &blocks->time);
    blocks->timed = true;
}
