/* The evaluator's store of block summaries, by what they depend on. */
#ifndef FF_PLAN_BLOCKS_H
#define FF_PLAN_BLOCKS_H

#include "base/arena.h"
#include "cost/cost.h"
#include "fivefold/memory.h"

typedef struct ff_blocks {
    ff_memory_blocks memory;
    ff_time_blocks time;
    bool timed; /* time is made on demand: what does not fit is not timed */
} ff_blocks;

typedef struct ff_block_store ff_block_store;
ff_block_store *ff_block_store_create(ff_arena *arena);
/* The blocks of a layout; made when they are not there yet. Valid as long as the arena. */
ff_blocks *ff_block_store_get(ff_block_store *store, const ff_cost *cost,
                              const ff_program_options *options, const ff_layout *layout,
                              const ff_reaches *reaches);
void ff_blocks_time(ff_blocks *blocks, const ff_cost *cost, const ff_layout *layout,
                    const ff_reaches *reaches);

#endif
