/* Parts of the fitting tool: tables of measurements, a minimiser, error statistics. */
#ifndef FIT_H
#define FIT_H

#include <stdbool.h>
#include <stdio.h>

/* ---- a table of comma-separated values with a heading ---- */

enum { MOST_COLUMNS = 24 };
typedef struct table {
    char *text; /* the file, cut into fields in place */
    char *heading[MOST_COLUMNS];
    char **field; /* rows * columns */
    int columns, rows;
} table;

table table_read(const char *file_name);
const char *table_text(const table *t, int row, const char *column);
/* NAN when the field is empty. */
double table_number(const table *t, int row, const char *column);
void table_free(table *t);

/* ---- least mean loss by Nelder and Mead's simplex, inside bounds ---- */

enum { MOST_PARAMETERS = 16 };
typedef struct parameter {
    const char *key; /* in the data file, with its unit */
    double start, least, most;
    bool fixed; /* stays at `start` */
} parameter;

/* `x` gets one value for every parameter; several starts, always the same ones. */
double minimise(double (*loss)(const double *x, const void *context), const void *context,
                const parameter *parameters, int count, int starts, int steps, double *x);

/* ---- errors of a fit ---- */

typedef struct errors {
    int points;
    double median, p90, worst; /* |predicted/measured - 1| */
} errors;
errors errors_of(double *absolute_errors, int count);

/* Every fifth point is held out, by a hash of its identity: the same points on every run. */
bool held_out(unsigned identity);

/* Four significant digits, as short as they can be written. */
void write_value(FILE *out, int indent, const char *key, double value);
void write_parameters(FILE *out, int indent, const parameter *parameters, int count,
                      const double *x);
void write_errors(FILE *out, int indent, const char *name, errors e);

/* ---- the three fits ---- */

void fit_gemm(const table *measured, FILE *out, FILE *report);
void fit_attention(const table *measured, FILE *out, FILE *report);
void fit_collectives(const table *measured, FILE *out, FILE *report);

#endif
