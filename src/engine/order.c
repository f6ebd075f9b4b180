/* See order.h. */
#include "engine/order.h"

#include "engine/gemm.h"

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

int ff_accumulate_buffers(int64_t microbatches) {
    int buffers = 1;
    while ((microbatches - 1) >> (buffers - 1) > 0)
        buffers++;
    return buffers;
}
