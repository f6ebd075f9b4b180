/* How a chunk's weights are cut: blocks travel together, pieces are divided among the replicas.
 *
 *     chunk    | head unit | layer | layer | ... | embedding unit |
 *     blocks   |<-- bucket 0 -->|<-- bucket 1 -->|<-- bucket 2 -->|     ZeRO-3: the units
 *     pieces   |<------------->|<------------->|<--->|<--------->|     one a block; a tied embedding
 *                                                     '- embedding     on two stages is one of its own
 *     shard    piece 0's part | piece 1's part | ...                   one after another
 *
 * A tied embedding that lies on two stages is divided alike on both, whatever block it is in: what a
 * rank of the first stage has summed up is then what its peer of the last stage has (Megatron-LM
 * gives it a bucket of its own for the same reason). */
#ifndef FF_ENGINE_BLOCKS_H
#define FF_ENGINE_BLOCKS_H

#include "engine/rank.h"

/* The blocks that the list reduces in a chunk's last backward, and their pieces. False (with a
 * fault) when they are not the chunk's weights. */
bool ff_blocks_build(ff_rank *rank, ff_chunk *chunk, int index);
void ff_blocks_free(ff_chunk *chunk);
/* What this rank has of a piece: in the chunk's weights, and where that lies in the shard. */
typedef struct ff_own_span {
    int64_t begin, end, shard;
} ff_own_span;
ff_own_span ff_own_span_of(const ff_rank *rank, const ff_chunk *chunk, int piece);
int64_t ff_block_elements(const ff_chunk *chunk, int block);
/* Elements and pieces of a block that travels, and where its shard begins. */
int64_t ff_block_travels(const ff_rank *rank, const ff_chunk *chunk, int block,
                         ff_exchange *exchange);

#endif
