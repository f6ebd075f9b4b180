/* A step as discrete events: what every stage's rank does when, in int64 picoseconds.
 *
 *     program walk --template.c--> steps of an action --stage.c--> streams of a stage
 *                                                     --run.c----> messages, step's end, results
 *
 * A rank has a compute stream and one stream for each link class (inside the domain, between
 * domains). By symmetry one rank a stage is simulated. Stages meet only in pipeline messages and at
 * the step's end, so each is advanced as far as it gets; the result does not depend on the order.
 *
 * Model
 *   compute    an operator takes its estimated time; each duration is rounded to a picosecond once
 *   blocking   the rank waits for its collective; one beside a GEMM or inside attention runs beside
 *              it, and what is longer than the cover is waited for (cost/blocks.c says how much)
 *   behind     gradient reductions, ZeRO gathers: started when their data is there, one after the
 *   layers     other on their link class, and waited for where the result is used
 *   slow-down  while compute and such communication run at once, both run at 1/(1 + n*r) of their
 *              rate, r the profile's overlap_slowdown_ratio, n the links in use
 *   contention a blocking collective or a pipeline message shares its link evenly with what runs
 *              there behind layers
 *   messages   cost the sender nothing, arrive after the transfer; receives wait
 *   ZeRO-1/2   gathers of updated weights run under the next step's first forwards where the stack
 *              overlaps them: the step is periodic, so they are in flight when it begins
 *   ZeRO-2     reductions of a microbatch are waited for before the stage goes on, as its buckets
 *              are freed (DeepSpeed: the epilogue of each backward)
 *   ZeRO-3     one unit is prefetched while the one before runs
 *   the end    reductions, gradient norm (all stages wait for the last), optimizer, gathers that are
 *              not overlapped, the stack's fixed time
 *
 * Without communication behind layers a stage's times are the sums that the estimator takes, and
 * gpipe, 1f1b, interleaved and zero-bubble spans equal their formulas (tests/simulate_test.c). */
#ifndef FF_SIMULATE_SIMULATE_H
#define FF_SIMULATE_SIMULATE_H

#include "base/arena.h"
#include "cost/cost.h"
#include "fivefold/memory.h"
#include "fivefold/program.h"

typedef enum ff_detail {
    FF_DETAIL_CHUNK,    /* a forward or backward of a chunk is one piece */
    FF_DETAIL_OPERATOR, /* every operator is a piece */
} ff_detail;

typedef enum ff_stream {
    FF_STREAM_DOMAIN,
    FF_STREAM_NETWORK,
    FF_STREAM_COMPUTE,
    FF_STREAM_COUNT
} ff_stream;
enum { FF_LINKS = 2 };
const char *ff_stream_name(ff_stream stream); /* "link inside the domain", ... */

/* Why a rank does nothing. */
typedef enum ff_wait {
    FF_WAIT_ACTIVATION, /* for another stage's forward */
    FF_WAIT_GRADIENT,   /* for another stage's backward */
    FF_WAIT_STEP_END,   /* for the slowest stage */
    FF_WAIT_COUNT
} ff_wait;
const char *ff_wait_name(ff_wait wait);

/* One thing that a stream of a stage did; at operator detail an action's whole interval comes
 * besides, around its operators. */
typedef struct ff_interval {
    int64_t stage;
    ff_stream stream;
    const char *name;        /* "attention.qkv", "forward" */
    const ff_action *action; /* NULL in the step's end and behind layers */
    bool whole;              /* an action's, not of one of its operators */
    int layer;               /* -1: none, or more than one */
    int64_t begin_ps, end_ps;
    int64_t bytes; /* of a collective; else 0 */
} ff_interval;

typedef struct ff_message {
    int64_t id;
    int64_t from, to; /* stages */
    bool of_gradient;
    int64_t sent_ps, arrived_ps;
    int64_t used_ps; /* when the receiver's computation begins */
    int64_t bytes;
} ff_message;

/* Memory of a stage after a change. */
typedef struct ff_memory_point {
    int64_t stage, at_ps;
    int64_t kept_bytes, working_bytes, loss_bytes;
    const ff_ledger_fixed *fixed; /* what stays all the time */
} ff_memory_point;

/* Whose timelines are wanted: ranks, which stand for their stages. */
struct ff_watched {
    const ff_layout *layout;
    const ff_mesh *mesh;
    int64_t ranks;
    const int64_t *rank, *stage; /* [ranks] */
};

/* What watches a simulation; any may be NULL. `begin` is the caller's, before the rest. */
typedef struct ff_watched ff_watched;
typedef struct ff_observer {
    void *context;
    void (*begin)(void *context, const ff_watched *watched);
    void (*interval)(void *context, const ff_interval *interval);
    void (*message)(void *context, const ff_message *message);
    void (*memory)(void *context, const ff_memory_point *point);
} ff_observer;

typedef struct ff_stage_result {
    int64_t busy_ps;                      /* compute, slowed down where it is */
    int64_t exposed_ps[FF_EXPOSED_COUNT]; /* waited for communication, by dimension */
    int64_t idle_ps[FF_WAIT_COUNT];
    int64_t bubble_ps; /* idle within the pipeline */
    int64_t end_ps;    /* when the stage was done */
    int64_t peak_at_ps;
    ff_held *held;                       /* [vpp] at the peak */
    int32_t running;                     /* chunk whose backward runs at the peak; -1 none */
    int64_t in_flight, in_flight_weight; /* most, F to B and F to W */
    ff_stage_memory memory;
    int counts;
    ff_count count[FF_MOST_COUNTS];
} ff_stage_result;

/* A part of the longest path through the step. */
typedef struct ff_path_part {
    const char *what;
    int64_t time_ps;
} ff_path_part;
enum { FF_MOST_PATH_PARTS = 96 };

typedef struct ff_simulation ff_simulation;

typedef struct ff_simulation_inputs {
    const ff_cost *cost;
    const ff_layout *layout; /* derived and legal */
    const ff_reaches *reaches;
    ff_detail detail;
} ff_simulation_inputs;

/* Runs the step; NULL with findings when its schedule cannot be listed. What it was made from is
 * borrowed. */
ff_simulation *ff_simulation_create(const ff_simulation_inputs *inputs, const ff_observer *observer,
                                    ff_diagnostics *findings);
void ff_simulation_free(ff_simulation *simulation);

int64_t ff_simulation_step_ps(const ff_simulation *simulation); /* with the stack's fixed time */
int64_t ff_simulation_span_ps(const ff_simulation *simulation); /* until the last backward */
int64_t ff_simulation_events(const ff_simulation *simulation);
const ff_stage_result *ff_simulation_stage(const ff_simulation *simulation, int64_t stage);
/* Largest first; returns how many. */
int ff_simulation_path(const ff_simulation *simulation, const ff_path_part **parts);

/* The pipeline at schedule level, for ranking candidates: the lists are run with exact chunk times,
 * and what `time` holds of bubble and exposed transfers (a closed form, made for the same layout) is
 * replaced; step_s follows. Data parallelism and the step's end stay as they are. `blocks` are timed
 * (ff_time_blocks_build). False, with nothing changed, when the schedule cannot be listed. */
bool ff_simulate_pipeline(const ff_simulation_inputs *inputs, const ff_time_blocks *blocks,
                          ff_step_time *time);

#endif
