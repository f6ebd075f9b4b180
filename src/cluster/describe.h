/* Clusters from what a user writes: a YAML file, or the short form
 *
 *     16x8xh100-80gb-sxm        nodes x devices x device
 *     4x8x(mem=40GiB,flops=312T,...)   a bare device
 *
 * Device and network facts come from fields (data/devices.yaml, data/networks.yaml, or the user's
 * file): this module knows no device by name. */
#ifndef FF_CLUSTER_DESCRIBE_H
#define FF_CLUSTER_DESCRIBE_H

#include "base/fact.h"
#include "fivefold/cluster.h"
#include "input/fields.h"

/* Where the named facts are: maps of id -> description. */
typedef struct ff_cluster_library {
    const ff_field *devices; /* id: {memory_bytes: .., ...} */
    const ff_field
        *networks; /* id: {nics_per_node: .., ...}, and which generation defaults to it */
    const ff_field *clusters; /* id: {nodes: .., device: .., network: ..} */
} ff_cluster_library;

ff_status ff_device_from_fields(const ff_field *device, const char *id, ff_diagnostics *findings,
                                ff_device *out);
ff_status ff_cluster_from_fields(const ff_field *root, const char *name,
                                 const ff_cluster_library *library, ff_diagnostics *findings,
                                 ff_cluster *cluster);
/* The short form, or the id of a reference cluster (`dgx-h100` with a node count: `16xdgx-h100`).
 */
ff_status ff_cluster_from_text(const char *text, const ff_cluster_library *library,
                               ff_diagnostics *findings, ff_cluster *cluster);

/* Fills the open record with the cluster: name, sizes, device{}, tiers[]. */
void ff_cluster_facts(const ff_cluster *cluster, ff_facts *facts);
/* Fills the open record with the device alone. */
void ff_device_facts(const ff_device *device, ff_facts *facts);

#endif
