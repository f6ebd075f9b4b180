/* The best cut of a model's layers into pipeline stages, and how many layers each stage recomputes
 * so that it fits: embedding, head, MTP blocks and dense first layers make stages of equal layer
 * counts unequal in time and memory, and early stages hold more microbatches than late ones. */
#ifndef FF_PLAN_SPLIT_H
#define FF_PLAN_SPLIT_H

#include "cost/cost.h"
#include "fivefold/memory.h"

/* Whole layers recomputed: what a cut may do. */
typedef enum ff_cut_recompute {
    FF_CUT_RECOMPUTES_NONE,
    FF_CUT_RECOMPUTES_FEWEST, /* the fewest of each stage that make it fit */
    FF_CUT_RECOMPUTES_ALL,
} ff_cut_recompute;

/* What the cut is made for. `layout` is derived and legal, of a schedule with one chunk a stage; its
 * own split and recompute are not looked at (selective modules are kept, if it has them). */
typedef struct ff_split_inputs {
    const ff_cost *cost;
    const ff_layout *layout;
    const ff_memory_blocks *memory; /* both kinds of layers: plain and recomputed */
    const ff_time_blocks *time;
    int64_t limit_bytes; /* a stage's ledger stays at or below it */
    ff_cut_recompute recompute;
} ff_split_inputs;

typedef struct ff_split {
    int16_t layers[FF_LAYOUT_MAX_CHUNKS];     /* [pp] */
    int16_t recomputed[FF_LAYOUT_MAX_CHUNKS]; /* of these, the first ones */
    double slowest_s; /* forward and backward of a microbatch on the slowest stage */
    double all_s;     /* of all stages together */
} ff_split;

/* False when the schedule has several chunks a stage, or no cut fits. */
bool ff_split_best(const ff_split_inputs *inputs, ff_split *split);

/* The layout with that cut; layers recomputed are one number where one serves all stages. */
ff_layout ff_split_layout(const ff_layout *layout, const ff_split *split);

/* Counts the split as the user's where it is not the balanced one, so that it is printed and kept. */
void ff_split_mark(ff_layout *layout);

/* Layers of each stage in words; as counts of the first, the last and the others where that
 * suffices: "8 layers a stage, 5 on the last; of these recomputed 2, 0 on the last". */
void ff_split_describe(const ff_layout *layout, char *text, size_t bytes);

#endif
