/* The pipeline at schedule level, for ranking candidates: chunk times from the blocks, run over the
 * schedule's lists (in seconds: nothing is counted here); the rest of the step stays the
 * estimator's closed form. */
#include "simulate/internal.h"

#include "schedule/span.h"

static const double ROUNDING = 1e-12; /* of a span: less is no bubble */

static void chunk_time(const ff_simulation_inputs *in, const ff_time_blocks *blocks, int64_t index,
                       ff_stage_time *time) {
    int64_t vpp = in->layout->vpp;
    ff_chunk_content content;
    *time = ff_stage_time_start(in->layout);
    time->share = 1; /* one microbatch that passes the chunk */
    ff_program_chunk(in->cost->model, in->layout, index / vpp, index % vpp, &content);
    ff_stage_time_add(in->cost->model, blocks, &content, time);
}

static ff_run_times run_times(const ff_simulation_inputs *in, const ff_time_blocks *blocks,
                              ff_arena *arena) {
    int64_t chunks = in->layout->pp * in->layout->vpp;
    double *forward_s = FF_ARENA_ARRAY(arena, 3 * chunks, double);
    double *backward_s = forward_s + chunks, *weight_s = backward_s + chunks;
    for (int64_t i = 0; i < chunks; i++) {
        ff_stage_time time;
        chunk_time(in, blocks, i, &time);
        forward_s[i] = time.forward_s;
        backward_s[i] = time.backward_s;
        weight_s[i] = time.weight_s;
    }
    return (ff_run_times){forward_s, backward_s, weight_s, 0};
}

/* What the slowest stage does in a step: its microbatches, each chunk's own share of them. */
static double work_s(const ff_layout *layout, const ff_run_times *times) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    double most = 0;
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        double own = 0;
        for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
            own += times->forward_s[stage * layout->vpp + chunk] +
                   times->backward_s[stage * layout->vpp + chunk];
        most = own > most ? own : most;
    }
    return most * (double)layout->microbatches / ff_schedule_copies(&shape);
}

bool ff_simulate_pipeline(const ff_simulation_inputs *in, const ff_time_blocks *blocks,
                          ff_step_time *time) {
    ff_schedule_shape shape = ff_schedule_shape_of(in->layout);
    if (in->layout->pp == 1)
        return true;
    ff_schedule *schedule = ff_schedule_create(&shape);
    if (schedule == NULL)
        return false;
    ff_arena *arena = ff_arena_create();
    ff_run_times times = run_times(in, blocks, arena);
    double still_s = ff_schedule_split_span(schedule, &times), span_s = still_s;
    times.transfer_s = time->transfer_s;
    if (times.transfer_s > 0)
        span_s = ff_schedule_split_span(schedule, &times);
    double idle_s = still_s - work_s(in->layout, &times);
    double before_s = time->bubble_s + time->exposed_s[FF_EXPOSED_PP];
    time->bubble_s = idle_s > ROUNDING * still_s ? idle_s : 0;
    time->exposed_s[FF_EXPOSED_PP] = span_s - still_s;
    time->step_s += time->bubble_s + time->exposed_s[FF_EXPOSED_PP] - before_s;
    ff_arena_free(arena);
    ff_schedule_free(schedule);
    return true;
}
