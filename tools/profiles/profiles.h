/* Published rows by stack and source, and the search for a stack's constants. */
#ifndef PROFILES_H
#define PROFILES_H

#include "validate/score.h"
#include <stdbool.h>
#include <stdio.h>

enum { MOST_STACKS = 16, MOST_SOURCES = 32 };

/* Timed rows of one stack; a row's case holds its model, cluster and layouts. */
typedef struct stack_rows {
    char name[64];
    const char *source[MOST_SOURCES];
    int sources;
    ff_row **row;
    ff_case **c;
    int *source_of;
    int rows, room;
} stack_rows;

typedef struct published {
    ff_arena *arena;
    ff_validate_library library;
    stack_rows stack[MOST_STACKS];
    int stacks;
} published;

void published_read(published *all, char **files, int count);
void published_free(published *all);

typedef struct score {
    int rows;
    double median, mean;
} score;
typedef struct totals {
    int count;
    score in, out;
} totals;
void add_total(totals *sum, score in, score out);

const ff_profile *stack_profile(const char *name);
int source_rows(const stack_rows *stack, int source);
/* Rows of the other sources that have at least `least`. */
int stack_sources_beside(const stack_rows *stack, int source, int least);
score score_source(stack_rows *stack, int source, const ff_profile *profile);
/* All rows, each source's alike. */
score score_stack(stack_rows *stack, const ff_profile *profile);

/* Copies the numbers, not the kernels. */
void take_constants(ff_profile *to, const ff_profile *from);
/* Fits to every source but `left_out` (-1: none), from neutral constants. */
void fit_constants(stack_rows *stack, int left_out, ff_profile *profile);
void print_constants(const ff_profile *before, const ff_profile *after);

#endif
