#include "plan/lesson.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "layout/keys.h"
#include "plan/entry.h"
#include <math.h>
#include <stdio.h>

struct ff_lesson_set {
    ff_arena *arena;
    ff_lesson_layout *found;
    int64_t count, room;
};

static const double GIB = 1024.0 * 1024.0 * 1024.0;

double ff_lesson_params(const ff_model *model) {
    ff_model_count count;
    ff_model_params(model, &count);
    return (double)(model->stated_params > 0 ? model->stated_params : count.total);
}

static double static_bytes(double params, const ff_lesson_layout *l) {
    double t = (double)l->tp, replicas = (double)(l->dp * l->tp);
    switch (l->zero) {
    case 0:
        return 16 * params / t;
    case 1:
        return 4 * params / t + 12 * params / replicas;
    case 2:
        return 2 * params / t + 14 * params / replicas;
    default:
        return 16 * params / replicas;
    }
}

void ff_lesson_price(const ff_job *job, ff_lesson_layout *l) {
    int64_t tokens = ff_mul3(2, job->model.layers, job->seq) / l->cp;
    ff_lesson_memory *m = &l->memory;
    m->static_bytes = static_bytes(ff_lesson_params(&job->model), l);
    m->activation_bytes = (double)ff_mul(ff_mul3(tokens, l->mbs, job->model.hidden), 2);
    m->overhead_bytes = 2 * GIB;
    m->total_bytes = m->static_bytes + m->activation_bytes + m->overhead_bytes;
}

/* Of the first layers with softmax attention; those of linear attention where there are none. */
static int64_t heads_of(const ff_model *model) {
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].attention.type != FF_ATTENTION_LINEAR)
            return model->kind[i].attention.heads;
    return model->kind[0].attention.value_heads;
}

static bool tp_legal(const ff_job *job, int64_t tp) {
    return tp <= job->cluster.devices_per_node && tp <= heads_of(&job->model);
}

static bool fits(const ff_job *job, const ff_lesson_layout *l) {
    return l->memory.total_bytes <= (double)job->cluster.device.memory_bytes;
}

static void keep(ff_lesson_set *set, const ff_lesson_layout *layout) {
    if (set->count == set->room) {
        set->room = set->room == 0 ? 64 : 2 * set->room;
        ff_lesson_layout *more = FF_ARENA_ARRAY(set->arena, set->room, ff_lesson_layout);
        for (int64_t i = 0; i < set->count; i++)
            more[i] = set->found[i];
        set->found = more;
    }
    set->found[set->count++] = *layout;
}

/* The values of a dimension that the user allows: the lesson's, unless --grid gives others. */
typedef struct choices {
    int count;
    int32_t value[FF_MOST_CHOICES];
} choices;

static void add_choice(const ff_space *space, ff_dimension dimension, int32_t value, choices *c) {
    if (ff_space_allows(space, dimension, value))
        c->value[c->count++] = value;
}

static choices choices_of(const ff_space *space, ff_dimension dimension) {
    choices c = {0};
    int given = space->choices[dimension];
    for (int i = 0; i < given; i++)
        add_choice(space, dimension, space->choice[dimension][i], &c);
    if (given > 0)
        return c;
    bool is_axis = dimension == FF_DIM_TP || dimension == FF_DIM_PP || dimension == FF_DIM_CP;
    if (dimension == FF_DIM_ZERO)
        for (int zero = 0; zero <= 3; zero++)
            add_choice(space, dimension, zero, &c);
    else
        for (int size = 1; size <= (is_axis ? 8 : 1); size *= 2)
            add_choice(space, dimension, size, &c);
    return c;
}

/* What the user must not give, since the lesson's ledger has no such dimension. */
static bool refuse_unknown(const ff_space *space, ff_diagnostics *findings) {
    const ff_dimension unknown[] = {
        FF_DIM_VPP,   FF_DIM_SCHEDULE, FF_DIM_RECOMPUTE, FF_DIM_RECIPE,  FF_DIM_ETP,
        FF_DIM_ORDER, FF_DIM_CP_KIND,  FF_DIM_SP,        FF_DIM_WEIGHTS, FF_DIM_GROUP};
    bool refused = false;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        if (!ff_space_names(space, unknown[i]))
            continue;
        ff_report(findings, FF0403, FF_NOWHERE, "the lesson's ledger knows no %s",
                  ff_dimension_name(unknown[i]));
        ff_report_help(findings, "its dimensions: tp pp cp ep dp zero mbs");
        refused = true;
    }
    return refused;
}

static void try_layout(const ff_job *job, ff_lesson_layout *l, ff_lesson_set *set,
                       ff_search_counts *counts) {
    counts->considered++;
    if (!tp_legal(job, l->tp)) {
        counts->illegal++;
        return;
    }
    l->microbatches = ff_ceil_div(job->gbs_tokens, ff_mul3(l->mbs, l->dp, job->seq));
    ff_lesson_price(job, l);
    if (!fits(job, l)) {
        counts->too_big++;
        return;
    }
    counts->estimated++;
    keep(set, l);
}

/* dp is the rest of the devices. */
static void try_rest(const ff_job *job, const ff_space *space, ff_lesson_layout *l,
                     ff_lesson_set *set, ff_search_counts *counts) {
    int64_t ranks = ff_mul(ff_mul3(l->tp, l->pp, l->cp), l->ep);
    l->dp = job->cluster.devices / ranks;
    if (job->cluster.devices % ranks != 0 || !ff_space_allows(space, FF_DIM_DP, l->dp))
        return;
    choices zeros = choices_of(space, FF_DIM_ZERO), sizes = choices_of(space, FF_DIM_MBS);
    for (int z = 0; z < zeros.count; z++) {
        for (int b = 0; b < sizes.count; b++) {
            l->zero = zeros.value[z];
            l->mbs = sizes.value[b];
            try_layout(job, l, set, counts);
        }
    }
}

ff_lesson_set *ff_lesson_search(ff_arena *arena, const ff_job *job, const ff_space *space,
                                ff_search_counts *counts, ff_diagnostics *findings) {
    if (refuse_unknown(space, findings))
        return NULL;
    ff_lesson_set *set = FF_ARENA_NEW(arena, ff_lesson_set);
    choices tps = choices_of(space, FF_DIM_TP), pps = choices_of(space, FF_DIM_PP);
    choices cps = choices_of(space, FF_DIM_CP), eps = choices_of(space, FF_DIM_EP);
    set->arena = arena;
    for (int t = 0; t < tps.count; t++) {
        for (int p = 0; p < pps.count; p++) {
            for (int c = 0; c < cps.count; c++) {
                for (int e = 0; e < eps.count; e++) {
                    ff_lesson_layout l = {.tp = tps.value[t],
                                          .pp = pps.value[p],
                                          .cp = cps.value[c],
                                          .ep = eps.value[e]};
                    try_rest(job, space, &l, set, counts);
                }
            }
        }
    }
    return set;
}

int64_t ff_lesson_found(const ff_lesson_set *set) {
    return set->count;
}

void ff_lesson_layout_facts(const ff_lesson_layout *l, ff_facts *facts) {
    char ep[32] = "";
    if (l->ep > 1)
        snprintf(ep, sizeof ep, "ep=%lld,", (long long)l->ep);
    ff_facts_add_text(facts, "layout",
                      "dp=%lld,tp=%lld,pp=%lld,cp=%lld,%szero=%lld,mbs=%lld,microbatches=%lld",
                      (long long)l->dp, (long long)l->tp, (long long)l->pp, (long long)l->cp, ep,
                      (long long)l->zero, (long long)l->mbs, (long long)l->microbatches);
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {
        {"dp", l->dp}, {"tp", l->tp},     {"pp", l->pp},   {"cp", l->cp},
        {"ep", l->ep}, {"zero", l->zero}, {"mbs", l->mbs}, {"microbatches", l->microbatches}};
    ff_facts_open_record(facts, "layout_fields");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        ff_facts_add_integer(facts, fields[i].name, fields[i].value);
    ff_facts_close(facts);
}

void ff_lesson_memory_facts(const ff_lesson_layout *l, const ff_job *job, ff_facts *facts) {
    ff_facts_open_record(facts, "memory");
    ff_facts_add_integer(facts, "peak_bytes", (int64_t)ceil(l->memory.total_bytes));
    ff_facts_add_integer(facts, "capacity_bytes", job->cluster.device.memory_bytes);
    ff_facts_add_real(facts, "static_bytes", l->memory.static_bytes);
    ff_facts_add_real(facts, "activations_bytes", l->memory.activation_bytes);
    ff_facts_add_real(facts, "overhead_bytes", l->memory.overhead_bytes);
    ff_facts_close(facts);
}

void ff_lesson_facts(const ff_lesson_set *set, const ff_job *job, int top, ff_facts *facts) {
    ff_facts_open_list(facts, "plans");
    for (int64_t i = 0; i < set->count && (top == 0 || i < top); i++) {
        const ff_lesson_layout *l = &set->found[i];
        ff_facts_open_record(facts, NULL);
        ff_facts_add_integer(facts, "rank", i + 1);
        ff_lesson_layout_facts(l, facts);
        ff_facts_add_text(facts, "verdict", "fits");
        ff_facts_add_boolean(facts, "fits", true);
        ff_lesson_memory_facts(l, job, facts);
        ff_facts_add_integer(facts, "gbs_tokens_actual",
                             ff_mul(ff_mul3(l->mbs, l->microbatches, l->dp), job->seq));
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

static void check_world(const ff_job *job, const ff_lesson_layout *l, const char *text,
                        ff_diagnostics *findings) {
    int64_t product = ff_mul(ff_mul3(l->dp, l->tp, l->pp), ff_mul(l->cp, l->ep));
    if (product != job->cluster.devices)
        ff_report(findings, FF0510, ff_layout_place(text, NULL),
                  "dp %lld x tp %lld x pp %lld x cp %lld x ep %lld is %lld, the cluster has %lld "
                  "devices",
                  (long long)l->dp, (long long)l->tp, (long long)l->pp, (long long)l->cp,
                  (long long)l->ep, (long long)product, (long long)job->cluster.devices);
}

static void check_tp(const ff_job *job, const ff_lesson_layout *l, const char *text,
                     ff_diagnostics *findings) {
    ff_place where = ff_layout_place(text, "tp");
    int64_t node = job->cluster.devices_per_node, heads = heads_of(&job->model);
    if (l->tp > node)
        ff_report(findings, FF0511, where, "tp %lld, a node has %lld devices", (long long)l->tp,
                  (long long)node);
    if (l->tp > heads)
        ff_report(findings, FF0512, where, "tp %lld, the model has %lld heads", (long long)l->tp,
                  (long long)heads);
}

static void check_batch(const ff_job *job, const ff_lesson_layout *l, const char *text,
                        ff_diagnostics *findings) {
    int64_t unit = ff_mul3(l->mbs, l->dp, job->seq), batch = ff_mul(unit, l->microbatches);
    if (batch >= job->gbs_tokens)
        return;
    ff_report(findings, FF0513, ff_layout_place(text, "microbatches"),
              "%lld tokens a step of %lld wanted", (long long)batch, (long long)job->gbs_tokens);
    ff_report_help(findings, "microbatches=%lld", (long long)ff_ceil_div(job->gbs_tokens, unit));
}

ff_status ff_lesson_check(const ff_job *job, ff_lesson_layout *l, const char *text,
                          ff_diagnostics *findings) {
    int before = ff_diagnostics_count_of(findings, FF_ERROR);
    check_world(job, l, text, findings);
    check_tp(job, l, text, findings);
    check_batch(job, l, text, findings);
    ff_lesson_price(job, l);
    if (!fits(job, l))
        ff_report(findings, FF0514, FF_NOWHERE, "%.1f GiB (static %.1f, activations %.1f) of %.1f",
                  l->memory.total_bytes / GIB, l->memory.static_bytes / GIB,
                  l->memory.activation_bytes / GIB, (double)job->cluster.device.memory_bytes / GIB);
    return ff_diagnostics_count_of(findings, FF_ERROR) > before ? FF_NO : FF_OK;
}
