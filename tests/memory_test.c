/* The ledger: bytes of state by recipe and ZeRO stage, a whole ledger worked by hand, and laws: what
 * divides a tensor never makes a rank hold more, the listed tensors make the total. */
#include "fivefold/memory.h"
#include "memory/state.h"
#include "step_models.h"
#include <math.h>

static const ff_runtime_memory runtime = {1000, 10, 100, 0};

static void ledger(const ff_model *model, const ff_layout *layout, const ff_program_options *how,
                   ff_stage_memory *stages) {
    ff_memory_blocks blocks;
    ff_memory_blocks_build(model, layout, how, &blocks);
    for (int64_t stage = 0; stage < layout->pp; stage++)
        ff_ledger_stage(model, layout, how->seq, &blocks, &runtime, stage, &stages[stage]);
}

/* --- state --- */

static int64_t state_bytes(const char *text, ff_shard_params params) {
    ff_layout layout = layout_of(NULL, text);
    ff_state_bytes state = ff_state_of(&layout, params);
    return state.weights + state.gradients + state.optimizer;
}

static void test_recipes(void **state) {
    (void)state;
    enum { N = 8, P = 960 };
    const struct {
        const char *text;
        int whole, shared; /* bytes a parameter: whole + shared/N */
    } cases[] = {{"recipe=bf16-megatron,zero=0", 18, 0},
                 {"recipe=bf16-megatron,zero=1", 6, 12},
                 {"recipe=bf16-megatron,zero=2", 2, 16},
                 {"recipe=bf16-megatron,zero=3,zero3_weights=stream", 0, 18},
                 {"recipe=bf16-megatron,zero=3,zero3_weights=resident", 6, 18},
                 {"recipe=bf16-classic,zero=0", 16, 0},
                 {"recipe=bf16-deepspeed,zero=0", 16, 0},
                 {"recipe=bf16-deepspeed,zero=1", 4, 12},
                 {"recipe=bf16-deepspeed,zero=2", 2, 14},
                 {"recipe=bf16-deepspeed,zero=3,zero3_weights=stream", 0, 16},
                 {"recipe=bf16-fsdp2,zero=3,zero3_weights=stream", 0, 16},
                 {"recipe=bf16-fsdp2,zero=3,zero3_weights=resident", 6, 16},
                 {"recipe=fp16-megatron,zero=0", 20, 0},
                 {"recipe=fp16-megatron,zero=1", 4, 16},
                 {"recipe=fp32,zero=0", 16, 0},
                 {"recipe=fp32,zero=1", 8, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "dp=4,cp=2,%s", cases[i].text);
        assert_int_equal(state_bytes(text, (ff_shard_params){.dense = P}),
                         P * cases[i].whole + P / N * cases[i].shared);
    }
    /* As a tree the buffer that accumulates has partial sums beside it: 1 for 2 microbatches, 3 for 5
     * to 8 (4, 2 and 1 of them summed up). Shards accumulate under ZeRO-2, full ones if resident. */
    const struct {
        const char *text;
        int more_whole, more_shared;
    } trees[] = {{"zero=1,m=1", 0, 0},
                 {"zero=1,m=2", 4, 0},
                 {"zero=1,m=8", 3 * 4, 0},
                 {"zero=1,m=5", 3 * 4, 0},
                 {"zero=2,m=8", 0, 3 * 4},
                 {"zero=3,zero3_weights=stream,m=4", 0, 2 * 4},
                 {"zero=3,zero3_weights=resident,m=4", 2 * 4, 0}};
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        char chain[128], tree[128];
        snprintf(chain, sizeof chain, "dp=8,recipe=fp32,%s", trees[i].text);
        snprintf(tree, sizeof tree, "%s,accumulate=tree", chain);
        assert_int_equal(state_bytes(tree, (ff_shard_params){.dense = P}) -
                             state_bytes(chain, (ff_shard_params){.dense = P}),
                         P * trees[i].more_whole + P / N * trees[i].more_shared);
    }
    /* Shares are rounded up; a group of one shards nothing and gathers nothing. */
    assert_int_equal(state_bytes("dp=8,zero=1", (ff_shard_params){.dense = 9}), 9 * 6 + 2 * 12);
    assert_int_equal(
        state_bytes("dp=1,zero=3,zero3_weights=resident", (ff_shard_params){.dense = 9}), 9 * 18);
    assert_int_equal(state_bytes("dp=8,zero=1,zero_group=4", (ff_shard_params){.dense = P}),
                     P * 6 + P / 4 * 12);
}

/* Dense weights over dp*cp, experts over edp: with edp 1 they are not sharded at all. */
static void test_expert_state(void **state) {
    (void)state;
    const ff_shard_params experts = {.expert = 960};
    assert_int_equal(state_bytes("dp=8,ep=8,zero=1,grid=folded", experts), 960 * 18);
    assert_int_equal(state_bytes("dp=8,ep=4,zero=1,grid=folded", experts), 960 * 6 + 480 * 12);
    assert_int_equal(state_bytes("dp=8,ep=8,zero=3,grid=folded", experts), 960 * 18);
    assert_int_equal(state_bytes("tp=4,dp=2,ep=1,zero=1,grid=folded", experts), 960 * 6 + 120 * 12);
    assert_int_equal(state_bytes("dp=8,ep=2,zero=1,zero_group=2,grid=folded", experts),
                     960 * 6 + 480 * 12);
}

static int64_t total_state(const ff_model *model, const char *text) {
    ff_layout layout = layout_of(model, text);
    int64_t most = 0;
    for (int64_t stage = 0; stage < layout.pp; stage++) {
        ff_state_bytes s = ff_state_of(&layout, ff_program_stage_params(model, &layout, stage));
        most = ff_max(most, s.weights + s.gradients + s.optimizer);
    }
    return most;
}

typedef struct sizes {
    int tp, pp, dp, cp, ep, etp, zero;
} sizes;

static int64_t state_of_sizes(const ff_model *model, sizes s, const char *recipe) {
    char text[256];
    snprintf(text, sizeof text,
             "tp=%d,pp=%d,dp=%d,cp=%d,ep=%d,etp=%d,zero=%d,recipe=%s,zero3_weights=stream,"
             "grid=folded",
             s.tp, s.pp, s.dp, s.cp, s.ep, s.etp, s.zero, recipe);
    return total_state(model, text);
}

/* Doubling an axis that divides state never adds any, but for rounding of shares (1 in 1000). */
static void test_state_never_grows(void **state) {
    (void)state;
    static const char *const recipes[] = {"bf16-megatron", "bf16-deepspeed", "fp32"};
    uint64_t seed = 17;
    ff_model *model;
    for (int n = 0; (model = nth_preset(n)) != NULL; n++, free(model)) {
        bool experts = ff_model_moe_kind(model) != NULL;
        for (int times = 0; times < 4; times++) {
            sizes s = {.tp = (int)PICK(&seed, 1, 2, 4),
                       .pp = (int)PICK(&seed, 1, 2, 4),
                       .dp = (int)PICK(&seed, 8, 16, 32),
                       .cp = (int)PICK(&seed, 1, 2),
                       .ep = experts ? (int)PICK(&seed, 1, 2, 4) : 1,
                       .etp = experts ? (int)PICK(&seed, 1, 2) : 1,
                       .zero = (int)PICK(&seed, 0, 1, 2)};
            const char *recipe = recipes[PICK(&seed, 0, 1, 2)];
            int64_t bytes = state_of_sizes(model, s, recipe), least = bytes + bytes / 1000;
            sizes more[] = {s, s, s, s, s, s, s};
            more[0].tp *= 2;
            more[1].pp *= 2;
            more[2].dp *= 2;
            more[3].cp *= 2;
            more[4].ep *= experts ? 2 : 1;
            more[5].etp *= experts ? 2 : 1;
            more[6].zero++;
            for (int i = 0; i < 7; i++)
                if (state_of_sizes(model, more[i], recipe) > least)
                    fail_msg("%s: axis %d of tp %d pp %d dp %d ep %d etp %d zero %d", model->name,
                             i, s.tp, s.pp, s.dp, s.ep, s.etp, s.zero);
        }
    }
}

/* --- a whole ledger by hand --- */

/* h 64, 8 heads of 8, 2 KV heads, f 256 gated, 8 layers, V 1000 (padded to 1024); T 64.
 * Layer: 128 + 2*64*64 + 2*16*64 + 3*256*64 = 59,520 weights; keeps 64*(8*64+4*10*8+6*256+4*8). */
static void test_hand_worked(void **state) {
    (void)state;
    ff_model model = small_model(0);
    ff_layout layout = layout_of(&model, "pp=2,dp=2,microbatches=4,zero=1");
    ff_stage_memory stages[2];
    ledger(&model, &layout, &options, stages);
    const int64_t layer = 59520, kept = 153600, logits = 64 * 1024;
    const int64_t params[2] = {4 * layer + 1024 * 64, 4 * layer + 1024 * 64 + 64};
    for (int i = 0; i < 2; i++) {
        const ff_stage_memory *m = &stages[i];
        assert_int_equal(m->params.dense, params[i]);
        assert_int_equal(m->weights_bytes, 2 * params[i]);
        assert_int_equal(m->gradients_bytes, 4 * params[i]);
        assert_int_equal(m->optimizer_bytes, 12 * params[i] / 2);
        assert_int_equal(m->in_flight, 2 - i);
        assert_int_equal(m->kept_bytes, (2 - i) * 4 * kept);
        /* The MLP's backward: incoming gradient, and those of gate, up and product. On the last
         * stage the logits were there before it, and were more. */
        assert_int_equal(m->working_bytes, i == 0 ? 64 * (64 + 3 * 256) * 2 : 0);
        assert_int_equal(m->activations_bytes, m->kept_bytes + m->working_bytes);
        assert_int_equal(m->loss_bytes, i == 0 ? 0 : 6 * logits + 4 * 64 * 64);
        assert_int_equal(m->transfer_bytes, 4 * 64 * 64 * 2); /* in and out, both ways */
        assert_int_equal(m->gathered_bytes + m->bucket_bytes, 0);
        assert_int_equal(m->buffers_bytes, m->loss_bytes + m->transfer_bytes);
        assert_int_equal(m->context_bytes, 1100);
        assert_int_equal(m->communicator_bytes, 20); /* dp and pp */
        assert_int_equal(m->total_bytes, 12 * params[i] + (2 - i) * 4 * kept + 32768 +
                                             (i == 0 ? 106496 : 409600) + 1120);
    }
    ff_runtime_memory loose = runtime;
    loose.fragmentation_ratio = 0.25;
    ff_memory_blocks blocks;
    ff_memory_blocks_build(&model, &layout, &options, &blocks);
    ff_stage_memory m;
    ff_ledger_stage(&model, &layout, options.seq, &blocks, &loose, 0, &m);
    assert_int_equal(m.fragmentation_bytes, (8 * kept + 106496 + 32768) / 4);
    assert_int_equal(m.total_bytes, stages[0].total_bytes + m.fragmentation_bytes);
}

/* A vocabulary of 128: logits of 64 tokens take 64*128*6 + 4*64*64 = 65,536 bytes, the MLP's backward
 * 106,496: the difference comes on top. */
static void test_layer_after_logits(void **state) {
    (void)state;
    ff_model model = small_model(0);
    model.vocab = 128;
    ff_layout layout = layout_of(&model, "");
    ff_stage_memory m;
    ledger(&model, &layout, &options, &m);
    assert_int_equal(m.loss_bytes, 65536);
    assert_int_equal(m.working_bytes, 106496 - 65536);
}

/* fp16: 16 bytes a parameter beside the activations. The fp32 gradients, 4 more, are there in the
 * step alone, and count where they are more than what moved before. */
static void test_gradients_of_the_step(void **state) {
    (void)state;
    ff_model model = small_model(0);
    ff_layout layout = layout_of(&model, "recipe=fp16-megatron,zero=0");
    ff_stage_memory m;
    ledger(&model, &layout, &options, &m);
    int64_t moving = m.activations_bytes + m.buffers_bytes, params = m.params.dense;
    assert_true(moving < 4 * params); /* 1.6 MB of 2.4 */
    assert_int_equal(m.optimizer_bytes, 16 * params - moving);
    assert_int_equal(m.total_bytes, 20 * params + 1100);
    layout = layout_of(&model, "recipe=fp16-megatron,zero=0,mbs=4");
    ff_memory_blocks blocks;
    ff_program_options more = options;
    ff_memory_blocks_build(&model, &layout, &more, &blocks);
    ff_ledger_stage(&model, &layout, more.seq, &blocks, &runtime, 0, &m);
    assert_int_equal(m.optimizer_bytes, 12 * params);
}

static void test_in_flight(void **state) {
    (void)state;
    ff_model model = small_model(0);
    ff_stage_memory stages[4];
    const struct {
        const char *text;
        int in_flight[4];
    } cases[] = {{"pp=4,microbatches=8", {4, 3, 2, 1}},
                 {"pp=4,microbatches=2", {2, 2, 2, 1}},
                 {"pp=4,microbatches=8,schedule=gpipe", {8, 8, 8, 8}},
                 {"pp=4,microbatches=8,vpp=2", {11, 9, 7, 5}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_layout layout = layout_of(&model, cases[i].text);
        ledger(&model, &layout, &options, stages);
        for (int stage = 0; stage < 4; stage++) {
            assert_int_equal(stages[stage].in_flight, cases[i].in_flight[stage]);
            /* Each chunk-microbatch holds its chunk's layers. */
            assert_int_equal(stages[stage].kept_bytes,
                             (int64_t)cases[i].in_flight[stage] * (2 / layout.vpp) * 153600);
        }
    }
}

/* --- buffers --- */

static void test_gathered_layers(void **state) {
    (void)state;
    ff_model model = small_model(3); /* 8 experts of 3*64*32; the other layers' dense part */
    const int64_t dense_layer = 128 + 2 * 64 * 64 + 2 * 16 * 64 + 3 * 256 * 64;
    const int64_t moe_dense = dense_layer - 3 * 256 * 64 + 8 * 64, experts = 8 * 3 * 64 * 32;
    const int64_t embedding = 1024 * 64;
    ff_stage_memory m;
    ff_layout layout = layout_of(&model, "dp=8,ep=8,zero=3,grid=folded");
    ledger(&model, &layout, &options, &m);
    /* edp is 1: experts are not sharded, so not gathered; the embedding is the largest unit. */
    assert_int_equal(m.gathered_bytes, 2 * 2 * (embedding + 64));
    layout = layout_of(&model, "dp=16,ep=2,zero=3,grid=folded");
    ledger(&model, &layout, &options, &m);
    assert_true(moe_dense + experts / 2 < embedding);
    assert_int_equal(m.gathered_bytes, 2 * 2 * (embedding + 64));
    model.vocab = 128;
    ledger(&model, &layout, &options, &m);
    assert_int_equal(m.gathered_bytes, 2 * 2 * ff_max(dense_layer, moe_dense + experts / 2));
    assert_int_equal(m.bucket_bytes, 4 * ff_max(dense_layer, moe_dense + experts / 2));
    layout = layout_of(&model, "dp=8,ep=8,zero=3,grid=folded");
    ledger(&model, &layout, &options, &m);
    assert_int_equal(m.gathered_bytes, 2 * 2 * dense_layer);
    model.kind[1].moe.expert_width =
        2048; /* one is larger than a dense layer, but is not gathered */
    ledger(&model, &layout, &options, &m);
    assert_int_equal(m.gathered_bytes, 2 * 2 * dense_layer);
    layout = layout_of(&model, "dp=16,ep=2,zero=3,zero3_weights=resident,grid=folded");
    ledger(&model, &layout, &options, &m);
    assert_int_equal(m.gathered_bytes + m.bucket_bytes, 0);
    layout = layout_of(&model, "dp=16,ep=2,zero=2,grid=folded"); /* one bucket, in and out */
    ledger(&model, &layout, &options, &m);
    assert_int_equal(m.bucket_bytes, 2 * 4 * ff_max(m.params.dense, m.params.expert));
}

typedef struct reductions {
    int64_t count, largest;
} reductions;

static void note_reduction(void *context, const ff_event *event) {
    reductions *r = context;
    if (event->op == NULL || strcmp(event->op->name, "gradients") != 0)
        return;
    r->count++;
    r->largest = ff_max(r->largest, event->op->elements);
}

/* Two buckets, each as large as the largest that the list reduces: the last, with the remainder. */
static void test_buckets_are_those_of_the_list(void **state) {
    (void)state;
    ff_model model = small_model(0);
    ff_layout layout = layout_of(&model, "dp=2,zero=2,m=1");
    model.vocab = 1000064; /* 2 x 64 a word: 128 M and some, in three buckets */
    while (ff_program_stage_params(&model, &layout, 0).dense % 3 != 2)
        model.vocab += 128;
    ff_program *program = ff_program_create(&model, &layout, &options, NULL);
    ff_stage_memory m;
    reductions r = {0};
    assert_non_null(program);
    ff_program_walk(program, 0, note_reduction, &r);
    ledger(&model, &layout, &options, &m);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.largest, m.params.dense / 3 + 2);
    assert_int_equal(m.bucket_bytes, 2 * 4 * r.largest);
    ff_program_free(program);
}

/* A tied embedding that is used at both ends of one stage stays gathered between its uses (2 bytes a
 * weight), and its first gradient waits for the second (4 bytes); with a stage for each use there is
 * nothing to wait for. */
static void test_streamed_tied_embedding(void **state) {
    (void)state;
    ff_model model = small_model(1);
    const int64_t embedding = ff_first_shard_params(&model, 1).dense;
    ff_stage_memory tied[2], untied[2];
    assert_true(model.tied_head);
    static const char *const layouts[] = {"dp=8,zero=3,zero3_weights=stream",
                                          "dp=4,pp=2,zero=3,zero3_weights=stream"};
    for (int i = 0; i < 2; i++) {
        ff_layout layout = layout_of(&model, layouts[i]);
        int64_t held = i == 0 ? embedding : 0;
        model.tied_head = true;
        ledger(&model, &layout, &options, tied);
        model.tied_head = false;
        ledger(&model, &layout, &options, untied);
        assert_true(ff_last_shard_params(&model, 1, false).dense > embedding);
        int64_t head = ff_last_shard_params(&model, 1, false).dense;
        int64_t largest = i == 0 ? embedding : head; /* of the tied model: its head has no matrix */
        assert_int_equal(tied[layout.pp - 1].gathered_bytes, 2 * (2 * largest + held));
        assert_int_equal(tied[layout.pp - 1].bucket_bytes, 4 * (largest + held));
        assert_int_equal(untied[layout.pp - 1].gathered_bytes, 2 * 2 * head);
    }
}

static void test_communicators(void **state) {
    (void)state;
    ff_model dense = small_model(0), experts = small_model(3);
    ff_layout layout = layout_of(&dense, "tp=2,dp=2,pp=2,microbatches=2");
    assert_int_equal(ff_ledger_communicators(&dense, &layout), 3);
    assert_int_equal(ff_ledger_communicators(&experts, &layout), 4); /* and edp */
    layout = layout_of(&dense, "tp=2,dp=4,cp=2,ep=4,etp=2,grid=folded");
    assert_int_equal(ff_ledger_communicators(&experts, &layout), 6);
    layout = layout_of(&dense, "dp=1");
    assert_int_equal(ff_ledger_communicators(&experts, &layout), 0);
}

/* --- laws over random layouts --- */

static void check_ledger(const ff_model *model, const ff_layout *layout,
                         const ff_program_options *how, const char *text) {
    ff_stage_memory stages[8];
    ff_live_tensor tensors[128];
    ledger(model, layout, how, stages);
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        const ff_stage_memory *m = &stages[stage];
        int count = ff_ledger_tensors(model, layout, how, m, stage, 128, tensors);
        int64_t sum = 0;
        for (int i = 0; i < count; i++) {
            sum += tensors[i].bytes;
            assert_true(i == 0 || tensors[i].bytes <= tensors[i - 1].bytes);
        }
        if (sum != m->total_bytes)
            fail_msg("%s stage %d: lines add up to %lld of %lld", text, (int)stage, (long long)sum,
                     (long long)m->total_bytes);
        assert_int_equal(m->total_bytes, m->weights_bytes + m->gradients_bytes +
                                             m->optimizer_bytes + m->activations_bytes +
                                             m->buffers_bytes + m->runtime_bytes);
        ff_shard_params params = ff_program_stage_params(model, layout, stage);
        assert_memory_equal(&m->params, &params, sizeof params);
        bool last = stage == layout->pp - 1;
        assert_int_equal(m->loss_bytes > 0, last);
        assert_int_equal(ff_ledger_tensors(model, layout, how, m, stage, 3, tensors), 3);
    }
}

static void test_lines_make_the_total(void **state) {
    (void)state;
    uint64_t seed = 31;
    for (int i = 0; i < 800; i++) {
        char text[512];
        ff_model model = small_model(i % VARIANTS);
        random_layout(&seed, &model, text, sizeof text);
        ff_layout layout = layout_of(&model, text);
        ff_program_options how = options;
        how.imbalance = (double)PICK(&seed, 10, 15) / 10;
        how.kernels.flash_attention = PICK(&seed, 0, 1);
        how.kernels.fused_loss = PICK(&seed, 0, 1);
        check_ledger(&model, &layout, &how, text);
    }
}

/* Llama 70B on the last stage: logits of 4 and 6 bytes are where docs/model.md D puts them. */
static void test_last_stage_logits(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-70b");
    ff_layout layout = layout_of(model, "tp=8,pp=4,dp=4,microbatches=16");
    ff_program_options how = options;
    how.seq = 8192;
    ff_stage_memory stages[4];
    ledger(model, &layout, &how, stages);
    int64_t logits = 8192 * (129024 / 8);
    assert_int_equal(stages[3].loss_bytes, 6 * logits + 4 * 8192 / 8 * 8192);
    assert_int_equal(stages[0].kept_bytes, 4 * stages[3].kept_bytes);
    free(model);
}

static void test_verdict(void **state) {
    (void)state;
    const int64_t gib = INT64_C(1) << 30;
    const struct {
        int64_t peak, capacity, margin;
        ff_verdict verdict;
    } cases[] = {{76 * gib, 80 * gib, 0, FF_FITS},        {76 * gib + 1, 80 * gib, 0, FF_TIGHT},
                 {80 * gib, 80 * gib, 0, FF_TIGHT},       {80 * gib + 1, 80 * gib, 0, FF_TOO_BIG},
                 {21 * gib, 24 * gib, 0, FF_FITS},        {21 * gib + 1, 24 * gib, 0, FF_TIGHT},
                 {79 * gib, 80 * gib, gib, FF_FITS},      {79 * gib + 1, 80 * gib, gib, FF_TIGHT},
                 {FF_SATURATED, 80 * gib, 0, FF_TOO_BIG}, {gib, 2 * gib, 0, FF_TIGHT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ff_ledger_verdict(cases[i].peak, cases[i].capacity, cases[i].margin),
                         cases[i].verdict);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_expert_state),
        cmocka_unit_test(test_state_never_grows),
        cmocka_unit_test(test_hand_worked),
        cmocka_unit_test(test_layer_after_logits),
        cmocka_unit_test(test_gradients_of_the_step),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_gathered_layers),
        cmocka_unit_test(test_buckets_are_those_of_the_list),
        cmocka_unit_test(test_streamed_tied_embedding),
        cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_lines_make_the_total),
        cmocka_unit_test(test_last_stage_logits),
        cmocka_unit_test(test_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
