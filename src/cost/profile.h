/* A software stack's constants (a profile), and the physics of a device generation.
 *
 * Physics is shared by all stacks: what share of peak large GEMMs and attention reach, how links
 * ramp with message size (data/physics.yaml). A profile says how far a stack stays below that and
 * what it costs besides (data/profiles/NAME.yaml). Every number has its evidence beside it in the
 * file. */
#ifndef FF_COST_PROFILE_H
#define FF_COST_PROFILE_H

#include "fivefold/cluster.h"
#include "fivefold/facts.h"
#include "fivefold/layer.h"
#include "input/fields.h"

typedef struct ff_profile {
    char name[FF_NAME_BYTES];
    char about[256];
    ff_kernels kernels;
    ff_runtime_memory runtime;
    double gemm_clock_ratio;       /* sustained GEMM rate over the micro-benchmark's */
    double host_s_per_layer;       /* a layer's forward and backward cannot be issued faster */
    double kernel_launch_s;        /* added to every kernel on the device */
    double gradient_overlap_ratio; /* share of backward that can hide gradient reductions */
    double gather_overlap_ratio;   /* share of forward that can hide weight gathers */
    double overlap_slowdown_ratio; /* compute lost for each second of hidden communication */
    double step_fixed_s;           /* optimizer launch, norm, logging, data: once a step */
} ff_profile;                      /* plan.h names the type too, without its content */

ff_status ff_profile_from_fields(const ff_field *root, const char *name, ff_diagnostics *findings,
                                 ff_profile *profile);
/* Preset for a cluster when the user names none. */
const char *ff_profile_default(const ff_cluster *cluster);
void ff_profile_facts(const ff_profile *profile, ff_facts *facts);

typedef struct ff_physics {
    double gemm_ratio[4]; /* by ff_dtype: share of peak of large GEMMs */
    double attention_forward_ratio, attention_backward_ratio; /* of the bf16 peak */
    double memory_ratio;                                      /* of the theoretical bandwidth */
    double gemm_depth; /* k at which the pipeline's fill costs as much as its work */
    double link_ramp_bytes, network_ramp_bytes; /* message size that reaches half of the rate */
    double small_group_loss;                    /* a group of n in a domain loses this over n^2 */
    double in_switch_ratio; /* share of 1/B that an in-switch all-reduce reaches */
} ff_physics;

/* FF_INVALID when the data has no common entry, a figure is missing or out of its range, or a key
 * is unknown. `findings` must be a list. */
ff_status ff_physics_from_fields(const ff_field *root, const char *generation,
                                 ff_diagnostics *findings, ff_physics *physics);

#endif
