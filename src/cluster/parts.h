/* What the files of this folder share: the parts that a description is read into, before they are
 * put together and held against each other.
 *
 *     short form --(short_form.c)--.
 *                                   >-- parts --(assemble.c)--> ff_cluster
 *     YAML map ----(describe.c)----'      device (device.c), network (network.c)
 *
 * A part is either given by the user, or of a named entry, or assumed; the flags say which. */
#ifndef FF_CLUSTER_PARTS_H
#define FF_CLUSTER_PARTS_H

#include "cluster/describe.h"

enum { MOST_DEVICES = 1 << 20 };

typedef struct cluster_network {
    char name[48];
    int64_t nics_per_node;
    double nic_wire_Bps, usable_fraction;
    double latency_s, spine_latency_s, ring_step_s, ring_turn_bytes;
    double oversubscription;
    bool rail_optimised;
    int64_t pod_devices; /* 0: one tier joins everything */
} cluster_network;

typedef struct cluster_parts {
    char name[FF_NAME_BYTES];
    int64_t nodes, devices_per_node;
    int64_t domain_devices; /* 0: the usual size of the device's link */
    bool domain_is_usual;   /* the size is a preset's: it shrinks to a smaller cluster */
    ff_device device;
    bool link_assumed;
    cluster_network network;
    bool network_assumed, spine_assumed;
    ff_place nodes_where, node_size_where, domain_where, pod_where;
} cluster_parts;

/* The entry of a library map with an id, in any case, or with that alias. What the alias assumes is
 * said in a note. NULL without a finding when there is none. */
const ff_field *library_find(const ff_field *entries, const char *name, ff_diagnostics *findings);
/* Gives the last finding a help line with up to three names that are near, and how to list all. */
void library_suggest(const ff_field *const *entries, int maps, const char *name, const char *list,
                     ff_diagnostics *findings);

/* Sets what the map gives, keeps the rest. With `link_only` only keys about the link are looked at
 * (the root of a cluster file). */
void device_apply(const ff_field *map, bool link_only, ff_diagnostics *findings, ff_device *device);
/* Fills in what follows from what was given (usable from wire, fp16 from bf16, ...) with `base` for
 * ratios, and says in a note what was assumed. */
void device_complete(const ff_field *map, const ff_device *base, ff_diagnostics *findings,
                     ff_device *device);
/* Reports what contradicts itself. */
void device_check(const ff_field *map, ff_diagnostics *findings, const ff_device *device);
/* The device of a `device:` value: an id, or a map (with `like`, or from the bare device). */
bool device_read(const ff_field *value, const ff_cluster_library *library, ff_diagnostics *findings,
                 ff_device *device);
/* A device given by figures alone, from the bare device. */
bool device_from_figures(const ff_field *map, const ff_cluster_library *library,
                         ff_diagnostics *findings, ff_device *device);
/* The keys that the root of a cluster file may use to change the link; NULL past the end. */
const char *device_link_key(int index);

/* The network that the library gives a device, scaled to the node; false with a finding when there
 * is none. */
bool network_of_device(const ff_cluster_library *library, const ff_device *device,
                       int64_t devices_per_node, ff_diagnostics *findings,
                       cluster_network *network);
/* The network of a `network:` value: an id, or a map over the device's own. */
bool network_read(const ff_field *value, const ff_cluster_library *library, const ff_device *device,
                  int64_t devices_per_node, ff_diagnostics *findings, cluster_network *network);
/* Says in a note which network was assumed, and how to give another. */
void report_assumed_network(const cluster_parts *parts, ff_diagnostics *findings);

/* Reads a count of nodes or devices. Counts from `least` on that a number can hold are taken, also
 * those that no cluster has: what they are held against later says more than a range. A refused one
 * is told the range that there truly is, from 1 to MOST_DEVICES. */
bool cluster_read_count(const ff_field *map, const char *key, int64_t least,
                        ff_diagnostics *findings, int64_t *count);
/* Reads the map of a cluster into parts. `nodes` and `devices_per_node` of 0 are taken from it. */
bool cluster_read(const ff_field *root, const ff_cluster_library *library, int64_t nodes,
                  ff_diagnostics *findings, cluster_parts *parts);
/* Checks the parts against each other and builds the tiers. */
ff_status cluster_assemble(const cluster_parts *parts, ff_diagnostics *findings,
                           ff_cluster *cluster);

#endif
