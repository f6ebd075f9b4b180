/* Tables: aligned columns that fit the look.
 *
 * Too wide a table first gives up its optional columns, those with the lowest `keep` first. What is
 * still too wide is taken from the one column that may `flow`: its texts are wrapped at blanks; a
 * text without blanks (a layout) that is wider than the column gets a line of its own, the other
 * cells follow below:
 *
 *     #  layout                        s/step   peak memory
 *     1  dp=16,tp=4,pp=2,zero=1          8.91      63.2 GiB
 *     2  dp=16,tp=4,pp=2,zero=1,vpp=4,recompute=selective:core+mlp
 *                                        9.06      58.0 GiB
 *
 * Invariant: no line is wider than the look, except for a word that is itself wider. */
#ifndef FF_OUTPUT_TABLE_H
#define FF_OUTPUT_TABLE_H

#include "base/text.h"
#include "output/lines.h"

enum { FF_TABLE_COLUMNS = 24, FF_KEEP_ALWAYS = 0 };

typedef struct ff_table_column {
    const char *heading;
    bool right; /* numbers */
    int keep;   /* FF_KEEP_ALWAYS, or the rank in which it is kept: 1 goes first */
    bool flow;  /* at most one */
} ff_table_column;

typedef struct ff_table ff_table;
ff_table *ff_table_create(int indent, const ff_look *look);
void ff_table_free(ff_table *table);
/* All columns before the first cell. */
void ff_table_add_column(ff_table *table, ff_table_column column);
/* Wraps the flowing column before columns that are kept in a higher rank than this are dropped (0:
 * before any), for tables whose text or numbers are the point. */
void ff_table_flow_after(ff_table *table, int keep);
/* The next cell, row by row, made safe and painted. */
void ff_table_cell(ff_table *table, const char *text, ff_paint paint);
/* A cell that is printed as it stands (a bar). */
void ff_table_cell_raw(ff_table *table, const char *text);
/* Prints; returns how many columns had to go. Without any row nothing is printed. */
int ff_table_print(ff_table *table, ff_text *out);

#endif
