/* MODEL, CLUSTER and the common options made into a job.
 *
 *     MODEL     an existing config.json, or a folder that holds one   else
 *               a bare shape (it has a '=')                           else a preset
 *     CLUSTER   an existing YAML file                                 else a preset or NxMxDEVICE
 *
 * What each was taken for is kept, since a file that happens to lie there may surprise. */
#ifndef FF_CLI_INPUTS_H
#define FF_CLI_INPUTS_H

#include "base/arena.h"
#include "cli/options.h"
#include "cost/profile.h"
#include "fivefold/plan.h"

typedef struct ff_inputs {
    ff_job job;
    ff_profile profile;
    const char *model_source, *cluster_source, *profile_source; /* "preset", "file ..." */
} ff_inputs;

ff_status ff_input_model(const char *argument, ff_arena *arena, ff_diagnostics *findings,
                         ff_model *model, const char **source);
ff_status ff_input_cluster(const char *argument, ff_arena *arena, ff_diagnostics *findings,
                           ff_cluster *cluster, const char **source);
ff_status ff_input_profile(const char *argument, ff_arena *arena, ff_diagnostics *findings,
                           ff_profile *profile, const char **source);
/* Everything; what is wrong in model, cluster and options is reported together. */
ff_status ff_inputs_read(const char *model, const char *cluster, const ff_options *options,
                         ff_arena *arena, ff_diagnostics *findings, ff_inputs *inputs);
/* States what the arguments were taken for, as the record `taken_for` of the root. */
void ff_inputs_facts(const ff_inputs *inputs, ff_facts *facts);

#endif
