/* A row as a question that the planner can answer: model, cluster, profile, and the layouts that
 * agree with what the row says (one when it says everything).
 *
 *     shape columns -> bare shape, or the preset of the same shape where columns cannot tell all
 *                      (experts, MLA, sliding windows): its layers cut to the row's number
 *     device, network, gpus -> cluster          stack -> profile
 *     tp pp cp ep ... -> layout; an empty vpp, mbs or recompute -> one layout a legal value */
#ifndef FF_VALIDATE_CASE_H
#define FF_VALIDATE_CASE_H

#include "cost/profile.h"
#include "fivefold/plan.h"
#include "validate/row.h"

enum { FF_CASE_MOST_LAYOUTS = 64 };

/* Why a row is not scored. */
typedef enum ff_skip {
    FF_SKIP_NONE,
    FF_SKIP_BY_RULE,  /* the row's `skip` says why */
    FF_SKIP_DEVICE,   /* no such device */
    FF_SKIP_SIZES,    /* tp, pp, sequence, batch or devices empty */
    FF_SKIP_SHAPE,    /* model shape not in the columns */
    FF_SKIP_SCHEDULE, /* a schedule that cannot be run here */
    FF_SKIP_ILLEGAL,  /* breaks a rule of legality */
    FF_SKIP_NOTHING,  /* nothing measured that can be scored */
    FF_SKIP_COUNT
} ff_skip;
const char *ff_skip_reason(ff_skip skip);

/* What is made once for all rows. */
typedef struct ff_validate_library {
    ff_arena *arena;
    const ff_field *rules, *skips;
    ff_model *presets;
    int preset_count;
    const ff_profile *forced; /* --profile; NULL = by the row's stack */
    struct ff_named_profile {
        const char *stack;
        ff_profile profile;
    } profile[32];
    int profiles;
} ff_validate_library;
void ff_validate_library_init(ff_arena *arena, const ff_profile *forced,
                              ff_validate_library *library);

typedef struct ff_case {
    ff_job job;
    ff_profile profile;                     /* of the stack, with the kernels that the row names */
    ff_layout layout[FF_CASE_MOST_LAYOUTS]; /* derived and legal */
    int family
        [FF_CASE_MOST_LAYOUTS]; /* layouts of one family differ in recomputation, lightest first */
    int layouts;
    bool lightest;      /* of each family, the first that fits is what ran */
    const char *broken; /* code of the rule that an illegal layout breaks */
} ff_case;

/* The row has been through ff_row_assume. */
ff_skip ff_case_of(ff_validate_library *library, const ff_row *row, ff_case *c);

#endif
