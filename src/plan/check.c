/* `check`: one layout against the rules, the ledger and the clock. */
#include "cluster/describe.h"
#include "plan/read_layout.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "layout/keys.h"
#include "plan/entry.h"
#include "plan/lesson.h"
#include "rules/rules.h"
#include <stdio.h>

enum { MOST_TENSORS = 12 };

/* --recipe is for layouts that name none. */
static ff_status settle_recipe(const ff_job *job, const char *text, ff_diagnostics *findings,
                               ff_layout *layout) {
    if (!job->recipe_given)
        return FF_OK;
    bool written = layout->given & ff_layout_key_bit("recipe");
    if (written && layout->recipe != job->recipe) {
        ff_report(findings, FF0206, ff_layout_place(text, "recipe"),
                  "recipe=%s, but --recipe says %s", ff_recipe_name(layout->recipe),
                  ff_recipe_name(job->recipe));
        ff_report_help(findings, "leave one of them out");
        return FF_INVALID;
    }
    layout->recipe = job->recipe;
    return FF_OK;
}

ff_status ff_read_layout(const ff_job *job, const char *text, ff_diagnostics *findings,
                         ff_layout *layout) {
    ff_status status = ff_layout_parse(text, findings, layout);
    if (status != FF_OK)
        return status;
    if (settle_recipe(job, text, findings, layout) != FF_OK)
        return FF_INVALID;
    ff_layout_context context = {.world = job->cluster.devices,
                                 .gbs_sequences = ff_job_sequences(job),
                                 .layers = job->model.layers,
                                 .text = text};
    return ff_layout_derive(layout, &context, findings) == FF_OK ? FF_OK : FF_NO;
}

ff_rule_case ff_rule_case_of(const ff_job *job, const ff_layout *layout, const char *text) {
    return (ff_rule_case){.model = &job->model,
                          .cluster = &job->cluster,
                          .layout = layout,
                          .seq = job->seq,
                          .gbs_sequences = ff_job_sequences(job),
                          .gbs_exact = job->gbs_exact,
                          .text = text};
}

static void findings_facts(const ff_diagnostics *findings, int first, ff_facts *facts) {
    ff_facts_open_list(facts, "findings");
    for (int i = first; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "code", "%s", d->code);
        ff_facts_add_text(facts, "severity", "%s", ff_severity_name(d->severity));
        if (d->where.file != NULL && d->where.line_text != NULL)
            ff_facts_add_text(facts, "where", "%s:%d:%d: %.*s", d->where.file, d->where.line,
                              d->where.column, d->where.length,
                              d->where.line_text + d->where.column - 1);
        else
            ff_facts_add_text(facts, "where", "%s", d->where.file == NULL ? "" : d->where.file);
        ff_facts_add_text(facts, "message", "%s", d->message);
        ff_facts_add_text(facts, "rule", "%s", d->rule == NULL ? "" : d->rule);
        ff_facts_add_text(facts, "help", "%s", d->help == NULL ? "" : d->help);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

/* The layout's recipe is the one that counts. */
static void open_answer(const ff_job *job, const ff_layout *layout, ff_facts *facts) {
    ff_job echoed = *job;
    echoed.recipe_given = true;
    echoed.recipe = layout->recipe;
    ff_document_head(facts, "check");
    ff_inputs_of_job(&echoed, facts);
    ff_facts_open_record(facts, "model");
    ff_model_summary(&job->model, facts);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "cluster");
    ff_cluster_facts(&job->cluster, facts);
    ff_facts_close(facts);
}

static void tensors_facts(ff_evaluator *evaluator, const ff_job *job, const ff_layout *layout,
                          const ff_stage_memory *memory, int64_t stage, ff_facts *facts) {
    ff_live_tensor tensors[MOST_TENSORS];
    ff_program_options options = ff_evaluator_options(evaluator);
    int count =
        ff_ledger_tensors(&job->model, layout, &options, memory, stage, MOST_TENSORS, tensors);
    ff_facts_open_list(facts, "tensors");
    for (int i = 0; i < count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "name", "%s", tensors[i].name);
        ff_facts_add_integer(facts, "bytes", tensors[i].bytes);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

static ff_status estimate_facts(const ff_job *job, const ff_layout *layout,
                                ff_diagnostics *findings, ff_facts *facts, ff_verdict *verdict) {
    ff_evaluator *evaluator = ff_evaluator_create(job, findings);
    if (evaluator == NULL)
        return FF_BUG;
    ff_arena *arena = ff_arena_create();
    ff_stage_memory *stages = FF_ARENA_ARRAY(arena, layout->pp, ff_stage_memory);
    ff_estimate estimate;
    ff_evaluate_memory(evaluator, layout, &estimate, stages);
    ff_evaluate_exactly(evaluator, layout, &estimate);
    ff_facts_open_record(facts, "estimate");
    ff_entry_facts(job, layout, &estimate, stages, facts);
    tensors_facts(evaluator, job, layout, &stages[estimate.peak_stage], estimate.peak_stage, facts);
    ff_facts_close(facts);
    *verdict = estimate.verdict;
    ff_evaluator_free(evaluator);
    ff_arena_free(arena);
    return FF_OK;
}

static ff_status check_full(const ff_job *job, const char *text, ff_diagnostics *findings,
                            ff_facts *facts) {
    ff_layout layout;
    char printed[FF_LAYOUT_TEXT_BYTES];
    int first = ff_diagnostics_count(findings);
    ff_status status = ff_read_layout(job, text, findings, &layout);
    if (status == FF_INVALID)
        return status;
    open_answer(job, &layout, facts);
    ff_facts_add_text(facts, "layout", "%s", text);
    bool legal = status == FF_OK;
    ff_verdict verdict = FF_TOO_BIG;
    ff_rule_case c = ff_rule_case_of(job, &layout, text);
    if (legal) {
        ff_facts_add_text(facts, "layout_full", "%s",
                          ff_layout_print(&layout, FF_LAYOUT_FULL, printed, sizeof printed));
        legal = ff_rules_check(&c, findings);
    } else {
        ff_rules_check_sizes(&c, findings);
    }
    ff_facts_add_boolean(facts, "legal", legal);
    if (!legal)
        ff_facts_add_null(facts, "estimate");
    else if (estimate_facts(job, &layout, findings, facts, &verdict) != FF_OK)
        return FF_BUG;
    ff_facts_add_text(facts, "verdict", "%s", legal ? ff_verdict_name(verdict) : "illegal");
    ff_facts_add_boolean(facts, "fits", legal && verdict != FF_TOO_BIG);
    findings_facts(findings, first, facts);
    return legal && verdict != FF_TOO_BIG ? FF_OK : FF_NO;
}

/* Left out: dp is the rest of the world in the product grid, m the smallest that reaches the batch.
 */
static void complete_lesson(const ff_job *job, const ff_layout *read, ff_lesson_layout *l) {
    *l = (ff_lesson_layout){.dp = read->dp,
                            .tp = ff_max(1, read->tp),
                            .pp = ff_max(1, read->pp),
                            .cp = ff_max(1, read->cp),
                            .ep = ff_max(1, read->ep),
                            .zero = read->zero < 0 ? 1 : read->zero,
                            .mbs = ff_max(1, read->mbs),
                            .microbatches = read->microbatches};
    int64_t others = ff_mul(ff_mul3(l->tp, l->pp, l->cp), l->ep);
    if (l->dp == 0)
        l->dp = ff_max(1, job->cluster.devices / others);
    if (l->microbatches == 0)
        l->microbatches = job->gbs_tokens == 0
                              ? 1
                              : ff_ceil_div(job->gbs_tokens, ff_mul3(l->mbs, l->dp, job->seq));
}

static ff_status check_lesson(const ff_job *job, const char *text, ff_diagnostics *findings,
                              ff_facts *facts) {
    ff_layout read;
    ff_lesson_layout l;
    int first = ff_diagnostics_count(findings);
    if (ff_layout_parse(text, findings, &read) != FF_OK ||
        settle_recipe(job, text, findings, &read) != FF_OK)
        return FF_INVALID;
    complete_lesson(job, &read, &l);
    ff_status status = ff_lesson_check(job, &l, text, findings);
    bool fits = l.memory.total_bytes <= (double)job->cluster.device.memory_bytes;
    bool legal = true;
    for (int i = first; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        legal = legal && (d->severity != FF_ERROR || ff_code_find(d->code) == FF0514);
    }
    open_answer(job, &read, facts);
    ff_facts_add_text(facts, "layout", "%s", text);
    ff_facts_add_boolean(facts, "legal", legal);
    ff_facts_add_text(facts, "verdict", "%s", !legal ? "illegal" : fits ? "fits" : "too_big");
    ff_facts_add_boolean(facts, "fits", legal && fits);
    ff_facts_open_record(facts, "estimate");
    ff_lesson_layout_facts(&l, facts);
    ff_lesson_memory_facts(&l, job, facts);
    ff_facts_close(facts);
    findings_facts(findings, first, facts);
    return status;
}

ff_status ff_check(const ff_job *job, const char *layout, ff_diagnostics *findings,
                   ff_facts *facts) {
    ff_diagnostics *own = findings == NULL ? ff_diagnostics_create() : NULL; /* facts hold them */
    ff_diagnostics *list = findings == NULL ? own : findings;
    ff_status status = job->ledger == FF_LEDGER_LESSON ? check_lesson(job, layout, list, facts)
                                                       : check_full(job, layout, list, facts);
    ff_diagnostics_free(own);
    return status;
}
