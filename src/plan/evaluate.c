#include "plan/evaluate.h"

#include "base/number.h"
#include "plan/levels.h"
#include "presets/presets.h"
#include "simulate/simulate.h"

enum { MOST_OVERSHOOT = 10 }; /* a tenth of the batch */

struct ff_evaluator {
    ff_arena *arena;
    const ff_job *job;
    ff_cost cost;
    ff_program_options options;
    double flop_per_token;
    ff_levels *levels;
};

ff_evaluator *ff_evaluator_create(const ff_job *job, ff_diagnostics *findings) {
    ff_physics physics;
    ff_physics_data data = ff_physics_presets();
    if (ff_physics_of_device(&data, &job->cluster.device, findings, &physics) != FF_OK)
        return NULL;
    ff_arena *arena = ff_arena_create();
    ff_evaluator *e = FF_ARENA_NEW(arena, ff_evaluator);
    e->arena = arena;
    e->job = job;
    e->cost = (ff_cost){.model = &job->model,
                        .cluster = &job->cluster,
                        .profile = job->profile,
                        .physics = physics,
                        .seq = job->seq,
                        .imbalance = job->imbalance,
                        .gemm_memo = FF_ARENA_NEW(arena, ff_gemm_memo)};
    e->options = (ff_program_options){job->seq, job->profile->kernels, job->imbalance};
    e->flop_per_token = ff_model_flop_per_token(&job->model, job->seq, FF_FLOP_FULL);
    e->levels = ff_levels_create(arena, &e->cost, &e->options);
    return e;
}

void ff_evaluator_free(ff_evaluator *evaluator) {
    if (evaluator == NULL)
        return;
    ff_levels_free(evaluator->levels);
    ff_arena_free(evaluator->arena);
}

const ff_cost *ff_evaluator_cost(const ff_evaluator *evaluator) {
    return &evaluator->cost;
}

ff_program_options ff_evaluator_options(const ff_evaluator *evaluator) {
    return evaluator->options;
}

int64_t ff_job_sequences(const ff_job *job) {
    return job->gbs_tokens == 0 ? 0 : ff_ceil_div(job->gbs_tokens, job->seq);
}

void ff_evaluate_reaches(const ff_evaluator *evaluator, const ff_layout *layout,
                         ff_reaches *reaches) {
    ff_mesh mesh;
    *reaches = (ff_reaches){0};
    if (ff_layout_mesh(layout, NULL, &mesh) == FF_OK)
        ff_reaches_of(&mesh, evaluator->cost.cluster, reaches);
}

/* ---- memory ---- */

void ff_evaluate_memory(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate,
                        ff_stage_memory *stages) {
    ff_levels_set(e->levels, layout);
    const ff_chunk_level *level = ff_levels_chunks(e->levels);
    const ff_zero_parts *z = ff_levels_zero(e->levels, layout, false);
    *estimate = (ff_estimate){.capacity_bytes = e->cost.cluster->device.memory_bytes};
    for (int i = 0; i < level->map->classes; i++) {
        const ff_class_parts *p = &level->parts[i];
        int64_t stage = level->map->first_stage[i];
        int64_t bytes = ff_ledger_total(&z->fixed[level->split->class_of[stage]], p->held_bytes);
        if (bytes > estimate->peak_bytes) {
            estimate->peak_bytes = bytes;
            estimate->peak_stage = stage;
        }
    }
    for (int64_t stage = 0; stages != NULL && stage < layout->pp; stage++)
        ff_levels_stage_memory(e->levels, layout, stage, &stages[stage]);
    estimate->verdict =
        ff_ledger_verdict(estimate->peak_bytes, estimate->capacity_bytes, e->job->margin_bytes);
}

/* ---- recomputation by count ---- */

/* 0: none; a number that reaches all layers of every stage: all. */
static bool fits_with(ff_evaluator *e, ff_layout *layout, int64_t recomputed, int64_t most,
                      int64_t limit_bytes) {
    ff_estimate estimate;
    layout->recompute_stages = recomputed == 0 ? (int)layout->pp : 0;
    layout->recompute_layers = recomputed == most ? 0 : recomputed;
    ff_evaluate_memory(e, layout, &estimate, NULL);
    layout->recompute_stages = 0;
    return estimate.peak_bytes <= limit_bytes;
}

static int64_t most_layers_of_a_stage(const ff_layout *layout) {
    int64_t most = 0;
    for (int64_t stage = 0; stage < layout->pp; stage++)
        most = ff_max(most, ff_schedule_stage_layers(layout, stage));
    return most;
}

/* From the first recomputed layer on, which is rebuilt whole while it runs, each one more frees
 * memory. */
ff_count_answer ff_evaluate_fewest_recomputed(ff_evaluator *e, ff_layout *layout,
                                              int64_t limit_bytes) {
    int64_t all = most_layers_of_a_stage(layout), less = 0, enough = all;
    if (!fits_with(e, layout, all, all, limit_bytes))
        return FF_COUNT_TOO_FEW;
    if (fits_with(e, layout, 0, all, limit_bytes))
        return FF_COUNT_NONE;
    while (enough - less > 1) {
        int64_t middle = (less + enough) / 2;
        if (fits_with(e, layout, middle, all, limit_bytes))
            enough = middle;
        else
            less = middle;
    }
    layout->recompute_layers = enough == all ? 0 : enough;
    return enough == all ? FF_COUNT_ALL : FF_COUNT_SOME;
}

/* ---- time ---- */

static void add_sync(const ff_evaluator *e, const ff_layout *layout, const ff_chunk_level *level,
                     const ff_zero_parts *z, ff_step_time *time) {
    for (int i = 0; i < level->map->classes; i++)
        ff_step_time_add_stage(&e->cost, layout, &level->parts[i].time,
                               &z->sync[level->split->class_of[level->map->first_stage[i]]], time);
    ff_step_time_finish(&e->cost, level->step_end_s, time);
}

static int64_t batch_tokens(const ff_evaluator *e, const ff_layout *layout) {
    return ff_mul(ff_layout_batch_sequences(layout), e->cost.seq);
}

/* A batch far beyond what was asked for is no gain: what overshoots by more is not counted. */
static int64_t counted_tokens(const ff_evaluator *e, const ff_layout *layout) {
    int64_t actual = batch_tokens(e, layout), target = e->job->gbs_tokens;
    return target == 0 ? actual : ff_min(actual, target + target / MOST_OVERSHOOT);
}

static double stage_s(const ff_chunk_level *level, int64_t stage) {
    const ff_stage_time *time = &level->parts[level->map->class_of[stage]].time;
    return time->forward_s + time->backward_s;
}

/* What all microbatches gain when every stage takes the mean instead of the slowest one's time, and when
 * the host gets ahead of as many layers as it can. */
static double evening_gain_s(const ff_chunk_level *level, const ff_layout *layout) {
    double slowest_s = 0, all_s = 0;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        double s = stage_s(level, stage);
        slowest_s = s > slowest_s ? s : slowest_s;
        all_s += s - level->parts[level->map->class_of[stage]].time.ahead_left_s;
    }
    return (double)layout->microbatches * (slowest_s - all_s / (double)layout->pp);
}

double ff_evaluate_least_s(ff_evaluator *e, const ff_layout *layout) {
    const ff_chunk_level *level = ff_levels_timed(e->levels, layout, false);
    ff_step_time time = level->least;
    add_sync(e, layout, level, ff_levels_zero(e->levels, layout, true), &time);
    return (time.step_s - evening_gain_s(level, layout)) / (double)counted_tokens(e, layout);
}

static void set_rates(const ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate) {
    double step_s = estimate->time.step_s, devices = (double)ff_layout_world(layout);
    ff_dtype dtype = ff_recipe_describe(layout->recipe)->compute;
    estimate->batch_tokens = batch_tokens(e, layout);
    estimate->counted_tokens = counted_tokens(e, layout);
    estimate->s_per_token = step_s / (double)estimate->counted_tokens;
    estimate->tokens_per_s_per_device = (double)estimate->batch_tokens / step_s / devices;
    estimate->model_flops_per_device = estimate->tokens_per_s_per_device * e->flop_per_token;
    estimate->mfu =
        estimate->model_flops_per_device / ff_peak_flops(&e->cost.cluster->device, dtype);
}

void ff_evaluate_time(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate) {
    const ff_chunk_level *level = ff_levels_timed(e->levels, layout, true);
    estimate->time = level->pipeline;
    add_sync(e, layout, level, ff_levels_zero(e->levels, layout, true), &estimate->time);
    set_rates(e, layout, estimate);
}

void ff_evaluate_exactly(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate) {
    ff_evaluate_time(e, layout, estimate);
    ff_simulation_inputs inputs = {&e->cost, layout, ff_levels_reaches(e->levels), FF_DETAIL_CHUNK};
    const ff_time_blocks *blocks = ff_levels_time_blocks(e->levels, layout);
    double formula_s = estimate->time.step_s;
    estimate->simulated = layout->pp > 1 && ff_simulate_pipeline(&inputs, blocks, &estimate->time);
    estimate->formula_ratio = formula_s / estimate->time.step_s;
    set_rates(e, layout, estimate);
}

double ff_evaluate_evened_s(ff_evaluator *e, const ff_layout *layout, const ff_estimate *estimate) {
    double gain_s = evening_gain_s(ff_levels_timed(e->levels, layout, false), layout);
    return estimate->s_per_token - gain_s / (double)estimate->counted_tokens;
}

const double *ff_evaluate_stages_s(ff_evaluator *e, const ff_layout *layout, ff_arena *arena) {
    const ff_chunk_level *level = ff_levels_timed(e->levels, layout, false);
    double *own_s = FF_ARENA_ARRAY(arena, layout->pp, double);
    for (int64_t stage = 0; stage < layout->pp; stage++)
        own_s[stage] = stage_s(level, stage);
    return own_s;
}

ff_split_inputs ff_evaluate_split_inputs(ff_evaluator *e, const ff_layout *layout,
                                         int64_t limit_bytes, ff_cut_recompute recompute) {
    return (ff_split_inputs){.cost = &e->cost,
                             .layout = layout,
                             .memory = ff_levels_memory_blocks(e->levels, layout),
                             .time = ff_levels_time_blocks(e->levels, layout),
                             .limit_bytes = limit_bytes,
                             .recompute = recompute};
}

double ff_evaluate_floor_s(ff_evaluator *e, const ff_layout *layout) {
    bool whole = layout->recompute == FF_RECOMPUTE_FULL && layout->recompute_layers == 0 &&
                 layout->recompute_stages == 0;
    double all_s = ff_levels_least_s(e->levels, layout, whole);
    double tokens = (double)ff_mul3(layout->mbs, layout->dp, e->cost.seq);
    return all_s / (double)layout->pp / tokens;
}
