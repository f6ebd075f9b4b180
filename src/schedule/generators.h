/* What a schedule generator provides, and how chunks lie on stages.
 *
 * A generator is one row: which shapes it runs, the order of a stage's forwards and backwards, and
 * the closed forms that summarise that order. It stands in one file with its row (gpipe.c,
 * one_f_one_b.c, interleaved.c); the table of rows is in schedule.c, so a new schedule is one file
 * and one line there. A generator writes computation only: sends and receives follow from where
 * chunks lie, and one pass (schedule.c) puts them in for every kind.
 *
 * Where chunks lie (placement.c) is the row's too. */
#ifndef FF_SCHEDULE_GENERATORS_H
#define FF_SCHEDULE_GENERATORS_H

#include "base/arena.h"
#include "fivefold/schedule.h"

/* Lists larger than this in all are not built: 256 MiB of actions. */
#define FF_SCHEDULE_MAX_ACTIONS (INT64_C(1) << 24)

/* The computation of one stage, being written; room is made by the caller. */
typedef struct ff_order {
    ff_action *actions;
    int64_t count;
} ff_order;

/* Positions: the model's chunks are numbered in model order, 0 first. A stage's chunk c lies at
 *
 *     p 3            stage 0  1  2        stage 0  1  2           stage 0  1  2
 *     chunk 0              0  1  2              0  1  2                 0  1  2    down
 *     chunk 1              3  4  5              5  4  3                 2  1  0    up
 *                    round robin (v 2)    V (v 2)                 both ways (v 2, 3 positions)
 *
 * In a V the model comes back to stage 0; both ways there are two copies of the model, chunk 0 for
 * the microbatches that run down, chunk 1 for those that run up. */
typedef enum ff_placement {
    FF_PLACEMENT_ROUND_ROBIN,
    FF_PLACEMENT_V,
    FF_PLACEMENT_BOTH_WAYS,
} ff_placement;

typedef struct ff_list_memo ff_list_memo;

/* Times of a whole stage (its chunks together), indexed [stage]; backward holds its weight part. */
typedef struct ff_pipeline_times {
    const double *forward_s, *backward_s, *weight_s;
    double transfer_s;   /* of one stage boundary */
    ff_list_memo *lists; /* by_list.h; NULL: lists are made anew */
} ff_pipeline_times;

typedef struct ff_generator {
    ff_schedule_kind kind;
    ff_placement placement;
    bool splits; /* backward is two actions, for some microbatches at least */
    /* Reports what this kind refuses beyond bad sizes. */
    void (*check)(const ff_schedule_shape *shape, ff_diagnostics *findings);
    void (*generate)(const ff_schedule_shape *shape, int32_t stage, ff_order *order);
    /* Backwards of a stage that are split; NULL: all where the kind splits, else none. */
    int64_t (*split_count)(const ff_schedule_shape *shape, int32_t stage);
    int64_t (*warmup)(const ff_schedule_shape *shape, int32_t stage);
    int64_t (*in_flight)(const ff_schedule_shape *shape, int32_t stage);
    /* F to W; NULL: as in_flight, for kinds that do not split. */
    int64_t (*in_flight_weight)(const ff_schedule_shape *shape, int32_t stage);
    /* See ff_schedule_peak; NULL: one chunk and whole backwards, or from a short list. */
    ff_peak (*peak)(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                    ff_held *held);
    /* Of in_flight, in one chunk; NULL where all lie in one or there is no closed form. */
    int64_t (*in_flight_of_chunk)(const ff_schedule_shape *shape, int32_t stage, int32_t chunk);
    /* Bubble of equal stages that take f, b, w for a microbatch. */
    double (*bubble)(const ff_schedule_shape *shape, double f, double b, double w);
    double (*span_estimate)(const ff_schedule_shape *shape, const ff_pipeline_times *times);
} ff_generator;

extern const ff_generator ff_generator_gpipe;
extern const ff_generator ff_generator_1f1b;
extern const ff_generator ff_generator_interleaved;
extern const ff_generator ff_generator_zb_h1;
extern const ff_generator ff_generator_zb_h2;
extern const ff_generator ff_generator_zb_v;
extern const ff_generator ff_generator_v_half;
extern const ff_generator ff_generator_dualpipe;
extern const ff_generator ff_generator_dualpipe_v;

/* The row of a kind, or NULL when there is no such kind. */
const ff_generator *ff_generator_find(ff_schedule_kind kind);

/* Refuses more than one chunk a stage (FF0242) / any number but two (FF0270). */
void ff_generator_check_one_chunk(const ff_schedule_shape *shape, ff_diagnostics *findings);
void ff_generator_check_two_chunks(const ff_schedule_shape *shape, ff_diagnostics *findings);

void ff_order_forward(ff_order *order, int32_t chunk, int32_t microbatch);
void ff_order_backward(ff_order *order, int32_t chunk, int32_t microbatch);
void ff_order_backward_input(ff_order *order, int32_t chunk, int32_t microbatch);
void ff_order_backward_weight(ff_order *order, int32_t chunk, int32_t microbatch);

/* Actions of a stage without its sends and receives. */
int64_t ff_schedule_computation_count(const ff_schedule_shape *shape, int32_t stage);

/* The order of a stage, in the arena. */
ff_order ff_schedule_order(const ff_schedule_shape *shape, int32_t stage, ff_arena *arena);

struct ff_schedule {
    ff_arena *arena;
    ff_schedule_shape shape;
    int64_t *first; /* [stages + 1]: stage s has actions first[s] .. first[s+1]-1 */
    ff_action *actions;
};

/* A chunk of a stage. */
typedef struct ff_chunk_place {
    int32_t stage, chunk;
} ff_chunk_place;

/* The chunk that lies `step` positions on (+1) or back (-1) on the way of the same microbatches;
 * false past the model's ends. */
bool ff_schedule_neighbour(const ff_schedule_shape *shape, ff_chunk_place place, int step,
                           ff_chunk_place *neighbour);
/* Whose computation a send or receive of `stage` reaches: one further for activations sent and
 * gradients received. False when there is none. */
bool ff_schedule_partner(const ff_schedule_shape *shape, int32_t stage, const ff_action *action,
                         ff_chunk_place *partner);

static inline bool ff_action_computes(ff_action_kind kind) {
    return kind < FF_ACTION_RECV_ACTIVATION;
}

#endif
