/* config.json: read, count, price FLOP. */
#include "fuzz.h"

#include "input/reader.h"
#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ff_arena *arena = ff_arena_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    const ff_field *root = NULL;
    ff_model model;
    ff_status status =
        ff_fields_read(arena, "fuzz.json", (const char *)data, size, findings, &root);
    if (status == FF_OK)
        status = ff_model_from_config(root, "fuzz", findings, &model);
    fuzz_judge(status, findings);
    if (status == FF_OK) {
        ff_model_count count;
        ff_model_params(&model, &count);
        if (count.total < 1 || count.active > count.total ||
            !(ff_model_flop_per_token(&model, 4096, FF_FLOP_CAUSAL) > 0.0))
            abort();
    }
    ff_diagnostics_free(findings);
    ff_arena_free(arena);
    return 0;
}
