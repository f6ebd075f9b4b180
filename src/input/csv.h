/* Tables of text (RFC 4180): fields apart by commas, records by line breaks, quotes around a field
 * that holds either, a quote in it doubled. Pure: the caller passes the text.
 *
 *     a,b          line 1: the heading, one record like any other
 *     1,"x, ""y"""  -> {"1", "x, \"y\""}
 *
 * Every record must have as many fields as the first. Line feeds may follow carriage returns; a
 * byte order mark and a missing last line break are accepted; blank lines are left out. */
#ifndef FF_INPUT_CSV_H
#define FF_INPUT_CSV_H

#include "base/arena.h"
#include "base/diagnose.h"

enum { FF_CSV_MOST_COLUMNS = 256, FF_CSV_MOST_ROWS = 1000000 };

typedef struct ff_csv {
    const char *file;
    int columns, rows;       /* the heading is row 0 */
    const char *const *cell; /* rows x columns, in the arena */
    const int *line;         /* where each row begins */
} ff_csv;

/* FF_INVALID with FF0111, FF0112 or FF0113 when the text is no table. */
ff_status ff_csv_read(ff_arena *arena, const char *file, const char *text, size_t length,
                      ff_diagnostics *findings, ff_csv *csv);
const char *ff_csv_at(const ff_csv *csv, int row, int column);

#endif
