/* The program's communication outside the layers, as operators: data-parallel actions, the step's
 * end and pipeline transfers. What each is for stands in sync.c's table and docs/model.md C. */
#include "fivefold/program.h"

#include "base/number.h"
#include "layout/recipe.h"

int64_t ff_bucket_count(int64_t params, int64_t ranks) {
    int64_t least = ff_max(40000000, ff_mul(1000000, ranks));
    return ff_max(1, params / least);
}

static int64_t group_ranks(const ff_layout *layout, const ff_sync *sync, bool expert) {
    int64_t shard = expert ? ff_expert_shard_ranks(layout) : ff_dense_shard_ranks(layout);
    int64_t all = expert ? layout->edp : layout->dp * layout->cp;
    if (layout->zero == 0)
        return all;
    return sync->across_replicas ? all / shard : shard;
}

bool ff_program_sync_operator(const ff_layout *layout, const ff_sync *sync, int64_t params,
                              bool expert, ff_operator *op) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    int64_t ranks = group_ranks(layout, sync, expert);
    if (ranks <= 1 || params <= 0)
        return false;
    int64_t shard = expert ? ff_expert_shard_ranks(layout) : ff_dense_shard_ranks(layout);
    *op = (ff_operator){
        .name = sync->of_weights ? "weights" : "gradients",
        .kind = FF_OPERATOR_COLLECTIVE,
        .phase = sync->moment == FF_SYNC_BEFORE_FORWARD    ? FF_PHASE_FORWARD
                 : sync->moment == FF_SYNC_AFTER_OPTIMIZER ? FF_PHASE_STEP
                                                           : FF_PHASE_BACKWARD,
        .collective = sync->collective,
        .group = expert ? FF_AXES(FF_AXIS_EDP) : FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_CP),
        .ranks = ranks,
        .outer = sync->across_replicas,
        .elements = sync->across_replicas ? ff_ceil_div(params, shard) : params,
        .calls = 1,
        .element_bytes = sync->of_weights ? recipe->weight_wire : recipe->gradient_wire,
        .timing = FF_TIMING_BEHIND_LAYERS,
        .behind = -1,
    };
    return true;
}

static ff_operator step_reduction(const char *name, ff_axes group, int64_t ranks, int64_t elements,
                                  int element_bytes) {
    return (ff_operator){.name = name,
                         .kind = FF_OPERATOR_COLLECTIVE,
                         .phase = FF_PHASE_STEP,
                         .collective = FF_ALL_REDUCE,
                         .group = group,
                         .ranks = ranks,
                         .elements = elements,
                         .calls = 1,
                         .element_bytes = element_bytes,
                         .timing = FF_TIMING_BLOCKS,
                         .behind = -1};
}

/* Stages i and p-1-i of dualpipe hold the same weights: what each rank has left of their gradients
 * after data parallelism is summed over the two. */
static ff_operator copies_reduction(const ff_model *model, const ff_layout *layout, int64_t stage) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    ff_shard_params params = ff_program_stage_params(model, layout, stage);
    bool shards = layout->zero > 0;
    int64_t dense = ff_ceil_div(params.dense, shards ? ff_dense_shard_ranks(layout) : 1);
    int64_t expert = ff_ceil_div(params.expert, shards ? ff_expert_shard_ranks(layout) : 1);
    ff_operator op = step_reduction("weight copies", FF_AXES(FF_AXIS_PP), 2, ff_add(dense, expert),
                                    recipe->gradient);
    op.outer = true;
    return op;
}

int ff_program_step_operators(const ff_model *model, const ff_layout *layout, int64_t stage,
                              int64_t replicated_params, ff_operator *ops) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    int count = 0;
    bool at_end = stage == 0 || stage == layout->pp - 1;
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    if (layout->tp > 1 && layout->sp == 1 && replicated_params > 0)
        ops[count++] = step_reduction("replicated gradients", FF_AXES(FF_AXIS_TP), layout->tp,
                                      replicated_params, recipe->gradient);
    if (ff_schedule_copies(&shape) > 1)
        ops[count++] = copies_reduction(model, layout, stage);
    if (ff_needs_embedding_copy(model) && ff_program_copies_embedding(layout) && at_end) {
        int64_t rows = ff_padded_vocab(model->vocab, layout->tp) / layout->tp;
        ops[count] = step_reduction("embedding copies", FF_AXES(FF_AXIS_PP), 2,
                                    ff_mul(rows, model->embedding_width), recipe->gradient);
        ops[count++].outer = true;
    }
    int64_t world = ff_layout_world(layout);
    ff_axes everyone =
        FF_AXES(FF_AXIS_TP) | FF_AXES(FF_AXIS_CP) | FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_PP);
    if (world > 1)
        ops[count++] = step_reduction("gradient norm", everyone, world, 1, 4);
    return count;
}

ff_operator ff_program_transfer(const ff_model *model, const ff_layout *layout, int64_t seq,
                                bool of_gradient) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    int64_t tokens = ff_ceil_div(ff_mul(seq, layout->mbs), layout->cp);
    if (layout->sp == 1)
        tokens = ff_ceil_div(tokens, layout->tp);
    return (ff_operator){.name = of_gradient ? "gradient transfer" : "activation transfer",
                         .kind = FF_OPERATOR_COLLECTIVE,
                         .phase = of_gradient ? FF_PHASE_BACKWARD : FF_PHASE_FORWARD,
                         .collective = FF_SEND_RECEIVE,
                         .group = FF_AXES(FF_AXIS_PP),
                         .ranks = layout->pp,
                         .elements = ff_mul(tokens, model->hidden),
                         .calls = 1,
                         .element_bytes = recipe->activation,
                         .timing = FF_TIMING_BLOCKS,
                         .behind = -1};
}
