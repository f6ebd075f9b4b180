/* fivefold: which 5D-parallel layout should I launch for this model on this cluster, will it fit, how
 * fast will it be, and why?
 *
 * Five dimensions spread a training step over devices: data (dp) splits the batch, tensor with
 * sequence (tp, sp) the hidden dimension, pipeline (pp) the layers, context (cp) the sequence, expert
 * (ep) the experts; ZeRO-1, 2, 3 shard optimizer state, gradients and weights along the data axis.
 *
 * The one idea: a training step is a program. For a model, a layout and a rank there is one list of
 * things that the rank does: compute, communicate, keep, free.
 *
 *     model.h    what is trained: layers, tensors, exact counts, FLOP
 *     cluster.h  on what: devices, links, tiers
 *     mesh.h     ranks, coordinates, groups
 *     layout.h   how the step is spread: one line, parsed and printed
 *     layer.h    what a layer does once it is sharded: operators, saved tensors, collectives
 *     schedule.h in which order a pipeline stage works
 *     program.h  all of it for one rank: a list to walk, and its counts
 *     memory.h   the ledger: bytes by stage and category
 *     plan.h     questions: plan, check, explain, show
 *     inputs.h   models and clusters from names and texts
 *     facts.h    answers, as trees of named values
 *
 * A plan in a dozen lines:
 *
 *     ff_diagnostics *findings = ff_diagnostics_create();
 *     ff_model model;
 *     ff_cluster cluster;
 *     ff_job job;
 *     ff_plan_options options = {.top = 3};
 *     ff_plan_set *set;
 *     ff_model_named("llama-3.1-70b", findings, &model);
 *     ff_cluster_named("16x8xh100-80gb-sxm", findings, &cluster);
 *     ff_profile *profile = ff_profile_load(NULL, &cluster, findings);
 *     ff_job_init(&job, &model, &cluster, profile);
 *     job.seq = 4096;
 *     job.gbs_tokens = 4000000;
 *     if (ff_plan_search(&job, &options, findings, &set) == FF_OK) { ... ff_plan_facts(set, ...) }
 *
 * Rules that hold everywhere. Sizes carry their unit in the name; counts and bytes are int64_t and
 * saturate instead of overflowing; times are seconds in double. Values (layout, model, cluster) are
 * plain structs that can be copied; things (a plan set, a program) are made by _create, _load or
 * _search and freed by _free. Functions return ff_status; what is wrong goes to a diagnostics list.
 * The library never prints, never exits on a user's error, reads no file and no clock, starts no
 * thread; two threads may use it at once on different objects. */
#ifndef FIVEFOLD_FIVEFOLD_H
#define FIVEFOLD_FIVEFOLD_H

#include "fivefold/cluster.h"
#include "fivefold/diagnostics.h"
#include "fivefold/facts.h"
#include "fivefold/inputs.h"
#include "fivefold/layer.h"
#include "fivefold/layout.h"
#include "fivefold/memory.h"
#include "fivefold/mesh.h"
#include "fivefold/model.h"
#include "fivefold/plan.h"
#include "fivefold/program.h"
#include "fivefold/schedule.h"
#include "fivefold/status.h"
#include "fivefold/version.h"

#endif
