/* The engine's parts: products in their defined order, whatever the split and the instruction set;
 * sums over ranks; accumulation; the norm; folded sequences; memory by category. */
#include "engine/gemm.h"
#include "engine/loopback.h"
#include "engine/norm.h"
#include "engine/order.h"
#include "engine/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static real *draw(int64_t count, uint64_t stream) {
    real *numbers = malloc((size_t)count * sizeof *numbers);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (real)((double)(ff_random(5, stream, (uint64_t)i) >> 40) * 0x1p-23 - 1);
    return numbers;
}

/* --- products --- */

static real fused(real a, real b, real c) {
    return sizeof(real) == 4 ? (real)fmaf((float)a, (float)b, (float)c)
                             : (real)fma((double)a, (double)b, (double)c);
}

static real chain(const ff_product *p, int64_t row, int64_t column, int64_t begin, int64_t end) {
    real sum = 0;
    for (int64_t k = begin; k < end; k++)
        sum = fused(p->a.base[row * p->a.row_stride + k * p->a.column_stride],
                    p->b.base[k * p->b.row_stride + column * p->b.column_stride], sum);
    return sum;
}

static real tree(const ff_product *p, int64_t row, int64_t column, int64_t first, int64_t count,
                 int64_t length) {
    if (count == 1)
        return chain(p, row, column, first * length, (first + 1) * length);
    return tree(p, row, column, first, count / 2, length) +
           tree(p, row, column, first + count / 2, count / 2, length);
}

/* Against a loop of fused multiply-adds, bit for bit; in the three ways that matrices lie. */
static void check_product(const ff_gemm_kernel *kernel, int64_t m, int64_t n, int64_t k,
                          int64_t segments, int lie) {
    ff_gemm_space space = {.kernel = kernel};
    ff_k_order order;
    real *a = draw(m * k, 1), *b = draw(n * k, 2), *c = malloc((size_t)(m * n) * sizeof *c);
    ff_k_segments(&order, k, segments);
    ff_product p = {.m = m, .n = n, .k = k, .c = c, .c_stride = n, .order = &order};
    p.a = lie == 2 ? (ff_matrix){a, 1, m} : (ff_matrix){a, k, 1};
    p.b = lie == 0 ? (ff_matrix){b, 1, k} : (ff_matrix){b, n, 1};
    ff_gemm(&space, &p);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            real expected = tree(&p, i, j, 0, segments, k / segments);
            assert_memory_equal(&c[i * n + j], &expected, sizeof expected);
        }
    free(a);
    free(b);
    free(c);
    ff_gemm_space_free(&space);
}

static void test_products(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 1},    {13, 33, 8, 8},  {64, 48, 32, 4},
                                        {100, 7, 96, 8}, {25, 70, 40, 2}, {12, 32, 64, 64}};
    const ff_gemm_kernel *kernel;
    for (int i = 0; (kernel = ff_gemm_choose(i)) != NULL; i++) {
        if (strcmp(kernel->name, "baseline") == 0)
            continue; /* may not fuse */
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int lie = 0; lie < 3; lie++)
                check_product(kernel, shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], lie);
    }
}

/* Rows alone, columns alone, and halves of k added up give the bits of the whole. */
static void test_split_products(void **state) {
    (void)state;
    enum { M = 50, N = 70, K = 64 };
    real *a = draw(M * K, 3), *b = draw(N * K, 4), whole[M * N], part[M * N], other[M * N];
    const ff_gemm_kernel *kernel;
    for (int i = 0; (kernel = ff_gemm_choose(i)) != NULL; i++) {
        ff_gemm_space space = {.kernel = kernel};
        ff_k_order eighths, quarters;
        ff_k_segments(&eighths, K, 8);
        ff_k_segments(&quarters, K / 2, 4);
        ff_product p = {M, N, K, {a, K, 1}, {b, 1, K}, whole, N, &eighths};
        ff_gemm(&space, &p);
        ff_product rows = {20, 30, K, {a + 7 * K, K, 1}, {b + 11 * K, 1, K}, part, 30, &eighths};
        ff_gemm(&space, &rows);
        for (int r = 0; r < 20; r++)
            assert_memory_equal(part + r * 30, whole + (7 + r) * N + 11, 30 * sizeof(real));
        ff_product left = {M, N, K / 2, {a, K, 1}, {b, 1, K}, part, N, &quarters};
        ff_product right = {M, N, K / 2, {a + K / 2, K, 1}, {b + K / 2, 1, K}, other, N, &quarters};
        ff_gemm(&space, &left);
        ff_gemm(&space, &right);
        for (int e = 0; e < M * N; e++) {
            real sum = part[e] + other[e];
            assert_memory_equal(&sum, &whole[e], sizeof sum);
        }
        ff_gemm_space_free(&space);
    }
    free(a);
    free(b);
}

/* Rows of another instruction set have the same bits. */
static void test_row_kernels(void **state) {
    (void)state;
    enum { TOKENS = 6, WIDTH = 40 };
    real *x = draw(TOKENS * WIDTH, 5), *w = draw(2 * WIDTH, 6);
    real first[4][TOKENS * WIDTH], y[4][TOKENS * WIDTH], lse[TOKENS];
    ff_norm norm = {w, w + WIDTH, WIDTH, (real)1e-5};
    const ff_rows *rows;
    for (int i = 0; (rows = ff_rows_choose(i)) != NULL; i++) {
        memset(y, 0, sizeof y);
        rows->norm(&norm, x, TOKENS, y[0]);
        rows->gelu(x, TOKENS * WIDTH, y[1]);
        memcpy(y[2], x, sizeof y[2]);
        rows->softmax(y[2], TOKENS, WIDTH, 10, (real)0.5, lse);
        rows->swiglu(x, TOKENS, WIDTH / 2, y[3]);
        if (i == 0)
            memcpy(first, y, sizeof y);
        assert_memory_equal(first, y, sizeof y);
    }
    free(x);
    free(w);
}

/* --- sums over ranks --- */

enum { MOST = 8, FEW = 37, ELEMENTS = 9000 };

static void run_all(ff_wire *wire, ff_exchange *exchange, int ranks) {
    bool going = true;
    for (int r = 0; r < ranks; r++)
        ff_exchange_start(&wire[r], &exchange[r]);
    while (going) {
        going = false;
        for (int r = ranks - 1; r >= 0; r--)
            if (exchange[r].active)
                going |= !ff_exchange_poll(&wire[r], &exchange[r]);
    }
}

/* Three pieces, the middle one a stretch of something longer that is divided. */
static void cut_in_pieces(ff_exchange *e) {
    int64_t a = e->elements / 4, b = e->elements - e->elements / 3;
    e->pieces = 3;
    e->piece[0] = (ff_piece){0, a, 0, a};
    e->piece[1] = (ff_piece){a, b, a - 5, b - a + 12};
    e->piece[2] = (ff_piece){b, e->elements, b, e->elements - b};
}

/* An all-reduce is the tree, for any number of ranks, any length and division; it sends what a ring would. */
static void check_reduction(int ranks, int64_t elements, bool pieces) {
    ff_transport *transport = ff_loopback_create(ranks);
    ff_store store[MOST] = {0};
    ff_wire wire[MOST];
    ff_exchange exchange[MOST];
    real data[MOST][ELEMENTS], expected[MOST][ELEMENTS];
    int64_t sent = 0;
    for (int r = 0; r < ranks; r++) {
        real *numbers = draw(elements, (uint64_t)r + 10);
        memcpy(data[r], numbers, (size_t)elements * sizeof(real));
        memcpy(expected[r], numbers, (size_t)elements * sizeof(real));
        free(numbers);
        wire[r] = (ff_wire){transport, ff_rows_choose(0), &store[r], r};
        exchange[r] = (ff_exchange){.collective = FF_ALL_REDUCE,
                                    .ranks = ranks,
                                    .me = r,
                                    .whole = (char *)data[r],
                                    .elements = elements,
                                    .width = (int)sizeof(real)};
        for (int i = 0; i < ranks; i++)
            exchange[r].member[i] = i;
        if (pieces)
            cut_in_pieces(&exchange[r]);
    }
    run_all(wire, exchange, ranks);
    for (int gap = 1; gap < ranks; gap *= 2)
        for (int r = 0; r + gap < ranks; r += 2 * gap)
            for (int64_t e = 0; e < elements; e++)
                expected[r][e] += expected[r + gap][e];
    for (int r = 0; r < ranks; r++) {
        assert_memory_equal(data[r], expected[0], (size_t)elements * sizeof(real));
        sent += exchange[r].sent_bytes;
        assert_int_equal(store[r].now_bytes[FF_STORE_COMMUNICATION], 0);
        ff_store_free(&store[r]);
    }
    assert_int_equal(sent, 2 * (ranks - 1) * elements * (int64_t)sizeof(real));
    ff_loopback_free(transport);
}

static void test_reductions(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MOST; ranks++) {
        for (int pieces = 0; pieces < 2; pieces++)
            for (int64_t elements = 1; elements <= FEW; elements += 9)
                check_reduction(ranks, elements, pieces == 1);
        check_reduction(ranks, ELEMENTS, ranks % 2 == 0);
    }
}

static void test_message_of_another_length(void **state) {
    (void)state;
    ff_transport *transport = ff_loopback_create(2);
    char data[2][16] = {{0}};
    ff_message send = {.from = 0, .to = 1, .sends = true, .data = data[0], .bytes = 16};
    ff_message want = {.from = 0, .to = 1, .data = data[1], .bytes = 8};
    transport->post(transport, &send);
    transport->post(transport, &want);
    assert_true(send.done && want.done && want.faulty);
    ff_loopback_free(transport);
}

/* --- order --- */

/* A binary counter adds like the tree, and needs one buffer a level. */
static void test_accumulation(void **state) {
    (void)state;
    const ff_rows *rows = ff_rows_choose(0);
    for (int64_t count = 1; count <= 16; count *= 2) {
        ff_store store = {0};
        real *numbers = draw(count, 20), expected[16];
        ff_accumulator sum = {.elements = 1,
                              .work = ff_store_take(&store, FF_STORE_GRADIENTS, 1, "sum")};
        memcpy(expected, numbers, (size_t)count * sizeof(real));
        for (int64_t i = 0; i < count; i++) {
            sum.work[0] = numbers[i];
            ff_accumulate(rows, &sum, i, i == count - 1, 0, 1);
            if (i < count - 1)
                ff_accumulate_keep(&store, &sum, i);
        }
        for (int64_t gap = 1; gap < count; gap *= 2)
            for (int64_t i = 0; i < count; i += 2 * gap)
                expected[i] += expected[i + gap];
        assert_memory_equal(sum.work, expected, sizeof(real));
        ff_layout layout = {.accumulate = FF_ACCUMULATE_TREE, .microbatches = count};
        assert_int_equal(store.peak_bytes[FF_STORE_GRADIENTS],
                         ff_layout_gradient_buffers(&layout) * (int64_t)sizeof(real));
        ff_store_free(&store);
        free(numbers);
    }
}

static void test_folding(void **state) {
    (void)state;
    static const int64_t chunks[] = {0, 7, 1, 6, 2, 5, 3, 4};
    for (int64_t place = 0; place < 32; place++)
        assert_int_equal(ff_folded_position(32, place), chunks[place / 4] * 4 + place % 4);
    assert_int_equal(ff_folded_position(9, 5), 5);
    assert_int_equal(ff_token_leaves(32, 64).leaves, 16);
    assert_int_equal(ff_token_leaves(32, 6).leaves, 1);
}

static void test_norm_has_no_order(void **state) {
    (void)state;
    real *numbers = draw(1000, 30);
    ff_grid_sum forward = {0}, backward = {0};
    double exact = 0;
    ff_grid_add_squares(numbers, 1000, &forward);
    for (int i = 999; i >= 0; i--) {
        ff_grid_add_squares(numbers + i, 1, &backward);
        exact += (double)numbers[i] * (double)numbers[i];
    }
    assert_memory_equal(&forward, &backward, sizeof forward);
    assert_true(fabs(ff_grid_norm(&forward) - sqrt(exact)) < 1e-12 * sqrt(exact));
    real bad = (real)NAN;
    ff_grid_add_squares(&bad, 1, &forward);
    assert_true(isinf(ff_grid_norm(&forward)));
    free(numbers);
}

/* --- memory --- */

static void test_store(void **state) {
    (void)state;
    ff_store store = {.poison = true};
    real *a = ff_store_take(&store, FF_STORE_WORKING, 100, "a");
    real *b = ff_store_take(&store, FF_STORE_KEPT, 10, "b");
    assert_string_equal(ff_store_leak(&store), "b");
    ff_store_move(&store, a, FF_STORE_KEPT);
    assert_int_equal(store.now_bytes[FF_STORE_WORKING], 0);
    assert_int_equal(store.peak_bytes[FF_STORE_KEPT], 110 * (int64_t)sizeof(real));
    assert_int_equal(store.peak_activations_bytes, 110 * (int64_t)sizeof(real));
    a[0] = 1;
    ff_store_give(&store, a);
    assert_true(isnan((double)a[0])); /* kept as spare, poisoned */
    assert_ptr_equal(ff_store_take(&store, FF_STORE_WEIGHTS, 100, "c"), a);
    ff_store_give(&store, b);
    assert_null(ff_store_leak(&store));
    ff_store_free(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_split_products),
        cmocka_unit_test(test_row_kernels),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_message_of_another_length),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_norm_has_no_order),
        cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
