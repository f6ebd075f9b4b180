/* Models, clusters and profiles from what a user writes: the text of a file, or a name. The library
 * reads no file; it is given texts. */
#ifndef FIVEFOLD_INPUTS_H
#define FIVEFOLD_INPUTS_H

#include "fivefold/cluster.h"
#include "fivefold/diagnostics.h"
#include "fivefold/model.h"
#include "fivefold/plan.h"
#include <stddef.h>

/* A Hugging Face config.json. `name` is the model's, and the file's in findings. */
FF_API ff_status ff_model_read(const char *name, const char *text, size_t length,
                               ff_diagnostics *findings, ff_model *model);
/* A preset ("llama-3.1-70b") or a bare shape ("params=70e9,layers=80,hidden=8192,heads=64"). */
FF_API ff_status ff_model_named(const char *name, ff_diagnostics *findings, ff_model *model);

/* A cluster in YAML. */
FF_API ff_status ff_cluster_read(const char *name, const char *text, size_t length,
                                 ff_diagnostics *findings, ff_cluster *cluster);
/* "16x8xh100-80gb-sxm", "16xdgx-h100", "4x8x(mem=40GiB)". */
FF_API ff_status ff_cluster_named(const char *name, ff_diagnostics *findings, ff_cluster *cluster);

/* A stack profile by name, or (NULL) the usual one of a cluster's devices. NULL with findings when
 * there is none; freed with ff_profile_free. */
FF_API ff_profile *ff_profile_load(const char *name, const ff_cluster *cluster,
                                   ff_diagnostics *findings);
FF_API void ff_profile_free(ff_profile *profile);

/* A job with every default set; the caller gives seq and gbs_tokens. */
FF_API void ff_job_init(ff_job *job, const ff_model *model, const ff_cluster *cluster,
                        const ff_profile *profile);

/* Facts as JSON; freed with free(). */
FF_API char *ff_facts_json(const ff_facts *facts);

#endif
