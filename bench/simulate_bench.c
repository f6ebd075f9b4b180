/* How fast a step is simulated: a 405B model on 16,384 devices, 16 stages of 8 chunks, 512
 * microbatches. Prints milliseconds and events a second; exits 1 below the targets: a step at
 * schedule level in 100 ms, 5 million events a second. */
#include "cost/cost.h"
#include "fivefold/cluster.h"
#include "presets/presets.h"
#include "simulate/simulate.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct rig {
    ff_model model;
    ff_cluster cluster;
    ff_profile profile;
    ff_cost cost;
    ff_layout layout;
    ff_reaches reaches;
} rig;

static rig *rig_create(const char *text) {
    rig *r = calloc(1, sizeof *r);
    ff_mesh mesh;
    ff_layout_context context = {.world = 16384, .layers = 126};
    bool made = r != NULL && ff_model_preset("llama-3.1-405b", NULL, &r->model) == FF_OK &&
                ff_cluster_preset("dgx-h100", NULL, &r->cluster) == FF_OK &&
                ff_profile_from_fields(ff_preset_tree("profiles/megatron-core"), "megatron-core",
                                       NULL, &r->profile) == FF_OK &&
                ff_layout_parse(text, NULL, &r->layout) == FF_OK &&
                ff_layout_derive(&r->layout, &context, NULL) == FF_OK &&
                ff_layout_mesh(&r->layout, NULL, &mesh) == FF_OK;
    if (!made)
        abort();
    r->cost = (ff_cost){.model = &r->model,
                        .cluster = &r->cluster,
                        .profile = &r->profile,
                        .seq = 8192,
                        .imbalance = 1};
    ff_physics_data data = ff_physics_presets();
    if (ff_physics_of_device(&data, &r->cluster.device, NULL, &r->cost.physics) != FF_OK)
        abort();
    ff_reaches_of(&mesh, &r->cluster, &r->reaches);
    return r;
}

/* Best of three: milliseconds, and events a second. */
static void measure(const rig *r, ff_detail detail, double *best_s, double *events_per_s) {
    ff_simulation_inputs inputs = {&r->cost, &r->layout, &r->reaches, detail};
    *best_s = 1e9;
    for (int i = 0; i < 3; i++) {
        double begun_s = now_s();
        ff_simulation *simulation = ff_simulation_create(&inputs, NULL, NULL);
        double took_s = now_s() - begun_s;
        if (simulation == NULL)
            abort();
        if (took_s < *best_s) {
            *best_s = took_s;
            *events_per_s = (double)ff_simulation_events(simulation) / took_s;
        }
        ff_simulation_free(simulation);
    }
}

static double fast_path_s(const rig *r) {
    ff_simulation_inputs inputs = {&r->cost, &r->layout, &r->reaches, FF_DETAIL_CHUNK};
    ff_shard_params params[FF_LAYOUT_MAX_CHUNKS];
    ff_time_blocks blocks;
    ff_time_blocks_build(&r->cost, &r->layout, &r->reaches, &blocks);
    for (int64_t stage = 0; stage < r->layout.pp; stage++)
        params[stage] = ff_program_stage_params(&r->model, &r->layout, stage);
    double best_s = 1e9;
    for (int i = 0; i < 3; i++) {
        double begun_s = now_s();
        ff_step_time time;
        ff_step_time_of(&r->cost, &r->layout, &r->reaches, &blocks, params, &time);
        if (!ff_simulate_pipeline(&inputs, &blocks, &time))
            abort();
        double took_s = now_s() - begun_s;
        best_s = took_s < best_s ? took_s : best_s;
    }
    return best_s;
}

int main(void) {
    rig *r = rig_create("tp=8,pp=16,vpp=8,m=512,zero=1,mbs=1");
    double chunk_s, chunk_events, operator_s, operator_events;
    measure(r, FF_DETAIL_CHUNK, &chunk_s, &chunk_events);
    measure(r, FF_DETAIL_OPERATOR, &operator_s, &operator_events);
    printf("%10.1f ms  405B step at schedule level (target 100), %.1f M events a second\n",
           1e3 * chunk_s, 1e-6 * chunk_events);
    printf("%10.1f ms  405B step by operators, %.1f M events a second (target 5)\n",
           1e3 * operator_s, 1e-6 * operator_events);
    printf("%10.1f ms  405B step on the fast path for ranking\n", 1e3 * fast_path_s(r));
    free(r);
    return chunk_s < 0.1 && operator_events > 5e6 ? 0 : 1;
}
