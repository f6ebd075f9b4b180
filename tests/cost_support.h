/* What the tests of time share: a model on a cluster with a profile, and the step of a layout. */
#ifndef TESTS_COST_SUPPORT_H
#define TESTS_COST_SUPPORT_H

#include "cost/cost.h"
#include "step_support.h"

typedef struct setting {
    ff_model *model;
    ff_cluster cluster;
    ff_profile profile;
    ff_cost cost;
} setting;

static inline setting *setting_of(const char *model, const char *cluster, const char *profile,
                                  int64_t seq) {
    setting *s = calloc(1, sizeof *s);
    char path[128];
    ff_diagnostics *findings = ff_diagnostics_create();
    s->model = preset(model);
    snprintf(path, sizeof path, "profiles/%s", profile);
    assert_int_equal(ff_cluster_preset(cluster, findings, &s->cluster), FF_OK);
    assert_int_equal(ff_profile_from_fields(ff_preset_tree(path), profile, findings, &s->profile),
                     FF_OK);
    s->cost = (ff_cost){.model = s->model,
                        .cluster = &s->cluster,
                        .profile = &s->profile,
                        .seq = seq,
                        .imbalance = 1};
    ff_physics_data data = ff_physics_presets();
    assert_int_equal(ff_physics_of_device(&data, &s->cluster.device, findings, &s->cost.physics),
                     FF_OK);
    ff_diagnostics_free(findings);
    return s;
}

static inline void setting_free(setting *s) {
    free(s->model);
    free(s);
}

static inline ff_step_time step_of(const setting *s, const char *text) {
    ff_layout layout = layout_of(s->model, text);
    ff_shard_params params[64];
    ff_mesh mesh;
    ff_reaches reaches;
    ff_time_blocks blocks;
    ff_step_time time;
    assert_int_equal(ff_layout_mesh(&layout, NULL, &mesh), FF_OK);
    ff_reaches_of(&mesh, &s->cluster, &reaches);
    ff_time_blocks_build(&s->cost, &layout, &reaches, &blocks);
    for (int64_t stage = 0; stage < layout.pp; stage++)
        params[stage] = ff_program_stage_params(s->model, &layout, stage);
    ff_step_time_of(&s->cost, &layout, &reaches, &blocks, params, &time);
    return time;
}

#endif
