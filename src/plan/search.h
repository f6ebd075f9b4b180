/* The search: every point of the space is judged by the rules, the ledger and the clock, and the
 * best are kept. Deterministic: ties go to what comes first in the space. */
#ifndef FF_PLAN_SEARCH_H
#define FF_PLAN_SEARCH_H

#include "plan/evaluate.h"
#include "plan/space.h"

/* A point and how it did; small, since many are kept. */
typedef struct ff_candidate {
    ff_point point;
    ff_verdict verdict;
    int64_t peak_bytes;
    double s_per_token; /* 0 when not timed */
    int64_t order;      /* its number in the walk */
} ff_candidate;

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
    ff_candidate *best; /* by rank */
    int64_t kept, room; /* more than are shown: rivals for the reasons */
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
int ff_point_active_dimensions(const ff_point *point);

#endif
