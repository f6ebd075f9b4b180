/* C = A * B in one defined order, whatever the tiles and however M and N are split.
 *
 *     C[m][n] = tree over segments ( chain over k in the segment: fma(A[m][k], B[k][n], acc) )
 *
 *     segments 0 1 2 3 4 5 6 7          what a rank of tp 2 sums:  0..3 | 4..7
 *               \/  \/  \/  \/          and the ranks' sum is the last addition of the tree,
 *                \__/    \__/           so two ranks give the bits of one
 *                   \____/
 *
 * Every element is computed alone by the same instructions, so a product split by rows or columns
 * has the bits of the whole. A split of k has them where it follows the tree.
 * One source (gemm_kernel.inc) is compiled for three instruction sets; the best that the machine has
 * is chosen by `ff_gemm_choose`. Without fused multiply-add (the baseline) bits differ from those
 * with it: ranks of one run must use one kernel. */
#ifndef FF_ENGINE_GEMM_H
#define FF_ENGINE_GEMM_H

#include "engine/real.h"
#include <stdbool.h>
#include <stddef.h>

/* A matrix as base, and how far rows and columns are apart. */
typedef struct ff_matrix {
    const real *base;
    int64_t row_stride, column_stride;
} ff_matrix;

/* In which order k is summed: runs of neighbouring k, and where a segment ends. */
enum { FF_MOST_RUNS = 1024 };
typedef struct ff_k_order {
    int runs;
    struct {
        int64_t start, length;
        bool closes; /* the last run of a segment */
    } run[FF_MOST_RUNS];
} ff_k_order;

/* All of 0..k-1 as one chain. */
void ff_k_chain(ff_k_order *order, int64_t k);
/* `segments` equal parts; one chain when they do not divide k. */
void ff_k_segments(ff_k_order *order, int64_t k, int64_t segments);
/* Several ranges side by side, each cut into `segments` parts: part i of all of them makes segment
 * i. `width` has `count` entries (the outputs of a fused projection: q, k, v). */
void ff_k_interleaved(ff_k_order *order, const int64_t *width, int count, int64_t segments);

typedef struct ff_gemm_kernel {
    const char *name;
    int rows, columns; /* of a tile */
    /* One tile from packed panels; `lengths` of `segments`; `stack` has room for 32 tiles. */
    void (*tile)(const real *a, const real *b, const int64_t *lengths, int segments, real *stack,
                 real *out);
    void (*store)(const real *tile, int64_t rows, int64_t columns, real *c, int64_t c_stride);
    /* Panels of tile rows of a matrix whose columns are k / of tile columns of one whose rows are
     * the product's columns. */
    void (*pack_a)(ff_matrix matrix, int64_t first, int64_t rows, const ff_k_order *order,
                   real *to);
    void (*pack_b)(ff_matrix matrix, int64_t first, int64_t rows, const ff_k_order *order,
                   real *to);
} ff_gemm_kernel;

/* The n-th kernel that this machine runs, best first; NULL past the last. */
const ff_gemm_kernel *ff_gemm_choose(int n);

/* What packing needs; grows, and is kept from call to call. */
typedef struct ff_gemm_space {
    const ff_gemm_kernel *kernel;
    real *memory;
    size_t elements;
} ff_gemm_space;
void ff_gemm_space_free(ff_gemm_space *space);

typedef struct ff_product {
    int64_t m, n, k;
    ff_matrix a, b;
    real *c;
    int64_t c_stride;
    const ff_k_order *order; /* NULL: one chain */
} ff_product;
void ff_gemm(ff_gemm_space *space, const ff_product *product);

/* How many first levels of a binary counter are full after `count` additions: the number of
 * additions that adding one more part to a tree makes. */
int ff_tree_carries(int64_t count);

#endif
