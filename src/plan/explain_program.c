/* The program as it is: the list of one layer, and of one stage. */
#include "plan/explain.h"

#include "base/text.h"
#include <stdio.h>

static void tensor_table(const ff_layer_list *list, ff_facts *facts) {
    static const ff_column columns[] = {
        {"name", "tensor"},       {"bytes", "bytes"},           {"kept", "kept"},
        {"freed_by", "freed by"}, {"divided_by", "divided by"}, {NULL, NULL}};
    ff_document_section(facts, "Saved for backward, one microbatch");
    ff_document_table(facts, columns);
    for (int i = 0; i < list->tensors; i++) {
        const ff_saved_tensor *t = &list->tensor[i];
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "name", "%s", t->name);
        ff_facts_add_integer(facts, "bytes", ff_saved_tensor_bytes(t));
        ff_facts_add_text(facts, "kept", "%s", t->kept ? "yes" : "rebuilt");
        ff_facts_add_text(facts, "freed_by", "%s", ff_phase_name(t->freed_by));
        ff_facts_add_text(facts, "divided_by", "%s", t->divided_by);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static void operator_row(const ff_operator *op, ff_facts *facts) {
    char does[96];
    if (op->kind == FF_OPERATOR_GEMM)
        snprintf(does, sizeof does, "GEMM %lld x %lld x %lld%s", (long long)op->m, (long long)op->n,
                 (long long)op->k, op->batch > 1 ? ", grouped" : "");
    else if (op->kind == FF_OPERATOR_COLLECTIVE)
        snprintf(does, sizeof does, "%s over %lld", ff_collective_name(op->collective),
                 (long long)op->ranks);
    else
        snprintf(does, sizeof does, "%s",
                 op->kind == FF_OPERATOR_ATTENTION ? "attention" : "memory traffic");
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "phase", "%s", ff_phase_name(op->phase));
    ff_facts_add_text(facts, "name", "%s", op->name);
    ff_facts_add_text(facts, "does", "%s", does);
    if (op->kind == FF_OPERATOR_COLLECTIVE)
        ff_facts_add_real(facts, "size_sent",
                          (double)op->calls * ff_collective_sent_bytes(op->collective, op->elements,
                                                                       op->element_bytes,
                                                                       op->ranks));
    else
        ff_facts_add_null(facts, "size_sent");
    if (op->flop > 0)
        ff_facts_add_real(facts, "work_flop", op->flop);
    else
        ff_facts_add_null(facts, "work_flop");
    ff_facts_close(facts);
}

static void kind_sections(const ff_explained *e, int kind, ff_facts *facts) {
    static const ff_column columns[] = {{"phase", "phase"},    {"name", "operator"},
                                        {"does", "does"},      {"work_flop", "work"},
                                        {"size_sent", "sent"}, {NULL, NULL}};
    const ff_layer_list *list =
        ff_program_layer(e->program, kind, e->layout.recompute == FF_RECOMPUTE_FULL);
    ff_document_section(facts, "%d layers: %s", ff_model_layers_of_kind(&e->job->model, kind),
                        e->job->model.kind[kind].name);
    ff_document_table(facts, columns);
    for (int i = 0; i < list->operators; i++)
        operator_row(&list->op[i], facts);
    ff_document_table_end(facts);
    tensor_table(list, facts);
}

void ff_explain_layer(const ff_explained *e, ff_facts *facts) {
    ff_document_open(facts, "layer: %s", e->job->model.name);
    for (int kind = 0; kind < e->job->model.kinds; kind++)
        if (ff_model_layers_of_kind(&e->job->model, kind) > 0)
            kind_sections(e, kind, facts);
    ff_document_close(facts);
}

/* ---- one stage's schedule ---- */

enum { MOST_ACTIONS = 400 };

static void append_action(const ff_action *action, ff_text *line) {
    static const char *const names[] = {"F", "B", "Bi", "Bw", "recv", "send", "recv", "send"};
    bool transfer = action->kind >= FF_ACTION_RECV_ACTIVATION;
    if (!transfer)
        ff_text_printf(line, "%s%d.%d ", names[action->kind], action->microbatch, action->chunk);
    else
        ff_text_printf(line, "%s%s%d ", names[action->kind],
                       action->kind == FF_ACTION_RECV_ACTIVATION ||
                               action->kind == FF_ACTION_RECV_GRADIENT
                           ? "<"
                           : ">",
                       action->peer);
}

static void draw_actions(const ff_explained *e, int64_t stage, ff_facts *facts) {
    int64_t count;
    const ff_action *list =
        ff_schedule_actions(ff_program_schedule(e->program), (int32_t)stage, &count);
    ff_text text = {0};
    for (int64_t i = 0; i < count && i < MOST_ACTIONS; i++)
        append_action(&list[i], &text);
    if (count > MOST_ACTIONS)
        ff_text_printf(&text, "... and %lld more", (long long)(count - MOST_ACTIONS));
    ff_document_section(facts, "Stage %lld", (long long)stage);
    ff_document_say(facts, "%s", ff_text_bytes(&text));
    ff_text_free(&text);
}

void ff_explain_schedule(const ff_explained *e, ff_facts *facts) {
    ff_schedule_shape shape = ff_schedule_shape_of(&e->layout);
    ff_document_open(facts, "schedule: %s, pp=%lld, vpp=%lld, %lld microbatches",
                     ff_schedule_name(shape.kind), (long long)e->layout.pp,
                     (long long)e->layout.vpp, (long long)e->layout.microbatches);
    ff_document_section(facts, "%s", "");
    ff_schedule_section(&shape, 78, facts);
    ff_document_say(facts, "F2.1 is the forward of microbatch 2 in chunk 1, B its backward; <s "
                           "receives from stage s, >s sends to it.");
    draw_actions(e, 0, facts);
    if (e->layout.pp > 1)
        draw_actions(e, e->layout.pp - 1, facts);
    ff_document_close(facts);
}
