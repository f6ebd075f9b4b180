/* Where a stage's chunks lie in the model; see the drawing in generators.h. */
#include "schedule/generators.h"

#include "base/number.h"
#include <assert.h>

static ff_placement placement_of(const ff_schedule_shape *shape) {
    const ff_generator *generator = ff_generator_find(shape->kind);
    assert(generator != NULL);
    return generator->placement;
}

int32_t ff_schedule_model_chunks(const ff_schedule_shape *shape) {
    bool both = placement_of(shape) == FF_PLACEMENT_BOTH_WAYS;
    return both ? shape->stages : shape->stages * shape->chunks;
}

int32_t ff_schedule_copies(const ff_schedule_shape *shape) {
    return placement_of(shape) == FF_PLACEMENT_BOTH_WAYS ? 2 : 1;
}

int32_t ff_schedule_position(const ff_schedule_shape *shape, int32_t stage, int32_t chunk) {
    switch (placement_of(shape)) {
    case FF_PLACEMENT_V:
        return chunk == 0 ? stage : 2 * shape->stages - 1 - stage;
    case FF_PLACEMENT_BOTH_WAYS:
        return chunk == 0 ? stage : shape->stages - 1 - stage;
    case FF_PLACEMENT_ROUND_ROBIN:
        break;
    }
    return chunk * shape->stages + stage;
}

/* The stage that holds a position, on the way of the microbatches of `chunk`. */
static ff_chunk_place place_at(const ff_schedule_shape *shape, int32_t position, int32_t chunk) {
    int32_t p = shape->stages;
    switch (placement_of(shape)) {
    case FF_PLACEMENT_V:
        return position < p ? (ff_chunk_place){position, 0}
                            : (ff_chunk_place){2 * p - 1 - position, 1};
    case FF_PLACEMENT_BOTH_WAYS:
        return (ff_chunk_place){chunk == 0 ? position : p - 1 - position, chunk};
    case FF_PLACEMENT_ROUND_ROBIN:
        break;
    }
    return (ff_chunk_place){position % p, position / p};
}

bool ff_schedule_neighbour(const ff_schedule_shape *shape, ff_chunk_place place, int step,
                           ff_chunk_place *neighbour) {
    int32_t position = ff_schedule_position(shape, place.stage, place.chunk) + step;
    if (position < 0 || position >= ff_schedule_model_chunks(shape))
        return false;
    *neighbour = place_at(shape, position, place.chunk);
    return true;
}

bool ff_schedule_partner(const ff_schedule_shape *shape, int32_t stage, const ff_action *action,
                         ff_chunk_place *partner) {
    bool later =
        action->kind == FF_ACTION_SEND_ACTIVATION || action->kind == FF_ACTION_RECV_GRADIENT;
    return ff_schedule_neighbour(shape, (ff_chunk_place){stage, action->chunk}, later ? 1 : -1,
                                 partner);
}

void ff_schedule_chunk_microbatches(const ff_schedule_shape *shape, int32_t chunk, int32_t *first,
                                    int32_t *count) {
    bool both = placement_of(shape) == FF_PLACEMENT_BOTH_WAYS;
    *count = both ? shape->microbatches / 2 : shape->microbatches;
    *first = both && chunk == 1 ? *count : 0;
}
