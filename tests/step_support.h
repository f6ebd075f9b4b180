/* What the tests of the step share: presets as models, layouts from their string, a layer's shape,
 * and a small generator of random numbers. */
#ifndef TESTS_STEP_SUPPORT_H
#define TESTS_STEP_SUPPORT_H

#include "base/number.h"
#include "fivefold/layer.h"
#include "fivefold/layout.h"
#include "fivefold/program.h"
#include "layout/recipe.h"
#include "presets/presets.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB (1024.0 * 1024 * 1024)
#define FUSED_KERNELS                                                                              \
    { .flash_attention = true, .fused_norm = true, .fused_activation = true, .fused_loss = true }

static inline ff_model *preset(const char *name) {
    ff_model *model = calloc(1, sizeof *model);
    if (model == NULL || ff_model_preset(name, NULL, model) != FF_OK)
        fail_msg("%s is no model", name);
    return model;
}

/* The n-th model preset, or NULL past the end. */
static inline ff_model *nth_preset(int n) {
    const char *path = ff_preset_path("models/", n);
    return path == NULL ? NULL : preset(path + strlen("models/"));
}

/* Derived for a model, in a world that is the layout's own product. */
static inline ff_layout layout_of(const ff_model *model, const char *text) {
    ff_layout layout;
    ff_layout_context context = {.layers = model == NULL ? 0 : model->layers};
    ff_diagnostics *findings = ff_diagnostics_create();
    if (ff_layout_parse(text, findings, &layout) != FF_OK ||
        ff_layout_derive(&layout, &context, findings) != FF_OK)
        fail_msg("%s: %s", text, ff_diagnostics_at(findings, 0)->message);
    ff_diagnostics_free(findings);
    return layout;
}

/* Fused kernels, bf16, nothing sharded, nothing recomputed. */
static inline ff_layer_shape plain_shape(int64_t seq) {
    return (ff_layer_shape){.seq = seq,
                            .sequences = 1,
                            .tp = 1,
                            .cp = 1,
                            .ep = 1,
                            .etp = 1,
                            .ulysses = 1,
                            .activation_bytes = 2,
                            .gemm_input_bytes = 2,
                            .imbalance = 1,
                            .kernels = FUSED_KERNELS};
}

static inline uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static inline int64_t pick(uint64_t *seed, const int64_t *choices, int count) {
    return choices[next_random(seed) % (uint64_t)count];
}
#define PICK(seed, ...)                                                                            \
    pick(seed, (const int64_t[]){__VA_ARGS__},                                                     \
         (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

#endif
