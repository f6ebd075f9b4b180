/* The table that the build step makes of data/ (tools/compile_data.c): path -> tree, sorted by path
 * in byte order. */
#ifndef FF_PRESETS_TABLE_H
#define FF_PRESETS_TABLE_H

#include "cluster/describe.h"
#include "input/fields.h"

typedef struct ff_preset_entry {
    const char *path; /* below data/, without the ending: "models/llama-3.1-70b" */
    const ff_field *root;
} ff_preset_entry;

extern const ff_preset_entry ff_preset_table[];
extern const int ff_preset_table_count;
/* devices, networks and clusters of the table. */
extern const ff_cluster_library ff_preset_library;

#endif
