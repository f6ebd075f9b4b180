#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks double from the first to the largest: small lists stay small. */
enum { FIRST_BYTES = 1024, LARGEST_BYTES = 64 * 1024, ALIGNMENT = 16 };

typedef struct block {
    struct block *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) unsigned char bytes[];
} block;

struct ff_arena {
    block *head;
};

static void *allocate_or_abort(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        abort();
    return memory;
}

ff_arena *ff_arena_create(void) {
    return allocate_or_abort(sizeof(ff_arena));
}

void ff_arena_free(ff_arena *arena) {
    if (arena == NULL)
        return;
    for (block *b = arena->head; b != NULL;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(arena);
}

void ff_arena_reset(ff_arena *arena) {
    block *kept = arena->head;
    if (kept == NULL)
        return;
    for (block *b = kept->next; b != NULL;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    kept->next = NULL;
    memset(kept->bytes, 0, kept->used);
    kept->used = 0;
}

static block *block_with_room(ff_arena *arena, size_t bytes) {
    block *head = arena->head;
    if (head != NULL && head->capacity - head->used >= bytes)
        return head;
    size_t capacity = head == NULL ? FIRST_BYTES : 2 * head->capacity;
    capacity = capacity > LARGEST_BYTES ? LARGEST_BYTES : capacity;
    capacity = bytes > capacity ? bytes : capacity;
    block *fresh = allocate_or_abort(sizeof(block) + capacity);
    fresh->capacity = capacity;
    fresh->next = head;
    arena->head = fresh;
    return fresh;
}

void *ff_arena_alloc(ff_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        abort();
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *b = block_with_room(arena, rounded == 0 ? ALIGNMENT : rounded);
    void *result = b->bytes + b->used;
    b->used += rounded == 0 ? ALIGNMENT : rounded;
    return result;
}

void *ff_arena_alloc_array(ff_arena *arena, size_t count, size_t element_bytes) {
    size_t bytes;
    if (__builtin_mul_overflow(count, element_bytes, &bytes))
        abort();
    return ff_arena_alloc(arena, bytes);
}

char *ff_arena_copy(ff_arena *arena, const char *text, size_t length) {
    char *copy = ff_arena_alloc(arena, length + 1);
    if (length > 0)
        memcpy(copy, text, length);
    return copy;
}

char *ff_arena_vprintf(ff_arena *arena, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0)
        abort();
    char *text = ff_arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *ff_arena_printf(ff_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = ff_arena_vprintf(arena, format, arguments);
    va_end(arguments);
    return text;
}
