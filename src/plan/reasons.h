/* Why the first plan wins, and how firmly: what binds, what would change the winner, which layouts are
 * too close to call, and what rules of thumb would lose. */
#ifndef FF_PLAN_REASONS_H
#define FF_PLAN_REASONS_H

#include "base/fact.h"
#include "plan/search.h"

/* Adds cliff{}, sensitivity[], close{} and baselines[] to the open record. The set has a first plan
 * that is timed. */
void ff_reasons_facts(const ff_plan_set *set, ff_facts *facts);

#endif
