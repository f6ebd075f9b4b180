/* Memory of one result: allocated piecemeal, freed at once.
 *
 *     arena -> [block 2 KiB | used ..] -> [block 1 KiB | used] -> NULL
 *
 * Every input is bounded (16 MiB of text, 100,000 nodes), so a plan needs little memory; when the
 * system has none left, allocation aborts the process: no caller could go on.
 * Invariants: what is returned is aligned to 16 bytes and zeroed; it is valid until ff_arena_free.
 */
#ifndef FF_BASE_ARENA_H
#define FF_BASE_ARENA_H

#include "fivefold/status.h"
#include <stdarg.h>
#include <stddef.h>

typedef struct ff_arena ff_arena;

ff_arena *ff_arena_create(void);
void ff_arena_free(ff_arena *arena);
/* Forgets everything allocated; keeps a block, so that filling it again costs no system call. */
void ff_arena_reset(ff_arena *arena);

void *ff_arena_alloc(ff_arena *arena, size_t bytes);
void *ff_arena_alloc_array(ff_arena *arena, size_t count, size_t element_bytes);
#define FF_ARENA_NEW(arena, type) ((type *)ff_arena_alloc((arena), sizeof(type)))
#define FF_ARENA_ARRAY(arena, count, type)                                                         \
    ((type *)ff_arena_alloc_array((arena), (size_t)(count), sizeof(type)))

char *ff_arena_copy(ff_arena *arena, const char *text, size_t length);
char *ff_arena_printf(ff_arena *arena, const char *format, ...) FF_PRINTF(2, 3);
char *ff_arena_vprintf(ff_arena *arena, const char *format, va_list arguments);

#endif
