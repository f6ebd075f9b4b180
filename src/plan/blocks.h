/* The evaluator's store of block summaries, by what they depend on. Each part is made when it is asked
 * for: most blocks of a large search are only held against a bound, and what does not fit is not
 * timed. */
#ifndef FF_PLAN_BLOCKS_H
#define FF_PLAN_BLOCKS_H

#include "base/arena.h"
#include "cost/cost.h"
#include "fivefold/memory.h"

typedef struct ff_blocks ff_blocks;
typedef struct ff_block_store ff_block_store;
ff_block_store *ff_block_store_create(ff_arena *arena, const ff_cost *cost,
                                      const ff_program_options *options);
void ff_block_store_free(ff_block_store *store); /* what the arena does not hold */

/* The blocks of a layout. What a store returns is valid until the next call of this. */
ff_blocks *ff_block_store_get(ff_block_store *store, const ff_layout *layout,
                              const ff_reaches *reaches);
const ff_memory_blocks *ff_blocks_memory(ff_block_store *store, ff_blocks *blocks,
                                         const ff_layout *layout);
const ff_time_blocks *ff_blocks_time(ff_block_store *store, ff_blocks *blocks,
                                     const ff_layout *layout, const ff_reaches *reaches);
/* Forward and backward of a microbatch through the whole model, with no layer recomputed or all of
 * them; at least that, however a schedule splits backward. */
double ff_blocks_least_s(ff_block_store *store, ff_blocks *blocks, const ff_layout *layout,
                         const ff_reaches *reaches, bool recomputed);

#endif
