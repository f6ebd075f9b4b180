/* Weights on one rank: which part of each tensor tp, ep and etp leave there.
 *
 * The vocabulary is padded to a multiple of 128*tp (Megatron); norms, router and MLA's
 * down-projections are replicated over tp; a KV head is replicated when tp exceeds the KV heads;
 * whole experts are dealt over ep. What ZeRO does comes after: dense tensors are sharded over
 * dp*cp, experts over edp. */
#include "fivefold/layer.h"

#include "base/number.h"

int64_t ff_padded_vocab(int64_t vocab, int64_t tp) {
    return ff_round_up(vocab, ff_mul(128, tp));
}

int64_t ff_tensor_shard_elements(const ff_tensor *tensor, int64_t tp, int64_t ep, int64_t etp) {
    int64_t row = ff_mul(tensor->columns, tensor->count);
    switch (tensor->shard) {
    case FF_SHARD_TP:
        return ff_ceil_div(ff_tensor_elements(tensor), tp);
    case FF_SHARD_TP_KV: /* a rank holds whole heads, at least one */
        return ff_mul(ff_tensor_elements(tensor) / tensor->kv_heads,
                      ff_ceil_div(tensor->kv_heads, tp));
    case FF_SHARD_VOCAB:
        return ff_mul(ff_padded_vocab(tensor->rows, tp) / tp, row);
    case FF_SHARD_EXPERT:
    case FF_SHARD_EXPERT_WHOLE: {
        int64_t experts = ff_ceil_div(tensor->count, ep);
        int64_t all = ff_mul3(tensor->rows, tensor->columns, experts);
        return tensor->shard == FF_SHARD_EXPERT ? ff_ceil_div(all, etp) : all;
    }
    default:
        return ff_tensor_elements(tensor);
    }
}

static ff_shard_params sum(const ff_tensor *tensors, int count, int64_t tp, int64_t ep,
                           int64_t etp) {
    ff_shard_params params = {0};
    for (int i = 0; i < count; i++) {
        int64_t elements = ff_tensor_shard_elements(&tensors[i], tp, ep, etp);
        bool expert =
            tensors[i].shard == FF_SHARD_EXPERT || tensors[i].shard == FF_SHARD_EXPERT_WHOLE;
        if (expert)
            params.expert = ff_add(params.expert, elements);
        else
            params.dense = ff_add(params.dense, elements);
        if (tensors[i].shard == FF_SHARD_REPLICATED)
            params.replicated = ff_add(params.replicated, elements);
    }
    return params;
}

ff_shard_params ff_layer_shard_params(const ff_model *model, int kind, int64_t tp, int64_t ep,
                                      int64_t etp) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    return sum(tensors, ff_model_layer_tensors(model, kind, tensors), tp, ep, etp);
}

ff_shard_params ff_first_shard_params(const ff_model *model, int64_t tp) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    return sum(tensors, ff_model_first_tensors(model, tensors), tp, 1, 1);
}

bool ff_needs_embedding_copy(const ff_model *model) {
    return model->tied_head || model->mtp_layers > 0;
}

ff_shard_params ff_last_shard_params(const ff_model *model, int64_t tp, bool last_of_several) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    ff_shard_params params = sum(tensors, ff_model_last_tensors(model, tensors), tp, 1, 1);
    if (last_of_several && ff_needs_embedding_copy(model))
        params.dense = ff_add(
            params.dense, ff_mul(ff_padded_vocab(model->vocab, tp) / tp, model->embedding_width));
    return params;
}

ff_shard_params ff_mtp_shard_params(const ff_model *model, int64_t tp, int64_t ep, int64_t etp) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    ff_shard_params params = sum(tensors, ff_model_mtp_tensors(model, tensors), tp, ep, etp);
    for (int i = 0; i < model->mtp_layers; i++) {
        ff_shard_params layer = ff_layer_shard_params(model, model->mtp_kind, tp, ep, etp);
        params.dense = ff_add(params.dense, layer.dense);
        params.expert = ff_add(params.expert, layer.expert);
        params.replicated = ff_add(params.replicated, layer.replicated);
    }
    return params;
}
