/* See loopback.h. Each ordered pair of ranks has two queues, and one of them is always empty. */
#include "engine/loopback.h"

#include "engine/store.h"

#include <stdlib.h>
#include <string.h>

typedef struct queue {
    ff_message *first, *last;
} queue;

typedef struct loopback {
    ff_transport transport;
    int world;
    queue *sent, *wanted; /* [from * world + to] */
} loopback;

static void push(queue *q, ff_message *message) {
    message->next = NULL;
    if (q->first == NULL)
        q->first = message;
    else
        q->last->next = message;
    q->last = message;
}

static ff_message *pop(queue *q) {
    ff_message *message = q->first;
    q->first = message->next;
    return message;
}

static void deliver(ff_message *sent, ff_message *wanted) {
    if (sent->bytes == wanted->bytes)
        memcpy(wanted->data, sent->data, (size_t)sent->bytes);
    else
        sent->faulty = wanted->faulty = true;
    sent->done = wanted->done = true;
}

static void post(ff_transport *transport, ff_message *message) {
    loopback *l = transport->state;
    int pair = message->from * l->world + message->to;
    queue *own = message->sends ? &l->sent[pair] : &l->wanted[pair];
    queue *other = message->sends ? &l->wanted[pair] : &l->sent[pair];
    message->done = message->faulty = false;
    if (other->first == NULL) {
        push(own, message);
        return;
    }
    ff_message *partner = pop(other);
    deliver(message->sends ? message : partner, message->sends ? partner : message);
}

static void drive(ff_transport *transport, int rank) {
    (void)transport;
    (void)rank;
}

ff_transport *ff_loopback_create(int world) {
    loopback *l = ff_engine_array(1, sizeof *l);
    int64_t pairs = (int64_t)world * world;
    queue *queues = ff_engine_array(2 * pairs, sizeof *queues);
    *l = (loopback){{post, drive, l}, world, queues, queues + pairs};
    return &l->transport;
}

void ff_loopback_free(ff_transport *transport) {
    loopback *l = transport->state;
    free(l->sent);
    free(l);
}
