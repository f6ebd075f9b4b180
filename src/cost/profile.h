/* A software stack's constants: a profile.
 *
 * Physics is shared by all stacks: what share of peak large GEMMs and attention reach, how links
 * ramp with message size (physics.h). A profile says how far a stack stays below that and
 * what it costs besides (data/profiles/NAME.yaml). Every number has its evidence beside it in the
 * file. */
#ifndef FF_COST_PROFILE_H
#define FF_COST_PROFILE_H

#include "base/text.h"
#include "fivefold/cluster.h"
#include "fivefold/facts.h"
#include "fivefold/layer.h"
#include "input/fields.h"

typedef struct ff_profile {
    char name[FF_NAME_BYTES];
    char about[256];
    ff_kernels kernels;
    unsigned schedules; /* bit k: it runs ff_schedule_kind k */
    ff_runtime_memory runtime;
    double gemm_clock_ratio;       /* sustained GEMM rate over the micro-benchmark's */
    double host_s_per_layer;       /* a layer's forward and backward cannot be issued faster */
    double host_forward_ratio;     /* of that, what forward takes */
    double kernel_launch_s;        /* added to every kernel on the device */
    double gradient_overlap_ratio; /* share of backward that can hide gradient reductions */
    double sharded_overlap_ratio;  /* the same where ZeRO shards: reduce-scatters */
    double gather_overlap_ratio;   /* share of forward that can hide weight gathers */
    double overlap_slowdown_ratio; /* compute lost for each second of hidden communication */
    double ddp_bucket_bytes;       /* of all-reduced gradients; 0 = as the program has them */
    double attention_rate_ratio;   /* of the rate of its generation of kernels */
    double tp_overlap_ratio;       /* share of a GEMM that can hide TP communication in backward */
    double tp_hidden_ratio;    /* share of blocking TP communication that runs inside its GEMM */
    double ep_hidden_ratio;    /* share of expert all-to-alls beside another microbatch's layers */
    double link_rate_ratio;    /* of the benchmarked rate inside a domain that it reaches */
    double network_rate_ratio; /* the same between domains */
    double step_fixed_s;       /* optimizer launch, norm, logging, data: once a step */
} ff_profile;                  /* plan.h names the type too, without its content */

ff_status ff_profile_from_fields(const ff_field *root, const char *name, ff_diagnostics *findings,
                                 ff_profile *profile);
/* Preset for a cluster when the user names none. */
const char *ff_profile_default(const ff_cluster *cluster);
void ff_profile_facts(const ff_profile *profile, ff_facts *facts);

/* Constants one by one, for calibration: the n-th, NULL key past the end; values in the key's units. */
typedef struct ff_constant {
    const char *key;
    double least, most; /* possible; a profile's `plausible` is narrower */
} ff_constant;
ff_constant ff_profile_constant(int index);
double ff_profile_get(const ff_profile *profile, int index);
void ff_profile_set(ff_profile *profile, int index, double value);
/* The profile as a file that ff_profile_from_fields reads. */
void ff_profile_write(const ff_profile *profile, ff_text *out);

#endif
