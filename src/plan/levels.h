/* What an evaluator has at hand: sums that many layouts share, each remembered by what it was made
 * for.
 *
 *     grid      tp pp cp dp ep etp order                  reaches of the groups
 *     blocks    grid's reaches, mbs, sp, cp_kind,          bytes and seconds of a layer, the ends
 *               recompute, recipe
 *     chunks    pp vpp schedule microbatches, layers       what each class of stages holds and takes
 *               recomputed
 *     zero      grid x split, zero                         state, reductions, gathers, update
 *
 * A search varies the last levels fastest and pays for them alone. Several chunk levels of one block
 * are kept, since a count of recomputed layers is found by trying several. Stages of one class hold
 * the same and differ only in what they have in flight, which never grows from stage to stage, so
 * the first of a class is its largest; where backward is split that does not hold, and every stage
 * is a class of its own. State does not depend on recomputation: zero parts go with the `split`, the
 * classes without it. */
#ifndef FF_PLAN_LEVELS_H
#define FF_PLAN_LEVELS_H

#include "plan/blocks.h"
#include "plan/stages.h"

/* Sums of a class of stages. */
typedef struct ff_class_parts {
    ff_chunk_memory const **chunks; /* [vpp] */
    ff_held *held;                  /* [vpp], at the peak, when chunk `running` runs */
    int32_t running;
    int64_t held_bytes; /* of chunks and transfers, at the peak */
    ff_stage_time time;
} ff_class_parts;

typedef struct ff_chunk_level {
    const ff_stage_map *map, *split;
    ff_class_parts *parts; /* [map's classes] */
    int64_t transfer_bytes;
    bool timed;
    ff_step_time least; /* the pipeline without bubble or transfers */
    bool run;
    ff_step_time pipeline; /* without data parallelism */
    double step_end_s;
} ff_chunk_level;

/* State and data-parallel parts of every class of the split, for one ZeRO form. */
typedef struct ff_zero_parts {
    bool made, timed;
    int zero, weights, recipe;
    int64_t group;
    ff_ledger_fixed *fixed; /* [split's classes] */
    ff_sync_time *sync;     /* [split's classes], when timed */
} ff_zero_parts;

typedef struct ff_levels ff_levels;
ff_levels *ff_levels_create(ff_arena *arena, const ff_cost *cost,
                            const ff_program_options *options);
void ff_levels_free(ff_levels *levels);

/* Makes a layout's levels the current ones. */
void ff_levels_set(ff_levels *levels, const ff_layout *layout);
/* Forward and backward of a microbatch through the whole model, at least (ff_blocks_least_s). Grid and
 * blocks alone are made: ff_levels_set must follow before anything else is asked. */
double ff_levels_least_s(ff_levels *levels, const ff_layout *layout, bool recomputed);
/* The current ones; the blocks' parts, the level's time and a form's time are made when asked for. */
const ff_reaches *ff_levels_reaches(const ff_levels *levels);
const ff_memory_blocks *ff_levels_memory_blocks(ff_levels *levels, const ff_layout *layout);
const ff_time_blocks *ff_levels_time_blocks(ff_levels *levels, const ff_layout *layout);
const ff_chunk_level *ff_levels_chunks(const ff_levels *levels);
const ff_chunk_level *ff_levels_timed(ff_levels *levels, const ff_layout *layout, bool run);
const ff_zero_parts *ff_levels_zero(ff_levels *levels, const ff_layout *layout, bool timed);

/* A stage of the current layout. */
void ff_levels_stage_memory(ff_levels *levels, const ff_layout *layout, int64_t stage,
                            ff_stage_memory *memory);

#endif
