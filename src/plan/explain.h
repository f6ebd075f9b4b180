/* What `explain` is made of: a layout looked at in full, and one function a topic. */
#ifndef FF_PLAN_EXPLAIN_H
#define FF_PLAN_EXPLAIN_H

#include "base/fact.h"
#include "base/units.h"
#include "plan/evaluate.h"

typedef struct ff_explained {
    const ff_job *job;
    const char *text; /* the layout as written */
    ff_arena *arena;
    ff_layout layout;
    ff_evaluator *evaluator;
    ff_program_options options;
    ff_program *program;
    ff_reaches reaches;
    ff_estimate estimate;
    ff_stage_memory *stages;
} ff_explained;

/* FF_INVALID or FF_NO with findings when the layout cannot be read or is illegal; close either way.
 */
ff_status ff_explained_open(const ff_job *job, const char *text, ff_diagnostics *findings,
                            ff_explained *e);
void ff_explained_close(ff_explained *e);

typedef void ff_topic_function(const ff_explained *e, ff_facts *facts);
ff_topic_function ff_explain_panorama, ff_explain_tp, ff_explain_dp, ff_explain_pp, ff_explain_cp,
    ff_explain_ep, ff_explain_zero, ff_explain_memory, ff_explain_time, ff_explain_placement,
    ff_explain_zero3_pp, ff_explain_lesson, ff_explain_layer, ff_explain_schedule;

/* Drawing, bubble and stages of a schedule, into the open section. */
void ff_schedule_section(const ff_schedule_shape *shape, int columns, ff_facts *facts);

/* Another layout of the same job, looked at beside the explained one. */
typedef struct ff_variant {
    bool possible;
    ff_layout layout;
    ff_estimate estimate;
    ff_shard_params params; /* of the stage that is counted */
    int counts;
    ff_count count[FF_MOST_COUNTS]; /* as ff_telling_counts */
} ff_variant;
/* The explained layout with its derived keys left out again, to change one and derive the rest. */
ff_layout ff_variant_start(const ff_explained *e);
void ff_variant_look(const ff_explained *e, const ff_layout *layout, ff_variant *variant);

/* What a rank of one stage sends in a step: the first stage or, where the layout splits experts, the
 * first one that holds some (dense layers may come first). */
int ff_telling_counts(const ff_program *program, const ff_layout *layout, ff_count *counts,
                      int *stage);

/* The link that a group uses, in words: "NVLink4, 371 GB/s". */
const char *ff_reach_words(const ff_explained *e, const ff_reach *reach, char *text, size_t bytes);

#endif
