/* Time: the step's terms, and the operators of one layer with what each reaches. */
#include "plan/explain.h"

static void term_row(const char *name, double seconds, double step_s, ff_facts *facts) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "term", "%s", name);
    ff_facts_add_real(facts, "time_s", seconds);
    ff_facts_add_real(facts, "share_ratio", seconds / step_s);
    ff_facts_close(facts);
}

static void term_table(const ff_step_time *t, ff_facts *facts) {
    static const ff_column columns[] = {
        {"term", "term"}, {"time_s", "time"}, {"share_ratio", "share"}, {NULL, NULL}};
    static const char *const names[FF_EXPOSED_COUNT] = {"TP, exposed", "PP, exposed", "CP, exposed",
                                                        "EP, exposed", "DP, exposed"};
    ff_document_table(facts, columns);
    term_row("compute of the slowest stage", t->compute_s, t->step_s, facts);
    term_row("pipeline bubble", t->bubble_s, t->step_s, facts);
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        if (t->exposed_s[i] > 0)
            term_row(names[i], t->exposed_s[i], t->step_s, facts);
    term_row("optimizer and step's end", t->optimizer_s, t->step_s, facts);
    term_row("step", t->step_s, t->step_s, facts);
    ff_document_table_end(facts);
}

/* What bounds an operator, and the rate it reaches. */
static void operator_row(const ff_explained *e, ff_dtype dtype, const ff_operator *op,
                         ff_facts *facts) {
    const ff_cost *cost = ff_evaluator_cost(e->evaluator);
    double seconds = ff_operator_s(cost, dtype, op);
    bool memory = op->kind == FF_OPERATOR_MEMORY;
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "phase", "%s", ff_phase_name(op->phase));
    ff_facts_add_text(facts, "name", "%s", op->name);
    if (op->kind == FF_OPERATOR_GEMM)
        ff_facts_add_text(facts, "sides", "%lld x %lld x %lld%s", (long long)op->m,
                          (long long)op->n, (long long)op->k, op->batch > 1 ? " grouped" : "");
    else
        ff_facts_add_text(facts, "sides", "%s", "");
    ff_facts_add_real(facts, "time_s", seconds);
    if (memory)
        ff_facts_add_text(facts, "rate", "%.0f GB/s", op->memory_bytes / seconds / 1e9);
    else
        ff_facts_add_text(facts, "rate", "%.0f TFLOP/s", op->flop / seconds / 1e12);
    ff_facts_close(facts);
}

static void operator_table(const ff_explained *e, ff_facts *facts) {
    static const ff_column columns[] = {{"phase", "phase"},     {"name", "operator"},
                                        {"sides", "m x n x k"}, {"time_s", "time"},
                                        {"rate", "reaches"},    {NULL, NULL}};
    ff_dtype dtype = ff_recipe_describe(e->layout.recipe)->compute;
    int kind = e->job->model.layer_kind[e->job->model.layers - 1];
    const ff_layer_list *list =
        ff_program_layer(e->program, kind, e->layout.recompute == FF_RECOMPUTE_FULL);
    ff_document_section(facts, "Compute of one layer (%s), one microbatch",
                        e->job->model.kind[kind].name);
    ff_document_table(facts, columns);
    for (int i = 0; i < list->operators; i++)
        if (list->op[i].kind != FF_OPERATOR_COLLECTIVE)
            operator_row(e, dtype, &list->op[i], facts);
    ff_document_table_end(facts);
}

void ff_explain_time(const ff_explained *e, ff_facts *facts) {
    const ff_estimate *s = &e->estimate;
    const ff_profile *p = e->job->profile;
    char host[FF_VALUE_BYTES], speed[FF_VALUE_BYTES];
    ff_document_open(facts, "time: %s", e->job->model.name);
    ff_document_section(facts, "%s", "");
    ff_document_say(facts,
                    "%.3g s a step: %s tokens/s and %.0f TFLOP/s a device, %.1f%% MFU (6 P and "
                    "12 L a d S a token, attention not halved).",
                    s->time.step_s,
                    ff_format_significant(s->tokens_per_s_per_device, speed, sizeof speed),
                    s->model_flops_per_device / 1e12, 100 * s->mfu);
    term_table(&s->time, facts);
    ff_document_item(facts, "slowest", "stage %lld of %lld; %lld microbatches pass it",
                     (long long)s->time.slowest_stage, (long long)e->layout.pp,
                     (long long)e->layout.microbatches);
    ff_document_item(facts, "host", "a dense layer of one rank is issued in %s (profile %s)",
                     ff_format_seconds(p->host_s_per_layer, host, sizeof host), p->name);
    operator_table(e, facts);
    ff_document_close(facts);
}
