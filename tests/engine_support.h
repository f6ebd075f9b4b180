/* What the tests of the engine share: two tiny models, layouts from strings, runs. */
#ifndef TESTS_ENGINE_SUPPORT_H
#define TESTS_ENGINE_SUPPORT_H

#include "engine/random.h"
#include "model_support.h"
#include "verify/compare.h"

/* Four layers each; 8 divides every width that tp divides. */
static const char gpt2_tiny[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 32, \"n_layer\": 4, \"n_head\": 4, \"n_positions\": 64,"
    " \"vocab_size\": 300, \"activation_function\": \"gelu_new\", \"tie_word_embeddings\": %s}";
static const char llama_tiny[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 64,"
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"vocab_size\": 300, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
    " \"hidden_act\": \"silu\", \"tie_word_embeddings\": %s}";

static inline void tiny_model(const char *format, bool tied, ff_model *model) {
    char text[1024];
    snprintf(text, sizeof text, format, tied ? "true" : "false");
    if (model_of_text(text, NULL, model) != FF_OK)
        abort();
    ff_engine_adapt(model);
}

/* Words that can be learned: the next follows from the one before, mostly. */
static inline void deal_walk(void *context, int64_t step, int64_t sequence, int64_t seq,
                             int32_t *tokens) {
    int32_t vocab = *(const int32_t *)context;
    uint64_t stream = (uint64_t)(step * 1000003 + sequence);
    tokens[0] = (int32_t)(ff_random(7, stream, 0) % (uint64_t)vocab);
    for (int64_t i = 1; i <= seq; i++) {
        uint64_t bits = ff_random(7, stream, (uint64_t)i);
        int32_t jump = bits % 8 == 0 ? (int32_t)(bits >> 32) % vocab : 1 + (int32_t)(bits % 3);
        tokens[i] = (tokens[i - 1] * 5 + (jump < 0 ? -jump : jump)) % vocab;
    }
}

static const int32_t tiny_vocab = 300;

static inline ff_engine_options tiny_options(void) {
    ff_engine_options options = ff_engine_defaults();
    options.seq = 32;
    options.real_vocab = tiny_vocab;
    options.poison = true;
    options.deal = deal_walk;
    options.deal_context = (void *)(uintptr_t)&tiny_vocab;
    return options;
}

static inline void print_findings(const ff_diagnostics *findings) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        fprintf(stderr, "  %s: %s\n", d->code, d->message);
    }
}

static inline bool tiny_layout(const char *text, const ff_model *model, int64_t sequences,
                               ff_layout *layout, ff_diagnostics *findings) {
    char full[512];
    snprintf(full, sizeof full, "%s%srecipe=fp32", text, text[0] == '\0' ? "" : ",");
    ff_layout_context context = {.gbs_sequences = sequences, .layers = model->layers};
    if (ff_layout_parse(full, findings, layout) != FF_OK)
        return false;
    if (!ff_layout_given(layout, "accumulate"))
        layout->accumulate = FF_ACCUMULATE_TREE;
    return ff_layout_derive(layout, &context, findings) == FF_OK;
}

#endif
