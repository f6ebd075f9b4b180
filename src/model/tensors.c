/* Every weight tensor of a model, as tables made from its layer kinds.
 *
 * Shapes are rows x columns as a GEMM weight has them: rows = outputs, columns = inputs. Which axis
 * divides a tensor follows from where its outputs go:
 *
 *     norm --> q k v (rows by heads) --> core --> o (columns by heads) --> + residual
 *     norm --> gate up (rows by width) --> act --> down (columns by width) --> + residual
 *
 * Biases of a row-split GEMM are split with its rows; biases of a column-split GEMM (o, down) are
 * added after the sum, so every rank holds them. The low-rank down-projections of MLA, the router
 * and norms are small and replicated (as in Megatron-LM). QK-norms over the whole projection width
 * are split with the heads.
 *
 * A tied head has no tensor; its GEMM is counted in params.c. A bias, a norm, a lookup table and
 * the short convolution of linear attention are no GEMM weights.
 *
 * Sources: the modelling files of Hugging Face transformers for each family; the exact totals in
 * data/models/params_exact.csv hold the tables against published files. */
#include "fivefold/model.h"

#include "base/number.h"

typedef struct tensor_list {
    ff_tensor *items;
    int count;
} tensor_list;

static void add(tensor_list *list, const char *name, ff_tensor_class tensor_class, ff_shard shard,
                int64_t rows, int64_t columns, int64_t count, bool matmul) {
    if (rows == 0 || columns == 0 || count == 0)
        return;
    list->items[list->count++] =
        (ff_tensor){name, tensor_class, shard, rows, columns, count, matmul, 0};
}

static void add_gemm(tensor_list *list, const char *name, ff_tensor_class tensor_class,
                     ff_shard shard, int64_t rows, int64_t columns) {
    add(list, name, tensor_class, shard, rows, columns, 1, true);
}

static void add_vector(tensor_list *list, const char *name, ff_tensor_class tensor_class,
                       ff_shard shard, int64_t rows) {
    add(list, name, tensor_class, shard, rows, 1, 1, false);
}

/* `norms` hidden-wide norms: a weight each, and a bias where it is LayerNorm. */
static void add_norms(tensor_list *list, const char *name, const ff_model *model, int norms) {
    int vectors = model->norm_unweighted ? 0 : norms * (model->norm_bias ? 2 : 1);
    add(list, name, FF_CLASS_NORMS, FF_SHARD_REPLICATED, model->hidden, 1, vectors, false);
}

static void add_qk_norms(tensor_list *list, const ff_attention *a) {
    if (a->qk_norm == FF_QK_NORM_HEAD) {
        add(list, "attention.qk_norm", FF_CLASS_NORMS, FF_SHARD_REPLICATED, a->qk_head_dim, 1, 2,
            false);
    } else if (a->qk_norm == FF_QK_NORM_WIDTH) {
        add_vector(list, "attention.q_norm", FF_CLASS_NORMS, FF_SHARD_TP,
                   ff_mul(a->heads, a->qk_head_dim));
        add_vector(list, "attention.k_norm", FF_CLASS_NORMS, FF_SHARD_TP_KV,
                   ff_mul(a->kv_heads, a->qk_head_dim));
    }
}

static void add_output(tensor_list *list, const ff_model *model, const ff_attention *a) {
    add_gemm(list, "attention.o", FF_CLASS_ATTENTION, FF_SHARD_TP, model->hidden,
             ff_mul(a->heads, a->v_head_dim));
    if (a->output_bias)
        add_vector(list, "attention.o.bias", FF_CLASS_ATTENTION, FF_SHARD_REPLICATED,
                   model->hidden);
}

/* What K and V are split by differs from layer kind to layer kind. */
static void note_kv_heads(tensor_list *list, const ff_attention *a) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i].shard == FF_SHARD_TP_KV)
            list->items[i].kv_heads = a->kv_heads;
}

static void add_softmax(tensor_list *list, const ff_model *model, const ff_attention *a) {
    int64_t q_rows = ff_mul(ff_mul(a->heads, a->qk_head_dim), a->output_gate ? 2 : 1);
    int64_t k_rows = ff_mul(a->kv_heads, a->qk_head_dim);
    int64_t v_rows = ff_mul(a->kv_heads, a->v_head_dim);
    add_gemm(list, "attention.q", FF_CLASS_ATTENTION, FF_SHARD_TP, q_rows, model->hidden);
    add_gemm(list, "attention.k", FF_CLASS_ATTENTION, FF_SHARD_TP_KV, k_rows, model->hidden);
    add_gemm(list, "attention.v", FF_CLASS_ATTENTION, FF_SHARD_TP_KV, v_rows, model->hidden);
    if (a->qkv_bias) {
        add_vector(list, "attention.q.bias", FF_CLASS_ATTENTION, FF_SHARD_TP, q_rows);
        add_vector(list, "attention.k.bias", FF_CLASS_ATTENTION, FF_SHARD_TP_KV, k_rows);
        add_vector(list, "attention.v.bias", FF_CLASS_ATTENTION, FF_SHARD_TP_KV, v_rows);
    }
    if (a->sinks)
        add_vector(list, "attention.sinks", FF_CLASS_ATTENTION, FF_SHARD_TP, a->heads);
    add_qk_norms(list, a);
    note_kv_heads(list, a);
    add_output(list, model, a);
}

/*     h --> q_a --> norm --> q_b (heads)             h --> q (heads) when q_lora_rank is 0
 *     h --> kv_a --> [kv_lora | rope]  kv_lora --> norm --> kv_b (heads: nope + v) */
static void add_mla(tensor_list *list, const ff_model *model, const ff_attention *a) {
    int64_t q_rows = ff_mul(a->heads, a->qk_head_dim);
    int64_t kv_a_rows = ff_add(a->kv_lora_rank, a->rope_head_dim);
    int64_t kv_b_rows = ff_mul(a->heads, a->qk_head_dim - a->rope_head_dim + a->v_head_dim);
    if (a->q_lora_rank == 0) {
        add_gemm(list, "attention.q", FF_CLASS_ATTENTION, FF_SHARD_TP, q_rows, model->hidden);
    } else {
        add_gemm(list, "attention.q_a", FF_CLASS_ATTENTION, FF_SHARD_REPLICATED, a->q_lora_rank,
                 model->hidden);
        add_vector(list, "attention.q_a_norm", FF_CLASS_NORMS, FF_SHARD_REPLICATED, a->q_lora_rank);
        add_gemm(list, "attention.q_b", FF_CLASS_ATTENTION, FF_SHARD_TP, q_rows, a->q_lora_rank);
    }
    add_gemm(list, "attention.kv_a", FF_CLASS_ATTENTION, FF_SHARD_REPLICATED, kv_a_rows,
             model->hidden);
    add_vector(list, "attention.kv_a_norm", FF_CLASS_NORMS, FF_SHARD_REPLICATED, a->kv_lora_rank);
    add_gemm(list, "attention.kv_b", FF_CLASS_ATTENTION, FF_SHARD_TP, kv_b_rows, a->kv_lora_rank);
    if (a->qkv_bias) {
        add_vector(list, "attention.q_a.bias", FF_CLASS_ATTENTION, FF_SHARD_REPLICATED,
                   a->q_lora_rank);
        add_vector(list, "attention.kv_a.bias", FF_CLASS_ATTENTION, FF_SHARD_REPLICATED, kv_a_rows);
    }
    add_output(list, model, a);
}

/* Gated delta rule: q, k, v through a short causal convolution, a gate z on the output, and a decay
 * and a write strength a value head (a, b, with A_log and dt_bias). */
static void add_linear(tensor_list *list, const ff_model *model, const ff_attention *a) {
    int64_t keys = ff_mul(a->key_heads, a->key_dim), values = ff_mul(a->value_heads, a->value_dim);
    int64_t qkv_rows = ff_add(ff_mul(2, keys), values);
    add_gemm(list, "attention.qkv", FF_CLASS_ATTENTION, FF_SHARD_TP, qkv_rows, model->hidden);
    add_gemm(list, "attention.z", FF_CLASS_ATTENTION, FF_SHARD_TP, values, model->hidden);
    add(list, "attention.ab", FF_CLASS_ATTENTION, FF_SHARD_TP, a->value_heads, model->hidden, 2,
        true);
    add(list, "attention.conv", FF_CLASS_ATTENTION, FF_SHARD_TP, qkv_rows, a->conv_kernel, 1,
        false);
    add(list, "attention.decay", FF_CLASS_ATTENTION, FF_SHARD_TP, a->value_heads, 1, 2, false);
    add_vector(list, "attention.gated_norm", FF_CLASS_NORMS, FF_SHARD_REPLICATED, a->value_dim);
    add_gemm(list, "attention.o", FF_CLASS_ATTENTION, FF_SHARD_TP, model->hidden, values);
}

static void add_mlp(tensor_list *list, const ff_model *model, const ff_mlp *mlp) {
    if (mlp->gated)
        add_gemm(list, "mlp.gate", FF_CLASS_MLP_DENSE, FF_SHARD_TP, mlp->width, model->hidden);
    add_gemm(list, "mlp.up", FF_CLASS_MLP_DENSE, FF_SHARD_TP, mlp->width, model->hidden);
    add_gemm(list, "mlp.down", FF_CLASS_MLP_DENSE, FF_SHARD_TP, model->hidden, mlp->width);
    if (!mlp->bias || mlp->width == 0)
        return;
    add(list, "mlp.up.bias", FF_CLASS_MLP_DENSE, FF_SHARD_TP, mlp->width, 1, mlp->gated ? 2 : 1,
        false);
    add_vector(list, "mlp.down.bias", FF_CLASS_MLP_DENSE, FF_SHARD_REPLICATED, model->hidden);
}

static void add_experts(tensor_list *list, const ff_model *model, const ff_moe *moe) {
    int64_t n = moe->experts, width = moe->expert_width, hidden = model->hidden;
    if (moe->gated)
        add(list, "experts.gate", FF_CLASS_EXPERTS, FF_SHARD_EXPERT, width, hidden, n, true);
    add(list, "experts.up", FF_CLASS_EXPERTS, FF_SHARD_EXPERT, width, hidden, n, true);
    add(list, "experts.down", FF_CLASS_EXPERTS, FF_SHARD_EXPERT, hidden, width, n, true);
    if (!moe->bias)
        return;
    add(list, "experts.up.bias", FF_CLASS_EXPERTS, FF_SHARD_EXPERT, width, 1,
        ff_mul(n, moe->gated ? 2 : 1), false);
    add(list, "experts.down.bias", FF_CLASS_EXPERTS, FF_SHARD_EXPERT_WHOLE, hidden, 1, n, false);
}

static void add_moe(tensor_list *list, const ff_model *model, const ff_moe *moe) {
    const ff_tensor_class shared = FF_CLASS_SHARED_EXPERTS;
    if (moe->experts == 0)
        return;
    add_gemm(list, "router", FF_CLASS_ROUTER, FF_SHARD_REPLICATED, moe->experts, model->hidden);
    if (moe->router_bias)
        add_vector(list, "router.bias", FF_CLASS_ROUTER, FF_SHARD_REPLICATED, moe->experts);
    add_experts(list, model, moe);
    if (moe->shared_width == 0)
        return;
    if (moe->gated)
        add_gemm(list, "shared.gate", shared, FF_SHARD_TP, moe->shared_width, model->hidden);
    add_gemm(list, "shared.up", shared, FF_SHARD_TP, moe->shared_width, model->hidden);
    add_gemm(list, "shared.down", shared, FF_SHARD_TP, model->hidden, moe->shared_width);
    if (moe->shared_gate)
        add_gemm(list, "shared.mix", shared, FF_SHARD_REPLICATED, 1, model->hidden);
}

int ff_model_layer_tensors(const ff_model *model, int kind, ff_tensor *tensors) {
    const ff_layer_kind *k = &model->kind[kind];
    tensor_list list = {tensors, 0};
    add_norms(&list, "norms", model, k->norms);
    if (k->attention.type == FF_ATTENTION_SOFTMAX)
        add_softmax(&list, model, &k->attention);
    else if (k->attention.type == FF_ATTENTION_MLA)
        add_mla(&list, model, &k->attention);
    else
        add_linear(&list, model, &k->attention);
    add_mlp(&list, model, &k->mlp);
    add_moe(&list, model, &k->moe);
    return list.count;
}

int ff_model_first_tensors(const ff_model *model, ff_tensor *tensors) {
    tensor_list list = {tensors, 0};
    add(&list, "embedding", FF_CLASS_EMBEDDING, FF_SHARD_VOCAB, model->vocab,
        model->embedding_width, 1, false);
    if (model->embedding_width != model->hidden)
        add_gemm(&list, "embedding.project_in", FF_CLASS_EMBEDDING, FF_SHARD_REPLICATED,
                 model->hidden, model->embedding_width);
    add(&list, "positions", FF_CLASS_POSITION, FF_SHARD_REPLICATED, model->position_rows,
        model->hidden, 1, false);
    if (model->embedding_norm)
        add_norms(&list, "embedding.norm", model, 1);
    return list.count;
}

int ff_model_last_tensors(const ff_model *model, ff_tensor *tensors) {
    tensor_list list = {tensors, 0};
    if (model->final_norm)
        add_norms(&list, "final_norm", model, 1);
    if (model->embedding_width != model->hidden)
        add_gemm(&list, "head.project_out", FF_CLASS_HEAD, FF_SHARD_REPLICATED,
                 model->embedding_width, model->hidden);
    if (!model->tied_head)
        add_gemm(&list, "head", FF_CLASS_HEAD, FF_SHARD_VOCAB, model->vocab,
                 model->embedding_width);
    if (model->head_bias)
        add_vector(&list, "head.bias", FF_CLASS_HEAD, FF_SHARD_VOCAB, model->vocab);
    return list.count;
}

/* A block norms the hidden state and the next token's embedding, projects both (2h -> h), runs a
 * decoder layer and a norm before the shared head. */
int ff_model_mtp_tensors(const ff_model *model, ff_tensor *tensors) {
    tensor_list list = {tensors, 0};
    int blocks = model->mtp_layers;
    add(&list, "mtp.norms", FF_CLASS_MTP, FF_SHARD_REPLICATED, model->hidden, 1,
        3 * (int64_t)blocks, false);
    add(&list, "mtp.projection", FF_CLASS_MTP, FF_SHARD_TP, model->hidden, 2 * model->hidden,
        blocks, true);
    return list.count;
}

int64_t ff_tensor_elements(const ff_tensor *tensor) {
    return ff_mul3(tensor->rows, tensor->columns, tensor->count);
}

const char *ff_tensor_class_name(ff_tensor_class tensor_class) {
    static const char *const names[] = {
        [FF_CLASS_EMBEDDING] = "embedding", [FF_CLASS_POSITION] = "position",
        [FF_CLASS_NORMS] = "norms",         [FF_CLASS_ATTENTION] = "attention",
        [FF_CLASS_MLP_DENSE] = "mlp_dense", [FF_CLASS_ROUTER] = "router",
        [FF_CLASS_EXPERTS] = "experts",     [FF_CLASS_SHARED_EXPERTS] = "shared_experts",
        [FF_CLASS_HEAD] = "head",           [FF_CLASS_MTP] = "mtp",
    };
    return names[tensor_class];
}
