/* The layer recipe: memory, collectives and FLOP of a layer against figures worked by hand from
 * published formulas, and laws that hold for every preset and shape. */
#include "step_support.h"
#include <math.h>

static ff_layer_list list; /* too large for the stack of every test */

static const ff_layer_list *build(const ff_model *model, int kind, ff_layer_shape shape) {
    ff_layer_build(model, kind, &shape, &list);
    return &list;
}

static int64_t kept(const ff_model *model, int kind, ff_layer_shape shape) {
    return ff_layer_kept_bytes(build(model, kind, shape));
}

static const ff_saved_tensor *tensor(const char *name) {
    for (int i = 0; i < list.tensors; i++)
        if (strcmp(list.tensor[i].name, name) == 0)
            return &list.tensor[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Calls and elements of one collective in one group and phase (all phases: FF_PHASE_COUNT). */
typedef struct traffic {
    int64_t calls, elements;
} traffic;

static traffic traffic_of(ff_collective collective, ff_axes group, ff_phase phase) {
    traffic sum = {0};
    for (int i = 0; i < list.operators; i++) {
        const ff_operator *op = &list.op[i];
        if (op->kind != FF_OPERATOR_COLLECTIVE || op->collective != collective ||
            op->group != group || (phase != FF_PHASE_COUNT && op->phase != phase))
            continue;
        sum.calls += op->calls;
        sum.elements += op->calls * op->elements;
    }
    return sum;
}

static void assert_traffic(ff_collective collective, ff_axis axis, ff_phase phase, int64_t calls,
                           int64_t elements) {
    traffic t = traffic_of(collective, FF_AXES(axis), phase);
    assert_int_equal(t.calls, calls);
    assert_int_equal(t.elements, elements);
}

static ff_layer_shape shape_of(int64_t seq, int64_t tp, bool sp) {
    ff_layer_shape shape = plain_shape(seq);
    shape.tp = tp;
    shape.sp = sp;
    return shape;
}

/* Llama 8B: h 4096, a 32, k 8, d 128, f 14336. */
enum { T = 8192, H = 4096, A = 32, K = 8, D = 128, F = 14336 };

/* --- memory --- */

/* T/t * (8h + 4(a+k)d + 6f + 4a): 1.063 GiB at T 8192, t 1. */
static void test_llama_memory(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    int64_t token = 8 * H + 4 * (A + K) * D + 6 * F + 4 * A;
    assert_int_equal(token, 139392);
    int64_t one = kept(model, 0, shape_of(T, 1, false));
    assert_int_equal(one, (int64_t)T * token);
    assert_true(fabs((double)one / GIB - 1.063) < 0.001);
    assert_int_equal(kept(model, 0, shape_of(T, 8, true)), T / 8 * token);
    assert_int_equal(kept(model, 0, shape_of(T, 8, false)),
                     (int64_t)T * (8 * H + (token - 8 * H) / 8));
    ff_layer_shape cp = shape_of(T, 2, true);
    cp.cp = 4;
    cp.sequences = 3;
    assert_int_equal(kept(model, 0, cp), 3 * T / 8 * token);
    free(model);
}

static void test_eager_kernels(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = plain_shape(T);
    int64_t fused = kept(model, 0, shape);
    shape.kernels.fused_activation = false;
    assert_int_equal(kept(model, 0, shape) - fused, 2 * (int64_t)T * F);
    shape.kernels.fused_activation = true;
    shape.kernels.fused_norm = false;
    assert_int_equal(kept(model, 0, shape) - fused, 2 * 4 * (int64_t)T * H);
    free(model);
    model = preset("qwen3-8b"); /* h 4096, a 32, k 8, d 128, f 12288, with a norm of Q and K */
    assert_int_equal(kept(model, 0, plain_shape(T)),
                     (int64_t)T * (8 * 4096 + 4 * 40 * 128 + 6 * 12288 + 4 * 32 + 2 * 40 * 128));
    free(model);
}

/* Korthikanti 2022: S*b*h*(34 + 5aS/h)/t with SP, S*b*h*(10 + 24/t + 5aS/(ht)) without. */
static void test_korthikanti(void **state) {
    (void)state;
    ff_model *model = preset("gpt2-xl"); /* h 1600, a 25; dropout, GELU, plain MLP of 4h */
    assert_true(model->dropout);
    enum { S = 1024, B = 4, WIDTH = 1600, HEADS = 25, TP = 5 };
    const int64_t tokens = S * B, scores = 5 * HEADS * S;
    ff_layer_shape shape = plain_shape(S);
    shape.sequences = B;
    shape.kernels.flash_attention = false;
    assert_int_equal(kept(model, 0, shape), tokens * (34 * WIDTH + scores));
    shape.tp = TP;
    assert_int_equal(kept(model, 0, shape), tokens * (10 * WIDTH + (24 * WIDTH + scores) / TP));
    shape.recompute = FF_RECOMPUTE_SELECTIVE;
    shape.modules = FF_MODULE_CORE;
    assert_int_equal(kept(model, 0, shape), tokens * (10 * WIDTH + 24 * WIDTH / TP));
    shape.sp = true;
    shape.seq = 1280; /* 5 divides the tokens */
    assert_int_equal(kept(model, 0, shape), 1280 * B / TP * 34 * WIDTH);
    free(model);
}

static void test_recompute_memory(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = shape_of(T, 4, true);
    int64_t all = kept(model, 0, shape), working = ff_layer_working_bytes(&list);
    shape.recompute = FF_RECOMPUTE_FULL;
    assert_int_equal(kept(model, 0, shape), 2 * (int64_t)T * H / 4);
    /* One layer is rebuilt while it runs backward. */
    assert_int_equal(ff_layer_working_bytes(&list), working + all);
    assert_int_equal(ff_layer_full_bytes(&list), all + 2 * (int64_t)T * H / 4);
    shape.sp = false;
    assert_int_equal(kept(model, 0, shape), 2 * (int64_t)T * H);
    shape = shape_of(T, 4, true);
    shape.recompute = FF_RECOMPUTE_SELECTIVE;
    const struct {
        unsigned modules;
        int64_t freed; /* bytes a token, of all TP ranks */
    } cases[] = {{FF_MODULE_CORE, 4 * A},
                 {FF_MODULE_MLP, 6 * F},
                 {FF_MODULE_NORM, 4 * H},
                 {FF_MODULE_ACTIVATION, 2 * F},
                 {FF_MODULE_CORE | FF_MODULE_MLP, 4 * A + 6 * F},
                 {FF_MODULE_ALTERNATE, 2 * H + 2 * F}, /* the MLP norm's input, up */
                 {FF_MODULE_MOE, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shape.modules = cases[i].modules;
        assert_int_equal(kept(model, 0, shape), all - T / 4 * cases[i].freed);
    }
    free(model);
}

/* Per-operator checkpointing of Llama 8B as torchtitan has it, norms and activation rebuilt too: kept
 * are the layer's input, q, k, v, the attention's output and gate: 3h + 2kd + f elements; run again
 * are the output projection and up. */
static void test_alternate_products(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = plain_shape(T);
    shape.recompute = FF_RECOMPUTE_SELECTIVE;
    shape.modules = FF_MODULE_ALTERNATE | FF_MODULE_NORM | FF_MODULE_ACTIVATION;
    assert_int_equal(kept(model, 0, shape), (int64_t)T * (2 * (3 * H + 2 * K * D + F) + 4 * A));
    double flop = 0;
    for (int i = 0; i < list.operators; i++)
        if (list.op[i].phase == FF_PHASE_RECOMPUTE && list.op[i].kind == FF_OPERATOR_GEMM)
            flop += list.op[i].flop;
    assert_true(flop == 2.0 * T * H * (H + F));
    free(model);
}

/* Experts without a gate keep what the activation wrote before the router's weight came to it: in
 * bf16, one more tensor of the rows' inner width. */
static void test_plain_experts(void **state) {
    (void)state;
    ff_model *model = preset("mixtral-8x7b");
    ff_layer_shape shape = plain_shape(4096);
    int64_t gated = kept(model, 0, shape);
    model->kind[0].moe.gated = false;
    /* gate, up and product (6f) against input, output and weighed output (6f). */
    assert_int_equal(kept(model, 0, shape), gated);
    assert_int_equal(tensor("activation before weighing")->elements, 2 * 4096 * (int64_t)F);
    free(model);
}

/* Mixtral 8x7B, q 2, f 14336: q*etp*(2h + 6f/etp) for 6f, and 4E for the router's probabilities. */
static void test_moe_memory(void **state) {
    (void)state;
    ff_model *model = preset("mixtral-8x7b");
    const int64_t attention = 8 * H + 4 * (A + K) * D + 4 * A, tokens = 4096;
    ff_layer_shape shape = shape_of(tokens, 4, true);
    shape.ep = 8;
    assert_int_equal(kept(model, 0, shape), tokens / 4 * (attention + 2 * (2 * H + 6 * F) + 4 * 8));
    shape.ep = 2;
    shape.etp = 4;
    assert_int_equal(kept(model, 0, shape),
                     tokens / 4 * (attention + 2 * 4 * (2 * H + 6 * F / 4) + 4 * 8));
    shape.imbalance = 1.5; /* of the rows of the busiest rank alone */
    assert_int_equal(kept(model, 0, shape),
                     tokens / 4 * (attention + 3 * 4 * (2 * H + 6 * F / 4) + 4 * 8));
    shape.imbalance = 1;
    shape.recompute = FF_RECOMPUTE_SELECTIVE;
    shape.modules = FF_MODULE_MOE;
    assert_int_equal(kept(model, 0, shape), tokens / 4 * (attention + 4 * 8));
    free(model);
}

/* DeepSeek-V3's dense layers: h 7168, 128 heads of 192 and 128, latents 1536 and 512 + 64, f 18432. */
static void test_mla_memory(void **state) {
    (void)state;
    ff_model *model = preset("deepseek-v3");
    int kind = model->layer_kind[0];
    const int64_t norms = 8 * 7168, latents = 2 * (1536 + 576) + 2 * (1536 + 512);
    const int64_t core = 128 * (2 * 192 + 2 * (192 + 128) + 2 * 128 + 4), mlp = 6 * 18432;
    assert_int_equal(kept(model, kind, plain_shape(4096)), 4096 * (norms + latents + core + mlp));
    assert_int_equal(kept(model, kind, shape_of(4096, 8, true)),
                     4096 / 8 * (norms + latents + core + mlp));
    assert_int_equal(kept(model, kind, shape_of(4096, 8, false)),
                     4096 * (norms + latents + (core + mlp) / 8));
    free(model);
}

/* 6 bytes a logit at the peak, 4 from F to B; eager 10, with the bf16 logits beside it 14: Llama 8B, T 8192: 5.9 and 9.8 GiB. */
static void test_loss_memory(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = plain_shape(T);
    const int64_t logits = (int64_t)T * 128256, norm = 4 * (int64_t)T * H;
    ff_head_build(model, &shape, &list);
    int64_t saved = ff_layer_kept_bytes(&list), peak = saved + ff_layer_working_bytes(&list);
    assert_int_equal(saved - norm, 4 * logits);
    assert_int_equal(peak - norm, 6 * logits);
    assert_true(fabs((double)(peak - norm) / GIB - 5.87) < 0.005);
    shape.kernels.fused_loss = false;
    ff_head_build(model, &shape, &list);
    assert_int_equal(ff_layer_kept_bytes(&list) - norm + ff_layer_working_bytes(&list),
                     10 * logits);
    shape.kernels.keeps_logits = true;
    ff_head_build(model, &shape, &list);
    assert_int_equal(ff_layer_kept_bytes(&list) - norm + ff_layer_working_bytes(&list),
                     14 * logits);
    shape.tp = 8;
    shape.sp = true; /* the vocabulary is padded to a multiple of 1024: 126 * 1024 is above */
    ff_head_build(model, &shape, &list);
    assert_int_equal(tensor("loss softmax")->elements, T * (129024 / 8));
    free(model);
}

/* --- collectives --- */

static void test_tp_collectives(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    const int64_t th = (int64_t)T * H;
    build(model, 0, shape_of(T, 8, true));
    assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_FORWARD, 2, 2 * th);
    assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_TP, FF_PHASE_FORWARD, 2, 2 * th);
    assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_BACKWARD, 4, 4 * th);
    assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_TP, FF_PHASE_BACKWARD, 2, 2 * th);
    assert_traffic(FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_COUNT, 0, 0);
    build(model, 0, shape_of(T, 8, false));
    assert_traffic(FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_FORWARD, 2, 2 * th);
    assert_traffic(FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_BACKWARD, 2, 2 * th);
    assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_COUNT, 0, 0);
    ff_layer_shape full = shape_of(T, 8, true);
    full.recompute = FF_RECOMPUTE_FULL;
    build(model, 0, full);
    assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_RECOMPUTE, 2, 2 * th);
    assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_TP, FF_PHASE_RECOMPUTE, 2, 2 * th);
    build(model, 0, plain_shape(T));
    for (int i = 0; i < list.operators; i++)
        assert_int_not_equal(list.op[i].kind, FF_OPERATOR_COLLECTIVE);
    free(model);
}

/* In ring volumes (an all-reduce is two): 10*T*h with SP, 8*T*h without. */
static void test_tp_volume(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    for (int sp = 0; sp < 2; sp++) {
        double bytes = 0;
        build(model, 0, shape_of(T, 8, sp == 1));
        for (int i = 0; i < list.operators; i++)
            if (list.op[i].kind == FF_OPERATOR_COLLECTIVE)
                bytes += ff_collective_sent_bytes(list.op[i].collective, list.op[i].elements,
                                                  list.op[i].element_bytes, list.op[i].ranks);
        assert_true(bytes == 7.0 / 8 * 2 * (sp ? 10.0 : 8.0) * T * H);
    }
    free(model);
}

static void test_ends_collectives(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    for (int sp = 0; sp < 2; sp++) {
        ff_layer_shape shape = shape_of(T, 8, sp == 1);
        const int64_t th = (int64_t)T * H;
        ff_embedding_build(model, &shape, &list);
        assert_traffic(sp ? FF_REDUCE_SCATTER : FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_FORWARD, 1, th);
        assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_BACKWARD, sp, sp * th);
        assert_traffic(FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_BACKWARD, 0, 0);
        ff_head_build(model, &shape, &list);
        assert_traffic(FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_FORWARD, 3, 3 * T); /* the loss */
        assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_FORWARD, sp, sp * th);
        assert_traffic(sp ? FF_REDUCE_SCATTER : FF_ALL_REDUCE, FF_AXIS_TP, FF_PHASE_BACKWARD, 1,
                       th);
    }
    free(model);
}

static ff_layer_shape cp_shape(int64_t cp, ff_cp_kind kind, int64_t ulysses) {
    ff_layer_shape shape = plain_shape(T);
    shape.cp = cp;
    shape.cp_kind = kind;
    shape.ulysses = ulysses;
    return shape;
}

static void test_cp_collectives(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    const int64_t c = 4, local = T / c, kv = 2 * local * K * D, q = local * A * D;
    const ff_cp_kind rings[] = {FF_CP_RING, FF_CP_RING_PLAIN};
    for (int i = 0; i < 2; i++) {
        build(model, 0, cp_shape(c, rings[i], 1));
        assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_FORWARD, c - 1, (c - 1) * kv);
        assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_BACKWARD, 2 * (c - 1),
                       2 * (c - 1) * kv);
    }
    build(model, 0, cp_shape(c, FF_CP_RING_BALANCED, 1));
    assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_FORWARD, c / 2, c / 2 * q);
    assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_BACKWARD, c, c * q);
    build(model, 0, cp_shape(c, FF_CP_ALLGATHER, 1));
    assert_traffic(FF_ALL_GATHER, FF_AXIS_CP, FF_PHASE_FORWARD, 1, c * kv);
    assert_traffic(FF_ALL_GATHER, FF_AXIS_CP, FF_PHASE_BACKWARD, 1, c * kv);
    assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_CP, FF_PHASE_BACKWARD, 1, c * kv);
    build(model, 0, cp_shape(c, FF_CP_ULYSSES, c));
    int64_t swapped = local * (2 * A + 2 * K) * D;
    assert_traffic(FF_ALL_TO_ALL, FF_AXIS_CP, FF_PHASE_FORWARD, 4, swapped);
    assert_traffic(FF_ALL_TO_ALL, FF_AXIS_CP, FF_PHASE_BACKWARD, 4, swapped);
    assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_COUNT, 0, 0);
    ff_layer_shape replicated = cp_shape(c, FF_CP_ULYSSES, c); /* k/t = 2 < c: counted as 4 */
    replicated.tp = 4;
    build(model, 0, replicated);
    assert_traffic(FF_ALL_TO_ALL, FF_AXIS_CP, FF_PHASE_FORWARD, 4, local * (2 * A / 4 + 2 * 4) * D);
    build(model, 0, cp_shape(8, FF_CP_HYBRID, 2)); /* Ulysses of 2 inside a ring of 4 */
    assert_traffic(FF_ALL_TO_ALL, FF_AXIS_CP, FF_PHASE_FORWARD, 4, T / 8 * (2 * A + 2 * K) * D);
    assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_FORWARD, 3, 3 * 2 * T / 8 * K * D);
    for (int i = 0; i < list.operators; i++)
        if (list.op[i].kind == FF_OPERATOR_COLLECTIVE) {
            bool ring = list.op[i].collective == FF_SEND_RECEIVE;
            assert_int_equal(list.op[i].ranks, ring ? 4 : 2);
            assert_int_equal(list.op[i].outer, ring);
        }
    ff_layer_shape full = cp_shape(c, FF_CP_RING, 1);
    full.recompute = FF_RECOMPUTE_FULL;
    build(model, 0, full);
    assert_traffic(FF_SEND_RECEIVE, FF_AXIS_CP, FF_PHASE_RECOMPUTE, c - 1, (c - 1) * kv);
    free(model);
}

/* Zigzag balances causal work; in a plain ring the last rank does (2c-1)/c of the mean, in a balanced
 * one 9/8: 8 diagonal halves and 28 blocks are half a step and 3.5, which take four. */
static void test_ring_balance(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    double core_flop[3];
    const ff_cp_kind rings[] = {FF_CP_RING, FF_CP_RING_PLAIN, FF_CP_RING_BALANCED};
    for (int i = 0; i < 3; i++) {
        build(model, 0, cp_shape(8, rings[i], 1));
        for (int j = 0; j < list.operators; j++)
            if (list.op[j].kind == FF_OPERATOR_ATTENTION && list.op[j].phase == FF_PHASE_FORWARD)
                core_flop[i] = list.op[j].flop;
    }
    assert_true(fabs(core_flop[0] / (2.0 * T / 8 * (T + 1) / 2 * A * 2 * D) - 1) < 1e-12);
    assert_true(fabs(core_flop[1] / core_flop[0] - 15.0 / 8) < 1e-12);
    assert_true(fabs(core_flop[2] / core_flop[0] - 9.0 / 8) < 1e-12);
    free(model);
}

static void test_ep_collectives(void **state) {
    (void)state;
    ff_model *model = preset("mixtral-8x7b");
    const int64_t tokens = 4096, t = 4, rows = 2 * tokens / t, th = tokens * H;
    ff_layer_shape shape = shape_of(tokens, t, true);
    shape.ep = 8;
    build(model, 0, shape);
    /* Dispatch and combine, and the router's weights beside dispatch. */
    for (int backward = 0; backward < 2; backward++)
        assert_traffic(FF_ALL_TO_ALL, FF_AXIS_EP, backward ? FF_PHASE_BACKWARD : FF_PHASE_FORWARD,
                       3, 2 * rows * H + rows);
    /* Attention's half of a dense layer: 5*T*h. */
    assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_FORWARD, 1, th);
    assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_TP, FF_PHASE_FORWARD, 1, th);
    assert_traffic(FF_ALL_GATHER, FF_AXIS_TP, FF_PHASE_BACKWARD, 2, 2 * th);
    assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_TP, FF_PHASE_BACKWARD, 1, th);
    shape.ep = 2;
    shape.etp = 4;
    build(model, 0, shape);
    for (int backward = 0; backward < 2; backward++) {
        ff_phase phase = backward ? FF_PHASE_BACKWARD : FF_PHASE_FORWARD;
        assert_traffic(FF_ALL_GATHER, FF_AXIS_ETP, phase, 1, 4 * rows * H);
        assert_traffic(FF_REDUCE_SCATTER, FF_AXIS_ETP, phase, 1, 4 * rows * H);
    }
    free(model);
    model = preset("deepseek-v3"); /* shared experts bring the other half back */
    int kind = model->layer_kind[model->layers - 1];
    shape = shape_of(4096, 4, true);
    shape.ep = 8;
    build(model, kind, shape);
    assert_int_equal(traffic_of(FF_REDUCE_SCATTER, FF_AXES(FF_AXIS_TP), FF_PHASE_FORWARD).calls, 2);
    free(model);
}

/* --- what stacks do apart --- */

static double moved_bytes(const char *name, ff_phase phase) {
    double bytes = 0;
    for (int i = 0; i < list.operators; i++)
        if (strcmp(list.op[i].name, name) == 0 && list.op[i].phase == phase)
            bytes += list.op[i].memory_bytes;
    return bytes;
}

/* A loss moves a logit 18 bytes fused, 38 as PyTorch's own, 52 step by step. */
static void test_loss_traffic(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = plain_shape(T);
    const int expected[] = {18, 38, 52};
    double logits = (double)T * 128256;
    for (int i = 0; i < 3; i++) {
        shape.kernels.fused_loss = i != 1;
        shape.kernels.stepwise_loss = i == 2;
        ff_head_build(model, &shape, &list);
        double bytes =
            moved_bytes("loss", FF_PHASE_FORWARD) + moved_bytes("loss backward", FF_PHASE_BACKWARD);
        assert_true(fabs(bytes / logits - expected[i]) < 1e-9);
    }
    free(model);
}

/* Nothing keeps what the last product makes: a recomputation that stops early leaves it out, unless
 * a norm or a dropout after it needs its result. */
static void test_recomputation_stops_early(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = plain_shape(T);
    shape.recompute = FF_RECOMPUTE_FULL;
    double whole = ff_layer_flop(build(model, 0, shape), FF_PHASE_RECOMPUTE);
    shape.kernels.stops_early = true;
    double early = ff_layer_flop(build(model, 0, shape), FF_PHASE_RECOMPUTE);
    assert_true(fabs(whole - early - 2.0 * T * H * F) < 1);
    assert_true(moved_bytes("residual", FF_PHASE_FORWARD) ==
                2 * moved_bytes("residual", FF_PHASE_RECOMPUTE));
    model->dropout = true;
    assert_true(ff_layer_flop(build(model, 0, shape), FF_PHASE_RECOMPUTE) == whole);
    free(model);
}

/* Six bytes a weight forward and again when it is recomputed, 24 of its gradient; 14 an element of
 * what a product reads beside its weight. */
static void test_casts_beside_products(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_layer_shape shape = plain_shape(T);
    double weights = (double)H * (A + 2 * K) * D + (double)A * D * H + 3.0 * H * F;
    shape.weight_cast_bytes = 6;
    shape.gradient_cast_bytes = 24;
    shape.recompute = FF_RECOMPUTE_FULL;
    build(model, 0, shape);
    assert_true(moved_bytes("weight cast", FF_PHASE_FORWARD) == 6 * weights);
    assert_true(moved_bytes("weight cast", FF_PHASE_RECOMPUTE) == 6 * weights);
    assert_true(moved_bytes("gradient casts", FF_PHASE_WEIGHT) == 24 * weights);
    shape = plain_shape(T);
    shape.input_cast_bytes = 14;
    build(model, 0, shape);
    double inputs = (double)T * (H + A * D + H + F);
    double outputs = (double)T * ((A + 2 * K) * D + H + 2 * F + H);
    assert_true(moved_bytes("input casts", FF_PHASE_FORWARD) == 14 * inputs);
    assert_true(moved_bytes("input casts", FF_PHASE_BACKWARD) == 14 * outputs);
    assert_true(moved_bytes("input casts", FF_PHASE_WEIGHT) == 14 * inputs);
    free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_memory),
        cmocka_unit_test(test_eager_kernels),
        cmocka_unit_test(test_korthikanti),
        cmocka_unit_test(test_recompute_memory),
        cmocka_unit_test(test_moe_memory),
        cmocka_unit_test(test_mla_memory),
        cmocka_unit_test(test_alternate_products),
        cmocka_unit_test(test_plain_experts),
        cmocka_unit_test(test_loss_memory),
        cmocka_unit_test(test_tp_collectives),
        cmocka_unit_test(test_tp_volume),
        cmocka_unit_test(test_ends_collectives),
        cmocka_unit_test(test_cp_collectives),
        cmocka_unit_test(test_ring_balance),
        cmocka_unit_test(test_ep_collectives),
        cmocka_unit_test(test_loss_traffic),
        cmocka_unit_test(test_recomputation_stops_early),
        cmocka_unit_test(test_casts_beside_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
