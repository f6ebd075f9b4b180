/* What each stage holds: layers by chunk, embedding and head, and the weights of one rank.
 *
 *     model chunks   0 1 2 3 4 5 6 7        pp 4, vpp 2
 *     stage          0 1 2 3 0 1 2 3        where chunks lie is the schedule's
 *
 * The embedding is in the first chunk of the model, final norm, MTP blocks and head in the last. Of
 * `recompute=full:N` the first N layers of a stage, in model order, are recomputed; N may be given for
 * each stage. */
#include "fivefold/program.h"

#include "base/number.h"
#include "layout/recipe.h"

static int first_layer_of(const ff_layout *layout, int64_t model_chunk) {
    int first = 0;
    for (int64_t i = 0; i < model_chunk; i++)
        first += layout->layers_of_chunk[i];
    return first;
}

static int64_t position_of(const ff_layout *layout, int64_t stage, int64_t chunk) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    return ff_schedule_position(&shape, (int32_t)stage, (int32_t)chunk);
}

/* With pp > 1 tied weights lie twice, unless one stage holds both ends of the model. */
bool ff_program_copies_embedding(const ff_layout *layout) {
    int64_t chunks = ff_layout_model_chunks(layout);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        if (position_of(layout, 0, chunk) == chunks - 1)
            return false;
    return true;
}

/* Layers of the stage in its chunks before this one. */
static int64_t layers_before(const ff_layout *layout, int64_t stage, int64_t chunk) {
    int64_t before = 0;
    for (int64_t j = 0; j < chunk; j++)
        before += layout->layers_of_chunk[position_of(layout, stage, j)];
    return before;
}

static int64_t recomputed_in(const ff_layout *layout, int64_t stage, int64_t chunk,
                             int64_t layers) {
    if (layout->recompute != FF_RECOMPUTE_FULL)
        return 0;
    bool by_stage = layout->recompute_stages > 0;
    if (!by_stage && layout->recompute_layers == 0)
        return layers;
    int64_t count = by_stage ? layout->recompute_of_stage[stage] : layout->recompute_layers;
    int64_t left = count - layers_before(layout, stage, chunk);
    return ff_max(0, ff_min(layers, left));
}

void ff_program_chunk(const ff_model *model, const ff_layout *layout, int64_t stage, int64_t chunk,
                      ff_chunk_content *content) {
    int64_t model_chunk = position_of(layout, stage, chunk);
    *content = (ff_chunk_content){
        .first_layer = first_layer_of(layout, model_chunk),
        .layers = layout->layers_of_chunk[model_chunk],
        .embedding = model_chunk == 0,
        .head = model_chunk == ff_layout_model_chunks(layout) - 1,
    };
    int64_t recomputed = recomputed_in(layout, stage, chunk, content->layers);
    for (int i = 0; i < content->layers; i++) {
        int kind = model->layer_kind[content->first_layer + i];
        content->of_kind[kind]++;
        content->recomputed_of_kind[kind] += i < recomputed;
    }
}

static void add_params(ff_shard_params *sum, ff_shard_params more, int64_t times) {
    sum->dense = ff_add(sum->dense, ff_mul(more.dense, times));
    sum->expert = ff_add(sum->expert, ff_mul(more.expert, times));
    sum->replicated = ff_add(sum->replicated, ff_mul(more.replicated, times));
}

ff_shard_params ff_program_stage_params(const ff_model *model, const ff_layout *layout,
                                        int64_t stage) {
    ff_shard_params sum = {0}, of_kind[FF_MODEL_MAX_KINDS];
    for (int k = 0; k < model->kinds; k++)
        of_kind[k] = ff_layer_shard_params(model, k, layout->tp, layout->ep, layout->etp);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
        ff_chunk_content content;
        ff_program_chunk(model, layout, stage, chunk, &content);
        for (int k = 0; k < model->kinds; k++)
            add_params(&sum, of_kind[k], content.of_kind[k]);
        if (content.embedding)
            add_params(&sum, ff_first_shard_params(model, layout->tp), 1);
        if (content.head) {
            add_params(&sum,
                       ff_last_shard_params(model, layout->tp, ff_program_copies_embedding(layout)),
                       1);
            add_params(&sum, ff_mtp_shard_params(model, layout->tp, layout->ep, layout->etp), 1);
        }
    }
    return sum;
}

ff_layer_shape ff_program_layer_shape(const ff_layout *layout, const ff_program_options *options,
                                      bool recomputed) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    bool selective = layout->recompute == FF_RECOMPUTE_SELECTIVE;
    return (ff_layer_shape){
        .seq = options->seq,
        .sequences = layout->mbs,
        .tp = layout->tp,
        .cp = layout->cp,
        .ep = layout->ep,
        .etp = layout->etp,
        .ulysses = layout->ulysses,
        .sp = layout->sp == 1,
        .cp_kind = layout->cp_kind,
        .recompute = recomputed  ? FF_RECOMPUTE_FULL
                     : selective ? FF_RECOMPUTE_SELECTIVE
                                 : FF_RECOMPUTE_NONE,
        .modules = selective ? layout->recompute_modules : 0,
        .activation_bytes = recipe->activation,
        .gemm_input_bytes = recipe->gemm_input,
        .weight_cast_bytes = recipe->weight_cast,
        .gradient_cast_bytes = recipe->gradient_casts,
        .input_cast_bytes = recipe->input_cast,
        .imbalance = options->imbalance,
        .kernels = options->kernels,
    };
}
