/* Memory: every stage by category, the largest tensors at the peak, and what divides each category.
 */
#include "plan/explain.h"

#include "layout/recipe.h"
#include "plan/entry.h"

enum { MOST_TENSORS = 16 };

static void stage_table(const ff_explained *e, ff_facts *facts) {
    static const ff_column columns[] = {{"stage", "stage"},
                                        {"total_bytes", "total"},
                                        {"weights_bytes", "weights"},
                                        {"gradients_bytes", "gradients"},
                                        {"optimizer_bytes", "optimizer"},
                                        {"activations_bytes", "activations"},
                                        {"buffers_bytes", "buffers"},
                                        {"runtime_bytes", "runtime"},
                                        {NULL, NULL}};
    ff_document_section(facts, "Bytes a device, by pipeline stage");
    ff_document_table(facts, columns);
    for (int64_t stage = 0; stage < e->layout.pp; stage++) {
        ff_facts_open_record(facts, NULL);
        ff_stage_facts(&e->stages[stage], stage, facts);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static void tensor_table(const ff_explained *e, ff_facts *facts) {
    static const ff_column columns[] = {{"name", "tensor"}, {"bytes", "bytes"}, {NULL, NULL}};
    ff_live_tensor tensors[MOST_TENSORS];
    int64_t stage = e->estimate.peak_stage;
    int count = ff_ledger_tensors(&e->job->model, &e->layout, &e->options, &e->stages[stage], stage,
                                  MOST_TENSORS, tensors);
    ff_document_section(facts, "Largest at the peak, stage %lld", (long long)stage);
    ff_document_table(facts, columns);
    for (int i = 0; i < count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "name", "%s", tensors[i].name);
        ff_facts_add_integer(facts, "bytes", tensors[i].bytes);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static void state_items(const ff_explained *e, ff_facts *facts) {
    const ff_recipe_bytes *r = ff_recipe_describe(e->layout.recipe);
    const ff_stage_memory *m = &e->stages[e->estimate.peak_stage];
    char dense[FF_VALUE_BYTES], expert[FF_VALUE_BYTES];
    ff_document_section(facts, "What makes them");
    ff_document_item(facts, "parameters", "%s on a rank of stage %lld, after tp and pp%s%s",
                     ff_format_count((double)m->params.dense, 4, dense, sizeof dense),
                     (long long)e->estimate.peak_stage,
                     m->params.expert > 0 ? ", and of experts, after ep, " : "",
                     m->params.expert > 0
                         ? ff_format_count((double)m->params.expert, 4, expert, sizeof expert)
                         : "");
    ff_document_item(facts, "state",
                     "%d bytes of weights, %d of gradients, %d of optimizer state a "
                     "parameter; zero=%d shards %s over %lld ranks",
                     r->weight, r->gradient, r->optimizer, e->layout.zero,
                     e->layout.zero == 0   ? "nothing"
                     : e->layout.zero == 1 ? "the optimizer state"
                     : e->layout.zero == 2 ? "optimizer state and gradients"
                                           : "all three",
                     (long long)ff_dense_shard_ranks(&e->layout));
}

static void activation_items(const ff_explained *e, ff_facts *facts) {
    const ff_stage_memory *m = &e->stages[e->estimate.peak_stage];
    char kept[FF_VALUE_BYTES], working[FF_VALUE_BYTES], loss[FF_VALUE_BYTES], recompute[128],
        runtime[FF_VALUE_BYTES], fragments[FF_VALUE_BYTES];
    ff_document_item(facts, "activations",
                     "%s kept from forward to backward, %lld %s in flight (recompute %s); %s while "
                     "a layer runs backward",
                     ff_format_bytes((double)m->kept_bytes, kept, sizeof kept),
                     (long long)m->in_flight, e->layout.vpp > 1 ? "chunks" : "microbatches",
                     ff_recompute_print(&e->layout, recompute, sizeof recompute),
                     ff_format_bytes((double)m->working_bytes, working, sizeof working));
    ff_document_item(
        facts, "loss", "the last stage holds logits and their fp32 softmax: %s",
        ff_format_bytes((double)e->stages[e->layout.pp - 1].loss_bytes, loss, sizeof loss));
    ff_document_item(facts, "runtime",
                     "%s of context, workspaces and communicators, %s of fragmentation",
                     ff_format_bytes((double)(m->context_bytes + m->communicator_bytes), runtime,
                                     sizeof runtime),
                     ff_format_bytes((double)m->fragmentation_bytes, fragments, sizeof fragments));
}

void ff_explain_memory(const ff_explained *e, ff_facts *facts) {
    char peak[FF_VALUE_BYTES], capacity[FF_VALUE_BYTES];
    ff_document_open(facts, "memory: %s", e->job->model.name);
    ff_document_section(facts, "%s", "");
    static const char *const verdicts[] = {"fits", "tight", "too big"};
    ff_document_say(facts, "%s: peak %s of %s a device, on stage %lld.",
                    verdicts[e->estimate.verdict],
                    ff_format_bytes((double)e->estimate.peak_bytes, peak, sizeof peak),
                    ff_format_bytes((double)e->estimate.capacity_bytes, capacity, sizeof capacity),
                    (long long)e->estimate.peak_stage);
    stage_table(e, facts);
    tensor_table(e, facts);
    state_items(e, facts);
    activation_items(e, facts);
    ff_document_close(facts);
}
