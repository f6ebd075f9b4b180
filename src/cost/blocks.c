/* Times of a block (a layer or an end) in one microbatch, from its operator list.
 *
 * Blocking communication is exposed; what runs beside a GEMM or inside attention is exposed by what
 * it takes longer than its cover, and slows the cover by `overlap_slowdown_ratio` of what is
 * hidden. A ring step runs beside one of the ring's blocks of attention. An eager stack cannot
 * issue a layer faster than `host_s_per_layer`; ends have few operators, behind which it gets ahead
 * (step.c). */
#include "cost/cost.h"

const char *ff_exposure_name(ff_exposure exposure) {
    static const char *const names[FF_EXPOSED_COUNT] = {"tp_s", "pp_s", "cp_s", "ep_s", "dp_s"};
    return names[exposure];
}

ff_exposure ff_exposure_of(ff_axes group) {
    if (group == FF_AXES(FF_AXIS_TP))
        return FF_EXPOSED_TP;
    if (group == FF_AXES(FF_AXIS_CP))
        return FF_EXPOSED_CP;
    if (group == FF_AXES(FF_AXIS_PP))
        return FF_EXPOSED_PP;
    if (group & (FF_AXES(FF_AXIS_EP) | FF_AXES(FF_AXIS_ETP)))
        return FF_EXPOSED_EP;
    return FF_EXPOSED_DP;
}

typedef struct covered {
    double exposed_s, slowdown_s;
} covered;

static covered cover(double communication_s, double cover_s, double slowdown_ratio) {
    double hidden = communication_s < cover_s ? communication_s : cover_s;
    return (covered){communication_s - hidden, hidden * slowdown_ratio};
}

/* What the next operator waits for; a stack may cut an all-gather or a reduce-scatter of TP and its
 * GEMM into slices that overlap, by stores into the peers' memory: inside a domain only. It may also
 * run one microbatch's exchange of rows beside another's compute. */
static covered blocked(const ff_cost *cost, const ff_operator *op, const ff_reach *reach,
                       double seconds) {
    bool sliced =
        op->group == FF_AXES(FF_AXIS_TP) && reach->domains == 1 && op->collective != FF_ALL_REDUCE;
    bool beside = ff_exposure_of(op->group) == FF_EXPOSED_EP && op->collective == FF_ALL_TO_ALL;
    double share = sliced   ? cost->profile->tp_hidden_ratio
                   : beside ? cost->profile->ep_hidden_ratio
                            : 0;
    double hidden = seconds * share;
    return (covered){seconds - hidden, hidden * cost->profile->overlap_slowdown_ratio};
}

/* A token's copies over its experts: one a domain instead of one an expert (MODEL.md C). With
 * uniform routing R(1 - C(E-E/R,q)/C(E,q)) of R domains hold one of its q experts of E. */
static double copies_share(const ff_cost *cost, int64_t domains) {
    const ff_layer_kind *kind = ff_model_moe_kind(cost->model);
    if (kind == NULL || domains < 2)
        return 1;
    double experts = (double)kind->moe.experts, missed = 1;
    double elsewhere = experts - experts / (double)domains;
    for (int64_t i = 0; i < kind->moe.experts_per_token; i++)
        missed *= elsewhere > (double)i ? (elsewhere - (double)i) / (experts - (double)i) : 0;
    double copies = (double)domains * (1 - missed);
    double limit = (double)kind->moe.router_group_limit;
    copies = limit > 0 && copies > limit ? limit : copies;
    double share = copies / (double)kind->moe.experts_per_token;
    return share < 1 ? share : 1;
}

/* A communication operator's share of the block. */
static covered communicate(const ff_cost *cost, ff_dtype dtype, const ff_reaches *reaches,
                           const ff_layer_list *list, const ff_operator *op) {
    ff_reach reach = ff_reach_of_operator(reaches, op);
    double bytes = (double)op->elements * op->element_bytes;
    bool deduplicated = cost->profile->kernels.node_dispatch && op->collective == FF_ALL_TO_ALL &&
                        op->group == FF_AXES(FF_AXIS_EP);
    double once_s = deduplicated
                        ? ff_all_to_all_s(cost, &reach, bytes, copies_share(cost, reach.domains))
                        : ff_collective_s(cost, &reach, op->collective, bytes);
    double calls = (double)op->calls, slowdown = cost->profile->overlap_slowdown_ratio;
    if (op->timing == FF_TIMING_BLOCKS || op->behind < 0)
        return blocked(cost, op, &reach, once_s * calls);
    double cover_s = ff_operator_s(cost, dtype, &list->op[op->behind]);
    if (op->timing == FF_TIMING_IN_OPERATOR) { /* one ring block covers its steps */
        double steps = calls / (double)(op->ranks > 1 ? op->ranks - 1 : 1);
        covered one = cover(once_s * steps, cover_s / (double)op->ranks, slowdown);
        double rounds = (double)(op->ranks - 1);
        return (covered){one.exposed_s * rounds, one.slowdown_s * rounds};
    }
    return cover(once_s * calls, cover_s * cost->profile->tp_overlap_ratio, slowdown);
}

static double alone_s(const ff_cost *cost, const ff_reaches *reaches, const ff_operator *op) {
    ff_reach reach = ff_reach_of_operator(reaches, op);
    double bytes = (double)op->elements * op->element_bytes;
    return (double)op->calls * ff_collective_s(cost, &reach, op->collective, bytes);
}

/* B's communication that a weight gradient would cover. */
static bool loses_cover(const ff_layer_list *list, const ff_operator *op) {
    return op->behind >= 0 && op->phase == FF_PHASE_BACKWARD &&
           list->op[op->behind].phase == FF_PHASE_WEIGHT;
}

ff_operator_time ff_operator_time_of(const ff_cost *cost, ff_dtype dtype, const ff_reaches *reaches,
                                     const ff_layer_list *list, const ff_operator *op, bool split) {
    if (op->kind != FF_OPERATOR_COLLECTIVE)
        return (ff_operator_time){.compute_s = ff_operator_s(cost, dtype, op)};
    double all_s = alone_s(cost, reaches, op);
    if (split && loses_cover(list, op))
        return (ff_operator_time){.exposed_s = all_s};
    covered c = communicate(cost, dtype, reaches, list, op);
    return (ff_operator_time){
        .exposed_s = c.exposed_s, .hidden_s = all_s - c.exposed_s, .slowdown_s = c.slowdown_s};
}

/* Its weight gradient runs in another action. */
static void lose_cover(const ff_cost *cost, const ff_reaches *reaches, const ff_operator *op,
                       const covered *with_cover, ff_block_time *time) {
    time->split_exposed_s[ff_exposure_of(op->group)] +=
        alone_s(cost, reaches, op) - with_cover->exposed_s;
    time->split_saved_s += with_cover->slowdown_s;
}

static void add_operator(const ff_cost *cost, ff_dtype dtype, const ff_reaches *reaches,
                         const ff_layer_list *list, const ff_operator *op, ff_block_time *time) {
    bool forward = op->phase == FF_PHASE_FORWARD;
    double *compute_s = forward ? &time->forward_s : &time->backward_s;
    double *exposed_s = forward ? time->forward_exposed_s : time->backward_exposed_s;
    if (op->kind != FF_OPERATOR_COLLECTIVE) {
        *compute_s += ff_operator_s(cost, dtype, op);
        if (op->phase == FF_PHASE_WEIGHT)
            time->weight_s += ff_operator_s(cost, dtype, op);
        return;
    }
    covered c = communicate(cost, dtype, reaches, list, op);
    exposed_s[ff_exposure_of(op->group)] += c.exposed_s;
    *compute_s += c.slowdown_s;
    if (loses_cover(list, op))
        lose_cover(cost, reaches, op, &c, time);
}

/* The host issues operator by operator: a profile's time is that of a dense layer on one rank, which
 * has 11 forward and 15 backward; collectives, experts and recomputation, issued like forward, add
 * theirs. (Public nanotron sweep: 3.1 ms a layer on one rank, 4.1 to 4.4 with tensor parallelism
 * whatever its size, which adds ten.) */
enum { DENSE_FORWARD = 11, DENSE_BACKWARD = 15 };

typedef struct two_ways {
    double forward_s, backward_s;
} two_ways;

static two_ways host_of(const ff_cost *cost, const ff_layer_list *list) {
    const ff_profile *p = cost->profile;
    double forward_s = p->host_s_per_layer * p->host_forward_ratio / (double)DENSE_FORWARD;
    double backward_s = p->host_s_per_layer * (1 - p->host_forward_ratio) / (double)DENSE_BACKWARD;
    two_ways host = {0, 0};
    for (int i = 0; i < list->operators; i++) {
        ff_phase phase = list->op[i].phase;
        if (list->op[i].fused)
            continue;
        host.forward_s += phase == FF_PHASE_FORWARD ? forward_s : 0;
        host.backward_s += phase == FF_PHASE_FORWARD     ? 0
                           : phase == FF_PHASE_RECOMPUTE ? forward_s
                                                         : backward_s;
    }
    return host;
}

/* What a part leaves of the whole. */
static double left_of(double whole_s, double part_s) {
    return whole_s > part_s ? whole_s - part_s : 0;
}

static bool stays_in_domain(const ff_reaches *reaches, ff_exposure exposure) {
    return (exposure == FF_EXPOSED_TP && reaches->tp.domains == 1) ||
           (exposure == FF_EXPOSED_CP && reaches->cp.domains == 1) ||
           (exposure == FF_EXPOSED_EP && reaches->ep.domains == 1);
}

/* What the host cannot hide goes to compute. All layers' forwards run before their backwards, so
 * what backward has to spare is no help to forward. Calls that cross nodes run under the host as
 * well: with tp 16 on two nodes small layers take what their collectives take, 8 ms of 4.4 of the
 * host (public nanotron sweep). But each of them waits for the slowest of several hosts, which leaves
 * a little of every one exposed. */
static void wait_for_host(const ff_cost *cost, const ff_reaches *reaches, const ff_layer_list *list,
                          ff_block_time *time) {
    two_ways host = host_of(cost, list), device = {time->forward_s, time->backward_s};
    double straggling = cost->physics.straggling_share;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++) {
        double crosses = stays_in_domain(reaches, i) ? 0 : straggling;
        device.forward_s += time->forward_exposed_s[i];
        device.backward_s += time->backward_exposed_s[i];
        time->forward_s += crosses * time->forward_exposed_s[i];
        time->backward_s += crosses * time->backward_exposed_s[i];
    }
    time->forward_s += left_of(host.forward_s, device.forward_s);
    time->backward_wait_s = left_of(host.backward_s, device.backward_s);
    time->backward_s += time->backward_wait_s;
}

void ff_block_time_of(const ff_cost *cost, ff_dtype dtype, const ff_reaches *reaches,
                      const ff_layer_list *list, bool is_layer, ff_block_time *time) {
    *time = (ff_block_time){0};
    for (int i = 0; i < list->operators; i++)
        add_operator(cost, dtype, reaches, list, &list->op[i], time);
    if (is_layer)
        wait_for_host(cost, reaches, list, time);
}

void ff_time_blocks_build(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                          ff_time_blocks *blocks) {
    ff_dtype dtype = ff_recipe_describe(layout->recipe)->compute;
    ff_dtype wide = ff_dtype_of_ends(dtype);
    ff_program_options options = {cost->seq, cost->profile->kernels, cost->imbalance};
    ff_layer_list list;
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        ff_layer_shape shape = ff_program_layer_shape(layout, &options, recomputed == 1);
        for (int kind = 0; kind < cost->model->kinds; kind++) {
            ff_layer_build(cost->model, kind, &shape, &list);
            ff_block_time_of(cost, dtype, reaches, &list, true, &blocks->layer[kind][recomputed]);
        }
    }
    ff_layer_shape shape = ff_program_layer_shape(layout, &options, false);
    ff_embedding_build(cost->model, &shape, &list);
    ff_block_time_of(cost, wide, reaches, &list, false, &blocks->embedding);
    ff_head_build(cost->model, &shape, &list);
    ff_block_time_of(cost, wide, reaches, &list, false, &blocks->head);
    ff_mtp_build(cost->model, &shape, &list);
    ff_block_time_of(cost, wide, reaches, &list, false, &blocks->mtp);
}
