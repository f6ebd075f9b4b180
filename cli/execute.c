/* See execute.h. A model and a layout become ranks: the layout is derived from the batch, judged by
 * the rules on sizes, and refused when all ranks together would not fit into this machine. */
#include "cli/execute.h"

#include "base/fact.h"
#include "base/number.h"
#include "cli/inputs.h"
#include "engine/engine.h"
#include "fivefold/memory.h"
#include "rules/rules.h"
#include "verify/verify.h"

/* Of all ranks together, and of the one that they are compared with. */
#define MOST_BYTES (INT64_C(16) << 30)
enum { SHORT_SEQ = 32, FEW_MICROBATCHES = 4 };

static ff_status derive(ff_session *s, ff_execution *e) {
    const ff_options *o = &s->arguments->options;
    int64_t sequences =
        o->gbs_sequences > 0 ? o->gbs_sequences : ff_ceil_div(o->gbs_tokens, e->seq);
    ff_layout_context context = {
        .gbs_sequences = sequences, .layers = e->model.layers, .text = e->text};
    if (ff_layout_parse(e->text, s->findings, &e->layout) != FF_OK)
        return FF_INVALID;
    if (!ff_layout_given(&e->layout, "recipe")) {
        e->layout.recipe = FF_RECIPE_FP32;
        ff_report(s->findings, FF0708, FF_NOWHERE, "recipe is taken as fp32; plans take %s",
                  ff_recipe_name(FF_RECIPE_BF16_MEGATRON));
    }
    if (!ff_layout_given(&e->layout, "accumulate"))
        e->layout.accumulate = FF_ACCUMULATE_TREE;
    if (sequences == 0 && e->layout.microbatches == 0)
        e->layout.microbatches = FEW_MICROBATCHES;
    if (ff_layout_derive(&e->layout, &context, s->findings) != FF_OK)
        return FF_NO;
    ff_rule_case rules = {.model = &e->model, .layout = &e->layout, .seq = e->seq, .text = e->text};
    return ff_rules_legal(&rules) ? FF_OK : ff_rules_check(&rules, s->findings) ? FF_OK : FF_NO;
}

static int64_t bytes_of(const ff_execution *e, const ff_layout *layout) {
    ff_program_options how = {.seq = e->seq, .kernels = ff_engine_kernels(), .imbalance = 1};
    ff_memory_blocks blocks;
    ff_stage_memory memory;
    ff_runtime_memory none = {0};
    int64_t sum = 0;
    ff_memory_blocks_build(&e->model, layout, &how, &blocks);
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        ff_ledger_stage(&e->model, layout, e->seq, &blocks, &none, stage, &memory);
        sum = ff_add(sum, ff_mul(memory.total_bytes, ff_layout_world(layout) / layout->pp));
    }
    return sum;
}

static ff_status refuse_large(ff_session *s, const ff_execution *e) {
    ff_layout one = ff_engine_single(&e->layout);
    int64_t bytes = ff_add(bytes_of(e, &e->layout), bytes_of(e, &one));
    if (bytes <= MOST_BYTES)
        return FF_OK;
    ff_report(s->findings, FF0701, FF_NOWHERE, "all ranks together need %lld GiB, more than %lld",
              (long long)(bytes >> 30), (long long)(MOST_BYTES >> 30));
    ff_report_help(s->findings,
                   "a small shape shows the same: layers=4,hidden=64,heads=4,vocab=512");
    return FF_NO;
}

ff_status ff_execution_read(ff_session *s, ff_execution *e) {
    const ff_options *o = &s->arguments->options;
    ff_status status =
        ff_input_model(s->arguments->word[1], s->arena, s->findings, &e->model, &e->source);
    if (status != FF_OK)
        return status;
    e->real_vocab = e->model.vocab;
    ff_engine_adapt(&e->model);
    e->seq = o->seq > 0 ? o->seq : SHORT_SEQ;
    e->text = s->arguments->count > 2 ? s->arguments->word[2] : o->layout != NULL ? o->layout : "";
    status = derive(s, e);
    if (status == FF_OK)
        status = ff_engine_accepts(&e->model, &e->layout, e->seq, s->findings);
    return status == FF_OK ? refuse_large(s, e) : status;
}

ff_status ff_verify_run(ff_session *s) {
    const ff_options *o = &s->arguments->options;
    ff_execution *e = FF_ARENA_NEW(s->arena, ff_execution);
    ff_status status = ff_execution_read(s, e);
    if (status != FF_OK)
        return status;
    ff_verify_job job = {
        .model = &e->model, .layout = &e->layout, .options = ff_engine_defaults(), .shuffle = 1};
    job.steps = o->steps > 0 ? o->steps : 2;
    job.options.seq = e->seq;
    job.options.real_vocab = e->real_vocab;
    job.options.fast = o->fast;
    return ff_verify(&job, s->findings, s->facts);
}
