/* State bytes: each part of a parameter's state is divided by its shard group from the ZeRO stage
 * on that shards it (1 optimizer, 2 gradients, 3 weights). Dense and expert tensors have groups of
 * their own: with edp = 1 experts are not sharded at all. Resident ZeRO-3 adds the gathered weights
 * and full gradients that stay for the whole step (torchtitan under PP). Accumulation as a tree has the
 * buffer that accumulates several times. Shares are rounded up. */
#include "memory/state.h"

#include "base/number.h"
#include "layout/recipe.h"

static int64_t part(int64_t params, int bytes, bool sharded, int64_t ranks) {
    return ff_mul(ff_ceil_div(params, sharded ? ranks : 1), bytes);
}

static void add_state(ff_state_bytes *state, const ff_layout *layout, const ff_recipe_bytes *recipe,
                      int64_t params, int64_t ranks) {
    bool resident = layout->zero == 3 && layout->zero3_weights == FF_ZERO3_RESIDENT && ranks > 1;
    int64_t weights = part(params, recipe->weight, layout->zero >= 3, ranks);
    int64_t gradients = part(params, recipe->gradient, layout->zero >= 2, ranks);
    int64_t accumulating = resident ? ff_mul(params, recipe->gathered_gradient) : gradients;
    if (resident) {
        weights = ff_add(weights, ff_mul(params, recipe->gathered_weight));
        gradients = ff_add(gradients, accumulating);
    }
    int64_t partial_sums = ff_mul(accumulating, ff_layout_gradient_buffers(layout) - 1);
    gradients = ff_add(gradients, partial_sums);
    int buffer = layout->zero == 1 || layout->zero == 2 ? recipe->gather_buffer : 0;
    weights = ff_add(weights, ff_mul(ff_ceil_div(params, ranks), buffer));
    state->weights = ff_add(state->weights, weights);
    state->gradients = ff_add(state->gradients, gradients);
    state->optimizer =
        ff_add(state->optimizer, part(params, recipe->optimizer, layout->zero >= 1, ranks));
    state->in_step =
        ff_add(state->in_step, part(params, recipe->in_step, layout->zero >= 1, ranks));
}

ff_state_bytes ff_state_of(const ff_layout *layout, ff_shard_params params) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(layout->recipe);
    ff_state_bytes state = {0};
    add_state(&state, layout, recipe, params.dense, ff_dense_shard_ranks(layout));
    add_state(&state, layout, recipe, params.expert, ff_expert_shard_ranks(layout));
    return state;
}
