/* See verify.h. */
#include "verify/verify.h"

#include "base/diagnose.h"
#include "base/fact.h"
#include "engine/random.h"
#include "verify/compare.h"
#include "verify/counted.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- words to learn from, where the caller has none --- */

void ff_deal_words(void *context, int64_t step, int64_t sequence, int64_t seq, int32_t *tokens) {
    uint64_t vocab = (uint64_t) * (const int64_t *)context;
    uint64_t stream = ff_mix((uint64_t)step) + (uint64_t)sequence;
    for (int64_t i = 0; i <= seq; i++)
        tokens[i] = (int32_t)(ff_random(11, stream, (uint64_t)i) % vocab);
}

/* --- two runs beside each other --- */

typedef struct likeness {
    double largest; /* difference of any step */
    bool bits;
    char where[96];
} likeness;

typedef struct twins {
    ff_setup *setup, *single_setup;
    ff_loop *loop, *single;
    likeness loss, gradients, weights;
    bool exact;
    const char *why;
    double bound;
} twins;

static void note(likeness *l, const ff_difference *d) {
    l->bits &= d->unequal == 0;
    if (d->largest > l->largest || d->largest != d->largest) {
        l->largest = d->largest;
        memcpy(l->where, d->where, sizeof l->where);
    }
}

static void note_loss(likeness *l, double ours, double theirs) {
    double difference = fabs(ours - theirs) / fabs(theirs);
    l->bits &= ours == theirs;
    if (difference > l->largest || difference != difference)
        l->largest = difference;
}

static int64_t longest_sum(const ff_setup *setup) {
    int64_t longest = setup->tokens > setup->model.hidden ? setup->tokens : setup->model.hidden;
    for (int k = 0; k < setup->model.kinds; k++)
        if (setup->model.kind[k].mlp.width > longest)
            longest = setup->model.kind[k].mlp.width;
    return longest;
}

/* A tree's depth is within the 64; a chain of n rounds n times, each way as often: 2 sqrt(n). */
static double bound_of(const ff_setup *setup) {
    double k = setup->options.fast ? fmax(64, 2 * sqrt((double)longest_sum(setup))) : 64;
    return sizeof(real) == 8 ? 1e-11 : k * pow(1.03, setup->model.layers + 1) * 0x1p-24;
}

static ff_status start(const ff_verify_job *job, ff_update update, ff_diagnostics *findings,
                       twins *t) {
    *t = (twins){.loss.bits = true, .gradients.bits = true, .weights.bits = true};
    ff_engine_options options = job->options;
    options.update = update;
    options.poison = true;
    if (update == FF_UPDATE_SGD)
        options.rate = 0.1;
    if (options.deal == NULL) {
        options.deal = ff_deal_words;
        options.deal_context = (void *)(uintptr_t)&job->options.real_vocab;
    }
    ff_status status = ff_setup_create(job->model, job->layout, &options, findings, &t->setup);
    if (status != FF_OK)
        return status;
    ff_layout one = ff_engine_single(job->layout);
    options.token_parts = t->setup->options.token_parts;
    options.tied_apart = job->layout->pp > 1;
    options.alter = NULL;
    options.fast = false;
    status = ff_setup_create(job->model, &one, &options, findings, &t->single_setup);
    if (status != FF_OK)
        return status;
    t->exact = ff_engine_exact(t->setup, &t->why);
    t->bound = bound_of(t->setup);
    t->loop = ff_loop_create(t->setup, job->shuffle);
    t->single = ff_loop_create(t->single_setup, 0);
    return FF_OK;
}

static void stop(twins *t) {
    ff_loop_free(t->loop);
    ff_loop_free(t->single);
    ff_setup_free(t->setup);
    ff_setup_free(t->single_setup);
}

static ff_status run(twins *t, int64_t steps, ff_diagnostics *findings) {
    for (int64_t s = 0; s < steps; s++) {
        double ours, theirs;
        ff_difference d;
        ff_status status = ff_loop_step(t->single, findings, &theirs);
        if (status == FF_OK)
            status = ff_loop_step(t->loop, findings, &ours);
        if (status != FF_OK)
            return status;
        note_loss(&t->loss, ours, theirs);
        ff_compare_runs(t->loop, t->single, FF_COMPARE_GRADIENTS, &d);
        note(&t->gradients, &d);
        ff_compare_runs(t->loop, t->single, FF_COMPARE_WEIGHTS, &d);
        note(&t->weights, &d);
    }
    return FF_OK;
}

/* --- judging --- */

static const char *word_of(const twins *t, const likeness *l) {
    if (t->exact)
        return l->bits ? "bits" : "no";
    return l->largest <= t->bound ? "tolerance" : "no";
}

static bool judge_likeness(const twins *t, const char *what, const likeness *l,
                           ff_diagnostics *findings) {
    if (strcmp(word_of(t, l), "no") != 0)
        return true;
    ff_report(findings, FF0705, FF_NOWHERE, "%s differ from one rank's by %.3g of the largest%s%s",
              what, l->largest, l->where[0] == '\0' ? "" : ", in ", l->where);
    return false;
}

static bool judge_order(const ff_loop *loop, ff_diagnostics *findings) {
    bool equal = true;
    for (int r = 0; r < loop->world; r++) {
        if (ff_order_equal(loop, loop->rank[r]))
            continue;
        if (equal)
            ff_report(findings, FF0705, FF_NOWHERE,
                      "rank %d did other things than the program says, or in another order", r);
        equal = false;
    }
    return equal;
}

static bool judge_leaks(const ff_loop *loop, ff_diagnostics *findings) {
    for (int r = 0; r < loop->world; r++) {
        const char *leak = ff_store_leak(&loop->rank[r]->store);
        if (leak == NULL)
            continue;
        ff_report(findings, FF0705, FF_NOWHERE, "rank %d holds \"%s\" past its last use", r, leak);
        return false;
    }
    return true;
}

static const char *group_name(ff_axes group, char *text, size_t text_bytes) {
    text[0] = '\0';
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++) {
        if (!(group & FF_AXES(axis)))
            continue;
        if (text[0] != '\0')
            strncat(text, "+", text_bytes - strlen(text) - 1);
        strncat(text, ff_axis_name((ff_axis)axis), text_bytes - strlen(text) - 1);
    }
    return text;
}

static bool traffic_facts(const ff_loop *loop, ff_diagnostics *findings, ff_facts *facts) {
    ff_counted counted;
    char group[64];
    bool equal = true;
    ff_count_traffic(loop, &counted);
    ff_facts_open_list(facts, "collectives");
    for (int i = 0; i < counted.rows; i++) {
        const ff_traffic *t = &counted.row[i];
        group_name(t->group, group, sizeof group);
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "op", "%s", ff_collective_name(t->collective));
        ff_facts_add_text(facts, "group", "%s", group);
        ff_facts_add_text(facts, "phase", "%s", ff_phase_name(t->phase));
        ff_facts_add_integer(facts, "layer", t->layer);
        ff_facts_add_integer(facts, "calls", t->calls);
        ff_facts_add_integer(facts, "planned_calls", t->planned_calls);
        ff_facts_add_integer(facts, "bytes", t->bytes);
        ff_facts_add_integer(facts, "planned_bytes", (int64_t)floor(t->planned_bytes + 0.5));
        ff_facts_close(facts);
        if (ff_traffic_equal(t))
            continue;
        equal = false;
        ff_report(findings, FF0705, FF_NOWHERE,
                  "%s over %s, %s of layer %d: %lld calls and %lld bytes, planned %lld and %.0f",
                  ff_collective_name(t->collective), group, ff_phase_name(t->phase), t->layer,
                  (long long)t->calls, (long long)t->bytes, (long long)t->planned_calls,
                  t->planned_bytes);
    }
    ff_facts_close(facts);
    ff_counted_free(&counted);
    return equal;
}

typedef struct memory_row {
    const ff_rank *rank;
    const char *category;
    const char *compared; /* "equal", "at_most", "no" */
    int64_t peak_bytes, planned_bytes, slack_bytes;
} memory_row;

static bool as_planned(const memory_row *row) {
    int64_t over = row->peak_bytes - row->planned_bytes;
    if (strcmp(row->compared, "equal") == 0)
        return llabs(over) <= row->slack_bytes;
    return strcmp(row->compared, "no") == 0 || over <= row->slack_bytes;
}

static bool judge_memory(const memory_row *row, ff_diagnostics *findings, ff_facts *facts) {
    if (row->peak_bytes == 0 && row->planned_bytes <= 0)
        return true;
    ff_facts_open_record(facts, NULL);
    ff_facts_add_integer(facts, "rank", row->rank->id);
    ff_facts_add_text(facts, "category", "%s", row->category);
    ff_facts_add_integer(facts, "peak_bytes", row->peak_bytes);
    if (row->planned_bytes >= 0)
        ff_facts_add_integer(facts, "planned_bytes", row->planned_bytes);
    else
        ff_facts_add_null(facts, "planned_bytes");
    ff_facts_add_text(facts, "compared", "%s", row->compared);
    ff_facts_add_boolean(facts, "as_planned", as_planned(row));
    ff_facts_close(facts);
    if (as_planned(row))
        return true;
    ff_report(findings, FF0705, FF_NOWHERE, "rank %d: peak %s of %lld bytes, planned %s%lld",
              row->rank->id, row->category, (long long)row->peak_bytes,
              strcmp(row->compared, "at_most") == 0 ? "at most " : "",
              (long long)row->planned_bytes);
    return false;
}

static bool judge_rank_memory(const ff_loop *loop, const ff_rank *rank, ff_diagnostics *findings,
                              ff_facts *facts) {
    ff_planned_memory planned;
    bool good = true;
    ff_plan_memory(loop, rank, &planned);
    for (int kind = 0; kind < FF_STORE_KINDS; kind++) {
        memory_row row = {rank,
                          ff_store_kind_name((ff_store_kind)kind),
                          ff_store_kind_compared((ff_store_kind)kind) ? "equal" : "no",
                          rank->store.peak_bytes[kind],
                          planned.bytes[kind],
                          ff_memory_slack(rank)};
        good &= judge_memory(&row, findings, facts);
    }
    memory_row sum = {rank,
                      "activations, loss, working",
                      "at_most",
                      rank->store.peak_activations_bytes,
                      planned.activations_bytes,
                      0};
    return judge_memory(&sum, findings, facts) && good;
}

static bool memory_facts(const ff_loop *loop, ff_diagnostics *findings, ff_facts *facts) {
    bool equal = true;
    ff_facts_open_list(facts, "memory");
    for (int r = 0; r < loop->world; r++)
        equal &= judge_rank_memory(loop, loop->rank[r], findings, facts);
    ff_facts_close(facts);
    return equal;
}

static void likeness_facts(const twins *adam, const twins *sgd, ff_facts *facts) {
    const struct {
        const char *name;
        const likeness *adam, *sgd;
    } rows[] = {{"loss", &adam->loss, &sgd->loss},
                {"gradients", &adam->gradients, &sgd->gradients},
                {"weights", &adam->weights, &sgd->weights}};
    ff_facts_open_record(facts, "equal");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool adam_too = adam->exact || i == 0;
        const char *a = word_of(adam, rows[i].adam), *s = word_of(sgd, rows[i].sgd);
        ff_facts_add_text(facts, rows[i].name, "%s", adam_too && strcmp(a, "no") == 0 ? a : s);
    }
    ff_facts_close(facts);
    ff_facts_open_record(facts, "largest_difference");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ff_facts_add_real(facts, rows[i].name, fmax(rows[i].adam->largest, rows[i].sgd->largest));
    ff_facts_close(facts);
}

static void open_facts(const ff_verify_job *job, const twins *t, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_facts_add_text(facts, "schema", "fivefold/verify/1");
    ff_facts_add_text(facts, "model", "%s", job->model->name);
    ff_facts_add_text(facts, "layout", "%s",
                      ff_layout_print(job->layout, FF_LAYOUT_SHORT, text, sizeof text));
    ff_facts_add_integer(facts, "ranks", t->loop->world);
    ff_facts_add_integer(facts, "seq_tokens", job->options.seq);
    ff_facts_add_integer(facts, "batch_tokens", t->setup->batch_tokens);
    ff_facts_add_integer(facts, "steps", job->steps);
    ff_facts_add_text(facts, "number", sizeof(real) == 4 ? "fp32" : "fp64");
    ff_facts_add_text(facts, "transport", "%s", job->as_processes ? "local" : "loopback");
    ff_facts_add_text(facts, "kernel", "%s", t->loop->rank[0]->gemm.kernel->name);
    ff_facts_add_boolean(facts, "exact_order", t->exact);
    ff_facts_add_text(facts, "exact_order_why", "%s", t->why);
    if (!t->exact)
        ff_facts_add_real(facts, "bound_ratio", t->bound);
}

static bool judge_twins(const twins *t, bool adam, ff_diagnostics *findings) {
    bool good = judge_likeness(t, "losses", &t->loss, findings);
    good &= judge_leaks(t->loop, findings);
    if (adam && !t->exact)
        return good;
    good &= judge_likeness(t, "gradients", &t->gradients, findings);
    good &= judge_likeness(t, "weights", &t->weights, findings);
    return good;
}

static void report_failure(const ff_verify_job *job, ff_facts *facts) {
    ff_facts_add_text(facts, "model", "%s", job->model->name);
    ff_facts_add_text(facts, "verdict", "failed");
}

ff_status ff_verify(const ff_verify_job *job, ff_diagnostics *findings, ff_facts *facts) {
    twins adam = {0}, sgd = {0};
    ff_status status = start(job, FF_UPDATE_ADAMW, findings, &adam);
    if (status == FF_OK)
        status = start(job, FF_UPDATE_SGD, findings, &sgd);
    if (status == FF_OK)
        status = run(&adam, job->steps, findings);
    if (status == FF_OK)
        status = run(&sgd, job->steps, findings);
    if (status != FF_OK) {
        report_failure(job, facts);
        stop(&adam);
        stop(&sgd);
        return status;
    }
    open_facts(job, &adam, facts);
    likeness_facts(&adam, &sgd, facts);
    bool good = judge_twins(&adam, true, findings);
    good &= judge_twins(&sgd, false, findings);
    good &= traffic_facts(adam.loop, findings, facts);
    good &= memory_facts(adam.loop, findings, facts);
    bool order_equal = judge_order(adam.loop, findings);
    ff_facts_add_boolean(facts, "order_equal", order_equal);
    good &= order_equal;
    if (job->as_processes)
        ff_facts_add_boolean(facts, "processes_equal", job->processes_equal);
    good &= !job->as_processes || job->processes_equal;
    ff_facts_add_text(facts, "verdict", good ? "equal" : "differs");
    stop(&adam);
    stop(&sgd);
    return good ? FF_OK : FF_NO;
}
