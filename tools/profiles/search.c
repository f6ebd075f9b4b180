/* The search for a stack's constants: coordinate by coordinate, by steps that shrink. */
#include "profiles.h"

#include "presets/presets.h"
#include <math.h>
#include <string.h>

enum { MOST_CONSTANTS = 32, ROUNDS = 5, LEAST_ROWS_OF_SOURCE = 5 };

typedef struct search {
    stack_rows *stack;
    int left_out;
    int index[MOST_CONSTANTS];
    double least[MOST_CONSTANTS], most[MOST_CONSTANTS];
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
        if (i < 0 || strcmp(f->name, "fragmentation_ratio") == 0 ||
            s->constants == MOST_CONSTANTS)
            continue;
        s->index[s->constants] = i;
        double least = f->first->real, most = f->first->next->real, edge = (most - least) / 50;
        s->least[s->constants] = least + edge;
        s->most[s->constants++] = most - edge;
    }
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
    return sources > 0 ? sum / sources : INFINITY;
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

/* `share` of the way from neutral to the middle of each range, inside it. */
static double descend(const search *s, double share, ff_profile *profile) {
    neutral_constants(s, profile);
    for (int k = 0; k < s->constants; k++) {
        double neutral = ff_profile_get(profile, s->index[k]);
        double start = neutral + share * ((s->least[k] + s->most[k]) / 2 - neutral);
        ff_profile_set(profile, s->index[k], fmin(s->most[k], fmax(s->least[k], start)));
    }
    double best = loss(s, profile), width = 0.2;
    for (int round = 0; round < ROUNDS; round++, width /= 2)
        for (int k = 0; k < s->constants; k++)
            move(s, k, width * (s->most[k] - s->least[k]), profile, &best);
    return best;
}

void fit_constants(stack_rows *stack, int left_out, ff_profile *profile) {
    search s = {.stack = stack, .left_out = left_out};
    find_constants(&s);
    ff_profile other = *profile;
    double from_neutral = descend(&s, 0, profile), from_middle = descend(&s, 1, &other);
    if (from_middle < from_neutral)
        *profile = other;
}

void print_constants(const ff_profile *before, const ff_profile *after) {
    for (int i = 0; ff_profile_constant(i).key != NULL; i++)
        if (ff_profile_get(before, i) != ff_profile_get(after, i))
            printf("%-24s %8.4g -> %8.4g\n", ff_profile_constant(i).key,
                   ff_profile_get(before, i), ff_profile_get(after, i));
}
