/* See attention.h. Backward, by head, with p the probabilities:
 *     dV += p^T dO      dP = dO V^T      dS = p * (dP - rowsum(dO * O)) * scale
 *     dQ  = dS K        dK += dS^T Q     dK and dV add up over query blocks, then over the group's
 *                                        heads, in order */
#include "engine/attention.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 96 };

/* One head of one sequence, taken out. */
typedef struct head {
    real *q, *k, *v, *o, *d_o, *d_q, *d_k, *d_v;
    real *scores, *d_scores, *sum, *delta;
} head;

static real *room(const ff_attend *a, int64_t elements) {
    return ff_store_take(a->store, FF_STORE_SCRATCH, elements, "attention head");
}

static head take_head(const ff_attend *a, bool backward, real **memory) {
    int64_t one = a->seq * a->dim, block = QUERIES * a->seq;
    *memory = room(a, backward ? 9 * one + 2 * block + a->seq : 4 * one + block);
    real *at = *memory;
    head h = {.q = at, .k = at + one, .v = at + 2 * one, .o = at + 3 * one, .scores = at + 4 * one};
    if (!backward)
        return h;
    h.d_o = at + 4 * one;
    h.d_q = at + 5 * one;
    h.d_k = at + 6 * one;
    h.d_v = at + 7 * one;
    h.sum = at + 8 * one;
    h.scores = at + 9 * one;
    h.d_scores = h.scores + block;
    h.delta = h.d_scores + block;
    return h;
}

static void take_out(const ff_attend *a, const real *from, int64_t stride, real *to) {
    for (int64_t p = 0; p < a->seq; p++)
        memcpy(to + p * a->dim, from + a->rows[p] * stride, (size_t)a->dim * sizeof(real));
}

static void put_back(const ff_attend *a, const real *from, int64_t stride, real *to) {
    for (int64_t p = 0; p < a->seq; p++)
        memcpy(to + a->rows[p] * stride, from + p * a->dim, (size_t)a->dim * sizeof(real));
}

/* c[m,n] = a[m,k] * b[k,n], b or a given transposed. */
static void multiply(const ff_attend *at, int64_t m, int64_t n, int64_t k, ff_matrix a, ff_matrix b,
                     real *c) {
    ff_product p = {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .c_stride = n};
    ff_gemm(at->gemm, &p);
}

static void attend_head(const ff_attend *a, const head *h, real *log_sum_exp) {
    real scale = 1 / (real)sqrt((double)a->dim);
    int64_t d = a->dim;
    for (int64_t first = 0; first < a->seq; first += QUERIES) {
        int64_t rows = a->seq - first < QUERIES ? a->seq - first : QUERIES, keys = first + rows;
        multiply(a, rows, keys, d, (ff_matrix){h->q + first * d, d, 1}, (ff_matrix){h->k, 1, d},
                 h->scores);
        a->kernels->softmax(h->scores, rows, keys, first, scale, log_sum_exp + first);
        multiply(a, rows, d, keys, (ff_matrix){h->scores, keys, 1}, (ff_matrix){h->v, d, 1},
                 h->o + first * d);
    }
}

void ff_attend_forward(const ff_attend *a, const real *q, const real *kv, real *out,
                       real *log_sum_exp) {
    int64_t q_width = a->heads * a->dim, kv_width = 2 * a->kv_heads * a->dim;
    int64_t group = a->heads / a->kv_heads;
    real *memory;
    head h = take_head(a, false, &memory);
    for (int64_t s = 0; s < a->sequences; s++) {
        for (int64_t i = 0; i < a->heads; i++, log_sum_exp += a->seq) {
            int64_t k_at = s * a->seq * kv_width + i / group * a->dim;
            int64_t q_at = s * a->seq * q_width + i * a->dim;
            take_out(a, q + q_at, q_width, h.q);
            if (i % group == 0) {
                take_out(a, kv + k_at, kv_width, h.k);
                take_out(a, kv + k_at + kv_width / 2, kv_width, h.v);
            }
            attend_head(a, &h, log_sum_exp);
            put_back(a, h.o, q_width, out + q_at);
        }
    }
    ff_store_give(a->store, memory);
}

static void add_block(const ff_attend *a, const head *h, int64_t elements, real *sum) {
    a->kernels->add(sum, h->sum, elements, sum);
}

static void head_backward(const ff_attend *a, const head *h, const real *log_sum_exp) {
    const ff_rows *kernels = a->kernels;
    real scale = 1 / (real)sqrt((double)a->dim);
    int64_t d = a->dim;
    kernels->row_dots(h->d_o, d, h->o, d, a->seq, d, h->delta);
    for (int64_t first = 0; first < a->seq; first += QUERIES) {
        int64_t rows = a->seq - first < QUERIES ? a->seq - first : QUERIES, keys = first + rows;
        const real *q = h->q + first * d, *d_o = h->d_o + first * d;
        ff_matrix q_rows = {q, d, 1}, o_rows = {d_o, d, 1};
        multiply(a, rows, keys, d, q_rows, (ff_matrix){h->k, 1, d}, h->scores);
        kernels->softmax_again(h->scores, rows, keys, first, scale, log_sum_exp + first);
        multiply(a, keys, d, rows, (ff_matrix){h->scores, 1, keys}, o_rows, h->sum);
        add_block(a, h, keys * d, h->d_v);
        multiply(a, rows, keys, d, o_rows, (ff_matrix){h->v, 1, d}, h->d_scores);
        kernels->softmax_backward(h->scores, h->d_scores, rows, keys, h->delta + first, scale);
        multiply(a, rows, d, keys, (ff_matrix){h->d_scores, keys, 1}, (ff_matrix){h->k, d, 1},
                 h->d_q + first * d);
        multiply(a, keys, d, rows, (ff_matrix){h->d_scores, 1, keys}, q_rows, h->sum);
        add_block(a, h, keys * d, h->d_k);
    }
}

static void zero(real *numbers, int64_t elements) {
    memset(numbers, 0, (size_t)elements * sizeof *numbers);
}

void ff_attend_backward(const ff_attend *a, const real *q, const real *kv, const real *out,
                        const real *log_sum_exp, const real *dout, real *dqkv) {
    int64_t q_width = a->heads * a->dim, kv_width = 2 * a->kv_heads * a->dim;
    int64_t width = q_width + kv_width, group = a->heads / a->kv_heads;
    real *memory;
    head h = take_head(a, true, &memory);
    for (int64_t s = 0; s < a->sequences; s++) {
        for (int64_t i = 0; i < a->heads; i++, log_sum_exp += a->seq) {
            int64_t k_at = s * a->seq * kv_width + i / group * a->dim;
            int64_t q_at = s * a->seq * q_width + i * a->dim;
            real *d_row = dqkv + s * a->seq * width, *d_k = d_row + q_width + i / group * a->dim;
            take_out(a, q + q_at, q_width, h.q);
            take_out(a, out + q_at, q_width, h.o);
            take_out(a, dout + q_at, q_width, h.d_o);
            if (i % group == 0) {
                take_out(a, kv + k_at, kv_width, h.k);
                take_out(a, kv + k_at + kv_width / 2, kv_width, h.v);
                zero(h.d_k, 2 * a->seq * a->dim);
            }
            head_backward(a, &h, log_sum_exp);
            put_back(a, h.d_q, width, d_row + i * a->dim);
            if (i % group == group - 1) {
                put_back(a, h.d_k, width, d_k);
                put_back(a, h.d_v, width, d_k + kv_width / 2);
            }
        }
    }
    ff_store_give(a->store, memory);
}
