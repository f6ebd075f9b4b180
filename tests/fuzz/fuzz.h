/* What every fuzzer needs: its bytes as a string, and findings that are printed too, since the
 * printing of hostile places is as exposed as the parsing. */
#ifndef FF_TESTS_FUZZ_H
#define FF_TESTS_FUZZ_H

#include "base/arena.h"
#include "base/diagnose.h"
#include "output/render.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal must say why; an acceptance must hold no error. */
static inline void fuzz_judge(ff_status status, const ff_diagnostics *findings) {
    if ((status == FF_INVALID) != ff_has_errors(findings))
        abort();
    ff_look look = {.columns = 80, .unicode = true};
    ff_text out = {0};
    ff_render_diagnostics(findings, FF_NOTE, &look, &out);
    ff_text_free(&out);
}

#endif
