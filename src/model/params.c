/* Counts of a model, all summed from the tensor tables (tensors.c), and model FLOP a token.
 *
 * Active parameters: everything dense, router, shared experts, the chosen experts; embedding and
 * head both. P_matmul: the GEMM weights among them, with the head's GEMM also where the head is
 * tied. Multi-token-prediction blocks stand in their own class and in neither total nor FLOP.
 *
 * Model FLOP a token, forward and backward (docs/model.md A: 2 FLOP a
 * multiply-add, backward twice forward):
 *
 *     6 * P_matmul
 *     + softmax and MLA:   12 * heads * (qk + v)/2 * mean context, a layer
 *     + linear attention:  18 * value_heads * key_dim * value_dim + 6 * kernel * channels, a layer
 *
 * The state of linear attention (key_dim x value_dim a value head) takes three products a token
 * forward: read by the key, write the difference, read by the query; the chunked kernels that run
 * in practice do more, which is their overhead, not the model's work. Norms, activations, softmax
 * and the router's choice are not counted, as everywhere in the literature.
 *
 * Conventions: FULL does not halve causal attention (Chowdhery 2022, PaLM; Narayanan 2021);
 * CAUSAL takes the exact mean context. Check: Llama 8B at 8192 tokens: 57.9 or 51.5 GFLOP. */
#include "fivefold/model.h"

#include "base/number.h"
#include <stddef.h>

/* The share of a tensor that one token meets, times its elements. */
static int64_t active_elements(const ff_tensor *tensor, const ff_moe *moe) {
    if (tensor->tensor_class != FF_CLASS_EXPERTS)
        return ff_tensor_elements(tensor);
    int64_t copies_of_expert = tensor->count / moe->experts;
    return ff_mul3(tensor->rows, tensor->columns, ff_mul(copies_of_expert, moe->experts_per_token));
}

static void count_tensors(ff_model_count *count, const ff_tensor *tensors, int n, const ff_moe *moe,
                          int64_t times) {
    for (int i = 0; i < n; i++) {
        int64_t elements = ff_mul(ff_tensor_elements(&tensors[i]), times);
        int64_t active = ff_mul(active_elements(&tensors[i], moe), times);
        int64_t *class_sum = &count->by_class[tensors[i].tensor_class];
        *class_sum = ff_add(*class_sum, elements);
        count->total = ff_add(count->total, elements);
        count->active = ff_add(count->active, active);
        if (tensors[i].matmul)
            count->matmul = ff_add(count->matmul, active);
    }
}

static int64_t mtp_elements(const ff_model *model) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    ff_model_count count = {0};
    if (model->mtp_layers == 0)
        return 0;
    int n = ff_model_layer_tensors(model, model->mtp_kind, tensors);
    count_tensors(&count, tensors, n, &model->kind[model->mtp_kind].moe, model->mtp_layers);
    n = ff_model_mtp_tensors(model, tensors);
    count_tensors(&count, tensors, n, NULL, 1);
    return count.total;
}

void ff_model_params(const ff_model *model, ff_model_count *count) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    *count = (ff_model_count){0};
    int n = ff_model_first_tensors(model, tensors);
    count_tensors(count, tensors, n, NULL, 1);
    for (int kind = 0; kind < model->kinds; kind++) {
        n = ff_model_layer_tensors(model, kind, tensors);
        count_tensors(count, tensors, n, &model->kind[kind].moe,
                      ff_model_layers_of_kind(model, kind));
    }
    n = ff_model_last_tensors(model, tensors);
    count_tensors(count, tensors, n, NULL, 1);
    if (model->tied_head)
        count->matmul = ff_add(count->matmul, ff_mul(model->vocab, model->embedding_width));
    count->by_class[FF_CLASS_MTP] = mtp_elements(model);
}

/* Sum over the queries of one run of `length` tokens of the keys each meets, all before it. */
static double causal_keys(double length) {
    return length * (length + 1) / 2;
}

double ff_attention_context(const ff_attention *attention, int64_t seq,
                            ff_flop_convention convention) {
    double s = (double)seq, w = (double)attention->window;
    if (attention->type == FF_ATTENTION_LINEAR || seq == 0)
        return 0;
    bool limited = attention->window > 0 && attention->window < seq;
    if (convention == FF_FLOP_FULL)
        return limited ? w : s;
    if (!limited)
        return causal_keys(s) / s;
    if (!attention->chunked)
        return w - w * (w - 1) / (2 * s);
    double chunks = (double)(seq / attention->window), rest = (double)(seq % attention->window);
    return (chunks * causal_keys(w) + causal_keys(rest)) / s;
}

static double attention_flop(const ff_attention *a, int64_t seq, ff_flop_convention convention) {
    if (a->type == FF_ATTENTION_LINEAR) {
        double keys = (double)a->key_heads * (double)a->key_dim;
        double values = (double)a->value_heads * (double)a->value_dim;
        double state = (double)a->key_dim * values;
        return 18 * state + 6 * (double)a->conv_kernel * (2 * keys + values);
    }
    double width = (double)a->heads * (double)(a->qk_head_dim + a->v_head_dim) / 2;
    return 12 * width * ff_attention_context(a, seq, convention);
}

double ff_model_flop_per_token(const ff_model *model, int64_t seq, ff_flop_convention convention) {
    ff_model_count count;
    ff_model_params(model, &count);
    double flop = 6 * (double)count.matmul;
    for (int kind = 0; kind < model->kinds; kind++)
        flop += ff_model_layers_of_kind(model, kind) *
                attention_flop(&model->kind[kind].attention, seq, convention);
    return flop;
}

int ff_model_layers_of_kind(const ff_model *model, int kind) {
    int count = 0;
    for (int i = 0; i < model->layers; i++)
        count += model->layer_kind[i] == kind;
    return count;
}

int ff_model_moe_layers(const ff_model *model) {
    int count = 0;
    for (int i = 0; i < model->layers; i++)
        count += model->kind[model->layer_kind[i]].moe.experts > 0;
    return count;
}

const ff_layer_kind *ff_model_moe_kind(const ff_model *model) {
    for (int kind = 0; kind < model->kinds; kind++)
        if (model->kind[kind].moe.experts > 0)
            return &model->kind[kind];
    return NULL;
}
