/* See store.h. Spare blocks are found by their exact size: a step asks for the same sizes again. */
#include "engine/store.h"

#include <stdlib.h>
#include <string.h>

struct ff_block {
    ff_block *next, *before;
    const char *name;
    int64_t elements;
    ff_store_kind kind;
} __attribute__((aligned(64)));

static ff_block *block_of(const real *numbers) {
    return (ff_block *)(uintptr_t)((const char *)numbers - sizeof(ff_block));
}

static int64_t bytes_of(const ff_block *block) {
    return block->elements * (int64_t)sizeof(real);
}

static void count(ff_store *store, ff_store_kind kind, int64_t bytes) {
    store->now_bytes[kind] += bytes;
    if (store->now_bytes[kind] > store->peak_bytes[kind])
        store->peak_bytes[kind] = store->now_bytes[kind];
    int64_t activations = store->now_bytes[FF_STORE_KEPT] + store->now_bytes[FF_STORE_LOSS] +
                          store->now_bytes[FF_STORE_WORKING];
    if (activations > store->peak_activations_bytes)
        store->peak_activations_bytes = activations;
}

static ff_block *reuse(ff_store *store, int64_t elements) {
    for (ff_block **at = &store->spare; *at != NULL; at = &(*at)->next) {
        ff_block *block = *at;
        if (block->elements != elements)
            continue;
        *at = block->next;
        return block;
    }
    size_t bytes = (size_t)elements * sizeof(real);
    ff_block *block = aligned_alloc(64, sizeof(ff_block) + (bytes + 63) / 64 * 64);
    if (block == NULL)
        abort();
    return block;
}

real *ff_store_take(ff_store *store, ff_store_kind kind, int64_t elements, const char *name) {
    ff_block *block = reuse(store, elements);
    *block = (ff_block){.next = store->live, .name = name, .elements = elements, .kind = kind};
    if (store->live != NULL)
        store->live->before = block;
    store->live = block;
    count(store, kind, bytes_of(block));
    return (real *)(block + 1);
}

void ff_store_give(ff_store *store, real *numbers) {
    if (numbers == NULL)
        return;
    ff_block *block = block_of(numbers);
    count(store, block->kind, -bytes_of(block));
    if (store->poison)
        memset(numbers, 0xff, (size_t)bytes_of(block));
    if (block->before != NULL)
        block->before->next = block->next;
    else
        store->live = block->next;
    if (block->next != NULL)
        block->next->before = block->before;
    block->next = store->spare;
    store->spare = block;
}

void ff_store_move(ff_store *store, real *numbers, ff_store_kind kind) {
    ff_block *block = block_of(numbers);
    count(store, block->kind, -bytes_of(block));
    block->kind = kind;
    count(store, kind, bytes_of(block));
}

int64_t ff_store_elements(const real *numbers) {
    return block_of(numbers)->elements;
}

const char *ff_store_leak(const ff_store *store) {
    for (const ff_block *b = store->live; b != NULL; b = b->next)
        if (b->kind == FF_STORE_KEPT || b->kind == FF_STORE_LOSS || b->kind == FF_STORE_WORKING)
            return b->name;
    return NULL;
}

static void free_list(ff_block *block) {
    while (block != NULL) {
        ff_block *next = block->next;
        free(block);
        block = next;
    }
}

void ff_store_free(ff_store *store) {
    free_list(store->live);
    free_list(store->spare);
    *store = (ff_store){0};
}

const char *ff_store_kind_name(ff_store_kind kind) {
    static const char *const names[FF_STORE_KINDS] = {
        "weights", "gradients",        "optimizer",        "activations",
        "loss",    "gathered weights", "gradient buckets", "pipeline transfers",
        "working", "communication",    "kernel scratch"};
    return names[kind];
}

void *ff_engine_array(int64_t count, size_t bytes) {
    void *array = calloc((size_t)(count > 0 ? count : 1), bytes);
    if (array == NULL)
        abort();
    return array;
}

void *ff_engine_grow(void *array, int64_t count, size_t bytes) {
    void *grown = realloc(array, (size_t)count * bytes);
    if (grown == NULL)
        abort();
    return grown;
}
