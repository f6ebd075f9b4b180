/* Layout strings: parse, derive, print; what is printed must mean the same again. */
#include "fuzz.h"

#include "fivefold/layout.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ff_arena *arena = ff_arena_create();
    const char *text = ff_arena_copy(arena, (const char *)data, size);
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_layout layout, again;
    ff_status status = ff_layout_parse(text, findings, &layout);
    ff_layout_context context = {
        .world = size % 2 == 0 ? 128 : 0, .gbs_sequences = 1024, .layers = 80};
    if (status == FF_OK)
        status = ff_layout_derive(&layout, &context, findings);
    if (status == FF_OK || status == FF_INVALID)
        fuzz_judge(status, findings);
    if (status == FF_OK) {
        char first[FF_LAYOUT_TEXT_BYTES], second[FF_LAYOUT_TEXT_BYTES];
        ff_layout_print(&layout, FF_LAYOUT_FULL, first, sizeof first);
        if (ff_layout_parse(first, NULL, &again) != FF_OK ||
            ff_layout_derive(&again, &context, NULL) != FF_OK)
            abort();
        if (strcmp(first, ff_layout_print(&again, FF_LAYOUT_FULL, second, sizeof second)) != 0)
            abort();
    }
    ff_diagnostics_free(findings);
    ff_arena_free(arena);
    return 0;
}
