/* Questions and answers: plan, check, explain, show. Each fills a facts tree (facts.h) that
 * `output/` renders; findings go to the diagnostics list. No file, no clock, no printing. */
#ifndef FIVEFOLD_PLAN_H
#define FIVEFOLD_PLAN_H

#include "fivefold/cluster.h"
#include "fivefold/diagnostics.h"
#include "fivefold/facts.h"
#include "fivefold/layout.h"
#include "fivefold/model.h"

typedef enum ff_ledger_choice {
    FF_LEDGER_FULL,
    FF_LEDGER_LESSON, /* the coarse ledger of the lesson (docs/model.md H) */
} ff_ledger_choice;

typedef struct ff_profile ff_profile; /* constants of a software stack; cost/profile.h */

/* What is asked about. Plain values; the profile is borrowed. */
typedef struct ff_job {
    ff_model model;
    ff_cluster cluster;
    const ff_profile *profile;
    int64_t seq;        /* tokens */
    int64_t gbs_tokens; /* target batch; 0 = not given */
    bool gbs_exact;     /* a batch that no layout reaches exactly is an error */
    bool recipe_given;  /* --recipe: every layout uses it */
    ff_recipe recipe;
    double imbalance;     /* tokens of the busiest expert rank over the mean; 1 = even */
    int64_t margin_bytes; /* below this much room a fit is tight; 0 = 5% or 3 GiB, the larger */
    ff_ledger_choice ledger;
} ff_job;

/* Every layout fills the cluster; for the fewest devices see ff_plan_extreme. */
typedef enum ff_objective { FF_OBJECTIVE_TOKENS, FF_OBJECTIVE_MEMORY } ff_objective;

typedef struct ff_plan_options {
    int top;           /* plans to keep; 0 = all */
    const char *where; /* "tp=8,pp<=16,zero!=3,cp=1|2"; NULL = everything */
    const char *grid;  /* "tp=1,2,4 pp=1,2": choices of a dimension; NULL = every divisor */
    double near_ratio; /* among plans within it of the best prefer the fewest dimensions; 0 = off */
    ff_objective objective;
    bool no_prune;   /* look at every layout, also where a bound shows that it cannot be kept */
    bool by_formula; /* rank by the closed forms alone; else the best are run (docs/model.md G) */
    bool pareto;     /* also what none beats in time, memory and devices at once */
    bool without_reasons; /* only the plans: no sensitivity, no baselines */
    int share, shares; /* only the share-th (from 1) of so many parts of the space; 0 = all of it */
} ff_plan_options;

typedef struct ff_plan_set ff_plan_set;
/* Searches. *set is NULL when the status is FF_INVALID; with FF_NO it says why nothing fits. */
FF_API ff_status ff_plan_search(const ff_job *job, const ff_plan_options *options,
                                ff_diagnostics *findings, ff_plan_set **set);
FF_API void ff_plan_free(ff_plan_set *set);
FF_API void ff_plan_facts(const ff_plan_set *set, double elapsed_s, ff_facts *facts);

/* What if: the extreme value of one quantity with which something still fits. `changed` is the job
 * with that value, to be planned as any other. */
typedef enum ff_extreme {
    FF_EXTREME_SEQ,
    FF_EXTREME_MBS,
    FF_EXTREME_PARAMS, /* by layers */
    FF_EXTREME_NODES,
} ff_extreme;
FF_API ff_status ff_plan_extreme(const ff_job *job, const ff_plan_options *options,
                                 ff_extreme extreme, ff_diagnostics *findings, ff_job *changed,
                                 int64_t *value);
/* "longest sequence, tokens" */
FF_API const char *ff_extreme_words(ff_extreme extreme);

/* Judges one layout: FF_OK when it is legal and fits, FF_NO when not, FF_INVALID when the layout
 * cannot be read. The facts hold legal, verdict, fits, findings (also when `findings` is NULL) and the
 * estimate, null when illegal. */
FF_API ff_status ff_check(const ff_job *job, const char *layout, ff_diagnostics *findings,
                          ff_facts *facts);

/* Explains a layout on a topic ("" = the panorama); the topics are listed in a table. */
FF_API ff_status ff_explain(const ff_job *job, const char *layout, const char *topic,
                            ff_diagnostics *findings, ff_facts *facts);
/* Formula, values and dividing axes of a field of the JSON output. */
FF_API ff_status ff_explain_field(const ff_job *job, const char *layout, const char *field,
                                  ff_diagnostics *findings, ff_facts *facts);
/* What a diagnostic's code means. */
FF_API ff_status ff_explain_code(const char *code, ff_diagnostics *findings, ff_facts *facts);
/* Topic names and what each explains, in order; NULL past the end. */
typedef struct ff_topic_help {
    const char *name, *about;
} ff_topic_help;
FF_API const ff_topic_help *ff_explain_topic(int index);

/* Simulates a step of one layout. The facts hold step_s, stages, critical_path, counts, events and a
 * drawing `columns` wide. */
typedef struct ff_observer ff_observer; /* watches the simulation; simulate/simulate.h */
typedef struct ff_simulate_options {
    bool by_operator;  /* every operator is a piece, not a whole chunk */
    const char *ranks; /* "4" (the first four) or "0,8,16"; NULL: one a stage */
    int columns;
    const ff_observer *observer; /* of the timelines of `ranks`; may be NULL */
} ff_simulate_options;
FF_API ff_status ff_simulate(const ff_job *job, const char *layout,
                             const ff_simulate_options *options, ff_diagnostics *findings,
                             ff_facts *facts);

/* Facts of one thing, for `show`. */
FF_API void ff_show_model(const ff_model *model, ff_facts *facts);
FF_API void ff_show_cluster(const ff_cluster *cluster, ff_facts *facts);
FF_API void ff_show_rules(ff_facts *facts);
FF_API ff_status ff_show_rule(const char *code, ff_diagnostics *findings, ff_facts *facts);
/* `settings` is a layout string ("pp=4,vpp=2,microbatches=8"; blanks separate too). */
FF_API ff_status ff_show_schedule(const char *schedule, const char *settings, int columns,
                                  ff_diagnostics *findings, ff_facts *facts);
/* Lists of presets: "models", "clusters", "devices", "profiles". */
FF_API ff_status ff_show_list(const char *what, ff_diagnostics *findings, ff_facts *facts);
FF_API ff_status ff_show_device(const char *id, ff_diagnostics *findings, ff_facts *facts);
FF_API ff_status ff_show_profile(const char *name, ff_diagnostics *findings, ff_facts *facts);

#endif
