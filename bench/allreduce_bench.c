/* How long an all-reduce of 1 MiB takes over 2, 4 and 8 ranks that are processes of this machine: the mean
 * of a row of them, the best of several rows. Exits 1 when 8 ranks take more than 1.5 ms. */
#include "cli/rings.h"
#include "engine/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 1 << 18, ROWS = 8, IN_A_ROW = 50, MOST_RANKS = 8 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void all_reduce(const ff_wire *wire, int ranks, real *numbers) {
    ff_exchange e = {.collective = FF_ALL_REDUCE,
                     .ranks = ranks,
                     .me = wire->rank,
                     .whole = (char *)numbers,
                     .elements = ELEMENTS,
                     .width = (int)sizeof(real)};
    for (int i = 0; i < ranks; i++)
        e.member[i] = i;
    ff_exchange_start(wire, &e);
    for (int idle = 0;; idle++) {
        wire->transport->drive(wire->transport, wire->rank);
        if (ff_exchange_poll(wire, &e))
            return;
        ff_rings_pause(idle);
    }
}

/* Seconds of the best row, by this rank's clock. */
static double run_rank(void *memory, int ranks, int rank) {
    ff_store store = {0};
    ff_transport *transport = ff_rings_open(memory, ranks);
    ff_wire wire = {transport, ff_rows_choose(0), &store, rank};
    real *numbers = ff_engine_array(ELEMENTS, sizeof *numbers);
    double best_s = 1e9;
    all_reduce(&wire, ranks, numbers);
    for (int row = 0; row < ROWS; row++) {
        double begun_s = now_s();
        for (int i = 0; i < IN_A_ROW; i++)
            all_reduce(&wire, ranks, numbers);
        double took_s = (now_s() - begun_s) / IN_A_ROW;
        best_s = took_s < best_s ? took_s : best_s;
    }
    free(numbers);
    ff_store_free(&store);
    ff_rings_close(transport);
    return best_s;
}

static double measure(int ranks) {
    size_t rings = ff_rings_bytes(ranks);
    char *memory = mmap(NULL, rings + sizeof(double), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return 1e9;
    double *best_s = (double *)(void *)(memory + rings);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) {
            double took_s = run_rank(memory, ranks, r);
            if (r == 0)
                *best_s = took_s;
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    double seconds = *best_s;
    munmap(memory, rings + sizeof(double));
    return seconds;
}

int main(void) {
    double took_s = 0;
    for (int ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
        took_s = measure(ranks);
        printf("%10.2f ms  all-reduce of 1 MiB over %d processes\n", 1e3 * took_s, ranks);
    }
    return took_s > 1.5e-3;
}
