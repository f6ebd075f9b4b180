/* The pipeline's action lists: in which order a stage runs forward and backward of which chunk and
 * microbatch, with its sends and receives.
 *
 *     1f1b, pp 3, m 4        time ->
 *     stage 0  F0 F1 F2 B0 F3 B1 B2 B3
 *     stage 1     F0 F1 B0 F2 B1 F3 B2 B3
 *     stage 2        F0 B0 F1 B1 F2 B2 F3 B3
 *
 * A chunk is a virtual stage, counted here as chunk 0..v-1 of its stage; where it lies in the model
 * (its position) depends on the kind:
 *
 *     gpipe 1f1b zb-h1 zb-h2     one chunk, position = stage
 *     interleaved                v chunks, round robin: position = chunk*p + stage
 *     zb-v v-half dualpipe-v     two chunks in a V: stage and 2p-1-stage
 *     dualpipe                   two chunks, one for each direction: stage and p-1-stage; the model
 *                                has p positions, every rank two copies' worth of them, and half of
 *                                the microbatches pass each chunk
 *
 * The last four run vpp=2, which the layout sets itself. The kinds from zb-h1 on split backward into
 * input gradient (B) and weight gradient (W), for which no other stage waits.
 * Every closed form below summarises the generator's list, and a property test derives it from the
 * list (tests/schedule_test.c). */
#ifndef FIVEFOLD_SCHEDULE_H
#define FIVEFOLD_SCHEDULE_H

#include "fivefold/diagnostics.h"
#include "fivefold/layout.h"
#include "fivefold/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum ff_action_kind {
    FF_ACTION_FORWARD,
    FF_ACTION_BACKWARD,        /* input and weight gradient together */
    FF_ACTION_BACKWARD_INPUT,  /* split backward: B */
    FF_ACTION_BACKWARD_WEIGHT, /* split backward: W */
    FF_ACTION_RECV_ACTIVATION,
    FF_ACTION_SEND_ACTIVATION,
    FF_ACTION_RECV_GRADIENT,
    FF_ACTION_SEND_GRADIENT,
} ff_action_kind;

typedef struct ff_action {
    ff_action_kind kind;
    int32_t chunk;      /* of this stage: 0..v-1 */
    int32_t microbatch; /* 0..m-1 */
    int32_t peer;       /* the other stage of a send or receive; -1 otherwise */
} ff_action;

typedef struct ff_schedule_shape {
    ff_schedule_kind kind;
    int32_t stages;       /* p */
    int32_t chunks;       /* v, chunks a stage */
    int32_t microbatches; /* m */
    int32_t group;        /* u of interleaved; 0 = p */
} ff_schedule_shape;

static inline bool ff_schedule_same_shape(const ff_schedule_shape *a, const ff_schedule_shape *b) {
    return a->kind == b->kind && a->stages == b->stages && a->chunks == b->chunks &&
           a->microbatches == b->microbatches && a->group == b->group;
}

/* The shape that a derived layout runs. */
FF_API ff_schedule_shape ff_schedule_shape_of(const ff_layout *layout);

/* Layers that a stage of a derived layout holds, its chunks together. */
FF_API int64_t ff_schedule_stage_layers(const ff_layout *layout, int64_t stage);

/* Whether the shape can run; FF_NO with the rule and the nearest legal numbers when not
 * (FF0240..FF0249). */
FF_API ff_status ff_schedule_check(const ff_schedule_shape *shape, ff_diagnostics *findings);

/* Where chunks lie. Positions of the model: p*v, or p where it runs both ways (then 2 copies). */
FF_API int32_t ff_schedule_model_chunks(const ff_schedule_shape *shape);
FF_API int32_t ff_schedule_copies(const ff_schedule_shape *shape);
FF_API int32_t ff_schedule_position(const ff_schedule_shape *shape, int32_t stage, int32_t chunk);
/* Microbatches that pass a chunk: all, or one half of them in each direction. */
FF_API void ff_schedule_chunk_microbatches(const ff_schedule_shape *shape, int32_t chunk,
                                           int32_t *first, int32_t *count);
/* Whether backward is split into B and W, for some microbatches at least. */
FF_API bool ff_schedule_splits(const ff_schedule_shape *shape);

typedef struct ff_schedule ff_schedule;
/* Actions of all stages' lists together, of a shape that can run. */
FF_API int64_t ff_schedule_action_count(const ff_schedule_shape *shape);
/* All stages' lists. NULL when the shape cannot run, or when the lists would hold more than 2^24
 * actions (256 MiB); the summaries below work for every shape that can run. */
FF_API ff_schedule *ff_schedule_create(const ff_schedule_shape *shape);
FF_API void ff_schedule_free(ff_schedule *schedule);
FF_API const ff_action *ff_schedule_actions(const ff_schedule *schedule, int32_t stage,
                                            int64_t *count);

/* Summaries: closed forms, of a shape that can run. */

/* Forwards of a stage, in chunks, before its steady state of one forward, one backward (whose own
 * first forward comes on top). */
FF_API int64_t ff_schedule_warmup(const ff_schedule_shape *shape, int32_t stage);
/* Most chunk-microbatches of a stage that are forward but not yet backward (F to B), at once; each
 * holds 1/v of the stage's layers. */
FF_API int64_t ff_schedule_in_flight(const ff_schedule_shape *shape, int32_t stage);
/* The same until the weight gradient is done (F to W): with a split backward most of what F saves
 * waits for W. */
FF_API int64_t ff_schedule_in_flight_weight(const ff_schedule_shape *shape, int32_t stage);
/* Bytes of one microbatch of a chunk: from F to B; from B to W, where backward is split; and while
 * its backward runs. */
typedef struct ff_chunk_hold {
    int64_t kept_bytes, waiting_bytes, working_bytes;
} ff_chunk_hold;
/* Microbatches of a chunk between F and B / between B and W. */
typedef struct ff_held {
    int64_t kept, waiting;
} ff_held;
typedef struct ff_peak {
    int64_t bytes;
    int32_t chunk; /* whose backward runs; -1: none, at the end of a forward */
} ff_peak;
/* The most that a stage holds when its chunks hold `holds[chunks]`, over the whole list; `held`
 * (chunks entries) says what it is made of. */
FF_API ff_peak ff_schedule_peak(const ff_schedule_shape *shape, int32_t stage,
                                const ff_chunk_hold *holds, ff_held *held);
/* The part of in_flight that chunk `chunk` of the stage holds after the last warm-up forward and one more.
 */
FF_API int64_t ff_schedule_in_flight_of_chunk(const ff_schedule_shape *shape, int32_t stage,
                                              int32_t chunk);
/* Bubble of equal stages, each of which takes f, b and w for a microbatch (its chunks together; b
 * without w), when all stages wait for the last at the step's end. */
FF_API double ff_schedule_bubble(const ff_schedule_shape *shape, double f, double b, double w);
/* The same over the ideal time, at F = B = W: (p-1)/(v*m) where backward is whole. */
FF_API double ff_schedule_bubble_ratio(const ff_schedule_shape *shape);
/* Chunk boundaries that a microbatch crosses forward: model chunks - 1. */
FF_API int64_t ff_schedule_crossings(const ff_schedule_shape *shape);
/* Messages one stage sends in a step, together / of one kind. */
FF_API int64_t ff_schedule_sends(const ff_schedule_shape *shape, int32_t stage);
FF_API int64_t ff_schedule_sends_of(const ff_schedule_shape *shape, int32_t stage,
                                    bool of_gradient);

/* A drawing in characters, `columns` wide at most, one line a stage: digits are microbatches. The
 * caller frees the returned text with free(). */
FF_API char *ff_schedule_draw(const ff_schedule *schedule, int columns);

#endif
