/* The answer of `train` as text: what ran on what, where the loss began and ended, how fast.
 *
 * The losses were told while the steps ran; -v lists all of them again, as a document. */
#include "base/units.h"
#include "output/lines.h"

#include <stdio.h>

enum { INDENT = 2, LABEL = 6 };

static void print_run(ff_text *out, const ff_fact *root, const ff_look *look) {
    char line[256], batch[FF_VALUE_BYTES], ranks[FF_VALUE_BYTES], tokens[FF_VALUE_BYTES];
    snprintf(line, sizeof line, "%s ranks, %lld steps of %s tokens",
             ff_format_integer(ff_fact_integer(root, "ranks"), ranks, sizeof ranks),
             (long long)ff_fact_integer(root, "steps"),
             ff_format_integer(ff_fact_integer(root, "step_tokens"), batch, sizeof batch));
    ff_item(out, INDENT, "layout", LABEL, ff_fact_text(root, "layout"), look);
    ff_item(out, INDENT, "run", LABEL, line, look);
    snprintf(line, sizeof line, "%s, %s tokens", ff_fact_text(root, "data"),
             ff_format_integer(ff_fact_integer(root, "data_tokens"), tokens, sizeof tokens));
    ff_item(out, INDENT, "data", LABEL, line, look);
}

static void print_loss(ff_text *out, const ff_fact *root, const ff_look *look) {
    char line[128];
    int length = snprintf(line, sizeof line, "%.6f at first, %.6f at last",
                          ff_fact_real(root, "first_loss"), ff_fact_real(root, "last_loss"));
    if (ff_fact_find(root, "validation_loss") != NULL)
        snprintf(line + length, sizeof line - (size_t)length, ", %.6f in validation",
                 ff_fact_real(root, "validation_loss"));
    ff_item(out, INDENT, "loss", LABEL, line, look);
}

static void print_speed(ff_text *out, const ff_fact *root, const ff_look *look) {
    char line[256], elapsed[FF_VALUE_BYTES], rate[FF_VALUE_BYTES], share[FF_VALUE_BYTES],
        peak[FF_VALUE_BYTES];
    snprintf(line, sizeof line, "%s tokens/s, %s of the %s that matrix products reach",
             ff_format_integer((int64_t)ff_fact_real(root, "tokens_per_s"), rate, sizeof rate),
             ff_format_percent(ff_fact_real(root, "peak_ratio"), share, sizeof share),
             ff_format_number("peak_flops", ff_fact_real(root, "peak_flops"), peak, sizeof peak));
    ff_item(out, INDENT, "speed", LABEL, line, look);
    ff_item(out, INDENT, "time", LABEL,
            ff_format_seconds(ff_fact_real(root, "elapsed_s"), elapsed, sizeof elapsed), look);
}

void ff_render_train(const ff_fact *root, const ff_look *look, ff_text *out) {
    if (look->verbose) {
        ff_render_document(root, look, out);
        return;
    }
    ff_painted(out, ff_fact_text(root, "model"), FF_PAINT_HEADING, look);
    ff_text_append(out, "\n\n");
    print_run(out, root, look);
    print_loss(out, root, look);
    print_speed(out, root, look);
}
