/* A cluster from a map: a YAML file of the user, or an entry of data/clusters.yaml.
 *
 *     nodes: 16
 *     devices_per_node: 8                      # left out: the device's usual node
 *     device: h100-80gb-sxm                    # or {like: h100-80gb-sxm, memory_GiB: 94}
 *     network: {nics_per_node: 8, nic_Gbps: 400, oversubscription: 2, pod_devices: 64}
 *     domain_devices: 8                        # left out: the link's usual size
 *     link_GBps: 340                           # the link's figures may be set here as well
 *
 * Every fault is reported, at its line; the parts are put together only when there is none. */
#include "cluster/parts.h"

#include "base/number.h"
#include "base/text.h"

static const char *const root_keys[] = {
    "name",           "nodes",  "devices_per_node", "device", "network",
    "domain_devices", "fabric", "status",           "source", "remarks",
};
enum { ROOT_KEYS = sizeof root_keys / sizeof *root_keys, MOST_LINK_KEYS = 16 };

static void report_unknown_keys(const ff_field *root, ff_diagnostics *findings) {
    const char *known[ROOT_KEYS + MOST_LINK_KEYS + 1] = {0};
    int count = 0;
    for (int i = 0; i < ROOT_KEYS; i++)
        known[count++] = root_keys[i];
    for (int i = 0; i < MOST_LINK_KEYS && device_link_key(i) != NULL; i++)
        known[count++] = device_link_key(i);
    ff_field_report_unknown(root, known, findings);
}

static ff_place place_of(const ff_field *root, const char *key) {
    const ff_field *field = ff_field_find(root, key);
    return field == NULL ? root->where : field->where;
}

bool cluster_read_count(const ff_field *map, const char *key, int64_t least,
                        ff_diagnostics *findings, int64_t *count) {
    const ff_field *field = ff_field_find(map, key);
    bool taken = field != NULL && field->kind == FF_FIELD_NUMBER && field->is_integer &&
                 field->integer >= least && field->integer <= FF_SATURATED;
    if (taken)
        *count = field->integer;
    return taken || ff_field_get_integer(map, key, 1, MOST_DEVICES, findings, count);
}

static void read_sizes(const ff_field *root, int64_t nodes, ff_diagnostics *findings,
                       cluster_parts *parts) {
    parts->nodes = nodes;
    if (nodes == 0 && !cluster_read_count(root, "nodes", 0, findings, &parts->nodes) &&
        ff_field_find(root, "nodes") == NULL)
        ff_field_report_missing(root, "nodes", findings);
    cluster_read_count(root, "devices_per_node", 0, findings, &parts->devices_per_node);
    cluster_read_count(root, "domain_devices", 1, findings, &parts->domain_devices);
    parts->nodes_where = place_of(root, "nodes");
    parts->node_size_where = place_of(root, "devices_per_node");
    parts->domain_where = place_of(root, "domain_devices");
}

static void read_device(const ff_field *root, const ff_cluster_library *library,
                        ff_diagnostics *findings, cluster_parts *parts) {
    const ff_field *device = ff_field_find(root, "device");
    if (device == NULL) {
        ff_field_report_missing(root, "device", findings);
        return;
    }
    if (!device_read(device, library, findings, &parts->device))
        return;
    ff_device unchanged = parts->device;
    device_apply(root, true, findings, &parts->device);
    bool wire = parts->device.link_wire_Bps != unchanged.link_wire_Bps;
    if (wire && ff_field_find(root, "link_GBps") == NULL)
        parts->device.link_Bps *= parts->device.link_wire_Bps / unchanged.link_wire_Bps;
    if (ff_field_find(root, "link_GBps") != NULL || wire)
        device_check(root, findings, &parts->device);
    if (ff_field_find(root, "devices_per_node") == NULL) {
        parts->devices_per_node = parts->device.node_devices;
        ff_report(findings, FF0409, root->where,
                  "devices_per_node is left out; %lld, the usual node of %s, is assumed",
                  (long long)parts->devices_per_node, parts->device.id);
    }
}

static void read_network(const ff_field *root, const ff_cluster_library *library,
                         ff_diagnostics *findings, cluster_parts *parts) {
    const ff_field *network = ff_field_find(root, "network");
    int64_t node = ff_max(1, parts->devices_per_node);
    parts->network_assumed = network == NULL || network->kind == FF_FIELD_NULL;
    parts->pod_where = network == NULL ? root->where : place_of(network, "pod_devices");
    if (parts->network_assumed)
        network_of_device(library, &parts->device, node, findings, &parts->network);
    else
        network_read(network, library, &parts->device, node, findings, &parts->network);
    parts->spine_assumed = network != NULL && network->kind == FF_FIELD_MAP &&
                           ff_field_find(network, "oversubscription") == NULL;
}

bool cluster_read(const ff_field *root, const ff_cluster_library *library, int64_t nodes,
                  ff_diagnostics *findings, cluster_parts *parts) {
    if (root->kind != FF_FIELD_MAP) {
        ff_report(findings, FF0108, root->where, "a cluster is a map of keys, not %s",
                  ff_field_kind_name(root->kind));
        ff_report_help(findings, "it needs at least `nodes:` and `device:`");
        return false;
    }
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    report_unknown_keys(root, findings);
    read_sizes(root, nodes, findings, parts);
    read_device(root, library, findings, parts);
    if (ff_diagnostics_count_of(findings, FF_ERROR) == errors)
        read_network(root, library, findings, parts);
    const char *name;
    if (ff_field_get_text(root, "name", findings, &name))
        ff_copy_text(parts->name, sizeof parts->name, name);
    return ff_diagnostics_count_of(findings, FF_ERROR) == errors;
}

static ff_status from_fields(const ff_field *root, const char *name,
                             const ff_cluster_library *library, ff_diagnostics *findings,
                             ff_cluster *cluster) {
    cluster_parts parts = {0};
    ff_copy_text(parts.name, sizeof parts.name, name);
    if (!cluster_read(root, library, 0, findings, &parts))
        return FF_INVALID;
    if (parts.network_assumed)
        report_assumed_network(&parts, findings);
    return cluster_assemble(&parts, findings, cluster);
}

/* Decisions rest on the findings, so there has to be a list even when the caller wants none. */
ff_status ff_cluster_from_fields(const ff_field *root, const char *name,
                                 const ff_cluster_library *library, ff_diagnostics *findings,
                                 ff_cluster *cluster) {
    *cluster = (ff_cluster){0};
    ff_diagnostics *own = findings == NULL ? ff_diagnostics_create() : NULL;
    ff_status status = from_fields(root, name, library, own == NULL ? findings : own, cluster);
    ff_diagnostics_free(own);
    return status;
}
