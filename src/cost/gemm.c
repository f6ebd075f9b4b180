/* Device time of compute operators.
 *
 *     time = max(flop / (peak * share of peak), bytes / (bandwidth * share)) + launch
 *
 * A GEMM is cut into tiles that run in waves over the device's processors, so its share of peak
 * falls when the last wave is thin, when the product is smaller than its tiles, and when k is short
 * (each tile fills and drains a pipeline). The library chooses among tile sizes; the best is taken,
 * smaller tiles reuse less and reach less of the rate. `gemm_ratio` is what large products reach
 * (measured); attention has shares of its own, forward and backward, on causal FLOP. Memory-bound
 * work reaches `memory_ratio` of the bandwidth. */
#include "cost/cost.h"

#include "base/number.h"
#include <math.h>

typedef struct tile {
    int64_t rows, columns;
    double rate; /* of the largest tile's */
} tile;

static const tile tiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.97},
                             {128, 64, 0.85}, {64, 128, 0.85}, {64, 64, 0.70}};

double ff_peak_flops(const ff_device *device, ff_dtype dtype) {
    switch (dtype) {
    case FF_DTYPE_FP8:
        return device->fp8_flops;
    case FF_DTYPE_BF16:
        return device->bf16_flops;
    case FF_DTYPE_FP16:
        return device->fp16_flops;
    default:
        return device->tf32_flops > 0 ? device->tf32_flops : device->fp32_flops;
    }
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Clock under sustained load over that of a short benchmark: the stack's share, and what the power
 * cap leaves. Power grows with the third power of the clock (voltage follows it). */
static double sustained(const ff_cost *cost) {
    double share = cost->profile->gemm_clock_ratio * cost->physics.sustained_ratio;
    double reference = cost->physics.reference_power_W, power = cost->cluster->device.power_W;
    return reference > 0 && power > 0 ? share * cbrt(power / reference) : share;
}

static double memory_s(const ff_cost *cost, double bytes) {
    return bytes / (cost->cluster->device.memory_Bps * cost->physics.memory_ratio);
}

/* Seconds when cut into tiles of one size, at `rate` FLOP a second of the whole device. */
static double tiled_s(const ff_operator *op, const tile *t, double processors, double rate,
                      double depth) {
    double count = (double)ff_ceil_div(op->m, t->rows) * (double)ff_ceil_div(op->n, t->columns) *
                   (double)op->batch;
    double waves = ceil(count / processors);
    double tile_flop = 2.0 * (double)(t->rows * t->columns) * ((double)op->k + depth);
    return waves * tile_flop / (rate / processors * t->rate);
}

/* A grouped product's kernels change operands from group to group, which many rows a group pay. */
static double group_share(const ff_cost *cost, const ff_operator *op) {
    double rows = (double)(op->phase == FF_PHASE_WEIGHT ? op->k : op->m);
    return op->batch > 1 ? rows / (rows + cost->physics.group_rows) : 1;
}

static double gemm_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    const ff_device *device = &cost->cluster->device;
    double processors = device->processors > 0 ? (double)device->processors : 100;
    double rate = ff_peak_flops(device, dtype) * cost->physics.gemm_ratio[dtype] *
                  sustained(cost);
    double best = tiled_s(op, &tiles[0], processors, rate, cost->physics.gemm_depth);
    for (size_t i = 1; i < sizeof tiles / sizeof *tiles; i++) {
        double s = tiled_s(op, &tiles[i], processors, rate, cost->physics.gemm_depth);
        best = s < best ? s : best;
    }
    return larger(best / group_share(cost, op), memory_s(cost, op->memory_bytes));
}

/* A narrow head pays for its softmax with fewer products: against a head of 128, 64 reach nine
 * tenths and 256 a little more (2307.08691 and 2407.08608 measure 0.80 to 0.92, and 1.05). */
static double head_share(double head_dim) {
    const double softmax_dims = 16, reference = 128;
    return head_dim / (head_dim + softmax_dims) * (reference + softmax_dims) / reference;
}

static double attention_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    ff_dtype core = dtype == FF_DTYPE_FP8 ? FF_DTYPE_BF16 : dtype;
    double ratio = op->phase == FF_PHASE_BACKWARD ? cost->physics.attention_backward_ratio
                                                  : cost->physics.attention_forward_ratio;
    double rate = ff_peak_flops(&cost->cluster->device, core) * ratio * sustained(cost);
    if (op->k > 0)
        rate *= head_share((double)op->k);
    if (cost->profile->attention_rate_ratio > 0)
        rate *= cost->profile->attention_rate_ratio;
    double traffic_s = memory_s(cost, op->memory_bytes);
    if (!cost->profile->kernels.flash_attention) /* kernels of their own, one after the other */
        return op->flop / rate + traffic_s;
    if (!cost->profile->kernels.flash_3)
        rate *= cost->physics.flash_2_ratio;
    if (!cost->profile->kernels.flash_2)
        rate *= cost->physics.flash_1_ratio;
    return larger(op->flop / rate, traffic_s);
}

double ff_operator_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    double launch_s = cost->profile->kernel_launch_s;
    switch (op->kind) {
    case FF_OPERATOR_GEMM:
        return gemm_s(cost, dtype, op) + launch_s;
    case FF_OPERATOR_ATTENTION:
        return attention_s(cost, dtype, op) + launch_s;
    default:
        return memory_s(cost, op->memory_bytes) + launch_s;
    }
}
