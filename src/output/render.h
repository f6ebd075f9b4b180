/* Facts as text, JSON or CSV. One entry a form; the text form knows the records of plan and check
 * (text_plan.c, text_check.c) and prints every other tree as a document (text_document.c). */
#ifndef FF_OUTPUT_RENDER_H
#define FF_OUTPUT_RENDER_H

#include "base/text.h"
#include "fivefold/diagnostics.h"
#include "fivefold/facts.h"

typedef struct ff_look {
    int columns; /* of the terminal; 80 when piped */
    bool colour;
    bool unicode; /* bars and arrows; plain ASCII otherwise */
    bool verbose; /* every stage, tensor, key and finding */
} ff_look;

void ff_render_json(const ff_fact *root, ff_text *out);
/* One table: the rows of `plans`, or of the first table of a document. */
void ff_render_csv(const ff_fact *root, ff_text *out);
void ff_render_plan(const ff_fact *root, const ff_look *look, ff_text *out);
void ff_render_check(const ff_fact *root, const ff_look *look, ff_text *out);
void ff_render_simulation(const ff_fact *root, const ff_look *look, ff_text *out);
void ff_render_validation(const ff_fact *root, const ff_look *look, ff_text *out);
void ff_render_verify(const ff_fact *root, const ff_look *look, ff_text *out);
void ff_render_train(const ff_fact *root, const ff_look *look, ff_text *out);
void ff_render_document(const ff_fact *root, const ff_look *look, ff_text *out);
/* Findings as a good compiler prints them, least severe ones left out under `least`. */
void ff_render_diagnostics(const ff_diagnostics *list, ff_severity least, const ff_look *look,
                           ff_text *out);

#endif
