/* The model of a row: a bare shape, or the preset of the same shape where the columns cannot say
 * everything (experts, MLA, sliding windows, a head dimension that is not hidden/heads). */
#ifndef FF_VALIDATE_SHAPE_H
#define FF_VALIDATE_SHAPE_H

#include "fivefold/model.h"
#include "validate/row.h"

/* All model presets, in the arena; returns how many. */
int ff_validate_presets(ff_arena *arena, ff_model **presets);
/* FF_INVALID when the shape is not in the columns. */
ff_status ff_validate_model(const ff_model *presets, int count, const ff_row *row, ff_model *model);

#endif
