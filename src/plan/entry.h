/* One layout's figures as facts, the same in `plan` and `check`. */
#ifndef FF_PLAN_ENTRY_H
#define FF_PLAN_ENTRY_H

#include "base/fact.h"
#include "plan/evaluate.h"

/* Adds to the open record: layout, layout_fields, verdict, fits, memory, time and speed. `stages`
 * has pp entries. */
void ff_entry_facts(const ff_job *job, const ff_layout *layout, const ff_estimate *estimate,
                    const ff_stage_memory *stages, ff_facts *facts);
void ff_layout_facts(const ff_layout *layout, ff_facts *facts);
/* A stage's bytes by category, into an open record. */
void ff_stage_facts(const ff_stage_memory *memory, int64_t stage, ff_facts *facts);
void ff_time_facts(const ff_estimate *estimate, ff_facts *facts);

/* What the question was, with all defaults: the record `inputs` of every answer. */
void ff_inputs_of_job(const ff_job *job, ff_facts *facts);
void ff_model_summary(const ff_model *model, ff_facts *facts);
/* schema and version, the first two of every document. */
void ff_document_head(ff_facts *facts, const char *what);

#endif
