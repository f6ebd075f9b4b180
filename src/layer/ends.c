/* The two ends of the model: embedding on the first stage, final norm, head and loss on the last.
 *
 *     tokens -> lookup of V/t rows -RS or AR-> [T/t,h]
 *     [T/t,h] -> norm -AG-> logits GEMM [T, V/t] -> vocab-parallel cross-entropy: 3 AR of T fp32
 *
 * The logits are never gathered: maximum, target logit and sum of exponentials are (MODEL.md C).
 * Memory of the loss: bf16 logits and their fp32 softmax, reused in place as the gradient: 6 bytes
 * a logit at the peak, 4 of them from F to B; an eager loss keeps a copy more: 10. */
#include "layer/list.h"

#include "base/number.h"

static int64_t padded_share(const layer_view *view) {
    return ff_padded_vocab(view->model->vocab, view->shape->tp) / view->shape->tp;
}

void ff_embedding_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    *list = (ff_layer_list){0};
    layer_view view = layer_view_of(model, shape, list);
    double elements = (double)ff_mul(view.tokens, model->hidden);
    product project = {"embedding.project",
                       "embedding.project dX",
                       "embedding.project dW",
                       view.tokens,
                       model->hidden,
                       model->embedding_width,
                       1,
                       0};
    bool projected = model->embedding_width != model->hidden;
    list_memory(&view, "embedding.lookup", FF_PHASE_FORWARD, 2 * elements, 0);
    if (projected)
        list_gemm(&view, &project, FF_PHASE_FORWARD);
    list_tp_leave(&view, shape->sp ? "embedding.reduce-scatter" : "embedding.all-reduce",
                  FF_PHASE_FORWARD, 0);
    if (model->embedding_norm)
        norm_forward(&view, "embedding.norm", false, view.shard_tokens);
    if (model->dropout)
        list_save(&view,
                  &(saving){"embedding dropout mask", ff_mul(view.shard_tokens, model->hidden), 1,
                            0, FF_PHASE_BACKWARD, shape->sp ? "tp cp" : "cp"});
    list_tp_leave_backward(&view, "embedding.dY all-gather");
    if (projected)
        list_gemm(&view, &project, FF_PHASE_WEIGHT);
    list_memory(&view, "embedding.scatter", FF_PHASE_WEIGHT, 3 * elements, 0);
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

void ff_head_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    *list = (ff_layer_list){0};
    layer_view view = layer_view_of(model, shape, list);
    int64_t share = padded_share(&view), logits = ff_mul(view.tokens, share);
    product head = {"head", "head dX", "head dW", view.tokens, share, model->embedding_width, 1, 0};
    if (model->final_norm)
        norm_forward(&view, "final norm", true, view.shard_tokens);
    list_tp_enter(&view, "head.all-gather", FF_PHASE_FORWARD, model->hidden, 0);
    list_gemm(&view, &head, FF_PHASE_FORWARD);
    list_memory(&view, "loss", FF_PHASE_FORWARD, 5 * (double)logits, 0);
    loss_exchanges(&view);
    list_save(&view, &(saving){"loss softmax", logits, 4, 0, FF_PHASE_BACKWARD, "tp cp"});
    list_memory(&view, "loss backward", FF_PHASE_BACKWARD, 4 * (double)logits, 0);
    int input_gradient = list_gemm(&view, &head, FF_PHASE_BACKWARD);
    list_tp_regather(&view, "head.input all-gather", model->hidden, input_gradient);
    int weight_gradient = list_gemm(&view, &head, FF_PHASE_WEIGHT);
    list_tp_enter_backward(&view, shape->sp ? "head.dX reduce-scatter" : "head.dX all-reduce",
                           model->hidden, weight_gradient);
    if (model->final_norm)
        norm_backward(&view, "final norm backward", view.shard_tokens);
    list_working(&view, "logits", ff_mul(logits, shape->kernels.fused_loss ? 2 : 6));
}

void ff_mtp_build(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list) {
    *list = (ff_layer_list){0};
    layer_view view = layer_view_of(model, shape, list);
    product project = {"mtp.project",
                       "mtp.project dX",
                       "mtp.project dW",
                       view.shard_tokens,
                       model->hidden,
                       2 * model->hidden,
                       1,
                       0};
    norm_forward(&view, "mtp hidden norm", true, view.shard_tokens);
    norm_forward(&view, "mtp embedding norm", true, view.shard_tokens);
    list_gemm(&view, &project, FF_PHASE_FORWARD);
    list_gemm(&view, &project, FF_PHASE_BACKWARD);
    list_gemm(&view, &project, FF_PHASE_WEIGHT);
    norm_backward(&view, "mtp embedding norm backward", view.shard_tokens);
    norm_backward(&view, "mtp hidden norm backward", view.shard_tokens);
}
