/* Laws of the layer recipe over every preset model: FLOP against the model's own counts, shards that
 * cover their tensors, memory that never grows with what divides it, well-formed lists. */
#include "step_support.h"
#include <math.h>

static ff_layer_list list;

/* --- FLOP --- */

/* Forward GEMM FLOP of all blocks on one device are 2*T*P_matmul: a second count of P_matmul, from
 * the recipe instead of the tensor tables. Equal but for padding of vocabulary and expert rows. */
static double recipe_gemm_flop(const ff_model *model, const ff_layer_shape *shape, ff_phase phase) {
    double flop = 0;
    for (int kind = -2; kind < model->kinds; kind++) {
        if (kind == -2)
            ff_embedding_build(model, shape, &list);
        else if (kind == -1)
            ff_head_build(model, shape, &list);
        else
            ff_layer_build(model, kind, shape, &list);
        double times = kind < 0 ? 1 : ff_model_layers_of_kind(model, kind);
        for (int i = 0; i < list.operators; i++)
            if (list.op[i].kind == FF_OPERATOR_GEMM && list.op[i].phase == phase)
                flop += times * list.op[i].flop;
    }
    return flop;
}

static void test_gemm_flop_is_matmul_params(void **state) {
    (void)state;
    const int64_t tokens = 61440; /* the same number of rows for every expert */
    ff_layer_shape shape = plain_shape(tokens);
    ff_model *model;
    int n = 0;
    for (; (model = nth_preset(n)) != NULL; n++, free(model)) {
        ff_model_count count;
        ff_model_params(model, &count);
        int64_t padding = ff_padded_vocab(model->vocab, 1) - model->vocab;
        double expected = 2.0 * tokens * (double)(count.matmul + padding * model->embedding_width);
        double found = recipe_gemm_flop(model, &shape, FF_PHASE_FORWARD);
        if (fabs(found / expected - 1) > 1e-12)
            fail_msg("%s: %.6e of %.6e", model->name, found, expected);
        assert_true(recipe_gemm_flop(model, &shape, FF_PHASE_BACKWARD) == found);
        assert_true(recipe_gemm_flop(model, &shape, FF_PHASE_WEIGHT) == found);
    }
    assert_true(n > 80);
}

/* On causal attention three times the core's forward FLOP are the model's, windows included. */
static void test_attention_flop(void **state) {
    (void)state;
    const int64_t tokens = 8192;
    ff_layer_shape shape = plain_shape(tokens);
    ff_model *model;
    for (int n = 0; (model = nth_preset(n)) != NULL; n++, free(model)) {
        ff_model_count count;
        ff_model_params(model, &count);
        double flop = 0, expected = ff_model_flop_per_token(model, tokens, FF_FLOP_CAUSAL);
        expected = (expected - 6 * (double)count.matmul) * tokens;
        bool linear = false;
        for (int kind = 0; kind < model->kinds; kind++) {
            linear |= model->kind[kind].attention.type == FF_ATTENTION_LINEAR;
            ff_layer_build(model, kind, &shape, &list);
            for (int i = 0; i < list.operators; i++)
                if (list.op[i].kind == FF_OPERATOR_ATTENTION &&
                    list.op[i].phase == FF_PHASE_FORWARD)
                    flop += 3 * list.op[i].flop * ff_model_layers_of_kind(model, kind);
        }
        /* Linear attention's short convolution is memory-bound work in the recipe. */
        if (fabs(flop / expected - 1) > (linear ? 0.02 : 1e-12))
            fail_msg("%s: %.6e of %.6e", model->name, flop, expected);
    }
}

/* What the ranks of a layer do together is the whole layer. */
static void test_ranks_share_flop(void **state) {
    (void)state;
    static const char *const names[] = {"llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        ff_model *model = preset(names[n]);
        ff_layer_shape shape = plain_shape(65536);
        for (int kind = 0; kind < model->kinds; kind++) {
            shape.tp = shape.cp = 1;
            shape.sp = false;
            ff_layer_build(model, kind, &shape, &list);
            double whole = ff_layer_flop(&list, FF_PHASE_FORWARD);
            for (shape.tp = 2; shape.tp <= 8; shape.tp *= 2) {
                for (shape.cp = 1; shape.cp <= 4; shape.cp *= 2) {
                    shape.sp = true;
                    ff_layer_build(model, kind, &shape, &list);
                    double flop = ff_layer_flop(&list, FF_PHASE_FORWARD);
                    assert_true(fabs(flop * (double)(shape.tp * shape.cp) / whole - 1) < 1e-12);
                }
            }
        }
        free(model);
    }
}

/* --- random shapes --- */

static ff_layer_shape random_shape(uint64_t *seed, const ff_model *model) {
    ff_layer_shape shape = plain_shape(PICK(seed, 2048, 4096, 8192));
    shape.sequences = PICK(seed, 1, 2, 3);
    shape.tp = PICK(seed, 1, 2, 4, 8);
    shape.cp = PICK(seed, 1, 2, 4, 8);
    shape.cp_kind = (ff_cp_kind)PICK(seed, 0, 1, 2, 3, 4);
    shape.ulysses = shape.cp_kind == FF_CP_ULYSSES  ? shape.cp
                    : shape.cp_kind == FF_CP_HYBRID ? (shape.cp > 1 ? shape.cp / 2 : 1)
                                                    : 1;
    bool experts = ff_model_moe_kind(model) != NULL;
    shape.sp = shape.tp > 1 && (experts || PICK(seed, 0, 1));
    shape.ep = experts ? PICK(seed, 1, 2, 4) : 1;
    shape.etp = experts ? PICK(seed, 1, 2, 4) : 1;
    shape.recompute = (ff_recompute_mode)PICK(seed, 0, 1, 2);
    shape.modules =
        shape.recompute == FF_RECOMPUTE_SELECTIVE ? (unsigned)PICK(seed, 1, 2, 5, 31, 8) : 0;
    shape.imbalance = (double)PICK(seed, 10, 13, 20) / 10;
    shape.kernels = (ff_kernels){.flash_attention = PICK(seed, 0, 1),
                                 .fused_norm = PICK(seed, 0, 1),
                                 .fused_activation = PICK(seed, 0, 1),
                                 .fused_loss = true};
    return shape;
}

static void for_random_shapes(void (*test)(const ff_model *model, int kind,
                                           const ff_layer_shape *shape)) {
    uint64_t seed = 20240806;
    ff_model *model;
    for (int n = 0; (model = nth_preset(n)) != NULL; n++, free(model)) {
        for (int times = 0; times < 12; times++) {
            ff_layer_shape shape = random_shape(&seed, model);
            for (int kind = 0; kind < model->kinds; kind++)
                test(model, kind, &shape);
        }
    }
}

static void check_operator(int index) {
    const ff_operator *op = &list.op[index];
    assert_true(op->name != NULL && op->name[0] != 0);
    if (op->kind != FF_OPERATOR_COLLECTIVE) {
        assert_true(op->memory_bytes > 0);
        assert_true((op->kind == FF_OPERATOR_MEMORY) == (op->flop == 0));
        if (op->kind == FF_OPERATOR_GEMM)
            assert_true(op->m > 0 && op->n > 0 && op->k > 0 && op->batch > 0);
        return;
    }
    assert_true(op->elements > 0 && op->calls > 0 && op->ranks > 1 && op->element_bytes > 0);
    if (op->timing == FF_TIMING_BLOCKS) {
        assert_int_equal(op->behind, -1);
        return;
    }
    /* It runs beside compute that stands before it, of its phase (W belongs to backward's). */
    assert_in_range(op->behind, 0, index - 1);
    const ff_operator *cover = &list.op[op->behind];
    assert_int_not_equal(cover->kind, FF_OPERATOR_COLLECTIVE);
    assert_true(cover->phase == op->phase ||
                (cover->phase == FF_PHASE_WEIGHT && op->phase == FF_PHASE_BACKWARD));
    assert_int_equal(cover->kind, op->timing == FF_TIMING_IN_OPERATOR ? FF_OPERATOR_ATTENTION
                                                                      : FF_OPERATOR_GEMM);
}

static void check_well_formed(const ff_model *model, int kind, const ff_layer_shape *shape) {
    ff_layer_build(model, kind, shape, &list);
    assert_true(list.operators > 10 && list.tensors > 3 && list.working_sets > 0);
    for (int i = 0; i < list.operators; i++)
        check_operator(i);
    for (int i = 0; i < list.tensors; i++) {
        assert_true(list.tensor[i].elements > 0 && list.tensor[i].element_bytes > 0);
        assert_true(list.tensor[i].freed_by == FF_PHASE_BACKWARD ||
                    list.tensor[i].freed_by == FF_PHASE_WEIGHT);
    }
}

static void test_lists_are_well_formed(void **state) {
    (void)state;
    for_random_shapes(check_well_formed);
    ff_model *model;
    for (int n = 0; (model = nth_preset(n)) != NULL; n++, free(model)) {
        ff_layer_shape shape = plain_shape(4096);
        shape.tp = 4;
        shape.sp = true;
        void (*const builds[])(const ff_model *, const ff_layer_shape *,
                               ff_layer_list *) = {ff_embedding_build, ff_head_build, ff_mtp_build};
        for (int b = 0; b < 3; b++) {
            builds[b](model, &shape, &list);
            for (int i = 0; i < list.operators; i++)
                check_operator(i);
        }
    }
}

static int64_t kept(const ff_model *model, int kind, const ff_layer_shape *shape) {
    ff_layer_build(model, kind, shape, &list);
    return ff_layer_kept_bytes(&list);
}

static void check_memory_falls(const ff_model *model, int kind, const ff_layer_shape *shape) {
    int64_t bytes = kept(model, kind, shape), working = ff_layer_working_bytes(&list);
    ff_layer_shape more = *shape;
    more.tp *= 2;
    assert_true(kept(model, kind, &more) <= bytes);
    assert_true(ff_layer_working_bytes(&list) <= working);
    more = *shape;
    more.cp *= 2;
    if (more.cp_kind == FF_CP_ULYSSES)
        more.ulysses *= 2;
    assert_true(kept(model, kind, &more) <= bytes);
    more = *shape;
    if (more.tp > 1 && ff_model_moe_kind(model) == NULL) {
        more.sp = false;
        int64_t whole = kept(model, kind, &more);
        more.sp = true;
        assert_true(kept(model, kind, &more) <= whole);
    }
    more = *shape;
    more.recompute = FF_RECOMPUTE_NONE;
    assert_true(bytes <= kept(model, kind, &more));
}

static void test_memory_never_grows(void **state) {
    (void)state;
    for_random_shapes(check_memory_falls);
}

/* Recomputation runs all of forward again, or the named modules, and changes nothing else. */
static void check_recompute(const ff_model *model, int kind, const ff_layer_shape *shape) {
    ff_layer_shape full = *shape, none = *shape;
    full.recompute = FF_RECOMPUTE_FULL;
    none.recompute = FF_RECOMPUTE_NONE;
    ff_layer_build(model, kind, &none, &list);
    double forward = ff_layer_flop(&list, FF_PHASE_FORWARD);
    double backward = ff_layer_flop(&list, FF_PHASE_BACKWARD);
    int operators = list.operators, forwards = 0;
    for (int i = 0; i < list.operators; i++)
        forwards += list.op[i].phase == FF_PHASE_FORWARD;
    assert_true(ff_layer_flop(&list, FF_PHASE_RECOMPUTE) == 0);
    assert_int_equal(ff_layer_full_bytes(&list), ff_layer_kept_bytes(&list));
    ff_layer_build(model, kind, &full, &list);
    assert_true(ff_layer_flop(&list, FF_PHASE_RECOMPUTE) == forward);
    assert_true(ff_layer_flop(&list, FF_PHASE_BACKWARD) == backward);
    assert_int_equal(list.operators, operators + forwards);
    ff_layer_build(model, kind, shape, &list);
    assert_true(ff_layer_flop(&list, FF_PHASE_RECOMPUTE) <= forward);
}

static void test_recompute_runs_forward_again(void **state) {
    (void)state;
    for_random_shapes(check_recompute);
}

/* --- weights on a rank --- */

static void check_tensor(const ff_tensor *t) {
    const int64_t all = ff_tensor_elements(t);
    assert_int_equal(ff_tensor_shard_elements(t, 1, 1, 1),
                     t->shard == FF_SHARD_VOCAB ? ff_padded_vocab(t->rows, 1) * t->columns : all);
    for (int64_t n = 1; n <= 64; n *= 2) {
        int64_t tp = ff_tensor_shard_elements(t, n, 1, 1),
                etp = ff_tensor_shard_elements(t, 1, 1, n);
        int64_t ep = ff_tensor_shard_elements(t, 1, n, 1);
        assert_true(ff_tensor_shard_elements(t, 2 * n, 1, 1) <= tp);
        assert_true(ff_tensor_shard_elements(t, 1, 2 * n, 1) <= ep);
        assert_true(ff_tensor_shard_elements(t, 1, 1, 2 * n) <= etp);
        assert_true(n * tp >= all && n * ep >= all && n * etp >= all);
        if (t->shard == FF_SHARD_TP && all % n == 0)
            assert_int_equal(n * tp, all);
        if (t->shard == FF_SHARD_EXPERT && t->count % n == 0)
            assert_int_equal(n * ep, all);
        if (t->shard == FF_SHARD_REPLICATED)
            assert_true(tp == all && ep == all && etp == all);
    }
}

static void test_shards_cover_tensors(void **state) {
    (void)state;
    ff_model *model;
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    for (int n = 0; (model = nth_preset(n)) != NULL; n++, free(model)) {
        for (int kind = -3; kind < model->kinds; kind++) {
            int count = kind == -3   ? ff_model_first_tensors(model, tensors)
                        : kind == -2 ? ff_model_last_tensors(model, tensors)
                        : kind == -1 ? ff_model_mtp_tensors(model, tensors)
                                     : ff_model_layer_tensors(model, kind, tensors);
            for (int i = 0; i < count; i++)
                check_tensor(&tensors[i]);
        }
    }
}

static int64_t shard_of(const ff_model *model, int kind, const char *name, int64_t tp) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    int count = ff_model_layer_tensors(model, kind, tensors);
    for (int i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return ff_tensor_shard_elements(&tensors[i], tp, 1, 1);
    return -1;
}

/* KV heads of the tensor's own layer kind: in a hybrid model the first kind has none. */
static void test_kv_heads_by_kind(void **state) {
    (void)state;
    ff_model *model = preset("qwen3.5-397b-a17b"); /* 2 KV heads of 256, h 4096 */
    int linear = model->layer_kind[0], full = model->layer_kind[3];
    assert_int_equal(model->kind[linear].attention.type, FF_ATTENTION_LINEAR);
    assert_int_equal(model->kind[full].attention.type, FF_ATTENTION_SOFTMAX);
    assert_int_equal(shard_of(model, linear, "attention.k", 1), -1);
    assert_int_equal(shard_of(model, full, "attention.k", 1), 2 * 256 * 4096);
    for (int64_t tp = 2; tp <= 16; tp *= 2)
        assert_int_equal(shard_of(model, full, "attention.k", tp), 256 * 4096);
    free(model);
    model = preset("deepseek-v3"); /* K and V are made for every head: split like Q */
    assert_int_equal(shard_of(model, 0, "attention.kv_b", 8), 128 * (128 + 128) * 512 / 8);
    assert_int_equal(shard_of(model, 0, "attention.kv_a", 8), (512 + 64) * 7168);
    free(model);
    model = preset("llama-3.1-8b"); /* a KV head stays whole when tp exceeds 8 */
    assert_int_equal(shard_of(model, 0, "attention.v", 16), 128 * 4096);
    assert_int_equal(shard_of(model, 0, "attention.v", 8), 128 * 4096);
    assert_int_equal(shard_of(model, 0, "attention.v", 4), 2 * 128 * 4096);
    free(model);
}

/* Llama 8B over tp 8, by hand; norms are replicated, the vocabulary padded to 129,024. */
static void test_shard_params(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b");
    ff_shard_params layer = ff_layer_shard_params(model, 0, 8, 1, 1);
    assert_int_equal(layer.replicated, 2 * 4096);
    assert_int_equal(layer.dense,
                     2 * 4096 + 4096 * (2 * 4096 + 2 * 1024) / 8 + 3 * 4096 * 14336 / 8);
    assert_int_equal(layer.expert, 0);
    assert_int_equal(ff_first_shard_params(model, 8).dense, 129024 / 8 * 4096);
    assert_int_equal(ff_last_shard_params(model, 8, true).dense, 129024 / 8 * 4096 + 4096);
    free(model);
    model = preset("gemma-2-2b"); /* tied: the last of several stages holds a copy */
    int64_t copy = ff_padded_vocab(model->vocab, 4) / 4 * model->hidden;
    assert_int_equal(ff_last_shard_params(model, 4, true).dense -
                         ff_last_shard_params(model, 4, false).dense,
                     copy);
    free(model);
    model = preset("mixtral-8x7b");
    assert_int_equal(ff_layer_shard_params(model, 0, 4, 8, 1).expert, 3 * 4096 * 14336);
    assert_int_equal(ff_layer_shard_params(model, 0, 4, 2, 4).expert, 4 * 3 * 4096 * 14336 / 4);
    free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_flop_is_matmul_params),
        cmocka_unit_test(test_attention_flop),
        cmocka_unit_test(test_ranks_share_flop),
        cmocka_unit_test(test_lists_are_well_formed),
        cmocka_unit_test(test_memory_never_grows),
        cmocka_unit_test(test_recompute_runs_forward_again),
        cmocka_unit_test(test_shards_cover_tensors),
        cmocka_unit_test(test_kv_heads_by_kind),
        cmocka_unit_test(test_shard_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
