/* Contents of a layout's chunks, and stages that are alike: a few classes stand for all.
 *
 *     pp 8, vpp 2    chunks 0      E . . . . . . .      contents: with embedding, plain, with head
 *                    chunks 1      . . . . . . . H
 *                    classes       a b b b b b b c      stages 1 to 6 hold the same
 *
 * Two chunks are alike when they hold as many layers of each kind, as many of them recomputed, and
 * the same ends; two stages when their chunks are, one by one, unless they are to be kept apart. */
#ifndef FF_PLAN_STAGES_H
#define FF_PLAN_STAGES_H

#include "base/arena.h"
#include "fivefold/program.h"

typedef struct ff_stage_map {
    int contents; /* distinct ones */
    ff_chunk_content *content;
    int16_t *content_of; /* [stage * vpp + chunk] */
    bool apart;          /* every stage is its own class */
    int classes;
    int32_t *first_stage; /* [classes]: the lowest stage of each */
    int16_t *class_of;    /* [stage] */
} ff_stage_map;

/* In the arena. */
ff_stage_map *ff_stage_map_make(ff_arena *arena, const ff_model *model, const ff_layout *layout,
                                bool apart);

#endif
