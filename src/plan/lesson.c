#include "plan/lesson.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "plan/entry.h"
#include <math.h>

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

static int64_t heads_of(const ff_model *model) {
    return model->kind[0].attention.heads > 0 ? model->kind[0].attention.heads
                                              : model->kind[0].attention.value_heads;
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

/* The lesson's choices, unless --grid gives others. */
static int choices(const ff_space *space, ff_dimension dimension, int first, int last,
                   int32_t *value) {
    int count = space->choices[dimension];
    for (int i = 0; i < count; i++)
        value[i] = space->choice[dimension][i];
    if (count > 0)
        return count;
    if (dimension == FF_DIM_ZERO) {
        for (int zero = first; zero <= last; zero++)
            value[count++] = zero;
        return count;
    }
    for (int size = first; size <= last; size *= 2)
        value[count++] = size;
    return count;
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

ff_lesson_set *ff_lesson_search(ff_arena *arena, const ff_job *job, const ff_space *space,
                                ff_search_counts *counts) {
    ff_lesson_set *set = FF_ARENA_NEW(arena, ff_lesson_set);
    int32_t tp[FF_MOST_CHOICES], pp[FF_MOST_CHOICES], cp[FF_MOST_CHOICES], zero[FF_MOST_CHOICES];
    int tps = choices(space, FF_DIM_TP, 1, 8, tp), pps = choices(space, FF_DIM_PP, 1, 8, pp);
    int cps = choices(space, FF_DIM_CP, 1, 8, cp), zeros = choices(space, FF_DIM_ZERO, 0, 3, zero);
    int64_t mbs = space->choices[FF_DIM_MBS] > 0 ? space->choice[FF_DIM_MBS][0] : 1;
    set->arena = arena;
    for (int t = 0; t < tps; t++) {
        for (int p = 0; p < pps; p++) {
            for (int c = 0; c < cps; c++) {
                int64_t ranks = ff_mul3(tp[t], pp[p], cp[c]);
                if (job->cluster.devices % ranks != 0)
                    continue;
                for (int z = 0; z < zeros; z++) {
                    ff_lesson_layout l = {.dp = job->cluster.devices / ranks,
                                          .tp = tp[t],
                                          .pp = pp[p],
                                          .cp = cp[c],
                                          .ep = 1,
                                          .zero = zero[z],
                                          .mbs = mbs};
                    try_layout(job, &l, set, counts);
                }
            }
        }
    }
    return set;
}

int64_t ff_lesson_found(const ff_lesson_set *set) {
    return set->count;
}

static void layout_facts(const ff_lesson_layout *l, ff_facts *facts) {
    ff_facts_add_text(facts, "layout",
                      "dp=%lld,tp=%lld,pp=%lld,cp=%lld,zero=%lld,mbs=%lld,microbatches=%lld",
                      (long long)l->dp, (long long)l->tp, (long long)l->pp, (long long)l->cp,
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

void ff_lesson_facts(const ff_lesson_set *set, const ff_job *job, int top, ff_facts *facts) {
    ff_facts_open_list(facts, "plans");
    for (int64_t i = 0; i < set->count && (top == 0 || i < top); i++) {
        const ff_lesson_layout *l = &set->found[i];
        ff_facts_open_record(facts, NULL);
        ff_facts_add_integer(facts, "rank", i + 1);
        layout_facts(l, facts);
        ff_facts_add_text(facts, "verdict", "fits");
        ff_facts_add_boolean(facts, "fits", true);
        ff_facts_open_record(facts, "memory");
        ff_facts_add_integer(facts, "peak_bytes", (int64_t)ceil(l->memory.total_bytes));
        ff_facts_add_integer(facts, "capacity_bytes", job->cluster.device.memory_bytes);
        ff_facts_add_real(facts, "static_bytes", l->memory.static_bytes);
        ff_facts_add_real(facts, "activations_bytes", l->memory.activation_bytes);
        ff_facts_add_real(facts, "overhead_bytes", l->memory.overhead_bytes);
        ff_facts_close(facts);
        ff_facts_add_integer(facts, "gbs_tokens_actual",
                             ff_mul(ff_mul3(l->mbs, l->microbatches, l->dp), job->seq));
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

ff_status ff_lesson_check(const ff_job *job, ff_lesson_layout *l, ff_diagnostics *findings) {
    int64_t product = ff_mul(ff_mul3(l->dp, l->tp, l->pp), ff_mul(l->cp, l->ep));
    int before = ff_diagnostics_count_of(findings, FF_ERROR);
    if (product != job->cluster.devices)
        ff_report(findings, FF0510, FF_NOWHERE,
                  "dp %lld x tp %lld x pp %lld x cp %lld x ep %lld is %lld, the cluster has %lld "
                  "devices",
                  (long long)l->dp, (long long)l->tp, (long long)l->pp, (long long)l->cp,
                  (long long)l->ep, (long long)product, (long long)job->cluster.devices);
    if (l->tp > job->cluster.devices_per_node)
        ff_report(findings, FF0511, FF_NOWHERE, "tp %lld, a node has %lld devices",
                  (long long)l->tp, (long long)job->cluster.devices_per_node);
    if (l->tp > heads_of(&job->model))
        ff_report(findings, FF0512, FF_NOWHERE, "tp %lld, the model has %lld heads",
                  (long long)l->tp, (long long)heads_of(&job->model));
    int64_t batch = ff_mul(ff_mul3(l->mbs, l->microbatches, l->dp), job->seq);
    if (batch < job->gbs_tokens)
        ff_report(findings, FF0513, FF_NOWHERE, "%lld tokens a step of %lld wanted",
                  (long long)batch, (long long)job->gbs_tokens);
    ff_lesson_price(job, l);
    if (!fits(job, l))
        ff_report(findings, FF0514, FF_NOWHERE, "%.1f GiB (static %.1f, activations %.1f) of %.1f",
                  l->memory.total_bytes / GIB, l->memory.static_bytes / GIB,
                  l->memory.activation_bytes / GIB, (double)job->cluster.device.memory_bytes / GIB);
    return ff_diagnostics_count_of(findings, FF_ERROR) > before ? FF_NO : FF_OK;
}
