/* Parts -> cluster: sizes are checked against each other and the three tiers are built.
 *
 *     domain    link bandwidth of one device                          domain_devices
 *     network   nics_per_node * nic * usable / devices_per_node       pod_devices
 *     spine     network / oversubscription                            all devices
 *
 * A bandwidth is one device's share when all of them send: fewer senders on a node may use more
 * (nics_per_node and nic_Bps say how much).
 * Invariants of what is accepted: 1 <= devices <= 2^20; the domain is a multiple or a divisor of
 * the node and no larger than the cluster; a pod is made of whole nodes and domains; usable <=
 * wire. */
#include "cluster/parts.h"

#include "base/number.h"
#include "base/text.h"
#include <stdio.h>

const char *ff_tier_id_name(ff_tier_id tier) {
    static const char *const names[FF_TIER_COUNT] = {
        [FF_TIER_DOMAIN] = "domain", [FF_TIER_NETWORK] = "network", [FF_TIER_SPINE] = "spine"};
    return names[tier];
}

static bool count_devices(const cluster_parts *parts, ff_diagnostics *findings,
                          ff_cluster *cluster) {
    if (parts->nodes < 1 || parts->devices_per_node < 1) {
        bool node = parts->nodes < 1;
        ff_report(findings, FF0306, node ? parts->nodes_where : parts->node_size_where,
                  "a cluster of %s has nothing to train on",
                  node ? "0 nodes" : "nodes of 0 devices");
        ff_report_help(findings, "give at least 1");
        return false;
    }
    cluster->devices = ff_mul(parts->nodes, parts->devices_per_node);
    if (cluster->devices <= MOST_DEVICES)
        return true;
    ff_report(findings, FF0304, parts->nodes_where,
              "%lld nodes of %lld devices are more than %d devices", (long long)parts->nodes,
              (long long)parts->devices_per_node, MOST_DEVICES);
    if (parts->devices_per_node <= MOST_DEVICES)
        ff_report_help(findings, "largest with such nodes: %lld nodes",
                       (long long)(MOST_DEVICES / parts->devices_per_node));
    return false;
}

/* The largest divisor of the node that the link can join. */
static int64_t largest_divisor(int64_t node, int64_t most) {
    int64_t divisor = ff_min(node, most);
    while (node % divisor != 0)
        divisor--;
    return divisor;
}

/* The link's usual domain, cut to this cluster: within a node, or whole nodes of a rack. */
static int64_t usual_domain(const cluster_parts *parts, int64_t usual, int64_t devices) {
    int64_t node = parts->devices_per_node;
    bool joins_nodes = usual > parts->device.node_devices;
    if (!joins_nodes || node >= usual)
        return largest_divisor(node, usual);
    return ff_min(devices, usual / node * node);
}

static bool domain_is_legal(const cluster_parts *parts, int64_t devices, ff_diagnostics *findings) {
    int64_t domain = parts->domain_devices, node = parts->devices_per_node;
    if (domain > devices) {
        ff_report(findings, FF0306, parts->domain_where,
                  "a domain of %lld devices does not exist in a cluster of %lld", (long long)domain,
                  (long long)devices);
        ff_report_help(findings, "at most domain_devices: %lld", (long long)devices);
        return false;
    }
    if (domain % node == 0 || node % domain == 0)
        return true;
    int64_t below = domain > node ? domain / node * node : largest_divisor(node, domain);
    ff_report(findings, FF0306, parts->domain_where,
              "a domain of %lld devices is neither whole nodes of %lld nor a part of one",
              (long long)domain, (long long)node);
    ff_report_rule(findings, "a domain joins whole nodes, or divides a node evenly");
    ff_report_help(findings, "nearest legal: domain_devices: %lld or %lld", (long long)below,
                   (long long)(domain > node ? below + node : node));
    return false;
}

/* The usual domain as far as the node or the cluster has devices for it: another one is said. */
static void note_cut_domain(const cluster_parts *parts, int64_t usual, const ff_cluster *cluster,
                            ff_diagnostics *findings) {
    int64_t node = parts->devices_per_node;
    bool within_node = usual <= parts->device.node_devices || node >= usual;
    if (cluster->domain_devices == ff_min(usual, within_node ? node : cluster->devices))
        return;
    ff_report(findings, FF0409, parts->domain_where,
              "nodes of %lld devices do not fill the link's usual domains of %lld; domains of %lld "
              "are assumed",
              (long long)node, (long long)usual, (long long)cluster->domain_devices);
    ff_report_help(findings, "where the link joins another number, write `domain_devices:` in a "
                             "cluster file");
}

static bool place_domain(const cluster_parts *parts, ff_diagnostics *findings,
                         ff_cluster *cluster) {
    if (parts->domain_devices == 0 || parts->domain_is_usual) {
        int64_t usual =
            parts->domain_devices == 0 ? parts->device.domain_devices : parts->domain_devices;
        cluster->domain_devices = usual_domain(parts, usual, cluster->devices);
        note_cut_domain(parts, usual, cluster, findings);
    } else {
        if (!domain_is_legal(parts, cluster->devices, findings))
            return false;
        cluster->domain_devices = parts->domain_devices;
    }
    int64_t rest = cluster->devices % cluster->domain_devices;
    if (rest != 0)
        ff_report(findings, FF0409, parts->domain_where,
                  "%lld devices are not whole domains of %lld: the last one holds %lld, and is "
                  "treated like the others",
                  (long long)cluster->devices, (long long)cluster->domain_devices, (long long)rest);
    return true;
}

/* Devices that the network joins without the spine; false with a finding when impossible. */
static bool place_pods(const cluster_parts *parts, const ff_cluster *cluster,
                       ff_diagnostics *findings, int64_t *pod) {
    int64_t block = ff_max(cluster->domain_devices, cluster->devices_per_node);
    *pod = parts->network.pod_devices;
    if (*pod == 0 && parts->network.oversubscription > 1) {
        *pod = block;
        ff_report(findings, FF0409, parts->pod_where,
                  "oversubscription %g is given without pod_devices: all traffic that leaves a "
                  "block of %lld devices is taken to share it",
                  parts->network.oversubscription, (long long)block);
    }
    if (*pod == 0 || *pod > cluster->devices)
        *pod = cluster->devices;
    if (*pod == cluster->devices || *pod % block == 0)
        return true;
    ff_report(findings, FF0306, parts->pod_where, "a pod of %lld devices cuts through a %s of %lld",
              (long long)*pod,
              cluster->domain_devices > cluster->devices_per_node ? "domain" : "node",
              (long long)block);
    ff_report_help(findings, "nearest legal: pod_devices: %lld",
                   (long long)ff_max(block, *pod / block * block));
    return false;
}

static void build_tiers(const cluster_parts *parts, int64_t pod, ff_cluster *cluster) {
    const cluster_network *network = &parts->network;
    double nics = (double)network->nics_per_node / (double)parts->devices_per_node;
    ff_tier *domain = &cluster->tier[FF_TIER_DOMAIN], *net = &cluster->tier[FF_TIER_NETWORK];
    ff_tier *spine = &cluster->tier[FF_TIER_SPINE];
    *domain = (ff_tier){.devices = cluster->domain_devices,
                        .wire_Bps = parts->device.link_wire_Bps,
                        .Bps = parts->device.link_Bps,
                        .latency_s = parts->device.link_latency_s,
                        .assumed = parts->link_assumed};
    ff_copy_text(domain->name, sizeof domain->name, parts->device.link);
    *net = (ff_tier){.devices = pod,
                     .wire_Bps = nics * network->nic_wire_Bps,
                     .Bps = nics * network->nic_wire_Bps * network->usable_fraction,
                     .latency_s = network->latency_s,
                     .ring_step_s = network->ring_step_s,
                     .ring_turn_bytes = network->ring_turn_bytes,
                     .assumed = parts->network_assumed};
    ff_copy_text(net->name, sizeof net->name, network->name);
    *spine = (ff_tier){.devices = cluster->devices,
                       .wire_Bps = net->wire_Bps / network->oversubscription,
                       .Bps = net->Bps / network->oversubscription,
                       .latency_s = network->spine_latency_s,
                       .ring_step_s = network->ring_step_s,
                       .ring_turn_bytes = network->ring_turn_bytes,
                       .assumed = parts->network_assumed || parts->spine_assumed};
    snprintf(spine->name, sizeof spine->name, "spine %g:1", network->oversubscription);
}

ff_status cluster_assemble(const cluster_parts *parts, ff_diagnostics *findings,
                           ff_cluster *cluster) {
    *cluster = (ff_cluster){.device = parts->device,
                            .nodes = parts->nodes,
                            .devices_per_node = parts->devices_per_node,
                            .nics_per_node = parts->network.nics_per_node,
                            .nic_Bps = parts->network.nic_wire_Bps * parts->network.usable_fraction,
                            .rail_optimised = parts->network.rail_optimised,
                            .oversubscription = parts->network.oversubscription};
    ff_copy_text(cluster->name, sizeof cluster->name, parts->name);
    int64_t pod;
    if (!count_devices(parts, findings, cluster) || !place_domain(parts, findings, cluster) ||
        !place_pods(parts, cluster, findings, &pod))
        return FF_INVALID;
    build_tiers(parts, pod, cluster);
    return FF_OK;
}
