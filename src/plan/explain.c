/* `explain`: a layout looked at in full, then one topic of it. The topics are a table; each topic's
 * function stands in a file of its own. */
#include "plan/explain.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "plan/entry.h"
#include "plan/read_layout.h"
#include <string.h>

static const struct topic {
    ff_topic_help help;
    ff_topic_function *explain;
} topics[] = {
    {{"tp", "tensor and sequence parallelism: what each layer sends"}, ff_explain_tp},
    {{"dp", "data parallelism: gradients, and what hides them"}, ff_explain_dp},
    {{"pp", "pipeline stages: transfers, bubble, stages"}, ff_explain_pp},
    {{"cp", "context parallelism: how attention sees the whole sequence"}, ff_explain_cp},
    {{"ep", "expert parallelism: dispatch and combine"}, ff_explain_ep},
    {{"zero", "ZeRO stages 0 to 3 side by side"}, ff_explain_zero},
    {{"memory", "bytes by stage, category and tensor"}, ff_explain_memory},
    {{"time", "where the step's time goes, down to the operators of a layer"}, ff_explain_time},
    {{"placement", "which ranks share a node, which group crosses what"}, ff_explain_placement},
    {{"zero3-pp", "why ZeRO-3 and pipelines are rarely combined"}, ff_explain_zero3_pp},
    {{"lesson", "where the lesson's coarse ledger and the full one part"}, ff_explain_lesson},
    {{"layer", "the program of one layer: operators, saved tensors"}, ff_explain_layer},
    {{"schedule", "the program of one stage: its action list"}, ff_explain_schedule},
};
enum { TOPICS = sizeof topics / sizeof *topics };

const ff_topic_help *ff_explain_topic(int index) {
    return index >= 0 && index < TOPICS ? &topics[index].help : NULL;
}

static void refuse_topic(const char *name, ff_diagnostics *findings) {
    const char *names[TOPICS];
    ff_text all = {0};
    for (int i = 0; i < TOPICS; i++) {
        names[i] = topics[i].help.name;
        ff_text_printf(&all, "%s%s", i == 0 ? "" : " ", names[i]);
    }
    int nearest = ff_nearest_word(name, names, TOPICS);
    ff_report(findings, FF0407, FF_NOWHERE, "unknown topic \"%s\"", name);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean \"%s\"? topics: %s", names[nearest],
                       ff_text_bytes(&all));
    else
        ff_report_help(findings, "topics: %s", ff_text_bytes(&all));
    ff_text_free(&all);
}

static ff_topic_function *find_topic(const char *name, ff_diagnostics *findings) {
    if (name[0] == '\0')
        return ff_explain_panorama;
    for (int i = 0; i < TOPICS; i++)
        if (strcmp(name, topics[i].help.name) == 0)
            return topics[i].explain;
    refuse_topic(name, findings);
    return NULL;
}

ff_status ff_explained_open(const ff_job *job, const char *text, ff_diagnostics *findings,
                            ff_explained *e) {
    *e = (ff_explained){.job = job, .text = text};
    ff_status status = ff_read_layout(job, text, findings, &e->layout);
    if (status != FF_OK)
        return status;
    ff_rule_case c = ff_rule_case_of(job, &e->layout, text);
    if (!ff_rules_check(&c, findings))
        return FF_NO;
    e->evaluator = ff_evaluator_create(job, findings);
    if (e->evaluator == NULL)
        return FF_BUG;
    e->arena = ff_arena_create();
    e->options = ff_evaluator_options(e->evaluator);
    e->stages = FF_ARENA_ARRAY(e->arena, e->layout.pp, ff_stage_memory);
    ff_evaluate_memory(e->evaluator, &e->layout, &e->estimate, e->stages);
    ff_evaluate_exactly(e->evaluator, &e->layout, &e->estimate);
    ff_evaluate_reaches(e->evaluator, &e->layout, &e->reaches);
    e->program = ff_program_create(&job->model, &e->layout, &e->options, findings);
    return e->program == NULL ? FF_NO : FF_OK;
}

void ff_explained_close(ff_explained *e) {
    ff_program_free(e->program);
    ff_evaluator_free(e->evaluator);
    ff_arena_free(e->arena);
}

ff_status ff_explain(const ff_job *job, const char *layout, const char *topic,
                     ff_diagnostics *findings, ff_facts *facts) {
    ff_explained e;
    ff_topic_function *explain = find_topic(topic, findings);
    if (explain == NULL)
        return FF_INVALID;
    ff_status status = ff_explained_open(job, layout, findings, &e);
    if (status == FF_OK) {
        char text[FF_LAYOUT_TEXT_BYTES];
        ff_document_head(facts, "explain");
        ff_inputs_of_job(job, facts);
        ff_facts_add_text(facts, "layout", "%s",
                          ff_layout_print(&e.layout, FF_LAYOUT_FULL, text, sizeof text));
        ff_facts_add_text(facts, "topic", "%s", topic);
        explain(&e, facts);
    }
    ff_explained_close(&e);
    return status;
}

/* ---- variants ---- */

ff_layout ff_variant_start(const ff_explained *e) {
    ff_layout layout = e->layout;
    layout.dp = 0;
    layout.edp = 0;
    layout.sp = -1;
    layout.zero_group = 0;
    layout.zero3_weights = -1;
    layout.schedule = -1;
    layout.chunks = 0;
    layout.given = 0;
    if (e->job->gbs_tokens > 0)
        layout.microbatches = 0;
    return layout;
}

static bool counts_experts(const ff_count *counts, int entries) {
    for (int i = 0; i < entries; i++)
        if (counts[i].group == FF_AXES(FF_AXIS_EP))
            return true;
    return false;
}

int ff_telling_counts(const ff_program *program, const ff_layout *layout, ff_count *counts,
                      int *stage) {
    for (*stage = 0;; ++*stage) {
        int entries = ff_program_counts(program, *stage, counts);
        if (layout->ep <= 1 || *stage + 1 >= layout->pp || counts_experts(counts, entries))
            return entries;
    }
}

void ff_variant_look(const ff_explained *e, const ff_layout *layout, ff_variant *variant) {
    ff_layout_context context = {.world = e->job->cluster.devices,
                                 .gbs_sequences = ff_job_sequences(e->job),
                                 .layers = e->job->model.layers};
    *variant = (ff_variant){.layout = *layout};
    if (ff_layout_derive(&variant->layout, &context, NULL) != FF_OK)
        return;
    ff_program *program = ff_program_create(&e->job->model, &variant->layout, &e->options, NULL);
    if (program == NULL)
        return;
    ff_evaluate_memory(e->evaluator, &variant->layout, &variant->estimate, NULL);
    ff_evaluate_exactly(e->evaluator, &variant->layout, &variant->estimate);
    int stage;
    variant->counts = ff_telling_counts(program, &variant->layout, variant->count, &stage);
    variant->params = ff_program_stage_params(&e->job->model, &variant->layout, stage);
    variant->possible = true;
    ff_program_free(program);
}
