/* Bytes of weights, gradients and optimizer state of a rank's parameters. */
#ifndef FF_MEMORY_STATE_H
#define FF_MEMORY_STATE_H

#include "fivefold/memory.h"

typedef struct ff_state_bytes {
    int64_t weights, gradients, optimizer;
    int64_t in_step; /* of `optimizer`: copies of gradients that live in the step alone */
} ff_state_bytes;

ff_state_bytes ff_state_of(const ff_layout *layout, ff_shard_params params);

#endif
