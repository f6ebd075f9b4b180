/* The layout: how a step is spread over the ranks, as one line that every command prints and
 * accepts
 *
 *     tp=8,pp=4,dp=16,zero=1,mbs=1,schedule=interleaved,vpp=5
 *
 * One table of keys (src/layout/keys.c) drives parsing, printing, help and the schema. What is left
 * out is derived (dp from the world, microbatches from the batch) or defaulted, and shown. */
#ifndef FIVEFOLD_LAYOUT_H
#define FIVEFOLD_LAYOUT_H

#include "fivefold/diagnostics.h"
#include "fivefold/mesh.h"
#include "fivefold/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ff_cp_kind {
    FF_CP_RING,          /* zigzag: 2c slices, rank i holds i and 2c-1-i */
    FF_CP_RING_PLAIN,    /* contiguous slices: the last rank does nearly twice the mean */
    FF_CP_RING_BALANCED, /* contiguous slices: idle ranks take blocks of busy ones */
    FF_CP_ALLGATHER,
    FF_CP_ULYSSES,
    FF_CP_HYBRID, /* Ulysses of `ulysses` ranks inside, ring outside */
} ff_cp_kind;

typedef enum ff_zero3_weights { FF_ZERO3_STREAM, FF_ZERO3_RESIDENT } ff_zero3_weights;

typedef enum ff_recompute_mode {
    FF_RECOMPUTE_NONE,
    FF_RECOMPUTE_SELECTIVE, /* the named modules */
    FF_RECOMPUTE_FULL,      /* whole layers: all, or so many of every stage, or as many as each
                             * stage's entry says */
} ff_recompute_mode;

/* Modules of selective recomputation. */
enum {
    FF_MODULE_CORE = 1,        /* attention scores, softmax, dropout (flash: log-sum-exp) */
    FF_MODULE_MLP = 2,         /* gate, up and their product (plain: the activation) */
    FF_MODULE_NORM = 4,        /* norm outputs */
    FF_MODULE_MOE = 8,         /* the whole expert block */
    FF_MODULE_ACTIVATION = 16, /* the activation's output only */
    FF_MODULE_ALTERNATE = 32,  /* every second product: the attention's output and up, not gate */
};

typedef enum ff_recipe {
    FF_RECIPE_BF16_MEGATRON,  /* 2 + 4 + 12 */
    FF_RECIPE_BF16_CLASSIC,   /* 2 + 2 + 12 */
    FF_RECIPE_BF16_DEEPSPEED, /* 2 + 2 + 12, sharded as DeepSpeed does */
    FF_RECIPE_BF16_FSDP2,     /* fp32 shards, bf16 working set */
    FF_RECIPE_BF16_FSDP,      /* the same, reduced in bf16 */
    FF_RECIPE_BF16_AUTOCAST,  /* fp32 weights gathered, cast product by product */
    FF_RECIPE_FP16_MEGATRON,  /* 2 + 2 + 16: fp32 gradients at the step only */
    FF_RECIPE_FP8_TE,
    FF_RECIPE_MXFP8,
    FF_RECIPE_FP8_PARAMS,    /* weights in fp8 only, bf16 gradients: 2 + 2 + 12 */
    FF_RECIPE_FP8_ROWWISE,   /* a scale for every row and column */
    FF_RECIPE_FP8_FSDP2,     /* fp32 shards, bf16 gathered, fp8 GEMMs (float8 linear layers) */
    FF_RECIPE_BF16_NANOTRON, /* 4 + 4 + 12: bf16 gradients beside their fp32 sums */
    FF_RECIPE_FP32,
    FF_RECIPE_NVFP4, /* bf16 weights and their fp4 copies, bf16 gradients: 3 + 2 + 12 */
    FF_RECIPE_COUNT
} ff_recipe;

typedef enum ff_schedule_kind {
    FF_SCHEDULE_GPIPE,
    FF_SCHEDULE_1F1B,
    FF_SCHEDULE_INTERLEAVED,
    FF_SCHEDULE_ZB_H1,
    FF_SCHEDULE_ZB_H2,
    FF_SCHEDULE_ZB_V,
    FF_SCHEDULE_V_HALF,
    FF_SCHEDULE_DUALPIPE,
    FF_SCHEDULE_DUALPIPE_V,
    FF_SCHEDULE_COUNT
} ff_schedule_kind;

/* How gradients of microbatches add up: into one buffer, or as a binary tree, whose sum does not
 * depend on how the batch is divided, with a buffer more a doubling of microbatches. */
typedef enum ff_accumulation { FF_ACCUMULATE_CHAIN, FF_ACCUMULATE_TREE } ff_accumulation;

typedef enum ff_grid { FF_GRID_FOLDED, FF_GRID_PRODUCT } ff_grid;

enum { FF_LAYOUT_MAX_CHUNKS = 1024, FF_LAYOUT_TEXT_BYTES = 4096 + FF_LAYOUT_MAX_CHUNKS * 5 };

/* Sizes are positive; 0 stands for "left out" before ff_layout_derive. */
typedef struct ff_layout {
    int64_t dp, tp, pp, cp, ep, etp;
    int64_t edp; /* derived: tp*cp*dp / (etp*ep) */
    int sp;      /* -1 left out, 0, 1 */
    int64_t vpp;
    ff_cp_kind cp_kind;
    int64_t ulysses;    /* of hybrid; cp under ulysses; 1 otherwise, after derive */
    int zero;           /* -1 left out, 0..3 */
    int64_t zero_group; /* ranks that shard together; 0 = dp*cp */
    int zero3_weights;  /* -1 left out, else ff_zero3_weights */
    int64_t mbs, microbatches;
    ff_accumulation accumulate;
    ff_recompute_mode recompute;
    unsigned recompute_modules;
    int64_t recompute_layers; /* of every stage; 0 = all, or by stage */
    int recompute_stages;     /* entries of recompute_of_stage: pp, or 0 = none */
    int16_t recompute_of_stage[FF_LAYOUT_MAX_CHUNKS];
    ff_recipe recipe;
    int schedule; /* -1 left out, else ff_schedule_kind */
    ff_axis dense_order[4], expert_order[4];
    ff_grid grid;
    int chunks; /* entries of layers_of_chunk: ff_layout_model_chunks after derive; 0 = no split */
    int16_t layers_of_chunk[FF_LAYOUT_MAX_CHUNKS]; /* in model order: chunk 0 first */
    unsigned given; /* bit i: key i of the table was written by the user */
} ff_layout;

/* An empty layout: everything left out. */
FF_API void ff_layout_init(ff_layout *layout);

/* Parses a layout string into `layout` (initialised here). Reports every fault (unknown key with
 * the nearest one, key given twice, bad value with the legal ones). */
FF_API ff_status ff_layout_parse(const char *text, ff_diagnostics *findings, ff_layout *layout);

/* What the left-out keys are derived from; 0 = not known. */
typedef struct ff_layout_context {
    int64_t world;         /* devices; 0: the product of the layout in its grid */
    int64_t gbs_sequences; /* target batch; microbatches = the fewest that reach it */
    int layers;            /* of the model; 0: no split is made */
    const char *text;      /* the layout as written, for findings to point into; may be NULL */
} ff_layout_context;

/* Fills in every left-out key, decides the grid (folded where consistent, else product; a product
 * grid is translated to the folded one, with a note FF0207), and checks that both grids make the
 * world (FF0205). The balanced split gives what is left over to the middle chunks, since first and
 * last also hold embedding and head. Afterwards no key is left out but the split when
 * layers is 0. */
FF_API ff_status ff_layout_derive(ff_layout *layout, const ff_layout_context *context,
                                  ff_diagnostics *findings);

typedef enum ff_layout_style {
    FF_LAYOUT_SHORT, /* zero, mbs, and what differs from the defaults: for tables. Microbatches
                      * where the key is `given`: derived ones follow from the batch again */
    FF_LAYOUT_FULL,  /* every key with its value */
} ff_layout_style;
/* Writes the layout; parsing and deriving what is written gives the same layout again (in the same
 * context). Returns `text`. */
FF_API const char *ff_layout_print(const ff_layout *layout, ff_layout_style style, char *text,
                                   size_t text_bytes);

/* The mesh of a derived layout. */
FF_API ff_status ff_layout_mesh(const ff_layout *layout, ff_diagnostics *findings, ff_mesh *mesh);

/* Parts that the model is cut into: pp*vpp; pp where dualpipe holds them twice. */
FF_API int64_t ff_layout_model_chunks(const ff_layout *layout);
FF_API int64_t ff_layout_world(const ff_layout *layout);           /* tp*cp*dp*pp */
FF_API int64_t ff_layout_min_world(const ff_layout *layout);       /* pp*lcm(tp*cp, etp*ep) */
FF_API int64_t ff_layout_batch_sequences(const ff_layout *layout); /* mbs*microbatches*dp */
/* Gradient buffers that accumulation holds: 1, of a tree as many as it has levels. */
FF_API int ff_layout_gradient_buffers(const ff_layout *layout);
/* Active dimensions: how many of dp tp pp cp ep are above 1. */
FF_API int ff_layout_active_dimensions(const ff_layout *layout);

/* Whether the user wrote a key. */
FF_API bool ff_layout_given(const ff_layout *layout, const char *key);

/* One row a key: name, values as help shows them, what is taken when left out. NULL past the end.
 */
typedef struct ff_layout_key_help {
    const char *name, *values, *left_out;
} ff_layout_key_help;
FF_API const ff_layout_key_help *ff_layout_key_describe(int index);
FF_API const ff_layout_key_help *ff_layout_key_help_of(const char *key); /* by name */

FF_API const char *ff_cp_kind_name(ff_cp_kind kind);
FF_API const char *ff_recipe_name(ff_recipe recipe);
FF_API const char *ff_schedule_name(ff_schedule_kind schedule);
/* Chunks a stage that a kind always runs; 0: two or more, as the layout says. */
FF_API int ff_schedule_own_chunks(ff_schedule_kind schedule);
/* By name or alias; false when unknown. */
FF_API bool ff_schedule_find(const char *name, ff_schedule_kind *schedule);
FF_API bool ff_recipe_find(const char *name, ff_recipe *recipe);
/* "none", "full", "full:2", "full:3/2*2/0", "selective:core+mlp". */
FF_API const char *ff_recompute_print(const ff_layout *layout, char *text, size_t text_bytes);

#endif
