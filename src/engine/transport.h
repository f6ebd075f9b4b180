/* How ranks reach each other: messages are posted, driven on, and found done. Nothing blocks.
 *
 * Between two ranks messages arrive in the order in which they were posted, so they need no tags:
 * ranks of a group follow the same program, and a schedule's sends and receives are matched
 * (schedule/verify.h). A receive that meets a message of another length is a fault.
 *
 * Back-ends: loopback.h (one process plays all ranks); the command line adds forked processes over
 * shared memory. MPI would be a third. */
#ifndef FF_ENGINE_TRANSPORT_H
#define FF_ENGINE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The data stay the poster's, untouched by it until `done`. */
typedef struct ff_message {
    int from, to;
    bool sends; /* posted by `from`, else by `to` */
    char *data;
    int64_t bytes, moved;
    bool done, faulty;
    struct ff_message *next;
} ff_message;

typedef struct ff_transport ff_transport;
struct ff_transport {
    void (*post)(ff_transport *transport, ff_message *message);
    /* Moves what can be moved of a rank's messages. */
    void (*drive)(ff_transport *transport, int rank);
    void *state;
};

#endif
