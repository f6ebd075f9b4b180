/* See order.h. */
#include "engine/order.h"

#include "engine/gemm.h"
#include <stdlib.h>
#include <string.h>

int64_t ff_token_chunks(int64_t seq) {
    return seq % FF_CHUNKS == 0 ? FF_CHUNKS : 1;
}

int64_t ff_folded_position(int64_t seq, int64_t place) {
    int64_t chunks = ff_token_chunks(seq), length = seq / chunks;
    int64_t at = place / length;
    int64_t chunk = at % 2 == 0 ? at / 2 : chunks - 1 - at / 2;
    return chunk * length + place % length;
}

ff_leaves ff_token_leaves(int64_t seq, int64_t tokens) {
    int64_t leaf = seq / ff_token_chunks(seq);
    return tokens % leaf == 0 ? (ff_leaves){tokens / leaf, leaf} : (ff_leaves){1, tokens};
}

/* --- scattered rows --- */

/* Tokens of one row, in order: token[begin, end). */
typedef struct row_tokens {
    const ff_rows *rows;
    const ff_scatter *scatter;
    const int64_t *token;
} row_tokens;

static void add_chain(const row_tokens *r, int64_t begin, int64_t end, real *out) {
    int64_t width = r->scatter->width;
    memcpy(out, r->scatter->dy + r->token[begin] * width, (size_t)width * sizeof *out);
    for (int64_t i = begin + 1; i < end; i++)
        r->rows->add(out, r->scatter->dy + r->token[i] * width, width, out);
}

/* The sum over leaves [first, first + count), into out; a half without tokens adds nothing. `space`
 * has a row for each level. */
static void add_tree(const row_tokens *r, int64_t begin, int64_t end, int64_t first, int64_t count,
                     real *out, real *space) {
    int64_t left = 1, middle = begin;
    if (count == 1) {
        add_chain(r, begin, end, out);
        return;
    }
    while (2 * left < count)
        left *= 2;
    while (middle < end && r->token[middle] / r->scatter->leaves.tokens < first + left)
        middle++;
    if (middle > begin)
        add_tree(r, begin, middle, first, left, out, space);
    if (middle == end)
        return;
    real *right = middle > begin ? space : out;
    add_tree(r, middle, end, first + left, count - left, right, space + r->scatter->width);
    if (middle > begin)
        r->rows->add(out, right, r->scatter->width, out);
}

/* Tokens sorted by row (counting sort keeps their order): row i has token[start[i], start[i+1]). */
static void sort_tokens(const ff_scatter *s, int64_t *start, int64_t *token) {
    int64_t tokens = s->leaves.leaves * s->leaves.tokens;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t t = 0; t < tokens; t++) {
            int64_t row = s->target[t] - s->first;
            if (row < 0 || row >= s->count)
                continue;
            if (pass == 0)
                start[row + 2]++;
            else
                token[start[row + 1]++] = t;
        }
        for (int64_t row = 0; pass == 0 && row < s->count; row++)
            start[row + 2] += start[row + 1];
    }
}

void ff_scatter_rows(const ff_rows *rows, ff_store *store, const ff_scatter *scatter, real *out) {
    int64_t *start = ff_engine_array(scatter->count + 2, sizeof *start);
    int64_t *token =
        ff_engine_array(scatter->leaves.leaves * scatter->leaves.tokens, sizeof *token);
    real *space = ff_store_take(store, FF_STORE_SCRATCH, 64 * scatter->width, "scattered rows");
    row_tokens r = {rows, scatter, token};
    sort_tokens(scatter, start, token);
    for (int64_t row = 0; row < scatter->count; row++) {
        real *to = out + row * scatter->width;
        if (start[row] == start[row + 1])
            continue;
        add_tree(&r, start[row], start[row + 1], 0, scatter->leaves.leaves, space,
                 space + scatter->width);
        rows->add(to, space, scatter->width, to);
    }
    ff_store_give(store, space);
    free(start);
    free(token);
}

/* --- accumulation --- */

void ff_accumulate(const ff_rows *rows, ff_accumulator *sum, int64_t index, bool last,
                   int64_t begin, int64_t end) {
    for (int level = 0; (index >> level) > 0; level++) {
        if ((index >> level) & 1)
            rows->add(sum->level[level] + begin, sum->work + begin, end - begin, sum->work + begin);
        else if (!last)
            return;
    }
}

void ff_accumulate_keep(ff_store *store, ff_accumulator *sum, int64_t index) {
    int level = ff_tree_carries(index);
    real *free_buffer = sum->level[level];
    if (free_buffer == NULL)
        free_buffer = ff_store_take(store, FF_STORE_GRADIENTS, sum->elements, "partial gradients");
    sum->level[level] = sum->work;
    sum->work = free_buffer;
}
