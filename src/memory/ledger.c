/* The ledger of one stage (see fivefold/memory.h).
 *
 *     peak = state + sum over chunks (held x bytes) + working set + buffers + runtime
 *
 * Held is what forwards keep until their backward, and where backward is split what waits between
 * its halves: GEMM inputs and output gradients, for W. The schedule says when most is held
 * (ff_schedule_peak); with equal chunks that is when the first backward runs. Gradients and
 * activations coexist there. The backward of the last chunk begins with the logits and frees them
 * before a layer runs: the larger of the two counts (Megatron-LM's functional tests print the peak
 * of the allocator, and agree to a few MiB). Copies of gradients that the optimizer makes are there
 * in the step alone, when no activation is. Assumption: the working set is the largest of the layers
 * of the chunk that runs; forward's is smaller. */
#include "fivefold/memory.h"

#include "base/number.h"
#include "layout/recipe.h"
#include "memory/state.h"

ff_block_memory ff_block_memory_of(const ff_layer_list *list) {
    return (ff_block_memory){ff_layer_kept_bytes(list), ff_layer_working_bytes(list),
                             ff_layer_waiting_bytes(list)};
}

void ff_memory_blocks_build(const ff_model *model, const ff_layout *layout,
                            const ff_program_options *options, ff_memory_blocks *blocks) {
    ff_layer_list list;
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        ff_layer_shape shape = ff_program_layer_shape(layout, options, recomputed == 1);
        for (int kind = 0; kind < model->kinds; kind++) {
            ff_layer_build(model, kind, &shape, &list);
            blocks->layer[kind][recomputed] = ff_block_memory_of(&list);
        }
    }
    ff_layer_shape shape = ff_program_layer_shape(layout, options, false);
    ff_embedding_build(model, &shape, &list);
    blocks->embedding = ff_block_memory_of(&list);
    ff_head_build(model, &shape, &list);
    blocks->head = ff_block_memory_of(&list);
    ff_mtp_build(model, &shape, &list);
    blocks->mtp = ff_block_memory_of(&list);
    for (int kind = 0; kind < model->kinds; kind++)
        blocks->layer_params[kind] =
            ff_layer_shard_params(model, kind, layout->tp, layout->ep, layout->etp);
    blocks->first_params = ff_first_shard_params(model, layout->tp);
    blocks->last_params = ff_last_shard_params(model, layout->tp, false);
    blocks->last_params_with_copy = ff_last_shard_params(model, layout->tp, true);
    blocks->mtp_params = ff_mtp_shard_params(model, layout->tp, layout->ep, layout->etp);
}

static void add_params(ff_shard_params *to, ff_shard_params more, int64_t times) {
    to->dense = ff_add(to->dense, ff_mul(more.dense, times));
    to->expert = ff_add(to->expert, ff_mul(more.expert, times));
    to->replicated = ff_add(to->replicated, ff_mul(more.replicated, times));
}

/* Only what is sharded is gathered: not the experts of edp = 1. */
static void note_unit(const ff_layout *layout, ff_chunk_memory *chunk, ff_shard_params unit) {
    int64_t dense = ff_dense_shard_ranks(layout) > 1 ? unit.dense : 0;
    int64_t expert = ff_expert_shard_ranks(layout) > 1 ? unit.expert : 0;
    chunk->largest_unit = ff_max(chunk->largest_unit, ff_add(dense, expert));
}

static void add_layers(const ff_layout *layout, const ff_memory_blocks *blocks,
                       const ff_chunk_content *content, int kind, ff_chunk_memory *chunk) {
    int64_t layers = content->of_kind[kind], whole = content->recomputed_of_kind[kind];
    const ff_block_memory *block = blocks->layer[kind];
    if (layers == 0)
        return;
    add_params(&chunk->params, blocks->layer_params[kind], layers);
    note_unit(layout, chunk, blocks->layer_params[kind]);
    if (whole > 0)
        chunk->working_bytes = ff_max(chunk->working_bytes, block[1].working_bytes);
    if (whole < layers)
        chunk->working_bytes = ff_max(chunk->working_bytes, block[0].working_bytes);
    int64_t kept =
        ff_add(ff_mul(block[1].kept_bytes, whole), ff_mul(block[0].kept_bytes, layers - whole));
    chunk->kept_bytes = ff_add(chunk->kept_bytes, kept);
    int64_t waiting = ff_add(ff_mul(block[1].waiting_bytes, whole),
                             ff_mul(block[0].waiting_bytes, layers - whole));
    chunk->waiting_bytes = ff_add(chunk->waiting_bytes, waiting);
}

/* A layer's working set follows the logits and what they kept, which are free by then: of it, what is
 * more than they were. */
static void follow_logits(ff_chunk_memory *chunk) {
    int64_t logits = ff_add(chunk->loss_kept_bytes, chunk->loss_working_bytes);
    chunk->working_bytes = chunk->working_bytes > logits ? chunk->working_bytes - logits : 0;
}

/* Softmax of each microbatch in flight, logits of one. MTP blocks keep a layer and a head of their
 * own. */
static void add_head(const ff_model *model, const ff_layout *layout, const ff_memory_blocks *b,
                     ff_chunk_memory *chunk) {
    ff_shard_params unit =
        ff_program_copies_embedding(layout) ? b->last_params_with_copy : b->last_params;
    const ff_block_memory *layer = &b->layer[model->mtp_kind][0];
    add_params(&unit, b->mtp_params, 1);
    add_params(&chunk->params, unit, 1);
    note_unit(layout, chunk, unit);
    chunk->loss_kept_bytes = ff_mul(1 + model->mtp_layers, b->head.kept_bytes);
    chunk->loss_waiting_bytes = ff_mul(1 + model->mtp_layers, b->head.waiting_bytes);
    chunk->loss_working_bytes = b->head.working_bytes;
    if (model->mtp_layers > 0)
        chunk->working_bytes = ff_max(chunk->working_bytes, layer->working_bytes);
    int64_t block = ff_mul(ff_add(b->mtp.kept_bytes, layer->kept_bytes), model->mtp_layers);
    chunk->kept_bytes = ff_add(chunk->kept_bytes, block);
    int64_t waiting = ff_mul(ff_add(b->mtp.waiting_bytes, layer->waiting_bytes), model->mtp_layers);
    chunk->waiting_bytes = ff_add(chunk->waiting_bytes, waiting);
}

void ff_ledger_chunk(const ff_model *model, const ff_layout *layout, const ff_memory_blocks *blocks,
                     const ff_chunk_content *content, ff_chunk_memory *chunk) {
    *chunk = (ff_chunk_memory){0};
    for (int kind = 0; kind < model->kinds; kind++)
        add_layers(layout, blocks, content, kind, chunk);
    if (content->embedding) {
        add_params(&chunk->params, blocks->first_params, 1);
        note_unit(layout, chunk, blocks->first_params);
        bool twice = ff_needs_embedding_copy(model) && !ff_program_copies_embedding(layout);
        chunk->tied_unit =
            twice && ff_dense_shard_ranks(layout) > 1 ? blocks->first_params.dense : 0;
        chunk->kept_bytes = ff_add(chunk->kept_bytes, blocks->embedding.kept_bytes);
        chunk->waiting_bytes = ff_add(chunk->waiting_bytes, blocks->embedding.waiting_bytes);
    }
    if (content->head) {
        add_head(model, layout, blocks, chunk);
        follow_logits(chunk);
    }
}

int ff_ledger_communicators(const ff_model *model, const ff_layout *layout) {
    const int64_t dense[] = {layout->tp, layout->cp, layout->dp * layout->cp, layout->pp};
    const int64_t experts[] = {layout->ep, layout->etp, layout->edp};
    int count = 0;
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        count += dense[i] > 1;
    for (size_t i = 0; i < sizeof experts / sizeof *experts && ff_model_moe_kind(model); i++)
        count += experts[i] > 1;
    return count;
}

/* One bucket of the largest size, of dense or expert gradients: the last, which has the remainder. */
static int64_t bucket_params(int64_t params, int64_t shard_ranks, int64_t replicas) {
    int64_t buckets = ff_bucket_count(params, replicas);
    return shard_ranks > 1 ? params - params / buckets * (buckets - 1) : 0;
}

/* Buckets are cut from each chunk's weights. */
static int64_t largest_bucket(const ff_layout *layout, const ff_chunk_memory *const *chunks) {
    int64_t largest = 0;
    for (int64_t i = 0; i < layout->vpp; i++) {
        int64_t dense = bucket_params(chunks[i]->params.dense, ff_dense_shard_ranks(layout),
                                      layout->dp * layout->cp);
        int64_t expert =
            bucket_params(chunks[i]->params.expert, ff_expert_shard_ranks(layout), layout->edp);
        largest = ff_max(largest, ff_max(dense, expert));
    }
    return largest;
}

/* An embedding that one stage uses twice: streamed, it stays gathered from one use to the other, and
 * has two gradients (fully_shard's root). Under ZeRO-2 the first gradient waits apart where two
 * buckets do not hold the chunk. */
static int64_t tied_params(const ff_layout *layout, const ff_chunk_memory *const *chunks,
                           bool streams) {
    const ff_chunk_memory *first = chunks[0];
    int64_t buckets = ff_bucket_count(first->params.dense, layout->dp * layout->cp);
    return streams || buckets > 2 ? first->tied_unit : 0;
}

/* ZeRO-3 holds the unit that runs and the one being prefetched, and the gradient of one on its way
 * out; ZeRO-2 the bucket being filled and the one on its way. ZeRO-0 and 1 reduce in place. */
static void fix_buffers(const ff_layout *layout, const ff_chunk_memory *const *chunks,
                        int64_t largest_unit, ff_ledger_fixed *fixed) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    if (layout->zero == 3 && layout->zero3_weights == FF_ZERO3_STREAM) {
        int64_t tied = tied_params(layout, chunks, true);
        fixed->gathered_bytes =
            ff_mul(ff_add(ff_mul(2, largest_unit), tied), recipe->gathered_weight);
        fixed->bucket_bytes = ff_mul(ff_add(largest_unit, tied), recipe->gathered_gradient);
    } else if (layout->zero == 2) {
        int64_t tied = tied_params(layout, chunks, false);
        fixed->bucket_bytes =
            ff_mul(ff_add(ff_mul(2, largest_bucket(layout, chunks)), tied), recipe->gradient_wire);
    }
}

void ff_ledger_fix(const ff_model *model, const ff_layout *layout, const ff_runtime_memory *runtime,
                   const ff_chunk_memory *const *chunks, ff_ledger_fixed *fixed) {
    int64_t largest_unit = 0;
    *fixed = (ff_ledger_fixed){.fragmentation_ratio = runtime->fragmentation_ratio};
    for (int64_t i = 0; i < layout->vpp; i++) {
        add_params(&fixed->params, chunks[i]->params, 1);
        largest_unit = ff_max(largest_unit, chunks[i]->largest_unit);
    }
    ff_state_bytes state = ff_state_of(layout, fixed->params);
    fixed->weights_bytes = state.weights;
    fixed->gradients_bytes = state.gradients;
    fixed->optimizer_bytes = state.optimizer - state.in_step;
    fixed->in_step_bytes = state.in_step;
    fix_buffers(layout, chunks, largest_unit, fixed);
    fixed->context_bytes = ff_add(runtime->context_bytes, runtime->workspace_bytes);
    fixed->communicator_bytes =
        ff_mul(runtime->communicator_bytes, ff_ledger_communicators(model, layout));
}

int64_t ff_ledger_transfer_bytes(const ff_model *model, const ff_layout *layout, int64_t seq) {
    if (layout->pp == 1)
        return 0;
    ff_operator send = ff_program_transfer(model, layout, seq, false);
    return ff_mul3(4, send.elements, send.element_bytes);
}

void ff_ledger_holds(int64_t vpp, const ff_chunk_memory *const *chunks, ff_chunk_hold *holds) {
    for (int64_t i = 0; i < vpp; i++) {
        const ff_chunk_memory *c = chunks[i];
        holds[i] = (ff_chunk_hold){ff_add(c->kept_bytes, c->loss_kept_bytes),
                                   ff_add(c->waiting_bytes, c->loss_waiting_bytes),
                                   ff_add(c->working_bytes, c->loss_working_bytes)};
    }
}

int32_t ff_ledger_peak(const ff_layout *layout, const ff_chunk_memory *const *chunks, int64_t stage,
                       ff_held *held) {
    ff_chunk_hold holds[FF_LAYOUT_MAX_CHUNKS];
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    ff_ledger_holds(layout->vpp, chunks, holds);
    return ff_schedule_peak(&shape, (int32_t)stage, holds, held).chunk;
}

static int64_t bytes_of_held(ff_held held, int64_t kept_bytes, int64_t waiting_bytes) {
    return ff_add(ff_mul(held.kept, kept_bytes), ff_mul(held.waiting, waiting_bytes));
}

static void sum_chunks(int64_t vpp, const ff_chunk_memory *const *chunks, const ff_held *held,
                       int32_t running, ff_stage_memory *memory) {
    if (running >= 0) {
        memory->working_bytes = chunks[running]->working_bytes;
        memory->loss_bytes = chunks[running]->loss_working_bytes;
    }
    for (int64_t i = 0; i < vpp; i++) {
        const ff_chunk_memory *c = chunks[i];
        memory->in_flight += held[i].kept + held[i].waiting;
        memory->kept_bytes =
            ff_add(memory->kept_bytes, bytes_of_held(held[i], c->kept_bytes, c->waiting_bytes));
        memory->loss_bytes = ff_add(
            memory->loss_bytes, bytes_of_held(held[i], c->loss_kept_bytes, c->loss_waiting_bytes));
    }
}

static int64_t fragmentation(const ff_ledger_fixed *fixed, int64_t moving_bytes) {
    double bytes = (double)moving_bytes * fixed->fragmentation_ratio;
    return bytes < (double)FF_SATURATED ? (int64_t)bytes : FF_SATURATED;
}

/* What the update needs lies where activations and buffers were, as far as there is room. */
static int64_t optimizer(const ff_ledger_fixed *fixed, int64_t moving_bytes) {
    return ff_add(fixed->optimizer_bytes, ff_max(0, fixed->in_step_bytes - moving_bytes));
}

int64_t ff_ledger_total(const ff_ledger_fixed *fixed, int64_t held_bytes) {
    int64_t buffers = ff_add(fixed->gathered_bytes, fixed->bucket_bytes);
    int64_t moving = ff_add(held_bytes, buffers);
    int64_t states =
        ff_add(ff_add(fixed->weights_bytes, fixed->gradients_bytes), optimizer(fixed, moving));
    int64_t runtime = ff_add(ff_add(fixed->context_bytes, fixed->communicator_bytes),
                             fragmentation(fixed, moving));
    return ff_add(ff_add(states, moving), runtime);
}

int64_t ff_ledger_sum(int64_t vpp, const ff_ledger_fixed *fixed, int64_t transfer_bytes,
                      const ff_chunk_memory *const *chunks, const ff_held *held, int32_t running,
                      ff_stage_memory *memory) {
    *memory = (ff_stage_memory){
        .weights_bytes = fixed->weights_bytes,
        .gradients_bytes = fixed->gradients_bytes,
        .params = fixed->params,
        .gathered_bytes = fixed->gathered_bytes,
        .bucket_bytes = fixed->bucket_bytes,
        .transfer_bytes = transfer_bytes,
        .context_bytes = fixed->context_bytes,
        .communicator_bytes = fixed->communicator_bytes,
    };
    sum_chunks(vpp, chunks, held, running, memory);
    memory->activations_bytes = ff_add(memory->kept_bytes, memory->working_bytes);
    int64_t moved = ff_add(transfer_bytes, memory->loss_bytes);
    int64_t held_bytes = ff_add(memory->activations_bytes, moved);
    memory->buffers_bytes = ff_add(ff_add(fixed->gathered_bytes, fixed->bucket_bytes), moved);
    int64_t moving = ff_add(memory->activations_bytes, memory->buffers_bytes);
    memory->optimizer_bytes = optimizer(fixed, moving);
    memory->fragmentation_bytes = fragmentation(fixed, moving);
    memory->runtime_bytes = ff_add(ff_add(memory->context_bytes, memory->communicator_bytes),
                                   memory->fragmentation_bytes);
    memory->total_bytes = ff_ledger_total(fixed, held_bytes);
    return held_bytes;
}

void ff_ledger_chunks(const ff_model *model, const ff_layout *layout,
                      const ff_memory_blocks *blocks, int64_t stage, ff_chunk_memory *chunks) {
    for (int64_t i = 0; i < layout->vpp; i++) {
        ff_chunk_content content;
        ff_program_chunk(model, layout, stage, i, &content);
        ff_ledger_chunk(model, layout, blocks, &content, &chunks[i]);
    }
}

void ff_ledger_stage(const ff_model *model, const ff_layout *layout, int64_t seq,
                     const ff_memory_blocks *blocks, const ff_runtime_memory *runtime,
                     int64_t stage, ff_stage_memory *memory) {
    ff_chunk_memory chunk[FF_LAYOUT_MAX_CHUNKS];
    const ff_chunk_memory *chunks[FF_LAYOUT_MAX_CHUNKS];
    ff_held held[FF_LAYOUT_MAX_CHUNKS];
    ff_ledger_fixed fixed;
    ff_ledger_chunks(model, layout, blocks, stage, chunk);
    for (int64_t i = 0; i < layout->vpp; i++)
        chunks[i] = &chunk[i];
    int32_t running = ff_ledger_peak(layout, chunks, stage, held);
    ff_ledger_fix(model, layout, runtime, chunks, &fixed);
    ff_ledger_sum(layout->vpp, &fixed, ff_ledger_transfer_bytes(model, layout, seq), chunks, held,
                  running, memory);
}

int64_t ff_ledger_margin(int64_t capacity_bytes, int64_t margin_bytes) {
    return margin_bytes > 0 ? margin_bytes
                            : ff_max(capacity_bytes / 20, INT64_C(3) * 1024 * 1024 * 1024);
}

ff_verdict ff_ledger_verdict(int64_t peak_bytes, int64_t capacity_bytes, int64_t margin_bytes) {
    if (peak_bytes > capacity_bytes)
        return FF_TOO_BIG;
    int64_t room_bytes = capacity_bytes - peak_bytes;
    return room_bytes < ff_ledger_margin(capacity_bytes, margin_bytes) ? FF_TIGHT : FF_FITS;
}

const char *ff_verdict_name(ff_verdict verdict) {
    static const char *const names[] = {"fits", "tight", "too_big"};
    return names[verdict];
}
