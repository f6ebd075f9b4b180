/* The dense MLP, and the expert block.
 *
 *     dense    x -AG-> up,gate GEMM [T, 2f/t] -> act -> down GEMM -RS->
 *     experts  x -> router -> permute -A2A(ep)-> [AG(etp)] -> grouped GEMMs -> [RS(etp)] -A2A(ep)->
 *                unpermute and weigh; shared experts run beside, as a dense MLP
 *
 * docs/model.md C: a rank routes its T/t tokens (TP needs SP here), each to q experts, so q*T/t
 * rows leave and, routed evenly, as many arrive; expert-TP gathers the rows of its group, so the
 * grouped GEMMs see q*etp*T/t rows of width f/etp. `imbalance` is the busiest rank's load over the
 * mean. Counts of rows travel first, since the splits vary (all-to-all-v).
 * Freed: pre-activations by B, GEMM inputs by W. */
#include "layer/list.h"

#include "base/number.h"
#include <math.h>

/* The three (gated) or two (plain) GEMMs of an MLP over `rows` rows, `batch` times. */
typedef struct mlp_sides {
    int64_t rows, width, batch; /* rows and width of one product */
    bool gated;
    const char *axes;
    unsigned module;
} mlp_sides;

static product up_projection(const layer_view *view, const mlp_sides *s, bool expert) {
    int64_t n = s->width * (s->gated ? 2 : 1);
    if (expert)
        return (product){"experts.up",        "experts.up dX", "experts.up dW", s->rows, n,
                         view->model->hidden, s->batch,        s->module};
    return (product){"mlp.up", "mlp.up dX",         "mlp.up dW", s->rows,
                     n,        view->model->hidden, s->batch,    s->module};
}

/* Gate and up apart, where per-operator checkpointing keeps one of them. */
static bool splits_up(const layer_view *view, const mlp_sides *s) {
    return s->gated && view->shape->recompute == FF_RECOMPUTE_SELECTIVE &&
           (view->shape->modules & FF_MODULE_ALTERNATE);
}

static void list_up(layer_view *view, const mlp_sides *s, const product *up, const char *gate) {
    product half = *up;
    if (!splits_up(view, s)) {
        list_gemm(view, up, FF_PHASE_FORWARD);
        return;
    }
    half.n /= 2;
    half.forward = gate;
    list_gemm(view, &half, FF_PHASE_FORWARD);
    half.forward = up->forward;
    half.module |= FF_MODULE_ALTERNATE;
    list_gemm(view, &half, FF_PHASE_FORWARD);
}

static product down_projection(const layer_view *view, const mlp_sides *s, bool expert) {
    if (expert)
        return (product){"experts.down", "experts.down dX",        "experts.down dW",
                         s->rows,        view->model->hidden,      s->width,
                         s->batch,       s->module & FF_MODULE_MOE};
    return (product){"mlp.down",          "mlp.down dX", "mlp.down dW", s->rows,
                     view->model->hidden, s->width,      s->batch,      s->module & FF_MODULE_MOE};
}

static int64_t inner_elements(const mlp_sides *s) {
    return ff_mul3(s->rows, s->width, s->batch);
}

static void save_inner(layer_view *view, const mlp_sides *s) {
    int64_t inner = inner_elements(s);
    unsigned cheap = s->module | FF_MODULE_ACTIVATION;
    if (splits_up(view, s)) {
        list_save(view, &(saving){"gate", inner, 0, s->module, FF_PHASE_BACKWARD, s->axes});
        list_save(view, &(saving){"up", inner, 0, s->module | FF_MODULE_ALTERNATE,
                                  FF_PHASE_BACKWARD, s->axes});
    } else {
        list_save(view, &(saving){s->gated ? "gate and up" : "activation input",
                                  ff_mul(inner, s->gated ? 2 : 1), 0, s->module, FF_PHASE_BACKWARD,
                                  s->axes});
    }
    list_save(view, &(saving){s->gated ? "gated product" : "activation output", inner,
                              view->shape->gemm_input_bytes, cheap, FF_PHASE_WEIGHT, s->axes});
    if (s->gated && !view->shape->kernels.fused_activation)
        list_save(view, &(saving){"silu output", inner, 0, cheap, FF_PHASE_BACKWARD, s->axes});
}

static void activation(layer_view *view, const char *name, ff_phase phase, const mlp_sides *s) {
    bool fused = view->shape->kernels.fused_activation;
    double forward_moves = !s->gated ? 2 : fused ? 3 : 5;
    double backward_moves = !s->gated ? 3 : fused ? 5 : 9;
    bool forward = phase == FF_PHASE_FORWARD;
    list_memory(view, name, phase,
                (double)inner_elements(s) * (forward ? forward_moves : backward_moves),
                forward ? s->module | FF_MODULE_ACTIVATION : 0);
}

static mlp_sides dense_sides(const layer_view *view, int64_t width, bool gated, unsigned module) {
    return (mlp_sides){view->tokens, ff_ceil_div(width, view->shape->tp), 1, gated, "tp cp",
                       module};
}

static void dense_forward(layer_view *view, const mlp_sides *s) {
    product up = up_projection(view, s, false), down = down_projection(view, s, false);
    list_tp_enter(view, "mlp.all-gather", FF_PHASE_FORWARD, view->model->hidden, s->module);
    list_up(view, s, &up, "mlp.gate");
    activation(view, "mlp.activation", FF_PHASE_FORWARD, s);
    list_gemm(view, &down, FF_PHASE_FORWARD);
    list_tp_leave(view, view->shape->sp ? "mlp.reduce-scatter" : "mlp.all-reduce", FF_PHASE_FORWARD,
                  s->module & FF_MODULE_MOE);
    save_inner(view, s);
}

static int64_t dense_working_bytes(const layer_view *view, const mlp_sides *s) {
    int64_t gathered = ff_mul3(view->shape->sp ? 2 : 1, view->tokens, view->model->hidden);
    int64_t gradients = ff_mul(inner_elements(s), s->gated ? 3 : 2);
    return ff_mul(ff_add(gathered, gradients), view->element_bytes);
}

static void dense_backward(layer_view *view, const mlp_sides *s) {
    product up = up_projection(view, s, false), down = down_projection(view, s, false);
    list_tp_leave_backward(view, "mlp.dY all-gather");
    list_gemm(view, &down, FF_PHASE_BACKWARD);
    list_gemm(view, &down, FF_PHASE_WEIGHT);
    activation(view, "mlp.activation backward", FF_PHASE_BACKWARD, s);
    int input_gradient = list_gemm(view, &up, FF_PHASE_BACKWARD);
    list_tp_regather(view, "mlp.input all-gather", view->model->hidden, input_gradient);
    int weight_gradient = list_gemm(view, &up, FF_PHASE_WEIGHT);
    list_tp_enter_backward(view, view->shape->sp ? "mlp.dX reduce-scatter" : "mlp.dX all-reduce",
                           view->model->hidden, weight_gradient);
}

void mlp_forward(layer_view *view, const ff_mlp *mlp) {
    mlp_sides s = dense_sides(view, mlp->width, mlp->gated, FF_MODULE_MLP);
    dense_forward(view, &s);
}

void mlp_backward(layer_view *view, const ff_mlp *mlp) {
    mlp_sides s = dense_sides(view, mlp->width, mlp->gated, FF_MODULE_MLP);
    dense_backward(view, &s);
    list_working(view, "mlp backward", dense_working_bytes(view, &s));
}

/* Rows that the busiest expert rank computes. */
static int64_t expert_rows(const layer_view *view, const ff_moe *moe) {
    int64_t routed = ff_mul(moe->experts_per_token, view->shard_tokens);
    double busiest = ceil((double)routed * view->shape->imbalance);
    return ff_mul((int64_t)busiest, view->shape->etp);
}

static mlp_sides expert_sides(const layer_view *view, const ff_moe *moe) {
    int64_t experts = ff_ceil_div(moe->experts, view->shape->ep);
    int64_t rows = ff_ceil_div(expert_rows(view, moe), experts);
    return (mlp_sides){rows,
                       ff_ceil_div(moe->expert_width, view->shape->etp),
                       experts,
                       moe->gated,
                       "tp cp (as T/t rows)",
                       FF_MODULE_MLP | FF_MODULE_MOE};
}

static mlp_sides shared_sides(const layer_view *view, const ff_moe *moe) {
    return dense_sides(view, moe->shared_width, moe->gated, FF_MODULE_MLP | FF_MODULE_MOE);
}

static product shared_gate(const layer_view *view) {
    return (product){"shared.gate",
                     "shared.gate dX",
                     "shared.gate dW",
                     view->shard_tokens,
                     1,
                     view->model->hidden,
                     1,
                     FF_MODULE_MOE};
}

static void shared_forward(layer_view *view, const ff_moe *moe) {
    mlp_sides shared = shared_sides(view, moe);
    product gate = shared_gate(view);
    if (moe->shared_width == 0)
        return;
    dense_forward(view, &shared);
    if (moe->shared_gate)
        list_gemm(view, &gate, FF_PHASE_FORWARD);
}

static void shared_backward(layer_view *view, const ff_moe *moe) {
    mlp_sides shared = shared_sides(view, moe);
    product gate = shared_gate(view);
    if (moe->shared_width == 0)
        return;
    if (moe->shared_gate) {
        list_gemm(view, &gate, FF_PHASE_BACKWARD);
        list_gemm(view, &gate, FF_PHASE_WEIGHT);
    }
    dense_backward(view, &shared);
    list_working(view, "shared expert backward", dense_working_bytes(view, &shared));
}

static product router(const layer_view *view, const ff_moe *moe) {
    return (product){"router",     "router dX",         "router dW", view->shard_tokens,
                     moe->experts, view->model->hidden, 1,           0};
}

/* Rows to their experts (or their results home): counts, rows and, on the way out, weights. */
static void dispatch(layer_view *view, const ff_moe *moe, ff_phase phase, const char *name,
                     unsigned module) {
    int64_t rows = ff_mul(moe->experts_per_token, view->shard_tokens);
    exchange e = {.name = name,
                  .collective = FF_ALL_TO_ALL,
                  .group = FF_AXES(FF_AXIS_EP),
                  .elements = ff_mul(rows, view->model->hidden),
                  .module = module};
    list_exchange(view, phase, view->shape->ep, &e);
}

/* The router's weights go with the rows, and their gradient comes back. */
static void send_weights(layer_view *view, const ff_moe *moe, ff_phase phase, const char *name,
                         unsigned module) {
    exchange weights = {.name = name,
                        .collective = FF_ALL_TO_ALL,
                        .group = FF_AXES(FF_AXIS_EP),
                        .elements = ff_mul(moe->experts_per_token, view->shard_tokens),
                        .element_bytes = 4,
                        .module = module};
    list_exchange(view, phase, view->shape->ep, &weights);
}

static void announce(layer_view *view, const ff_moe *moe) {
    int64_t ranks = view->shape->ep * view->shape->etp;
    exchange counts = {.name = "moe.counts all-gather",
                       .collective = FF_ALL_GATHER,
                       .group = FF_AXES(FF_AXIS_ETP) | FF_AXES(FF_AXIS_EP),
                       .elements = ff_mul(moe->experts, ranks),
                       .element_bytes = 8,
                       .module = FF_MODULE_MOE};
    list_exchange(view, FF_PHASE_FORWARD, ranks, &counts);
    send_weights(view, moe, FF_PHASE_FORWARD, "moe.weights all-to-all", FF_MODULE_MOE);
}

static void spread_rows(layer_view *view, const ff_moe *moe, ff_phase phase,
                        ff_collective collective, const char *name, unsigned module) {
    exchange e = {.name = name,
                  .collective = collective,
                  .group = FF_AXES(FF_AXIS_ETP),
                  .elements = ff_mul(expert_rows(view, moe), view->model->hidden),
                  .module = module};
    list_exchange(view, phase, view->shape->etp, &e);
}

static void save_moe(layer_view *view, const ff_moe *moe, const mlp_sides *s) {
    const char *axes = "tp cp (as T/t rows)";
    list_save(view, &(saving){"router probabilities", ff_mul(view->shard_tokens, moe->experts), 4,
                              0, FF_PHASE_BACKWARD, axes});
    list_save(view,
              &(saving){"expert input", ff_mul(ff_mul(s->rows, s->batch), view->model->hidden),
                        view->shape->gemm_input_bytes, FF_MODULE_MOE, FF_PHASE_WEIGHT, axes});
    save_inner(view, s);
    if (!s->gated) /* weighed by a kernel of its own; a gated activation's kernel weighs as well */
        list_save(view, &(saving){"activation before weighing", inner_elements(s), 0,
                                  s->module | FF_MODULE_ACTIVATION, FF_PHASE_BACKWARD, axes});
}

/* Rows are put in order of their ranks before they leave and of their experts when they arrive, and
 * padded to what grouped products take: three kernels, each reads and writes all rows. */
enum { PERMUTE_MOVES = 6 };

void moe_forward(layer_view *view, const ff_moe *moe) {
    mlp_sides s = expert_sides(view, moe);
    product route = router(view, moe), up = up_projection(view, &s, true),
            down = down_projection(view, &s, true);
    double rows =
        (double)ff_mul(moe->experts_per_token, view->shard_tokens) * (double)view->model->hidden;
    list_gemm(view, &route, FF_PHASE_FORWARD);
    list_memory(view, "moe.permute", FF_PHASE_FORWARD, PERMUTE_MOVES * rows, FF_MODULE_MOE);
    announce(view, moe);
    dispatch(view, moe, FF_PHASE_FORWARD, "moe.dispatch all-to-all", FF_MODULE_MOE);
    spread_rows(view, moe, FF_PHASE_FORWARD, FF_ALL_GATHER, "moe.rows all-gather", FF_MODULE_MOE);
    list_up(view, &s, &up, "experts.gate");
    activation(view, "experts.activation", FF_PHASE_FORWARD, &s);
    list_gemm(view, &down, FF_PHASE_FORWARD);
    spread_rows(view, moe, FF_PHASE_FORWARD, FF_REDUCE_SCATTER, "moe.rows reduce-scatter",
                FF_MODULE_MOE);
    dispatch(view, moe, FF_PHASE_FORWARD, "moe.combine all-to-all", FF_MODULE_MOE);
    list_memory(view, "moe.unpermute", FF_PHASE_FORWARD, PERMUTE_MOVES * rows, FF_MODULE_MOE);
    save_moe(view, moe, &s);
    shared_forward(view, moe);
}

static void moe_working(layer_view *view, const ff_moe *moe, const mlp_sides *s) {
    int64_t rows = expert_rows(view, moe);
    int64_t sent = ff_mul(moe->experts_per_token, view->shard_tokens);
    int64_t moved = ff_mul(ff_add(rows, sent), view->model->hidden);
    int64_t gradients = ff_mul(inner_elements(s), s->gated ? 3 : 2);
    list_working(view, "expert backward", ff_mul(ff_add(moved, gradients), view->element_bytes));
    list_working(view, "expert dispatch", ff_mul(moved, view->element_bytes));
}

void moe_backward(layer_view *view, const ff_moe *moe) {
    mlp_sides s = expert_sides(view, moe);
    product route = router(view, moe), up = up_projection(view, &s, true),
            down = down_projection(view, &s, true);
    double rows =
        (double)ff_mul(moe->experts_per_token, view->shard_tokens) * (double)view->model->hidden;
    shared_backward(view, moe);
    list_memory(view, "moe.unpermute backward", FF_PHASE_BACKWARD, PERMUTE_MOVES * rows, 0);
    dispatch(view, moe, FF_PHASE_BACKWARD, "moe.combine dX all-to-all", 0);
    spread_rows(view, moe, FF_PHASE_BACKWARD, FF_ALL_GATHER, "moe.dY all-gather", 0);
    list_gemm(view, &down, FF_PHASE_BACKWARD);
    list_gemm(view, &down, FF_PHASE_WEIGHT);
    activation(view, "experts.activation backward", FF_PHASE_BACKWARD, &s);
    list_gemm(view, &up, FF_PHASE_BACKWARD);
    list_gemm(view, &up, FF_PHASE_WEIGHT);
    spread_rows(view, moe, FF_PHASE_BACKWARD, FF_REDUCE_SCATTER, "moe.dX reduce-scatter", 0);
    dispatch(view, moe, FF_PHASE_BACKWARD, "moe.dispatch dX all-to-all", 0);
    send_weights(view, moe, FF_PHASE_BACKWARD, "moe.weights gradient all-to-all", 0);
    list_memory(view, "moe.permute backward", FF_PHASE_BACKWARD, PERMUTE_MOVES * rows, 0);
    list_gemm(view, &route, FF_PHASE_BACKWARD);
    list_gemm(view, &route, FF_PHASE_WEIGHT);
    moe_working(view, moe, &s);
}
