/* What would make a job fit when nothing does. Each change is tried: a search with it that stops at
 * the first layout that fits; nothing is said that was not found. */
#ifndef FF_PLAN_REMEDY_H
#define FF_PLAN_REMEDY_H

#include "plan/search.h"

enum { FF_MOST_REMEDIES = 4 };

typedef struct ff_remedy {
    char text[160];
} ff_remedy;

/* From cheap to dear; returns how many. `nearest_bytes` is the smallest peak of all legal layouts.
 */
int ff_remedies_find(const ff_plan_set *set, int64_t nearest_bytes,
                     ff_remedy remedies[FF_MOST_REMEDIES]);

#endif
