/* The loopback driver: one process plays all ranks, one thing at a time.
 *
 * Ranks take turns in an order that `shuffle` draws anew for each round (0: by number), which must
 * not change a bit. A round in which nobody moves is a deadlock: the findings then hold who waits
 * for whom. */
#ifndef FF_ENGINE_LOOP_H
#define FF_ENGINE_LOOP_H

#include "engine/rank.h"

typedef struct ff_loop {
    const ff_setup *setup;
    ff_transport *transport;
    ff_rank **rank;
    int world;
    uint64_t shuffle;
    int64_t step;
    double rate; /* of learning; 0: the setup's */
} ff_loop;

ff_loop *ff_loop_create(const ff_setup *setup, uint64_t shuffle);
void ff_loop_free(ff_loop *set);
/* One step of all ranks. FF_NO with findings when a rank fails or all wait. */
ff_status ff_loop_step(ff_loop *set, ff_diagnostics *findings, double *loss);

/* A step's loss: the tree over microbatches in canonical order (overwritten), over all tokens. */
double ff_loss_of(real *sums, int64_t count, int64_t tokens);

#endif
