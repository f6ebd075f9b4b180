/* See peak.h. Squares of 512 fit into the caches and are large enough for the kernel to run at its
 * rate; larger or smaller ones are slower. */
#include "cli/peak.h"

#include "cli/terminal.h"
#include "engine/gemm.h"
#include "engine/store.h"
#include <sched.h>
#include <stdlib.h>

enum { SIZE = 512, LEAST_RUNS = 3 };

double ff_product_flops(void) {
    ff_gemm_space space = {.kernel = ff_gemm_choose(0)};
    real *numbers = ff_engine_array((int64_t)3 * SIZE * SIZE, sizeof *numbers);
    real *b = numbers + SIZE * SIZE;
    ff_product product = {.m = SIZE,
                          .n = SIZE,
                          .k = SIZE,
                          .a = {numbers, SIZE, 1},
                          .b = {b, 1, SIZE},
                          .c = b + SIZE * SIZE,
                          .c_stride = SIZE};
    double begun_s = ff_terminal_clock_s(), before_s = begun_s, best_s = 1e9;
    for (int run = 0; run < LEAST_RUNS || before_s - begun_s < 0.05; run++) {
        ff_gemm(&space, &product);
        double now_s = ff_terminal_clock_s();
        best_s = now_s - before_s < best_s ? now_s - before_s : best_s;
        before_s = now_s;
    }
    ff_gemm_space_free(&space);
    free(numbers);
    return 2.0 * SIZE * SIZE * SIZE / (best_s > 1e-9 ? best_s : 1e-9);
}

int ff_usable_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
