/* Reading tables, minimising, writing: what the three fits share. */
#include "fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *what, const char *detail) {
    fprintf(stderr, "fit_kernels: %s: %s\n", what, detail);
    exit(1);
}

static char *read_whole(const char *file_name) {
    FILE *file = fopen(file_name, "rb");
    if (file == NULL)
        fail("cannot open", file_name);
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text == NULL || fread(text, 1, (size_t)length, file) != (size_t)length)
        fail("cannot read", file_name);
    text[length] = '\0';
    fclose(file);
    return text;
}

/* Cuts one field off, quotes and all; moves *at past its comma or line end. */
static char *cut_field(char **at, bool *line_ends) {
    char *in = *at, *out = in, *start = in;
    bool quoted = false;
    for (; *in != '\0' && (quoted || (*in != ',' && *in != '\n')); in++) {
        if (*in == '"' && quoted && in[1] == '"')
            *out++ = *in++;
        else if (*in == '"')
            quoted = !quoted;
        else if (*in != '\r')
            *out++ = *in;
    }
    *line_ends = *in != ',';
    *at = *in == '\0' ? in : in + 1;
    *out = '\0';
    return start;
}

table table_read(const char *file_name) {
    table t = {.text = read_whole(file_name)};
    char *at = t.text;
    bool line_ends = false;
    while (!line_ends && t.columns < MOST_COLUMNS)
        t.heading[t.columns++] = cut_field(&at, &line_ends);
    int room = 0;
    while (*at != '\0') {
        if ((t.rows + 1) * t.columns > room) {
            room = 2 * room + 1024 * t.columns;
            t.field = realloc(t.field, (size_t)room * sizeof *t.field);
            if (t.field == NULL)
                fail("no memory for", file_name);
        }
        line_ends = false;
        for (int i = 0; i < t.columns; i++)
            t.field[t.rows * t.columns + i] = line_ends ? (char *)"" : cut_field(&at, &line_ends);
        t.rows++;
    }
    return t;
}

const char *table_text(const table *t, int row, const char *column) {
    for (int i = 0; i < t->columns; i++)
        if (strcmp(t->heading[i], column) == 0)
            return t->field[row * t->columns + i];
    fail("the table has no column", column);
}

double table_number(const table *t, int row, const char *column) {
    const char *text = table_text(t, row, column);
    char *end;
    double value = strtod(text, &end);
    return end == text ? NAN : value;
}

void table_free(table *t) {
    free(t->field);
    free(t->text);
}

/* ---- minimiser: parameters between their bounds are a logistic curve of free coordinates ---- */

typedef struct problem {
    double (*loss)(const double *x, const void *context);
    const void *context;
    const parameter *parameters;
    int count, free_count;
} problem;

static void to_values(const problem *p, const double *free_x, double *x) {
    for (int i = 0, j = 0; i < p->count; i++) {
        const parameter *q = &p->parameters[i];
        x[i] = q->fixed ? q->start : q->least + (q->most - q->least) / (1 + exp(-free_x[j++]));
    }
}

static double loss_at(const problem *p, const double *free_x) {
    double x[MOST_PARAMETERS];
    to_values(p, free_x, x);
    return p->loss(x, p->context);
}

static void begin(const problem *p, double *free_x, unsigned *state, bool moved) {
    for (int i = 0, j = 0; i < p->count; i++) {
        const parameter *q = &p->parameters[i];
        if (q->fixed)
            continue;
        double share = (q->start - q->least) / (q->most - q->least);
        share = fmin(fmax(share, 0.002), 0.998);
        *state = *state * 1664525u + 1013904223u;
        double shift = moved ? (double)(*state >> 8) / (1 << 24) * 2 - 1 : 0;
        free_x[j++] = log(share / (1 - share)) + shift;
    }
}

typedef struct simplex {
    double x[MOST_PARAMETERS + 1][MOST_PARAMETERS], f[MOST_PARAMETERS + 1];
    int n, best, worst, second;
} simplex;

static void order(simplex *s) {
    s->best = s->worst = 0;
    for (int i = 0; i <= s->n; i++) {
        s->best = s->f[i] < s->f[s->best] ? i : s->best;
        s->worst = s->f[i] > s->f[s->worst] ? i : s->worst;
    }
    s->second = s->best;
    for (int i = 0; i <= s->n; i++)
        if (i != s->worst && s->f[i] > s->f[s->second])
            s->second = i;
}

/* The point at `at` times the way from the worst corner through the middle of the others. */
static double try_point(const problem *p, const simplex *s, double at, double *x) {
    for (int j = 0; j < s->n; j++) {
        double middle = 0;
        for (int i = 0; i <= s->n; i++)
            middle += i == s->worst ? 0 : s->x[i][j] / s->n;
        x[j] = s->x[s->worst][j] + at * (middle - s->x[s->worst][j]);
    }
    return loss_at(p, x);
}

static void replace(simplex *s, const double *x, double f) {
    memcpy(s->x[s->worst], x, sizeof s->x[0]);
    s->f[s->worst] = f;
}

static void shrink(const problem *p, simplex *s) {
    for (int i = 0; i <= s->n; i++) {
        if (i == s->best)
            continue;
        for (int j = 0; j < s->n; j++)
            s->x[i][j] = 0.5 * (s->x[i][j] + s->x[s->best][j]);
        s->f[i] = loss_at(p, s->x[i]);
    }
}

static void step(const problem *p, simplex *s) {
    double mirrored[MOST_PARAMETERS] = {0}, other[MOST_PARAMETERS] = {0};
    order(s);
    double f = try_point(p, s, 2, mirrored);
    if (f < s->f[s->best]) {
        double further = try_point(p, s, 3, other);
        replace(s, further < f ? other : mirrored, fmin(f, further));
    } else if (f < s->f[s->second]) {
        replace(s, mirrored, f);
    } else {
        double nearer = try_point(p, s, 0.5, other);
        if (nearer < s->f[s->worst])
            replace(s, other, nearer);
        else
            shrink(p, s);
    }
}

static double descend(const problem *p, double *x, int steps) {
    simplex s = {.n = p->free_count};
    for (int i = 0; i <= s.n; i++) {
        memcpy(s.x[i], x, sizeof s.x[0]);
        if (i > 0)
            s.x[i][i - 1] += i % 2 == 0 ? 0.7 : -0.7;
        s.f[i] = loss_at(p, s.x[i]);
    }
    for (int i = 0; i < steps; i++)
        step(p, &s);
    order(&s);
    memcpy(x, s.x[s.best], sizeof s.x[0]);
    return s.f[s.best];
}

double minimise(double (*loss)(const double *x, const void *context), const void *context,
                const parameter *parameters, int count, int starts, int steps, double *x) {
    enum { RESTARTS = 4 };
    problem p = {loss, context, parameters, count, 0};
    for (int i = 0; i < count; i++)
        p.free_count += parameters[i].fixed ? 0 : 1;
    double best = INFINITY, best_x[MOST_PARAMETERS] = {0};
    unsigned state = 1;
    for (int i = 0; i < starts; i++) {
        double free_x[MOST_PARAMETERS] = {0}, f = INFINITY;
        begin(&p, free_x, &state, i > 0);
        for (int j = 0; j < RESTARTS; j++)
            f = descend(&p, free_x, steps);
        if (f < best) {
            best = f;
            memcpy(best_x, free_x, sizeof best_x);
        }
    }
    to_values(&p, best_x, x);
    return best;
}

/* ---- errors and output ---- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

errors errors_of(double *absolute_errors, int count) {
    if (count == 0)
        return (errors){0};
    qsort(absolute_errors, (size_t)count, sizeof *absolute_errors, ascending);
    return (errors){count, absolute_errors[count / 2], absolute_errors[count * 9 / 10],
                    absolute_errors[count - 1]};
}

bool held_out(unsigned identity) {
    return (identity * 2654435761u >> 20) % 5 == 0;
}

void write_value(FILE *out, int indent, const char *key, double value) {
    fprintf(out, "%*s%s: %.4g\n", indent, "", key, fabs(value) < 1e-9 ? 0 : value);
}

void write_parameters(FILE *out, int indent, const parameter *parameters, int count,
                      const double *x) {
    for (int i = 0; i < count; i++)
        write_value(out, indent, parameters[i].key, x[i]);
}

void write_errors(FILE *out, int indent, const char *name, errors e) {
    fprintf(out, "%*s%s: {points: %d, median_pct: %.1f, p90_pct: %.1f, worst_pct: %.0f}\n", indent,
            "", name, e.points, 100 * e.median, 100 * e.p90, 100 * e.worst);
}
