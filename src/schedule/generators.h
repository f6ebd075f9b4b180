/* What a schedule generator provides, and how chunks lie on stages.
 *
 * A generator is one row: which shapes it runs, the order of a stage's forwards and backwards, and
 * the closed forms that summarise that order. It stands in one file with its row (gpipe.c,
 * one_f_one_b.c, interleaved.c); the table of rows is in schedule.c, so a new schedule is one file
 * and one line there. A generator writes computation only: sends and receives follow from where
 * chunks lie, and one pass (schedule.c) puts them in for every kind.
 *
 * Positions: the model's chunks are numbered 0 .. p*v-1 in model order. They lie round robin:
 *
 *     p 3, v 2     stage 0     stage 1     stage 2
 *     chunk 0      pos 0       pos 1       pos 2
 *     chunk 1      pos 3       pos 4       pos 5          position = chunk * p + stage
 */
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

typedef struct ff_generator {
    ff_schedule_kind kind;
    /* Reports what this kind refuses beyond bad sizes. */
    void (*check)(const ff_schedule_shape *shape, ff_diagnostics *findings);
    void (*generate)(const ff_schedule_shape *shape, int32_t stage, ff_order *order);
    int64_t (*warmup)(const ff_schedule_shape *shape, int32_t stage);
    int64_t (*in_flight)(const ff_schedule_shape *shape, int32_t stage);
    /* Of these, in one chunk; NULL for kinds of one chunk a stage. */
    int64_t (*in_flight_of_chunk)(const ff_schedule_shape *shape, int32_t stage, int32_t chunk);
    double (*bubble_ratio)(const ff_schedule_shape *shape);
    /* See span.h; `transfer_s` of one stage boundary. */
    double (*span_estimate)(const ff_schedule_shape *shape, const double *stage_forward_s,
                            const double *stage_backward_s, double transfer_s);
} ff_generator;

extern const ff_generator ff_generator_gpipe;
extern const ff_generator ff_generator_1f1b;
extern const ff_generator ff_generator_interleaved;

/* The row of a kind, or NULL when its generator is not written yet. */
const ff_generator *ff_generator_find(ff_schedule_kind kind);

/* Refuses more than one chunk a stage (FF0242). */
void ff_generator_check_one_chunk(const ff_schedule_shape *shape, ff_diagnostics *findings);

void ff_order_forward(ff_order *order, int32_t chunk, int32_t microbatch);
void ff_order_backward(ff_order *order, int32_t chunk, int32_t microbatch);

struct ff_schedule {
    ff_arena *arena;
    ff_schedule_shape shape;
    int64_t *first; /* [stages + 1]: stage s has actions first[s] .. first[s+1]-1 */
    ff_action *actions;
};

int32_t ff_schedule_position(const ff_schedule_shape *shape, int32_t stage, int32_t chunk);
int32_t ff_schedule_stage_at(const ff_schedule_shape *shape, int32_t position);
int32_t ff_schedule_chunk_at(const ff_schedule_shape *shape, int32_t position);

/* The position whose computation a send or receive of `stage` reaches: one further for activations
 * sent, and so on. */
int32_t ff_schedule_partner(const ff_schedule_shape *shape, int32_t stage, const ff_action *action);

#endif
