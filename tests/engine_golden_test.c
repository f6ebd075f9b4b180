/* One step of the engine against PyTorch: logits, loss, every gradient, weights after SGD and AdamW, of
 * a small GPT-2 (tied) and a small Llama (grouped queries). The vectors are made by
 * tests/golden/engine/make_vectors.py. In fp64 a gradient of one rank is also held against finite
 * differences. Tolerances: fp32 rounds sums of a few hundred terms, 2^-24 * 200 = 1e-5 of a tensor's
 * largest number; the vectors are rounded to fp32, 6e-8. */
#include "engine_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, \"n_positions\": 16,"
    " \"vocab_size\": 40, \"activation_function\": \"gelu_new\", \"tie_word_embeddings\": true}";
static const char llama[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 24,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"vocab_size\": 40, \"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-3,"
    " \"rope_theta\": 500, \"hidden_act\": \"silu\", \"tie_word_embeddings\": false}";
enum { SEQ = 16, VOCAB = 40 };

static double tolerance(void) {
    return sizeof(real) == 4 ? 1e-5 : 1e-6;
}

static void deal(void *context, int64_t step, int64_t sequence, int64_t seq, int32_t *tokens) {
    (void)context;
    (void)step;
    for (int64_t i = 0; i <= seq; i++)
        tokens[i] = (int32_t)(ff_random(9, (uint64_t)sequence, (uint64_t)i) % VOCAB);
}

/* --- vectors --- */

typedef struct vectors {
    char *bytes;
    size_t length;
} vectors;

static vectors load(const char *name) {
    char path[128];
    vectors v;
    snprintf(path, sizeof path, "tests/golden/engine/%s.bin", name);
    v.bytes = load_file(path, &v.length);
    assert_non_null(v.bytes);
    return v;
}

static float *find(const vectors *v, const char *name, int32_t *count) {
    size_t at = 0;
    while (at + 52 <= v->length) {
        memcpy(count, v->bytes + at + 48, sizeof *count);
        if (strcmp(v->bytes + at, name) == 0) {
            float *numbers = malloc((size_t)*count * sizeof *numbers);
            memcpy(numbers, v->bytes + at + 52, (size_t)*count * sizeof *numbers);
            return numbers;
        }
        at += 52 + (size_t)*count * 4;
    }
    fail_msg("no vector \"%s\"", name);
    return NULL;
}

static void hold(const char *name, const real *ours, const float *theirs, int64_t count) {
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)theirs[i]));
        worst = fmax(worst, fabs((double)ours[i] - (double)theirs[i]));
    }
    if (!(worst <= tolerance() * largest + 1e-8))
        fail_msg("%s differs by %g of %g", name, worst, largest);
}

/* Our padded vocabulary rows come last, so the first `count` numbers are theirs. The gradient of a
 * key's bias is 0 (softmax does not see it), its rounding is noise, and Adam scales noise up. */
static void hold_parts(const vectors *v, const ff_loop *run, const char *prefix,
                       const real *numbers) {
    const ff_chunk *chunk = &run->rank[0]->chunk[0];
    for (int u = 0; u < chunk->units; u++)
        for (int p = 0; p < chunk->unit[u].parts; p++) {
            const ff_unit *unit = &chunk->unit[u];
            char name[64];
            int32_t count;
            if (unit->layer < 0)
                snprintf(name, sizeof name, "%s %s", prefix, unit->part[p].tensor.name);
            else
                snprintf(name, sizeof name, "%s %d.%s", prefix, unit->layer,
                         unit->part[p].tensor.name);
            if (unit->part[p].role == FF_ROLE_K_BIAS && prefix[0] == 'a')
                continue;
            float *theirs = find(v, name, &count);
            assert_true(count <= unit->part[p].elements);
            hold(name, numbers + unit->offset + unit->part[p].offset, theirs, count);
            free(theirs);
        }
}

/* --- runs --- */

typedef struct one_rank {
    ff_setup *setup;
    ff_loop *run;
} one_rank;

static one_rank start(const char *text, ff_update update) {
    ff_model model;
    ff_layout layout;
    one_rank one;
    assert_int_equal(model_of_text(text, NULL, &model), FF_OK);
    ff_engine_adapt(&model);
    assert_true(tiny_layout("mbs=2", &model, 2, &layout, NULL));
    ff_engine_options options = tiny_options();
    options.seq = SEQ;
    options.real_vocab = VOCAB;
    options.deviation = 0.2;
    options.update = update;
    options.rate = update == FF_UPDATE_SGD ? 0.1 : 0.01;
    options.clip = 0;
    options.deal = deal;
    assert_int_equal(ff_setup_create(&model, &layout, &options, NULL, &one.setup), FF_OK);
    one.run = ff_loop_create(one.setup, 0);
    return one;
}

static void stop(one_rank *one) {
    ff_loop_free(one->run);
    ff_setup_free(one->setup);
}

static void check(const char *text, const char *name) {
    vectors v = load(name);
    for (int update = 0; update < 2; update++) {
        one_rank one = start(text, update == 0 ? FF_UPDATE_SGD : FF_UPDATE_ADAMW);
        double loss;
        int32_t count;
        assert_int_equal(ff_loop_step(one.run, NULL, &loss), FF_OK);
        float *theirs = find(&v, "loss", &count);
        assert_true(fabs(loss - (double)theirs[0]) < 2e-6 * loss);
        free(theirs);
        const ff_chunk *chunk = &one.run->rank[0]->chunk[0];
        hold_parts(&v, one.run, "d", chunk->full[0].work);
        hold_parts(&v, one.run, update == 0 ? "s" : "a", chunk->weights);
        stop(&one);
    }
    free(v.bytes);
}

static void test_gpt2(void **state) {
    (void)state;
    check(gpt2, "gpt2");
}

static void test_llama(void **state) {
    (void)state;
    check(llama, "llama");
}

/* --- logits: a list cut short after the product leaves them where they were made --- */

static void cut_after_head(ff_listing *listing) {
    for (int64_t i = 0; i < listing->items; i++)
        if (!listing->item[i].opens && strcmp(listing->item[i].op.name, "head") == 0)
            listing->items = i + 1;
}

static void check_logits(const char *text, const char *name) {
    vectors v = load(name);
    int32_t count;
    float *theirs = find(&v, "logits", &count);
    assert_int_equal(count, 2 * SEQ * VOCAB);
    one_rank one = start(text, FF_UPDATE_SGD);
    ff_rank *rank = one.run->rank[0];
    cut_after_head(&rank->listing);
    ff_rank_begin_step(rank, 0);
    while (rank->at < rank->listing.items)
        assert_int_equal(ff_rank_advance(rank), FF_MOVED);
    const real *logits = rank->chunk[0].flight[0].slot[0][FF_SLOT_SOFTMAX];
    int64_t width = one.setup->model.vocab;
    real row[VOCAB];
    for (int64_t t = 0; t < 2 * SEQ; t++) {
        int64_t position = t / SEQ * SEQ + rank->positions[t % SEQ];
        memcpy(row, logits + t * width, sizeof row);
        hold("logits", row, theirs + position * VOCAB, VOCAB);
    }
    free(theirs);
    free(v.bytes);
    stop(&one);
}

static void test_logits(void **state) {
    (void)state;
    check_logits(gpt2, "gpt2");
    check_logits(llama, "llama");
}

/* --- finite differences, where numbers have room for them --- */

#ifdef FF_ENGINE_FP64

static double loss_with(const char *text, int64_t index, double change) {
    one_rank one = start(text, FF_UPDATE_SGD);
    double loss;
    one.run->rank[0]->chunk[0].weights[index] += (real)change;
    assert_int_equal(ff_loop_step(one.run, NULL, &loss), FF_OK);
    stop(&one);
    return loss;
}

static void check_differences(const char *text) {
    one_rank one = start(text, FF_UPDATE_SGD);
    double loss;
    assert_int_equal(ff_loop_step(one.run, NULL, &loss), FF_OK);
    const ff_chunk *chunk = &one.run->rank[0]->chunk[0];
    for (int u = 0; u < chunk->units; u++)
        for (int p = 0; p < chunk->unit[u].parts; p++)
            for (uint64_t draw = 0; draw < 3; draw++) {
                const ff_part *part = &chunk->unit[u].part[p];
                int64_t index = chunk->unit[u].offset + part->offset +
                                (int64_t)(ff_random(3, (uint64_t)(u * 64 + p), draw) %
                                          (uint64_t)part->elements);
                double step = 1e-4;
                double slope =
                    (loss_with(text, index, step) - loss_with(text, index, -step)) / (2 * step);
                double gradient = (double)chunk->full[0].work[index];
                if (fabs(slope - gradient) > 1e-6 * (1 + fabs(gradient)))
                    fail_msg("%s[%lld]: slope %g, gradient %g", part->tensor.name, (long long)index,
                             slope, gradient);
            }
    stop(&one);
}

static void test_finite_differences(void **state) {
    (void)state;
    check_differences(gpt2);
    check_differences(llama);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_logits),
#ifdef FF_ENGINE_FP64
        cmocka_unit_test(test_finite_differences),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
