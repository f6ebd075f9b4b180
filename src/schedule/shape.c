/* The schedule's view of a layout. */
#include "fivefold/schedule.h"

ff_schedule_shape ff_schedule_shape_of(const ff_layout *layout) {
    return (ff_schedule_shape){.kind = (ff_schedule_kind)layout->schedule,
                               .stages = (int32_t)layout->pp,
                               .chunks = (int32_t)layout->vpp,
                               .microbatches = (int32_t)layout->microbatches};
}
