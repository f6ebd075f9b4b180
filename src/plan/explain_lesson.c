/* Where the lesson's coarse ledger and the full one part, term by term, for one layout. */
#include "plan/explain.h"
#include "plan/lesson.h"

#include <stdio.h>

static const ff_column columns[] = {{"term", "term"},       {"lesson_bytes", "lesson"},
                                    {"full_bytes", "full"}, {"delta_bytes", "difference"},
                                    {"why", "why"},         {NULL, NULL}};

static void row(const char *term, double lesson, double full, const char *why, ff_facts *facts) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "term", "%s", term);
    ff_facts_add_real(facts, "lesson_bytes", lesson);
    ff_facts_add_real(facts, "full_bytes", full);
    ff_facts_add_text(facts, "delta_bytes", "%+.1f GiB", (full - lesson) / (1024.0 * 1024 * 1024));
    ff_facts_add_text(facts, "why", "%s", why);
    ff_facts_close(facts);
}

static ff_lesson_layout lesson_of(const ff_explained *e) {
    const ff_layout *l = &e->layout;
    ff_lesson_layout lesson = {.dp = l->dp,
                               .tp = l->tp,
                               .pp = l->pp,
                               .cp = l->cp,
                               .ep = 1,
                               .zero = l->zero,
                               .mbs = l->mbs,
                               .microbatches = l->microbatches};
    ff_lesson_price(e->job, &lesson);
    return lesson;
}

void ff_explain_lesson(const ff_explained *e, ff_facts *facts) {
    ff_lesson_layout lesson = lesson_of(e);
    const ff_lesson_memory *c = &lesson.memory;
    const ff_stage_memory *m = &e->stages[e->estimate.peak_stage];
    double states = (double)(m->weights_bytes + m->gradients_bytes + m->optimizer_bytes);
    char shape[128];
    snprintf(shape, sizeof shape, "stage %lld alone; bytes by recipe; vocabulary padded",
             (long long)e->estimate.peak_stage);
    ff_document_open(facts, "lesson: %s", e->job->model.name);
    ff_document_section(facts, "%s", "");
    ff_document_say(facts,
                    "The lesson's coarse ledger and the full one, for this layout; the full one "
                    "at its worst stage, %lld of %lld.",
                    (long long)e->estimate.peak_stage, (long long)e->layout.pp);
    ff_document_table(facts, columns);
    row("states", c->static_bytes, states, shape, facts);
    row("activations", c->activation_bytes, (double)m->activations_bytes,
        "every saved tensor, in flight, under recomputation", facts);
    row("logits, buffers", 0, (double)m->buffers_bytes, "not in the lesson", facts);
    row("overhead", c->overhead_bytes, (double)m->runtime_bytes,
        "context, communicators, fragmentation", facts);
    row("total", c->total_bytes, (double)m->total_bytes, "", facts);
    ff_document_table_end(facts);
    ff_document_section(facts, "What the lesson leaves out");
    ff_document_item(facts, "pp", "it does not divide states by pp %lld, nor count %lld in flight",
                     (long long)e->layout.pp, (long long)m->in_flight);
    ff_document_item(facts, "states", "it counts 16 bytes a parameter; recipe %s decides here",
                     ff_recipe_name(e->layout.recipe));
    ff_document_item(facts, "ZeRO", "it shards over dp %lld; the full ledger over dp * cp = %lld",
                     (long long)e->layout.dp, (long long)(e->layout.dp * e->layout.cp));
    if (e->layout.ep > 1)
        ff_document_item(facts, "ep",
                         "it holds all experts; here each rank holds 1 in %lld of them, and ZeRO "
                         "shards their state over edp %lld",
                         (long long)e->layout.ep, (long long)e->layout.edp);
    ff_document_item(facts, "activations",
                     "two tensors of a layer's width, 2 L S / cp * b * h: about "
                     "what full recomputation keeps, for all layers");
    ff_document_item(facts, "vocabulary", "embedding, head and logits play no part in it");
    ff_document_close(facts);
}
