/* The space of layouts: which values each dimension takes, which of them the user allows, and a
 * walk over the layouts that are legal.
 *
 *     for tp, pp, cp        tp*pp*cp divides the devices; dp is the rest          grid
 *       for ep, etp, order  orders that assign other tiers to some group
 *         for mbs, cp_kind, sp, recipe, recompute                                 block
 *           for schedule, vpp
 *             for zero, weights, group                                            point
 *
 * The order of the loops is the order of ties: what comes first wins. Layouts are built once a grid
 * and changed in place, so that a point costs only what it changes. */
#ifndef FF_PLAN_SPACE_H
#define FF_PLAN_SPACE_H

#include "base/arena.h"
#include "base/diagnose.h"
#include "fivefold/plan.h"

typedef enum ff_dimension {
    FF_DIM_TP,
    FF_DIM_PP,
    FF_DIM_CP,
    FF_DIM_EP,
    FF_DIM_ETP,
    FF_DIM_ORDER, /* index into the orders, see ff_space_order */
    FF_DIM_MBS,
    FF_DIM_CP_KIND, /* ff_cp_choice */
    FF_DIM_SP,
    FF_DIM_RECIPE,    /* ff_recipe */
    FF_DIM_RECOMPUTE, /* index into ff_recompute_choices */
    FF_DIM_SCHEDULE,  /* ff_schedule_kind */
    FF_DIM_VPP,
    FF_DIM_ZERO,
    FF_DIM_WEIGHTS, /* ff_zero3_weights; of zero 3 only */
    FF_DIM_GROUP,   /* zero_group: 0 all ranks, else their number */
    FF_DIM_DP,      /* derived: --grid and --where only filter it */
    FF_DIM_COUNT
} ff_dimension;

enum { FF_CP_CHOICES = 8 }; /* more than there are kinds */
/* A kind of context parallelism, of hybrids with the ranks of the Ulysses part. */
static inline int32_t ff_cp_choice(ff_cp_kind kind, int64_t ulysses) {
    return (int32_t)kind + (kind == FF_CP_HYBRID ? (int32_t)ulysses * FF_CP_CHOICES : 0);
}

/* A point: one value a dimension, and what was found for it. */
typedef struct ff_point {
    int32_t value[FF_DIM_COUNT];
    int32_t recomputed; /* layers of every stage, where recompute is by count */
} ff_point;

typedef struct ff_recompute_choice {
    const char *name; /* as a layout writes it */
    ff_recompute_mode mode;
    unsigned modules;
    bool counted; /* how many layers is found for each layout, not walked */
} ff_recompute_choice;
extern const ff_recompute_choice ff_recompute_choices[];
extern const int ff_recompute_choice_count;

enum { FF_MOST_CHOICES = 64, FF_MOST_CONDITIONS = 32 };

/* `tp<=8`, `zero!=3`, `cp=1|2`. */
typedef struct ff_condition {
    ff_dimension dimension;
    enum { FF_IS_ONE_OF, FF_IS_NONE_OF, FF_AT_MOST, FF_AT_LEAST } relation;
    int values;
    int32_t value[FF_MOST_CHOICES];
} ff_condition;

typedef struct ff_space {
    const ff_job *job;
    int choices[FF_DIM_COUNT]; /* of --grid; 0 = every value that makes sense */
    int32_t choice[FF_DIM_COUNT][FF_MOST_CHOICES];
    int share, shares; /* only every shares-th grid; 0 = all */
    int conditions;
    ff_condition condition[FF_MOST_CONDITIONS];
} ff_space;

/* Reads --grid and --where (conditions.c); the arena is for scratch. */
ff_status ff_space_init(ff_space *space, ff_arena *arena, const ff_job *job,
                        const ff_plan_options *options, ff_diagnostics *findings);
/* Whether the user names values of a dimension, in --grid or --where. */
bool ff_space_names(const ff_space *space, ff_dimension dimension);
/* Whether --where (and --grid, for dp, which is derived) allow a value. */
bool ff_space_allows(const ff_space *space, ff_dimension dimension, int64_t value);
bool ff_space_is_counted(const ff_point *point);
/* The dimension's name: "tp". */
const char *ff_dimension_name(ff_dimension dimension);

/* What a walk calls. */
typedef struct ff_walker {
    void *context;
    /* A legal layout, whose recomputed layers may be set; false stops the walk. */
    bool (*visit)(void *context, const ff_point *point, ff_layout *layout);
    /* `points` from this one on are illegal for one reason. May be NULL. */
    void (*illegal)(void *context, const ff_point *point, int64_t points);
    /* Before `points` points of one grid and block, on the first one's layout: false skips them.
     * May be NULL. */
    bool (*enter)(void *context, const ff_point *point, const ff_layout *layout, int64_t points);
} ff_walker;
void ff_space_walk(const ff_space *space, ff_arena *arena, const ff_walker *walker);

/* The derived layout of a point; false with findings (a list, or NULL) when it cannot be derived. */
bool ff_space_layout(const ff_space *space, const ff_point *point, ff_diagnostics *findings,
                     ff_layout *layout);

#endif
