/* Kernels and links: the curves against measured points (copied here with their source), their laws
 * (never above peak or memory, never faster when a side grows by a tile), worked examples, and what
 * the data says of every device. */
#include "cost_support.h"
#include <math.h>
#include <string.h>

static void assert_near(const char *what, double found, double expected, double share) {
    if (!(fabs(found / expected - 1) <= share))
        fail_msg("%s: %.6g, measured %.6g", what, found, expected);
}

typedef struct bench {
    ff_cluster cluster;
    ff_profile profile; /* that reaches what benchmarks do */
    ff_cost cost;
} bench;

static bench *bench_of(const char *cluster) {
    bench *b = calloc(1, sizeof *b);
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_physics_data data = ff_physics_presets();
    assert_int_equal(ff_cluster_preset(cluster, findings, &b->cluster), FF_OK);
    b->profile.gemm_clock_ratio = 1;
    b->profile.kernels = (ff_kernels){.flash_attention = true, .flash_2 = true, .flash_3 = true};
    b->cost = (ff_cost){.cluster = &b->cluster, .profile = &b->profile};
    assert_int_equal(ff_physics_of_device(&data, &b->cluster.device, findings, &b->cost.physics),
                     FF_OK);
    ff_diagnostics_free(findings);
    return b;
}

static ff_kernel_device kernel_device_of(const bench *b, ff_dtype dtype) {
    const ff_device *d = &b->cluster.device;
    return (ff_kernel_device){dtype == FF_DTYPE_FP8 ? d->fp8_flops : d->bf16_flops,
                              d->memory_Bps * b->cost.physics.memory_ratio, (double)d->processors};
}

static double product_s(const bench *b, ff_dtype dtype, double m, double n, double k,
                        bool with_cast) {
    const ff_gemm_curve *curve = &b->cost.physics.gemm[dtype];
    ff_kernel_device device = kernel_device_of(b, dtype);
    double in = dtype == FF_DTYPE_FP8 ? 1 : 2;
    ff_gemm_work work = {
        m, n, k, 1, in * (m * k + k * n) + 2 * m * n, with_cast ? curve->cast_bytes * m * k : 0};
    return ff_gemm_curve_s(curve, &device, &work);
}

/* TFLOP/s of torch linear and CUTLASS fp8, NVIDIA aiconfigurator systems data, commit 095f58a51c. */
static void test_measured_products(void **state) {
    (void)state;
    static const struct {
        const char *device;
        ff_dtype dtype;
        double m, n, k, tflops, share;
    } points[] = {
        {"a100-80gb-sxm", FF_DTYPE_BF16, 8192, 8192, 8192, 256.87, 0.05},
        {"a100-80gb-sxm", FF_DTYPE_BF16, 2048, 8192, 2048, 242.51, 0.08},
        {"a100-80gb-sxm", FF_DTYPE_BF16, 512, 1024, 1024, 91.68, 0.20},
        {"h100-80gb-sxm", FF_DTYPE_BF16, 4096, 4096, 4096, 827.82, 0.06},
        {"h100-80gb-sxm", FF_DTYPE_BF16, 512, 1024, 1024, 220.71, 0.15},
        {"h100-80gb-sxm", FF_DTYPE_BF16, 16384, 16384, 4096, 732.29, 0.10},
        {"b200-180gb-sxm", FF_DTYPE_BF16, 8192, 4096, 8192, 1672.88, 0.10},
        {"h100-80gb-sxm", FF_DTYPE_FP8, 8192, 16384, 2048, 1129.74, 0.12},
        {"h100-80gb-sxm", FF_DTYPE_FP8, 2048, 4096, 4096, 888.86, 0.12},
        {"b200-180gb-sxm", FF_DTYPE_FP8, 2048, 16384, 8192, 2727.06, 0.15},
        {"l40s-48gb", FF_DTYPE_FP8, 4096, 4096, 4096, 324.57, 0.08},
    };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char cluster[64];
        snprintf(cluster, sizeof cluster, "1x8x%s", points[i].device);
        bench *b = bench_of(cluster);
        double s = product_s(b, points[i].dtype, points[i].m, points[i].n, points[i].k, true);
        double flop = 2 * points[i].m * points[i].n * points[i].k;
        assert_near(points[i].device, flop / s / 1e12, points[i].tflops, points[i].share);
        free(b);
    }
}

/* Milliseconds of flash attention, batch 1, from SimuMax's tables (commit 4dcaae513b): efficiency
 * against peak on the whole square of scores. */
static void test_measured_attention(void **state) {
    (void)state;
    static const struct {
        const char *device;
        bool backward;
        double keys, heads, efficiency, peak, share;
    } points[] = {{"a100-80gb-pcie", false, 4096, 32, 1.132, 312e12, 0.05},
                  {"a100-80gb-pcie", false, 4096, 8, 0.777, 312e12, 0.05},
                  {"a100-80gb-pcie", true, 4096, 64, 1.005, 312e12, 0.05},
                  {"b200-180gb-sxm", false, 4096, 64, 0.872, 2250e12, 0.10},
                  {"b200-180gb-sxm", false, 4096, 8, 0.310, 2250e12, 0.15},
                  {"b200-180gb-sxm", true, 4096, 32, 0.796, 2250e12, 0.10},
                  {"b200-180gb-sxm", true, 131072, 16, 0.827, 2250e12, 0.10}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char cluster[64];
        snprintf(cluster, sizeof cluster, "1x8x%s", points[i].device);
        bench *b = bench_of(cluster);
        double halves = points[i].backward ? 5 : 2, keys = points[i].keys;
        double square = 2 * halves * keys * keys * points[i].heads * 128;
        ff_attention_work work = {.flop = square / 2,
                                  .rows = keys,
                                  .keys = keys,
                                  .mean_keys = keys / 2,
                                  .products = points[i].heads,
                                  .head_dim = 128};
        ff_kernel_device device = kernel_device_of(b, FF_DTYPE_BF16);
        double s = ff_attention_curve_s(points[i].backward ? &b->cost.physics.attention_backward
                                                           : &b->cost.physics.attention_forward,
                                        &device, &work);
        assert_near(points[i].device, s, square / (points[i].efficiency * points[i].peak),
                    points[i].share);
        free(b);
    }
}

/* Microseconds of nccl-tests in one node (NVIDIA aiconfigurator, commit 095f58a51c); the last two of
 * 16 ranks on two p5.48xlarge (aws-samples, NCCL 2.18.5). */
static void test_measured_collectives(void **state) {
    (void)state;
    static const struct {
        const char *cluster;
        ff_collective collective;
        ff_reach reach;
        double bytes, us, share;
    } points[] = {
        {"1x8xh100-80gb-sxm", FF_ALL_GATHER, {8, 8, 1, 1, 0}, 1024, 10.40, 0.15},
        {"1x8xh100-80gb-sxm", FF_ALL_GATHER, {8, 8, 1, 1, 0}, 1048576, 17.1, 0.15},
        {"1x8xh100-80gb-sxm", FF_ALL_GATHER, {8, 8, 1, 1, 0}, 67108864, 208, 0.10},
        {"1x8xh100-80gb-sxm", FF_ALL_GATHER, {2, 2, 1, 1, 0}, 268435456, 548, 0.10},
        {"1x8xh100-80gb-sxm", FF_REDUCE_SCATTER, {8, 8, 1, 1, 0}, 536870912, 1399, 0.10},
        {"1x8xh100-80gb-sxm", FF_ALL_REDUCE, {8, 8, 1, 1, 0}, 1024, 15.6, 0.15},
        {"1x8xh100-80gb-sxm", FF_ALL_REDUCE, {4, 4, 1, 1, 0}, 268435456, 1181, 0.10},
        {"1x8xh100-80gb-sxm", FF_ALL_REDUCE, {8, 8, 1, 1, 0}, 536870912, 2111, 0.10},
        {"1x8xh100-80gb-sxm", FF_ALL_TO_ALL, {8, 8, 1, 1, 0}, 268435456, 763, 0.10},
        {"1x8xa100-80gb-sxm", FF_ALL_REDUCE, {8, 8, 1, 1, 0}, 1024, 21.8, 0.15},
        {"1x8xa100-80gb-sxm", FF_ALL_REDUCE, {8, 8, 1, 1, 0}, 536870912, 4226, 0.10},
        {"1x8xb200-180gb-sxm", FF_ALL_REDUCE, {8, 8, 1, 1, 0}, 536870912, 1335, 0.12},
        {"1x8xb200-180gb-sxm", FF_ALL_GATHER, {4, 4, 1, 1, 0}, 268435456, 367, 0.12},
        {"aws-p5", FF_ALL_REDUCE, {16, 8, 2, 1, 0}, 64, 65.5, 0.30},
        {"aws-p5", FF_ALL_REDUCE, {16, 8, 2, 1, 0}, 268435456, 1468, 0.30},
    };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        bench *b = bench_of(points[i].cluster);
        double s =
            ff_collective_s(&b->cost, &points[i].reach, points[i].collective, points[i].bytes);
        assert_near(points[i].cluster, s * 1e6, points[i].us, points[i].share);
        free(b);
    }
}

/* 4 tiles of 256x128 on 8 processors of 1 GFLOP/s, k cut in 1 or 2, depth 0: one wave of half of k. */
static void test_product_by_hand(void **state) {
    (void)state;
    const ff_gemm_curve curve = {.peak_ratio = 1,
                                 .tile_256 = 0.1,
                                 .tile_128 = 0.1,
                                 .tile_128x64 = 1,
                                 .tile_64 = 1,
                                 .wave_loss = 1,
                                 .fixed_s = 1e-3,
                                 .short_s = 1};
    const ff_kernel_device device = {8e9, 1e18, 8};
    ff_gemm_work work = {512, 256, 1000, 1, 0, 0};
    double whole_s = 2.0 * 256 * 128 * 1000 / 1e9;
    assert_near("split", ff_gemm_curve_s(&curve, &device, &work), whole_s / 2 + 1e-3, 1e-6);
    work.m = 512 * 2; /* 8 tiles fill the device */
    assert_near("full", ff_gemm_curve_s(&curve, &device, &work), whole_s + 1e-3, 1e-6);
    work.m = 512 * 2 + 256; /* 10 tiles: a second wave, or 16 halves of k: 20 in 3 waves */
    assert_near("thin", ff_gemm_curve_s(&curve, &device, &work), 2 * whole_s + 1e-3, 1e-6);
    work.cast_bytes = 1e18; /* a second */
    assert_near("cast", ff_gemm_curve_s(&curve, &device, &work), 2 * whole_s + 1 + 1e-3, 1e-6);
}

static int64_t picked(uint64_t *seed, int64_t least, int64_t most) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)((*seed >> 33) % (uint64_t)(most - least + 1));
}

/* A side that grows by a whole tile never saves time; no product beats the peak or the memory. */
static void test_laws_of_products(void **state) {
    (void)state;
    static const char *const clusters[] = {"1x8xh100-80gb-sxm", "1x8xa100-80gb-sxm",
                                           "1x8xb200-180gb-sxm", "1x8xmi300x-192gb",
                                           "1x8xl40s-48gb"};
    static const ff_dtype dtypes[] = {FF_DTYPE_BF16, FF_DTYPE_FP8};
    uint64_t seed = 11;
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        bench *b = bench_of(clusters[i]);
        for (int times = 0; times < 4000; times++) {
            ff_dtype dtype = dtypes[times % 2];
            ff_kernel_device device = kernel_device_of(b, dtype);
            const ff_gemm_curve *curve = &b->cost.physics.gemm[dtype];
            if (device.peak_flops <= 0)
                continue;
            double m = (double)picked(&seed, 1, 20000), n = (double)picked(&seed, 1, 30000),
                   k = (double)picked(&seed, 1, 20000), batch = (double)picked(&seed, 1, 8);
            ff_gemm_work work = {m, n, k, batch, batch * (m * k + k * n + m * n), m * k};
            double s = ff_gemm_curve_s(curve, &device, &work);
            assert_true(isfinite(s) && s > 2 * m * n * k * batch / device.peak_flops);
            assert_true(s >= work.memory_bytes / device.memory_Bps);
            for (int side = 0; side < 3; side++) {
                double grown[3] = {m, n, k};
                grown[side] += 256;
                ff_gemm_work more = {
                    grown[0],
                    grown[1],
                    grown[2],
                    batch,
                    batch * (grown[0] * grown[2] + grown[2] * grown[1] + grown[0] * grown[1]),
                    grown[0] * grown[2]};
                if (ff_gemm_curve_s(curve, &device, &more) < s)
                    fail_msg("%s %gx%gx%g: side %d", clusters[i], m, n, k, side);
            }
        }
        free(b);
    }
}

/* More heads, more keys, more bytes: never less time; backward costs more than forward. */
static void test_laws_of_attention(void **state) {
    (void)state;
    static const char *const clusters[] = {"1x8xh100-80gb-sxm", "1x8xa100-80gb-sxm",
                                           "1x8xb200-180gb-sxm", "1x8xmi300x-192gb"};
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        bench *b = bench_of(clusters[i]);
        double before_s = 0;
        for (int64_t keys = 256; keys <= 131072; keys *= 2) {
            ff_operator op = {.kind = FF_OPERATOR_ATTENTION,
                              .phase = FF_PHASE_FORWARD,
                              .m = keys,
                              .n = keys,
                              .k = 128,
                              .batch = 8,
                              .flop = 4.0 * (double)(keys * keys / 2) * 8 * 128};
            double s = ff_operator_s(&b->cost, FF_DTYPE_BF16, &op);
            assert_true(s > before_s && s > op.flop / b->cluster.device.bf16_flops);
            before_s = s;
            ff_operator heads = op, backward = op;
            heads.batch *= 2;
            heads.flop *= 2;
            assert_true(ff_operator_s(&b->cost, FF_DTYPE_BF16, &heads) >= s);
            backward.phase = FF_PHASE_BACKWARD;
            backward.flop *= 2.5;
            assert_true(ff_operator_s(&b->cost, FF_DTYPE_BF16, &backward) > s);
        }
        free(b);
    }
}

static ff_operator gemm(ff_phase phase, int64_t m, int64_t n, int64_t k, int64_t batch) {
    return (ff_operator){.kind = FF_OPERATOR_GEMM,
                         .phase = phase,
                         .m = m,
                         .n = n,
                         .k = k,
                         .batch = batch,
                         .flop = 2.0 * (double)m * (double)n * (double)k * (double)batch,
                         .memory_bytes = 2.0 * (double)(m * k + k * n + m * n) * (double)batch};
}

/* Adding to the fp32 gradient reads and writes 8 bytes an element; every further product of a group
 * costs a start; a side of 10922 elements cannot be loaded wide. */
static void test_what_training_adds(void **state) {
    (void)state;
    bench *b = bench_of("1x8xh100-80gb-sxm");
    ff_physics *physics = &b->cost.physics;
    physics->weight_gradient_ratio = 1;
    ff_operator forward = gemm(FF_PHASE_FORWARD, 4096, 8192, 4096, 1), weight = forward;
    weight.phase = FF_PHASE_WEIGHT;
    double memory_Bps = b->cluster.device.memory_Bps * physics->memory_ratio;
    assert_near("accumulation",
                ff_operator_s(&b->cost, FF_DTYPE_BF16, &weight) -
                    ff_operator_s(&b->cost, FF_DTYPE_BF16, &forward),
                physics->accumulate_ratio * 8 * 4096.0 * 8192 / memory_Bps, 1e-6);
    b->profile.kernels.eager_accumulation = true; /* cast up, then added: 2 + 4, 4 + 4 + 4 */
    assert_near("accumulation apart",
                ff_operator_s(&b->cost, FF_DTYPE_BF16, &weight) -
                    ff_operator_s(&b->cost, FF_DTYPE_BF16, &forward),
                18 * 4096.0 * 8192 / memory_Bps, 1e-6);
    b->profile.kernels.eager_accumulation = false;
    b->profile.kernels.mixed_accumulation = true; /* added as it is: 4 + 2 + 4 */
    assert_near("accumulation without a cast",
                ff_operator_s(&b->cost, FF_DTYPE_BF16, &weight) -
                    ff_operator_s(&b->cost, FF_DTYPE_BF16, &forward),
                10 * 4096.0 * 8192 / memory_Bps, 1e-6);
    ff_operator one = gemm(FF_PHASE_FORWARD, 8192, 4096, 4096, 1),
                group = gemm(FF_PHASE_FORWARD, 1024, 4096, 4096, 8);
    assert_true(ff_operator_s(&b->cost, FF_DTYPE_BF16, &group) >
                ff_operator_s(&b->cost, FF_DTYPE_BF16, &one) + 6 * physics->product_s);
    ff_operator odd = gemm(FF_PHASE_FORWARD, 8192, 10922, 4096, 1),
                even = gemm(FF_PHASE_FORWARD, 8192, 10944, 4096, 1);
    double ratio = ff_operator_s(&b->cost, FF_DTYPE_BF16, &even) /
                   ff_operator_s(&b->cost, FF_DTYPE_BF16, &odd);
    assert_near("misaligned", ratio, 273.0 / 395, 0.05); /* ml-engineering, H100 */
    free(b);
}

/* Every device gets curves; who has no table of its own says so. */
static void test_basis(void **state) {
    (void)state;
    static const struct {
        const char *cluster;
        ff_dtype dtype;
        ff_basis_kind gemm, links;
        const char *source;
    } devices[] = {
        {"1x8xh100-80gb-sxm", FF_DTYPE_BF16, FF_FITTED_DEVICE, FF_FITTED_DEVICE, "h100-80gb-sxm"},
        {"1x8xh800-80gb-sxm", FF_DTYPE_FP8, FF_FITTED_GENERATION, FF_FITTED_GENERATION,
         "h100-80gb-sxm"},
        {"1x4xgb200-186gb", FF_DTYPE_BF16, FF_FITTED_GENERATION, FF_FITTED_DEVICE, "gb300-288gb"},
        {"1x8xa100-80gb-sxm", FF_DTYPE_FP16, FF_FITTED_DEVICE, FF_FITTED_DEVICE, "a100-80gb-sxm"},
        {"1x8xmi300x-192gb", FF_DTYPE_BF16, FF_ASSUMED_GENERAL, FF_ASSUMED_GENERAL, ""},
    };
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        bench *b = bench_of(devices[i].cluster);
        const ff_gemm_curve *curve = &b->cost.physics.gemm[devices[i].dtype];
        assert_int_equal(curve->basis, devices[i].gemm);
        assert_string_equal(curve->source, devices[i].source);
        assert_int_equal(b->cost.physics.collective.basis, devices[i].links);
        free(b);
    }
    bench *b = bench_of("1x8xmi300x-192gb"); /* its generation's share of physics.yaml */
    assert_true(b->cost.physics.gemm[FF_DTYPE_BF16].peak_ratio == 0.51);
    free(b);
}

/* A device's own entry that lacks a constant, has one out of range or a strange one, is refused. */
static void test_bad_curves(void **state) {
    (void)state;
    ff_physics_data data = ff_physics_presets();
    ff_device device = {.generation = "volta"};
    ff_physics physics;
    ff_diagnostics *findings = ff_diagnostics_create();
    data.collectives = NULL;
    assert_int_equal(ff_physics_of_device(&data, &device, findings, &physics), FF_INVALID);
    data.collectives = ff_preset_tree("kernels/attention"); /* no "links" there */
    assert_int_equal(ff_physics_of_device(&data, &device, findings, &physics), FF_INVALID);
    ff_diagnostics_free(findings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_products),    cmocka_unit_test(test_measured_attention),
        cmocka_unit_test(test_measured_collectives), cmocka_unit_test(test_product_by_hand),
        cmocka_unit_test(test_laws_of_products),     cmocka_unit_test(test_laws_of_attention),
        cmocka_unit_test(test_what_training_adds),   cmocka_unit_test(test_basis),
        cmocka_unit_test(test_bad_curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
