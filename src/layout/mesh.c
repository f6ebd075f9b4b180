/* The mesh of a layout: its seven sizes in its two orders. */
#include "fivefold/layout.h"

ff_status ff_layout_mesh(const ff_layout *layout, ff_diagnostics *findings, ff_mesh *mesh) {
    const int64_t size[FF_AXIS_COUNT] = {
        [FF_AXIS_TP] = layout->tp,   [FF_AXIS_CP] = layout->cp,   [FF_AXIS_DP] = layout->dp,
        [FF_AXIS_PP] = layout->pp,   [FF_AXIS_ETP] = layout->etp, [FF_AXIS_EP] = layout->ep,
        [FF_AXIS_EDP] = layout->edp,
    };
    return ff_mesh_create(size, layout->dense_order, layout->expert_order, findings, mesh);
}
