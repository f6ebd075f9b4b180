/* The training run: data, the rate of learning, validation, what is told of each step.
 *
 *     corpus  |<-------- learned, in windows drawn by step and sequence ------->|<- a tenth held out ->|
 *                                                   (--val FILE: all of it)       (--val-every alone)
 *     passes  step 0, 1, ... N-1, evaluation -1, -2, ..., step N, ...
 *
 * The share of the peak is the model's FLOP (causal attention) a second over what the product reaches on
 * one core, measured at the start, times the cores that the ranks can use. */
#include "cli/execute.h"

#include "base/fact.h"
#include "base/number.h"
#include "cli/corpus.h"
#include "cli/local.h"
#include "cli/peak.h"
#include "engine/random.h"
#include <math.h>
#include <stdio.h>

enum { SOME_STEPS = 100, MOST_EVALUATIONS = 8, HELD_OUT = 10, TOLD_LINES = 20 };

/* What is learned, and how the run goes. */
typedef struct training {
    ff_corpus corpus, held; /* held.tokens 0: no validation */
    FILE *log;              /* may be NULL */
    int64_t *pass;          /* what is run (cli/local.h) */
    int64_t passes;
    int64_t steps, val_every, evaluations, sequences, step_tokens;
    uint64_t seed;
    double peak_rate, peak_flops, token_flop;
    double begun_s, before_s, learned_s; /* clock: start, last pass told; seconds in steps */
    double first_loss, last_loss, val_sum, val_loss;
    int64_t step, val_seen; /* the last told; evaluations told since */
    ff_facts *facts;
    bool quiet;
} training;

/* --- data --- */

/* Windows of the corpus, drawn by step and sequence: the same whatever rank reads them. Evaluations take
 * one window after another. */
static void deal_window(void *context, int64_t step, int64_t sequence, int64_t seq,
                        int32_t *tokens) {
    const training *t = context;
    const ff_corpus *from = step < 0 ? &t->held : &t->corpus;
    int64_t windows = from->tokens - seq, at;
    if (step < 0)
        at = (-1 - step) * t->sequences * seq % windows + sequence * seq;
    else
        at = (int64_t)(ff_random(t->seed, (uint64_t)step, (uint64_t)sequence) % (uint64_t)windows);
    for (int64_t i = 0; i <= seq; i++)
        tokens[i] = ff_corpus_token(from, at % windows + i);
}

static ff_status check_length(const char *path, const char *what, const ff_corpus *corpus,
                              int64_t seq, ff_diagnostics *findings) {
    if (corpus->tokens > seq + 1)
        return FF_OK;
    ff_report(findings, FF0403, FF_NOWHERE, "%s has %lld tokens%s, a sequence needs %lld", path,
              (long long)corpus->tokens, what, (long long)seq + 2);
    ff_report_help(findings, "more data, or a smaller --seq");
    return FF_INVALID;
}

static ff_status read_validation(ff_session *s, const ff_execution *e, training *t) {
    const ff_options *o = &s->arguments->options;
    if (o->val != NULL) {
        ff_status status = ff_corpus_read(o->val, e->real_vocab, s->findings, &t->held);
        return status == FF_OK ? check_length(o->val, "", &t->held, e->seq, s->findings) : status;
    }
    if (o->val_every == 0)
        return FF_OK;
    t->held = ff_corpus_split(&t->corpus, t->corpus.tokens / HELD_OUT);
    ff_status status = check_length(o->data, " held out", &t->held, e->seq, s->findings);
    return status == FF_OK
               ? check_length(o->data, " left to learn", &t->corpus, e->seq, s->findings)
               : status;
}

static ff_status read_data(ff_session *s, const ff_execution *e, training *t) {
    const char *path = s->arguments->options.data;
    if (path == NULL) {
        ff_report(s->findings, FF0404, FF_NOWHERE, "train needs --data, a text to learn");
        ff_report_help(s->findings, "any file; its bytes are the words; or a file of tokens");
        return FF_INVALID;
    }
    ff_status status = ff_corpus_read(path, e->real_vocab, s->findings, &t->corpus);
    if (status == FF_OK)
        status = check_length(path, "", &t->corpus, e->seq, s->findings);
    return status == FF_OK ? read_validation(s, e, t) : status;
}

/* --- the run's plan --- */

/* A tenth of the steps to warm up, then half a cosine down to a tenth. */
static double rate_of(void *context, int64_t step) {
    const training *t = context;
    int64_t warm = t->steps / 10;
    if (step < warm)
        return t->peak_rate * (double)(step + 1) / (double)(warm + 1);
    double at = (double)(step - warm) / (double)(t->steps - warm);
    return t->peak_rate * (0.1 + 0.45 * (1 + cos(3.14159265358979 * at)));
}

static void plan_passes(training *t, int64_t seq, int64_t every, ff_arena *arena) {
    int64_t batches = t->held.tokens / (seq * t->sequences);
    t->val_every = t->held.tokens == 0 ? 0 : every > 0 ? every : ff_max(1, t->steps / 10);
    t->evaluations = t->val_every == 0 ? 0 : ff_max(1, ff_min(batches, (int64_t)MOST_EVALUATIONS));
    int64_t rounds = t->val_every == 0 ? 0 : t->steps / t->val_every + 1;
    t->pass = ff_arena_alloc(arena, (size_t)(t->steps + rounds * t->evaluations) * sizeof *t->pass);
    for (int64_t step = 0; step < t->steps; step++) {
        t->pass[t->passes++] = step;
        bool due = t->val_every > 0 && ((step + 1) % t->val_every == 0 || step == t->steps - 1);
        for (int64_t i = 0; due && i < t->evaluations; i++)
            t->pass[t->passes++] = -1 - i;
    }
}

/* --- what is told --- */

static void tell_validation(training *t, double loss) {
    t->val_sum += loss;
    if (++t->val_seen < t->evaluations)
        return;
    t->val_loss = t->val_sum / (double)t->val_seen;
    t->val_sum = 0;
    t->val_seen = 0;
    ff_facts_open_record(t->facts, NULL);
    ff_facts_add_integer(t->facts, "step", t->step + 1);
    ff_facts_add_real(t->facts, "validation_loss", t->val_loss);
    ff_facts_close(t->facts);
    if (t->log != NULL)
        fprintf(t->log, "{\"step\": %lld, \"validation_loss\": %.9g}\n", (long long)t->step + 1,
                t->val_loss);
    if (!t->quiet)
        fprintf(stderr, "step %5lld  validation loss %.6f\n", (long long)t->step + 1, t->val_loss);
}

static double share_of_peak(const training *t, double tokens_per_s) {
    return t->peak_flops > 0 ? tokens_per_s * t->token_flop / t->peak_flops : 0;
}

static void log_step(const training *t, double loss, double norm, double seconds) {
    double tokens_per_s = (double)t->step_tokens / seconds;
    if (t->log != NULL)
        fprintf(t->log,
                "{\"step\": %lld, \"loss\": %.9g, \"gradient_norm\": %.9g, \"learning_rate\": %.9g,"
                " \"step_s\": %.6g, \"tokens_per_s\": %.6g, \"peak_ratio\": %.4g}\n",
                (long long)t->step + 1, loss, norm, rate_of((void *)(uintptr_t)t, t->step), seconds,
                tokens_per_s, share_of_peak(t, tokens_per_s));
}

static void tell_step(training *t, double loss, double norm) {
    double rate = (double)((t->step + 1) * t->step_tokens) / t->learned_s;
    bool told = t->step % (t->steps > TOLD_LINES ? t->steps / TOLD_LINES : 1) == 0 ||
                t->step == t->steps - 1;
    ff_facts_open_record(t->facts, NULL);
    ff_facts_add_integer(t->facts, "step", t->step + 1);
    ff_facts_add_real(t->facts, "loss", loss);
    ff_facts_add_real(t->facts, "gradient_norm", norm);
    ff_facts_close(t->facts);
    t->first_loss = t->step == 0 ? loss : t->first_loss;
    t->last_loss = loss;
    if (told && !t->quiet)
        fprintf(stderr,
                "step %5lld  loss %.6f  gradient norm %.4f  %.0f tokens/s  %.1f%% of peak\n",
                (long long)t->step + 1, loss, norm, rate, 100 * share_of_peak(t, rate));
}

static void tell_pass(void *context, int64_t step, double loss, double norm) {
    training *t = context;
    double now_s = ff_terminal_clock_s(), seconds = fmax(now_s - t->before_s, 1e-9);
    t->before_s = now_s;
    if (step < 0) {
        tell_validation(t, loss);
        return;
    }
    t->step = step;
    t->learned_s += seconds;
    log_step(t, loss, norm, seconds);
    tell_step(t, loss, norm);
}

/* --- the run --- */

static ff_status run_loopback(training *t, const ff_setup *setup, ff_diagnostics *findings) {
    ff_loop *loop = ff_loop_create(setup, 0);
    ff_status status = FF_OK;
    for (int64_t pass = 0; status == FF_OK && pass < t->passes; pass++) {
        double loss;
        loop->step = t->pass[pass];
        loop->rate = rate_of(t, loop->step);
        status = ff_loop_step(loop, findings, &loss);
        if (status == FF_OK)
            tell_pass(t, t->pass[pass], loss, loop->rank[0]->norm);
    }
    ff_loop_free(loop);
    return status;
}

static ff_status run_local(training *t, const ff_setup *setup, ff_diagnostics *findings) {
    ff_passes passes = {t->pass, t->passes, rate_of, tell_pass, t};
    ff_local *local = ff_local_create(setup, &passes);
    if (local == NULL) {
        ff_report(findings, FF0707, FF_NOWHERE, "the system has no shared memory for the ranks");
        return FF_ENVIRONMENT;
    }
    ff_status status = ff_local_run(local, findings);
    ff_local_free(local);
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

static void run_facts(const ff_execution *e, const training *t, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_facts_add_text(facts, "schema", "fivefold/train/1");
    ff_facts_add_text(facts, "model", "%s", e->model.name);
    ff_facts_add_text(facts, "layout", "%s",
                      ff_layout_print(&e->layout, FF_LAYOUT_SHORT, text, sizeof text));
    ff_facts_add_integer(facts, "ranks", ff_layout_world(&e->layout));
    ff_facts_add_text(facts, "data", "%s", t->corpus.form);
    ff_facts_add_integer(facts, "data_tokens", t->corpus.tokens);
    ff_facts_add_integer(facts, "validation_tokens", t->held.tokens);
    ff_facts_add_integer(facts, "step_tokens", t->step_tokens);
}

static void result_facts(const training *t, ff_facts *facts) {
    double tokens_per_s = (double)((t->step + 1) * t->step_tokens) / fmax(t->learned_s, 1e-9);
    ff_facts_add_integer(facts, "steps", t->step + 1);
    ff_facts_add_real(facts, "first_loss", t->first_loss);
    ff_facts_add_real(facts, "last_loss", t->last_loss);
    if (t->val_every > 0)
        ff_facts_add_real(facts, "validation_loss", t->val_loss);
    ff_facts_add_real(facts, "elapsed_s", ff_terminal_clock_s() - t->begun_s);
    ff_facts_add_real(facts, "tokens_per_s", tokens_per_s);
    ff_facts_add_real(facts, "peak_flops", t->peak_flops);
    ff_facts_add_real(facts, "peak_ratio", share_of_peak(t, tokens_per_s));
}

static void measure_peak(const ff_execution *e, training *t) {
    int64_t ranks = ff_layout_world(&e->layout), cores = ff_usable_cores();
    ff_model model = e->model;
    model.vocab = e->real_vocab;
    t->token_flop = ff_model_flop_per_token(&model, e->seq, FF_FLOP_CAUSAL);
    t->peak_flops = ff_product_flops() * (double)ff_min(ranks, cores);
}

static ff_status run(ff_session *s, const ff_execution *e, training *t) {
    const ff_options *o = &s->arguments->options;
    ff_engine_options options = ff_engine_defaults();
    ff_setup *setup;
    options.seq = e->seq;
    options.real_vocab = e->real_vocab;
    options.seed = t->seed;
    options.fast = o->fast;
    options.deal = deal_window;
    options.deal_context = t;
    t->peak_rate = options.rate;
    ff_status status = ff_setup_create(&e->model, &e->layout, &options, s->findings, &setup);
    if (status != FF_OK)
        return status;
    t->step_tokens = setup->batch_tokens;
    t->sequences = setup->batch_tokens / e->seq;
    plan_passes(t, e->seq, o->val_every, s->arena);
    measure_peak(e, t);
    t->begun_s = t->before_s = ff_terminal_clock_s();
    run_facts(e, t, s->facts);
    ff_facts_open_list(s->facts, "losses");
    status = o->transport == FF_TRANSPORT_LOOPBACK ? run_loopback(t, setup, s->findings)
                                                   : run_local(t, setup, s->findings);
    ff_facts_close(s->facts);
    result_facts(t, s->facts);
    ff_setup_free(setup);
    return status;
}

ff_status ff_train_run(ff_session *s) {
    const ff_options *o = &s->arguments->options;
    ff_execution *e = FF_ARENA_NEW(s->arena, ff_execution);
    training t = {.steps = o->steps > 0 ? o->steps : SOME_STEPS,
                  .seed = o->seed > 0 ? (uint64_t)o->seed : 1,
                  .facts = s->facts,
                  .quiet = o->quiet};
    ff_status status = ff_execution_read(s, e, false);
    if (status == FF_OK)
        status = read_data(s, e, &t);
    if (status == FF_OK)
        status = open_log(s, &t);
    if (status != FF_OK)
        return status;
    status = run(s, e, &t);
    if (t.log != NULL && fclose(t.log) != 0)
        status = FF_ENVIRONMENT;
    return status;
}
