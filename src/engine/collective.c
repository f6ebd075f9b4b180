/* See collective.h. */
#include "engine/collective.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int64_t ff_part_begin(int64_t elements, int part, int ranks) {
    return elements * part / ranks;
}

static int64_t clamped(int64_t at, const ff_piece *piece) {
    return at < piece->begin ? piece->begin : at > piece->end ? piece->end : at;
}

void ff_piece_part(const ff_piece *piece, int part, int ranks, int64_t *begin, int64_t *end) {
    int64_t elements = piece->cut_elements;
    *begin = clamped(piece->cut_begin + ff_part_begin(elements, part, ranks), piece);
    *end = clamped(piece->cut_begin + ff_part_begin(elements, part + 1, ranks), piece);
}

/* A member's part of a piece: its place in the whole, and how many elements. */
static char *place_of(const ff_exchange *e, int piece, int member, int64_t *elements) {
    int64_t begin, end;
    ff_piece_part(&e->piece[piece], member, e->ranks, &begin, &end);
    *elements = end - begin;
    return e->whole + begin * e->width;
}

static int64_t part_elements(const ff_exchange *e, int member) {
    int64_t sum = 0, elements;
    for (int p = 0; p < e->pieces; p++) {
        place_of(e, p, member, &elements);
        sum += elements;
    }
    return sum;
}

static void post(const ff_wire *wire, ff_exchange *e, int member, bool sends, char *data,
                 int64_t elements) {
    int64_t bytes = elements * e->width;
    if (bytes == 0)
        return;
    ff_message *m = &e->message[e->messages++];
    int other = e->member[member];
    *m = (ff_message){.from = sends ? wire->rank : other,
                      .to = sends ? other : wire->rank,
                      .sends = sends,
                      .data = data,
                      .bytes = bytes};
    if (sends)
        e->sent_bytes += bytes;
    wire->transport->post(wire->transport, m);
}

/* --- the three patterns --- */

/* Parts of a member's whole, or of all that is sent or awaited; `data` NULL: they lie in place. */
static void post_parts(const ff_wire *wire, ff_exchange *e, int peer, bool sends, int member,
                       char *data) {
    for (int p = 0; p < e->pieces; p++) {
        int64_t elements;
        char *place = place_of(e, p, member, &elements);
        post(wire, e, peer, sends, data != NULL ? data : place, elements);
        if (data != NULL)
            data += elements * e->width;
    }
}

/* Parts arrive side by side, own part left out. */
static void start_scatter(const ff_wire *wire, ff_exchange *e) {
    int64_t own = part_elements(e, e->me);
    int64_t room =
        (own * (e->ranks - 1) * e->width + (int64_t)sizeof(real) - 1) / (int64_t)sizeof(real);
    e->scattering = true;
    e->received = ff_store_take(wire->store, FF_STORE_COMMUNICATION, room, "received parts");
    char *to = (char *)e->received;
    for (int i = 0; i < e->ranks; i++) {
        if (i == e->me)
            continue;
        post_parts(wire, e, i, false, e->me, to);
        to += own * e->width;
    }
    for (int i = 0; i < e->ranks; i++)
        if (i != e->me)
            post_parts(wire, e, i, true, i, NULL);
}

/* The own part, which lies in one row elsewhere, to its places. */
static void place_own(ff_exchange *e) {
    const char *from = e->part;
    for (int p = 0; p < e->pieces; p++) {
        int64_t elements;
        char *place = place_of(e, p, e->me, &elements);
        if (from != place)
            memcpy(place, from, (size_t)(elements * e->width));
        from += elements * e->width;
    }
}

static void start_gather(const ff_wire *wire, ff_exchange *e) {
    if (e->part != NULL)
        place_own(e);
    for (int i = 0; i < e->ranks; i++)
        if (i != e->me)
            post_parts(wire, e, i, false, i, NULL);
    for (int i = 0; i < e->ranks; i++)
        if (i != e->me)
            post_parts(wire, e, i, true, e->me, NULL);
}

static void start_transfer(const ff_wire *wire, ff_exchange *e) {
    post(wire, e, 1 - e->me, e->sends, e->whole, e->elements);
}

/* --- combining --- */

static void add_grid(const ff_grid_sum *more, ff_grid_sum *sum) {
    uint64_t low = sum->low + more->low;
    sum->high += more->high + (low < sum->low);
    sum->low = low;
}

static void combine(const ff_wire *wire, const ff_exchange *e, const char *earlier, char *later,
                    int64_t elements) {
    if (e->combine == FF_COMBINE_SUM)
        wire->rows->add((const real *)earlier, (real *)later, elements, (real *)later);
    else if (e->combine == FF_COMBINE_MAXIMUM)
        wire->rows->maximum((const real *)earlier, (real *)later, elements, (real *)later);
    else
        for (int64_t i = 0; i < elements; i++)
            add_grid((const ff_grid_sum *)earlier + i, (ff_grid_sum *)later + i);
}

/* Sums part[first..first+count) into the last of them, halves first: the tree whose left half is
 * the largest power of two. */
static char *sum_tree(const ff_wire *wire, const ff_exchange *e, char **part, int first, int count,
                      int64_t elements) {
    if (count == 1)
        return part[first];
    int left = 1;
    while (2 * left < count)
        left *= 2;
    char *a = sum_tree(wire, e, part, first, left, elements);
    char *b = sum_tree(wire, e, part, first + left, count - left, elements);
    combine(wire, e, a, b, elements);
    return b;
}

/* So many elements of all parts stay in a core's first cache while they are added up. */
enum { BLOCK_ELEMENTS = 1024 };

/* The own part of a piece, `at` bytes behind the begin of the own part. */
static void reduce_piece(const ff_wire *wire, ff_exchange *e, int piece, int64_t at,
                         int64_t part_bytes) {
    char *part[FF_ENGINE_MOST_RANKS] = {NULL}, *from = (char *)e->received + at;
    int64_t elements;
    char *place = place_of(e, piece, e->me, &elements);
    for (int i = 0; i < e->ranks; i++) {
        part[i] = i == e->me ? place : from;
        from += i == e->me ? 0 : part_bytes;
    }
    char *to = e->part != NULL ? e->part + at : place;
    for (int64_t begin = 0; begin < elements; begin += BLOCK_ELEMENTS) {
        int64_t here = elements - begin < BLOCK_ELEMENTS ? elements - begin : BLOCK_ELEMENTS;
        char *sum = sum_tree(wire, e, part, 0, e->ranks, here);
        if (sum != to)
            memcpy(to, sum, (size_t)(here * e->width));
        for (int i = 0; i < e->ranks; i++)
            part[i] += here * e->width;
        to += here * e->width;
    }
}

static void reduce_parts(const ff_wire *wire, ff_exchange *e) {
    int64_t part_bytes = part_elements(e, e->me) * e->width, at = 0;
    for (int p = 0; p < e->pieces; p++) {
        int64_t elements;
        place_of(e, p, e->me, &elements);
        reduce_piece(wire, e, p, at, part_bytes);
        at += elements * e->width;
    }
    ff_store_give(wire->store, e->received);
    e->received = NULL;
}

/* --- the machine --- */

void ff_exchange_start(const ff_wire *wire, ff_exchange *e) {
    assert(e->ranks <= FF_ENGINE_MOST_RANKS && !e->active);
    if (e->pieces == 0) {
        e->pieces = 1;
        e->piece[0] = (ff_piece){0, e->elements, 0, e->elements};
    }
    e->message = ff_engine_array(2 * (int64_t)e->ranks * e->pieces, sizeof *e->message);
    e->active = true;
    e->messages = 0;
    e->sent_bytes = 0;
    if (e->collective == FF_ALL_GATHER)
        start_gather(wire, e);
    else if (e->collective == FF_SEND_RECEIVE)
        start_transfer(wire, e);
    else
        start_scatter(wire, e);
}

static bool messages_done(ff_exchange *e) {
    for (int i = 0; i < e->messages; i++) {
        if (!e->message[i].done)
            return false;
        e->faulty |= e->message[i].faulty;
    }
    return true;
}

bool ff_exchange_poll(const ff_wire *wire, ff_exchange *e) {
    if (!messages_done(e))
        return false;
    if (e->scattering) {
        reduce_parts(wire, e);
        e->scattering = false;
        if (e->collective == FF_ALL_REDUCE) {
            e->messages = 0;
            e->part = NULL;
            start_gather(wire, e);
            return ff_exchange_poll(wire, e);
        }
    }
    free(e->message);
    e->message = NULL;
    e->active = false;
    return true;
}

int ff_exchange_waits_for(const ff_exchange *e) {
    for (int i = 0; i < e->messages; i++)
        if (!e->message[i].done)
            return e->message[i].sends ? e->message[i].to : e->message[i].from;
    return -1;
}
