/* How fast the engine is here, in processor seconds of one thread: its products in transformer shapes,
 * and steps of a GPT-2 of 6 layers, width 384, 256 tokens a sequence, 8 sequences (10.9 M parameters).
 *
 * A step that reaches less than half of the product's rate misses the target: the rest is packing,
 * softmax, norms and memory, and should stay below that. */
#include "engine/loop.h"
#include "engine/random.h"
#include "fivefold/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HIDDEN = 384, HEADS = 6, LAYERS = 6, SEQ = 256, SEQUENCES = 8, VOCAB = 512 };

static double clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double product_rate(int64_t m, int64_t n, int64_t k, int64_t segments) {
    ff_gemm_space space = {.kernel = ff_gemm_choose(0)};
    ff_k_order order;
    real *a = ff_engine_array(m * k, sizeof *a), *b = ff_engine_array(n * k, sizeof *b);
    real *c = ff_engine_array(m * n, sizeof *c);
    ff_k_segments(&order, k, segments);
    ff_product p = {m, n, k, {a, k, 1}, {b, 1, k}, c, n, &order};
    double best_s = 1e9;
    for (int i = 0; i < 9; i++) {
        double begun_s = clock_s();
        ff_gemm(&space, &p);
        double took_s = clock_s() - begun_s;
        best_s = took_s < best_s ? took_s : best_s;
    }
    ff_gemm_space_free(&space);
    free(a);
    free(b);
    free(c);
    return 2.0 * (double)(m * n * k) / best_s;
}

static void deal(void *context, int64_t step, int64_t sequence, int64_t seq, int32_t *tokens) {
    (void)context;
    for (int64_t i = 0; i <= seq; i++)
        tokens[i] = (int32_t)(ff_random((uint64_t)step, (uint64_t)sequence, (uint64_t)i) % VOCAB);
}

static ff_model gpt2(void) {
    ff_model m = {.hidden = HIDDEN,
                  .vocab = VOCAB,
                  .position_rows = SEQ,
                  .embedding_width = HIDDEN,
                  .max_seq = SEQ,
                  .layers = LAYERS,
                  .kinds = 1,
                  .tied_head = true,
                  .norm_bias = true,
                  .final_norm = true,
                  .activation = FF_ACTIVATION_GELU};
    m.kind[0] = (ff_layer_kind){.name = "dense",
                                .attention = {.type = FF_ATTENTION_SOFTMAX,
                                              .heads = HEADS,
                                              .kv_heads = HEADS,
                                              .qk_head_dim = HIDDEN / HEADS,
                                              .v_head_dim = HIDDEN / HEADS,
                                              .qkv_bias = true,
                                              .output_bias = true},
                                .mlp = {.width = 4 * HIDDEN, .bias = true},
                                .norms = 2};
    return m;
}

/* Tokens a second of the best of four steps; 0 when the engine refuses. */
static double step_rate(bool fast) {
    ff_model model = gpt2();
    ff_layout layout;
    ff_layout_context context = {.gbs_sequences = SEQUENCES, .layers = LAYERS};
    ff_engine_options options = ff_engine_defaults();
    ff_setup *setup;
    ff_engine_adapt(&model);
    options.seq = SEQ;
    options.real_vocab = VOCAB;
    options.deal = deal;
    options.fast = fast;
    if (ff_layout_parse("mbs=8,recipe=fp32,accumulate=tree", NULL, &layout) != FF_OK ||
        ff_layout_derive(&layout, &context, NULL) != FF_OK ||
        ff_setup_create(&model, &layout, &options, NULL, &setup) != FF_OK)
        return 0;
    ff_loop *loop = ff_loop_create(setup, 0);
    double best_s = 1e9, loss;
    for (int i = 0; i < 4; i++) {
        double begun_s = clock_s();
        if (ff_loop_step(loop, NULL, &loss) != FF_OK)
            return 0;
        double took_s = clock_s() - begun_s;
        best_s = took_s < best_s ? took_s : best_s;
    }
    ff_loop_free(loop);
    ff_setup_free(setup);
    return SEQ * SEQUENCES / best_s;
}

int main(void) {
    double best = 0;
    static const int64_t shapes[][4] = {
        {2048, 1152, 384, 1}, {2048, 384, 1536, 8}, {1536, 384, 2048, 64}, {512, 512, 512, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i];
        double rate = product_rate(s[0], s[1], s[2], s[3]);
        best = rate > best ? rate : best;
        printf("%10.1f GFLOP/s  product %lldx%lldx%lld, %lld segments, %s\n", rate * 1e-9,
               (long long)s[0], (long long)s[1], (long long)s[2], (long long)s[3],
               ff_gemm_choose(0)->name);
    }
    ff_model model = gpt2();
    double tokens = step_rate(false), flop = ff_model_flop_per_token(&model, SEQ, FF_FLOP_FULL);
    printf("%10.0f tokens/s   step of 10.9 M parameters, canonical order: %.0f%% of the product\n",
           tokens, 100 * tokens * flop / best);
    printf("%10.0f tokens/s   the same, in plain chains (--fast)\n", step_rate(true));
    return tokens * flop < 0.5 * best;
}
