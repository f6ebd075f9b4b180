/* The coarse ledger of the lesson (docs/model.md H), to the digit since people learn with it.
 *
 *     static bytes, P all parameters    zero 0  16P/t             zero 1  4P/t + 12P/(dp t)
 *                                       zero 2  2P/t + 14P/(dp t) zero 3  16P/(dp t)
 *     activations  floor(2 L S / cp) * b * h * 2          plus 2 GiB, against the device's memory
 *     legal        dp tp pp cp ep = N,  tp <= devices a node,  tp <= heads,  b m dp S >= target
 *
 * Pipeline stages, vocabulary and microbatches in flight play no part in it; dp is taken as
 * written. The search nests tp, pp, cp over {1,2,4,8} and zero over 0..3, with ep and b 1 and m
 * the smallest; --grid and --where change and filter these choices. */
#ifndef FF_PLAN_LESSON_H
#define FF_PLAN_LESSON_H

#include "base/fact.h"
#include "plan/search.h"

typedef struct ff_lesson_memory {
    double static_bytes, activation_bytes, overhead_bytes, total_bytes;
} ff_lesson_memory;

typedef struct ff_lesson_layout {
    int64_t dp, tp, pp, cp, ep, zero, mbs, microbatches;
    ff_lesson_memory memory;
} ff_lesson_layout;

typedef struct ff_lesson_set ff_lesson_set;

/* P: what the user states for a bare shape, else all parameters. */
double ff_lesson_params(const ff_model *model);
void ff_lesson_price(const ff_job *job, ff_lesson_layout *layout);
/* NULL with findings when --where or --grid name a dimension that the lesson does not have. */
ff_lesson_set *ff_lesson_search(ff_arena *arena, const ff_job *job, const ff_space *space,
                                ff_search_counts *counts, ff_diagnostics *findings);
int64_t ff_lesson_found(const ff_lesson_set *set);
/* The list `plans`. */
void ff_lesson_facts(const ff_lesson_set *set, const ff_job *job, int top, ff_facts *facts);
/* Of one layout, into the open record: `layout` and `layout_fields`; `memory`. */
void ff_lesson_layout_facts(const ff_lesson_layout *layout, ff_facts *facts);
void ff_lesson_memory_facts(const ff_lesson_layout *layout, const ff_job *job, ff_facts *facts);
/* Prices it and reports each violated condition; FF_OK, or FF_NO. `text` is the layout as written,
 * to point into, or NULL. */
ff_status ff_lesson_check(const ff_job *job, ff_lesson_layout *layout, const char *text,
                          ff_diagnostics *findings);

#endif
