/* See execute.h. A model and a layout become ranks: the layout is derived from the batch, judged by
 * the rules on sizes, and refused when all ranks together would not fit into this machine. */
#include "cli/execute.h"

#include "base/fact.h"
#include "base/number.h"
#include "cli/inputs.h"
#include "cli/local.h"
#include "cli/terminal.h"
#include "engine/engine.h"
#include "fivefold/memory.h"
#include "rules/rules.h"
#include "verify/verify.h"

/* What the engine holds beside the ledger's bytes: what collectives receive into and, where ranks
 * are compared with a single one, weights and gradients that are kept for it. Measured: up to 2.6
 * times the ledger when compared, 1.3 when not. A tenth of the machine's memory is left to others. */
enum { FIFTHS_WHEN_COMPARED = 13, FIFTHS_ALONE = 7, TENTHS_OF_MACHINE = 9 };
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

/* Of all ranks together and, when `compared`, of the single one. */
static int64_t held_bytes(const ff_execution *e, bool compared) {
    ff_layout one = ff_engine_single(&e->layout);
    int64_t planned = ff_add(bytes_of(e, &e->layout), compared ? bytes_of(e, &one) : 0);
    return ff_mul(planned / 5, compared ? FIFTHS_WHEN_COMPARED : FIFTHS_ALONE);
}

static ff_status refuse_large(ff_session *s, const ff_execution *e, bool compared) {
    int64_t bytes = held_bytes(e, compared);
    int64_t most = ff_terminal_memory_bytes() / 10 * TENTHS_OF_MACHINE;
    if (bytes <= most)
        return FF_OK;
    ff_report(s->findings, FF0701, FF_NOWHERE,
              "all ranks together need about %lld GiB; this machine can give %lld",
              (long long)(bytes >> 30), (long long)(most >> 30));
    ff_report_help(s->findings,
                   "a small shape shows the same: layers=4,hidden=64,heads=4,vocab=512");
    return FF_NO;
}

ff_status ff_execution_read(ff_session *s, ff_execution *e, bool compared) {
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
    return status == FF_OK ? refuse_large(s, e, compared) : status;
}

/* --- the same ranks as processes --- */

/* What the ranks tell pass by pass, against what one process played. */
typedef struct witness {
    double rate;
    double *loss, *norm; /* [step] */
    int64_t unequal;     /* steps that differ */
} witness;

static double constant_rate(void *context, int64_t step) {
    (void)step;
    return ((const witness *)context)->rate;
}

static void compare_step(void *context, int64_t step, double loss, double norm) {
    witness *w = context;
    w->unequal += w->loss[step] != loss || w->norm[step] != norm;
}

static ff_status play(const ff_setup *setup, int64_t steps, witness *w, ff_digest *digests,
                      ff_diagnostics *findings) {
    ff_loop *loop = ff_loop_create(setup, 0);
    ff_status status = FF_OK;
    for (int64_t step = 0; status == FF_OK && step < steps; step++) {
        status = ff_loop_step(loop, findings, &w->loss[step]);
        w->norm[step] = loop->rank[0]->norm;
    }
    for (int r = 0; status == FF_OK && r < loop->world; r++)
        ff_digest_rank(loop->rank[r], &digests[r]);
    ff_loop_free(loop);
    return status;
}

static bool judge_processes(const ff_local *local, const ff_digest *digests, int world,
                            const witness *w, ff_diagnostics *findings) {
    bool equal = w->unequal == 0;
    if (!equal)
        ff_report(findings, FF0705, FF_NOWHERE,
                  "%lld steps of processes have other losses or norms", (long long)w->unequal);
    for (int r = 0; r < world; r++) {
        const char *what = ff_digest_differs(&digests[r], &ff_local_report_of(local, r)->digest);
        if (what == NULL)
            continue;
        ff_report(findings, FF0705, FF_NOWHERE,
                  "the %s of rank %d as a process are not those of the rank as played", what, r);
        equal = false;
    }
    return equal;
}

/* Sums have one order whenever messages arrive, so processes must end with the very bits. */
static ff_status run_processes(ff_session *s, const ff_verify_job *job) {
    ff_setup *setup;
    ff_status status = ff_setup_create(job->model, job->layout, &job->options, s->findings, &setup);
    if (status != FF_OK)
        return status;
    int world = (int)ff_layout_world(job->layout);
    witness w = {.rate = job->options.rate,
                 .loss = ff_arena_alloc(s->arena, (size_t)job->steps * sizeof(double)),
                 .norm = ff_arena_alloc(s->arena, (size_t)job->steps * sizeof(double))};
    ff_digest *digests = ff_arena_alloc(s->arena, (size_t)world * sizeof *digests);
    int64_t *pass = ff_arena_alloc(s->arena, (size_t)job->steps * sizeof *pass);
    for (int64_t i = 0; i < job->steps; i++)
        pass[i] = i;
    ff_passes passes = {pass, job->steps, constant_rate, compare_step, &w};
    ff_local *local = ff_local_create(setup, &passes);
    if (local == NULL) {
        ff_report(s->findings, FF0707, FF_NOWHERE, "the system has no shared memory for the ranks");
        status = FF_ENVIRONMENT;
    }
    if (status == FF_OK)
        status = play(setup, job->steps, &w, digests, s->findings);
    if (status == FF_OK)
        status = ff_local_run(local, s->findings);
    if (status == FF_OK && !judge_processes(local, digests, world, &w, s->findings))
        status = FF_NO;
    ff_local_free(local);
    ff_setup_free(setup);
    return status;
}

ff_status ff_verify_run(ff_session *s) {
    const ff_options *o = &s->arguments->options;
    ff_execution *e = FF_ARENA_NEW(s->arena, ff_execution);
    ff_status status = ff_execution_read(s, e, true);
    if (status != FF_OK)
        return status;
    ff_verify_job job = {
        .model = &e->model, .layout = &e->layout, .options = ff_engine_defaults(), .shuffle = 1};
    job.steps = o->steps > 0 ? o->steps : 2;
    job.options.seq = e->seq;
    job.options.real_vocab = e->real_vocab;
    job.options.fast = o->fast;
    job.options.deal = ff_deal_words;
    job.options.deal_context = &e->real_vocab;
    job.as_processes = o->transport == FF_TRANSPORT_LOCAL;
    if (job.as_processes)
        status = run_processes(s, &job);
    if (status != FF_OK && status != FF_NO)
        return status;
    job.processes_equal = status == FF_OK;
    return ff_verify(&job, s->findings, s->facts);
}
