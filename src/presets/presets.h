/* data/ as const trees of fields, made by the build step tools/compile_data.c: the same tree that
 * the reader would make of the file, so presets and user files take one path. */
#ifndef FF_PRESETS_PRESETS_H
#define FF_PRESETS_PRESETS_H

#include "cluster/describe.h"
#include "fivefold/cluster.h"
#include "fivefold/model.h"
#include "input/fields.h"

/* The tree of one data file by its path below data/ without the ending: "devices",
 * "models/llama-3.1-70b", "profiles/megatron-core". NULL when there is none. */
const ff_field *ff_preset_tree(const char *path);
/* The n-th path that begins with a prefix ("models/"), in byte order, or NULL past the end. */
const char *ff_preset_path(const char *prefix, int n);

/* A preset by name; FF_INVALID with the nearest names when there is none. */
ff_status ff_model_preset(const char *name, ff_diagnostics *findings, ff_model *model);
ff_status ff_cluster_preset(const char *text, ff_diagnostics *findings, ff_cluster *cluster);
const ff_cluster_library *ff_preset_cluster_library(void);

#endif
