/* Time of collectives over the cluster's tiers (docs/model.md E).
 *
 *     n ranks, g in each of R = n/g domains; bytes of the full tensor (all-to-all: of one rank)
 *     ring             (n-R) a_in + (R-1) a_out + (n-1)/n bytes / B,   B = min(B_in, g B_net)
 *     all-reduce       twice the ring; or a tree; or in the switch inside one domain
 *     hierarchical     all-gather and reduce-scatter: fewer steps, no fewer bytes
 *     all-to-all       max((g-1)/n bytes/B_in, (n-g)/n bytes/B_net) and log-many steps
 *
 * All groups of a kind run at once: a device's share of the NICs (and of the spine) is what the
 * tiers say. The best algorithm is taken, as libraries do. A message ramps up: `ramp_bytes` more at
 * full rate. Small groups inside a domain reach less of the link: 1 - loss/n^2. */
#include "cost/cost.h"

#include <math.h>

static ff_reach reach_along(const ff_mesh *mesh, const ff_cluster *cluster, ff_axes axes) {
    ff_span domain = ff_mesh_span(mesh, axes, cluster->domain_devices);
    ff_span pod = ff_mesh_span(mesh, axes, cluster->tier[FF_TIER_NETWORK].devices);
    return (ff_reach){domain.n, domain.inside, domain.units, pod.units};
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
    return (ff_reach){op->ranks, inside, domains, reach.pods < domains ? reach.pods : domains};
}

static const ff_tier *outer_tier(const ff_cluster *cluster, const ff_reach *reach) {
    return &cluster->tier[reach->pods > 1 ? FF_TIER_SPINE : FF_TIER_NETWORK];
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

/* Rates as the stack reaches them; a share of 0 is one that was not set. */
static double network_Bps(const ff_cost *cost, const ff_tier *tier) {
    double share = cost->profile->network_rate_ratio;
    return tier->Bps * (share > 0 ? share : 1);
}

static double domain_Bps(const ff_cost *cost) {
    double share = cost->profile->link_rate_ratio;
    return cost->cluster->tier[FF_TIER_DOMAIN].Bps * (share > 0 ? share : 1);
}

/* Link rate of a rank inside its domain, for a group with `inside` ranks there. Without a switch a
 * rank reaches one peer over one link of the mesh: the share is what `inside-1` peers offer. */
static double link_Bps(const ff_cost *cost, const ff_reach *reach) {
    const ff_device *device = &cost->cluster->device;
    double inside = (double)reach->inside, full = domain_Bps(cost);
    double peers = (double)(cost->cluster->domain_devices - 1);
    if (!device->link_switch && inside < peers + 1 && peers > 0)
        return full * (inside - 1) / peers;
    return full * (1 - cost->physics.small_group_loss / (inside * inside));
}

/* A ring is as fast as its slowest link: between domains `inside` ranks share what their adapters
 * offer. */
static double ring_Bps(const ff_cost *cost, const ff_reach *reach) {
    if (reach->domains <= 1)
        return link_Bps(cost, reach);
    double outer = (double)reach->inside * network_Bps(cost, outer_tier(cost->cluster, reach));
    return reach->inside > 1 ? smaller(link_Bps(cost, reach), outer) : outer;
}

static double ramp_bytes(const ff_cost *cost, const ff_reach *reach) {
    return reach->domains <= 1 ? cost->physics.link_ramp_bytes : cost->physics.network_ramp_bytes;
}

/* Bytes that take as long at full rate: a message of `ramp` bytes reaches half of it. */
static double ramped(double bytes, double ramp) {
    return ramp > 0 ? bytes + ramp * bytes / (bytes + ramp) : bytes;
}

/* One pass of a ring over the full tensor: an all-gather or a reduce-scatter. */
static double ring_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    const ff_tier *inner = &cost->cluster->tier[FF_TIER_DOMAIN];
    const ff_tier *outer = outer_tier(cost->cluster, reach);
    double n = (double)reach->ranks, domains = (double)reach->domains;
    double steps_s = (n - domains) * inner->latency_s + (domains - 1) * outer->latency_s;
    if (domains > 1)
        steps_s = larger(steps_s, (n - 1) * outer->ring_step_s);
    return steps_s + ramped((n - 1) / n * bytes, ramp_bytes(cost, reach)) / ring_Bps(cost, reach);
}

/* Gather inside each domain and between domains apart: fewer steps over the slow tier. */
static double hierarchical_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    const ff_tier *inner = &cost->cluster->tier[FF_TIER_DOMAIN];
    const ff_tier *outer = outer_tier(cost->cluster, reach);
    double g = (double)reach->inside, domains = (double)reach->domains;
    double inside_s = (g - 1) * inner->latency_s + (g - 1) / g * bytes / link_Bps(cost, reach);
    double crossing = ramped((domains - 1) / domains * bytes, cost->physics.network_ramp_bytes);
    double steps_s =
        larger((domains - 1) * outer->latency_s, ((double)reach->ranks - 1) * outer->ring_step_s);
    return inside_s + steps_s + crossing / (g * network_Bps(cost, outer));
}

static double gather_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    double s = ring_s(cost, reach, bytes);
    if (reach->domains > 1 && reach->inside > 1)
        s = smaller(s, hierarchical_s(cost, reach, bytes));
    return s;
}

static double tree_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    const ff_tier *inner = &cost->cluster->tier[FF_TIER_DOMAIN];
    const ff_tier *outer = outer_tier(cost->cluster, reach);
    double steps_s = 2 * ((double)(reach->inside - 1) * inner->latency_s +
                          log2((double)reach->domains) * outer->latency_s);
    return steps_s + ramped(2 * bytes, ramp_bytes(cost, reach)) / ring_Bps(cost, reach);
}

static double all_reduce_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    double s = 2 * gather_s(cost, reach, bytes);
    s = smaller(s, tree_s(cost, reach, bytes));
    if (reach->domains == 1 && cost->cluster->device.in_switch_reduction && reach->ranks > 2) {
        const ff_tier *inner = &cost->cluster->tier[FF_TIER_DOMAIN];
        double rate = domain_Bps(cost) * cost->physics.in_switch_ratio;
        s = smaller(s, 4 * inner->latency_s + ramped(bytes, cost->physics.link_ramp_bytes) / rate);
    }
    return s;
}

static double all_to_all_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    const ff_tier *inner = &cost->cluster->tier[FF_TIER_DOMAIN];
    const ff_tier *outer = outer_tier(cost->cluster, reach);
    double n = (double)reach->ranks, g = (double)reach->inside;
    double steps_s = log2(g) * inner->latency_s + log2((double)reach->domains) * outer->latency_s;
    double inside = ramped((g - 1) / n * bytes, cost->physics.link_ramp_bytes);
    double between = ramped((n - g) / n * bytes, cost->physics.network_ramp_bytes);
    double inside_s = g > 1 ? inside / link_Bps(cost, reach) : 0;
    double between_s = reach->domains > 1 ? between / network_Bps(cost, outer) : 0;
    return steps_s + (inside_s > between_s ? inside_s : between_s);
}

/* A message to a neighbour; between domains it has one adapter, shared with the flows of the node's
 * other groups that cross at the same time. */
static double send_s(const ff_cost *cost, const ff_reach *reach, double bytes) {
    const ff_cluster *cluster = cost->cluster;
    if (reach->domains <= 1)
        return cluster->tier[FF_TIER_DOMAIN].latency_s + bytes / link_Bps(cost, reach);
    const ff_tier *outer = outer_tier(cluster, reach);
    double adapter = smaller(cluster->nic_Bps, (double)reach->inside * network_Bps(cost, outer));
    return outer->latency_s + bytes / (adapter > 0 ? adapter : network_Bps(cost, outer));
}

double ff_collective_s(const ff_cost *cost, const ff_reach *reach, ff_collective collective,
                       double bytes) {
    if (reach->ranks <= 1 || bytes <= 0)
        return 0;
    switch (collective) {
    case FF_ALL_REDUCE:
        return all_reduce_s(cost, reach, bytes);
    case FF_ALL_TO_ALL:
        return all_to_all_s(cost, reach, bytes);
    case FF_SEND_RECEIVE:
        return send_s(cost, reach, bytes);
    default:
        return gather_s(cost, reach, bytes);
    }
}
