/* The attention block of a layer: softmax attention (MHA, GQA, MQA) and MLA; linear attention
 * stands in linear.c.
 *
 *     x [T/t,h] -AG-> qkv GEMM -> [qk norm] -> rope -> {CP} -> core -> {CP} -> out GEMM -RS->
 * [T/t,h]
 *
 * Model, sources: docs/model.md C; FLOP of the core 2*T*context*heads*(d_qk+d_v), context the
 * mean number of keys a query meets; the backward of a flash kernel costs 2.5 forwards, since it
 * computes the scores again (Dao 2023, 2307.08691). A KV head is replicated when tp exceeds the KV
 * heads. Ring context parallelism sends the local K and V c-1 times, and in backward K, V again and
 * dK, dV c-1 times (TransformerEngine). Zigzag placement gives every rank the mean work; a plain
 * ring's last rank does (2c-1)/c of it. In a balanced ring ranks without keys left to attend to take
 * blocks of others: half of the steps, the last of which leaves half of an even ring idle
 * (DistFlashAttention, 2310.03294). Ulysses replicates KV heads up to its group's size.
 *
 * Assumption: an unfused core computes all S keys of every query, masked or not. */
#include "layer/linear.h"
#include "layer/list.h"

#include "base/number.h"

typedef struct core {
    const ff_attention *attention;
    int64_t tokens, heads, kv_heads; /* of the rank */
    int64_t qk_dim, v_dim;
    int64_t ring, ulysses; /* ranks of the two parts of CP */
    bool gathers_kv;       /* all-gather CP */
} core;

static int64_t local_kv_heads(const ff_attention *attention, int64_t tp) {
    return ff_max(1, ff_ceil_div(attention->kv_heads, tp));
}

static core core_of(const layer_view *view, const ff_attention *attention) {
    const ff_layer_shape *shape = view->shape;
    bool ulysses = shape->cp_kind == FF_CP_ULYSSES || shape->cp_kind == FF_CP_HYBRID;
    int64_t group = ulysses ? ff_min(shape->ulysses, shape->cp) : 1;
    return (core){
        .attention = attention,
        .tokens = view->tokens,
        .heads = ff_ceil_div(attention->heads, shape->tp),
        .kv_heads = attention->type == FF_ATTENTION_MLA ? ff_ceil_div(attention->heads, shape->tp)
                                                        : local_kv_heads(attention, shape->tp),
        .qk_dim = attention->qk_head_dim,
        .v_dim = attention->v_head_dim,
        .ring = shape->cp / group,
        .ulysses = group,
        .gathers_kv = shape->cp_kind == FF_CP_ALLGATHER,
    };
}

static int64_t query_elements(const core *c) {
    return ff_mul3(c->tokens, c->heads, c->qk_dim);
}

/* K and V of the local tokens, with heads replicated as Ulysses needs them. */
static int64_t key_value_elements(const core *c) {
    return ff_mul3(c->tokens, ff_max(c->kv_heads, c->ulysses), c->qk_dim + c->v_dim);
}

static int64_t output_elements(const core *c) {
    return ff_mul3(c->tokens, c->heads, c->v_dim);
}

/* Work of the rank that all wait for, over the mean. */
static double busiest_rank(const ff_layer_shape *shape) {
    double c = (double)shape->cp;
    if (shape->cp_kind == FF_CP_RING_PLAIN && shape->cp > 1)
        return (2 * c - 1) / c;
    if (shape->cp_kind == FF_CP_RING_BALANCED && shape->cp % 2 == 0)
        return (c + 1) / c;
    return 1;
}

static double core_flop(const layer_view *view, const core *c) {
    const ff_layer_shape *shape = view->shape;
    double context = shape->kernels.flash_attention
                         ? ff_attention_context(c->attention, shape->seq, FF_FLOP_CAUSAL)
                         : (double)shape->seq;
    double flop = 2.0 * (double)c->tokens * context * (double)(c->heads * (c->qk_dim + c->v_dim));
    return flop * busiest_rank(shape);
}

/* Elements of the scores matrix, which only an unfused core writes to memory. */
static int64_t score_elements(const layer_view *view, const core *c) {
    return ff_mul3(c->tokens, c->heads, view->shape->seq);
}

static double core_bytes(const layer_view *view, const core *c, double score_moves) {
    double inputs = (double)(query_elements(c) + key_value_elements(c) + output_elements(c));
    double scores =
        view->shape->kernels.flash_attention ? 0 : score_moves * (double)score_elements(view, c);
    return (inputs + scores) * view->element_bytes;
}

/* Times that an unfused core moves the scores, forward, and half of what its backward does: written,
 * softmax in and out, dropout in and out, read; an eager softmax casts, scales and masks apart. */
static double softmax_moves(const layer_view *view) {
    return view->shape->kernels.eager_softmax ? 14 : 6;
}

/* A flash kernel computes the scores again in backward. */
static double backward_forwards(const layer_view *view) {
    return view->shape->kernels.flash_attention ? 2.5 : 2;
}

/* Reads and writes of an element by rotary embedding: eager code multiplies by the cosine, halves,
 * negates, joins, multiplies by the sine and adds, a kernel each. */
static double rope_moves(const layer_view *view) {
    return view->shape->kernels.eager_rope && view->model->position_rows == 0 ? 11 : 2;
}

static int64_t ring_steps(const layer_view *view, const core *c) {
    return view->shape->cp_kind == FF_CP_RING_BALANCED ? c->ring / 2 : c->ring - 1;
}

/* A rank that takes a block of another's fetches its queries and returns the output, each in its own
 * direction, either of which may be more than keys and values; all wait for it. */
static int64_t ring_elements(const layer_view *view, const core *c) {
    int64_t keys = key_value_elements(c);
    bool helps = view->shape->cp_kind == FF_CP_RING_BALANCED;
    return helps ? ff_max(keys, ff_max(query_elements(c), output_elements(c))) : keys;
}

/* Ring steps beside the attention blocks, then Ulysses' exchange of heads for tokens. */
static void exchange_keys(layer_view *view, const core *c, ff_phase phase, int behind) {
    unsigned module = phase == FF_PHASE_FORWARD ? FF_MODULE_CORE : 0;
    exchange ring = {.name = "attention.ring",
                     .collective = FF_SEND_RECEIVE,
                     .group = FF_AXES(FF_AXIS_CP),
                     .outer = c->ulysses > 1,
                     .elements = ring_elements(view, c),
                     .calls = ring_steps(view, c) * (phase == FF_PHASE_FORWARD ? 1 : 2),
                     .timing = FF_TIMING_IN_OPERATOR,
                     .behind = behind,
                     .module = module};
    if (!c->gathers_kv)
        list_exchange(view, phase, c->ring, &ring);
}

static void gather_keys(layer_view *view, const core *c, ff_phase phase) {
    exchange gather = {.name = "attention.kv all-gather",
                       .collective = FF_ALL_GATHER,
                       .group = FF_AXES(FF_AXIS_CP),
                       .elements = ff_mul(key_value_elements(c), c->ring),
                       .module = phase == FF_PHASE_FORWARD ? FF_MODULE_CORE : 0};
    if (c->gathers_kv)
        list_exchange(view, phase, c->ring, &gather);
}

static void scatter_key_gradients(layer_view *view, const core *c) {
    exchange scatter = {.name = "attention.dkv reduce-scatter",
                        .collective = FF_REDUCE_SCATTER,
                        .group = FF_AXES(FF_AXIS_CP),
                        .elements = ff_mul(key_value_elements(c), c->ring)};
    if (c->gathers_kv)
        list_exchange(view, FF_PHASE_BACKWARD, c->ring, &scatter);
}

static void swap(layer_view *view, const core *c, ff_phase phase, const char *name,
                 int64_t elements) {
    exchange e = {.name = name,
                  .collective = FF_ALL_TO_ALL,
                  .group = FF_AXES(FF_AXIS_CP),
                  .elements = elements};
    list_exchange(view, phase, c->ulysses, &e);
}

static void swap_inputs(layer_view *view, const core *c, ff_phase phase) {
    int64_t rows = ff_mul(c->tokens, ff_max(c->kv_heads, c->ulysses));
    swap(view, c, phase, "attention.q all-to-all", query_elements(c));
    swap(view, c, phase, "attention.k all-to-all", ff_mul(rows, c->qk_dim));
    swap(view, c, phase, "attention.v all-to-all", ff_mul(rows, c->v_dim));
}

static void swap_output(layer_view *view, const core *c, ff_phase phase) {
    swap(view, c, phase, "attention.o all-to-all", output_elements(c));
}

static void save_core(layer_view *view, const core *c) {
    int64_t rows = ff_mul(c->tokens, c->heads), scores = score_elements(view, c);
    list_save(view, &(saving){"query", query_elements(c), 0, 0, FF_PHASE_BACKWARD, "tp cp"});
    list_save(view, &(saving){"key and value", key_value_elements(c), 0, 0, FF_PHASE_BACKWARD,
                              "tp (up to the KV heads) cp"});
    if (view->shape->kernels.eager_rope && view->model->position_rows == 0)
        list_save(view,
                  &(saving){"rotated halves", ff_add(2 * query_elements(c), key_value_elements(c)),
                            0, 0, FF_PHASE_BACKWARD, "tp cp"});
    list_save(view, &(saving){"attention output", output_elements(c), view->shape->gemm_input_bytes,
                              0, FF_PHASE_WEIGHT, "tp cp"});
    if (view->shape->kernels.flash_attention) {
        list_save(view,
                  &(saving){"log-sum-exp", rows, 4, FF_MODULE_CORE, FF_PHASE_BACKWARD, "tp cp"});
        return;
    }
    list_save(view, &(saving){"softmax", scores, 0, FF_MODULE_CORE, FF_PHASE_BACKWARD, "tp cp"});
    if (view->shape->kernels.eager_softmax)
        list_save(view,
                  &(saving){"fp32 softmax", scores, 4, FF_MODULE_CORE, FF_PHASE_BACKWARD, "tp cp"});
    if (!view->model->dropout)
        return;
    list_save(view, &(saving){"attention dropout mask", scores, 1, FF_MODULE_CORE,
                              FF_PHASE_BACKWARD, "tp cp"});
    list_save(view, &(saving){"attention dropout output", scores, 0, FF_MODULE_CORE,
                              FF_PHASE_BACKWARD, "tp cp"});
}

/* The projections that make Q, K and V: one fused GEMM, or MLA's low-rank pairs. */
enum { MOST_PROJECTIONS = 4 };
typedef struct projections {
    int count;
    product p[MOST_PROJECTIONS]; /* in order of execution; the first `low_rank` on shard tokens */
    int low_rank;
    int64_t gathered_width; /* elements a token of what SP gathers before them */
} projections;

static projections fused_projection(const layer_view *view, const core *c) {
    int64_t query = c->heads * c->qk_dim * (c->attention->output_gate ? 2 : 1);
    int64_t width = query + c->kv_heads * (c->qk_dim + c->v_dim);
    return (projections){.count = 1,
                         .p = {{"attention.qkv", "attention.qkv dX", "attention.qkv dW",
                                view->tokens, width, view->model->hidden, 1, 0}},
                         .gathered_width = view->model->hidden};
}

static projections mla_projections(const layer_view *view, const core *c) {
    const ff_attention *a = c->attention;
    int64_t h = view->model->hidden, rows = view->shard_tokens;
    int64_t latent = a->kv_lora_rank + a->rope_head_dim;
    int64_t nope = a->qk_head_dim - a->rope_head_dim;
    product kv_down = {
        "attention.kv down", "attention.kv down dX", "attention.kv down dW", rows, latent, h, 1, 0};
    product kv_up = {"attention.kv up",
                     "attention.kv up dX",
                     "attention.kv up dW",
                     view->tokens,
                     c->heads * (nope + a->v_head_dim),
                     a->kv_lora_rank,
                     1,
                     0};
    if (a->q_lora_rank == 0) {
        product query = {"attention.q",
                         "attention.q dX",
                         "attention.q dW",
                         view->tokens,
                         c->heads * c->qk_dim,
                         h,
                         1,
                         0};
        return (projections){3, {kv_down, query, kv_up}, 1, h + latent};
    }
    product q_down = {"attention.q down",
                      "attention.q down dX",
                      "attention.q down dW",
                      rows,
                      a->q_lora_rank,
                      h,
                      1,
                      0};
    product q_up = {"attention.q up",
                    "attention.q up dX",
                    "attention.q up dW",
                    view->tokens,
                    c->heads * c->qk_dim,
                    a->q_lora_rank,
                    1,
                    0};
    return (projections){4, {q_down, kv_down, q_up, kv_up}, 2, a->q_lora_rank + latent};
}

static projections projections_of(const layer_view *view, const core *c) {
    return c->attention->type == FF_ATTENTION_MLA ? mla_projections(view, c)
                                                  : fused_projection(view, c);
}

static product output_projection(const layer_view *view, const core *c) {
    return (product){"attention.out",
                     "attention.out dX",
                     "attention.out dW",
                     view->tokens,
                     view->model->hidden,
                     c->heads * c->v_dim,
                     1,
                     FF_MODULE_ALTERNATE};
}

/* Each latent is kept as the down-projection wrote it (its norm's input) and as the norm wrote it
 * (the up-projection's input). */
static void save_latents(layer_view *view, const ff_attention *a) {
    int64_t rows = view->shard_tokens;
    const char *axes = view->shape->sp ? "tp cp" : "cp";
    int64_t down = ff_mul(rows, a->q_lora_rank + a->kv_lora_rank + a->rope_head_dim);
    int64_t normed = ff_mul(rows, a->q_lora_rank + a->kv_lora_rank);
    list_memory(view, "attention.latent norm", FF_PHASE_FORWARD, 2.0 * (double)normed,
                FF_MODULE_NORM);
    list_save(view, &(saving){"latents", down, 0, 0, FF_PHASE_BACKWARD, axes});
    list_save(view, &(saving){"normed latents", normed, view->shape->gemm_input_bytes, 0,
                              FF_PHASE_WEIGHT, axes});
}

static void qk_norm_forward(layer_view *view, const core *c) {
    if (c->attention->qk_norm == FF_QK_NORM_NONE)
        return;
    int64_t keys = ff_mul3(c->tokens, c->kv_heads, c->qk_dim);
    int64_t elements = ff_add(query_elements(c), keys);
    list_memory(view, "attention.qk norm", FF_PHASE_FORWARD, 2.0 * (double)elements, 0);
    list_save(view, &(saving){"qk norm input", elements, 0, 0, FF_PHASE_BACKWARD, "tp cp"});
}

/* The gate, and the gated output that the output projection reads beside what the core wrote. */
static void save_gate(layer_view *view, const core *c) {
    int64_t elements = output_elements(c);
    if (!c->attention->output_gate)
        return;
    list_memory(view, "attention.output gate", FF_PHASE_FORWARD, 3.0 * (double)elements, 0);
    list_save(view, &(saving){"attention gate", elements, 0, 0, FF_PHASE_BACKWARD, "tp cp"});
    list_save(view, &(saving){"gated attention output", elements, view->shape->gemm_input_bytes, 0,
                              FF_PHASE_WEIGHT, "tp cp"});
}

/* What the kernel sees: `batch` heads of sequences, each m queries by n keys of k dimensions. */
static void shape_core(layer_view *view, const core *c, int at) {
    ff_operator *op = &view->list->op[at];
    int64_t sequences = ff_max(1, view->shape->sequences);
    op->m = ff_ceil_div(ff_mul(c->tokens, c->ulysses), sequences);
    op->n = view->shape->seq;
    op->k = c->qk_dim;
    op->batch = ff_mul(ff_max(1, c->heads / c->ulysses), sequences);
}

static void softmax_forward(layer_view *view, const ff_attention *attention) {
    core c = core_of(view, attention);
    projections p = projections_of(view, &c);
    for (int i = 0; i < p.low_rank; i++)
        list_gemm(view, &p.p[i], FF_PHASE_FORWARD);
    if (attention->type == FF_ATTENTION_MLA)
        save_latents(view, attention);
    list_tp_enter(view, "attention.all-gather", FF_PHASE_FORWARD, p.gathered_width, 0);
    for (int i = p.low_rank; i < p.count; i++)
        list_gemm(view, &p.p[i], FF_PHASE_FORWARD);
    qk_norm_forward(view, &c);
    double rotated = (double)ff_add(query_elements(&c), key_value_elements(&c) / 2);
    list_memory(view, "attention.rope", FF_PHASE_FORWARD, rope_moves(view) * rotated, 0);
    swap_inputs(view, &c, FF_PHASE_FORWARD);
    gather_keys(view, &c, FF_PHASE_FORWARD);
    int at = list_attention(view, "attention.core", FF_PHASE_FORWARD, core_flop(view, &c),
                            core_bytes(view, &c, softmax_moves(view)), FF_MODULE_CORE);
    shape_core(view, &c, at);
    exchange_keys(view, &c, FF_PHASE_FORWARD, at);
    swap_output(view, &c, FF_PHASE_FORWARD);
    save_core(view, &c);
    save_gate(view, &c);
    product out = output_projection(view, &c);
    list_gemm(view, &out, FF_PHASE_FORWARD);
    list_tp_leave(view, view->shape->sp ? "attention.reduce-scatter" : "attention.all-reduce",
                  FF_PHASE_FORWARD, 0);
}

static void project_backward(layer_view *view, const projections *p) {
    int input_gradient = -1, weight_gradient = -1;
    for (int i = p->count - 1; i >= p->low_rank; i--)
        input_gradient = list_gemm(view, &p->p[i], FF_PHASE_BACKWARD);
    list_tp_regather(view, "attention.input all-gather", p->gathered_width, input_gradient);
    for (int i = p->count - 1; i >= p->low_rank; i--)
        weight_gradient = list_gemm(view, &p->p[i], FF_PHASE_WEIGHT);
    list_tp_enter_backward(
        view, view->shape->sp ? "attention.dX reduce-scatter" : "attention.dX all-reduce",
        p->gathered_width, weight_gradient);
    for (int i = p->low_rank - 1; i >= 0; i--) {
        list_gemm(view, &p->p[i], FF_PHASE_BACKWARD);
        list_gemm(view, &p->p[i], FF_PHASE_WEIGHT);
    }
}

/* While the block runs backward it holds the gathered input and gradient (SP) and dQ, dK, dV. */
static void attention_working(layer_view *view, const core *c) {
    int64_t gathered = view->shape->sp ? 2 : 1;
    int64_t elements = ff_mul3(gathered, view->tokens, view->model->hidden);
    elements = ff_add(elements, ff_add(query_elements(c), key_value_elements(c)));
    if (c->gathers_kv)
        elements = ff_add(elements, ff_mul(2 * c->ring, key_value_elements(c)));
    else if (c->ring > 1)
        elements = ff_add(elements, ff_mul(2, key_value_elements(c)));
    list_working(view, "attention backward", ff_mul(elements, view->element_bytes));
}

static void softmax_backward(layer_view *view, const ff_attention *attention) {
    core c = core_of(view, attention);
    projections p = projections_of(view, &c);
    product out = output_projection(view, &c);
    list_tp_leave_backward(view, "attention.dY all-gather");
    list_gemm(view, &out, FF_PHASE_BACKWARD);
    list_gemm(view, &out, FF_PHASE_WEIGHT);
    if (attention->output_gate)
        list_memory(view, "attention.output gate backward", FF_PHASE_BACKWARD,
                    5.0 * (double)output_elements(&c), 0);
    swap_output(view, &c, FF_PHASE_BACKWARD);
    gather_keys(view, &c, FF_PHASE_BACKWARD);
    int at = list_attention(view, "attention.core backward", FF_PHASE_BACKWARD,
                            backward_forwards(view) * core_flop(view, &c),
                            2 * core_bytes(view, &c, softmax_moves(view)), 0);
    shape_core(view, &c, at);
    exchange_keys(view, &c, FF_PHASE_BACKWARD, at);
    scatter_key_gradients(view, &c);
    swap_inputs(view, &c, FF_PHASE_BACKWARD);
    double rotated = (double)ff_add(query_elements(&c), key_value_elements(&c) / 2);
    list_memory(view, "attention.rope backward", FF_PHASE_BACKWARD, rope_moves(view) * rotated, 0);
    if (attention->qk_norm != FF_QK_NORM_NONE)
        list_memory(view, "attention.qk norm backward", FF_PHASE_BACKWARD, 3 * rotated, 0);
    project_backward(view, &p);
    attention_working(view, &c);
}

void attention_forward(layer_view *view, const ff_attention *attention) {
    if (attention->type == FF_ATTENTION_LINEAR)
        linear_attention_forward(view, attention);
    else
        softmax_forward(view, attention);
}

void attention_backward(layer_view *view, const ff_attention *attention) {
    if (attention->type == FF_ATTENTION_LINEAR)
        linear_attention_backward(view, attention);
    else
        softmax_backward(view, attention);
}
