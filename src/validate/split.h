/* How a stack deals layers to pipeline stages where it does not deal them evenly.
 *
 *     running-cost   blocks in order, each to the current stage; the next stage begins once the cost
 *                    so far exceeds its even share (nanotron); the head counts as V*h, a layer as
 *                    its GEMM weights
 *     by-cost        the split whose slowest stage is fastest
 *     with-mtp       chunks filled from the front, each with its even share of layers and prediction
 *                    blocks, which the last one holds: 61 layers and a block on 16 are 15 times 4, 1
 *     2..3           two layers on the first stage, three on the last, the others evenly */
#ifndef FF_VALIDATE_SPLIT_H
#define FF_VALIDATE_SPLIT_H

#include "fivefold/layout.h"
#include "fivefold/model.h"

/* Writes the split into the layout; false when the name is unknown, the stages hold several chunks (of
 * which only with-mtp knows), or a stage would be left without anything. */
bool ff_split_layers(const char *name, const ff_model *model, ff_layout *layout);

#endif
