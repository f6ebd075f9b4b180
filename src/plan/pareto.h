/* What no other layout beats in time, memory and devices at once.
 *
 * For all nodes, half of them, a quarter and so on, every layout is priced (nothing is pruned,
 * since a slower layout may hold less), and those that another one equals or beats in both time and
 * peak memory are dropped; then those that fewer devices beat. Rows that save less than a tenth of
 * the memory, or take more than twice the time of the fastest, are left out. Times are the runs'
 * (evaluate.h), the first choice is by formula. */
#ifndef FF_PLAN_PARETO_H
#define FF_PLAN_PARETO_H

#include "plan/search.h"

/* Adds the list "pareto" to the facts of a search that found something. */
void ff_pareto_facts(const ff_plan_set *set, ff_facts *facts);

#endif
