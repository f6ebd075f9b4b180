/* On what: devices joined by tiers of links.
 *
 *     device -- domain (NVLink, xGMI, PCIe) -- network (rail-optimised leaves) -- spine
 *               domain_devices                pod_devices                        everything
 *
 * A node is a host; a domain is what the fast link joins: a node, or a rack of 18 nodes of 4
 * (NVL72). Bandwidths are bytes a second of one device in one direction; `wire_Bps` is what the
 * vendor prints, `Bps` what large messages reach. What the user did not say is marked assumed. */
#ifndef FIVEFOLD_CLUSTER_H
#define FIVEFOLD_CLUSTER_H

#include "fivefold/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct ff_device {
    char id[48];              /* "h100-80gb-sxm" */
    char name[FF_NAME_BYTES]; /* as the vendor calls it */
    char generation[24];      /* "volta", "ampere", "hopper", "blackwell", "ada", "cdna3", ... */
    int64_t memory_bytes;     /* what a process sees in total (torch's total_memory) */
    double memory_Bps;        /* theoretical */
    /* Dense peak rates with fp32 accumulation; 0 = the device does not have the format. */
    double fp32_flops, tf32_flops, fp16_flops, bf16_flops, fp8_flops, fp4_flops;
    int64_t processors; /* SMs or CUs; 0 = unknown */
    double power_W;     /* the cap under which it runs; 0 = unknown */
    char link[24];      /* "NVLink4" */
    double link_wire_Bps, link_Bps;
    double link_latency_s; /* of one more ring step inside the domain */
    bool link_switch; /* any peer at full rate (a switch, PCIe); false: a mesh, a link a peer */
    bool in_switch_reduction; /* NVLS */
    int64_t domain_devices;   /* usual size; more than node_devices where the link joins hosts */
    int64_t node_devices;     /* in one usual host */
} ff_device;

typedef enum ff_tier_id {
    FF_TIER_DOMAIN,
    FF_TIER_NETWORK,
    FF_TIER_SPINE,
    FF_TIER_COUNT
} ff_tier_id;

typedef struct ff_tier {
    char name[48];          /* "NVLink4", "InfiniBand NDR", "spine 1:1" */
    int64_t devices;        /* joined without leaving this tier */
    double wire_Bps, Bps;   /* a device, one direction, all devices sending */
    double latency_s;       /* one more step that crosses it */
    double ring_step_s;     /* every step of a ring that crosses it; 0 = hops run side by side */
    double ring_turn_bytes; /* what the rings of a domain move in one turn; 0 = all in one */
    bool assumed;           /* not said by the user nor part of the named preset */
} ff_tier;

typedef struct ff_cluster {
    char name[FF_NAME_BYTES];
    ff_device device;
    int64_t nodes, devices_per_node, domain_devices;
    int64_t devices; /* nodes * devices_per_node */
    int64_t nics_per_node;
    double nic_Bps; /* usable, one adapter */
    bool rail_optimised;
    double oversubscription;     /* spine: 1 = full bandwidth, 7 = one seventh */
    ff_tier tier[FF_TIER_COUNT]; /* the spine's `devices` is the cluster; equal to the network's
                                    when there is no second tier */
} ff_cluster;

FF_API const char *ff_tier_id_name(ff_tier_id tier);

#endif
