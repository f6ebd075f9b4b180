/* Time of collectives over the cluster's tiers (MODEL.md E), with the constants of the device's
 * curve (physics.h, data/kernels/collectives.yaml).
 *
 *     n ranks, g in each of R = n/g domains; bytes of the full tensor (all-to-all: of one rank)
 *     ring             fixed + (n-R) a_in + (R-1) a_out + piped((n-1)/n bytes / min(B_in, g B_net))
 *     all-reduce       the ring twice; or two trees over the domains; or in the switch
 *     all-to-all       piped(max((g-1)/n bytes / B_in, (n-g)/n bytes / B_net)) and log-many steps
 *     send             fixed + a + piped(bytes / B), between domains over one adapter
 *
 *     piped(x) = x + 2 sqrt(chunk x)     a pipeline with the best chunk size: half of the rate is
 *                                        reached where x = 4 chunk
 *     B_in     = B (1 - loss/n)          a small group copies a larger part of its own
 *
 * All groups of a kind run at once: a device's share of the NICs (and of the spine) is what the
 * tiers say. The best algorithm is taken, as libraries do. */
#include "cost/cost.h"

#include <math.h>

static ff_reach reach_along(const ff_mesh *mesh, const ff_cluster *cluster, ff_axes axes) {
    ff_span domain = ff_mesh_span(mesh, axes, cluster->domain_devices);
    ff_span pod = ff_mesh_span(mesh, axes, cluster->tier[FF_TIER_NETWORK].devices);
    return (ff_reach){domain.n, domain.inside, domain.units, pod.units, 0};
}

void ff_reaches_of(const ff_mesh *mesh, const ff_cluster *cluster, ff_reaches *r) {
    ff_axes tp = FF_AXES(FF_AXIS_TP), cp = FF_AXES(FF_AXIS_CP), dp = FF_AXES(FF_AXIS_DP),
            pp = FF_AXES(FF_AXIS_PP), ep = FF_AXES(FF_AXIS_EP), etp = FF_AXES(FF_AXIS_ETP);
    r->tp = reach_along(mesh, cluster, tp);
    r->cp = reach_along(mesh, cluster, cp);
    r->dp_cp = reach_along(mesh, cluster, dp | cp);
    r->pp = reach_along(mesh, cluster, pp);
    r->ep = reach_along(mesh, cluster, ep);
    r->etp = reach_along(mesh, cluster, etp);
    r->expert = reach_along(mesh, cluster, ep | etp);
    r->edp = reach_along(mesh, cluster, FF_AXES(FF_AXIS_EDP));
    r->world = reach_along(mesh, cluster, tp | cp | dp | pp);
}

static const ff_reach *reach_of_axes(const ff_reaches *r, ff_axes group) {
    if (group == FF_AXES(FF_AXIS_TP))
        return &r->tp;
    if (group == FF_AXES(FF_AXIS_CP))
        return &r->cp;
    if (group == FF_AXES(FF_AXIS_PP))
        return &r->pp;
    if (group == FF_AXES(FF_AXIS_EP))
        return &r->ep;
    if (group == FF_AXES(FF_AXIS_ETP))
        return &r->etp;
    if (group == FF_AXES(FF_AXIS_EDP))
        return &r->edp;
    if (group == (FF_AXES(FF_AXIS_EP) | FF_AXES(FF_AXIS_ETP)))
        return &r->expert;
    if (group == (FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_CP)))
        return &r->dp_cp;
    return &r->world;
}

static int64_t at_least_1(int64_t value) {
    return value < 1 ? 1 : value;
}

/* A part of a group: neighbours lie as densely as the group does; an outer part skips them. */
ff_reach ff_reach_of_operator(const ff_reaches *reaches, const ff_operator *op) {
    ff_reach reach = *reach_of_axes(reaches, op->group);
    if (op->ranks >= reach.ranks || op->ranks <= 0)
        return reach;
    int64_t stride = op->outer ? reach.ranks / op->ranks : 1;
    int64_t inside = at_least_1(reach.inside / stride);
    inside = inside < op->ranks ? inside : op->ranks;
    int64_t domains = (op->ranks + inside - 1) / inside;
    return (ff_reach){op->ranks, inside, domains, reach.pods < domains ? reach.pods : domains, 0};
}

ff_reach ff_reach_of_sync(const ff_cost *cost, const ff_layout *layout, const ff_reaches *reaches,
                          const ff_operator *op) {
    ff_reach reach = ff_reach_of_operator(reaches, op);
    bool replicas = (op->group & (FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_EDP))) != 0;
    reach.narrow = layout->zero == 3 && replicas && cost->profile->kernels.narrow_gathers;
    return reach;
}

static const ff_tier *outer_tier(const ff_cluster *cluster, const ff_reach *reach) {
    return &cluster->tier[reach->pods > 1 ? FF_TIER_SPINE : FF_TIER_NETWORK];
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* A stack may reach less than the benchmarks do. */
static double network_Bps(const ff_cost *cost, const ff_tier *tier) {
    double share = cost->profile->network_rate_ratio;
    return tier->Bps * (share > 0 ? share : 1);
}

static double domain_Bps(const ff_cost *cost) {
    double share = cost->profile->link_rate_ratio;
    return cost->cluster->tier[FF_TIER_DOMAIN].Bps * (share > 0 ? share : 1);
}

/* Rate at which a group's ranks send inside their domain, before what its size loses. Without a
 * switch a rank reaches each peer over the mesh's own link: `inside-1` peers offer that share. Cards
 * on one bus without peer access get in each other's way. */
static double link_Bps(const ff_cost *cost, const ff_reach *reach) {
    const ff_collective_curve *curve = &cost->physics.collective;
    double inside = (double)reach->inside, full = domain_Bps(cost);
    double peers = (double)(cost->cluster->domain_devices - 1);
    if (!cost->cluster->device.link_switch && inside < peers + 1 && peers > 0)
        return full * (inside - 1) / peers;
    if (curve->crowding > 0)
        full *= pow((peers + 1) / inside, curve->crowding);
    return full * curve->link_ratio;
}

static double sized(double rate, double loss, double inside) {
    return rate * (1 - loss / inside);
}

/* A transfer in chunks that follow each other through a pipeline of ranks: with the best chunk size
 * the fill costs 2 sqrt(a chunk's overhead * transfer). */
static double piped(double transfer_s, double chunk_s) {
    return transfer_s + 2 * sqrt(chunk_s * transfer_s);
}

/* What every algorithm needs to know about a group. */
typedef struct group {
    double n, inside, domains;
    double step_in_s, step_out_s, fixed_s, chunk_s;
    double ring_step_s; /* every step of a ring that crosses; 0 = hops run side by side */
    double rings;       /* of a domain, which share its adapters */
    double turn_bytes;  /* what they move together in one turn */
    double link_Bps;    /* of a rank inside */
    double network_Bps; /* of a rank between domains, all ranks sending */
} group;

/* What a rank sends between domains while all do; with one adapter they share that one's rate. */
static double crossing_Bps(const ff_cost *cost, const ff_reach *reach, const ff_tier *outer) {
    double all = network_Bps(cost, outer);
    double adapter = cost->cluster->nic_Bps / (double)reach->inside;
    return reach->narrow == 1 && adapter > 0 ? smaller(all, adapter) : all;
}

static group group_of(const ff_cost *cost, const ff_reach *reach) {
    const ff_collective_curve *curve = &cost->physics.collective;
    const ff_tier *outer = outer_tier(cost->cluster, reach);
    bool crosses = reach->domains > 1;
    return (group){
        .n = (double)reach->ranks,
        .inside = (double)reach->inside,
        .domains = (double)reach->domains,
        .step_in_s = cost->cluster->tier[FF_TIER_DOMAIN].latency_s,
        .step_out_s = outer->latency_s,
        .fixed_s = curve->fixed_s,
        .chunk_s = crosses ? curve->network_chunk_steps * outer->latency_s : curve->chunk_s,
        .link_Bps = reach->inside > 1 ? link_Bps(cost, reach) : INFINITY,
        .network_Bps = crosses ? crossing_Bps(cost, reach, outer) : INFINITY,
        .ring_step_s = crosses ? outer->ring_step_s : 0,
        .rings = (double)at_least_1(cost->cluster->domain_devices / reach->inside),
        .turn_bytes = outer->ring_turn_bytes,
    };
}

/* Where every step of a ring waits for the network, that wait is the chunks' overhead too: time is
 * the steps' plus bytes over the rate, from 16 MB to 1 GB (public sweep, 16 and 32 ranks on EFA). */
static double ring_chunk_s(const group *g) {
    return g->ring_step_s > 0 ? 0 : g->chunk_s;
}

/* Steps that wait: one turn of the ring, however little it moves, and one more for every share of the
 * adapters' buffers that the rings of a domain fill together. */
static double waiting_s(const group *g, double bytes) {
    double turns = g->turn_bytes > 0 ? bytes * g->rings / g->turn_bytes : 1;
    return (g->n - 1) * g->ring_step_s * larger(turns, 1);
}

/* A ring is as fast as its slowest link: between domains `inside` ranks share what their adapters
 * offer. `passes` is 1 for an all-gather or reduce-scatter, 2 for an all-reduce. */
static double ring_s(const group *g, double loss, double passes, double bytes) {
    double rate = smaller(sized(g->link_Bps, loss, g->inside), g->inside * g->network_Bps);
    double steps_s = (g->n - g->domains) * g->step_in_s + (g->domains - 1) * g->step_out_s;
    steps_s = larger(steps_s, waiting_s(g, bytes));
    return g->fixed_s + passes * steps_s +
           piped(passes * (g->n - 1) / g->n * bytes / rate, ring_chunk_s(g));
}

static double gather_s(const ff_cost *cost, const group *g, double bytes) {
    const ff_collective_curve *curve = &cost->physics.collective;
    return ring_s(g, curve->group_loss, 1, bytes);
}

/* Bytes of the tensor that cross between domains in a pair of trees: once there and once back, of
 * two domains each half. */
static double tree_crossing(const group *g) {
    return g->domains > 2 ? 2 : 1;
}

/* Two trees over the domains, a chain inside each; the tiers work at the same time. */
static double tree_s(const group *g, double loss, double bytes) {
    double rate = sized(g->link_Bps, loss, g->inside);
    double steps_s = 2 * ((g->inside - 1) * g->step_in_s + ceil(log2(g->domains)) * g->step_out_s);
    double inside_s = 2 * (g->inside - 1) / g->inside * bytes / rate;
    double between_s = tree_crossing(g) * bytes / (g->inside * g->network_Bps);
    return g->fixed_s + steps_s + piped(larger(inside_s, between_s), g->chunk_s);
}

/* The domain's switch adds; between domains the trees go on. */
static double in_switch_s(const ff_cost *cost, const group *g, double bytes) {
    const ff_collective_curve *curve = &cost->physics.collective;
    double rate = domain_Bps(cost) * curve->in_switch_ratio;
    double steps_s = 2 * ceil(log2(g->domains)) * g->step_out_s;
    double between_s = tree_crossing(g) * bytes / (g->inside * g->network_Bps);
    double chunk_s = g->domains > 1 ? g->chunk_s : 0;
    return curve->in_switch_fixed_s + steps_s +
           piped(larger(bytes / rate, between_s), larger(curve->in_switch_chunk_s, chunk_s));
}

enum { LEAST_IN_SWITCH = 5 }; /* below, libraries keep to rings */

static double all_reduce_s(const ff_cost *cost, const group *g, double bytes) {
    const ff_collective_curve *curve = &cost->physics.collective;
    double loss = curve->all_reduce_loss;
    double s = smaller(ring_s(g, loss, 2, bytes), tree_s(g, loss, bytes));
    if (cost->cluster->device.in_switch_reduction && curve->in_switch_ratio > 0 &&
        g->inside >= LEAST_IN_SWITCH)
        s = smaller(s, in_switch_s(cost, g, bytes));
    return s;
}

/* Every rank sends to every other at once; the tiers work at the same time. `share` of the bytes
 * between domains is sent once and spread inside the receiving one. */
double ff_all_to_all_s(const ff_cost *cost, const ff_reach *reach, double bytes, double share) {
    const ff_collective_curve *curve = &cost->physics.collective;
    group g = group_of(cost, reach);
    double rate = sized(g.link_Bps * curve->all_to_all_ratio, curve->all_to_all_loss, g.inside);
    double steps_s = log2(g.inside) * g.step_in_s + log2(g.domains) * g.step_out_s;
    double inside_s = (g.inside - 1) / g.n * bytes / rate;
    double between_s = (g.n - g.inside) / g.n * bytes * share / g.network_Bps;
    return curve->all_to_all_fixed_s + steps_s + piped(larger(inside_s, between_s), g.chunk_s);
}

/* A message to a neighbour; between domains it has one adapter, shared with the flows of the node's
 * other groups that cross at the same time. */
static double send_s(const ff_cost *cost, const group *g, double bytes) {
    const ff_collective_curve *curve = &cost->physics.collective;
    if (g->domains <= 1)
        return curve->send_fixed_s + g->step_in_s + piped(bytes / g->link_Bps, curve->send_chunk_s);
    double adapter = smaller(cost->cluster->nic_Bps, g->inside * g->network_Bps);
    return curve->send_fixed_s + g->step_out_s +
           piped(bytes / (adapter > 0 ? adapter : g->network_Bps), curve->send_chunk_s);
}

double ff_collective_s(const ff_cost *cost, const ff_reach *reach, ff_collective collective,
                       double bytes) {
    if (reach->ranks <= 1 || bytes <= 0)
        return 0;
    group g = group_of(cost, reach);
    switch (collective) {
    case FF_ALL_REDUCE:
        return all_reduce_s(cost, &g, bytes);
    case FF_ALL_TO_ALL:
        return ff_all_to_all_s(cost, reach, bytes, 1);
    case FF_SEND_RECEIVE:
        return send_s(cost, &g, bytes);
    default:
        return gather_s(cost, &g, bytes);
    }
}

/* Rings that turn slowly take the next call along; trees start anew. */
double ff_collectives_s(const ff_cost *cost, const ff_reach *reach, ff_collective collective,
                        double bytes, double calls) {
    bool turns = reach->domains > 1 && outer_tier(cost->cluster, reach)->ring_step_s > 0;
    calls = turns && collective != FF_ALL_REDUCE ? 1 : calls;
    return calls * ff_collective_s(cost, reach, collective, bytes / calls);
}
