/* The time of a step from its blocks: pipeline span with uneven stages, data-parallel communication
 * that backward and forward do not hide, and the optimizer.
 *
 *     step = m * slowest stage (compute + exposed TP, CP, EP)  + bubble + pipeline transfers
 *          + exposed DP + optimizer
 *
 * The span is the schedule's closed form for uneven stages (schedule/span.h); bubble is what it has
 * beyond the slowest stage's own work. Gradient reductions hide behind the last microbatch's
 * backward, all but the last slice; weight gathers behind the next forward as far as the profile
 * says; ZeRO-3's prefetch behind the layer before. The stage with the most exposed sets DP's part,
 * since the optimizer's norm waits for all. */
#include "cost/cost.h"

#include "base/number.h"
#include "schedule/span.h"

typedef struct stage_time {
    double forward_s, backward_s; /* a microbatch, exposed communication included */
    double compute_s;             /* of these, compute */
    double exposed_s[FF_EXPOSED_COUNT];
} stage_time;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static void add_block(stage_time *stage, const ff_block_time *block, double times) {
    stage->forward_s += block->forward_s * times;
    stage->backward_s += block->backward_s * times;
    stage->compute_s += (block->forward_s + block->backward_s) * times;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++) {
        stage->forward_s += block->forward_exposed_s[i] * times;
        stage->backward_s += block->backward_exposed_s[i] * times;
        stage->exposed_s[i] += (block->forward_exposed_s[i] + block->backward_exposed_s[i]) * times;
    }
}

static stage_time stage_time_of(const ff_cost *cost, const ff_layout *layout,
                                const ff_time_blocks *blocks, int64_t stage) {
    stage_time s = {0};
    const ff_model *model = cost->model;
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
        ff_chunk_content content;
        ff_program_chunk(model, layout, stage, chunk, &content);
        for (int kind = 0; kind < model->kinds; kind++) {
            int whole = content.recomputed_of_kind[kind];
            add_block(&s, &blocks->layer[kind][0], content.of_kind[kind] - whole);
            add_block(&s, &blocks->layer[kind][1], whole);
        }
        if (content.embedding)
            add_block(&s, &blocks->embedding, 1);
        if (content.head) {
            add_block(&s, &blocks->head, 1 + model->mtp_layers);
            add_block(&s, &blocks->mtp, model->mtp_layers);
            add_block(&s, &blocks->layer[model->mtp_kind][0], model->mtp_layers);
        }
    }
    return s;
}

/* ---- data parallelism ---- */

typedef struct sync_time {
    double before_forward_s, before_backward_s, after_backward_s; /* in each microbatch */
    double once_gradient_s, once_gather_s;                        /* once a step */
    double slice_s;   /* of the last slice, which nothing hides */
    double gathers_s; /* all weight gathers of a step */
    bool gathers_before_forward;
} sync_time;

/* Weights of a stage go unit by unit (of their mean size) or in buckets, as in the program. */
static double params_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                       const ff_sync *sync, int64_t params, bool expert, int64_t units,
                       double *slices) {
    ff_operator op;
    if (!ff_program_sync_operator(layout, sync, params, expert, &op))
        return 0;
    ff_reach reach = ff_reach_of_operator(reaches, &op);
    int64_t buckets = ff_bucket_count(params, expert ? layout->edp : layout->dp * layout->cp);
    double count = (double)(sync->by_layer ? units : buckets);
    double bytes = (double)op.elements * op.element_bytes;
    *slices = larger(*slices, count);
    return count * ff_collective_s(cost, &reach, op.collective, bytes / count);
}

static sync_time sync_time_of(const ff_cost *cost, const ff_layout *layout,
                              const ff_reaches *reaches, ff_shard_params params, int64_t units) {
    sync_time t = {0};
    ff_sync syncs[FF_MOST_SYNCS];
    int count = ff_program_syncs(cost->model, layout, syncs);
    for (int i = 0; i < count; i++) {
        double slices = 1;
        double s = params_s(cost, layout, reaches, &syncs[i], params.dense, false, units, &slices) +
                   params_s(cost, layout, reaches, &syncs[i], params.expert, true, units, &slices);
        bool each = syncs[i].each_microbatch;
        if (syncs[i].of_weights)
            t.gathers_s += s * (each ? (double)layout->microbatches : 1);
        if (syncs[i].moment == FF_SYNC_AFTER_BACKWARD) {
            *(each ? &t.after_backward_s : &t.once_gradient_s) += s;
            t.slice_s = larger(t.slice_s, s / slices);
        } else if (!each) {
            t.once_gather_s += s;
        } else if (syncs[i].moment == FF_SYNC_BEFORE_FORWARD) {
            t.before_forward_s += s;
        } else {
            t.before_backward_s += s;
        }
    }
    return t;
}

/* What a cover of `cover_s` seconds leaves exposed, and what hiding costs. */
static double left_s(const ff_cost *cost, double communication_s, double cover_s) {
    double hidden = communication_s < cover_s ? communication_s : cover_s;
    return communication_s - hidden + hidden * cost->profile->overlap_slowdown_ratio;
}

static double exposed_dp_s(const ff_cost *cost, const ff_layout *layout, const stage_time *stage,
                           const sync_time *t, int64_t units) {
    const ff_profile *p = cost->profile;
    double m = (double)layout->microbatches;
    double backward_s = stage->backward_s * p->gradient_overlap_ratio;
    double forward_s = stage->forward_s * p->gather_overlap_ratio;
    double each_s = left_s(cost, t->before_forward_s, stage->forward_s) +
                    left_s(cost, t->before_backward_s + t->after_backward_s, stage->backward_s);
    double gather_s = left_s(cost, t->once_gather_s, forward_s);
    double gradient_s = left_s(cost, t->once_gradient_s, backward_s);
    double ends_s = t->slice_s + (t->before_forward_s + t->before_backward_s) / (double)units;
    double all_s = m * (t->before_forward_s + t->before_backward_s + t->after_backward_s) +
                   t->once_gather_s + t->once_gradient_s;
    double exposed_s = m * each_s + gather_s + gradient_s + ends_s;
    double ceiling_s = all_s * (1 + p->overlap_slowdown_ratio);
    return exposed_s < ceiling_s ? exposed_s : ceiling_s;
}

/* ---- the step's end ---- */

static double update_s(const ff_cost *cost, const ff_layout *layout, ff_shard_params params) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    int64_t dense =
        layout->zero > 0 ? ff_ceil_div(params.dense, ff_dense_shard_ranks(layout)) : params.dense;
    int64_t expert = layout->zero > 0 ? ff_ceil_div(params.expert, ff_expert_shard_ranks(layout))
                                      : params.expert;
    ff_operator adam = {.kind = FF_OPERATOR_MEMORY,
                        .memory_bytes = (double)ff_add(dense, expert) * recipe->optimizer_traffic};
    return ff_operator_s(cost, FF_DTYPE_FP32, &adam);
}

static double reductions_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                           const ff_shard_params *params) {
    ff_operator ops[FF_MOST_STEP_OPERATORS];
    double s = 0;
    int count = ff_program_step_operators(cost->model, layout, 0, params[0].replicated, ops);
    for (int i = 0; i < count; i++) {
        ff_reach reach = ff_reach_of_operator(reaches, &ops[i]);
        s += ff_collective_s(cost, &reach, ops[i].collective,
                             (double)ops[i].elements * ops[i].element_bytes);
    }
    return s;
}

static double transfer_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches) {
    if (layout->pp == 1)
        return 0;
    ff_operator op = ff_program_transfer(cost->model, layout, cost->seq, false);
    ff_reach neighbours = ff_reach_of_operator(reaches, &op);
    return ff_collective_s(cost, &neighbours, op.collective,
                           (double)op.elements * op.element_bytes);
}

/* What ZeRO-3 gathers one by one: layers and the ends. */
static int64_t stage_units(const ff_layout *layout, int64_t stage) {
    int64_t units = (stage == 0) + (stage == layout->pp - 1);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        units += layout->layers_of_chunk[chunk * layout->pp + stage];
    return ff_max(1, units);
}

static void fill_span(const ff_layout *layout, const stage_time *slowest, const double *forward_s,
                      const double *backward_s, ff_step_time *time) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    double m = (double)layout->microbatches;
    double own_s = m * (slowest->forward_s + slowest->backward_s);
    double still_s = ff_schedule_span_estimate(&shape, forward_s, backward_s, 0);
    double span_s = ff_schedule_span_estimate(&shape, forward_s, backward_s, time->transfer_s);
    time->compute_s = m * slowest->compute_s;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        time->exposed_s[i] = m * slowest->exposed_s[i];
    time->bubble_s = still_s - own_s;
    time->exposed_s[FF_EXPOSED_PP] = span_s - still_s;
}

void ff_step_time_of(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     const ff_time_blocks *blocks, const ff_shard_params *stage_params,
                     double *scratch, ff_step_time *time) {
    double *forward_s = scratch, *backward_s = scratch + layout->pp;
    stage_time slowest = {0};
    double dp_s = 0, adam_s = 0;
    *time = (ff_step_time){.transfer_s = transfer_s(cost, layout, reaches)};
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        stage_time s = stage_time_of(cost, layout, blocks, stage);
        int64_t units = stage_units(layout, stage);
        sync_time sync = sync_time_of(cost, layout, reaches, stage_params[stage], units);
        forward_s[stage] = s.forward_s;
        backward_s[stage] = s.backward_s;
        if (stage == 0 || s.forward_s + s.backward_s > slowest.forward_s + slowest.backward_s) {
            slowest = s;
            time->slowest_stage = stage;
        }
        dp_s = larger(dp_s, exposed_dp_s(cost, layout, &s, &sync, units));
        adam_s = larger(adam_s, update_s(cost, layout, stage_params[stage]));
        time->gather_s = larger(time->gather_s, sync.gathers_s);
        time->gradient_s =
            larger(time->gradient_s,
                   sync.once_gradient_s + (double)layout->microbatches * sync.after_backward_s);
    }
    fill_span(layout, &slowest, forward_s, backward_s, time);
    time->exposed_s[FF_EXPOSED_DP] += dp_s;
    time->optimizer_s =
        adam_s + reductions_s(cost, layout, reaches, stage_params) + cost->profile->step_fixed_s;
    time->step_s = time->compute_s + time->bubble_s + time->optimizer_s;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        time->step_s += time->exposed_s[i];
}
