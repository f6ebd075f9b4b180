/* What a terminal shows of a simulation: the pipeline and the activations of each stage over time. */
#ifndef FF_PLAN_TIMELINE_H
#define FF_PLAN_TIMELINE_H

#include "base/text.h"
#include "simulate/simulate.h"

typedef struct ff_timeline ff_timeline;
/* Passes everything on to `next`, which may be NULL. */
ff_timeline *ff_timeline_create(int64_t stages, const ff_observer *next);
void ff_timeline_free(ff_timeline *timeline);
const ff_observer *ff_timeline_observer(ff_timeline *timeline);

/* Draws both, `columns` wide at most. */
void ff_timeline_draw(const ff_timeline *timeline, int64_t step_ps, int columns, ff_text *text);

#endif
