/* What to do after a plan: the command that explains its first layout, with the words and options
 * as the user gave them, ready to be pasted into a shell. */
#ifndef FF_CLI_NEXT_H
#define FF_CLI_NEXT_H

#include "cli/options.h"
#include "fivefold/plan.h"

/* Adds the list `next` when there is a first plan. */
void ff_next_facts(const char *model, const char *cluster, const ff_options *options,
                   const ff_job *job, ff_facts *facts);

#endif
