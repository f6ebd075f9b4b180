/* The public door (fivefold/inputs.h) to what the modules above do. It stands in the last module since
 * it reaches from the reader to the JSON form. */
#include "fivefold/inputs.h"

#include "base/text.h"
#include "cost/profile.h"
#include "input/reader.h"
#include "model/config.h"
#include "output/render.h"
#include "presets/presets.h"
#include <stdio.h>
#include <stdlib.h>

ff_status ff_model_read(const char *name, const char *text, size_t length, ff_diagnostics *findings,
                        ff_model *model) {
    ff_arena *arena = ff_arena_create();
    const ff_field *root;
    ff_status status = ff_fields_read(arena, name, text, length, findings, &root);
    if (status == FF_OK)
        status = ff_model_from_config(root, name, findings, model);
    ff_arena_free(arena);
    return status;
}

ff_status ff_model_named(const char *name, ff_diagnostics *findings, ff_model *model) {
    return ff_model_is_shape(name) ? ff_model_from_shape(name, findings, model)
                                   : ff_model_preset(name, findings, model);
}

ff_status ff_cluster_read(const char *name, const char *text, size_t length,
                          ff_diagnostics *findings, ff_cluster *cluster) {
    ff_arena *arena = ff_arena_create();
    const ff_field *root;
    ff_status status = ff_fields_read(arena, name, text, length, findings, &root);
    if (status == FF_OK)
        status = ff_cluster_from_fields(root, name, ff_preset_cluster_library(), findings, cluster);
    ff_arena_free(arena);
    return status;
}

ff_status ff_cluster_named(const char *name, ff_diagnostics *findings, ff_cluster *cluster) {
    return ff_cluster_preset(name, findings, cluster);
}

ff_profile *ff_profile_load(const char *name, const ff_cluster *cluster, ff_diagnostics *findings) {
    char path[128];
    name = name == NULL ? ff_profile_default(cluster) : name;
    snprintf(path, sizeof path, "profiles/%s", name);
    const ff_field *root = ff_preset_tree(path);
    if (root == NULL) {
        ff_report(findings, FF0408, FF_NOWHERE, "no profile \"%s\"", name);
        return NULL;
    }
    ff_profile *profile = calloc(1, sizeof *profile);
    if (profile == NULL || ff_profile_from_fields(root, name, findings, profile) != FF_OK) {
        free(profile);
        return NULL;
    }
    return profile;
}

void ff_profile_free(ff_profile *profile) {
    free(profile);
}

void ff_job_init(ff_job *job, const ff_model *model, const ff_cluster *cluster,
                 const ff_profile *profile) {
    *job = (ff_job){.model = *model,
                    .cluster = *cluster,
                    .profile = profile,
                    .seq = model->max_seq,
                    .imbalance = 1};
}

char *ff_facts_json(const ff_facts *facts) {
    ff_text text = {0};
    ff_render_json(ff_facts_root(facts), &text);
    return text.bytes;
}
