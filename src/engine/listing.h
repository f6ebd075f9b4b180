/* One rank's list of things to do: the program's events, copied as ff_program_walk visits them, each
 * with the row that does it.
 *
 *     opens F chunk 0 mb 0 | embedding.lookup | attention norm | attention.qkv | ... | opens SEND ..
 *
 * Added to an event is only what it is about: the unit of weights that it reads (a gather: the unit
 * of what follows; a reduction by unit: of what went before), and which bucket of its chunk. */
#ifndef FF_ENGINE_LISTING_H
#define FF_ENGINE_LISTING_H

#include "engine/engine.h"
#include "engine/units.h"

struct ff_rank;
struct ff_exchange;
typedef struct ff_item ff_item;

/* How an operator is done: a computation in one go, or an exchange that is started and finished.
 * False: something that it needs is not there (the rank's fault says what). */
typedef struct ff_operator_row {
    const char *name; /* of the program's operator */
    bool (*run)(struct ff_rank *rank, const ff_item *item);
    bool (*start)(struct ff_rank *rank, const ff_item *item, struct ff_exchange *exchange);
    bool (*finish)(struct ff_rank *rank, const ff_item *item);
    bool background; /* does not hold up what follows */
} ff_operator_row;

/* Rows of layers forward and backward, of the ends, and of the step; NULL-terminated by name. */
extern const ff_operator_row ff_layer_rows[], ff_backward_rows[], ff_end_rows[], ff_step_rows[];

struct ff_item {
    bool opens;       /* begins an action; no operator */
    bool in_action;   /* else it belongs to the step's end */
    ff_action action; /* when in_action */
    ff_operator op;
    int layer; /* of the model, or -1 */
    int unit;  /* of the chunk, or -1 */
    int block; /* of the chunk: which reduction or gather by bucket or unit; else -1 */
    const ff_operator_row *row;
};

typedef struct ff_listing {
    ff_item *item;
    int64_t items, room;
    const char *unknown; /* an operator that no row does */
} ff_listing;

/* Gathers of weights and reductions of gradients: of a unit, but no part of what it does. */
bool ff_item_is_sync(const ff_item *item);

/* `units` has an array of units for each chunk of the stage, `counts` how many. */
void ff_listing_build(const ff_setup *setup, int64_t stage, const ff_unit *const *units,
                      const int *counts, ff_listing *listing);
void ff_listing_free(ff_listing *listing);

/* A number that stands for a sequence of events: what a rank did, against what the program says.
 * Start at 0; `action` NULL at the step's end, `op` NULL where an action opens. */
uint64_t ff_order_next(uint64_t order, const ff_action *action, const ff_operator *op, int layer);

#endif
