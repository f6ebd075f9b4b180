/* Clusters: every device of the data is checked against the physics it states, the short form and
 * YAML files against hand-worked figures, and bad input against the code and place of its finding.
 */
#include "cluster_fixture.h"

/* Dense peak = processors x FLOP a clock x clock (where the clock is known): a sparse figure, or a
 * typo in any of the four, fails. */
static void check_peak(const ff_field *entry, const ff_device *device) {
    double clock_MHz, per_clock;
    if (!ff_field_get_real(entry, "flop_per_clock", 1, 1e6, NULL, &per_clock))
        return;
    if (!ff_field_get_real(entry, "tensor_clock_MHz", 1, 1e5, NULL, &clock_MHz))
        assert_true(ff_field_get_real(entry, "clock_MHz", 1, 1e5, NULL, &clock_MHz));
    near((double)device->processors * per_clock * clock_MHz * 1e6, device->fp16_flops, 0.012);
}

static void test_devices(void **state) {
    (void)state;
    int count = 0;
    for (const ff_field *entry = library.devices->first; entry; entry = entry->next, count++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_device d;
        if (ff_device_from_fields(entry, entry->name, findings, &d) != FF_OK ||
            ff_diagnostics_count(findings) > 0)
            fail_with(entry->name, findings);
        ff_diagnostics_free(findings);
        assert_non_null(ff_field_find(entry, "source"));
        assert_non_null(ff_field_find(entry, "status"));
        check_peak(entry, &d);
        assert_true(d.link_Bps <= d.link_wire_Bps && d.link_Bps > 0);
        assert_true(d.memory_bytes > 15e9 && d.memory_bytes < 320e9);
        assert_true(d.memory_Bps > d.link_wire_Bps);
        assert_true(d.bf16_flops == 0 || d.bf16_flops == d.fp16_flops);
        near(d.fp8_flops == 0 ? 2 : d.fp8_flops / d.bf16_flops, 2, 0.03);
        assert_true(d.tf32_flops == 0 || d.tf32_flops <= d.fp16_flops / 1.9);
        assert_true(!d.in_switch_reduction || d.link_switch);
        char text[128];
        snprintf(text, sizeof text, "2x%dx%s", (int)d.node_devices, d.id);
        ff_cluster cluster = good(text);
        assert_int_equal(cluster.devices, 2 * d.node_devices);
        assert_true(cluster.tier[FF_TIER_NETWORK].assumed);
    }
    assert_int_equal(count, 32);
}

static void test_networks_and_systems(void **state) {
    (void)state;
    for (const ff_field *entry = library.clusters->first; entry; entry = entry->next) {
        char text[128];
        snprintf(text, sizeof text, "18x%s", entry->name);
        ff_cluster c = good(text);
        assert_string_equal(c.name, text);
        assert_false(c.tier[FF_TIER_NETWORK].assumed);
        assert_true(c.tier[FF_TIER_NETWORK].Bps <= c.tier[FF_TIER_NETWORK].wire_Bps);
        assert_true(c.tier[FF_TIER_NETWORK].Bps < c.tier[FF_TIER_DOMAIN].Bps);
        assert_true(c.tier[FF_TIER_NETWORK].latency_s > c.tier[FF_TIER_DOMAIN].latency_s);
        assert_non_null(ff_field_find(entry, "source"));
    }
    for (const ff_field *entry = library.networks->first; entry; entry = entry->next)
        assert_non_null(ff_field_find(entry, "source"));
}

/* The presets that the command line promises. */
static void test_promised(void **state) {
    (void)state;
    static const char *const ids[] = {
        "v100-16gb-sxm2",  "v100-32gb-sxm2", "a100-40gb-sxm",  "a100-80gb-sxm",
        "a100-40gb-pcie",  "a100-80gb-pcie", "a800-80gb-sxm",  "h100-80gb-sxm",
        "h100-80gb-pcie",  "h800-80gb-sxm",  "h20-96gb-sxm",   "h100-96gb-sxm-hbm2e",
        "h200-141gb-sxm",  "b200-180gb-sxm", "b300-288gb-sxm", "gb200-186gb",
        "gb300-288gb",     "l40s-48gb",      "a10g-24gb",      "l4-24gb",
        "mi250x-gcd-64gb", "mi300x-192gb",   "rtx-4090-24gb",  "rtx-a6000-48gb",
        "a40-48gb"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char text[128];
        snprintf(text, sizeof text, "16x8x%s", ids[i]);
        ff_cluster c = good(text);
        assert_string_equal(c.name, text);
        assert_string_equal(c.device.id, ids[i]);
        ff_cluster again = good(c.name);
        assert_memory_equal(&c, &again, sizeof c);
    }
}

/* Hand-worked: 128 H100 on NDR. A device has one adapter of 50 GB/s, 47 of them usable. */
static void test_h100(void **state) {
    (void)state;
    ff_cluster c = good("16x8xh100-80gb-sxm");
    assert_int_equal(c.devices, 128);
    assert_int_equal(c.domain_devices, 8);
    assert_int_equal(c.device.memory_bytes, 85027979264);
    near(c.device.bf16_flops, 989.4e12, 1e-9);
    const ff_tier *domain = &c.tier[FF_TIER_DOMAIN], *network = &c.tier[FF_TIER_NETWORK];
    assert_int_equal(domain->devices, 8);
    near(domain->wire_Bps, 450e9, 1e-9);
    near(domain->Bps, 371e9, 1e-9);
    assert_false(domain->assumed);
    assert_int_equal(network->devices, 128);
    near(network->wire_Bps, 50e9, 1e-9);
    near(network->Bps, 47e9, 1e-9);
    near(network->latency_s, 12e-6, 1e-9);
    near(c.nic_Bps, 47e9, 1e-9);
    assert_true(c.rail_optimised);
    near(c.tier[FF_TIER_SPINE].Bps, 47e9, 1e-9);
    ff_cluster half = good("16x4xh100-80gb-sxm"); /* half a node has half the adapters */
    assert_int_equal(half.nics_per_node, 4);
    near(half.tier[FF_TIER_NETWORK].wire_Bps, 50e9, 1e-9);
    assert_int_equal(half.domain_devices, 4);
}

static void test_named_systems(void **state) {
    (void)state;
    ff_cluster p4d = good("4xaws-p4d"); /* four adapters for eight devices */
    near(p4d.tier[FF_TIER_NETWORK].wire_Bps, 6.25e9, 1e-9);
    near(p4d.tier[FF_TIER_NETWORK].Bps, 5e9, 1e-9);
    ff_cluster meta = good("3072xmeta-grand-teton-roce"); /* 24,576 devices in 8 pods */
    assert_int_equal(meta.tier[FF_TIER_NETWORK].devices, 3072);
    assert_int_equal(meta.tier[FF_TIER_SPINE].devices, 24576);
    near(meta.tier[FF_TIER_SPINE].Bps, 45e9 / 7, 1e-9);
    ff_cluster small = good("2xmeta-grand-teton-roce");
    assert_int_equal(small.tier[FF_TIER_NETWORK].devices, 16);
    ff_cluster deepseek = good("256xDeepSeek-H800");
    near(deepseek.tier[FF_TIER_DOMAIN].latency_s, 3.3e-6, 1e-9);
}

/* A rack of 72 in nodes of 4: the domain joins nodes, and ends with the cluster. */
static void test_racks(void **state) {
    (void)state;
    static const char *const rack[] = {"18x4xgb200-nvl72", "18x4xgb200-186gb", "18xgb200-nvl72",
                                       "gb200-nvl72", "18X4XGB200"};
    for (int i = 0; i < 5; i++) {
        ff_cluster c = good(rack[i]);
        assert_int_equal(c.devices, 72);
        assert_int_equal(c.devices_per_node, 4);
        assert_int_equal(c.domain_devices, 72);
        near(c.tier[FF_TIER_NETWORK].wire_Bps, 50e9, 1e-9);
    }
    assert_int_equal(good("8x4xgb200-186gb").domain_devices, 32);
    assert_int_equal(good("36x4xgb300-288gb").domain_devices, 72);
    assert_int_equal(good("36x4xgb300-288gb").devices, 144);
    note("20x4xgb200-186gb", "the last one holds 8");
    note("2xgb200-nvl72", "2 nodes of 4 devices");
    note("2xgb200-nvl72", "18xgb200-nvl72");
    bad("18x8xgb200-nvl72", "FF0306", "has 4 devices, not 8");
}

static void test_other_nodes(void **state) {
    (void)state;
    assert_int_equal(good("1x1xh100").devices, 1); /* refused by the planner, not here */
    assert_int_equal(good("4x6xv100-16gb-sxm2").domain_devices, 6);
    assert_int_equal(good("2x16xv100-32gb-sxm3").domain_devices, 16);
    assert_int_equal(good("2x16xh100-80gb-sxm").domain_devices, 8);
    assert_int_equal(good("2x12xh100-80gb-sxm").domain_devices, 6);
    assert_int_equal(good("8x1xgh200-96gb").domain_devices, 1);
    assert_int_equal(good("131072x8xh100-80gb-sxm").devices, 1 << 20);
}

static void test_aliases(void **state) {
    (void)state;
    assert_string_equal(good("16x8xH100").device.id, "h100-80gb-sxm");
    assert_string_equal(good("16x8xA100-80GB-SXM").name, "16x8xa100-80gb-sxm");
    note("16x8xh100", "SXM 80 GB is assumed");
    note("16x8xh100-80gb-sxm", "InfiniBand NDR");
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_cluster cluster;
    ff_cluster_from_text("16xdgx-h100", &library, findings, &cluster);
    assert_int_equal(ff_diagnostics_count(findings), 0);
    ff_diagnostics_free(findings);
}

/* Figures: G is 10^9, Gi 2^30. What is left out comes from the bare device, an A100 80 GB. */
static void test_bare(void **state) {
    (void)state;
    ff_cluster c = good("4x8x(mem=40GiB,flops=624T,bw=1.555TB/s,link=450G,net=25GB/s)");
    assert_int_equal(c.device.memory_bytes, INT64_C(40) << 30);
    near(c.device.bf16_flops, 624e12, 1e-12);
    near(c.device.fp16_flops, 624e12, 1e-12);
    near(c.device.fp32_flops, 39e12, 1e-12);
    assert_true(c.device.fp8_flops == 0);
    near(c.device.memory_Bps, 1555e9, 1e-12);
    near(c.device.link_wire_Bps, 450e9, 1e-12);
    near(c.device.link_Bps, 360e9, 1e-12); /* 240/300 of the wire */
    near(c.tier[FF_TIER_NETWORK].wire_Bps, 25e9, 1e-12);
    near(c.tier[FF_TIER_NETWORK].Bps, 24e9, 1e-12);
    assert_int_equal(c.nics_per_node, 8);
    assert_false(c.tier[FF_TIER_DOMAIN].assumed || c.tier[FF_TIER_NETWORK].assumed);
    assert_true(c.tier[FF_TIER_SPINE].assumed);
    ff_cluster least = good("4x8x(mem=40GiB)");
    near(least.device.bf16_flops, 312e12, 1e-12);
    assert_true(least.tier[FF_TIER_DOMAIN].assumed && least.tier[FF_TIER_NETWORK].assumed);
    note("4x8x(mem=40GiB)", "bf16 312 TFLOPS");
    assert_int_equal(good("4x8x(mem=80G,domain=4)").domain_devices, 4);
    assert_int_equal(good("4x4x(mem=80G,domain=16)").domain_devices, 16);
    assert_int_equal(good("2x2x()").devices, 4);
}

static void test_good_yaml(void **state) {
    (void)state;
    ff_cluster c = good_yaml("name: ours\nnodes: 32\ndevices_per_node: 8\ndevice: h100-80gb-sxm\n"
                             "network:\n  name: leafs\n  nics_per_node: 4\n  nic_Gbps: 200\n"
                             "  usable_fraction: 0.8\n  latency_us: 20\n  oversubscription: 4\n"
                             "  pod_devices: 64\n  rail_optimised: false\nlink_GBps: 340\n");
    assert_string_equal(c.name, "ours");
    near(c.tier[FF_TIER_DOMAIN].Bps, 340e9, 1e-12);
    near(c.tier[FF_TIER_NETWORK].wire_Bps, 12.5e9, 1e-12);
    near(c.tier[FF_TIER_NETWORK].Bps, 10e9, 1e-12);
    assert_int_equal(c.tier[FF_TIER_NETWORK].devices, 64);
    near(c.tier[FF_TIER_SPINE].Bps, 2.5e9, 1e-12);
    assert_string_equal(c.tier[FF_TIER_SPINE].name, "spine 4:1");
    assert_false(c.rail_optimised || c.tier[FF_TIER_SPINE].assumed);

    c = good_yaml("nodes: 4\ndevice: {like: a100-80gb-sxm, memory_GiB: 40}\n");
    assert_int_equal(c.device.memory_bytes, INT64_C(40) << 30);
    assert_int_equal(c.devices_per_node, 8);
    assert_string_equal(c.tier[FF_TIER_NETWORK].name, "InfiniBand HDR");

    c = good_yaml("nodes: 4\ndevices_per_node: 4\ndevice:\n  name: Ours\n  memory_GiB: 32\n"
                  "  memory_GBps: 1000\n  bf16_tflops: 200\n  link_wire_GBps: 100\n"
                  "network: {nic_GBps: 25}\ndomain_devices: 2\n");
    near(c.device.link_Bps, 80e9, 1e-12);
    assert_int_equal(c.domain_devices, 2);
    near(c.tier[FF_TIER_NETWORK].wire_Bps, 25e9, 1e-12); /* one adapter a device is assumed */

    c = good_yaml("{\"nodes\": 2, \"device\": \"b200\", \"network\": \"efa-v4-400x8\"}");
    near(c.tier[FF_TIER_NETWORK].Bps, 37e9, 1e-12);
    c = good_yaml("nodes: 8\ndevice: h100\nnetwork: {like: ndr-400x8, oversubscription: 2}");
    near(c.tier[FF_TIER_SPINE].Bps, 23.5e9, 1e-12);
    assert_int_equal(c.tier[FF_TIER_NETWORK].devices, 8); /* no pod: all that leaves a node pays */
    c = good_yaml("nodes: 8\ndevice: h100\nlink_wire_GBps: 225\n");
    near(c.tier[FF_TIER_DOMAIN].Bps, 185.5e9, 1e-12); /* the usable share is kept */
}

static void test_facts(void **state) {
    (void)state;
    ff_cluster c = good("18x4xgb200-nvl72");
    ff_facts *facts = ff_facts_create();
    ff_cluster_facts(&c, facts);
    const ff_fact *root = ff_facts_root(facts);
    assert_int_equal(ff_fact_integer(root, "devices"), 72);
    assert_int_equal(ff_fact_integer(root, "domain_devices"), 72);
    assert_string_equal(ff_fact_text(root, "device.id"), "gb200-186gb");
    near(ff_fact_real(root, "device.bf16_flops"), 2500e12, 1e-12);
    const ff_fact *tiers = ff_fact_find(root, "tiers");
    assert_int_equal(tiers->count, 3);
    assert_string_equal(ff_fact_text(tiers->first, "tier"), "domain");
    near(ff_fact_real(tiers->first->next, "wire_Bps"), 50e9, 1e-12);
    ff_facts_free(facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_networks_and_systems),
        cmocka_unit_test(test_promised),      cmocka_unit_test(test_h100),
        cmocka_unit_test(test_named_systems), cmocka_unit_test(test_racks),
        cmocka_unit_test(test_other_nodes),   cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_bare),          cmocka_unit_test(test_good_yaml),
        cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
