/* Appending to a layer's list. Traffic of a GEMM is its two operands read and its product written
 * once; an operator that would overflow the fixed list is a programmer error. */
#include "layer/list.h"

#include "base/number.h"
#include <assert.h>

int64_t ff_layer_tokens(const ff_layer_shape *shape) {
    return ff_ceil_div(ff_mul(shape->seq, shape->sequences), shape->cp);
}

void list_clear(ff_layer_list *list) {
    list->operators = list->tensors = list->working_sets = 0;
}

layer_view layer_view_of(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    int64_t tokens = ff_layer_tokens(shape);
    return (layer_view){
        .model = model,
        .shape = shape,
        .list = list,
        .tokens = tokens,
        .shard_tokens = shape->sp ? ff_ceil_div(tokens, shape->tp) : tokens,
        .element_bytes = shape->activation_bytes,
    };
}

static int append(ff_layer_list *list, ff_operator op) {
    assert(list->operators < FF_LAYER_MAX_OPERATORS);
    list->op[list->operators] = op;
    return list->operators++;
}

/* A weight that is kept wider than the product reads it, and its gradient. That autograd would keep the
 * copies until backward is not counted: 7B with six sequences ran on 80 GB, which has no room for them. */
static void cast_weight(layer_view *view, const product *p, ff_phase phase) {
    const ff_layer_shape *shape = view->shape;
    double moves = (double)ff_mul3(p->n, p->k, p->batch) / view->element_bytes;
    if (phase == FF_PHASE_FORWARD && shape->weight_cast_bytes > 0)
        list_memory(view, "weight cast", phase, moves * shape->weight_cast_bytes, p->module);
    if (phase == FF_PHASE_WEIGHT && shape->gradient_cast_bytes > 0)
        list_memory(view, "gradient casts", phase, moves * shape->gradient_cast_bytes, 0);
}

/* Compiled code casts within the operators that make the input, but moves the bytes. */
static void cast_input(layer_view *view, const product *p, ff_phase phase) {
    int64_t width = phase == FF_PHASE_BACKWARD ? p->n : p->k;
    double moves = (double)ff_mul3(p->m, width, p->batch) / view->element_bytes;
    if (view->shape->input_cast_bytes == 0)
        return;
    int cast = list_memory(view, "input casts", phase, moves * view->shape->input_cast_bytes,
                           phase == FF_PHASE_FORWARD ? p->module : 0);
    view->list->op[cast].fused = true;
}

int list_gemm(layer_view *view, const product *p, ff_phase phase) {
    double m = (double)p->m, n = (double)p->n, k = (double)p->k, batch = (double)p->batch;
    cast_weight(view, p, phase);
    cast_input(view, p, phase);
    ff_operator op = {
        .name = p->forward,
        .kind = FF_OPERATOR_GEMM,
        .phase = phase,
        .module = p->module,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .flop = 2 * m * n * k * batch,
        .memory_bytes = (m * k + k * n + m * n) * batch * view->element_bytes,
        .behind = -1,
    };
    if (phase == FF_PHASE_BACKWARD) { /* dX = dY * W^T */
        op.name = p->input_gradient;
        op.n = p->k;
        op.k = p->n;
    } else if (phase == FF_PHASE_WEIGHT) { /* dW = X^T * dY */
        op.name = p->weight_gradient;
        op.m = p->k;
        op.k = p->m;
    }
    return append(view->list, op);
}

int list_attention(layer_view *view, const char *name, ff_phase phase, double flop,
                   double memory_bytes, unsigned module) {
    return append(view->list, (ff_operator){.name = name,
                                            .kind = FF_OPERATOR_ATTENTION,
                                            .phase = phase,
                                            .module = module,
                                            .flop = flop,
                                            .memory_bytes = memory_bytes,
                                            .behind = -1});
}

int list_memory(layer_view *view, const char *name, ff_phase phase, double element_moves,
                unsigned module) {
    return append(view->list, (ff_operator){.name = name,
                                            .kind = FF_OPERATOR_MEMORY,
                                            .phase = phase,
                                            .module = module,
                                            .memory_bytes = element_moves * view->element_bytes,
                                            .behind = -1});
}

void list_exchange(layer_view *view, ff_phase phase, int64_t ranks, const exchange *e) {
    if (ranks <= 1)
        return;
    append(view->list, (ff_operator){.name = e->name,
                                     .kind = FF_OPERATOR_COLLECTIVE,
                                     .phase = phase,
                                     .module = e->module,
                                     .collective = e->collective,
                                     .group = e->group,
                                     .ranks = ranks,
                                     .outer = e->outer,
                                     .elements = e->elements,
                                     .calls = e->calls == 0 ? 1 : e->calls,
                                     .element_bytes = e->element_bytes == 0 ? view->element_bytes
                                                                            : e->element_bytes,
                                     .timing = e->timing,
                                     .behind = e->timing == FF_TIMING_BLOCKS ? -1 : e->behind});
}

void list_save(layer_view *view, const saving *s) {
    ff_layer_list *list = view->list;
    assert(list->tensors < FF_LAYER_MAX_TENSORS);
    list->tensor[list->tensors++] = (ff_saved_tensor){
        .name = s->name,
        .module = s->module,
        .elements = s->elements,
        .element_bytes = s->element_bytes == 0 ? view->element_bytes : s->element_bytes,
        .freed_by = s->freed_by,
        .kept = true,
        .divided_by = s->divided_by,
    };
}

void list_working(layer_view *view, const char *name, int64_t bytes) {
    ff_layer_list *list = view->list;
    assert(list->working_sets < FF_LAYER_MAX_WORKING);
    list->working[list->working_sets++] = (ff_working_set){.name = name, .bytes = bytes};
}

static exchange tp_exchange(const layer_view *view, const char *name, ff_collective collective,
                            int64_t width) {
    return (exchange){.name = name,
                      .collective = collective,
                      .group = FF_AXES(FF_AXIS_TP),
                      .elements = ff_mul(view->tokens, width),
                      .behind = -1};
}

void list_tp_enter(layer_view *view, const char *name, ff_phase phase, int64_t width,
                   unsigned module) {
    if (!view->shape->sp)
        return;
    exchange e = tp_exchange(view, name, FF_ALL_GATHER, width);
    e.element_bytes = view->shape->gemm_input_bytes; /* cast before it is gathered */
    e.module = module;
    list_exchange(view, phase, view->shape->tp, &e);
}

void list_tp_leave(layer_view *view, const char *name, ff_phase phase, unsigned module) {
    ff_collective collective = view->shape->sp ? FF_REDUCE_SCATTER : FF_ALL_REDUCE;
    exchange e = tp_exchange(view, name, collective, view->model->hidden);
    e.module = module;
    list_exchange(view, phase, view->shape->tp, &e);
}

void list_tp_leave_backward(layer_view *view, const char *name) {
    list_tp_enter(view, name, FF_PHASE_BACKWARD, view->model->hidden, 0);
}

void list_tp_regather(layer_view *view, const char *name, int64_t width,
                      int behind_input_gradient) {
    if (!view->shape->sp || view->shape->kernels.keeps_gathered)
        return;
    exchange e = tp_exchange(view, name, FF_ALL_GATHER, width);
    e.timing = FF_TIMING_BEHIND_GEMM;
    e.behind = behind_input_gradient;
    list_exchange(view, FF_PHASE_BACKWARD, view->shape->tp, &e);
}

void list_tp_enter_backward(layer_view *view, const char *name, int64_t width,
                            int behind_weight_gradient) {
    ff_collective collective = view->shape->sp ? FF_REDUCE_SCATTER : FF_ALL_REDUCE;
    exchange e = tp_exchange(view, name, collective, width);
    e.timing = FF_TIMING_BEHIND_GEMM;
    e.behind = behind_weight_gradient;
    list_exchange(view, FF_PHASE_BACKWARD, view->shape->tp, &e);
}

/* A norm reads its input and writes its output; backward reads input and incoming gradient and
 * writes the outgoing one. An eager RMS norm is ten kernels on fp32 copies: cast (3 moves of two
 * bytes), square (4), mean (2), scale (4), cast back (3), weigh (2) make 18 forward; its automatic
 * backward does each mirror and adds up two paths into the input, 45. (Hagemann 2023 runs the same
 * layouts with and without a fused kernel: 61 to 69 moves more, forward and backward.) It keeps
 * an fp32 copy besides. */
enum { EAGER_NORM_FORWARD = 18, EAGER_NORM_BACKWARD = 45 };

/* What a linear reads after SP's gather is kept as it was gathered, or as the norm wrote it. */
static bool kept_whole(const layer_view *view) {
    return view->shape->sp && view->shape->kernels.keeps_gathered;
}

/* A layer norm is one kernel in every framework. */
static bool fused_norm(const layer_view *view) {
    return view->shape->kernels.fused_norm || view->model->norm_bias;
}

void norm_forward(layer_view *view, const char *name, bool saves_output, int64_t tokens,
                  unsigned input_module) {
    int64_t elements = ff_mul(tokens, view->model->hidden);
    bool fused = fused_norm(view);
    int64_t whole = ff_mul(view->tokens, view->model->hidden);
    list_memory(view, name, FF_PHASE_FORWARD, (double)elements * (fused ? 2 : EAGER_NORM_FORWARD),
                FF_MODULE_NORM);
    const char *axes = view->shape->sp ? "tp cp" : "cp";
    list_save(view, &(saving){.name = "norm input",
                              .elements = elements,
                              .module = input_module,
                              .freed_by = FF_PHASE_BACKWARD,
                              .divided_by = axes});
    if (saves_output)
        list_save(view, &(saving){.name = "norm output",
                                  .elements = kept_whole(view) ? whole : elements,
                                  .element_bytes = view->shape->gemm_input_bytes,
                                  .module = FF_MODULE_NORM,
                                  .freed_by = FF_PHASE_WEIGHT,
                                  .divided_by = axes});
    if (!fused)
        list_save(view, &(saving){.name = "norm fp32 copy",
                                  .elements = elements,
                                  .element_bytes = 4,
                                  .module = FF_MODULE_NORM,
                                  .freed_by = FF_PHASE_BACKWARD,
                                  .divided_by = axes});
}

void norm_backward(layer_view *view, const char *name, int64_t tokens) {
    double elements = (double)ff_mul(tokens, view->model->hidden);
    list_memory(view, name, FF_PHASE_BACKWARD,
                elements * (fused_norm(view) ? 3 : EAGER_NORM_BACKWARD), 0);
}
