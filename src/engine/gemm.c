/* The product around the tile (gemm.h): orders of k, packing, and the loops over tiles.
 *
 *     for a block of columns of B: pack all k       [panel of tile columns][k][columns]
 *         for some rows of A: pack all k     [panel of tile rows][k][rows]
 *             tile by tile: chains and tree over all of k, then to C
 *
 * k is not blocked: a tile's sum never leaves registers and the small stack, so the order of k is
 * the same for every shape. Edges are padded with zeros and cut when a tile is written. */
#include "engine/gemm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

extern const ff_gemm_kernel ff_gemm_kernel_base;
#ifdef __x86_64__
extern const ff_gemm_kernel ff_gemm_kernel_avx2, ff_gemm_kernel_avx512;
#endif

/* A block of B has at most this many numbers, but at least the columns. */
enum { BLOCK_NUMBERS = 1 << 20, LEAST_COLUMNS = 192, ROW_PANELS = 8, MOST_LEVELS = 32, ALIGN = 64 };

const ff_gemm_kernel *ff_gemm_choose(int n) {
    const ff_gemm_kernel *found[3];
    int count = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        found[count++] = &ff_gemm_kernel_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        found[count++] = &ff_gemm_kernel_avx2;
#endif
    found[count++] = &ff_gemm_kernel_base;
    return n < count ? found[n] : NULL;
}

/* --- orders of k --- */

static void add_run(ff_k_order *order, int64_t start, int64_t length, bool closes) {
    assert(order->runs < FF_MOST_RUNS);
    order->run[order->runs].start = start;
    order->run[order->runs].length = length;
    order->run[order->runs++].closes = closes;
}

void ff_k_chain(ff_k_order *order, int64_t k) {
    order->runs = 0;
    add_run(order, 0, k, true);
}

void ff_k_interleaved(ff_k_order *order, const int64_t *width, int count, int64_t segments) {
    order->runs = 0;
    for (int i = 0; i < count; i++)
        if (width[i] % segments != 0)
            segments = 1;
    for (int64_t s = 0; s < segments; s++) {
        int64_t before = 0;
        for (int i = 0; i < count; i++) {
            int64_t part = width[i] / segments;
            add_run(order, before + s * part, part, i == count - 1);
            before += width[i];
        }
    }
}

void ff_k_segments(ff_k_order *order, int64_t k, int64_t segments) {
    ff_k_interleaved(order, &k, 1, segments);
}

int ff_tree_carries(int64_t count) {
    int carries = 0;
    while ((count >> carries) & 1)
        carries++;
    return carries;
}

/* --- packing --- */

static real *room(ff_gemm_space *space, size_t elements) {
    if (space->elements < elements) {
        free(space->memory);
        space->memory = aligned_alloc(ALIGN, (elements * sizeof(real) + ALIGN - 1) / ALIGN * ALIGN);
        if (space->memory == NULL)
            abort();
        space->elements = elements;
    }
    return space->memory;
}

void ff_gemm_space_free(ff_gemm_space *space) {
    free(space->memory);
    space->memory = NULL;
    space->elements = 0;
}

/* --- tiles --- */

typedef struct job {
    const ff_gemm_kernel *kernel;
    const ff_product *product;
    int64_t lengths[FF_MOST_RUNS];
    int segments;
    real *a, *b, *stack, *tile;
} job;

static void close_segments(job *j, const ff_k_order *order) {
    int64_t length = 0;
    for (int r = 0; r < order->runs; r++) {
        length += order->run[r].length;
        if (!order->run[r].closes)
            continue;
        j->lengths[j->segments++] = length;
        length = 0;
    }
}

static void write_tile(const job *j, int64_t row, int64_t column) {
    const ff_product *p = j->product;
    int64_t rows = p->m - row < j->kernel->rows ? p->m - row : j->kernel->rows;
    int64_t columns = p->n - column < j->kernel->columns ? p->n - column : j->kernel->columns;
    j->kernel->store(j->tile, rows, columns, p->c + row * p->c_stride + column, p->c_stride);
}

static void tiles(const job *j, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const ff_gemm_kernel *kernel = j->kernel;
    int64_t k = j->product->k;
    for (int64_t c = 0; c < columns; c += kernel->columns) {
        for (int64_t r = 0; r < rows; r += kernel->rows) {
            kernel->tile(j->a + r * k, j->b + c * k, j->lengths, j->segments, j->stack, j->tile);
            write_tile(j, row + r, column + c);
        }
    }
}

static int64_t column_block(const ff_gemm_kernel *kernel, const ff_product *p) {
    int64_t columns = BLOCK_NUMBERS / (p->k > 0 ? p->k : 1);
    columns = columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns > p->n ? p->n : columns;
    return (columns + kernel->columns - 1) / kernel->columns * kernel->columns;
}

void ff_gemm(ff_gemm_space *space, const ff_product *p) {
    ff_k_order chain;
    const ff_k_order *order = p->order;
    if (order == NULL) {
        ff_k_chain(&chain, p->k);
        order = &chain;
    }
    const ff_gemm_kernel *kernel = space->kernel;
    int64_t row_block = (int64_t)ROW_PANELS * kernel->rows, block = column_block(kernel, p);
    int64_t tile = (int64_t)kernel->rows * kernel->columns;
    size_t packed = (size_t)((row_block + block) * p->k);
    real *memory = room(space, (size_t)(tile * (MOST_LEVELS + 1)) + packed);
    job j = {.kernel = kernel, .product = p, .tile = memory, .stack = memory + tile};
    j.b = j.stack + tile * MOST_LEVELS;
    j.a = j.b + block * p->k;
    close_segments(&j, order);
    ff_matrix transposed = {p->b.base, p->b.column_stride, p->b.row_stride};
    for (int64_t column = 0; column < p->n; column += block) {
        int64_t columns = p->n - column < block ? p->n - column : block;
        kernel->pack_b(transposed, column, columns, order, j.b);
        for (int64_t row = 0; row < p->m; row += row_block) {
            int64_t rows = p->m - row < row_block ? p->m - row : row_block;
            kernel->pack_a(p->a, row, rows, order, j.a);
            tiles(&j, row, rows, column, columns);
        }
    }
}
