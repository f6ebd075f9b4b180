/* See collective.h. */
#include "engine/collective.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int64_t ff_part_begin(int64_t elements, int part, int ranks) {
    return elements * part / ranks;
}

static int64_t part_elements(const ff_exchange *e, int part) {
    return ff_part_begin(e->elements, part + 1, e->ranks) -
           ff_part_begin(e->elements, part, e->ranks);
}

static char *place_of(const ff_exchange *e, int part) {
    return e->whole + ff_part_begin(e->elements, part, e->ranks) * e->width;
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
        post(wire, e, i, false, to, own);
        to += own * e->width;
    }
    for (int i = 0; i < e->ranks; i++)
        if (i != e->me)
            post(wire, e, i, true, place_of(e, i), part_elements(e, i));
}

static void start_gather(const ff_wire *wire, ff_exchange *e) {
    char *own = place_of(e, e->me);
    if (e->part != NULL && e->part != own)
        memcpy(own, e->part, (size_t)(part_elements(e, e->me) * e->width));
    for (int i = 0; i < e->ranks; i++)
        if (i != e->me)
            post(wire, e, i, false, place_of(e, i), part_elements(e, i));
    for (int i = 0; i < e->ranks; i++)
        if (i != e->me)
            post(wire, e, i, true, own, part_elements(e, e->me));
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

static void reduce_parts(const ff_wire *wire, ff_exchange *e) {
    char *part[FF_ENGINE_MOST_RANKS], *from = (char *)e->received;
    int64_t own = part_elements(e, e->me);
    for (int i = 0; i < e->ranks; i++) {
        part[i] = i == e->me ? place_of(e, i) : from;
        from += i == e->me ? 0 : own * e->width;
    }
    char *sum = own == 0 ? part[0] : sum_tree(wire, e, part, 0, e->ranks, own);
    char *to = e->part != NULL ? e->part : place_of(e, e->me);
    if (sum != to)
        memcpy(to, sum, (size_t)(own * e->width));
    ff_store_give(wire->store, e->received);
    e->received = NULL;
}

/* --- the machine --- */

void ff_exchange_start(const ff_wire *wire, ff_exchange *e) {
    assert(e->ranks <= FF_ENGINE_MOST_RANKS && !e->active);
    e->message = ff_engine_array(2 * e->ranks, sizeof *e->message);
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
