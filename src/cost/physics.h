/* What a device's kernels and links reach, whatever the software stack: fitted curves.
 *
 *     data/physics.yaml             shares of peak a generation reaches, where no table was fitted
 *     data/kernels/gemm.yaml        GEMM by device and number format         } written by
 *     data/kernels/attention.yaml   flash attention, forward and backward    } tools/fit (docs/
 *     data/kernels/collectives.yaml ramps, group sizes, latencies            } kernels.md)
 *
 * A device's own entry decides, else its generation's, else the general one; which it was is kept in
 * `basis`, so that the user sees what was measured and what is assumed. A profile (profile.h) says
 * how far a stack stays below these curves. */
#ifndef FF_COST_PHYSICS_H
#define FF_COST_PHYSICS_H

#include "fivefold/cluster.h"
#include "fivefold/facts.h"
#include "fivefold/model.h"
#include "input/fields.h"

enum { FF_PHYSICS_DTYPES = 5, FF_BASIS_BYTES = 64 };

typedef enum ff_basis_kind {
    FF_FITTED_DEVICE,     /* this device's own table */
    FF_FITTED_GENERATION, /* a table of another device of its generation */
    FF_ASSUMED_GENERAL,   /* no table: general constants, the generation's share of peak */
} ff_basis_kind;

/* The device's figures that a kernel's time depends on. */
typedef struct ff_kernel_device {
    double peak_flops;
    double memory_Bps; /* that streaming reaches */
    double processors;
} ff_kernel_device;

/* GEMM of one number format on one device (gemm.c has the formula). */
typedef struct ff_gemm_curve {
    double peak_ratio;   /* share of peak of the 256x128 tile in long kernels */
    double tile_256;     /* rate of a 256x256 tile over the 256x128 tile's */
    double tile_128;     /* of 128x128 */
    double tile_128x64;  /* of 128x64 over 128x128 */
    double tile_64;      /* of 64x64 over 128x64 */
    double depth;        /* steps of k lost at the start and end of every tile */
    double wave_loss;    /* share of a thin last wave that is lost: 1 = all of it */
    double split_passes; /* traffic of partial sums where k is split, in units of theirs */
    double fixed_s;      /* start and end of a kernel */
    double cast_bytes;   /* quantising an element of the left operand, in the fitted table */
    double short_gain;   /* share of time that very short kernels save (clock, caches) */
    double short_s;      /* length at which half of it is left */
    ff_basis_kind basis;
    char source[FF_BASIS_BYTES]; /* the device whose table it is */
} ff_gemm_curve;

/* Flash attention in one direction (attention.c). */
typedef struct ff_attention_curve {
    double ratio;      /* share of the bf16 peak on causal FLOP, head dimension 128, long */
    double ratio_64;   /* at head dimension 64 over 128 */
    double ratio_wide; /* at 192 and above over 128 */
    double depth;      /* keys' worth of work lost for every row of blocks */
    double block_rows; /* queries that one processor takes on */
    double tail;       /* share of the longest block's time that nothing covers */
    double long_loss;  /* share of time that very long kernels add (power) */
    double long_s;     /* length at which half of it is there */
    ff_basis_kind basis;
    char source[FF_BASIS_BYTES];
} ff_attention_curve;

/* Links inside a domain, and how messages ramp up (collective.c). */
typedef struct ff_collective_curve {
    double link_ratio;      /* of the device's usable link rate, in large groups */
    double group_loss;      /* gathers and scatters in a group of n lose this share over n */
    double all_reduce_loss; /* all-reduces */
    double crowding;        /* without peer access a group of n has (domain/n)^crowding the rate */
    double fixed_s;         /* start of a ring or tree */
    double chunk_s;         /* overhead of a chunk in a pipeline */
    double all_to_all_ratio, all_to_all_loss, all_to_all_fixed_s;
    double send_fixed_s, send_chunk_s; /* a point-to-point message, beside one step */
    double in_switch_ratio; /* all-reduce in the switch: bytes over this share of the link rate */
    double in_switch_fixed_s, in_switch_chunk_s;
    double network_chunk_steps; /* overhead of a chunk between nodes, in steps of that tier */
    ff_basis_kind basis;
    char source[FF_BASIS_BYTES];
} ff_collective_curve;

typedef struct ff_physics {
    double memory_ratio;      /* of the theoretical bandwidth, streaming */
    double sustained_ratio;   /* clock in training over that of a short benchmark ... */
    double reference_power_W; /* ... at this power; 0 = the cap does not matter */
    double flash_2_ratio;     /* of the newest attention kernels, what flash attention 2 reaches */
    double flash_1_ratio;     /* of today's flash kernels, what the first ones reach */
    double training_cast_bytes; /* fp8 training: traffic to quantise one element of an operand */
    double misaligned_ratio;    /* GEMM rate with a side that is no multiple of 16 bytes */
    double ragged_ratio;        /* ... no multiple of 64 bytes */
    double input_gradient_ratio, weight_gradient_ratio; /* rate over the forward GEMM's */
    double accumulate_ratio; /* of adding to the fp32 gradient (8 bytes an element), what shows */
    double straggling_share; /* of a call between nodes: waiting for the slowest of several hosts */
    double product_s;        /* start of every further product of a group (experts) */
    ff_gemm_curve gemm[FF_PHYSICS_DTYPES]; /* by ff_dtype */
    ff_attention_curve attention_forward, attention_backward;
    ff_collective_curve collective;
} ff_physics;

/* The data that curves come from: trees of the files above. */
typedef struct ff_physics_data {
    const ff_field *shares, *gemm, *attention, *collectives;
} ff_physics_data;

/* The data compiled into the program. */
ff_physics_data ff_physics_presets(void);
/* FF_INVALID when an entry that is needed is missing, out of its range or has an unknown key. */
ff_status ff_physics_of_device(const ff_physics_data *data, const ff_device *device,
                               ff_diagnostics *findings, ff_physics *physics);
void ff_physics_facts(const ff_physics *physics, ff_facts *facts);

/* `batch` products of m x k by k x n. */
typedef struct ff_gemm_work {
    double m, n, k, batch;
    double memory_bytes; /* of operands and result */
    double cast_bytes;   /* traffic of quantising operands first, 0 where there is none */
} ff_gemm_work;
/* Seconds; never below flop/peak nor below traffic over bandwidth, and never falling when m, n or k
 * grows by a whole tile. */
double ff_gemm_curve_s(const ff_gemm_curve *curve, const ff_kernel_device *device,
                       const ff_gemm_work *work);

typedef struct ff_attention_work {
    double flop, memory_bytes;
    double rows;            /* queries of one head; 0 = unknown, then large */
    double keys, mean_keys; /* that the last query meets, and the mean query */
    double products;        /* heads times sequences */
    double head_dim;        /* of queries and keys */
} ff_attention_work;
double ff_attention_curve_s(const ff_attention_curve *curve, const ff_kernel_device *device,
                            const ff_attention_work *work);

#endif
