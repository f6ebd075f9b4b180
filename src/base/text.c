#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(ff_text *text, size_t more) {
    size_t needed = text->length + more + 1;
    if (needed <= text->capacity)
        return;
    size_t capacity = text->capacity == 0 ? 256 : text->capacity;
    while (capacity < needed)
        capacity *= 2;
    text->bytes = realloc(text->bytes, capacity);
    if (text->bytes == NULL)
        abort();
    text->capacity = capacity;
}

void ff_text_append_bytes(ff_text *text, const char *more, size_t length) {
    reserve(text, length);
    if (length > 0)
        memcpy(text->bytes + text->length, more, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void ff_text_append(ff_text *text, const char *more) {
    ff_text_append_bytes(text, more, strlen(more));
}

void ff_text_printf(ff_text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        abort();
    reserve(text, (size_t)length);
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, again);
    va_end(again);
    text->length += (size_t)length;
}

void ff_text_repeat(ff_text *text, char byte, int count) {
    for (int i = 0; i < count; i++)
        ff_text_append_bytes(text, &byte, 1);
}

const char *ff_text_bytes(const ff_text *text) {
    return text->bytes == NULL ? "" : text->bytes;
}

void ff_text_free(ff_text *text) {
    free(text->bytes);
    *text = (ff_text){0};
}

static const char *skip_colour(const char *c) {
    while (c[0] == '\033' && c[1] == '[') {
        c += 2;
        while (*c != '\0' && *c != 'm')
            c++;
        if (*c == 'm')
            c++;
    }
    return c;
}

int ff_text_columns(const char *text) {
    int columns = 0;
    for (const char *c = skip_colour(text); *c != '\0'; c = skip_colour(c + 1))
        if (((unsigned char)*c & 0xC0) != 0x80)
            columns++;
    return columns;
}

int ff_edit_distance(const char *a, const char *b) {
    enum { LONGEST = 63 };
    int rows = (int)strnlen(a, LONGEST), columns = (int)strnlen(b, LONGEST);
    int cost[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= rows; i++)
        cost[i][0] = i;
    for (int j = 0; j <= columns; j++)
        cost[0][j] = j;
    for (int i = 1; i <= rows; i++) {
        for (int j = 1; j <= columns; j++) {
            int best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (cost[i - 1][j] + 1 < best)
                best = cost[i - 1][j] + 1;
            if (cost[i][j - 1] + 1 < best)
                best = cost[i][j - 1] + 1;
            int swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && cost[i - 2][j - 2] + 1 < best)
                best = cost[i - 2][j - 2] + 1;
            cost[i][j] = best;
        }
    }
    return cost[rows][columns];
}

int ff_nearest_word(const char *word, const char *const *words, int count) {
    int best = -1, best_distance = 1 + (int)strnlen(word, 63) / 3;
    for (int i = 0; i < count; i++) {
        int distance = ff_edit_distance(word, words[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    return best;
}

void ff_copy_text(char *to, size_t to_bytes, const char *from) {
    snprintf(to, to_bytes, "%s", from);
}
