/* The schedule's view of a layout. */
#include "fivefold/schedule.h"

ff_schedule_shape ff_schedule_shape_of(const ff_layout *layout) {
    return (ff_schedule_shape){.kind = (ff_schedule_kind)layout->schedule,
                               .stages = (int32_t)layout->pp,
                               .chunks = (int32_t)layout->vpp,
                               .microbatches = (int32_t)layout->microbatches};
}

int64_t ff_schedule_stage_layers(const ff_layout *layout, int64_t stage) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    int64_t layers = 0;
    for (int32_t chunk = 0; chunk < shape.chunks; chunk++)
        layers += layout->layers_of_chunk[ff_schedule_position(&shape, (int32_t)stage, chunk)];
    return layers;
}
