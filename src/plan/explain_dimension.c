/* One dimension in depth: what the panorama says of it, the collectives of one layer, and the
 * step's calls and bytes. */
#include "plan/methods.h"

#include "base/number.h"
#include <stdio.h>
#include <string.h>

static bool belongs_to(const ff_operator *op, ff_exposure exposure) {
    return op->kind == FF_OPERATOR_COLLECTIVE && ff_exposure_of(op->group) == exposure;
}

static void operator_row(const ff_explained *e, const ff_operator *op, ff_facts *facts) {
    ff_reach reach = ff_reach_of_operator(&e->reaches, op);
    double bytes = (double)op->elements * op->element_bytes;
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "phase", "%s", ff_phase_name(op->phase));
    ff_facts_add_text(facts, "name", "%s", op->name);
    ff_facts_add_integer(facts, "calls", op->calls);
    ff_facts_add_real(facts, "sent",
                      (double)op->calls * ff_collective_sent_bytes(op->collective, op->elements,
                                                                   op->element_bytes, op->ranks));
    ff_facts_add_real(
        facts, "call_s",
        ff_collective_s(ff_evaluator_cost(e->evaluator), &reach, op->collective, bytes));
    ff_facts_add_text(facts, "timing", "%s", ff_timing_name(op->timing));
    ff_facts_close(facts);
}

static bool any_operator(const ff_layer_list *list, ff_exposure exposure) {
    for (int i = 0; i < list->operators; i++)
        if (belongs_to(&list->op[i], exposure))
            return true;
    return false;
}

static const ff_column operator_columns[] = {
    {"phase", "phase"}, {"name", "collective"}, {"calls", "calls"}, {"sent", "a rank sends"},
    {"call_s", "time"}, {"timing", "timing"},   {NULL, NULL}};

static void layer_table(const ff_explained *e, const ff_layer_list *list, const char *heading,
                        ff_exposure exposure, ff_facts *facts) {
    if (!any_operator(list, exposure))
        return;
    ff_document_section(facts, "%s, one microbatch", heading);
    ff_document_table(facts, operator_columns);
    for (int i = 0; i < list->operators; i++)
        if (belongs_to(&list->op[i], exposure))
            operator_row(e, &list->op[i], facts);
    ff_document_table_end(facts);
}

static void layer_tables(const ff_explained *e, ff_exposure exposure, ff_facts *facts) {
    const ff_model *model = &e->job->model;
    bool recomputed = e->layout.recompute == FF_RECOMPUTE_FULL;
    for (int kind = 0; kind < model->kinds; kind++) {
        char heading[96];
        int layers = ff_model_layers_of_kind(model, kind);
        if (layers == 0)
            continue;
        snprintf(heading, sizeof heading, "One of %d layers (%s)", layers, model->kind[kind].name);
        layer_table(e, ff_program_layer(e->program, kind, recomputed), heading, exposure, facts);
    }
    layer_table(e, ff_program_embedding(e->program), "Embedding", exposure, facts);
    layer_table(e, ff_program_head(e->program), "Head and loss", exposure, facts);
}

static const ff_column count_columns[] = {{"phase", "phase"},
                                          {"collective", "collective"},
                                          {"calls", "calls"},
                                          {"sent", "a rank sends"},
                                          {NULL, NULL}};

static void step_table(const ff_explained *e, ff_exposure exposure, ff_facts *facts) {
    ff_count counts[FF_MOST_COUNTS];
    int stage;
    int entries = ff_telling_counts(e->program, &e->layout, counts, &stage);
    ff_document_section(facts, "A step, a rank of stage %d", stage);
    ff_document_table(facts, count_columns);
    for (int i = 0; i < entries; i++) {
        if (ff_exposure_of(counts[i].group) != exposure)
            continue;
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "phase", "%s", ff_phase_name(counts[i].phase));
        ff_facts_add_text(facts, "collective", "%s", ff_collective_name(counts[i].collective));
        ff_facts_add_integer(facts, "calls", counts[i].calls);
        ff_facts_add_real(facts, "sent", counts[i].sent_bytes);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

/* The method that the layout uses, else the dimension's first one at a natural size. */
static const ff_method *method_of(const ff_explained *e, const char *topic, ff_layout *layout) {
    const ff_method *first = NULL;
    for (int i = 0; i < ff_method_count; i++) {
        const ff_method *method = &ff_methods[i];
        if (strcmp(method->topic, topic) != 0)
            continue;
        ff_layout variant = ff_variant_start(e);
        if (!method->use(e, &variant))
            continue;
        bool same = variant.tp == e->layout.tp && variant.pp == e->layout.pp &&
                    variant.cp == e->layout.cp && variant.ep == e->layout.ep &&
                    variant.zero == e->layout.zero &&
                    (variant.sp < 0 || variant.sp == e->layout.sp);
        if (first == NULL || same) {
            first = method;
            *layout = same ? e->layout : variant;
        }
        if (same)
            break;
    }
    return first;
}

static int64_t size_of(const ff_layout *l, ff_exposure exposure) {
    switch (exposure) {
    case FF_EXPOSED_TP:
        return l->tp;
    case FF_EXPOSED_PP:
        return l->pp;
    case FF_EXPOSED_CP:
        return l->cp;
    case FF_EXPOSED_EP:
        return l->ep;
    default:
        return l->dp * l->cp;
    }
}

static void across_item(const ff_explained *e, const ff_method *method, ff_facts *facts) {
    const ff_cluster *cluster = &e->job->cluster;
    const ff_reach *reach = ff_method_reach(method, &e->reaches);
    double inside = cluster->tier[FF_TIER_DOMAIN].Bps, across = cluster->tier[FF_TIER_NETWORK].Bps;
    if (reach->domains <= 1 && across > 0)
        ff_document_item(facts, "across",
                         "between nodes the same bytes would take %.1f times as long",
                         inside / across);
}

static void dimension(const ff_explained *e, const char *topic, ff_facts *facts) {
    ff_layout layout;
    ff_variant variant = {0};
    const ff_method *method = method_of(e, topic, &layout);
    ff_document_open(facts, "%s: %s", topic, e->job->model.name);
    ff_document_section(facts, "%s", "");
    if (method == NULL) {
        ff_document_say(facts, "This model or cluster has nothing for %s to split.", topic);
        ff_document_close(facts);
        return;
    }
    bool active = size_of(&e->layout, method->exposure) > 1;
    ff_variant_look(e, &layout, &variant);
    ff_document_say(facts, "%s%s", method->title,
                    active ? "" : ". The layout does not use it; the figures are for comparison.");
    if (variant.possible)
        ff_method_items(e, method, &variant, facts);
    if (active) {
        across_item(e, method, facts);
        layer_tables(e, method->exposure, facts);
        step_table(e, method->exposure, facts);
    }
    ff_document_close(facts);
}

void ff_explain_tp(const ff_explained *e, ff_facts *facts) {
    dimension(e, "tp", facts);
}

void ff_explain_cp(const ff_explained *e, ff_facts *facts) {
    dimension(e, "cp", facts);
}

void ff_explain_ep(const ff_explained *e, ff_facts *facts) {
    dimension(e, "ep", facts);
}

/* ---- pipeline ---- */

static void stages_table(const ff_explained *e, ff_facts *facts) {
    static const ff_column columns[] = {{"stage", "stage"},        {"layers", "layers"},
                                        {"holds", "besides"},      {"in_flight", "in flight"},
                                        {"total_bytes", "memory"}, {NULL, NULL}};
    ff_document_section(facts, "Stages");
    ff_document_table(facts, columns);
    for (int64_t stage = 0; stage < e->layout.pp; stage++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_integer(facts, "stage", stage);
        ff_facts_add_integer(facts, "layers", ff_schedule_stage_layers(&e->layout, stage));
        ff_facts_add_text(facts, "holds", "%s",
                          stage == 0                  ? "embedding"
                          : stage == e->layout.pp - 1 ? "head and loss"
                                                      : "");
        ff_facts_add_integer(facts, "in_flight", e->stages[stage].in_flight);
        ff_facts_add_integer(facts, "total_bytes", e->stages[stage].total_bytes);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

void ff_explain_pp(const ff_explained *e, ff_facts *facts) {
    ff_layout layout;
    ff_variant variant = {0};
    const ff_method *method = method_of(e, "pp", &layout);
    ff_schedule_shape shape = ff_schedule_shape_of(&e->layout);
    ff_document_open(facts, "pp: %s", e->job->model.name);
    ff_document_section(facts, "%s", "");
    if (method != NULL) {
        ff_variant_look(e, &layout, &variant);
        ff_document_say(facts, "%s%s", method->title,
                        e->layout.pp > 1 ? "" : ". The layout does not use it; for comparison:");
        if (variant.possible)
            ff_method_items(e, method, &variant, facts);
    }
    if (e->layout.pp > 1) {
        const ff_step_time *time = &e->estimate.time;
        char transfer[FF_VALUE_BYTES];
        ff_document_item(facts, "transfer", "%s a message; %lld of them a microbatch each way",
                         ff_format_seconds(time->transfer_s, transfer, sizeof transfer),
                         (long long)ff_schedule_crossings(&shape));
        ff_document_item(facts, "slowest", "stage %lld sets the pace",
                         (long long)time->slowest_stage);
        ff_document_section(facts, "Schedule %s", ff_schedule_name(shape.kind));
        ff_document_item(
            facts, "bubble", "%.1f%% by formula, %.1f%% of this step with its uneven stages",
            100 * ff_schedule_bubble_ratio(&shape), 100 * time->bubble_s / time->step_s);
        stages_table(e, facts);
        step_table(e, FF_EXPOSED_PP, facts);
    }
    ff_document_close(facts);
}

/* ---- data parallelism ---- */

void ff_explain_dp(const ff_explained *e, ff_facts *facts) {
    static const ff_column columns[] = {
        {"what", "what"}, {"moment", "when"}, {"times", "times"}, {"why", "why"}, {NULL, NULL}};
    static const char *const moments[] = {"before a layer's forward", "before a layer's backward",
                                          "after backward", "after the update"};
    ff_sync syncs[FF_MOST_SYNCS];
    char total[FF_VALUE_BYTES], exposed[FF_VALUE_BYTES];
    int count = ff_program_syncs(&e->job->model, &e->layout, syncs);
    const ff_step_time *time = &e->estimate.time;
    ff_document_open(facts, "dp: %s", e->job->model.name);
    ff_document_section(facts, "dp=%lld, cp=%lld, zero=%d", (long long)e->layout.dp,
                        (long long)e->layout.cp, e->layout.zero);
    if (count == 0)
        ff_document_say(facts, "One replica: nothing is reduced.");
    ff_document_item(facts, "reduces over", "dp * cp = %lld ranks: CP ranks hold the same weights",
                     (long long)(e->layout.dp * e->layout.cp));
    if (ff_model_moe_kind(&e->job->model) != NULL)
        ff_document_item(facts, "experts", "over edp = %lld", (long long)e->layout.edp);
    ff_document_item(facts, "in all", "%s of reductions and gathers a step, %s exposed (%.1f%%)",
                     ff_format_seconds(time->gradient_s + time->gather_s, total, sizeof total),
                     ff_format_seconds(time->exposed_s[FF_EXPOSED_DP], exposed, sizeof exposed),
                     100 * time->exposed_s[FF_EXPOSED_DP] / time->step_s);
    ff_document_table(facts, columns);
    for (int i = 0; i < count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "what", "%s of %s", ff_collective_name(syncs[i].collective),
                          syncs[i].of_weights ? "weights" : "gradients");
        ff_facts_add_text(facts, "moment", "%s", moments[syncs[i].moment]);
        ff_facts_add_text(facts, "times", "%s",
                          syncs[i].each_microbatch ? "each microbatch" : "once a step");
        ff_facts_add_text(facts, "why", "%s", syncs[i].why);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
    if (count > 0)
        step_table(e, FF_EXPOSED_DP, facts);
    ff_document_close(facts);
}
