/* Collectives as state machines over messages, in one defined order of summation.
 *
 *     reduce-scatter   every rank sends part j to rank j; j adds what it has by the tree over ranks
 *     all-gather       every rank sends its part to all others
 *     all-reduce       the first, then the second
 *     transfer         one message
 *
 *     start -> poll, poll, ... -> done
 *
 * A rank sends what a ring would: (n-1)/n of the tensor in either, and the order of the sum does
 * not depend on when messages arrive. Part i of n begins at element count*i/n; a tensor of several
 * pieces is divided piece by piece, and a rank's part is its parts of all of them. */
#ifndef FF_ENGINE_COLLECTIVE_H
#define FF_ENGINE_COLLECTIVE_H

#include "engine/rows.h"
#include "engine/store.h"
#include "engine/transport.h"
#include "fivefold/layer.h"

enum { FF_ENGINE_MOST_RANKS = 128 };

typedef enum ff_combine { FF_COMBINE_SUM, FF_COMBINE_MAXIMUM, FF_COMBINE_GRID } ff_combine;

/* What combining needs, and where messages go. */
typedef struct ff_wire {
    ff_transport *transport;
    const ff_rows *rows;
    ff_store *store;
    int rank;
} ff_wire;

/* Sum of squares on an integer grid: order-independent (norm.h). */
typedef struct ff_grid_sum {
    uint64_t low;
    int64_t high;
} ff_grid_sum;

/* A stretch of a tensor that is divided on its own. What is divided may reach beyond the stretch (a
 * bucket that ends inside of a tied embedding): then the stretch has what falls into it. */
typedef struct ff_piece {
    int64_t begin, end;
    int64_t cut_begin, cut_elements;
} ff_piece;
enum { FF_MOST_PIECES = 3 };

typedef struct ff_exchange {
    ff_collective collective;
    ff_combine combine;
    int ranks, me; /* of the group; index of this rank in it */
    int member[FF_ENGINE_MOST_RANKS];
    char *whole;      /* all parts: source of a reduce-scatter, result of a gather */
    char *part;       /* own part: result of a reduce-scatter (NULL: it stays in `whole`) */
    int64_t elements; /* of the whole */
    int pieces;       /* 0: the whole is one */
    ff_piece piece[FF_MOST_PIECES];
    int width;  /* bytes of an element */
    bool sends; /* of a transfer: to member[1 - me] */
    /* State. */
    bool active, scattering, faulty;
    ff_message *message;
    int messages;
    real *received;
    int64_t sent_bytes;
} ff_exchange;

int64_t ff_part_begin(int64_t elements, int part, int ranks);
/* Where part `part` of `ranks` lies in a piece: [begin, end), empty where nothing falls into it. */
void ff_piece_part(const ff_piece *piece, int part, int ranks, int64_t *begin, int64_t *end);

void ff_exchange_start(const ff_wire *wire, ff_exchange *exchange);
/* True when it is over. */
bool ff_exchange_poll(const ff_wire *wire, ff_exchange *exchange);
/* The member that is waited for, or -1. */
int ff_exchange_waits_for(const ff_exchange *exchange);

#endif
