/* One rank of the step: what it holds, and how it is moved on by one thing of its list.
 *
 *     chunk    weights, gradients and moments of the layers of one virtual stage
 *     flight   tensors of one microbatch in one chunk that wait for backward
 *     frame    tensors of the action that runs
 *
 * A tensor in a slot of a flight belongs to the flight, one in the frame to the frame. */
#ifndef FF_ENGINE_RANK_H
#define FF_ENGINE_RANK_H

#include "engine/attention.h"
#include "engine/collective.h"
#include "engine/listing.h"
#include "engine/norm.h"
#include "engine/order.h"

/* What a unit keeps from forward to backward: the program's saved tensors, by name. */
typedef enum ff_slot {
    FF_SLOT_NORM1_IN,
    FF_SLOT_NORM1_OUT,
    FF_SLOT_QUERY,
    FF_SLOT_KEY_VALUE,
    FF_SLOT_CORE,
    FF_SLOT_LOG_SUM_EXP,
    FF_SLOT_NORM2_IN,
    FF_SLOT_NORM2_OUT,
    FF_SLOT_INNER,
    FF_SLOT_PRODUCT,
    FF_SLOT_LAYER_INPUT,
    FF_SLOT_SOFTMAX,
    FF_SLOT_COUNT
} ff_slot;

typedef struct ff_flight {
    real *arrived, *arrived_gradient; /* from the neighbours */
    real *out, *out_gradient;         /* for them */
    real *(*slot)[FF_SLOT_COUNT];     /* [unit] */
} ff_flight;

/* Gradients accumulate in full (ZeRO-0, 1, resident 3), or as shards, reduced in each microbatch
 * (ZeRO-2, streamed 3). Sets beyond the first are for sums taken apart (engine.h). */
enum { FF_MOST_SETS = FF_CHUNKS + 1 };
typedef struct ff_chunk {
    ff_chunk_content content;
    int units, blocks, pieces; /* see blocks.h */
    ff_unit *unit;
    int64_t *block_begin; /* [blocks + 1] in the chunk's weights */
    int *first_piece;     /* [blocks + 1] */
    ff_piece *piece;      /* [pieces] in the chunk's weights */
    int64_t *shard_begin; /* [pieces + 1] in the shard */
    int64_t elements, shard_elements;
    real *weights;             /* all; NULL under streamed ZeRO-3 */
    real *shard;               /* ZeRO-3 */
    const real **unit_weights; /* [unit]; NULL while not gathered */
    ff_accumulator full[FF_MOST_SETS], sharded;
    real *moment1, *moment2; /* of the shard */
    ff_flight *flight;       /* [microbatch] */
} ff_chunk;

typedef struct ff_frame {
    bool open, forward;
    ff_action action;
    int unit, halves; /* residuals passed in the unit */
    real *x;          /* residual stream */
    bool owns_x;
    real *gathered;   /* input of a column-parallel product, all tokens */
    real *partial;    /* product whose sum over tp is due */
    real *branch;     /* what joins the stream */
    const real *bias; /* added with it */
    real *dx;         /* gradient of the stream */
    real *dy;         /* of it, all tokens (SP); else NULL and dx is meant */
    real *dinner, *dproduct, *dpartial, *dbranch;
    real *top, *sum, *target; /* of the loss, a number a token */
} ff_frame;

typedef struct ff_traffic {
    ff_collective collective;
    ff_axes group;
    ff_phase phase;
    int layer;
    int64_t calls, bytes, planned_calls;
    double planned_bytes;
} ff_traffic;

typedef enum ff_progress { FF_MOVED, FF_WAITS, FF_DONE, FF_FAULT } ff_progress;

enum { FF_MOST_BACKGROUND = 64 };
typedef struct ff_background {
    ff_exchange exchange;
    const ff_item *item; /* NULL: a transfer whose data are given back */
    real *data;
} ff_background;

typedef struct ff_rank {
    const ff_setup *setup;
    int id;
    int64_t stage, tp_index, dp_index;
    int64_t shard_group, shard_ranks, shard_index; /* replicas; of them, those that shard */
    const ff_rows *rows;
    ff_gemm_space gemm;
    ff_store store;
    ff_wire wire;
    ff_listing listing;
    ff_chunk *chunk; /* [vpp] */
    int zero;        /* as it acts: 0 where nothing is replicated */
    bool streams, resident, shards_gradients;
    int sets, own_parts; /* of gradients; of them, parts of this rank's tokens */
    real *gather_buffer[2];
    int next_gather;
    real *bucket;        /* gradients before they leave: of a unit, or ZeRO-2's buckets */
    int64_t bucket_room; /* of ZeRO-2's; from which element of the chunk on they are there, */
    int64_t bucket_begin, unsent; /* and from which on they have not left yet */
    real *tied_weights;           /* held gathered from lookup to head (streamed, one stage) */
    real *tied_gradient; /* the head's, until the lookup's joins it, where no buffer holds both */
    real *transfer_buffer[4]; /* activation and gradient, received and sent */
    bool transfer_busy[4];
    real *rope_cosine, *rope_sine;
    int32_t *positions, *row_of_position; /* of a folded sequence */
    int32_t *tokens, *targets;            /* of the microbatch in hand */
    /* The step. */
    int64_t step, at;
    bool evaluates;
    uint64_t order; /* of what was done (listing.h) */
    ff_frame frame;
    ff_exchange exchange;
    const ff_item *waiting; /* whose exchange runs */
    ff_background *background[FF_MOST_BACKGROUND];
    int backgrounds;
    bool ended, updated;
    ff_grid_sum norm_sum;
    bool norm_shared;
    real *side_buffer; /* replicated gradients, while they are shared */
    int64_t side_at;
    double norm, rate; /* of the gradients; of learning, in this step */
    real *losses;      /* [microbatch], sums over tokens, on the last stage */
    ff_traffic *traffic;
    int traffics, traffic_room;
    char fault[240];
} ff_rank;

/* NULL never; a rank that cannot run has a fault. */
ff_rank *ff_rank_create(const ff_setup *setup, int id, ff_transport *transport);
void ff_rank_free(ff_rank *rank);
/* A step below 0 is an evaluation: of the list only the forwards and their transfers are done, nothing
 * is kept, and weights stay as they are. */
void ff_rank_begin_step(ff_rank *rank, int64_t step);
ff_progress ff_rank_advance(ff_rank *rank);
/* What it does or waits for, for people. */
void ff_rank_describe(const ff_rank *rank, char *text, size_t text_bytes);

/* --- for the rows --- */

bool ff_rank_fail(ff_rank *rank, const char *format, ...) FF_PRINTF(2, 3);
/* False with a fault when a tensor is not there. */
bool ff_rank_needs(ff_rank *rank, const ff_item *item, const real *tensor, const char *what);
real *ff_rank_take(ff_rank *rank, int64_t elements, const char *name);
void ff_rank_give(ff_rank *rank, real **tensor);

ff_chunk *ff_rank_chunk(ff_rank *rank);
ff_flight *ff_rank_flight(ff_rank *rank);
const ff_unit *ff_rank_unit(ff_rank *rank, const ff_item *item);
real **ff_rank_slot(ff_rank *rank, const ff_item *item, ff_slot slot);
/* The slot's tensor, made where there is none. */
real *ff_rank_fill(ff_rank *rank, const ff_item *item, ff_slot slot, int64_t elements,
                   const char *name);
/* A part's weights; NULL (with a fault) when they are not there. */
const real *ff_rank_weights(ff_rank *rank, const ff_item *item, ff_role role);
/* A part's gradient in a set; NULL when the unit has no such part. */
real *ff_rank_gradient(ff_rank *rank, int unit, ff_role role, int set);
/* The group of an operator; false with a fault when it has other ranks than planned. */
bool ff_rank_group(ff_rank *rank, const ff_operator *op, ff_exchange *exchange);

/* flight.c: a unit's forward or backward begins, ends; the frame's stream is given back. */
void ff_flight_enter(ff_rank *rank, const ff_item *item);
bool ff_flight_leave(ff_rank *rank);
void ff_flight_drop_stream(ff_rank *rank);

/* Whether one stage holds a tied embedding for both of its uses. */
bool ff_tied_here(const ff_rank *rank);
/* operators_ends.c: tokens and targets of the frame's microbatch, folded. */
void ff_rank_deal(ff_rank *rank);

/* operators_step.c */
bool ff_step_end(ff_rank *rank); /* the microbatches are over: gradients are summed up */
void ff_step_make_room(ff_rank *rank, const ff_unit *unit); /* for a unit's gradients */
bool ff_step_close_backward(ff_rank *rank, const ff_action *action);
void ff_step_update(ff_rank *rank);

#endif
