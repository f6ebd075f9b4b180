/* The lesson's panorama as a table: nine ways to spread a step, what each is for, and how to make
 * the explained layout use it. */
#ifndef FF_PLAN_METHODS_H
#define FF_PLAN_METHODS_H

#include "plan/explain.h"

typedef struct ff_method {
    const char *topic; /* of `explain` that goes deeper */
    const char *title;
    const char *splits, *saves, *sends, *why, *timing, *belongs, *bottleneck;
    ff_axes group; /* of its collectives */
    ff_exposure exposure;
    bool hides; /* runs beside other work: needs its bandwidth there, not within 10% of the step */
    /* Turns the variant into a layout that uses the method, at the explained size or, where that is
     * 1, at a natural one. False when the model or cluster has no use for it. */
    bool (*use)(const ff_explained *e, ff_layout *variant);
} ff_method;

extern const ff_method ff_methods[];
extern const int ff_method_count;

/* Calls and bytes that a rank sends in the method's group in a step (ff_telling_counts). */
void ff_method_traffic(const ff_method *method, const ff_variant *variant, int64_t *calls,
                       double *sent_bytes);
/* Bandwidth of a device that keeps the method's traffic within 10% of the step, or (hidden traffic)
 * within the work that hides it; bytes a second. */
double ff_method_needs_Bps(const ff_method *method, const ff_variant *variant, double sent_bytes);
/* Items of one method into the open section. */
void ff_method_items(const ff_explained *e, const ff_method *method, const ff_variant *variant,
                     ff_facts *facts);
const ff_reach *ff_method_reach(const ff_method *method, const ff_reaches *reaches);

#endif
