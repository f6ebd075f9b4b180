/* Linear attention with a gated delta rule and a short convolution (Qwen3.5).
 *
 *     x -AG-> in GEMM (q,k,v | z | a,b) -> conv -> {heads<->tokens} -> delta rule -> gated norm
 *       -> out GEMM -RS->
 *
 * The state of a value head is key_dim x value_dim; a token decays it, reads it and writes it: 3
 * products of that size, 6*key_dim*value_dim FLOP a head forward, twice that backward (Yang 2024,
 * 2412.06464; chunked kernels do about the same work as GEMMs). A state follows the sequence, so
 * context parallelism exchanges heads for tokens (all-to-all), whatever the CP kind of the other
 * layers; key and value heads must then divide over tp*cp. */
#include "layer/linear.h"

#include "base/number.h"

typedef struct heads {
    int64_t keys, values; /* elements a token on one rank */
    int64_t value_heads;
} heads;

static heads heads_of(const layer_view *view, const ff_attention *a) {
    int64_t key_heads = ff_ceil_div(a->key_heads, view->shape->tp);
    int64_t value_heads = ff_ceil_div(a->value_heads, view->shape->tp);
    return (heads){key_heads * a->key_dim, value_heads * a->value_dim, value_heads};
}

static int64_t mixed_width(const heads *h) {
    return 2 * h->keys + h->values;
}

static product input_projection(const layer_view *view, const heads *h) {
    int64_t width = mixed_width(h) + h->values + 2 * h->value_heads;
    return (product){"attention.in",
                     "attention.in dX",
                     "attention.in dW",
                     view->tokens,
                     width,
                     view->model->hidden,
                     1,
                     0};
}

static product output_projection(const layer_view *view, const heads *h) {
    return (product){"attention.out",
                     "attention.out dX",
                     "attention.out dW",
                     view->tokens,
                     view->model->hidden,
                     h->values,
                     1,
                     0};
}

static double state_flop(const layer_view *view, const ff_attention *a, const heads *h) {
    return 6.0 * (double)view->tokens * (double)h->value_heads *
           (double)(a->key_dim * a->value_dim);
}

static void swap_heads(layer_view *view, const heads *h, ff_phase phase, bool of_output) {
    int64_t width = of_output ? h->values : mixed_width(h) + 2 * h->value_heads;
    exchange swap = {.name = of_output ? "attention.o all-to-all" : "attention.qkv all-to-all",
                     .collective = FF_ALL_TO_ALL,
                     .group = FF_AXES(FF_AXIS_CP),
                     .elements = ff_mul(view->tokens, width)};
    list_exchange(view, phase, view->shape->cp, &swap);
}

static void save(layer_view *view, const char *name, int64_t width, int element_bytes,
                 unsigned module, ff_phase freed_by) {
    list_save(view, &(saving){name, ff_mul(view->tokens, width), element_bytes, module, freed_by,
                              "tp cp"});
}

void linear_attention_forward(layer_view *view, const ff_attention *a) {
    heads h = heads_of(view, a);
    product in = input_projection(view, &h), out = output_projection(view, &h);
    double mixed = (double)ff_mul(view->tokens, mixed_width(&h));
    list_tp_enter(view, "attention.all-gather", FF_PHASE_FORWARD, view->model->hidden, 0);
    list_gemm(view, &in, FF_PHASE_FORWARD);
    list_memory(view, "attention.conv", FF_PHASE_FORWARD, 2 * mixed, 0);
    swap_heads(view, &h, FF_PHASE_FORWARD, false);
    list_attention(view, "attention.delta rule", FF_PHASE_FORWARD, state_flop(view, a, &h),
                   2 * mixed * view->element_bytes, FF_MODULE_CORE);
    swap_heads(view, &h, FF_PHASE_FORWARD, true);
    list_memory(view, "attention.gated norm", FF_PHASE_FORWARD,
                3.0 * (double)ff_mul(view->tokens, h.values), FF_MODULE_NORM);
    list_gemm(view, &out, FF_PHASE_FORWARD);
    list_tp_leave(view, view->shape->sp ? "attention.reduce-scatter" : "attention.all-reduce",
                  FF_PHASE_FORWARD, 0);
    save(view, "convolution input", mixed_width(&h), 0, 0, FF_PHASE_BACKWARD);
    save(view, "query, key and value", mixed_width(&h), 0, 0, FF_PHASE_BACKWARD);
    save(view, "gates", 2 * h.value_heads, 4, 0, FF_PHASE_BACKWARD);
    save(view, "output gate", h.values, 0, 0, FF_PHASE_BACKWARD);
    save(view, "delta rule output", h.values, 0, 0, FF_PHASE_BACKWARD);
    save(view, "attention output", h.values, view->shape->gemm_input_bytes, FF_MODULE_NORM,
         FF_PHASE_WEIGHT);
}

void linear_attention_backward(layer_view *view, const ff_attention *a) {
    heads h = heads_of(view, a);
    product in = input_projection(view, &h), out = output_projection(view, &h);
    double mixed = (double)ff_mul(view->tokens, mixed_width(&h));
    list_tp_leave_backward(view, "attention.dY all-gather");
    list_gemm(view, &out, FF_PHASE_BACKWARD);
    list_gemm(view, &out, FF_PHASE_WEIGHT);
    list_memory(view, "attention.gated norm backward", FF_PHASE_BACKWARD,
                5.0 * (double)ff_mul(view->tokens, h.values), 0);
    swap_heads(view, &h, FF_PHASE_BACKWARD, true);
    list_attention(view, "attention.delta rule backward", FF_PHASE_BACKWARD,
                   2 * state_flop(view, a, &h), 4 * mixed * view->element_bytes, 0);
    swap_heads(view, &h, FF_PHASE_BACKWARD, false);
    list_memory(view, "attention.conv backward", FF_PHASE_BACKWARD, 3 * mixed, 0);
    int input_gradient = list_gemm(view, &in, FF_PHASE_BACKWARD);
    list_tp_regather(view, "attention.input all-gather", view->model->hidden, input_gradient);
    int weight_gradient = list_gemm(view, &in, FF_PHASE_WEIGHT);
    list_tp_enter_backward(
        view, view->shape->sp ? "attention.dX reduce-scatter" : "attention.dX all-reduce",
        view->model->hidden, weight_gradient);
    int64_t gathered = ff_mul3(view->shape->sp ? 2 : 1, view->tokens, view->model->hidden);
    int64_t gradients = ff_mul(view->tokens, mixed_width(&h) + 2 * h.values);
    list_working(view, "attention backward",
                 ff_mul(ff_add(gathered, gradients), view->element_bytes));
}
