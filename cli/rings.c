/* See rings.h. */
#include "cli/rings.h"

#include "engine/store.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A message of 128 KiB, an eighth of 1 MiB, leaves at once. Lengths and data begin at cache lines. */
enum { RING_BYTES = 1 << 18, LINE = 64, PATIENT_TURNS = 200 };

/* One writer moves `written`, one reader `read`; both only grow. */
typedef struct ring {
    _Atomic uint64_t written __attribute__((aligned(64)));
    _Atomic uint64_t read __attribute__((aligned(64)));
    char data[RING_BYTES] __attribute__((aligned(64)));
} ring;

typedef struct queue {
    ff_message *first, *last;
} queue;

typedef struct wires {
    ff_transport transport;
    ring *rings; /* [from * world + to] */
    int world;
    queue *sends, *receives; /* [peer] */
    int pending;
} wires;

static void push(queue *q, ff_message *m) {
    m->next = NULL;
    *(q->first == NULL ? &q->first : &q->last->next) = m;
    q->last = m;
}

static void post(ff_transport *transport, ff_message *m) {
    wires *w = transport->state;
    m->done = m->faulty = false;
    m->moved = -(int64_t)sizeof m->bytes; /* the length goes first */
    w->pending++;
    push(m->sends ? &w->sends[m->to] : &w->receives[m->from], m);
}

static void copy_in(ring *r, uint64_t at, const char *from, size_t bytes) {
    size_t begin = at % RING_BYTES, first = RING_BYTES - begin;
    first = first < bytes ? first : bytes;
    memcpy(r->data + begin, from, first);
    memcpy(r->data, from + first, bytes - first);
}

static void copy_out(const ring *r, uint64_t at, char *to, size_t bytes) {
    size_t begin = at % RING_BYTES, first = RING_BYTES - begin;
    first = first < bytes ? first : bytes;
    memcpy(to, r->data + begin, first);
    memcpy(to + first, r->data, bytes - first);
}

static uint64_t padded(int64_t bytes) {
    return ((uint64_t)bytes + LINE - 1) / LINE * LINE;
}

/* True when the message has left. A piece that is not the last one ends at a line, too. */
static bool write_some(ring *r, ff_message *m) {
    uint64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
    uint64_t room = RING_BYTES - (written - atomic_load_explicit(&r->read, memory_order_acquire));
    if (room == 0)
        return false;
    if (m->moved < 0) {
        copy_in(r, written, (const char *)&m->bytes, sizeof m->bytes);
        written += LINE;
        room -= LINE;
        m->moved = 0;
    }
    uint64_t left = (uint64_t)(m->bytes - m->moved), now = left < room ? left : room;
    copy_in(r, written, m->data + m->moved, now);
    m->moved += (int64_t)now;
    atomic_store_explicit(&r->written, written + padded((int64_t)now), memory_order_release);
    return m->moved == m->bytes;
}

/* True when it is all there; a message of another length is faulty, and so is what follows. */
static bool read_some(ring *r, ff_message *m) {
    uint64_t read = atomic_load_explicit(&r->read, memory_order_relaxed);
    uint64_t there = atomic_load_explicit(&r->written, memory_order_acquire) - read;
    if (there == 0)
        return false;
    if (m->moved < 0) {
        int64_t bytes;
        copy_out(r, read, (char *)&bytes, sizeof bytes);
        read += LINE;
        there -= LINE;
        m->moved = 0;
        m->faulty = bytes != m->bytes;
        if (m->faulty)
            return true;
    }
    uint64_t left = (uint64_t)(m->bytes - m->moved), now = left < there ? left : there;
    copy_out(r, read, m->data + m->moved, now);
    m->moved += (int64_t)now;
    atomic_store_explicit(&r->read, read + padded((int64_t)now), memory_order_release);
    return m->moved == m->bytes;
}

static void drive_queue(wires *w, queue *q, ring *r, bool (*move)(ring *r, ff_message *m)) {
    while (q->first != NULL && move(r, q->first)) {
        q->first->done = true;
        q->first = q->first->next;
        w->pending--;
    }
}

static void drive(ff_transport *transport, int rank) {
    wires *w = transport->state;
    int world = w->world;
    for (int peer = 0; peer < world && w->pending > 0; peer++) {
        drive_queue(w, &w->sends[peer], &w->rings[rank * world + peer], write_some);
        drive_queue(w, &w->receives[peer], &w->rings[peer * world + rank], read_some);
    }
}

size_t ff_rings_bytes(int world) {
    return (size_t)world * (size_t)world * sizeof(ring);
}

ff_transport *ff_rings_open(void *memory, int world) {
    wires *w = ff_engine_array(1, sizeof *w);
    *w = (wires){.transport = {post, drive, w}, .rings = memory, .world = world};
    w->sends = ff_engine_array(2 * (int64_t)world, sizeof *w->sends);
    w->receives = w->sends + world;
    return &w->transport;
}

void ff_rings_close(ff_transport *transport) {
    wires *w = transport->state;
    free(w->sends);
    free(w);
}

void ff_rings_pause(int turns) {
    if (turns > PATIENT_TURNS)
        usleep(20);
    else if (turns > 0)
        sched_yield();
}
