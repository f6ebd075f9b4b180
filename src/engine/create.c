/* Making a rank: its chunks and units, the blocks that its list reduces, memory, first weights. */
#include "engine/blocks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- chunks --- */

static void add_unit(ff_rank *rank, ff_chunk *chunk, ff_unit_kind kind, int layer, bool copy) {
    ff_unit *unit = &chunk->unit[chunk->units++];
    ff_unit_build(&rank->setup->model, kind, layer, rank->setup->layout.tp, rank->tp_index, copy,
                  unit);
    unit->offset = chunk->elements;
    chunk->elements += unit->elements;
}

static void build_units(ff_rank *rank, ff_chunk *chunk, int64_t index) {
    const ff_setup *setup = rank->setup;
    ff_program_chunk(&setup->model, &setup->layout, rank->stage, index, &chunk->content);
    chunk->unit = ff_engine_array(chunk->content.layers + 2, sizeof *chunk->unit);
    if (chunk->content.head)
        add_unit(rank, chunk, FF_UNIT_HEAD, -1, setup->model.tied_head && !ff_tied_here(rank));
    for (int i = chunk->content.layers - 1; i >= 0; i--)
        add_unit(rank, chunk, FF_UNIT_LAYER, chunk->content.first_layer + i, false);
    if (chunk->content.embedding)
        add_unit(rank, chunk, FF_UNIT_EMBEDDING, -1, false);
    chunk->unit_weights = ff_engine_array(chunk->units, sizeof *chunk->unit_weights);
    chunk->flight = ff_engine_array(setup->layout.microbatches, sizeof *chunk->flight);
    for (int64_t m = 0; m < setup->layout.microbatches; m++)
        chunk->flight[m].slot = ff_engine_array(chunk->units, sizeof *chunk->flight[m].slot);
}

/* --- memory --- */

static real *take_zeros(ff_rank *rank, ff_store_kind kind, int64_t elements, const char *name) {
    real *numbers = ff_store_take(&rank->store, kind, elements, name);
    memset(numbers, 0, (size_t)elements * sizeof(real));
    return numbers;
}

static void take_chunk(ff_rank *rank, ff_chunk *chunk) {
    bool adam = rank->setup->options.update == FF_UPDATE_ADAMW;
    if (rank->zero < 3 || rank->resident)
        chunk->weights = take_zeros(rank, FF_STORE_WEIGHTS, chunk->elements, "weights");
    if (rank->zero == 3)
        chunk->shard = take_zeros(rank, FF_STORE_WEIGHTS, chunk->shard_elements, "weight shard");
    for (int set = 0; set < rank->sets && !rank->shards_gradients; set++)
        chunk->full[set] = (ff_accumulator){
            .elements = chunk->elements,
            .work = take_zeros(rank, FF_STORE_GRADIENTS, chunk->elements, "gradients")};
    if (rank->zero >= 2)
        chunk->sharded = (ff_accumulator){
            .elements = chunk->shard_elements,
            .work = take_zeros(rank, FF_STORE_GRADIENTS, chunk->shard_elements, "gradient shard")};
    if (!adam)
        return;
    chunk->moment1 = take_zeros(rank, FF_STORE_OPTIMIZER, chunk->shard_elements, "first moment");
    chunk->moment2 = take_zeros(rank, FF_STORE_OPTIMIZER, chunk->shard_elements, "second moment");
}

static int64_t largest_unit(const ff_rank *rank) {
    int64_t largest = 0;
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++)
        for (int u = 0; u < rank->chunk[c].units; u++)
            if (rank->chunk[c].unit[u].elements > largest)
                largest = rank->chunk[c].unit[u].elements;
    return largest;
}

static int64_t largest_block(const ff_rank *rank) {
    int64_t largest = 0;
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++)
        for (int b = 0; b < rank->chunk[c].blocks; b++) {
            int64_t length = ff_block_elements(&rank->chunk[c], b);
            if (length > largest)
                largest = length;
        }
    return largest;
}

/* ZeRO-2's buckets: two of the largest size hold what backward has made and not yet sent, as long as
 * no unit is larger than a bucket; where one is, they are as large as it needs. */
static int64_t room_of_buckets(const ff_rank *rank) {
    int64_t room = 2 * largest_block(rank);
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++) {
        const ff_chunk *chunk = &rank->chunk[c];
        for (int u = 0, b = 0; u < chunk->units; u++) {
            int64_t begin = chunk->unit[u].offset, end = begin + chunk->unit[u].elements;
            while (chunk->block_begin[b + 1] <= begin)
                b++;
            if (end - chunk->block_begin[b] > room)
                room = end - chunk->block_begin[b];
        }
    }
    return room;
}

/* A tied embedding is read twice in a microbatch, and has two gradients. Streamed, it stays gathered
 * and has a buffer for the head's (fully_shard's root does the same); under ZeRO-2 the head's
 * gradient waits apart where two buckets do not hold the chunk. */
static void take_tied_buffers(ff_rank *rank) {
    const ff_chunk *last = &rank->chunk[0];
    if (!ff_tied_here(rank) || !rank->shards_gradients)
        return;
    int64_t embedding = last->unit[last->units - 1].elements;
    if (rank->streams)
        rank->tied_weights = take_zeros(rank, FF_STORE_GATHERED, embedding, "tied embedding");
    if (rank->streams || rank->bucket_room < last->elements)
        rank->tied_gradient = take_zeros(rank, FF_STORE_BUCKETS, embedding, "tied gradient");
}

/* Two units are gathered in turn, one unit's gradients leave; pipeline messages have a buffer a
 * kind and direction. */
static void take_buffers(ff_rank *rank) {
    int64_t unit = largest_unit(rank);
    const ff_setup *setup = rank->setup;
    for (int i = 0; i < 2 && rank->streams; i++)
        rank->gather_buffer[i] = take_zeros(rank, FF_STORE_GATHERED, unit, "gathered unit");
    if (rank->shards_gradients) {
        rank->bucket_room = rank->streams ? unit : room_of_buckets(rank);
        rank->bucket = take_zeros(rank, FF_STORE_BUCKETS, rank->bucket_room, "bucket");
    }
    take_tied_buffers(rank);
    for (int i = 0; i < 4 && setup->layout.pp > 1; i++)
        rank->transfer_buffer[i] = take_zeros(rank, FF_STORE_TRANSFERS,
                                              setup->shard_tokens * setup->model.hidden, "message");
}

/* --- positions --- */

static void build_positions(ff_rank *rank) {
    int64_t seq = rank->setup->options.seq;
    rank->positions = ff_engine_array(2 * seq + 1, sizeof *rank->positions);
    rank->row_of_position = ff_engine_array(seq, sizeof *rank->row_of_position);
    rank->tokens = ff_engine_array(rank->setup->tokens, sizeof *rank->tokens);
    rank->targets = ff_engine_array(rank->setup->tokens, sizeof *rank->targets);
    for (int64_t place = 0; place < seq; place++) {
        rank->positions[place] = (int32_t)ff_folded_position(seq, place);
        rank->row_of_position[rank->positions[place]] = (int32_t)place;
    }
}

static void build_rope(ff_rank *rank) {
    const ff_setup *setup = rank->setup;
    int64_t dim = setup->model.kind[0].attention.qk_head_dim, half = dim / 2;
    if (setup->model.position_rows > 0)
        return;
    rank->rope_cosine = ff_engine_array(setup->options.seq * half, sizeof(real));
    rank->rope_sine = ff_engine_array(setup->options.seq * half, sizeof(real));
    for (int64_t p = 0; p < setup->options.seq; p++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * pow(setup->model.rope_theta, -2.0 * (double)i / (double)dim);
            rank->rope_cosine[p * half + i] = (real)cos(angle);
            rank->rope_sine[p * half + i] = (real)sin(angle);
        }
}

/* --- first weights --- */

/* ZeRO-3 divides unit by unit: no piece lies in two. */
static void write_shard(const ff_rank *rank, ff_chunk *chunk, const ff_unit *unit,
                        const real *unit_weights) {
    for (int p = 0; p < chunk->pieces; p++) {
        ff_own_span s = ff_own_span_of(rank, chunk, p);
        if (s.begin < s.end && s.begin >= unit->offset && s.end <= unit->offset + unit->elements)
            memcpy(chunk->shard + s.shard, unit_weights + (s.begin - unit->offset),
                   (size_t)(s.end - s.begin) * sizeof(real));
    }
}

static void write_weights(ff_rank *rank, ff_chunk *chunk) {
    const ff_setup *setup = rank->setup;
    ff_initialisation how = {setup->options.seed, setup->options.deviation,
                             setup->options.real_vocab, setup->model.layers};
    real *unit_weights = ff_store_take(&rank->store, FF_STORE_COMMUNICATION, largest_unit(rank),
                                       "first weights of a unit");
    for (int u = 0; u < chunk->units; u++) {
        const ff_unit *unit = &chunk->unit[u];
        ff_unit_initialise(unit, &how, unit_weights);
        if (chunk->weights != NULL)
            memcpy(chunk->weights + unit->offset, unit_weights,
                   (size_t)unit->elements * sizeof(real));
        if (rank->zero == 3)
            write_shard(rank, chunk, unit, unit_weights);
    }
    ff_store_give(&rank->store, unit_weights);
}

/* --- the rank --- */

static void place_rank(ff_rank *rank) {
    const ff_setup *setup = rank->setup;
    const ff_mesh *mesh = &setup->mesh;
    rank->stage = ff_mesh_coordinate(mesh, rank->id, FF_AXIS_PP);
    rank->tp_index = ff_mesh_coordinate(mesh, rank->id, FF_AXIS_TP);
    rank->dp_index = ff_mesh_coordinate(mesh, rank->id, FF_AXIS_DP);
    rank->shard_group = setup->layout.dp * setup->layout.cp;
    rank->zero = rank->shard_group > 1 ? setup->layout.zero : 0;
    rank->shard_ranks = rank->zero > 0 ? rank->shard_group : 1;
    rank->shard_index = rank->zero > 0 ? rank->dp_index : 0;
    rank->resident = rank->zero == 3 && setup->layout.zero3_weights == FF_ZERO3_RESIDENT;
    rank->streams = rank->zero == 3 && !rank->resident;
    rank->shards_gradients = rank->zero == 2 || rank->streams;
    bool sp = setup->layout.sp == 1 && setup->layout.tp > 1;
    rank->own_parts = setup->options.token_parts / (int)(sp ? setup->layout.tp : 1);
    bool apart = setup->options.tied_apart && ff_tied_here(rank);
    rank->sets = rank->own_parts + apart;
}

static bool build(ff_rank *rank) {
    const ff_layout *layout = &rank->setup->layout;
    const ff_unit *units[FF_LAYOUT_MAX_CHUNKS];
    int counts[FF_LAYOUT_MAX_CHUNKS];
    rank->chunk = ff_engine_array(layout->vpp, sizeof *rank->chunk);
    for (int64_t c = 0; c < layout->vpp; c++) {
        build_units(rank, &rank->chunk[c], c);
        units[c] = rank->chunk[c].unit;
        counts[c] = rank->chunk[c].units;
    }
    ff_listing_build(rank->setup, rank->stage, units, counts, &rank->listing);
    if (rank->listing.unknown != NULL)
        return ff_rank_fail(rank, "the engine does not do \"%s\"", rank->listing.unknown);
    for (int64_t c = 0; c < layout->vpp; c++)
        if (!ff_blocks_build(rank, &rank->chunk[c], (int)c))
            return false;
    for (int64_t c = 0; c < layout->vpp; c++) {
        take_chunk(rank, &rank->chunk[c]);
        write_weights(rank, &rank->chunk[c]);
    }
    take_buffers(rank);
    build_positions(rank);
    build_rope(rank);
    rank->losses = ff_engine_array(layout->microbatches, sizeof *rank->losses);
    return true;
}

ff_rank *ff_rank_create(const ff_setup *setup, int id, ff_transport *transport) {
    ff_rank *rank = ff_engine_array(1, sizeof *rank);
    rank->setup = setup;
    rank->id = id;
    rank->rows = ff_rows_choose(setup->options.kernel);
    rank->gemm.kernel = ff_gemm_choose(setup->options.kernel);
    if (rank->rows == NULL || rank->gemm.kernel == NULL) {
        rank->rows = ff_rows_choose(0);
        rank->gemm.kernel = ff_gemm_choose(0);
    }
    rank->wire = (ff_wire){transport, rank->rows, &rank->store, id};
    rank->store.poison = setup->options.poison;
    place_rank(rank);
    build(rank);
    return rank;
}

void ff_rank_begin_step(ff_rank *rank, int64_t step) {
    rank->step = step;
    rank->evaluates = step < 0;
    rank->rate = rank->setup->options.rate;
    rank->at = 0;
    rank->order = 0;
    rank->ended = rank->updated = rank->norm_shared = false;
    rank->frame = (ff_frame){.unit = -1};
    rank->traffics = 0;
    for (int64_t c = 0; rank->fault[0] == '\0' && c < rank->setup->layout.vpp; c++) {
        ff_chunk *chunk = &rank->chunk[c];
        for (int u = 0; u < chunk->units; u++)
            chunk->unit_weights[u] =
                rank->zero == 3 ? NULL : chunk->weights + chunk->unit[u].offset;
    }
}

static void free_chunk(ff_rank *rank, ff_chunk *chunk) {
    for (int64_t m = 0; chunk->flight != NULL && m < rank->setup->layout.microbatches; m++)
        free(chunk->flight[m].slot);
    free(chunk->flight);
    free(chunk->unit_weights);
    free(chunk->unit);
    ff_blocks_free(chunk);
}

void ff_rank_free(ff_rank *rank) {
    for (int64_t c = 0; rank->chunk != NULL && c < rank->setup->layout.vpp; c++)
        free_chunk(rank, &rank->chunk[c]);
    for (int i = 0; i < rank->backgrounds; i++) {
        free(rank->background[i]->exchange.message);
        free(rank->background[i]);
    }
    free(rank->exchange.message);
    free(rank->chunk);
    ff_listing_free(&rank->listing);
    ff_gemm_space_free(&rank->gemm);
    ff_store_free(&rank->store);
    free(rank->positions);
    free(rank->row_of_position);
    free(rank->tokens);
    free(rank->targets);
    free(rank->rope_cosine);
    free(rank->rope_sine);
    free(rank->losses);
    free(rank->traffic);
    free(rank);
}
