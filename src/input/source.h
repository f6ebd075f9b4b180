/* A text as lines: which bytes it may hold, and the place of any byte of it.
 *
 * One copy of the text serves every place: its newlines become NUL, so that a line is a string
 * inside it. Columns count characters (UTF-8 code points) from 1, a tab is one. */
#ifndef FF_INPUT_SOURCE_H
#define FF_INPUT_SOURCE_H

#include "base/arena.h"
#include "base/diagnose.h"
#include <stddef.h>

typedef struct ff_source {
    const char *file;
    const char *text; /* after a byte-order mark */
    size_t length;
    const char *lines; /* the copy; NUL where a line ends */
    /* Where the last place was: places are asked for nearly in order, so that a file of one long
     * line costs no more than one of many short ones. */
    size_t at, line_start;
    int line, column;
} ff_source;

/* False, with a finding, when the text is too long, holds bytes that no text file has (invalid
 * UTF-8, NUL, control characters), or more punctuation than 100,000 values need. */
bool ff_source_open(ff_source *source, ff_arena *arena, const char *file, const char *text,
                    size_t length, ff_diagnostics *findings);

/* The place of bytes [begin, end), cut at the end of begin's line. */
ff_place ff_source_place(ff_source *source, size_t begin, size_t end);
/* The place at a line and column counted from 1, as a parser reports them. */
ff_place ff_source_place_at(ff_source *source, int line, int column);

enum { FF_INPUT_MAX_BYTES = 16 << 20, FF_INPUT_MAX_DEPTH = 64, FF_INPUT_MAX_VALUES = 100000 };

#endif
