/* See blocks.h. */
#include "engine/blocks.h"

#include <stdlib.h>

static bool reduces(const ff_rank *rank, const ff_item *item, int chunk) {
    int32_t last = (int32_t)rank->setup->layout.microbatches - 1;
    return item->block >= 0 && item->in_action && item->action.chunk == chunk &&
           item->action.microbatch == last;
}

static void find_blocks(const ff_rank *rank, ff_chunk *chunk, int index) {
    int room = 1;
    for (int64_t i = 0; i < rank->listing.items; i++)
        room += reduces(rank, &rank->listing.item[i], index);
    chunk->block_begin = ff_engine_array(room + 1, sizeof *chunk->block_begin);
    for (int64_t i = 0; i < rank->listing.items; i++) {
        if (!reduces(rank, &rank->listing.item[i], index))
            continue;
        int block = chunk->blocks++;
        chunk->block_begin[block + 1] =
            chunk->block_begin[block] + rank->listing.item[i].op.elements;
    }
    if (chunk->blocks == 0) {
        chunk->blocks = 1;
        chunk->block_begin[1] = chunk->elements;
    }
}

/* --- pieces --- */

/* The tied embedding on the first stage, its copy on the last: begin and end in the chunk, both 0
 * where there is none or nothing is divided. */
static ff_piece tied_piece(const ff_rank *rank, const ff_chunk *chunk) {
    const ff_setup *setup = rank->setup;
    bool copies = setup->model.tied_head && ff_program_copies_embedding(&setup->layout);
    for (int u = 0; u < chunk->units && copies && rank->shard_ranks > 1; u++) {
        const ff_unit *unit = &chunk->unit[u];
        const ff_part *part = ff_unit_part(unit, unit->kind == FF_UNIT_EMBEDDING ? FF_ROLE_EMBEDDING
                                                                                 : FF_ROLE_OUTPUT);
        int64_t begin = part == NULL ? 0 : unit->offset + part->offset;
        if (part != NULL)
            return (ff_piece){begin, begin + part->elements, begin, part->elements};
    }
    return (ff_piece){0};
}

static void add_piece(ff_chunk *chunk, int64_t begin, int64_t end, const ff_piece *tied) {
    if (begin >= end)
        return;
    bool of_tied = begin >= tied->begin && end <= tied->end;
    chunk->piece[chunk->pieces++] = (ff_piece){begin, end, of_tied ? tied->cut_begin : begin,
                                               of_tied ? tied->cut_elements : end - begin};
}

static int64_t within(int64_t at, int64_t begin, int64_t end) {
    return at < begin ? begin : at > end ? end : at;
}

static void cut_blocks(const ff_rank *rank, ff_chunk *chunk) {
    ff_piece tied = tied_piece(rank, chunk);
    int64_t most = (int64_t)FF_MOST_PIECES * chunk->blocks;
    chunk->piece = ff_engine_array(most, sizeof *chunk->piece);
    chunk->first_piece = ff_engine_array(chunk->blocks + 1, sizeof *chunk->first_piece);
    for (int b = 0; b < chunk->blocks; b++) {
        int64_t begin = chunk->block_begin[b], end = chunk->block_begin[b + 1];
        int64_t from = within(tied.begin, begin, end), to = within(tied.end, begin, end);
        add_piece(chunk, begin, from, &tied);
        add_piece(chunk, from, to, &tied);
        add_piece(chunk, to, end, &tied);
        chunk->first_piece[b + 1] = chunk->pieces;
    }
}

static void lay_shards(const ff_rank *rank, ff_chunk *chunk) {
    chunk->shard_begin = ff_engine_array(chunk->pieces + 1, sizeof *chunk->shard_begin);
    for (int p = 0; p < chunk->pieces; p++) {
        ff_own_span s = ff_own_span_of(rank, chunk, p);
        chunk->shard_begin[p + 1] = chunk->shard_begin[p] + s.end - s.begin;
    }
    chunk->shard_elements = chunk->shard_begin[chunk->pieces];
}

bool ff_blocks_build(ff_rank *rank, ff_chunk *chunk, int index) {
    find_blocks(rank, chunk, index);
    if (chunk->block_begin[chunk->blocks] != chunk->elements)
        return ff_rank_fail(rank, "chunk %d reduces %lld gradients, it holds %lld", index,
                            (long long)chunk->block_begin[chunk->blocks],
                            (long long)chunk->elements);
    cut_blocks(rank, chunk);
    lay_shards(rank, chunk);
    return true;
}

void ff_blocks_free(ff_chunk *chunk) {
    free(chunk->block_begin);
    free(chunk->piece);
    free(chunk->first_piece);
    free(chunk->shard_begin);
}

/* --- shards --- */

ff_own_span ff_own_span_of(const ff_rank *rank, const ff_chunk *chunk, int piece) {
    ff_own_span s = {.shard = chunk->shard_begin[piece]};
    ff_piece_part(&chunk->piece[piece], (int)rank->shard_index, (int)rank->shard_ranks, &s.begin,
                  &s.end);
    return s;
}

int64_t ff_block_elements(const ff_chunk *chunk, int block) {
    return chunk->block_begin[block + 1] - chunk->block_begin[block];
}

int64_t ff_block_travels(const ff_rank *rank, const ff_chunk *chunk, int block, ff_exchange *e) {
    int first = chunk->first_piece[block], end = chunk->first_piece[block + 1];
    int64_t begin = chunk->block_begin[block];
    e->elements = ff_block_elements(chunk, block);
    for (int p = first; p < end && rank->shard_ranks > 1; p++) {
        ff_piece piece = chunk->piece[p];
        e->piece[e->pieces++] = (ff_piece){piece.begin - begin, piece.end - begin,
                                           piece.cut_begin - begin, piece.cut_elements};
    }
    return chunk->shard_begin[first];
}
