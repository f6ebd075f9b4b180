/* Bare shapes of models. */
#include "fuzz.h"

#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ff_arena *arena = ff_arena_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    const char *text = ff_arena_copy(arena, (const char *)data, size);
    ff_model model;
    ff_status status = ff_model_from_shape(text, findings, &model);
    fuzz_judge(status, findings);
    if (status == FF_OK) {
        ff_model_count count;
        ff_model_params(&model, &count);
        if (count.total < 1)
            abort();
    }
    ff_diagnostics_free(findings);
    ff_arena_free(arena);
    return 0;
}
