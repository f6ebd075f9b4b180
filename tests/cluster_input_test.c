/* What a cluster description may not be: each fault has its code, its place and a way out; garbage
 * gets an error or a cluster within its bounds, never a crash. */
#include "cluster_fixture.h"

static void test_bad_text(void **state) {
    (void)state;
    bad("16x8xh101-80gb-sxm", "FF0302", "h100-80gb-sxm");
    bad("16x8xnothing-like-it", "FF0302", "fivefold show devices");
    bad("16x8xh100-96gb-sx", "FF0302", "h100-96gb-sxm-hbm2e");
    bad("16xdgx-h101", "FF0301", "dgx-h100");
    bad("nonsense", "FF0301", "fivefold show clusters");
    bad("", "FF0303", "names no device");
    bad("16x8x", "FF0303", "names no device");
    bad("16x8", "FF0303", "names no device");
    bad("16", "FF0303", "names no device");
    bad("h100-80gb-sxm", "FF0303", "1x8xh100-80gb-sxm");
    bad("16xh100-80gb-sxm", "FF0303", "16x8xh100-80gb-sxm");
    bad("2x4x8xh100", "FF0303", "more than two counts");
    bad("0x8xh100-80gb-sxm", "FF0306", "0 nodes");
    bad("16x0xh100-80gb-sxm", "FF0306", "nodes of 0 devices");
    bad("0xdgx-h100", "FF0306", "0 nodes");
    bad("-4x8xh100-80gb-sxm", "FF0303", "-4 is no number");
    bad("1.5x8xh100-80gb-sxm", "FF0303", "nearest: 2");
    bad("1zx8xh100-80gb-sxm", "FF0303", "not a number");
    bad("131073x8xh100-80gb-sxm", "FF0304", "131072 nodes");
    bad("99999999999999999999x8xh100-80gb-sxm", "FF0304", "more than any");
    bad("4611686018427387904x4611686018427387904xh100-80gb-sxm", "FF0304", "");
    bad("2000000000x2000000000xh100-80gb-sxm", "FF0304", "");
    bad("4x8x(mem=40GiB", "FF0303", "parenthesis");
    bad("4x8x(mem=40GiB)x", "FF0303", "parenthesis");
    bad("4x8x(mem)", "FF0303", "figure=value");
    bad("4x8x(memm=40GiB)", "FF0107", "mem");
    bad("4x8x(mem=40GiB,mem=80GiB)", "FF0106", "twice");
    bad("4x8x(mem=many)", "FF0303", "not a quantity");
    bad("4x8x(mem=-40GiB)", "FF0109", "mem=-40GiB");
    bad("4x8x(mem=0)", "FF0109", "from 1Mi to 1024Ti bytes");
    bad("4x8x(mem=1e300)", "FF0109", "mem=1e300");
    bad("4x8x(flops=1e40)", "FF0109", "to 1000000T FLOP/s");
    bad("1x8x(mem=40GiB,flops=0)", "FF0109", "flops=0");
    bad("1x8x(fp32=0)", "FF0109", "fp32=0");
    bad("1x8x(bw=0)", "FF0109", "bw=0");
    bad("1x8x(link=0)", "FF0109", "link=0");
    bad("1x8x(link=1)", "FF0109", "link=1 is out of range: it must be from 1M to 1000T bytes/s");
    bad("1x8x(net=0)", "FF0109", "net=0");
    bad("4x8x(domain=0)", "FF0109", "from 1 to 1Mi devices");
    bad("4x8x(domain=3)", "FF0306", "nearest legal");
    bad("4x8x(domain=64)", "FF0306", "does not exist");
    bad("4x8x(domain=1.5)", "FF0108", "domain_devices");
}

/* Both ends of each figure's range can be had; fp8 and fp4 of 0 do not exist. */
static void test_extreme_figures(void **state) {
    (void)state;
    good("1x8x(mem=1Mi,bw=1M,flops=1M,fp32=1M,link=1M,net=1M,domain=1,fp8=0,fp4=0)");
    good("1x8x(mem=1024Ti,bw=1000T,flops=1000000T,fp32=1000000T,link=1000T,net=1000T,domain=8)");
}

/* Nodes that the link's usual domain does not fill evenly: what is taken instead is said. */
static void test_ragged_domains(void **state) {
    (void)state;
    note("2x10xa100-80gb-sxm", "domains of 5");
    note("2x9xa100-80gb-sxm", "domains of 3");
    note("20x5xgb200-186gb", "domains of 70");
    static const char *const whole[] = {"2x8xa100-80gb-sxm", "2x4xa100-80gb-sxm",
                                        "2x16xa100-80gb-sxm", "18x4xgb200-186gb"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_cluster cluster;
        assert_int_equal(ff_cluster_from_text(whole[i], &library, findings, &cluster), FF_OK);
        assert_false(has_code(findings, "FF0409", "domains of"));
        ff_diagnostics_free(findings);
    }
}

static void test_bad_yaml(void **state) {
    (void)state;
    static const struct {
        const char *text, *code;
        int line, column;
        const char *words;
    } rows[] = {
        {"nodez: 4\ndevice: h100\nnodes: 2", "FF0107", 1, 1, "nodes"},
        {"nodes: 4\ndevices: h100", "FF0107", 2, 1, "device"},
        {"nodes: 4\ndevice: h101", "FF0302", 2, 9, "h100"},
        {"nodes: 4\ndevice: 7", "FF0108", 2, 9, "device"},
        {"nodes: 4\ndevice: [h100]", "FF0108", 2, 9, "device"},
        {"nodes: 0\ndevice: h100", "FF0306", 1, 8, "0 nodes"},
        {"nodes: -4\ndevice: h100", "FF0109", 1, 8, "from 1 to 1048576"},
        {"nodes: -4\ndevice: h100", "FF0109", 1, 8, "nearest legal: 1"},
        {"nodes: 9000000000000000000\ndevice: h100", "FF0109", 1, 8, "nearest legal: 1048576"},
        {"nodes: 2\ndevices_per_node: -4\ndevice: h100", "FF0109", 2, 19, "from 1 to 1048576"},
        {"nodes: 2\ndevice: h100\ndomain_devices: 0", "FF0109", 3, 17, "from 1 to 1048576"},
        {"nodes: 2\ndevice: h100\nnetwork: {nic_Gbps: 400, pod_devices: 0}", "FF0109", 3, 39,
         "from 1 to 1048576"},
        {"nodes: 2\ndevice: {memory_GiB: 40, memory_GBps: 1, bf16_tflops: 0}", "FF0306", 2, 55,
         "0 FLOP/s"},
        {"nodes: 1.5\ndevice: h100", "FF0108", 1, 8, "whole"},
        {"nodes: \"4\"\ndevice: h100", "FF0108", 1, 8, "nodes"},
        {"nodes: 4611686018427387904000\ndevice: h100", "FF0109", 1, 8, "to 1048576"},
        {"nodes: 2000000000000\ndevices_per_node: 2000000000000\ndevice: h100", "FF0304", 1, 8, ""},
        {"nodes: 2\ndevices_per_node: 8\ndevice: h100\ndomain_devices: 3", "FF0306", 4, 17,
         "nearest"},
        {"nodes: 2\ndevices_per_node: 4\ndevice: gb200\ndomain_devices: 72", "FF0306", 4, 17,
         "does not exist"},
        {"nodes: 2\ndevices_per_node: 4\ndevice: h100\ndomain_devices: 6", "FF0306", 4, 17,
         "4 or 8"},
        {"nodes: 2\ndevice: h100\nlink_GBps: 900", "FF0306", 3, 12, "above"},
        {"nodes: 2\ndevice: h100\nnetwork: ndr-400", "FF0301", 3, 10, "ndr-400x8"},
        {"nodes: 2\ndevice: h100\nnetwork: 400", "FF0108", 3, 10, "network"},
        {"nodes: 2\ndevice: h100\nnetwork: {nic_Gbit: 400}", "FF0107", 3, 11, "nic_Gbps"},
        {"nodes: 2\ndevice: h100\nnetwork: {nics_per_node: 8}", "FF0110", 3, 10, "nic_Gbps"},
        {"nodes: 2\ndevice: h100\nnetwork: {nic_Gbps: 400, nic_GBps: 50}", "FF0306", 3, 36,
         "twice"},
        {"nodes: 2\ndevice: h100\nnetwork: {nic_Gbps: 0}", "FF0109", 3, 21, "nic_Gbps"},
        {"nodes: 2\ndevice: h100\nnetwork: {nic_Gbps: 400, usable_fraction: 1.1}", "FF0109", 3, 43,
         "usable"},
        {"nodes: 9\ndevice: h100\nnetwork: {nic_Gbps: 400, pod_devices: 20}", "FF0306", 3, 39,
         "pod_devices: 16"},
        {"nodes: 9\ndevice: h100\nnetwork: {nic_Gbps: 400, oversubscription: 0.5}", "FF0109", 3, 44,
         "oversubscription"},
        {"nodes: 9\ndevice: {memory_GiB: 40, memory_GBps: 1}", "FF0110", 2, 9, "bf16_tflops"},
        {"nodes: 9\ndevice: {like: h100, memory_GiB: 40, memory_bytes: 5000000}", "FF0306", 2, 34,
         "twice"},
        {"nodes: 9\ndevice: {like: h100, memory_gib: 40}", "FF0107", 2, 22, "memory_GiB"},
        {"nodes: 9\ndevice: {like: hundred}", "FF0302", 2, 16, "show devices"},
        {"nodes: 9\ndevice: {like: h100, memory_bytes: 1e300}", "FF0109", 2, 36, "memory_bytes"},
        {"nodes: 9\ndevice: {like: h100, memory_bytes: 12}", "FF0109", 2, 36, "memory_bytes"},
        {"[1, 2]", "FF0108", 1, 1, "map"},
        {"just text", "FF0101", 1, 1, "keys"},
        {"device: h100", "FF0110", 1, 1, "nodes"},
        {"nodes: 4", "FF0110", 1, 1, "device"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_cluster cluster;
        ff_status status = read_yaml(rows[i].text, findings, &cluster);
        const ff_diagnostic *d = NULL;
        for (int k = 0; d == NULL && k < ff_diagnostics_count(findings); k++)
            if (ff_diagnostics_at(findings, k)->severity == FF_ERROR)
                d = ff_diagnostics_at(findings, k);
        if (status != FF_INVALID || d == NULL || strcmp(d->code, rows[i].code) != 0 ||
            d->where.line != rows[i].line || d->where.column != rows[i].column ||
            !has_code(findings, rows[i].code, rows[i].words))
            fail_with(rows[i].text, findings);
        ff_diagnostics_free(findings);
    }
}

/* A device entry that lacks what every device has. */
static void test_bad_device(void **state) {
    (void)state;
    static const char text[] = "x: {memory_bytes: 80000000000, link_GBps: 5}";
    const ff_field *root;
    assert_int_equal(ff_fields_read(arena, "d.yaml", text, strlen(text), NULL, &root), FF_OK);
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_device device;
    assert_int_equal(ff_device_from_fields(root->first, "x", NULL, &device), FF_INVALID);
    assert_int_equal(ff_device_from_fields(root->first, "x", findings, &device), FF_INVALID);
    assert_true(has_code(findings, "FF0110", "memory_GBps"));
    assert_true(has_code(findings, "FF0110", "bf16_tflops"));
    ff_diagnostics_free(findings);
}

static unsigned next_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Whatever is typed: an answer with at least one error, or a cluster within its bounds. */
static void check_any(ff_status status, const ff_diagnostics *findings, const ff_cluster *c) {
    if (status != FF_OK) {
        assert_true(ff_has_errors(findings));
        return;
    }
    assert_false(ff_has_errors(findings));
    assert_in_range(c->devices, 1, 1 << 20);
    assert_true(c->domain_devices >= 1 && c->domain_devices <= c->devices);
    assert_true(c->tier[FF_TIER_NETWORK].Bps > 0 && c->tier[FF_TIER_DOMAIN].Bps > 0);
}

static void test_garbage(void **state) {
    (void)state;
    static const char *const pieces[] = {"16",
                                         "8",
                                         "x",
                                         "X",
                                         "h100-80gb-sxm",
                                         "gb200",
                                         "dgx-h100",
                                         "gb200-nvl72",
                                         "(",
                                         ")",
                                         "mem=",
                                         ",",
                                         "=",
                                         "40",
                                         "GiB",
                                         "T",
                                         "-",
                                         ".",
                                         "e9",
                                         "net=",
                                         "0",
                                         "999",
                                         "link",
                                         "domain=",
                                         "\xff",
                                         "%s%n",
                                         " ",
                                         "bw=1G",
                                         "inf",
                                         "nan",
                                         "0x1",
                                         "9223372036854775807",
                                         "(((((((",
                                         "flops",
                                         "=",
                                         "x1x"};
    unsigned seed = 11;
    for (int round = 0; round < 10000; round++) {
        char text[512] = "";
        int count = 1 + (int)(next_random(&seed) % 9);
        for (int i = 0; i < count; i++)
            strcat(text, pieces[next_random(&seed) % (sizeof pieces / sizeof *pieces)]);
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_cluster cluster;
        check_any(ff_cluster_from_text(text, &library, findings, &cluster), findings, &cluster);
        ff_diagnostics_free(findings);
    }
    char *long_text = malloc(1 << 20);
    memset(long_text, '8', (1 << 20) - 1);
    long_text[(1 << 20) - 1] = '\0';
    bad(long_text, "FF0303", "names no device");
    memset(long_text, 'a', (1 << 20) - 1);
    bad(long_text, "FF0301", "aaaa");
    free(long_text);
}

/* Cluster files with values of every kind in every place. */
static void test_garbage_yaml(void **state) {
    (void)state;
    static const char *const keys[] = {
        "nodes", "devices_per_node", "device", "network",      "domain_devices", "link_GBps",
        "link",  "link_switch",      "name",   "memory_bytes", "nics_per_node",  "link_wire_GBps"};
    static const char *const values[] = {"4",
                                         "8",
                                         "h100",
                                         "ndr-400x8",
                                         "1e300",
                                         "-1",
                                         "0",
                                         "[]",
                                         "{}",
                                         "null",
                                         "true",
                                         "1.5",
                                         "{nic_Gbps: 400, pod_devices: 16}",
                                         "{like: a100, domain_devices: 3}",
                                         "72",
                                         "{like: gb200}",
                                         "[h100]",
                                         "{nic_Gbps: null}",
                                         "9223372036854775807",
                                         "''"};
    unsigned seed = 5;
    for (int round = 0; round < 2000; round++) {
        char text[2048] = "";
        unsigned present = next_random(&seed) | 7;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (present & 1u << k)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s: %s\n", keys[k],
                         values[next_random(&seed) % (sizeof values / sizeof *values)]);
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_cluster cluster;
        check_any(read_yaml(text, findings, &cluster), findings, &cluster);
        ff_diagnostics_free(findings);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extreme_figures), cmocka_unit_test(test_ragged_domains),
        cmocka_unit_test(test_bad_text),        cmocka_unit_test(test_bad_yaml),
        cmocka_unit_test(test_bad_device),      cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_garbage_yaml),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
