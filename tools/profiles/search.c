/* The search for a stack's constants: coordinate by coordinate, by steps that shrink, then in pairs. */
#include "profiles.h"

#include "presets/presets.h"
#include <math.h>
#include <string.h>

enum { MOST_CONSTANTS = 32, ROUNDS = 5, POINTS = 64, LEAST_ROWS_OF_SOURCE = 5 };

typedef struct search {
    stack_rows *stack;
    int left_out;
    int index[MOST_CONSTANTS];
    double least[MOST_CONSTANTS], most[MOST_CONSTANTS], neutral[MOST_CONSTANTS];
    int constants;
} search;

static int constant_index(const char *key) {
    for (int i = 0; ff_profile_constant(i).key != NULL; i++)
        if (strcmp(ff_profile_constant(i).key, key) == 0)
            return i;
    return -1;
}

void take_constants(ff_profile *to, const ff_profile *from) {
    for (int i = 0; ff_profile_constant(i).key != NULL; i++)
        ff_profile_set(to, i, ff_profile_get(from, i));
}

/* Where ZeRO shards, a stack overlaps as it does elsewhere, unless its profile tells them apart. */
static void let_follow(const search *s, ff_profile *profile) {
    int sharded = constant_index("sharded_overlap_ratio");
    for (int k = 0; k < s->constants; k++)
        if (s->index[k] == sharded)
            return;
    double gradient = ff_profile_get(profile, constant_index("gradient_overlap_ratio"));
    ff_profile_set(profile, sharded, gradient);
}

/* Neutral values of what times depend on. */
static void neutral_constants(const search *s, ff_profile *profile) {
    const ff_field *software = ff_field_find(ff_preset_tree("physics"), "software");
    for (const ff_field *f = software->first; f != NULL; f = f->next) {
        int i = constant_index(f->name);
        if (i >= 0 && strcmp(f->name, "fragmentation_ratio") != 0)
            ff_profile_set(profile, i, f->real);
    }
    double gradient = ff_profile_get(profile, constant_index("gradient_overlap_ratio"));
    ff_profile_set(profile, constant_index("sharded_overlap_ratio"), gradient);
    let_follow(s, profile);
}

/* The constants that the profile overrides; memory's are not fitted to times. */
static void find_constants(search *s) {
    char path[96];
    snprintf(path, sizeof path, "profiles/%s", s->stack->name);
    const ff_field *plausible = ff_field_find(ff_preset_tree(path), "plausible");
    for (const ff_field *f = plausible == NULL ? NULL : plausible->first; f != NULL; f = f->next) {
        int i = constant_index(f->name);
        if (i < 0 || strcmp(f->name, "fragmentation_ratio") == 0 || s->constants == MOST_CONSTANTS)
            continue;
        s->index[s->constants] = i;
        double least = f->first->real, most = f->first->next->real, edge = (most - least) / 50;
        s->least[s->constants] = least + edge;
        s->most[s->constants++] = most - edge;
    }
}

/* A constant has to earn its distance from neutral: a stack of few rows would bend it otherwise. */
static double bending(const search *s, const ff_profile *profile) {
    const double earned = 0.01; /* of error, for a move over the whole range */
    double sum = 0;
    for (int k = 0; k < s->constants; k++) {
        double moved = ff_profile_get(profile, s->index[k]) - s->neutral[k];
        double share = moved / (s->most[k] - s->least[k]);
        sum += earned * share * share;
    }
    return sum;
}

static double loss(const search *s, const ff_profile *profile) {
    double sum = 0;
    int sources = 0;
    for (int i = 0; i < s->stack->sources; i++) {
        int rows = source_rows(s->stack, i);
        if (i == s->left_out || (rows < LEAST_ROWS_OF_SOURCE && s->stack->sources > 2))
            continue;
        score one = score_source(s->stack, i, profile);
        sum += (one.median + one.mean) / 2;
        sources++;
    }
    return sources > 0 ? sum / sources + bending(s, profile) : INFINITY;
}

static void move(const search *s, int k, double step, ff_profile *profile, double *best) {
    for (int direction = -1; direction <= 1; direction += 2)
        for (;;) {
            ff_profile next = *profile;
            double from = ff_profile_get(profile, s->index[k]);
            double to = fmin(s->most[k], fmax(s->least[k], from + direction * step));
            ff_profile_set(&next, s->index[k], to);
            let_follow(s, &next);
            double error = to == from ? INFINITY : loss(s, &next);
            if (error >= *best - 1e-5)
                break;
            *best = error;
            *profile = next;
        }
}

static double shifted(const search *s, const ff_profile *profile, int k, double step) {
    double room = s->most[k] - s->least[k], to = ff_profile_get(profile, s->index[k]) + step * room;
    return fmin(s->most[k], fmax(s->least[k], to));
}

/* Two constants at once: what a rate gains a launch may lose. */
static void move_pairs(const search *s, double width, ff_profile *profile, double *best) {
    for (int a = 0; a < s->constants; a++)
        for (int b = 0; b < s->constants; b++)
            for (int sign = -1; sign <= 1 && a != b; sign += 2) {
                ff_profile next = *profile;
                ff_profile_set(&next, s->index[a], shifted(s, profile, a, width));
                ff_profile_set(&next, s->index[b], shifted(s, profile, b, sign * width));
                let_follow(s, &next);
                double error = loss(s, &next);
                if (error >= *best - 1e-5)
                    continue;
                *best = error;
                *profile = next;
            }
}

/* Point `n` of a sequence that fills the ranges evenly (Halton's, bases prime). */
static void scatter(const search *s, int n, ff_profile *profile) {
    static const int primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
    for (int k = 0; k < s->constants; k++) {
        int base = primes[k % (int)(sizeof primes / sizeof *primes)];
        double share = 0, digit = 1;
        for (int i = n; i > 0; i /= base)
            share += (digit /= base) * (i % base);
        ff_profile_set(profile, s->index[k], s->least[k] + share * (s->most[k] - s->least[k]));
    }
    let_follow(s, profile);
}

static double descend(const search *s, ff_profile *profile) {
    double best = loss(s, profile), width = 0.2;
    for (int round = 0; round < ROUNDS; round++, width /= 2)
        for (int k = 0; k < s->constants; k++)
            move(s, k, width * (s->most[k] - s->least[k]), profile, &best);
    for (width = 0.2; width > 0.04; width /= 2)
        move_pairs(s, width, profile, &best);
    for (int k = 0; k < s->constants; k++)
        move(s, k, width * (s->most[k] - s->least[k]), profile, &best);
    return best;
}

/* From neutral constants, and from the best of points all over the ranges. */
void fit_constants(stack_rows *stack, int left_out, ff_profile *profile) {
    search s = {.stack = stack, .left_out = left_out};
    find_constants(&s);
    neutral_constants(&s, profile);
    ff_profile other = *profile, point = *profile;
    for (int k = 0; k < s.constants; k++)
        s.neutral[k] = ff_profile_get(profile, s.index[k]);
    double least = INFINITY;
    for (int k = 0; k < s.constants; k++)
        ff_profile_set(profile, s.index[k], shifted(&s, profile, k, 0));
    for (int n = 1; n <= POINTS; n++) {
        scatter(&s, n, &point);
        double error = loss(&s, &point);
        if (error >= least)
            continue;
        least = error;
        other = point;
    }
    if (descend(&s, &other) < descend(&s, profile))
        *profile = other;
}

void print_constants(const ff_profile *before, const ff_profile *after) {
    for (int i = 0; ff_profile_constant(i).key != NULL; i++)
        if (ff_profile_get(before, i) != ff_profile_get(after, i))
            printf("%-24s %8.4g -> %8.4g\n", ff_profile_constant(i).key, ff_profile_get(before, i),
                   ff_profile_get(after, i));
}
