/* Device time of compute operators: which kernel curve, with which shape (kernels.c has the
 * formulas, physics.h the constants).
 *
 *     GEMM       the curve of the number format; fp8 and fp4 quantise the operand that changes first; the
 *                two backward products run at their own share of the forward rate; the weight's
 *                is added to the gradient in fp32; each further product of a group costs a start
 *     attention  the flash curve, forward or backward; FLOP are the layer recipe's (causal)
 *     memory     bytes over the streamed share of the bandwidth
 *
 * A side that is no multiple of 16 bytes cannot use the wide loads, one of 64 bytes wastes sectors:
 * the rate falls (data/physics.yaml). The profile scales compute by its sustained clock and adds a
 * launch to every kernel. */
#include "cost/cost.h"

#include <math.h>

double ff_peak_flops(const ff_device *device, ff_dtype dtype) {
    switch (dtype) {
    case FF_DTYPE_FP8:
        return device->fp8_flops;
    case FF_DTYPE_FP4:
        return device->fp4_flops;
    case FF_DTYPE_BF16:
        return device->bf16_flops;
    case FF_DTYPE_FP16:
        return device->fp16_flops;
    default:
        return device->tf32_flops > 0 ? device->tf32_flops : device->fp32_flops;
    }
}

enum { PROCESSORS_ASSUMED = 100, WIDE_LOAD_BYTES = 16, SECTORS_BYTES = 64, ACCUMULATED_BYTES = 8 };
/* Apart: the 16-bit gradient is cast up (2 + 4 bytes), then added (4 + 4 + 4); or added as it is. */
enum { EAGERLY_ACCUMULATED_BYTES = 18, MIXED_ACCUMULATED_BYTES = 10 };

static double memory_Bps(const ff_cost *cost) {
    return cost->cluster->device.memory_Bps * cost->physics.memory_ratio;
}

/* Clock under sustained load over that of a short benchmark: the stack's share, and what the power
 * cap leaves. Power grows with the third power of the clock (voltage follows it). */
static double sustained(const ff_cost *cost) {
    double share = cost->profile->gemm_clock_ratio * cost->physics.sustained_ratio;
    double reference = cost->physics.reference_power_W, power = cost->cluster->device.power_W;
    return reference > 0 && power > 0 ? share * cbrt(power / reference) : share;
}

static ff_kernel_device kernel_device(const ff_cost *cost, ff_dtype dtype, double rate_ratio) {
    const ff_device *device = &cost->cluster->device;
    double processors =
        device->processors > 0 ? (double)device->processors : (double)PROCESSORS_ASSUMED;
    double peak = ff_peak_flops(device, dtype) * rate_ratio * sustained(cost);
    return (ff_kernel_device){peak, memory_Bps(cost), processors};
}

static int element_bytes_of(ff_dtype dtype) {
    switch (dtype) {
    case FF_DTYPE_FP32:
        return 4;
    case FF_DTYPE_FP8:
    case FF_DTYPE_FP4: /* two an element's byte: sides are even */
        return 1;
    default:
        return 2;
    }
}

/* Sides that matrices have along their rows of memory: n and k (m is one of them in a weight
 * gradient, where tokens are reduced over). */
static double alignment_ratio(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    int64_t bytes = element_bytes_of(dtype);
    int64_t first = (op->phase == FF_PHASE_WEIGHT ? op->m : op->k) * bytes, second = op->n * bytes;
    if (first % WIDE_LOAD_BYTES != 0 || second % WIDE_LOAD_BYTES != 0)
        return cost->physics.misaligned_ratio;
    if (first % SECTORS_BYTES != 0 || second % SECTORS_BYTES != 0)
        return cost->physics.ragged_ratio;
    return 1;
}

static double pass_ratio(const ff_physics *physics, ff_phase phase) {
    if (phase == FF_PHASE_BACKWARD)
        return physics->input_gradient_ratio;
    return phase == FF_PHASE_WEIGHT ? physics->weight_gradient_ratio : 1;
}

/* Forward quantises its input, backward the output's gradient; both are at hand in fp8 when the
 * weight gradient runs. */
static double cast_bytes(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    if (dtype == ff_dtype_of_ends(dtype) || op->phase == FF_PHASE_WEIGHT)
        return 0;
    return cost->physics.training_cast_bytes * (double)op->m * (double)op->k * (double)op->batch;
}

/* Traffic of adding an element of a weight gradient to its sum. */
static double accumulated_bytes(const ff_cost *cost) {
    if (cost->profile->kernels.eager_accumulation)
        return EAGERLY_ACCUMULATED_BYTES;
    if (cost->profile->kernels.mixed_accumulation)
        return MIXED_ACCUMULATED_BYTES;
    return cost->physics.accumulate_ratio * ACCUMULATED_BYTES;
}

/* Beside the products: a weight gradient is added to the fp32 one, and products of a group start one
 * by one. */
static double extra_s(const ff_cost *cost, const ff_operator *op) {
    const ff_physics *physics = &cost->physics;
    double elements = (double)op->m * (double)op->n * (double)op->batch;
    double s = (double)(op->batch - 1) * physics->product_s;
    if (op->phase == FF_PHASE_WEIGHT)
        s += accumulated_bytes(cost) * elements / memory_Bps(cost);
    return s;
}

static double gemm_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    double ratio = pass_ratio(&cost->physics, op->phase) * alignment_ratio(cost, dtype, op);
    ff_kernel_device device = kernel_device(cost, dtype, ratio);
    ff_gemm_work work = {(double)op->m,     (double)op->n,    (double)op->k,
                         (double)op->batch, op->memory_bytes, cast_bytes(cost, dtype, op)};
    return ff_gemm_curve_s(&cost->physics.gemm[dtype], &device, &work) + extra_s(cost, op);
}

static uint64_t slot_of(ff_dtype dtype, const ff_operator *op) {
    const uint64_t parts[] = {(uint64_t)op->m,     (uint64_t)op->n,     (uint64_t)op->k,
                              (uint64_t)op->batch, (uint64_t)op->phase, (uint64_t)dtype};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return hash >> 52; /* FF_GEMM_MEMO_SLOTS is 2^12 */
}

static double remembered_gemm_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    if (cost->gemm_memo == NULL)
        return gemm_s(cost, dtype, op);
    ff_gemm_memo_slot *slot = &cost->gemm_memo->slot[slot_of(dtype, op)];
    bool known = slot->m == op->m && slot->n == op->n && slot->k == op->k &&
                 slot->batch == op->batch && slot->memory_bytes == op->memory_bytes &&
                 slot->phase == (int)op->phase && slot->dtype == (int)dtype;
    if (!known || slot->m == 0) {
        slot->seconds = gemm_s(cost, dtype, op);
        slot->m = op->m;
        slot->n = op->n;
        slot->k = op->k;
        slot->batch = op->batch;
        slot->memory_bytes = op->memory_bytes;
        slot->phase = (int)op->phase;
        slot->dtype = (int)dtype;
    }
    return slot->seconds;
}

/* Of the newest kernels, what the stack's reach. */
static double kernels_ratio(const ff_cost *cost) {
    const ff_profile *profile = cost->profile;
    double ratio = profile->attention_rate_ratio > 0 ? profile->attention_rate_ratio : 1;
    if (!profile->kernels.flash_attention)
        return ratio;
    ratio *= profile->kernels.flash_3 ? 1 : cost->physics.flash_2_ratio;
    return ratio * (profile->kernels.flash_2 ? 1 : cost->physics.flash_1_ratio);
}

/* A flash backward computes the scores again: two and a half forwards. */
enum { HALVES_FORWARD = 2, HALVES_BACKWARD = 5 };

/* Keys that the mean query meets follow from the FLOP: 4 * rows * keys * head dimension a head. */
static ff_attention_work attention_work(const ff_operator *op) {
    double halves = op->phase == FF_PHASE_BACKWARD ? HALVES_BACKWARD : HALVES_FORWARD;
    double rows = (double)op->m, products = (double)op->batch, head_dim = (double)op->k;
    double one_key = 2 * halves * rows * products * head_dim;
    return (ff_attention_work){.flop = op->flop,
                               .memory_bytes = op->memory_bytes,
                               .rows = rows,
                               .keys = (double)op->n,
                               .mean_keys = one_key > 0 ? op->flop / one_key : (double)op->n,
                               .products = products,
                               .head_dim = head_dim > 0 ? head_dim : 128};
}

static double attention_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    ff_dtype core = ff_dtype_of_ends(dtype);
    ff_kernel_device device = kernel_device(cost, core, kernels_ratio(cost));
    ff_attention_work work = attention_work(op);
    const ff_attention_curve *curve = op->phase == FF_PHASE_BACKWARD
                                          ? &cost->physics.attention_backward
                                          : &cost->physics.attention_forward;
    if (cost->profile->kernels.flash_attention)
        return ff_attention_curve_s(curve, &device, &work);
    work.rows = work.memory_bytes = 0; /* kernels of their own, one after the other */
    return ff_attention_curve_s(curve, &device, &work) + op->memory_bytes / memory_Bps(cost);
}

double ff_operator_s(const ff_cost *cost, ff_dtype dtype, const ff_operator *op) {
    double launch_s = op->fused ? 0 : cost->profile->kernel_launch_s;
    switch (op->kind) {
    case FF_OPERATOR_GEMM:
        return remembered_gemm_s(cost, dtype, op) + launch_s;
    case FF_OPERATOR_ATTENTION:
        return attention_s(cost, dtype, op) + launch_s;
    default:
        return op->memory_bytes / memory_Bps(cost) + launch_s;
    }
}
