/* What the tests of rules and plans share: jobs from words, as the command line makes them, and
 * asking for a plan. */
#ifndef TESTS_PLAN_SUPPORT_H
#define TESTS_PLAN_SUPPORT_H

#include "cost/profile.h"
#include "fivefold/plan.h"
#include "model/config.h"
#include "plan/search.h"
#include "presets/presets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static inline void print_findings(const ff_diagnostics *findings) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        print_message("    %s: %s (%s)\n", d->code, d->message, d->help == NULL ? "" : d->help);
    }
}

static inline bool has_code(const ff_diagnostics *findings, const char *code) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++)
        if (strcmp(ff_diagnostics_at(findings, i)->code, code) == 0)
            return true;
    return false;
}

/* A preset's name or a bare shape; must be a model. */
static inline void read_model(const char *text, ff_model *model) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_status status = ff_model_is_shape(text) ? ff_model_from_shape(text, findings, model)
                                               : ff_model_preset(text, findings, model);
    print_findings(ff_has_errors(findings) ? findings : NULL);
    assert_int_equal(status, FF_OK);
    ff_diagnostics_free(findings);
}

static inline void read_profile(const char *name, ff_profile *profile) {
    char path[128];
    snprintf(path, sizeof path, "profiles/%s", name);
    const ff_field *root = ff_preset_tree(path);
    assert_non_null(root);
    assert_int_equal(ff_profile_from_fields(root, name, NULL, profile), FF_OK);
}

/* A job as the command line would make it; freed with free_job. */
static inline ff_job *new_job(const char *model, const char *cluster, int64_t seq,
                              int64_t gbs_tokens) {
    ff_job *job = calloc(1, sizeof *job);
    ff_profile *profile = calloc(1, sizeof *profile);
    assert_true(job != NULL && profile != NULL);
    read_model(model, &job->model);
    assert_int_equal(ff_cluster_preset(cluster, NULL, &job->cluster), FF_OK);
    read_profile(ff_profile_default(&job->cluster), profile);
    job->profile = profile;
    job->seq = seq;
    job->gbs_tokens = gbs_tokens;
    job->imbalance = 1;
    return job;
}

static inline void free_job(ff_job *job) {
    free((void *)(uintptr_t)job->profile);
    free(job);
}

/* What a search answers: counts and, by rank, plans in short form with their figures. */
typedef struct answer {
    ff_status status;
    ff_plan_set *set; /* NULL when the question was refused */
    ff_diagnostics *findings;
    ff_facts *facts;
    const ff_fact *root;
} answer;

static inline answer ask(const ff_job *job, ff_plan_options options) {
    answer a = {.findings = ff_diagnostics_create(), .facts = ff_facts_create()};
    a.status = ff_plan_search(job, &options, a.findings, &a.set);
    if (a.set != NULL)
        ff_plan_facts(a.set, 0, a.facts);
    a.root = ff_facts_root(a.facts);
    return a;
}

static inline void free_answer(answer *a) {
    ff_plan_free(a->set);
    ff_facts_free(a->facts);
    ff_diagnostics_free(a->findings);
}

static inline const ff_fact *plans_of(const answer *a) {
    const ff_fact *plans = ff_fact_find(a->root, "plans");
    assert_non_null(plans);
    return plans;
}

static inline int plan_count(const answer *a) {
    return plans_of(a)->count;
}

static inline const ff_fact *plan_at(const answer *a, int rank) {
    const ff_fact *plan = plans_of(a)->first;
    while (plan != NULL && --rank > 0)
        plan = plan->next;
    assert_non_null(plan);
    return plan;
}

/* Small enough for a whole search to be looked at. */
#define SMALL "layers=8,hidden=1024,heads=16,kv_heads=8,ffn=4096,vocab=32000,seq=8192"
#define SMALL_MOE                                                                                  \
    "layers=4,hidden=512,heads=8,kv_heads=4,experts=4,topk=2,expert_ffn=1024,vocab=32000,seq=4096"

#define FIVE ((ff_plan_options){.top = 5})
/* By formula: what is run is the best of each search, which differ in their best. */
#define EVERY ((ff_plan_options){.top = 0, .by_formula = true})

static inline ff_job *small_job(void) {
    return new_job(SMALL, "1x8xh100-80gb-sxm", 2048, 65536);
}

static inline const char *layout_at(const answer *a, int rank) {
    return ff_fact_text(plan_at(a, rank), "layout");
}

static inline double s_per_token(const ff_fact *plan) {
    return ff_fact_real(plan, "time.step_s") / ff_fact_real(plan, "gbs_tokens_counted");
}

static inline void assert_counts_add_up(const answer *a) {
    const ff_fact *s = ff_fact_find(a->root, "search");
    assert_int_equal(ff_fact_integer(s, "considered"),
                     ff_fact_integer(s, "illegal") + ff_fact_integer(s, "pruned") +
                         ff_fact_integer(s, "too_big") + ff_fact_integer(s, "estimated"));
}

static inline int64_t field(const ff_fact *fields, const char *name) {
    return ff_fact_integer(fields, name);
}

/* Tokens of a step, by a check that must be answered. */
static inline int64_t batch_of(const ff_job *job, const char *text) {
    ff_facts *facts = ff_facts_create();
    assert_int_equal(ff_check(job, text, NULL, facts), FF_OK);
    int64_t batch = ff_fact_integer(ff_facts_root(facts), "estimate.gbs_tokens_actual");
    ff_facts_free(facts);
    return batch;
}

/* Small, repeatable numbers: xorshift. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline int64_t random_below(uint64_t *state, int64_t limit) {
    return (int64_t)(next_random(state) % (uint64_t)limit);
}

#endif
