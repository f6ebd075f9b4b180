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

#include "base/arena.h"
#include "base/number.h"
#include "schedule/span.h"

static const double ROUNDING = 1e-12; /* of a span: less is no bubble */

static double larger(double a, double b) {
    return a > b ? a : b;
}

ff_stage_time ff_stage_time_start(const ff_layout *layout) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    return (ff_stage_time){.share = 1.0 / ff_schedule_copies(&shape),
                           .splits = ff_schedule_splits(&shape),
                           .returns_later = shape.kind == FF_SCHEDULE_GPIPE};
}

/* Weight gradients run apart, and no longer beside the communication that they covered. */
static void split_block(ff_stage_time *stage, const ff_block_time *block, double times) {
    stage->weight_s += block->weight_s * times;
    stage->backward_s -= block->split_saved_s * times;
    stage->compute_s -= block->split_saved_s * times;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++) {
        stage->backward_s += block->split_exposed_s[i] * times;
        stage->exposed_s[i] += block->split_exposed_s[i] * times;
    }
}

static void add_block(ff_stage_time *stage, const ff_block_time *block, double count) {
    double times = count * stage->share;
    stage->forward_s += block->forward_s * times;
    stage->backward_s += block->backward_s * times;
    stage->compute_s += (block->forward_s + block->backward_s) * times;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++) {
        stage->forward_s += block->forward_exposed_s[i] * times;
        stage->backward_s += block->backward_exposed_s[i] * times;
        stage->exposed_s[i] += (block->forward_exposed_s[i] + block->backward_exposed_s[i]) * times;
    }
    if (stage->splits)
        split_block(stage, block, times);
}

double ff_ahead_s(const ff_block_time *head, const ff_stage_time *stage) {
    double s = head->backward_s - (stage->splits ? head->weight_s : 0);
    s += stage->returns_later ? 0 : head->forward_s;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        s += head->backward_exposed_s[i] + (stage->returns_later ? 0 : head->forward_exposed_s[i]);
    return s;
}

/* While the device works on head and loss the host issues the backward of the layers below: they wait
 * for it that much less. (nanotron's public sweep: 16 layers of 1.3B with tp 2 take what the host
 * takes, 70 ms, with 10 ms of head and loss.) */
static void run_ahead(double ahead_s, double waits_s, bool waits, ff_stage_time *stage) {
    double saved_s = ahead_s < waits_s ? ahead_s : waits_s;
    stage->backward_s -= saved_s * stage->share;
    stage->compute_s -= saved_s * stage->share;
    stage->ahead_left_s += waits ? (ahead_s - saved_s) * stage->share : 0;
}

void ff_stage_time_add(const ff_model *model, const ff_time_blocks *blocks,
                       const ff_chunk_content *content, ff_stage_time *stage) {
    double waits_s = 0;
    bool waits = false;
    for (int kind = 0; kind < model->kinds; kind++) {
        int whole = content->recomputed_of_kind[kind], kept = content->of_kind[kind] - whole;
        const ff_block_time *layer = blocks->layer[kind];
        if (kept > 0)
            add_block(stage, &layer[0], kept);
        if (whole > 0)
            add_block(stage, &layer[1], whole);
        waits_s += kept * layer[0].backward_wait_s + whole * layer[1].backward_wait_s;
        waits |= layer[0].backward_wait_s > 0 || layer[1].backward_wait_s > 0;
    }
    if (content->embedding)
        add_block(stage, &blocks->embedding, 1);
    if (!content->head)
        return;
    double heads = 1 + model->mtp_layers;
    add_block(stage, &blocks->head, heads);
    if (model->mtp_layers > 0) {
        add_block(stage, &blocks->mtp, model->mtp_layers);
        add_block(stage, &blocks->layer[model->mtp_kind][0], model->mtp_layers);
        waits_s += model->mtp_layers * blocks->layer[model->mtp_kind][0].backward_wait_s;
    }
    run_ahead(heads * ff_ahead_s(&blocks->head, stage), waits_s, waits, stage);
}

/* ---- data parallelism ---- */

/* Calls of a sync: unit by unit, in a stack's own buckets where gradients of unsharded replicas are
 * summed, else in the program's. */
static double calls_of(const ff_cost *cost, const ff_layout *layout, const ff_sync *sync,
                       int64_t params, bool expert, int64_t units, double bytes) {
    double bucket_bytes = cost->profile->ddp_bucket_bytes;
    if (sync->by_layer)
        return (double)units;
    if (sync->collective == FF_ALL_REDUCE && bucket_bytes > 0)
        return larger(1, bytes / bucket_bytes);
    return (double)ff_bucket_count(params, expert ? layout->edp : layout->dp * layout->cp);
}

static double params_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                       const ff_sync *sync, int64_t params, bool expert, int64_t units,
                       double *slices) {
    ff_operator op;
    if (!ff_program_sync_operator(layout, sync, params, expert, &op))
        return 0;
    ff_reach reach = ff_reach_of_sync(cost, layout, reaches, &op);
    double bytes = (double)op.elements * op.element_bytes;
    double count = calls_of(cost, layout, sync, params, expert, units, bytes);
    *slices = larger(*slices, count);
    return sync->by_layer ? count * ff_collective_s(cost, &reach, op.collective, bytes / count)
                          : ff_collectives_s(cost, &reach, op.collective, bytes, count);
}

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

void ff_sync_time_of(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     ff_shard_params params, int64_t units, ff_sync_time *t) {
    ff_sync syncs[FF_MOST_SYNCS];
    int count = ff_program_syncs(cost->model, layout, syncs);
    *t = (ff_sync_time){.units = units, .update_s = update_s(cost, layout, params)};
    for (int i = 0; i < count; i++) {
        double slices = 1;
        double s = params_s(cost, layout, reaches, &syncs[i], params.dense, false, units, &slices) +
                   params_s(cost, layout, reaches, &syncs[i], params.expert, true, units, &slices);
        bool each = syncs[i].each_microbatch;
        if (syncs[i].moment == FF_SYNC_AFTER_BACKWARD) {
            *(each ? &t->after_backward_s : &t->once_gradient_s) += s;
            t->slice_s = larger(t->slice_s, s / slices);
        } else if (!each) {
            t->once_gather_s += s;
        } else if (syncs[i].moment == FF_SYNC_BEFORE_FORWARD) {
            t->before_forward_s += s;
        } else {
            t->before_backward_s += s;
        }
    }
}

/* What a cover of `cover_s` seconds leaves exposed, and what hiding costs. */
static double left_s(const ff_cost *cost, double communication_s, double cover_s) {
    double hidden = communication_s < cover_s ? communication_s : cover_s;
    return communication_s - hidden + hidden * cost->profile->overlap_slowdown_ratio;
}

static double exposed_dp_s(const ff_cost *cost, const ff_layout *layout, const ff_stage_time *stage,
                           const ff_sync_time *t) {
    const ff_profile *p = cost->profile;
    double m = (double)layout->microbatches;
    double backward_s = stage->backward_s *
                        (layout->zero > 0 ? p->sharded_overlap_ratio : p->gradient_overlap_ratio);
    double forward_s = stage->forward_s * p->gather_overlap_ratio;
    double each_s = left_s(cost, t->before_forward_s, forward_s) +
                    left_s(cost, t->before_backward_s + t->after_backward_s, backward_s);
    double gather_s = left_s(cost, t->once_gather_s, forward_s);
    double gradient_s = left_s(cost, t->once_gradient_s, backward_s);
    double ends_s = t->slice_s + (t->before_forward_s + t->before_backward_s) / (double)t->units;
    double all_s = m * (t->before_forward_s + t->before_backward_s + t->after_backward_s) +
                   t->once_gather_s + t->once_gradient_s;
    double exposed_s = m * each_s + gather_s + gradient_s + ends_s;
    double ceiling_s = all_s * (1 + p->overlap_slowdown_ratio);
    return exposed_s < ceiling_s ? exposed_s : ceiling_s;
}

/* ---- the step's parts ---- */

double ff_step_end_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     int64_t replicated_params) {
    ff_operator ops[FF_MOST_STEP_OPERATORS];
    double s = 0;
    int count = ff_program_step_operators(cost->model, layout, 0, replicated_params, ops);
    for (int i = 0; i < count; i++) {
        ff_reach reach = ff_reach_of_operator(reaches, &ops[i]);
        s += ff_collective_s(cost, &reach, ops[i].collective,
                             (double)ops[i].elements * ops[i].element_bytes);
    }
    return s;
}

/* Without SP all TP ranks hold the same boundary tensor: each sends its slice, and the receivers
 * gather them over their fast link (Narayanan 2021, "scatter/gather"; DeepSpeed's partitioned
 * pipeline). */
double ff_transfer_s(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches) {
    if (layout->pp == 1)
        return 0;
    ff_operator op = ff_program_transfer(cost->model, layout, cost->seq, false);
    ff_reach neighbours = ff_reach_of_operator(reaches, &op);
    double bytes = (double)op.elements * op.element_bytes;
    double whole_s = ff_collective_s(cost, &neighbours, op.collective, bytes);
    if (layout->sp == 1 || layout->tp == 1)
        return whole_s;
    double slice_s = ff_collective_s(cost, &neighbours, op.collective, bytes / (double)layout->tp);
    double sliced_s = slice_s + ff_collective_s(cost, &reaches->tp, FF_ALL_GATHER, bytes);
    return sliced_s < whole_s ? sliced_s : whole_s;
}

static double own_s(const ff_stage_time *stage) {
    return stage->forward_s + stage->backward_s;
}

void ff_pipeline_least_of(const ff_layout *layout, const ff_stage_time *const *stages,
                          ff_step_time *time) {
    double m = (double)layout->microbatches;
    *time = (ff_step_time){0};
    for (int64_t stage = 1; stage < layout->pp; stage++)
        if (own_s(stages[stage]) > own_s(stages[time->slowest_stage]))
            time->slowest_stage = stage;
    const ff_stage_time *slowest = stages[time->slowest_stage];
    time->compute_s = m * slowest->compute_s;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        time->exposed_s[i] = m * slowest->exposed_s[i];
}

void ff_pipeline_time_of(const ff_layout *layout, const ff_stage_time *const *stages,
                         double transfer_s, struct ff_list_memo *lists, double *scratch,
                         ff_step_time *time) {
    double *forward_s = scratch, *backward_s = scratch + layout->pp;
    double *weight_s = scratch + 2 * layout->pp;
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    ff_pipeline_least_of(layout, stages, time);
    time->transfer_s = transfer_s;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        forward_s[stage] = stages[stage]->forward_s;
        backward_s[stage] = stages[stage]->backward_s;
        weight_s[stage] = stages[stage]->weight_s;
    }
    ff_pipeline_times times = {forward_s, backward_s, weight_s, 0, lists};
    double still_s = ff_schedule_split_estimate(&shape, &times);
    times.transfer_s = transfer_s;
    double span_s = transfer_s > 0 ? ff_schedule_split_estimate(&shape, &times) : still_s;
    double work_s = (double)layout->microbatches * own_s(stages[time->slowest_stage]);
    time->bubble_s = still_s - work_s > ROUNDING * still_s ? still_s - work_s : 0;
    time->exposed_s[FF_EXPOSED_PP] = span_s - still_s;
}

void ff_step_time_add_stage(const ff_cost *cost, const ff_layout *layout,
                            const ff_stage_time *stage, const ff_sync_time *sync,
                            ff_step_time *time) {
    double m = (double)layout->microbatches;
    double dp_s = exposed_dp_s(cost, layout, stage, sync);
    time->exposed_s[FF_EXPOSED_DP] = larger(time->exposed_s[FF_EXPOSED_DP], dp_s);
    time->optimizer_s = larger(time->optimizer_s, sync->update_s);
    time->gradient_s = larger(time->gradient_s, sync->once_gradient_s + m * sync->after_backward_s);
    time->gather_s = larger(time->gather_s, sync->once_gather_s + m * (sync->before_forward_s +
                                                                       sync->before_backward_s));
}

void ff_step_time_finish(const ff_cost *cost, double step_end_s, ff_step_time *time) {
    time->optimizer_s += step_end_s + cost->profile->step_fixed_s;
    time->step_s = time->compute_s + time->bubble_s + time->optimizer_s;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        time->step_s += time->exposed_s[i];
}

/* ---- one layout, in one go ---- */

int64_t ff_stage_units(const ff_layout *layout, int64_t stage) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    int64_t units = 0, last = ff_layout_model_chunks(layout) - 1;
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
        int64_t position = ff_schedule_position(&shape, (int32_t)stage, (int32_t)chunk);
        units += layout->layers_of_chunk[position] + (position == 0) + (position == last);
    }
    return ff_max(1, units);
}

void ff_step_time_of(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                     const ff_time_blocks *blocks, const ff_shard_params *stage_params,
                     ff_step_time *time) {
    ff_arena *arena = ff_arena_create();
    ff_stage_time *stage = FF_ARENA_ARRAY(arena, layout->pp, ff_stage_time);
    const ff_stage_time **stages = FF_ARENA_ARRAY(arena, layout->pp, const ff_stage_time *);
    double *scratch = FF_ARENA_ARRAY(arena, 3 * layout->pp, double);
    for (int64_t i = 0; i < layout->pp; i++) {
        stages[i] = &stage[i];
        stage[i] = ff_stage_time_start(layout);
        for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
            ff_chunk_content content;
            ff_program_chunk(cost->model, layout, i, chunk, &content);
            ff_stage_time_add(cost->model, blocks, &content, &stage[i]);
        }
    }
    ff_pipeline_time_of(layout, stages, ff_transfer_s(cost, layout, reaches), NULL, scratch, time);
    for (int64_t i = 0; i < layout->pp; i++) {
        ff_sync_time sync;
        ff_sync_time_of(cost, layout, reaches, stage_params[i], ff_stage_units(layout, i), &sync);
        ff_step_time_add_stage(cost, layout, &stage[i], &sync, time);
    }
    ff_step_time_finish(cost, ff_step_end_s(cost, layout, reaches, stage_params[0].replicated),
                        time);
    ff_arena_free(arena);
}
