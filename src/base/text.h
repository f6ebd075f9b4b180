/* Small helpers on text: growing strings and the nearest of a list of words. */
#ifndef FF_BASE_TEXT_H
#define FF_BASE_TEXT_H

#include "fivefold/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string that grows; freed with ff_text_free, or handed on as `bytes` (NUL-terminated). */
typedef struct ff_text {
    char *bytes;
    size_t length, capacity;
} ff_text;

void ff_text_append(ff_text *text, const char *more);
void ff_text_append_bytes(ff_text *text, const char *more, size_t length);
void ff_text_printf(ff_text *text, const char *format, ...) FF_PRINTF(2, 3);
void ff_text_repeat(ff_text *text, char byte, int count);
/* Never NULL, also for a text that nothing was appended to. */
const char *ff_text_bytes(const ff_text *text);
void ff_text_free(ff_text *text);

/* Columns that a UTF-8 text takes on a terminal, ANSI colour sequences not counted. Every code
 * point of the texts printed here is one column wide. */
int ff_text_columns(const char *text);

/* Edits (insert, delete, replace, swap neighbours) between two words; long words are cut at 63. */
int ff_edit_distance(const char *a, const char *b);

/* Index of the word nearest to `word`, or -1 when none is near enough to be a slip of the pen
 * (more than a third of its letters differ). */
int ff_nearest_word(const char *word, const char *const *words, int count);

/* Copies with truncation; always terminated. */
void ff_copy_text(char *to, size_t to_bytes, const char *from);

#endif
