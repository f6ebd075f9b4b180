/* Data-parallel actions of the ZeRO stages, as a table.
 *
 *   stage         forward of a layer   its backward             once a step
 *   0             -                    -                        all-reduce gradients
 *   1             -                    -                        reduce-scatter gradients, gather
 *   2             -                    reduce-scatter           gather weights
 *   3 stream      gather               gather, reduce-scatter   -
 *   3 resident    -                    -                        gather weights, reduce-scatter
 *
 * Experts may have replicas where dense weights have none: with tp 8 and etp 1 each TP rank holds
 * the same experts and feeds them its own tokens, so edp is 8 with dp 1.
 *
 * Choice where frameworks differ: ZeRO-2 reduce-scatters in every microbatch (DeepSpeed: (m+1)*P a
 * step), since holding full gradients until the last one would need ZeRO-1's memory. Dense weights
 * reduce over dp*cp (CP ranks hold the same weights), experts over edp; with a smaller zero_group
 * (HSDP) the shards are all-reduced over the groups besides. Sources: docs/model.md C and D;
 * Rajbhandari 2019 (1910.02054); Zhao 2023 (2304.11277). */
#include "fivefold/program.h"

#include "base/number.h"

typedef struct row {
    int zero;
    int zero3_weights; /* -1: any */
    ff_sync sync;
} row;

static const row table[] = {
    {0,
     -1,
     {FF_SYNC_AFTER_BACKWARD, FF_ALL_REDUCE, false, false, false, false,
      "every replica needs the sum of all gradients"}},
    {1,
     -1,
     {FF_SYNC_AFTER_BACKWARD, FF_REDUCE_SCATTER, false, false, false, false,
      "each rank updates its shard, so it needs the summed gradient of that shard only"}},
    {1,
     -1,
     {FF_SYNC_AFTER_OPTIMIZER, FF_ALL_GATHER, true, false, false, false,
      "every rank needs all updated weights for the next forward"}},
    {2,
     -1,
     {FF_SYNC_AFTER_BACKWARD, FF_REDUCE_SCATTER, false, true, false, false,
      "gradients are sharded at once, so that full ones never accumulate"}},
    {2,
     -1,
     {FF_SYNC_AFTER_OPTIMIZER, FF_ALL_GATHER, true, false, false, false,
      "every rank needs all updated weights for the next forward"}},
    {3,
     FF_ZERO3_STREAM,
     {FF_SYNC_BEFORE_FORWARD, FF_ALL_GATHER, true, true, true, false,
      "a layer's weights are gathered just before they are used"}},
    {3,
     FF_ZERO3_STREAM,
     {FF_SYNC_BEFORE_BACKWARD, FF_ALL_GATHER, true, true, true, false,
      "they were freed after forward and are needed again"}},
    {3,
     FF_ZERO3_STREAM,
     {FF_SYNC_AFTER_BACKWARD, FF_REDUCE_SCATTER, false, true, true, false,
      "each rank keeps the gradient of its shard only"}},
    {3,
     FF_ZERO3_RESIDENT,
     {FF_SYNC_BEFORE_FORWARD, FF_ALL_GATHER, true, false, true, false,
      "weights are gathered once and stay for all microbatches"}},
    {3,
     FF_ZERO3_RESIDENT,
     {FF_SYNC_AFTER_BACKWARD, FF_REDUCE_SCATTER, false, false, true, false,
      "full gradients accumulate and are reduced once"}},
};

static const ff_sync across = {FF_SYNC_AFTER_BACKWARD,
                               FF_ALL_REDUCE,
                               false,
                               false,
                               false,
                               true,
                               "the groups that shard apart still need one sum"};

int64_t ff_dense_shard_ranks(const ff_layout *layout) {
    return layout->zero_group > 0 ? layout->zero_group : layout->dp * layout->cp;
}

int64_t ff_expert_shard_ranks(const ff_layout *layout) {
    return ff_dense_shard_ranks(layout) == layout->dp * layout->cp
               ? layout->edp
               : ff_gcd(layout->edp, layout->zero_group);
}

int ff_program_syncs(const ff_model *model, const ff_layout *layout, ff_sync *syncs) {
    int count = 0;
    bool experts = ff_model_moe_kind(model) != NULL;
    if (layout->dp * layout->cp == 1 && !(experts && layout->edp > 1))
        return 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const row *r = &table[i];
        bool taken = r->zero == layout->zero &&
                     (r->zero3_weights < 0 || r->zero3_weights == layout->zero3_weights);
        if (taken)
            syncs[count++] = r->sync;
    }
    if (layout->zero > 0 && ff_dense_shard_ranks(layout) < layout->dp * layout->cp)
        syncs[count++] = across;
    return count;
}
