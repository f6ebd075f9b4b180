/* The state of a run; see run.c and memory.c. */
#ifndef FF_SIMULATE_RUN_H
#define FF_SIMULATE_RUN_H

#include "base/diagnose.h"
#include "schedule/generators.h"
#include "simulate/internal.h"

/* What a stage holds, over time: forwards keep, backwards free; MODEL: the ledger's. */
typedef struct memory_state {
    int64_t stage;
    int32_t chunks;
    ff_chunk_memory *chunk; /* [chunks] */
    ff_held *now, *most;
    int64_t kept_bytes, loss_bytes;
    int64_t peak_bytes, peak_at_ps;
    int32_t running, peak_running;
    int64_t to_backward, to_weight, in_flight, in_flight_weight;
    const ff_observer *observer;
    const ff_simulation_inputs *in;
    ff_ledger_fixed fixed;
} memory_state;

void memory_open(memory_state *m, const ff_simulation_inputs *in, const ff_memory_blocks *blocks,
                 int64_t stage, ff_arena *arena);
void memory_reset(memory_state *m, const ff_observer *observer);
void memory_begin(memory_state *m, const ff_action *action, int64_t at_ps);
void memory_end(memory_state *m, const ff_action *action, int64_t at_ps);
void memory_result(const memory_state *m, ff_stage_result *result);

typedef struct stage_state {
    ff_streams streams;
    memory_state memory;
    int64_t cursor;
    bool prefetched; /* the next computation's first gathers have been started */
    int64_t idle_ps[FF_WAIT_COUNT];
    int64_t sends[2];
    int64_t reduced_ps; /* gradients complete: what the gradient norm waits for */
} stage_state;

typedef struct mail {
    int64_t sent_ps, arrived_ps; /* negative: not sent yet */
    int64_t from;                /* the sending action */
} mail;

struct ff_simulation {
    ff_arena *arena;
    ff_simulation_inputs in;
    ff_schedule_shape shape;
    ff_schedule *schedule;
    ff_stage_steps *steps;
    stage_state *stage;
    mail *mail; /* 2 * [(stage * chunks + chunk) * microbatches + microbatch] + of gradient */
    int64_t boxes;
    int32_t transfer_link;
    int64_t transfer_ps, transfer_bytes;
    int64_t *bound_by; /* [action]: the send that a receive waited for; -1 */
    bool *on_path;     /* [action]; NULL in the first run */
    ff_path_part part[FF_MOST_PATH_PARTS];
    int parts;
    int64_t span_ps, step_ps, events;
    ff_stage_result *result;
};

#endif
