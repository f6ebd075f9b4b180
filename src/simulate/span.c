/* A step at schedule level, for ranking candidates: chunk times from the blocks, run over the
 * schedule's lists (in seconds: nothing is counted here); the rest is the estimator's closed form. */
#include "simulate/internal.h"

#include "schedule/span.h"

static void add_content(const ff_simulation_inputs *in, const ff_time_blocks *blocks, int64_t stage,
                        int64_t chunk, ff_stage_time *time) {
    ff_chunk_content content;
    ff_program_chunk(in->cost->model, in->layout, stage, chunk, &content);
    ff_stage_time_add(in->cost->model, blocks, &content, time);
}

static double span_s(const ff_simulation_inputs *in, const ff_time_blocks *blocks,
                     ff_schedule *schedule, ff_arena *arena) {
    const ff_layout *layout = in->layout;
    int64_t chunks = layout->pp * layout->vpp;
    double *forward_s = FF_ARENA_ARRAY(arena, 3 * chunks, double);
    double *backward_s = forward_s + chunks, *weight_s = backward_s + chunks;
    for (int64_t i = 0; i < chunks; i++) {
        ff_stage_time time = ff_stage_time_start(layout);
        time.share = 1; /* one microbatch that passes the chunk */
        add_content(in, blocks, i / layout->vpp, i % layout->vpp, &time);
        forward_s[i] = time.forward_s;
        backward_s[i] = time.backward_s;
        weight_s[i] = time.weight_s;
    }
    ff_run_times times = {forward_s, backward_s, weight_s,
                          ff_transfer_s(in->cost, layout, in->reaches)};
    return ff_schedule_split_span(schedule, &times);
}

double ff_simulate_span(const ff_simulation_inputs *in, const ff_time_blocks *blocks,
                        const ff_shard_params *stage_params) {
    const ff_layout *layout = in->layout;
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    ff_schedule *schedule = ff_schedule_create(&shape);
    if (schedule == NULL)
        return -1;
    ff_arena *arena = ff_arena_create();
    ff_step_time time = {0};
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        ff_stage_time own = ff_stage_time_start(layout);
        ff_sync_time sync;
        for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
            add_content(in, blocks, stage, chunk, &own);
        ff_sync_time_of(in->cost, layout, in->reaches, stage_params[stage],
                        ff_stage_units(layout, stage), &sync);
        ff_step_time_add_stage(in->cost, layout, &own, &sync, &time);
    }
    time.compute_s = span_s(in, blocks, schedule, arena);
    ff_step_time_finish(
        in->cost, ff_step_end_s(in->cost, layout, in->reaches, stage_params[0].replicated), &time);
    ff_arena_free(arena);
    ff_schedule_free(schedule);
    return time.step_s;
}
