/* What the program's files share: its content, and the weights of each unit.
 *
 * A unit is what ZeRO-3 gathers and frees together: a layer, the embedding, or the head with the
 * MTP blocks. A chunk's weights are the sum of its units, so buckets cut from the chunk (counts.c)
 * and units passed one by one (walk.c) end at the same element. */
#ifndef FF_PROGRAM_INTERNAL_H
#define FF_PROGRAM_INTERNAL_H

#include "base/arena.h"
#include "fivefold/program.h"

struct ff_program {
    ff_arena *arena;
    const ff_model *model; /* copies, in the arena */
    const ff_layout *layout;
    ff_program_options options;
    ff_schedule *schedule;
    ff_layer_list *layer[FF_MODEL_MAX_KINDS][2]; /* by kind, recomputed or not */
    ff_layer_list *embedding, *head, *mtp;
};

ff_shard_params program_layer_params(const ff_program *program, int kind);
ff_shard_params program_embedding_params(const ff_program *program);
ff_shard_params program_head_params(const ff_program *program);
ff_shard_params program_chunk_params(const ff_program *program, const ff_chunk_content *content);

/* Ranks of the group that reduces dense or expert gradients: what buckets are sized by. */
int64_t program_replicas(const ff_layout *layout, bool expert);

#endif
