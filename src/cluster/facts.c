/* A cluster and a device as facts, for `show` and for the head of every answer. Rates that a device
 * lacks are null, not 0. */
#include "cluster/describe.h"

static void add_rate(ff_facts *facts, const char *name, double flops) {
    if (flops > 0)
        ff_facts_add_real(facts, name, flops);
    else
        ff_facts_add_null(facts, name);
}

void ff_device_facts(const ff_device *device, ff_facts *facts) {
    ff_facts_add_text(facts, "id", "%s", device->id);
    ff_facts_add_text(facts, "name", "%s", device->name);
    ff_facts_add_text(facts, "generation", "%s", device->generation);
    ff_facts_add_integer(facts, "memory_bytes", device->memory_bytes);
    ff_facts_add_real(facts, "memory_Bps", device->memory_Bps);
    add_rate(facts, "fp32_flops", device->fp32_flops);
    add_rate(facts, "tf32_flops", device->tf32_flops);
    add_rate(facts, "fp16_flops", device->fp16_flops);
    add_rate(facts, "bf16_flops", device->bf16_flops);
    add_rate(facts, "fp8_flops", device->fp8_flops);
    add_rate(facts, "fp4_flops", device->fp4_flops);
    ff_facts_add_integer(facts, "processors", device->processors);
    ff_facts_add_text(facts, "link", "%s", device->link);
    ff_facts_add_real(facts, "link_wire_Bps", device->link_wire_Bps);
    ff_facts_add_real(facts, "link_Bps", device->link_Bps);
    ff_facts_add_real(facts, "link_latency_s", device->link_latency_s);
    ff_facts_add_boolean(facts, "link_switch", device->link_switch);
    ff_facts_add_boolean(facts, "in_switch_reduction", device->in_switch_reduction);
    ff_facts_add_integer(facts, "domain_devices", device->domain_devices);
}

static void add_tier(ff_facts *facts, ff_tier_id id, const ff_tier *tier) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "tier", "%s", ff_tier_id_name(id));
    ff_facts_add_text(facts, "name", "%s", tier->name);
    ff_facts_add_integer(facts, "devices", tier->devices);
    ff_facts_add_real(facts, "Bps", tier->Bps);
    ff_facts_add_real(facts, "wire_Bps", tier->wire_Bps);
    ff_facts_add_real(facts, "latency_s", tier->latency_s);
    ff_facts_add_boolean(facts, "assumed", tier->assumed);
    ff_facts_close(facts);
}

void ff_cluster_facts(const ff_cluster *cluster, ff_facts *facts) {
    ff_facts_add_text(facts, "name", "%s", cluster->name);
    ff_facts_add_integer(facts, "devices", cluster->devices);
    ff_facts_add_integer(facts, "nodes", cluster->nodes);
    ff_facts_add_integer(facts, "devices_per_node", cluster->devices_per_node);
    ff_facts_add_integer(facts, "domain_devices", cluster->domain_devices);
    ff_facts_open_record(facts, "device");
    ff_device_facts(&cluster->device, facts);
    ff_facts_close(facts);
    ff_facts_add_integer(facts, "nics_per_node", cluster->nics_per_node);
    ff_facts_add_real(facts, "nic_Bps", cluster->nic_Bps);
    ff_facts_add_boolean(facts, "rail_optimised", cluster->rail_optimised);
    ff_facts_add_real(facts, "oversubscription", cluster->oversubscription);
    ff_facts_open_list(facts, "tiers");
    for (int tier = 0; tier < FF_TIER_COUNT; tier++)
        add_tier(facts, (ff_tier_id)tier, &cluster->tier[tier]);
    ff_facts_close(facts);
}
