/* The ledger of one stage (see fivefold/memory.h).
 *
 *     peak = state + sum over chunks (in flight x kept) + largest working set + buffers + runtime
 *
 * The peak is taken after the last warm-up forward, when the stage holds all that it will and the
 * first backward runs. Gradients and activations coexist there. Assumption: the working set is the
 * largest of the stage's layers; forward's is smaller. */
#include "fivefold/memory.h"

#include "base/number.h"
#include "layout/recipe.h"
#include "memory/state.h"

ff_block_memory ff_block_memory_of(const ff_layer_list *list) {
    return (ff_block_memory){ff_layer_kept_bytes(list), ff_layer_working_bytes(list)};
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

typedef struct sums {
    const ff_model *model;
    const ff_layout *layout;
    const ff_memory_blocks *blocks;
    ff_shard_params params;
    int64_t largest_unit; /* parameters that ZeRO-3 gathers at once */
    int64_t kept_bytes, working_bytes, loss_bytes, in_flight;
} sums;

static void add_params(ff_shard_params *to, ff_shard_params more, int64_t times) {
    to->dense = ff_add(to->dense, ff_mul(more.dense, times));
    to->expert = ff_add(to->expert, ff_mul(more.expert, times));
    to->replicated = ff_add(to->replicated, ff_mul(more.replicated, times));
}

/* Only what is sharded is gathered: not the experts of edp = 1. */
static void note_unit(sums *s, ff_shard_params unit) {
    int64_t dense = ff_dense_shard_ranks(s->layout) > 1 ? unit.dense : 0;
    int64_t expert = ff_expert_shard_ranks(s->layout) > 1 ? unit.expert : 0;
    s->largest_unit = ff_max(s->largest_unit, ff_add(dense, expert));
}

/* Layers of one kind in a chunk: kept bytes of one microbatch. */
static int64_t add_layers(sums *s, const ff_chunk_content *content, int kind) {
    int64_t layers = content->of_kind[kind], whole = content->recomputed_of_kind[kind];
    if (layers == 0)
        return 0;
    const ff_block_memory *block = s->blocks->layer[kind];
    add_params(&s->params, s->blocks->layer_params[kind], layers);
    note_unit(s, s->blocks->layer_params[kind]);
    if (whole > 0)
        s->working_bytes = ff_max(s->working_bytes, block[1].working_bytes);
    if (whole < layers)
        s->working_bytes = ff_max(s->working_bytes, block[0].working_bytes);
    return ff_add(ff_mul(block[1].kept_bytes, whole), ff_mul(block[0].kept_bytes, layers - whole));
}

/* The last chunk's backward follows its forward at once but for schedules that hold several of it:
 * softmax of each in flight, logits of one. MTP blocks keep a layer and a head of their own. */
static int64_t add_head(sums *s, int64_t in_flight) {
    const ff_memory_blocks *b = s->blocks;
    int64_t heads = 1 + s->model->mtp_layers;
    ff_shard_params unit = s->layout->pp > 1 ? b->last_params_with_copy : b->last_params;
    add_params(&unit, b->mtp_params, 1);
    add_params(&s->params, unit, 1);
    note_unit(s, unit);
    s->loss_bytes = ff_add(s->loss_bytes, ff_add(ff_mul3(heads, in_flight, b->head.kept_bytes),
                                                 b->head.working_bytes));
    const ff_block_memory *layer = &b->layer[s->model->mtp_kind][0];
    if (s->model->mtp_layers > 0)
        s->working_bytes = ff_max(s->working_bytes, layer->working_bytes);
    return ff_mul(ff_add(b->mtp.kept_bytes, layer->kept_bytes), s->model->mtp_layers);
}

static void add_chunk(sums *s, int64_t stage, int64_t chunk, int64_t in_flight) {
    ff_chunk_content content;
    ff_program_chunk(s->model, s->layout, stage, chunk, &content);
    int64_t kept = 0;
    for (int kind = 0; kind < s->model->kinds; kind++)
        kept = ff_add(kept, add_layers(s, &content, kind));
    if (content.embedding) {
        add_params(&s->params, s->blocks->first_params, 1);
        note_unit(s, s->blocks->first_params);
        kept = ff_add(kept, s->blocks->embedding.kept_bytes);
    }
    if (content.head)
        kept = ff_add(kept, add_head(s, in_flight));
    s->kept_bytes = ff_add(s->kept_bytes, ff_mul(kept, in_flight));
    s->in_flight = ff_add(s->in_flight, in_flight);
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

/* One bucket of the largest size, of dense or expert gradients. */
static int64_t bucket_params(int64_t params, int64_t shard_ranks, int64_t replicas) {
    return shard_ranks > 1 ? ff_ceil_div(params, ff_bucket_count(params, replicas)) : 0;
}

/* ZeRO-3 holds the unit that runs and the one being prefetched, and the gradient of one on its way
 * out; ZeRO-2 the bucket being filled and the one on its way. ZeRO-0 and 1 reduce in place. */
static void fill_buffers(const sums *s, int64_t seq, ff_stage_memory *memory) {
    const ff_layout *layout = s->layout;
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    if (layout->zero == 3 && layout->zero3_weights == FF_ZERO3_STREAM) {
        memory->gathered_bytes = ff_mul3(2, s->largest_unit, recipe->gathered_weight);
        memory->bucket_bytes = ff_mul(s->largest_unit, recipe->gathered_gradient);
    } else if (layout->zero == 2) {
        int64_t dense = bucket_params(memory->params.dense, ff_dense_shard_ranks(layout),
                                      layout->dp * layout->cp);
        int64_t expert =
            bucket_params(memory->params.expert, ff_expert_shard_ranks(layout), layout->edp);
        memory->bucket_bytes = ff_mul3(2, ff_max(dense, expert), recipe->gradient_wire);
    }
    if (layout->pp > 1) {
        ff_operator send = ff_program_transfer(s->model, layout, seq, false);
        memory->transfer_bytes = ff_mul3(4, send.elements, send.element_bytes);
    }
    memory->loss_bytes = s->loss_bytes;
    memory->buffers_bytes = ff_add(ff_add(memory->gathered_bytes, memory->bucket_bytes),
                                   ff_add(memory->transfer_bytes, memory->loss_bytes));
}

static void fill_runtime(const ff_model *model, const ff_layout *layout,
                         const ff_runtime_memory *runtime, ff_stage_memory *memory) {
    double moving = (double)ff_add(memory->activations_bytes, memory->buffers_bytes);
    memory->context_bytes = ff_add(runtime->context_bytes, runtime->workspace_bytes);
    memory->communicator_bytes =
        ff_mul(runtime->communicator_bytes, ff_ledger_communicators(model, layout));
    double fragmentation = moving * runtime->fragmentation_ratio;
    memory->fragmentation_bytes =
        fragmentation < (double)FF_SATURATED ? (int64_t)fragmentation : FF_SATURATED;
    memory->runtime_bytes = ff_add(ff_add(memory->context_bytes, memory->communicator_bytes),
                                   memory->fragmentation_bytes);
}

void ff_ledger_stage(const ff_model *model, const ff_layout *layout, int64_t seq,
                     const ff_memory_blocks *blocks, const ff_runtime_memory *runtime,
                     int64_t stage, ff_stage_memory *memory) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    sums s = {.model = model, .layout = layout, .blocks = blocks};
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        add_chunk(&s, stage, chunk,
                  ff_schedule_in_flight_of_chunk(&shape, (int32_t)stage, (int32_t)chunk));
    ff_state_bytes state = ff_state_of(layout, s.params);
    *memory = (ff_stage_memory){
        .weights_bytes = state.weights,
        .gradients_bytes = state.gradients,
        .optimizer_bytes = state.optimizer,
        .activations_bytes = ff_add(s.kept_bytes, s.working_bytes),
        .params = s.params,
        .in_flight = s.in_flight,
        .kept_bytes = s.kept_bytes,
        .working_bytes = s.working_bytes,
    };
    fill_buffers(&s, seq, memory);
    fill_runtime(model, layout, runtime, memory);
    int64_t states = ff_add(ff_add(state.weights, state.gradients), state.optimizer);
    int64_t moving = ff_add(memory->activations_bytes, memory->buffers_bytes);
    memory->total_bytes = ff_add(ff_add(states, moving), memory->runtime_bytes);
}

ff_verdict ff_ledger_verdict(int64_t peak_bytes, int64_t capacity_bytes, int64_t margin_bytes) {
    int64_t margin = margin_bytes > 0
                         ? margin_bytes
                         : ff_max(capacity_bytes / 20, INT64_C(3) * 1024 * 1024 * 1024);
    if (peak_bytes > capacity_bytes)
        return FF_TOO_BIG;
    return peak_bytes > capacity_bytes - margin ? FF_TIGHT : FF_FITS;
}

const char *ff_verdict_name(ff_verdict verdict) {
    static const char *const names[] = {"fits", "tight", "too_big"};
    return names[verdict];
}
