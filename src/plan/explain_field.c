/* `explain field NAME`: formula, values with units, and which axis divides each term. One table row
 * a field of the JSON output; a term's value comes from a row of the table of symbols. */
#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "plan/entry.h"
#include "plan/explain.h"
#include "presets/presets.h"
#include <string.h>

typedef struct field {
    const char *name; /* last words of its path */
    const char *path; /* in one plan's record; "" when it is not a number of one plan */
    const char *formula;
    const char *symbols; /* of the formula, separated by blanks */
} field;

static const field fields[] = {
    {"weights_bytes", "memory.stages", "w * P / z3 + w * Pe / z3e", "w P Pe z3 z3e"},
    {"gradients_bytes", "memory.stages", "g * P / z2 + g * Pe / z2e", "g P Pe z2 z2e"},
    {"optimizer_bytes", "memory.stages", "o * P / z1 + o * Pe / z1e", "o P Pe z1 z1e"},
    {"activations_bytes", "memory.stages", "sum over layers (kept) * in_flight + working set",
     "T in_flight kept working"},
    {"buffers_bytes", "memory.stages", "gathered layers + buckets + transfers + loss",
     "gathered bucket transfer loss"},
    {"runtime_bytes", "memory.stages", "context + communicators + fragmentation",
     "context communicators fragmentation"},
    {"total_bytes", "memory.stages",
     "weights + gradients + states + activations + buffers + runtime",
     "weights gradients states activations buffers runtime"},
    {"peak_bytes", "memory.peak_bytes", "the largest total_bytes of the stages", "peak_stage"},
    {"capacity_bytes", "memory.capacity_bytes", "what a process sees of the device's memory", ""},
    {"step_s", "time.step_s", "compute + bubble + exposed tp + pp + cp + ep + dp + optimizer",
     "compute bubble tp pp cp ep dp optimizer"},
    {"compute_s", "time.compute_s",
     "m * (forward + backward of the slowest stage's operators); an operator takes "
     "max(flop / rate, bytes / bandwidth) + launch",
     "m T"},
    {"bubble_s", "time.bubble_s",
     "span of the schedule - m * slowest stage; (p-1)/(v*m) of it when "
     "stages are equal",
     "p v m"},
    {"tp_s", "time.exposed.tp_s", "m * sum over layers of what blocks or outlasts its cover",
     "m t T"},
    {"pp_s", "time.exposed.pp_s", "span with transfers - span without", "p m"},
    {"cp_s", "time.exposed.cp_s", "m * sum over layers of ring steps beyond their attention block",
     "m c T"},
    {"ep_s", "time.exposed.ep_s", "m * sum over expert layers of dispatch and combine", "m e T"},
    {"dp_s", "time.exposed.dp_s",
     "reductions - what backward hides + gathers - what forward hides + the last bucket", "m P d"},
    {"optimizer_s", "time.optimizer_s", "traffic of the update / bandwidth + norm + fixed time",
     "P z1"},
    {"tokens_per_s_per_device", "tokens_per_s_per_device", "gbs_tokens_actual / step_s / devices",
     "N"},
    {"model_tflops_per_device", "model_tflops_per_device",
     "(6 P_matmul + 12 L a d S) * tokens_per_s_per_device", "F"},
    {"mfu", "mfu", "model FLOP/s of a device over its dense peak in the recipe's format", "F peak"},
    {"gbs_tokens_actual", "gbs_tokens_actual", "b * m * d * S", "b m d S"},
    {"params_total", "", "all weights of the model, without multi-token-prediction blocks", "Pall"},
    {"params_active", "", "weights a token meets: dense tensors, shared and top-k experts",
     "Pactive"},
    {"considered", "", "illegal + pruned + too_big + estimated", ""},
    {"illegal", "", "layouts that break a rule of severity error", ""},
    {"pruned", "", "layouts that a bound shows to be slower than the last one kept", ""},
    {"too_big", "", "legal layouts whose peak_bytes exceed capacity_bytes", ""},
    {"estimated", "", "layouts that fit, with memory of every stage and time of the step", ""},
    {"elapsed_s", "", "wall time of the search", ""},
    {"stage", "", "index of a pipeline stage, from 0", "p"},
    {"peak_stage", "memory.peak_stage", "the first stage with the largest total_bytes", "p"},
    {"verdict", "verdict", "too_big above capacity_bytes; tight with less room than the margin",
     ""},
    {"fits", "fits", "peak_bytes <= capacity_bytes", ""},
    {"dp", "layout_fields.dp", "devices / (tp * cp * pp)", "d t c p"},
    {"tp", "layout_fields.tp", "ranks that share every layer's matrices", "t"},
    {"sp", "layout_fields.sp", "1: norms and residual are split by token over tp", "t"},
    {"pp", "layout_fields.pp", "pipeline stages", "p"},
    {"vpp", "layout_fields.vpp", "chunks of layers that a stage holds", "v"},
    {"cp", "layout_fields.cp", "ranks that share a sequence's tokens", "c"},
    {"cp_kind", "layout_fields.cp_kind", "how attention meets the other ranks' keys", "c"},
    {"ep", "layout_fields.ep", "ranks that share the experts of a layer", "e"},
    {"etp", "layout_fields.etp", "ranks that share one expert's matrices", ""},
    {"edp", "layout_fields.edp", "tp * cp * dp / (ep * etp): replicas of an expert", "t c d e"},
    {"zero", "layout_fields.zero",
     "what dp * cp shards: 1 optimizer state, 2 gradients too, 3 weights too", "d c"},
    {"mbs", "layout_fields.mbs", "sequences of a microbatch on a replica", "b"},
    {"microbatches", "layout_fields.microbatches",
     "sequences of the batch / (mbs * dp), rounded up", "m b d"},
    {"recompute", "layout_fields.recompute", "what backward computes again instead of keeping", ""},
    {"schedule", "layout_fields.schedule", "order of a stage's forward and backward actions",
     "p v"},
    {"recipe", "layout_fields.recipe", "bytes of weights, gradients and optimizer state", ""},
    {"in_flight", "memory.stages", "chunk-microbatches forward but not yet backward, at the peak",
     "in_flight"},
    {"slowest_stage", "time.slowest_stage", "the stage with the most forward and backward", "p"},
    {"zero_group", "layout_fields.zero_group", "ranks of dp * cp that shard together", "d c"},
    {"gbs_tokens_counted", "gbs_tokens_counted",
     "min(gbs_tokens_actual, 1.1 * gbs_tokens): what a ranking counts", "b m d S"},
    {"s_per_token", "", "step_s / gbs_tokens_counted", ""},
    {"gbs_tokens", "", "the batch that was asked for", ""},
    {"seq_tokens", "", "tokens of a sequence, S", ""},
    {"imbalance", "", "tokens of the busiest expert rank over the mean", ""},
    {"margin_bytes", "", "room below which a fit is tight; 5% or 3 GiB, the larger, unless given",
     ""},
    {"layers", "", "layers of the model, without multi-token-prediction blocks", ""},
    {"top", "", "plans asked for; 0 is all", ""},
    {"near_ratio", "", "--near: plans within it of the best are ordered by their dimensions", ""},
    {"share", "", "--share: which part of the space was searched", ""},
    {"shares", "", "--share: of how many", ""},
    {"rank", "", "place in the order of time per token", ""},
    {"layouts", "", "how many layouts were run, or lie within the model's error", ""},
    {"lifted", "", "layouts that a cut of their stages brought among the best", ""},
    {"bound_ratio", "", "how far a pipeline's formula may lie above its run", ""},
    {"moved", "", "places where the run's order is not the formula's", ""},
    {"first_was", "", "place of the first plan by formula", ""},
    {"stages_changed", "", "layouts whose layers or recomputation were moved between stages", ""},
    {"delta_s", "", "first plan's term - second plan's, at the first one's batch", ""},
    {"total_s", "", "sum of the terms' delta_s", ""},
    {"ratio", "", "s_per_token over that of the first plan", ""},
    {"over_bytes", "", "peak_bytes - capacity_bytes", ""},
    {"spare_bytes", "", "capacity_bytes - peak_bytes of the first plan", ""},
    {"spare_ratio", "", "spare_bytes / capacity_bytes", ""},
    {"loss_ratio", "", "the largest of bubble and exposed communication over step_s", ""},
    {"value", "", "a constant as it is, or the extreme that was asked for", ""},
    {"flips_at", "", "value of a constant at which another kept layout is the fastest", ""},
    {"factor", "", "flips_at / value", ""},
    {"error_ratio", "", "the model's mean error over published runs (data/accuracy.yaml)", ""},
    {"rival_rank", "", "rank of the nearest plan that divides the work otherwise", ""},
    {"devices", "", "ranks of the cluster", ""},
    {"nodes", "", "machines of the cluster", ""},
    {"devices_per_node", "", "devices of a machine", ""},
    {"domain_devices", "", "devices that reach each other over the fast link", ""},
    {"nics_per_node", "", "network adapters of a machine", ""},
    {"processors", "", "streaming multiprocessors or compute units of a device", ""},
    {"oversubscription", "", "bandwidth below a switch level over that above it", ""},
    {"memory_bytes", "", "memory of a device as a process sees it", ""},
    {"memory_Bps", "", "bandwidth of a device's memory", ""},
    {"Bps", "", "what a device reaches over a tier of links, one direction", ""},
    {"wire_Bps", "", "what the wire of a tier carries, one direction", ""},
    {"link_Bps", "", "what a device reaches inside its domain, one direction", ""},
    {"link_wire_Bps", "", "what its links carry inside the domain, one direction", ""},
    {"nic_Bps", "", "what one network adapter carries, one direction", ""},
    {"latency_s", "", "of one message over a tier", ""},
    {"link_latency_s", "", "of one message inside the domain", ""},
    {"bf16_flops", "", "dense peak of a device in bf16", ""},
    {"fp16_flops", "", "dense peak of a device in fp16", ""},
    {"fp32_flops", "", "dense peak of a device in fp32", ""},
    {"tf32_flops", "", "dense peak of a device in tf32", ""},
    {"fp8_flops", "", "dense peak of a device in fp8", ""},
    {"fp4_flops", "", "dense peak of a device in fp4", ""},
    {"estimated_step_s", "", "step_s of the estimate, beside the simulation's", ""},
    {"pipeline_s", "", "from the first forward to the last backward", ""},
    {"busy_s", "", "time in which a stage computes, slowed down where it communicates besides", ""},
    {"idle_s", "", "activation_s + gradient_s + step_end_s", ""},
    {"activation_s", "", "a stage's wait for another stage's forward", ""},
    {"gradient_s", "", "a stage's wait for another stage's backward", ""},
    {"step_end_s", "", "a stage's wait for the slowest one at the step's end", ""},
    {"peak_at_s", "", "when a stage holds most", ""},
    {"in_flight_weight", "",
     "the most chunk-microbatches forward whose weight gradient is not done", ""},
    {"s", "", "time of a part of the critical path", ""},
    {"calls", "", "calls of a collective on a rank in a step", ""},
    {"bytes", "", "of a tensor, or what a rank sends in a collective's calls", ""},
    {"events", "", "beginnings and ends that the simulator handled", ""},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* ---- symbols ---- */

typedef double symbol_value(const ff_explained *e);

static const ff_stage_memory *peak_stage(const ff_explained *e) {
    return &e->stages[e->estimate.peak_stage];
}

static double dense_params(const ff_explained *e) {
    return (double)peak_stage(e)->params.dense;
}

static double expert_params(const ff_explained *e) {
    return (double)peak_stage(e)->params.expert;
}

static double shards(const ff_explained *e, int stage, bool expert) {
    if (e->layout.zero < stage)
        return 1;
    return (double)(expert ? ff_expert_shard_ranks(&e->layout) : ff_dense_shard_ranks(&e->layout));
}

#define SYMBOL(function, expression)                                                               \
    static double function(const ff_explained *e) {                                                \
        return (double)(expression);                                                               \
    }
SYMBOL(weight_width, ff_recipe_describe(e->layout.recipe)->weight)
SYMBOL(gradient_width, ff_recipe_describe(e->layout.recipe)->gradient)
SYMBOL(optimizer_width, ff_recipe_describe(e->layout.recipe)->optimizer)
SYMBOL(zero1_dense, shards(e, 1, false))
SYMBOL(zero2_dense, shards(e, 2, false))
SYMBOL(zero3_dense, shards(e, 3, false))
SYMBOL(zero1_expert, shards(e, 1, true))
SYMBOL(zero2_expert, shards(e, 2, true))
SYMBOL(zero3_expert, shards(e, 3, true))
SYMBOL(tokens, ff_ceil_div(ff_mul(e->job->seq, e->layout.mbs), e->layout.cp))
SYMBOL(in_flight, peak_stage(e)->in_flight)
SYMBOL(kept, peak_stage(e)->kept_bytes)
SYMBOL(working, peak_stage(e)->working_bytes)
SYMBOL(gathered, peak_stage(e)->gathered_bytes)
SYMBOL(bucket, peak_stage(e)->bucket_bytes)
SYMBOL(transfer, peak_stage(e)->transfer_bytes)
SYMBOL(loss, peak_stage(e)->loss_bytes)
SYMBOL(context, peak_stage(e)->context_bytes)
SYMBOL(communicators, peak_stage(e)->communicator_bytes)
SYMBOL(fragmentation, peak_stage(e)->fragmentation_bytes)
SYMBOL(compute_time, e->estimate.time.compute_s)
SYMBOL(bubble_time, e->estimate.time.bubble_s)
SYMBOL(tp_time, e->estimate.time.exposed_s[FF_EXPOSED_TP])
SYMBOL(pp_time, e->estimate.time.exposed_s[FF_EXPOSED_PP])
SYMBOL(cp_time, e->estimate.time.exposed_s[FF_EXPOSED_CP])
SYMBOL(ep_time, e->estimate.time.exposed_s[FF_EXPOSED_EP])
SYMBOL(dp_time, e->estimate.time.exposed_s[FF_EXPOSED_DP])
SYMBOL(optimizer_time, e->estimate.time.optimizer_s)
SYMBOL(weights_held, peak_stage(e)->weights_bytes)
SYMBOL(gradients_held, peak_stage(e)->gradients_bytes)
SYMBOL(optimizer_held, peak_stage(e)->optimizer_bytes)
SYMBOL(activations_held, peak_stage(e)->activations_bytes)
SYMBOL(buffers_held, peak_stage(e)->buffers_bytes)
SYMBOL(runtime_held, peak_stage(e)->runtime_bytes)
SYMBOL(worst_stage, e->estimate.peak_stage)
SYMBOL(microbatches, e->layout.microbatches)
SYMBOL(stages, e->layout.pp)
SYMBOL(chunks, e->layout.vpp)
SYMBOL(tensor_ranks, e->layout.tp)
SYMBOL(context_ranks, e->layout.cp)
SYMBOL(expert_ranks, e->layout.ep)
SYMBOL(data_ranks, e->layout.dp)
SYMBOL(devices, e->job->cluster.devices)
SYMBOL(sequences, e->layout.mbs)
SYMBOL(sequence, e->job->seq)
SYMBOL(token_flop, ff_model_flop_per_token(&e->job->model, e->job->seq, FF_FLOP_FULL))
SYMBOL(peak_rate,
       ff_peak_flops(&e->job->cluster.device, ff_recipe_describe(e->layout.recipe)->compute))

static double all_params(const ff_explained *e) {
    ff_model_count count;
    ff_model_params(&e->job->model, &count);
    return (double)count.total;
}

static double active_params(const ff_explained *e) {
    ff_model_count count;
    ff_model_params(&e->job->model, &count);
    return (double)count.active;
}

static const struct symbol {
    const char *name, *unit, *meaning, *divided_by;
    symbol_value *value;
} symbols[] = {
    {"w", "", "bytes of a weight", "", weight_width},
    {"g", "", "bytes of a gradient", "", gradient_width},
    {"o", "", "bytes of optimizer state", "", optimizer_width},
    {"P", "params", "dense weights of a rank", "tp pp", dense_params},
    {"Pe", "params", "expert weights of a rank", "ep etp pp", expert_params},
    {"z1", "", "ranks that shard optimizer state", "dp cp, from zero=1", zero1_dense},
    {"z2", "", "ranks that shard gradients", "dp cp, from zero=2", zero2_dense},
    {"z3", "", "ranks that shard weights", "dp cp, at zero=3", zero3_dense},
    {"z1e", "", "of experts", "edp, from zero=1", zero1_expert},
    {"z2e", "", "of experts", "edp, from zero=2", zero2_expert},
    {"z3e", "", "of experts", "edp, at zero=3", zero3_expert},
    {"T", "", "tokens of a microbatch on a rank, S * b / c", "cp (tp with SP)", tokens},
    {"in_flight", "", "chunk-microbatches held at the peak", "", in_flight},
    {"kept", "bytes", "kept activations, all in flight", "tp cp pp", kept},
    {"working", "bytes", "working set of the running layer", "tp cp", working},
    {"gathered", "bytes", "gathered layers (ZeRO-3)", "tp pp ep", gathered},
    {"bucket", "bytes", "gradient buckets", "tp pp ep", bucket},
    {"transfer", "bytes", "pipeline send and receive buffers", "cp (tp with SP)", transfer},
    {"loss", "bytes", "logits and their softmax", "tp cp", loss},
    {"context", "bytes", "driver context and workspaces", "", context},
    {"communicators", "bytes", "communicator buffers", "", communicators},
    {"fragmentation", "bytes", "allocator fragmentation", "", fragmentation},
    {"peak_stage", "", "the stage with the largest total", "", worst_stage},
    {"compute", "s", "the slowest stage's operators, all microbatches", "tp pp cp dp",
     compute_time},
    {"bubble", "s", "idle time of the pipeline", "vpp microbatches", bubble_time},
    {"tp", "s", "TP communication that nothing hides", "", tp_time},
    {"pp", "s", "transfers between stages that nothing hides", "", pp_time},
    {"cp", "s", "CP communication that nothing hides", "", cp_time},
    {"ep", "s", "dispatch and combine that nothing hides", "", ep_time},
    {"dp", "s", "reductions and gathers that nothing hides", "", dp_time},
    {"optimizer", "s", "update, norm and fixed time", "tp pp, from zero=1 dp cp", optimizer_time},
    {"weights", "bytes", "weights of the fullest stage", "tp pp ep, at zero=3 dp cp", weights_held},
    {"gradients", "bytes", "their gradients", "tp pp ep, from zero=2 dp cp", gradients_held},
    {"states", "bytes", "optimizer state", "tp pp ep, from zero=1 dp cp", optimizer_held},
    {"activations", "bytes", "kept and working activations", "tp cp", activations_held},
    {"buffers", "bytes", "gathered layers, buckets, transfers, loss", "tp pp ep cp", buffers_held},
    {"runtime", "bytes", "context, communicators, fragmentation", "", runtime_held},
    {"m", "", "microbatches a step", "dp", microbatches},
    {"p", "", "pipeline stages", "", stages},
    {"v", "", "chunks a stage", "", chunks},
    {"t", "", "tensor-parallel ranks", "", tensor_ranks},
    {"c", "", "context-parallel ranks", "", context_ranks},
    {"e", "", "expert-parallel ranks", "", expert_ranks},
    {"d", "", "data-parallel ranks", "", data_ranks},
    {"N", "", "devices", "", devices},
    {"b", "", "sequences of a microbatch", "", sequences},
    {"S", "tokens", "sequence length", "", sequence},
    {"F", "flop", "model FLOP a token", "", token_flop},
    {"peak", "flops", "dense peak of a device", "", peak_rate},
    {"Pall", "params", "all weights", "", all_params},
    {"Pactive", "params", "weights a token meets", "", active_params},
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static void symbol_row(const ff_explained *e, const char *name, size_t length, ff_facts *facts) {
    for (int i = 0; i < SYMBOLS; i++) {
        const struct symbol *s = &symbols[i];
        char value[FF_VALUE_BYTES];
        if (strncmp(s->name, name, length) != 0 || s->name[length] != '\0')
            continue;
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "symbol", "%s", s->name);
        bool whole = s->unit[0] == '\0';
        ff_facts_add_text(facts, "value", "%s",
                          whole ? ff_format_integer((int64_t)s->value(e), value, sizeof value)
                                : ff_format_number(s->unit, s->value(e), value, sizeof value));
        ff_facts_add_text(facts, "meaning", "%s", s->meaning);
        ff_facts_add_text(facts, "divided_by", "%s", s->divided_by);
        ff_facts_close(facts);
        return;
    }
}

static void symbol_table(const ff_explained *e, const field *f, ff_facts *facts) {
    static const ff_column columns[] = {{"symbol", "term"},
                                        {"value", "value"},
                                        {"meaning", "is"},
                                        {"divided_by", "divided by"},
                                        {NULL, NULL}};
    if (f->symbols[0] == '\0')
        return;
    ff_document_table(facts, columns);
    for (const char *at = f->symbols; *at != '\0';) {
        size_t length = strcspn(at, " ");
        symbol_row(e, at, length, facts);
        at += length + (at[length] == ' ');
    }
    ff_document_table_end(facts);
}

/* ---- the field's own value ---- */

static void value_item(const ff_explained *e, const field *f, ff_facts *facts) {
    ff_facts *entry = ff_facts_create();
    char value[FF_VALUE_BYTES];
    ff_entry_facts(e->job, &e->layout, &e->estimate, e->stages, entry);
    const ff_fact *found = NULL;
    if (strcmp(f->path, "memory.stages") == 0) {
        const ff_fact *list = ff_fact_find(ff_facts_root(entry), f->path);
        const ff_fact *stage = list->first;
        for (int64_t i = 0; i < e->estimate.peak_stage; i++)
            stage = stage->next;
        found = ff_fact_find(stage, f->name);
    } else if (f->path[0] != '\0') {
        found = ff_fact_find(ff_facts_root(entry), f->path);
    }
    if (found != NULL)
        ff_document_item(facts, "value", "%s", ff_format_fact(found, f->name, value, sizeof value));
    ff_facts_free(entry);
}

static const field *find_field(const char *name, ff_diagnostics *findings) {
    const char *names[FIELDS], *last = strrchr(name, '.');
    last = last == NULL ? name : last + 1;
    for (int i = 0; i < FIELDS; i++) {
        names[i] = fields[i].name;
        if (strcmp(last, names[i]) == 0)
            return &fields[i];
    }
    int nearest = ff_nearest_word(last, names, FIELDS);
    ff_report(findings, FF0408, FF_NOWHERE, "no field \"%s\"", name);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean %s?", names[nearest]);
    else
        ff_report_help(findings, "a field of plan -o json, such as peak_bytes, step_s, mfu");
    return NULL;
}

static void field_document(const ff_explained *e, const field *f, bool example, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_document_head(facts, "explain");
    ff_facts_add_text(facts, "field", "%s", f->name);
    ff_document_open(facts, "%s", f->name);
    ff_document_section(facts, "%s", "");
    ff_document_item(facts, "formula", "%s", f->formula);
    value_item(e, f, facts);
    ff_document_item(facts, example ? "example" : "layout", "%s on %s, %s", e->job->model.name,
                     e->job->cluster.name,
                     ff_layout_print(&e->layout, FF_LAYOUT_SHORT, text, sizeof text));
    symbol_table(e, f, facts);
    ff_document_close(facts);
}

static ff_status explain_of(const ff_job *job, const char *layout, const field *f, bool example,
                            ff_diagnostics *findings, ff_facts *facts) {
    ff_explained e;
    ff_status status = ff_explained_open(job, layout, findings, &e);
    if (status == FF_OK)
        field_document(&e, f, example, facts);
    ff_explained_close(&e);
    return status;
}

/* Without a job of the user's, the field is explained on the first example of the documentation. */
static ff_status explain_example(const field *f, ff_diagnostics *findings, ff_facts *facts) {
    ff_arena *arena = ff_arena_create();
    ff_job *job = FF_ARENA_NEW(arena, ff_job);
    ff_profile *profile = FF_ARENA_NEW(arena, ff_profile);
    ff_diagnostics *notes = ff_diagnostics_create();
    job->seq = 4096;
    job->gbs_tokens = 4000000;
    job->imbalance = 1;
    job->profile = profile;
    ff_status status = FF_BUG;
    if (ff_model_preset("llama-3.1-70b", notes, &job->model) == FF_OK &&
        ff_cluster_preset("16x8xh100-80gb-sxm", notes, &job->cluster) == FF_OK &&
        ff_profile_from_fields(ff_preset_tree("profiles/megatron-core"), "megatron-core", notes,
                               profile) == FF_OK)
        status = explain_of(job, "tp=8,pp=2,zero=1,mbs=1", f, true, findings, facts);
    ff_diagnostics_free(notes);
    ff_arena_free(arena);
    return status;
}

ff_status ff_explain_field(const ff_job *job, const char *layout, const char *name,
                           ff_diagnostics *findings, ff_facts *facts) {
    const field *f = find_field(name, findings);
    if (f == NULL)
        return FF_INVALID;
    return job == NULL ? explain_example(f, findings, facts)
                       : explain_of(job, layout, f, false, findings, facts);
}
