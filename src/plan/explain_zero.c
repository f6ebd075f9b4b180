/* ZeRO's stages side by side, and ZeRO-3 with a pipeline. Each row is the explained layout with
 * another stage, priced in full. */
#include "plan/methods.h"

#include "layout/recipe.h"

static const ff_column columns[] = {
    {"layout", "zero"},     {"state_bytes", "states"}, {"peak_bytes", "peak"},
    {"gathers", "gathers"}, {"sent", "sends"},         {"exposed_s", "exposed"},
    {"step_s", "step"},     {"verdict", "verdict"},    {NULL, NULL}};

static int64_t gathers_of(const ff_variant *v) {
    int64_t calls = 0;
    for (int i = 0; i < v->counts; i++)
        if (ff_exposure_of(v->count[i].group) == FF_EXPOSED_DP &&
            v->count[i].collective == FF_ALL_GATHER)
            calls += v->count[i].calls;
    return calls;
}

static double sent_of(const ff_variant *v) {
    double bytes = 0;
    for (int i = 0; i < v->counts; i++)
        if (v->count[i].group == (FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_CP)) ||
            v->count[i].group == FF_AXES(FF_AXIS_EDP))
            bytes += v->count[i].sent_bytes;
    return bytes;
}

static void row(const ff_explained *e, const char *name, const ff_variant *v, ff_facts *facts) {
    ff_arena *arena = ff_arena_create();
    ff_stage_memory *stages = FF_ARENA_ARRAY(arena, v->layout.pp, ff_stage_memory);
    ff_estimate estimate;
    ff_evaluate_memory(e->evaluator, &v->layout, &estimate, stages);
    const ff_stage_memory *m = &stages[estimate.peak_stage];
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "layout", "%s", name);
    ff_facts_add_integer(facts, "state_bytes",
                         m->weights_bytes + m->gradients_bytes + m->optimizer_bytes);
    ff_facts_add_integer(facts, "peak_bytes", v->estimate.peak_bytes);
    ff_facts_add_text(facts, "verdict", "%s", ff_verdict_name(v->estimate.verdict));
    ff_facts_add_integer(facts, "gathers", gathers_of(v));
    ff_facts_add_real(facts, "sent", sent_of(v));
    ff_facts_add_real(facts, "exposed_s", v->estimate.time.exposed_s[FF_EXPOSED_DP]);
    ff_facts_add_real(facts, "step_s", v->estimate.time.step_s);
    ff_facts_close(facts);
    ff_arena_free(arena);
}

static void rows(const ff_explained *e, bool with_both_forms, ff_facts *facts) {
    static const struct {
        const char *name;
        int zero, weights;
        bool second_form;
    } cases[] = {{"0", 0, -1, false},
                 {"1", 1, -1, false},
                 {"2", 2, -1, false},
                 {"3 stream", 3, FF_ZERO3_STREAM, false},
                 {"3 resident", 3, FF_ZERO3_RESIDENT, true}};
    ff_document_table(facts, columns);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_variant variant;
        ff_layout layout = ff_variant_start(e);
        layout.zero = cases[i].zero;
        layout.zero3_weights = cases[i].weights;
        if (cases[i].second_form && !with_both_forms)
            continue;
        ff_variant_look(e, &layout, &variant);
        if (variant.possible)
            row(e, cases[i].name, &variant, facts);
    }
    ff_document_table_end(facts);
}

void ff_explain_zero(const ff_explained *e, ff_facts *facts) {
    const ff_recipe_bytes *recipe = ff_recipe_describe(e->layout.recipe);
    ff_document_open(facts, "zero: %s", e->job->model.name);
    ff_document_section(facts, "%s", "");
    ff_document_say(facts,
                    "Recipe %s holds %d + %d + %d bytes a parameter: weights, gradients, optimizer "
                    "state. ZeRO shards them from the right, over dp * cp = %lld ranks (experts "
                    "over edp = %lld).",
                    ff_recipe_name(e->layout.recipe), recipe->weight, recipe->gradient,
                    recipe->optimizer, (long long)(e->layout.dp * e->layout.cp),
                    (long long)e->layout.edp);
    rows(e, true, facts);
    ff_document_say(facts,
                    "ZeRO-1 splits the all-reduce of ZeRO-0 into its halves and saves most of the "
                    "memory; ZeRO-2 reduces in every microbatch; ZeRO-3 gathers every layer "
                    "twice in each.");
    ff_document_close(facts);
}

/* A pipeline to explain with: the layout's own, or two stages. */
static ff_layout with_pipeline(const ff_explained *e) {
    ff_layout layout = ff_variant_start(e);
    if (layout.pp == 1 && e->layout.dp % 2 == 0)
        layout.pp = 2;
    return layout;
}

void ff_explain_zero3_pp(const ff_explained *e, ff_facts *facts) {
    ff_layout layout = with_pipeline(e);
    ff_explained with = *e;
    ff_variant variant;
    ff_variant_look(e, &layout, &variant);
    ff_document_open(facts, "zero3-pp: %s", e->job->model.name);
    ff_document_section(facts, "%s", "");
    if (!variant.possible || variant.layout.pp == 1) {
        ff_document_say(facts, "This cluster is too small for a pipeline beside data parallelism.");
        ff_document_close(facts);
        return;
    }
    with.layout = variant.layout;
    long long m = variant.layout.microbatches;
    ff_document_say(facts,
                    "A pipeline of %lld stages keeps busy with microbatches: %lld a step here. "
                    "ZeRO-3 frees a layer's weights after use, so every microbatch gathers each "
                    "layer twice and reduces its gradients once: %lld gathers and %lld reductions "
                    "of a layer a step, where ZeRO-1 reduces and gathers once.",
                    (long long)variant.layout.pp, m, 2 * m, m);
    ff_document_say(
        facts,
        "Weights that stay resident are gathered once, and full gradients are reduced "
        "once: the bytes of ZeRO-1, and its memory with a shard more. The stage already divides "
        "weights by pp; what is left to shard is the optimizer state, which ZeRO-1 does.");
    rows(&with, true, facts);
    ff_document_close(facts);
}
