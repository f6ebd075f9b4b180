/* The search: every point of the space is judged by the rules, the ledger and the clock, and the
 * best are kept. Deterministic: ties go to what comes first in the space. */
#ifndef FF_PLAN_SEARCH_H
#define FF_PLAN_SEARCH_H

#include "plan/evaluate.h"
#include "plan/space.h"
#include "plan/split.h"

/* A point and how it did; small, since many are kept. */
typedef struct ff_candidate {
    ff_point point;
    const ff_layout *cut; /* the layout, when its stages were cut anew; NULL: the point's own */
    ff_verdict verdict;
    int64_t peak_bytes;
    double s_per_token;   /* 0 when not timed */
    double evened_s;      /* the same if its stages were all alike; 0 when not asked */
    int64_t order;        /* its number in the walk */
    double formula_ratio; /* time by formula over time by run; 0 when it was not run */
    int32_t formula_rank; /* from 1; 0 when it was not run */
} ff_candidate;

/* What looking again at the best came to (refine.h). */
typedef struct ff_refined {
    int64_t count; /* of these `lifted` came from further down, by a cut of their stages */
    int64_t lifted;
    bool capped;   /* more lie within the bound, or may: no more were kept */
    int64_t cuts;  /* of the layouts, those whose stages were cut anew */
    int64_t moved; /* places where the order is another one */
} ff_refined;

typedef struct ff_search_counts {
    int64_t considered, illegal, pruned, too_big, estimated;
} ff_search_counts;

struct ff_plan_set {
    ff_arena *arena;
    ff_job job;
    ff_plan_options options;
    ff_space space;
    ff_evaluator *evaluator;
    ff_search_counts counts;
    ff_refined refined;
    ff_candidate *best;   /* by rank */
    int64_t kept, room;   /* more than are shown: rivals for the reasons */
    ff_candidate *uneven; /* [64], by evened_s: those that a cut of their stages might lift */
    int64_t unevens;
    int64_t shown;
    bool keeps_all; /* while searching; cut to the top at the end */
    /* Contrasts; valid when their flag is set. */
    bool has_too_big, has_nearest, has_roomy;
    ff_candidate roomy;            /* the best whose fit is not tight */
    ff_candidate too_big;          /* the plainest that does not fit */
    ff_candidate nearest;          /* the smallest peak, when nothing fits */
    ff_diagnostics *first_illegal; /* why the first illegal point is, when all are */
    struct ff_lesson_set *lesson;  /* the coarse ledger's answer instead */
};

/* By the job's objective: negative when a is better. */
int ff_candidate_compare(const ff_candidate *a, const ff_candidate *b, ff_objective objective);
/* The candidate's derived layout. */
void ff_candidate_layout(const ff_plan_set *set, const ff_candidate *candidate, ff_layout *layout);
/* The candidate of another search, to be kept with this one. */
ff_candidate ff_candidate_copy(ff_arena *arena, const ff_candidate *candidate);
int ff_point_active_dimensions(const ff_point *point);

#endif
