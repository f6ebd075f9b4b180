/* The network between nodes: named, given by figures, or the one usual for the device.
 *
 * Which network is usual stands in the data: `default_for` of a network lists device ids and
 * generations; an id goes before a generation. Its adapters belong to a whole node of the device
 * (`node_devices`): half a node has half of them, at least one.
 * A map of figures needs the rate of an adapter; adapters left out are one a device; the rest is
 * taken from the device's usual network, and said to be assumed. */
#include "cluster/parts.h"

#include "base/number.h"
#include "base/text.h"
#include <string.h>
#include <strings.h>

static const char *const known_keys[] = {"name",
                                         "fabric",
                                         "default_for",
                                         "nics_per_node",
                                         "nic_Gbps",
                                         "nic_GBps",
                                         "latency_us",
                                         "usable_fraction",
                                         "spine_latency_us",
                                         "ring_step_us",
                                         "ring_turn_MB",
                                         "rail_optimised",
                                         "oversubscription",
                                         "pod_devices",
                                         "usable_basis",
                                         "latency_basis",
                                         "ring_step_basis",
                                         "ring_turn_basis",
                                         "like",
                                         "status",
                                         "source",
                                         "remarks",
                                         NULL};

static bool given(const ff_field *map, const char *name) {
    const ff_field *field = ff_field_find(map, name);
    return field != NULL && field->kind != FF_FIELD_NULL;
}

static void apply(const ff_field *map, ff_diagnostics *findings, cluster_network *network) {
    double value;
    const char *name;
    if (ff_field_get_text(map, "name", findings, &name))
        ff_copy_text(network->name, sizeof network->name, name);
    ff_field_get_integer(map, "nics_per_node", 1, 1 << 20, findings, &network->nics_per_node);
    if (ff_field_get_real(map, "nic_Gbps", 0.001, 1e6, findings, &value))
        network->nic_wire_Bps = value * 1e9 / 8;
    if (ff_field_get_real(map, "nic_GBps", 0.001, 1e6, findings, &value))
        network->nic_wire_Bps = value * 1e9;
    ff_field_get_real(map, "usable_fraction", 0.001, 1, findings, &network->usable_fraction);
    if (ff_field_get_real(map, "latency_us", 0, 1e6, findings, &value))
        network->latency_s = network->spine_latency_s = value * 1e-6;
    if (ff_field_get_real(map, "ring_step_us", 0, 1e6, findings, &value))
        network->ring_step_s = value * 1e-6;
    if (ff_field_get_real(map, "ring_turn_MB", 0, 1e6, findings, &value))
        network->ring_turn_bytes = value * 1e6;
    if (ff_field_get_real(map, "spine_latency_us", 0, 1e6, findings, &value))
        network->spine_latency_s = value * 1e-6;
    ff_field_get_boolean(map, "rail_optimised", findings, &network->rail_optimised);
    ff_field_get_real(map, "oversubscription", 1, 1e4, findings, &network->oversubscription);
    cluster_read_count(map, "pod_devices", 1, findings, &network->pod_devices);
    if (given(map, "nic_Gbps") && given(map, "nic_GBps")) {
        ff_report(findings, FF0306, ff_field_find(map, "nic_GBps")->where,
                  "the adapter's rate is given twice, as nic_Gbps (bits) and nic_GBps (bytes)");
        ff_report_help(findings, "keep one of them");
    }
}

/* 2: listed by id, 1: by generation, 0: not. */
static int listed(const ff_field *network, const ff_device *device) {
    const ff_field *list = ff_field_find(network, "default_for");
    int rank = 0;
    for (const ff_field *item = list == NULL ? NULL : list->first; item; item = item->next) {
        if (strcasecmp(item->text, device->id) == 0)
            rank = 2;
        else if (rank == 0 && strcasecmp(item->text, device->generation) == 0)
            rank = 1;
    }
    return rank;
}

static bool from_entry(const ff_field *entry, ff_diagnostics *findings, cluster_network *network) {
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    *network = (cluster_network){.usable_fraction = 1, .oversubscription = 1};
    ff_copy_text(network->name, sizeof network->name, entry->name);
    ff_field_report_unknown(entry, known_keys, findings);
    if (!given(entry, "nics_per_node"))
        ff_field_report_missing(entry, "nics_per_node", findings);
    if (!given(entry, "nic_Gbps") && !given(entry, "nic_GBps"))
        ff_field_report_missing(entry, "nic_Gbps", findings);
    apply(entry, findings, network);
    return ff_diagnostics_count_of(findings, FF_ERROR) == errors;
}

bool network_of_device(const ff_cluster_library *library, const ff_device *device,
                       int64_t devices_per_node, ff_diagnostics *findings,
                       cluster_network *network) {
    const ff_field *best = NULL;
    int best_rank = 0;
    const ff_field *entry = library->networks == NULL ? NULL : library->networks->first;
    for (; entry != NULL; entry = entry->next) {
        int rank = listed(entry, device);
        if (rank > best_rank) {
            best = entry;
            best_rank = rank;
        }
    }
    if (best == NULL) {
        ff_report(findings, FF0110, FF_NOWHERE,
                  "no network is given, and none is usual for generation \"%s\"",
                  device->generation);
        ff_report_help(findings, "add network: {nics_per_node: 8, nic_Gbps: 400}");
        return false;
    }
    if (!from_entry(best, findings, network))
        return false;
    int64_t nics = ff_mul(network->nics_per_node, devices_per_node) / device->node_devices;
    network->nics_per_node = ff_max(1, nics);
    return true;
}

static void note_assumed(const ff_field *map, const cluster_network *network,
                         ff_diagnostics *findings) {
    ff_text list = {0};
    if (!given(map, "nics_per_node"))
        ff_text_printf(&list, ", %lld adapters a node", (long long)network->nics_per_node);
    if (!given(map, "usable_fraction"))
        ff_text_printf(&list, ", %.3g of the wire rate usable", network->usable_fraction);
    if (!given(map, "latency_us"))
        ff_text_printf(&list, ", latency %.3g us", network->latency_s * 1e6);
    if (!given(map, "rail_optimised"))
        ff_text_append(&list, network->rail_optimised ? ", rail-optimised" : ", no rails");
    if (list.length > 0)
        ff_report(findings, FF0409, map->where,
                  "the network's description leaves out, so assumed: %s", list.bytes + 2);
    ff_text_free(&list);
}

static bool named_network(const char *name, ff_place where, const ff_cluster_library *library,
                          ff_diagnostics *findings, cluster_network *network) {
    const ff_field *entry = library_find(library->networks, name, findings);
    if (entry != NULL)
        return from_entry(entry, findings, network);
    ff_report(findings, FF0301, where, "unknown network \"%.60s\"", name);
    library_suggest(&library->networks, 1, name, "clusters", findings);
    return false;
}

static bool from_map(const ff_field *map, const ff_cluster_library *library,
                     const ff_device *device, int64_t devices_per_node, ff_diagnostics *findings,
                     cluster_network *network) {
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    ff_field_report_unknown(map, known_keys, findings);
    const char *like;
    if (ff_field_get_text(map, "like", findings, &like)) {
        ff_place where = ff_field_find(map, "like")->where;
        if (named_network(like, where, library, findings, network))
            apply(map, findings, network);
        return ff_diagnostics_count_of(findings, FF_ERROR) == errors;
    }
    if (!given(map, "nic_Gbps") && !given(map, "nic_GBps"))
        ff_field_report_missing(map, "nic_Gbps", findings);
    if (!network_of_device(library, device, devices_per_node, findings, network))
        return false;
    ff_copy_text(network->name, sizeof network->name, "network");
    network->nics_per_node = devices_per_node;
    network->pod_devices = 0;
    network->oversubscription = 1;
    apply(map, findings, network);
    if (ff_diagnostics_count_of(findings, FF_ERROR) > errors)
        return false;
    note_assumed(map, network, findings);
    return true;
}

bool network_read(const ff_field *value, const ff_cluster_library *library, const ff_device *device,
                  int64_t devices_per_node, ff_diagnostics *findings, cluster_network *network) {
    if (value->kind == FF_FIELD_TEXT)
        return named_network(value->text, value->where, library, findings, network);
    if (value->kind == FF_FIELD_MAP)
        return from_map(value, library, device, devices_per_node, findings, network);
    ff_report(findings, FF0108, value->where,
              "\"network\" must be the id of a network or a map, not %s",
              ff_field_kind_name(value->kind));
    return false;
}

void report_assumed_network(const cluster_parts *parts, ff_diagnostics *findings) {
    const cluster_network *network = &parts->network;
    ff_report(findings, FF0409, FF_NOWHERE,
              "no network is given; %s, usual for %s, is assumed: %lld x %g Gb/s a node",
              network->name, parts->device.id, (long long)network->nics_per_node,
              network->nic_wire_Bps * 8 / 1e9);
    ff_report_help(findings, "name a system (16xdgx-h100), or write `network:` in a cluster file");
}
