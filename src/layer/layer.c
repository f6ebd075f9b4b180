/* A whole layer: its blocks in order, the recompute mode, and the sums over the two lists.
 *
 * Recomputation: `full` keeps the layer's input alone and runs every forward operator again,
 * collectives included, just before backward; `selective` drops the tensors of the named modules
 * and runs again the operators that make them; `alternate` is per-operator checkpointing, which
 * keeps the result of every second product (torchtitan: query, value, gate; not key, out, up).
 * Stacks that stop early (torch's non-reentrant checkpoints) leave out what follows the last tensor
 * that backward needs: the product that ends a dense MLP, and what a compiler makes part of it; the
 * copy of its weight is still made, for backward reads it.
 * Operators keep their order within forward, within recompute, and within backward (B and W share
 * one order).
 * Assumption: attention and MLP that read one norm (parallel residual) gather and reduce apart. */
#include "layer/list.h"

#include "base/number.h"
#include <assert.h>

static void residual(layer_view *view, ff_phase phase) {
    double elements = (double)ff_mul(view->shard_tokens, view->model->hidden);
    list_memory(view, phase == FF_PHASE_FORWARD ? "residual" : "residual backward", phase,
                elements * (phase == FF_PHASE_FORWARD ? 3 : 2), 0);
    if (phase == FF_PHASE_FORWARD && view->model->dropout)
        list_save(view,
                  &(saving){"hidden dropout mask", ff_mul(view->shard_tokens, view->model->hidden),
                            1, 0, FF_PHASE_BACKWARD, view->shape->sp ? "tp cp" : "cp"});
}

static void forward(layer_view *view, const ff_layer_kind *kind) {
    bool post_norms = kind->norms >= 4;
    norm_forward(view, "attention norm", true, view->shard_tokens, 0);
    attention_forward(view, &kind->attention);
    if (post_norms)
        norm_forward(view, "attention post norm", false, view->shard_tokens, 0);
    residual(view, FF_PHASE_FORWARD);
    if (kind->norms >= 2)
        norm_forward(view, "mlp norm", true, view->shard_tokens, FF_MODULE_ALTERNATE);
    if (kind->moe.experts > 0)
        moe_forward(view, &kind->moe);
    if (kind->mlp.width > 0)
        mlp_forward(view, &kind->mlp);
    if (post_norms)
        norm_forward(view, "mlp post norm", false, view->shard_tokens, 0);
    residual(view, FF_PHASE_FORWARD);
}

static void backward(layer_view *view, const ff_layer_kind *kind) {
    bool post_norms = kind->norms >= 4;
    residual(view, FF_PHASE_BACKWARD);
    if (post_norms)
        norm_backward(view, "mlp post norm backward", view->shard_tokens);
    if (kind->mlp.width > 0)
        mlp_backward(view, &kind->mlp);
    if (kind->moe.experts > 0)
        moe_backward(view, &kind->moe);
    if (kind->norms >= 2)
        norm_backward(view, "mlp norm backward", view->shard_tokens);
    residual(view, FF_PHASE_BACKWARD);
    if (post_norms)
        norm_backward(view, "attention post norm backward", view->shard_tokens);
    attention_backward(view, &kind->attention);
    norm_backward(view, "attention norm backward", view->shard_tokens);
}

/* Copies the forward operators that a mask selects into the recompute phase; what ran beside an
 * operator then runs beside its copy. */
static void rerun(ff_layer_list *list, unsigned modules, bool all, int originals) {
    int copy_of[FF_LAYER_MAX_OPERATORS];
    for (int i = 0; i < originals; i++) {
        ff_operator op = list->op[i];
        copy_of[i] = -1;
        if (op.phase != FF_PHASE_FORWARD || !(all || (op.module & modules)))
            continue;
        assert(list->operators < FF_LAYER_MAX_OPERATORS);
        op.phase = FF_PHASE_RECOMPUTE;
        op.behind = op.behind < 0 ? -1 : copy_of[op.behind];
        copy_of[i] = list->operators;
        list->op[list->operators++] = op;
    }
}

/* Drops tensors and appends the operators that rebuild them. */
static void apply_recompute(ff_layer_list *list, const ff_layer_shape *shape,
                            int64_t input_elements, int needed) {
    if (shape->recompute == FF_RECOMPUTE_NONE)
        return;
    bool full = shape->recompute == FF_RECOMPUTE_FULL;
    for (int i = 0; i < list->tensors; i++)
        list->tensor[i].kept = !full && !(list->tensor[i].module & shape->modules);
    rerun(list, shape->modules, full, full ? needed : list->operators);
    if (!full)
        return;
    assert(list->tensors < FF_LAYER_MAX_TENSORS);
    list->tensor[list->tensors++] = (ff_saved_tensor){.name = "layer input",
                                                      .elements = input_elements,
                                                      .element_bytes = shape->activation_bytes,
                                                      .freed_by = FF_PHASE_BACKWARD,
                                                      .kept = true,
                                                      .divided_by = shape->sp ? "tp cp" : "cp"};
}

/* How many operators make what backward needs: not a last product, whose result nothing keeps, nor
 * what follows it. */
static int needed_operators(const layer_view *view, const ff_layer_kind *kind) {
    bool kept = kind->moe.experts > 0 || kind->norms >= 4 || view->model->dropout;
    int last = view->list->operators;
    if (kept || !view->shape->kernels.stops_early)
        return last;
    while (last > 0 && (view->list->op[last - 1].kind != FF_OPERATOR_GEMM ||
                        view->list->op[last - 1].phase != FF_PHASE_FORWARD))
        last--;
    while (last > 1 && view->list->op[last - 2].fused)
        last--;
    return last - 1;
}

void ff_layer_build(const ff_model *model, int kind, const ff_layer_shape *shape,
                    ff_layer_list *list) {
    list_clear(list);
    layer_view view = layer_view_of(model, shape, list);
    forward(&view, &model->kind[kind]);
    backward(&view, &model->kind[kind]);
    apply_recompute(list, shape, ff_mul(view.shard_tokens, model->hidden),
                    needed_operators(&view, &model->kind[kind]));
}

int64_t ff_saved_tensor_bytes(const ff_saved_tensor *tensor) {
    return ff_mul(tensor->elements, tensor->element_bytes);
}

int64_t ff_layer_kept_bytes(const ff_layer_list *list) {
    int64_t bytes = 0;
    for (int i = 0; i < list->tensors; i++)
        if (list->tensor[i].kept)
            bytes = ff_add(bytes, ff_saved_tensor_bytes(&list->tensor[i]));
    return bytes;
}

/* A weight gradient is X^T * dY: its inner side is tokens, so k*n are the elements of dY. */
static int64_t output_gradient_bytes(const ff_operator *op) {
    double moved = ((double)op->m * (double)op->k + (double)op->k * (double)op->n +
                    (double)op->m * (double)op->n) *
                   (double)op->batch;
    int element_bytes = moved > 0 ? (int)(op->memory_bytes / moved + 0.5) : 0;
    return ff_mul(ff_mul3(op->k, op->n, op->batch), element_bytes);
}

int64_t ff_layer_waiting_bytes(const ff_layer_list *list) {
    int64_t bytes = 0;
    for (int i = 0; i < list->tensors; i++)
        if (list->tensor[i].freed_by == FF_PHASE_WEIGHT)
            bytes = ff_add(bytes, ff_saved_tensor_bytes(&list->tensor[i]));
    for (int i = 0; i < list->operators; i++)
        if (list->op[i].kind == FF_OPERATOR_GEMM && list->op[i].phase == FF_PHASE_WEIGHT)
            bytes = ff_add(bytes, output_gradient_bytes(&list->op[i]));
    return bytes;
}

int64_t ff_layer_full_bytes(const ff_layer_list *list) {
    int64_t bytes = 0;
    for (int i = 0; i < list->tensors; i++)
        bytes = ff_add(bytes, ff_saved_tensor_bytes(&list->tensor[i]));
    return bytes;
}

/* Dropped tensors of a module live only while that module runs backward; a layer that is recomputed
 * whole has them all at once (module 0 counts with every mask then). */
static int64_t rebuilt_bytes(const ff_layer_list *list, unsigned module) {
    int64_t bytes = 0;
    for (int i = 0; i < list->tensors; i++) {
        const ff_saved_tensor *t = &list->tensor[i];
        if (!t->kept && (module == 0 || (t->module & module)))
            bytes = ff_add(bytes, ff_saved_tensor_bytes(t));
    }
    return bytes;
}

static bool recomputed_whole(const ff_layer_list *list) {
    for (int i = 0; i < list->tensors; i++)
        if (!list->tensor[i].kept && list->tensor[i].module == 0)
            return true;
    return false;
}

int64_t ff_layer_working_bytes(const ff_layer_list *list) {
    int64_t largest = 0, rebuilt = 0;
    for (int i = 0; i < list->working_sets; i++)
        largest = ff_max(largest, list->working[i].bytes);
    if (recomputed_whole(list))
        return ff_add(largest, rebuilt_bytes(list, 0));
    for (unsigned module = FF_MODULE_CORE; module <= FF_MODULE_ALTERNATE; module *= 2)
        rebuilt = ff_max(rebuilt, rebuilt_bytes(list, module));
    return ff_add(largest, rebuilt);
}

double ff_layer_flop(const ff_layer_list *list, ff_phase phase) {
    double flop = 0;
    for (int i = 0; i < list->operators; i++)
        if (list->op[i].phase == phase)
            flop += list->op[i].flop;
    return flop;
}

double ff_collective_sent_bytes(ff_collective collective, int64_t elements, int element_bytes,
                                int64_t ranks) {
    double bytes = (double)elements * element_bytes;
    double others = (double)(ranks - 1) / (double)ranks;
    switch (collective) {
    case FF_ALL_REDUCE:
        return 2 * others * bytes;
    case FF_ALL_GATHER:
    case FF_REDUCE_SCATTER:
    case FF_ALL_TO_ALL:
        return others * bytes;
    default:
        return bytes;
    }
}

const char *ff_phase_name(ff_phase phase) {
    static const char *const names[] = {"forward", "recompute", "backward", "weight", "step"};
    return names[phase];
}

const char *ff_collective_name(ff_collective collective) {
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                        "send-receive"};
    return names[collective];
}

const char *ff_timing_name(ff_timing timing) {
    static const char *const names[] = {"blocks", "in operator", "beside a GEMM", "beside layers"};
    return names[timing];
}
