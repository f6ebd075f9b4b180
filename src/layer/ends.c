/* The ends of the model: embedding on the first stage, final norm, head and loss on the last, and
 * what a multi-token-prediction block does around its decoder layer.
 *
 *     tokens -> lookup of V/t rows -> [project] -RS or AR-> [T/t,h]
 *     [T/t,h] -> norm -> [project] -AG-> logits GEMM [T, V/t] -> vocab-parallel cross-entropy: 3 AR
 *     of T fp32
 *     MTP: norm of [T/t,h], norm of the next tokens' embedding -AG-> [T,2h] x [2h,h/t] -AG-> [T,h]
 *
 * The logits are never gathered: maximum, target logit and sum of exponentials are
 * (docs/model.md C).
 * Memory of the loss: bf16 logits and their fp32 softmax, reused in place as the gradient: 6 bytes
 * a logit at the peak, 4 of them from F to B; an eager loss keeps a copy more: 10; where the bf16
 * logits stay beside it until backward is over, and the gradient of the fp32 copy is one more: 14.
 * An embedding narrower than the model (OPT-350m) is projected, before the sum over TP at the
 * bottom (the sum of projections is the projection of the sum), before the gather at the top.
 * An MTP block looks its tokens up in a copy of the embedding; the projection's output is gathered
 * by columns and each rank keeps its tokens, so its backward gathers them (Megatron-LM,
 * multi_token_prediction.py). */
#include "layer/list.h"

#include "base/number.h"

static int64_t padded_share(const layer_view *view) {
    return ff_padded_vocab(view->model->vocab, view->shape->tp) / view->shape->tp;
}

static bool projected(const ff_model *model) {
    return model->embedding_width != model->hidden;
}

static product embedding_projection(const layer_view *view) {
    return (product){"embedding.project",
                     "embedding.project dX",
                     "embedding.project dW",
                     view->tokens,
                     view->model->hidden,
                     view->model->embedding_width,
                     1,
                     0};
}

static void lookup_forward(layer_view *view) {
    const ff_model *model = view->model;
    int64_t narrow = ff_mul(view->tokens, model->embedding_width);
    product project = embedding_projection(view);
    list_memory(view, "embedding.lookup", FF_PHASE_FORWARD, 2 * (double)narrow, 0);
    if (projected(model)) {
        list_gemm(view, &project, FF_PHASE_FORWARD);
        list_save(view, &(saving){"embedding rows", narrow, view->shape->gemm_input_bytes, 0,
                                  FF_PHASE_WEIGHT, "cp"});
    }
    list_tp_leave(view, view->shape->sp ? "embedding.reduce-scatter" : "embedding.all-reduce",
                  FF_PHASE_FORWARD, 0);
}

static void lookup_backward(layer_view *view) {
    const ff_model *model = view->model;
    product project = embedding_projection(view);
    list_tp_leave_backward(view, "embedding.dY all-gather");
    if (projected(model)) {
        list_gemm(view, &project, FF_PHASE_BACKWARD);
        list_gemm(view, &project, FF_PHASE_WEIGHT);
    }
    list_memory(view, "embedding.scatter", FF_PHASE_WEIGHT,
                3 * (double)ff_mul(view->tokens, model->embedding_width), 0);
}

/* Narrow formats are for layers' products: nothing is cast for these. */
static ff_layer_shape shape_of_ends(const ff_layer_shape *shape) {
    ff_layer_shape wide = *shape;
    wide.input_cast_bytes = 0;
    return wide;
}

void ff_embedding_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    list_clear(list);
    ff_layer_shape wide = shape_of_ends(shape);
    layer_view view = layer_view_of(model, &wide, list);
    lookup_forward(&view);
    if (model->embedding_norm)
        norm_forward(&view, "embedding.norm", false, view.shard_tokens, 0);
    if (model->dropout)
        list_save(&view,
                  &(saving){"embedding dropout mask", ff_mul(view.shard_tokens, model->hidden), 1,
                            0, FF_PHASE_BACKWARD, shape->sp ? "tp cp" : "cp"});
    if (model->embedding_norm)
        norm_backward(&view, "embedding.norm backward", view.shard_tokens);
    lookup_backward(&view);
}

static void loss_exchanges(layer_view *view) {
    static const char *const names[] = {"loss.max all-reduce", "loss.target all-reduce",
                                        "loss.sum all-reduce"};
    for (int i = 0; i < 3; i++) {
        exchange e = {.name = names[i],
                      .collective = FF_ALL_REDUCE,
                      .group = FF_AXES(FF_AXIS_TP),
                      .elements = view->tokens,
                      .element_bytes = 4};
        list_exchange(view, FF_PHASE_FORWARD, view->shape->tp, &e);
    }
}

/* ---- head and loss ---- */

static product head_projection(const layer_view *view) {
    return (product){"head.project",
                     "head.project dX",
                     "head.project dW",
                     view->shard_tokens,
                     view->model->embedding_width,
                     view->model->hidden,
                     1,
                     0};
}

static void save_head_input(layer_view *view, const char *name, int64_t width) {
    list_save(view,
              &(saving){name, ff_mul(view->shard_tokens, width), view->shape->gemm_input_bytes, 0,
                        FF_PHASE_WEIGHT, view->shape->sp ? "tp cp" : "cp"});
}

/* Logits that the loss of a rank sees: its share of the vocabulary, or all of it. */
static int64_t logit_elements(const layer_view *view, const product *head) {
    int64_t shares = view->shape->kernels.gathers_logits ? view->shape->tp : 1;
    return ff_mul3(head->m, head->n, shares);
}

static void gather_logits(layer_view *view, int64_t logits) {
    exchange e = {.name = "loss.logits all-gather",
                  .collective = FF_ALL_GATHER,
                  .group = FF_AXES(FF_AXIS_TP),
                  .elements = logits};
    if (view->shape->kernels.gathers_logits)
        list_exchange(view, FF_PHASE_FORWARD, view->shape->tp, &e);
}

/* Bytes that the loss moves of a logit. Fused: the logits are read three times and written as their
 * gradient. Step by step, in fp32: maximum (4), difference (8), exponential (8), sum (4), quotient (8),
 * backward scaled (8) (Megatron-LM, cross_entropy.py). As a framework's own loss: log-softmax (10),
 * backward the gradient of the picked ones (4) and of the log-softmax (12). Both cast 16-bit logits up
 * before (6) and down after (6). */
static double loss_bytes(const layer_view *view, ff_phase phase) {
    bool forward = phase == FF_PHASE_FORWARD;
    double cast = view->element_bytes < 4 ? 6 : 0;
    if (view->shape->kernels.stepwise_loss)
        return cast + (forward ? 32 : 8);
    if (!view->shape->kernels.fused_loss)
        return cast + (forward ? 10 : 16);
    return view->element_bytes * (forward ? 5 : 4);
}

static void pass_over_logits(layer_view *view, const char *name, ff_phase phase, int64_t logits) {
    double moves = loss_bytes(view, phase) / view->element_bytes;
    list_memory(view, name, phase, moves * (double)logits, 0);
}

static void head_forward(layer_view *view, const product *head) {
    const ff_model *model = view->model;
    int64_t logits = logit_elements(view, head);
    product project = head_projection(view);
    if (model->final_norm)
        norm_forward(view, "final norm", true, view->shard_tokens, 0);
    else
        save_head_input(view, "head input", model->hidden);
    if (projected(model)) {
        list_gemm(view, &project, FF_PHASE_FORWARD);
        save_head_input(view, "projected head input", model->embedding_width);
    }
    list_tp_enter(view, "head.all-gather", FF_PHASE_FORWARD, model->embedding_width, 0);
    list_gemm(view, head, FF_PHASE_FORWARD);
    gather_logits(view, logits);
    pass_over_logits(view, "loss", FF_PHASE_FORWARD, logits);
    if (!view->shape->kernels.gathers_logits)
        loss_exchanges(view);
    list_save(view, &(saving){"loss softmax", logits, 4, 0, FF_PHASE_BACKWARD, "tp cp"});
}

static void head_backward(layer_view *view, const product *head) {
    const ff_model *model = view->model;
    product project = head_projection(view);
    pass_over_logits(view, "loss backward", FF_PHASE_BACKWARD, logit_elements(view, head));
    int input_gradient = list_gemm(view, head, FF_PHASE_BACKWARD);
    list_tp_regather(view, "head.input all-gather", model->embedding_width, input_gradient);
    int weight_gradient = list_gemm(view, head, FF_PHASE_WEIGHT);
    list_tp_enter_backward(view, view->shape->sp ? "head.dX reduce-scatter" : "head.dX all-reduce",
                           model->embedding_width, weight_gradient);
    if (projected(model)) {
        list_gemm(view, &project, FF_PHASE_BACKWARD);
        list_gemm(view, &project, FF_PHASE_WEIGHT);
    }
    if (model->final_norm)
        norm_backward(view, "final norm backward", view->shard_tokens);
}

/* Of a logit, beside its softmax: fp32 logits turn into it in place. */
static int loss_working_bytes(const ff_layer_shape *shape) {
    if (!shape->kernels.fused_loss)
        return shape->kernels.keeps_logits ? 10 : 6;
    return shape->activation_bytes < 4 ? 2 : 0;
}

void ff_head_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    list_clear(list);
    ff_layer_shape wide = shape_of_ends(shape);
    layer_view view = layer_view_of(model, &wide, list);
    product head = {
        "head", "head dX", "head dW", view.tokens, padded_share(&view), model->embedding_width,
        1,      0};
    head_forward(&view, &head);
    head_backward(&view, &head);
    list_working(&view, "logits", ff_mul(logit_elements(&view, &head), loss_working_bytes(shape)));
}

/* ---- multi-token prediction ---- */

static void gather_columns(layer_view *view, ff_phase phase, const char *name) {
    exchange e = {.name = name,
                  .collective = FF_ALL_GATHER,
                  .group = FF_AXES(FF_AXIS_TP),
                  .elements = ff_mul(view->tokens, view->model->hidden)};
    list_exchange(view, phase, view->shape->tp, &e);
}

static void mtp_backward(layer_view *view, const product *project) {
    int64_t width = 2 * view->model->hidden;
    if (view->shape->sp)
        gather_columns(view, FF_PHASE_BACKWARD, "mtp.dY all-gather");
    int input_gradient = list_gemm(view, project, FF_PHASE_BACKWARD);
    list_tp_regather(view, "mtp.input all-gather", width, input_gradient);
    int weight_gradient = list_gemm(view, project, FF_PHASE_WEIGHT);
    list_tp_enter_backward(view, view->shape->sp ? "mtp.dX reduce-scatter" : "mtp.dX all-reduce",
                           width, weight_gradient);
    norm_backward(view, "mtp embedding norm backward", view->shard_tokens);
    norm_backward(view, "mtp hidden norm backward", view->shard_tokens);
    lookup_backward(view);
}

void ff_mtp_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    list_clear(list);
    ff_layer_shape wide = shape_of_ends(shape);
    layer_view view = layer_view_of(model, &wide, list);
    product project = {"mtp.project",
                       "mtp.project dX",
                       "mtp.project dW",
                       view.tokens,
                       ff_ceil_div(model->hidden, shape->tp),
                       2 * model->hidden,
                       1,
                       0};
    lookup_forward(&view);
    norm_forward(&view, "mtp hidden norm", true, view.shard_tokens, 0);
    norm_forward(&view, "mtp embedding norm", true, view.shard_tokens, 0);
    list_tp_enter(&view, "mtp.all-gather", FF_PHASE_FORWARD, project.k, 0);
    list_gemm(&view, &project, FF_PHASE_FORWARD);
    gather_columns(&view, FF_PHASE_FORWARD, "mtp.output all-gather");
    mtp_backward(&view, &project);
}
