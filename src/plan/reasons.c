/* See reasons.h.
 *
 *   cliff         bytes to spare on the fullest stage, and the largest loss of time
 *   sensitivity   a constant is scaled, up and down to a quarter and four times, and the kept
 *                 candidates are priced again: the nearest factor at which another one wins
 *   close         candidates within the model's own error (data/accuracy.yaml): the two to measure
 *                 are the first and the closest one that divides the work otherwise
 *   schedule      the best among schedules that the stack does not run
 *   baselines     the best layout of each rule of thumb, found by a search of its own subspace
 *
 * Assumption: a winner under another constant is among the candidates kept (the best by time). */
#include "plan/reasons.h"

#include "presets/presets.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RIVALS = 64, BISECTIONS = 6 };
static const double LARGEST_FACTOR = 4;

/* ---- another constant ---- */

typedef struct knob {
    const char *name; /* as a fact and in words */
    const char *words;
    void (*scale)(ff_job *job, ff_profile *profile, double factor);
    double (*value)(const ff_job *job);
    const char *unit; /* of the value's name, base/units.h */
} knob;

static void scale_link(ff_job *job, ff_profile *profile, double factor) {
    (void)profile;
    job->cluster.tier[FF_TIER_DOMAIN].Bps *= factor;
}

static void scale_network(ff_job *job, ff_profile *profile, double factor) {
    (void)profile;
    job->cluster.tier[FF_TIER_NETWORK].Bps *= factor;
    job->cluster.tier[FF_TIER_SPINE].Bps *= factor;
    job->cluster.nic_Bps *= factor;
}

static void scale_gemm(ff_job *job, ff_profile *profile, double factor) {
    (void)job;
    profile->gemm_clock_ratio *= factor;
}

static void scale_host(ff_job *job, ff_profile *profile, double factor) {
    (void)job;
    profile->host_s_per_layer *= factor;
}

static void scale_imbalance(ff_job *job, ff_profile *profile, double factor) {
    (void)profile;
    job->imbalance = fmax(1, job->imbalance * factor);
}

static double link_of(const ff_job *job) {
    return job->cluster.tier[FF_TIER_DOMAIN].Bps;
}

static double network_of(const ff_job *job) {
    return job->cluster.tier[FF_TIER_NETWORK].Bps;
}

static double gemm_of(const ff_job *job) {
    return job->profile->gemm_clock_ratio;
}

static double host_of(const ff_job *job) {
    return job->profile->host_s_per_layer;
}

static double imbalance_of(const ff_job *job) {
    return job->imbalance;
}

static const knob knobs[] = {
    {"link_Bps", "bandwidth inside the domain", scale_link, link_of, "Bps"},
    {"network_Bps", "bandwidth of the network", scale_network, network_of, "Bps"},
    {"gemm_clock_ratio", "share of the GEMM rate", scale_gemm, gemm_of, "ratio"},
    {"host_per_layer_s", "host time a layer", scale_host, host_of, "s"},
    {"imbalance", "expert imbalance", scale_imbalance, imbalance_of, ""},
};
enum { KNOBS = sizeof knobs / sizeof *knobs };

static int64_t rivals_of(const ff_plan_set *set) {
    return set->kept < MOST_RIVALS ? set->kept : MOST_RIVALS;
}

/* The candidate that wins when a constant is scaled; those that no longer fit do not count. Times
 * are by formula, corrected by what the run made of it. */
static int64_t winner(const ff_plan_set *set, const knob *k, double factor) {
    ff_job *job = FF_ARENA_NEW(set->arena, ff_job);
    ff_profile *profile = FF_ARENA_NEW(set->arena, ff_profile);
    *job = set->job;
    *profile = *set->job.profile;
    job->profile = profile;
    k->scale(job, profile, factor);
    ff_evaluator *evaluator = ff_evaluator_create(job, NULL);
    ff_layout *layout = FF_ARENA_NEW(set->arena, ff_layout);
    int64_t best = 0;
    double best_s = INFINITY;
    for (int64_t i = 0; evaluator != NULL && i < rivals_of(set); i++) {
        ff_estimate estimate;
        ff_candidate_layout(set, &set->best[i], layout);
        ff_evaluate_memory(evaluator, layout, &estimate, NULL);
        if (estimate.verdict == FF_TOO_BIG)
            continue;
        ff_evaluate_time(evaluator, layout, &estimate);
        double ratio = set->best[i].formula_ratio, s = estimate.s_per_token;
        s = ratio > 0 ? s / ratio : s;
        if (s < best_s * (1 - 1e-9)) {
            best_s = s;
            best = i;
        }
    }
    ff_evaluator_free(evaluator);
    return best;
}

/* The factor nearest to 1, in one direction, at which the winner changes; 0 when it does not. */
static double flip(const ff_plan_set *set, const knob *k, double limit, int64_t *to) {
    double same = 1, other = limit;
    *to = winner(set, k, limit);
    if (*to == 0)
        return 0;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = sqrt(same * other);
        int64_t wins = winner(set, k, middle);
        if (wins == 0) {
            same = middle;
        } else {
            other = middle;
            *to = wins;
        }
    }
    return other;
}

static void layout_text(const ff_plan_set *set, const ff_candidate *candidate, const char *name,
                        ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_layout *layout = FF_ARENA_NEW(set->arena, ff_layout);
    ff_candidate_layout(set, candidate, layout);
    ff_facts_add_text(facts, name, "%s",
                      ff_layout_print(layout, FF_LAYOUT_SHORT, text, sizeof text));
}

static void knob_facts(const ff_plan_set *set, const knob *k, ff_facts *facts) {
    int64_t up_to, down_to;
    double up = flip(set, k, LARGEST_FACTOR, &up_to);
    double down = flip(set, k, 1 / LARGEST_FACTOR, &down_to);
    bool takes_up = up > 0 && (down == 0 || up < 1 / down);
    double factor = takes_up ? up : down, now = k->value(&set->job);
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "constant", "%s", k->name);
    ff_facts_add_text(facts, "words", "%s", k->words);
    ff_facts_add_text(facts, "unit", "%s", k->unit);
    ff_facts_add_real(facts, "value", now);
    if (factor > 0) {
        ff_facts_add_real(facts, "flips_at", now * factor);
        ff_facts_add_real(facts, "factor", factor);
        layout_text(set, &set->best[takes_up ? up_to : down_to], "to", facts);
    } else {
        ff_facts_add_null(facts, "flips_at");
    }
    ff_facts_close(facts);
}

static void sensitivity_facts(const ff_plan_set *set, ff_facts *facts) {
    bool experts = ff_model_moe_kind(&set->job.model) != NULL;
    ff_facts_open_list(facts, "sensitivity");
    for (int i = 0; i < KNOBS && set->kept > 1; i++)
        if (knobs[i].scale != scale_imbalance || experts)
            knob_facts(set, &knobs[i], facts);
    ff_facts_close(facts);
}

/* ---- too close to call ---- */

static double error_ratio(const ff_plan_set *set) {
    const ff_field *root = ff_preset_tree("accuracy");
    bool experts = ff_model_moe_kind(&set->job.model) != NULL;
    double ratio = 0.1;
    if (root != NULL)
        ff_field_get_real(root, experts ? "moe" : "dense", 0, 1, NULL, &ratio);
    return ratio;
}

static bool divides_otherwise(const ff_point *a, const ff_point *b) {
    static const ff_dimension axes[] = {FF_DIM_TP, FF_DIM_PP, FF_DIM_EP, FF_DIM_ETP};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (a->value[axes[i]] != b->value[axes[i]])
            return true;
    return false;
}

static void close_facts(const ff_plan_set *set, ff_facts *facts) {
    double ratio = error_ratio(set), limit = set->best[0].s_per_token * (1 + ratio);
    int64_t within = 1, rival = 0;
    for (int64_t i = 1; i < set->kept && set->best[i].s_per_token <= limit; i++, within++)
        if (rival == 0 && divides_otherwise(&set->best[0].point, &set->best[i].point))
            rival = i;
    ff_facts_open_record(facts, "close");
    ff_facts_add_real(facts, "error_ratio", ratio);
    ff_facts_add_integer(facts, "layouts", within);
    ff_facts_add_boolean(facts, "at_least", within == set->kept && set->kept >= set->room);
    if (rival > 0) {
        ff_facts_add_integer(facts, "rival_rank", rival + 1);
        layout_text(set, &set->best[rival], "rival", facts);
        ff_facts_add_real(facts, "ratio", set->best[rival].s_per_token / set->best[0].s_per_token);
    }
    ff_facts_close(facts);
}

/* ---- the cliff ---- */

static void cliff_facts(const ff_plan_set *set, ff_facts *facts) {
    static const char *const names[FF_EXPOSED_COUNT] = {"TP", "pipeline transfers", "CP", "EP",
                                                        "DP"};
    ff_layout *layout = FF_ARENA_NEW(set->arena, ff_layout);
    ff_estimate e;
    ff_candidate_layout(set, &set->best[0], layout);
    ff_evaluate_memory(set->evaluator, layout, &e, NULL);
    ff_evaluate_exactly(set->evaluator, layout, &e);
    double loss_s = e.time.bubble_s;
    const char *loss = "the bubble";
    for (int i = 0; i < FF_EXPOSED_COUNT; i++) {
        if (e.time.exposed_s[i] > loss_s) {
            loss_s = e.time.exposed_s[i];
            loss = names[i];
        }
    }
    ff_facts_open_record(facts, "cliff");
    ff_facts_add_integer(facts, "spare_bytes", e.capacity_bytes - e.peak_bytes);
    ff_facts_add_real(facts, "spare_ratio",
                      (double)(e.capacity_bytes - e.peak_bytes) / (double)e.capacity_bytes);
    ff_facts_add_integer(facts, "stage", e.peak_stage);
    ff_facts_add_text(facts, "loss", "%s", loss);
    ff_facts_add_real(facts, "loss_ratio", loss_s / e.time.step_s);
    ff_facts_close(facts);
}

/* ---- rules of thumb ---- */

/* What rules of thumb say: over the domain, at most 8. */
static int64_t usual_tp(const ff_plan_set *set) {
    int64_t domain = set->job.cluster.domain_devices;
    return domain < 8 ? domain : 8;
}

/* State bytes a parameter, before ZeRO, and the tree of MODEL I: what fits where decides. */
static void decision_tree(const ff_plan_set *set, char *where, size_t bytes) {
    const ff_job *job = &set->job;
    ff_model_count count;
    ff_model_params(&job->model, &count);
    double room = 0.7 * (double)job->cluster.device.memory_bytes;
    double one = 6.0 * (double)count.total; /* ZeRO-1 leaves weights and gradients whole */
    double domain = 18.0 * (double)count.total / (double)job->cluster.devices;
    const char *cp = job->seq >= 32768 ? "cp>1" : "cp=1";
    if (one <= room)
        snprintf(where, bytes, "%s,tp=1,pp=1,zero=1", cp);
    else if (domain <= room &&
             2.0 * (double)count.total / (double)job->cluster.domain_devices <= room)
        snprintf(where, bytes, "%s,pp=1,tp<=%lld,zero=3", cp,
                 (long long)job->cluster.domain_devices);
    else
        snprintf(where, bytes, "%s,tp=%lld,pp>1,zero=1|2", cp, (long long)usual_tp(set));
}

static void baseline_facts(const ff_plan_set *set, const char *name, const char *where,
                           ff_facts *facts) {
    ff_plan_options options = {
        .top = 1, .where = where, .by_formula = set->options.by_formula, .without_reasons = true};
    ff_plan_set *found = NULL;
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "name", "%s", name);
    ff_facts_add_text(facts, "where", "%s", where);
    ff_status status = ff_plan_search(&set->job, &options, NULL, &found);
    if (status == FF_OK) {
        layout_text(found, &found->best[0], "layout", facts);
        ff_facts_add_real(facts, "ratio", found->best[0].s_per_token / set->best[0].s_per_token);
    } else {
        ff_facts_add_null(facts, "layout");
    }
    ff_facts_close(facts);
    ff_plan_free(found);
}

static void baselines_facts(const ff_plan_set *set, ff_facts *facts) {
    char tree[128], gold[128], name[64];
    int64_t tp = usual_tp(set);
    decision_tree(set, tree, sizeof tree);
    snprintf(gold, sizeof gold, "tp=%lld,cp=1,zero=1,zero_group=0,order=0", (long long)tp);
    snprintf(name, sizeof name, "TP %lld x PP x DP, ZeRO-1", (long long)tp);
    ff_facts_open_list(facts, "baselines");
    baseline_facts(set, "decision tree", tree, facts);
    baseline_facts(set, name, gold, facts);
    baseline_facts(set, "ZeRO-3 alone", "tp=1,pp=1,cp=1,zero=3,zero_group=0,zero3_weights=stream",
                   facts);
    ff_facts_close(facts);
}

/* ---- schedules that the stack does not run ---- */

static bool other_schedules(const ff_plan_set *set, char *grid, size_t bytes) {
    size_t used = (size_t)snprintf(grid, bytes, "schedule=");
    const char *before = "";
    for (int kind = FF_SCHEDULE_1F1B; kind < FF_SCHEDULE_COUNT; kind++) {
        if (set->job.profile->schedules & 1u << kind)
            continue;
        used += (size_t)snprintf(grid + used, bytes - used, "%s%s", before,
                                 ff_schedule_name((ff_schedule_kind)kind));
        before = ",";
    }
    return before[0] != '\0';
}

/* Among layouts that divide a layer as the first does. */
static void schedule_facts(const ff_plan_set *set, ff_facts *facts) {
    char where[160], grid[160];
    const int32_t *at = set->best[0].point.value;
    ff_plan_options options = {.top = 1,
                               .where = where,
                               .grid = grid,
                               .by_formula = set->options.by_formula,
                               .without_reasons = true};
    ff_plan_set *found = NULL;
    ff_layout *layout = FF_ARENA_NEW(set->arena, ff_layout);
    if (ff_space_names(&set->space, FF_DIM_SCHEDULE) || !other_schedules(set, grid, sizeof grid))
        return;
    snprintf(where, sizeof where, "tp=%d,cp=%d,ep=%d,etp=%d,zero=%d,pp>1,cp_kind=ring,order=0",
             at[FF_DIM_TP], at[FF_DIM_CP], at[FF_DIM_EP], at[FF_DIM_ETP], at[FF_DIM_ZERO]);
    if (ff_plan_search(&set->job, &options, NULL, &found) == FF_OK) {
        ff_candidate_layout(found, &found->best[0], layout);
        ff_facts_open_record(facts, "other_schedule");
        ff_facts_add_text(facts, "schedule", "%s",
                          ff_schedule_name((ff_schedule_kind)layout->schedule));
        ff_facts_add_text(facts, "profile", "%s", set->job.profile->name);
        layout_text(found, &found->best[0], "layout", facts);
        ff_facts_add_real(facts, "ratio", found->best[0].s_per_token / set->best[0].s_per_token);
        ff_facts_close(facts);
    }
    ff_plan_free(found);
}

void ff_reasons_facts(const ff_plan_set *set, ff_facts *facts) {
    cliff_facts(set, facts);
    sensitivity_facts(set, facts);
    close_facts(set, facts);
    schedule_facts(set, facts);
    baselines_facts(set, facts);
}
