/* The best of a search, looked at again with what is too dear for every layout.
 *
 *     by formula     1 2 3 4 5 6 7 ... 64 | 65 ...
 *                        |
 *     each one           its pipeline run at schedule level      -> its exact time
 *                        layers and recomputation by stage       -> a faster one of the same sizes
 *                        |
 *     by run         2 1 3 5 4 6 7 ... 64 | 65 ...
 *
 * The closed form of a pipeline is at most the bound above its run (and down to a tenth below it,
 * where interleaved chunks are uneven; tests/refine_test.c), so what lies further from the first
 * than the bound cannot be first; when more than 64 lie nearer, `capped` says so. Layers and
 * recomputed layers are moved between stages by the best cut (split.h) where a stage is one chunk;
 * where it is several, recomputed layers are lowered stage by stage, and single layers are moved off
 * the slowest stage. A change is kept when it is faster by a hundredth and no tighter. */
#ifndef FF_PLAN_REFINE_H
#define FF_PLAN_REFINE_H

#include "plan/search.h"

enum { FF_MOST_REFINED = 64, FF_FEW_REFINED = 8 };
#define FF_REFINE_BOUND 0.02

/* How many are looked at again: fewer where a search only stands beside another. */
int ff_refined_most(const ff_plan_options *options);

/* Orders the kept candidates anew, and says in set->refined what came of it. */
void ff_refine(ff_plan_set *set);

#endif
