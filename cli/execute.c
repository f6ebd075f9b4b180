/* See execute.h. A model and a layout become ranks: the layout is derived from the batch, judged by
 * the rules on sizes, and refused when all ranks together would not fit into this machine. */
#include "cli/execute.h"

#include "base/fact.h"
#include "base/number.h"
#include "cli/corpus.h"
#include "cli/inputs.h"
#include "cli/local.h"
#include "engine/engine.h"
#include "engine/random.h"
#include "fivefold/memory.h"
#include "rules/rules.h"
#include "verify/verify.h"
#include <math.h>
#include <stdio.h>

/* Of all ranks together, and of the one that they are compared with. */
#define MOST_BYTES (INT64_C(16) << 30)
enum { SHORT_SEQ = 32, FEW_MICROBATCHES = 4 };

typedef struct execution {
    ff_model model;
    ff_layout layout;
    int64_t seq, real_vocab;
    const char *source, *text;
} execution;

static ff_status derive(ff_session *s, execution *e) {
    const ff_options *o = &s->arguments->options;
    int64_t sequences =
        o->gbs_sequences > 0 ? o->gbs_sequences : ff_ceil_div(o->gbs_tokens, e->seq);
    ff_layout_context context = {
        .gbs_sequences = sequences, .layers = e->model.layers, .text = e->text};
    if (ff_layout_parse(e->text, s->findings, &e->layout) != FF_OK)
        return FF_INVALID;
    if (e->layout.recipe == FF_RECIPE_BF16_MEGATRON)
        e->layout.recipe = FF_RECIPE_FP32;
    if (!ff_layout_given(&e->layout, "accumulate"))
        e->layout.accumulate = FF_ACCUMULATE_TREE;
    if (sequences == 0 && e->layout.microbatches == 0)
        e->layout.microbatches = FEW_MICROBATCHES;
    if (ff_layout_derive(&e->layout, &context, s->findings) != FF_OK)
        return FF_NO;
    ff_rule_case rules = {.model = &e->model, .layout = &e->layout, .seq = e->seq, .text = e->text};
    return ff_rules_legal(&rules) ? FF_OK : ff_rules_check(&rules, s->findings) ? FF_OK : FF_NO;
}

static int64_t bytes_of(const execution *e, const ff_layout *layout) {
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

static ff_status refuse_large(ff_session *s, const execution *e) {
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

static ff_status read_execution(ff_session *s, execution *e) {
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
    execution *e = FF_ARENA_NEW(s->arena, execution);
    ff_status status = read_execution(s, e);
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

/* --- training --- */

enum { SOME_STEPS = 100 };

/* What is learned, and how the run goes. */
typedef struct training {
    ff_corpus corpus;
    FILE *log; /* may be NULL */
    int64_t steps, step_tokens;
    uint64_t seed;
    double peak_rate, begun_s, first_loss, last_loss;
    ff_facts *facts;
    bool quiet;
} training;

/* Windows of the corpus, drawn by step and sequence: the same whatever rank reads them. */
static void deal_window(void *context, int64_t step, int64_t sequence, int64_t seq,
                        int32_t *tokens) {
    const training *t = context;
    uint64_t windows = (uint64_t)(t->corpus.tokens - seq);
    int64_t from = (int64_t)(ff_random(t->seed, (uint64_t)step, (uint64_t)sequence) % windows);
    for (int64_t i = 0; i <= seq; i++)
        tokens[i] = ff_corpus_token(&t->corpus, from + i);
}

/* A tenth of the steps to warm up, then half a cosine down to a tenth. */
static double rate_of(void *context, int64_t step) {
    const training *t = context;
    int64_t warm = t->steps / 10;
    if (step < warm)
        return t->peak_rate * (double)(step + 1) / (double)(warm + 1);
    double at = (double)(step - warm) / (double)(t->steps - warm);
    return t->peak_rate * (0.1 + 0.45 * (1 + cos(3.14159265358979 * at)));
}

static void tell_step(void *context, int64_t step, double loss, double norm) {
    training *t = context;
    double seconds = ff_terminal_clock_s() - t->begun_s;
    double rate = (double)((step + 1) * t->step_tokens) / (seconds > 0 ? seconds : 1);
    ff_facts_open_record(t->facts, NULL);
    ff_facts_add_integer(t->facts, "step", step + 1);
    ff_facts_add_real(t->facts, "loss", loss);
    ff_facts_add_real(t->facts, "gradient_norm", norm);
    ff_facts_close(t->facts);
    t->first_loss = step == 0 ? loss : t->first_loss;
    t->last_loss = loss;
    if (t->log != NULL)
        fprintf(t->log, "{\"step\": %lld, \"loss\": %.9g, \"gradient_norm\": %.9g}\n",
                (long long)step + 1, loss, norm);
    bool told = step % (t->steps > 20 ? t->steps / 20 : 1) == 0 || step == t->steps - 1;
    if (told && !t->quiet)
        fprintf(stderr, "step %5lld  loss %.6f  gradient norm %.4f  %.0f tokens/s\n",
                (long long)step + 1, loss, norm, rate);
}

static ff_status run_loopback(training *t, const ff_setup *setup, ff_diagnostics *findings) {
    ff_loop *loop = ff_loop_create(setup, 0);
    ff_status status = FF_OK;
    for (int64_t step = 0; status == FF_OK && step < t->steps; step++) {
        double loss;
        loop->rate = rate_of(t, step);
        status = ff_loop_step(loop, findings, &loss);
        if (status == FF_OK)
            tell_step(t, step, loss, loop->rank[0]->norm);
    }
    ff_loop_free(loop);
    return status;
}

static ff_status run_local(training *t, const ff_setup *setup, ff_diagnostics *findings) {
    ff_local *local = ff_local_create(setup, t->steps);
    if (local == NULL) {
        ff_report(findings, FF0707, FF_NOWHERE, "the system has no shared memory for the ranks");
        return FF_ENVIRONMENT;
    }
    ff_status status = ff_local_run(local, rate_of, tell_step, t, findings);
    ff_local_free(local);
    return status;
}

static ff_status read_corpus(ff_session *s, const execution *e, training *t) {
    const char *path = s->arguments->options.data;
    if (path == NULL) {
        ff_report(s->findings, FF0404, FF_NOWHERE, "train needs --data, a text to learn");
        ff_report_help(s->findings, "any file; its bytes are the words; or a file of tokens");
        return FF_INVALID;
    }
    ff_status status = ff_corpus_read(path, e->real_vocab, s->arena, s->findings, &t->corpus);
    if (status == FF_OK && t->corpus.tokens <= e->seq + 1) {
        ff_report(s->findings, FF0403, FF_NOWHERE, "%s has %lld tokens, a sequence needs %lld",
                  path, (long long)t->corpus.tokens, (long long)e->seq + 2);
        status = FF_INVALID;
    }
    return status;
}

/* --log: a line a step. */
static ff_status open_log(ff_session *s, training *t) {
    const char *path = s->arguments->options.log;
    t->log = path == NULL ? NULL : fopen(path, "w");
    if (path == NULL || t->log != NULL)
        return FF_OK;
    ff_report(s->findings, FF0406, FF_NOWHERE, "%s cannot be written", path);
    return FF_ENVIRONMENT;
}

static void training_facts(const execution *e, const training *t, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    double seconds = ff_terminal_clock_s() - t->begun_s;
    ff_facts_add_text(facts, "schema", "fivefold/train/1");
    ff_facts_add_text(facts, "model", "%s", e->model.name);
    ff_facts_add_text(facts, "layout", "%s",
                      ff_layout_print(&e->layout, FF_LAYOUT_SHORT, text, sizeof text));
    ff_facts_add_integer(facts, "ranks", ff_layout_world(&e->layout));
    ff_facts_add_text(facts, "data", "%s", t->corpus.form);
    ff_facts_add_integer(facts, "step_tokens", t->step_tokens);
    ff_facts_add_real(facts, "first_loss", t->first_loss);
    ff_facts_add_real(facts, "last_loss", t->last_loss);
    ff_facts_add_real(facts, "elapsed_s", seconds);
    ff_facts_add_real(facts, "tokens_per_s",
                      (double)(t->steps * t->step_tokens) / (seconds > 0 ? seconds : 1));
}

ff_status ff_train_run(ff_session *s) {
    const ff_options *o = &s->arguments->options;
    execution *e = FF_ARENA_NEW(s->arena, execution);
    training t = {.steps = o->steps > 0 ? o->steps : SOME_STEPS,
                  .seed = o->seed > 0 ? (uint64_t)o->seed : 1,
                  .facts = s->facts,
                  .quiet = o->quiet};
    ff_setup *setup;
    ff_status status = read_execution(s, e);
    if (status == FF_OK)
        status = read_corpus(s, e, &t);
    if (status != FF_OK)
        return status;
    ff_engine_options options = ff_engine_defaults();
    options.seq = e->seq;
    options.real_vocab = e->real_vocab;
    options.seed = t.seed;
    options.fast = o->fast;
    options.deal = deal_window;
    options.deal_context = &t;
    t.peak_rate = options.rate;
    status = open_log(s, &t);
    if (status == FF_OK)
        status = ff_setup_create(&e->model, &e->layout, &options, s->findings, &setup);
    if (status != FF_OK) {
        if (t.log != NULL)
            fclose(t.log);
        return status;
    }
    t.step_tokens = setup->batch_tokens;
    t.begun_s = ff_terminal_clock_s();
    ff_facts_open_list(s->facts, "losses");
    status = o->transport == FF_TRANSPORT_LOOPBACK ? run_loopback(&t, setup, s->findings)
                                                   : run_local(&t, setup, s->findings);
    ff_facts_close(s->facts);
    training_facts(e, &t, s->facts);
    ff_setup_free(setup);
    if (t.log != NULL && fclose(t.log) != 0)
        status = FF_ENVIRONMENT;
    return status;
}
