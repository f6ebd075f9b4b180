/* Time of one GEMM and of one flash-attention kernel on one device: the fitted curves' formulas.
 *
 * GEMM. The result is cut into tiles that run in waves over the P processors:
 *
 *     n          waves    = tiles * splits / P, the last one thin
 *   +----+----+  a tile   = 2 * rows * columns * (k/splits + depth) / (rate of a processor)
 *   |tile|    |m compute  = (wave_loss * ceil(waves) + (1 - wave_loss) * max(waves, 1)) * a tile
 *   +----+----+  k split  : partial sums go through memory, `split_passes` times
 *
 *     time = short(max(best over tile sizes and splits of compute, traffic / bandwidth) + cast)
 *            + fixed
 *
 * short(t) = t * (1 - short_gain * short_s / (t + short_s)): a kernel of a fraction of a millisecond
 * runs at a higher clock and out of caches than one that lasts. Smaller tiles reuse less and have a
 * lower rate; libraries choose, so the best is taken. Each candidate rises with m, n and k, so their
 * minimum does (a side that grows by less than a tile may cost nothing).
 *
 * Flash attention. Work goes by blocks of `block_rows` queries of one head; the row of blocks of the
 * last queries meets most keys and takes longest (twice the mean when causal):
 *
 *     total   = flop * (1 + depth / mean keys) / rate;  longest = one row of blocks on one processor
 *     time    = max(longest, total + tail * longest), plus what very long kernels lose
 *
 * Sources and errors: data/kernels, docs/kernels.md. */
#include "cost/physics.h"

#include <math.h>

enum { TILES = 7, MOST_SPLITS = 32 };

static const struct tile {
    double rows, columns;
} tiles[TILES] = {{256, 256}, {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static void tile_rates(const ff_gemm_curve *curve, double rates[TILES]) {
    double narrow = curve->tile_128 * curve->tile_128x64;
    const double all[TILES] = {curve->tile_256,        1, 1, curve->tile_128, narrow, narrow,
                               narrow * curve->tile_64};
    for (int i = 0; i < TILES; i++)
        rates[i] = all[i];
}

/* Seconds in tiles of one size, k cut into as many parts as pays. `rate` is of one processor. */
static double tiled_s(const ff_gemm_curve *curve, const ff_kernel_device *device,
                      const ff_gemm_work *work, const struct tile *tile, double rate) {
    double count = ceil(work->m / tile->rows) * ceil(work->n / tile->columns) * work->batch;
    double tile_flop = 2 * tile->rows * tile->columns, best = INFINITY;
    double sums = 8 * work->m * work->n * work->batch / device->memory_Bps; /* fp32, out and in */
    for (double splits = 1; splits <= MOST_SPLITS; splits *= 2) {
        double waves = count * splits / device->processors;
        double loss = curve->wave_loss;
        double cost = loss * ceil(waves) + (1 - loss) * larger(waves, 1);
        double s = cost * tile_flop * (work->k / splits + curve->depth) / rate;
        s += splits > 1 ? curve->split_passes * splits * sums : 0;
        best = smaller(best, s);
        if (waves >= 1)
            break;
    }
    return best;
}

double ff_gemm_curve_s(const ff_gemm_curve *curve, const ff_kernel_device *device,
                       const ff_gemm_work *work) {
    double rates[TILES], best = INFINITY;
    double rate = device->peak_flops * curve->peak_ratio / device->processors;
    tile_rates(curve, rates);
    for (int i = 0; i < TILES; i++)
        best = smaller(best, tiled_s(curve, device, work, &tiles[i], rate * rates[i]));
    double memory_s = work->memory_bytes / device->memory_Bps;
    double cast_s = work->cast_bytes / device->memory_Bps;
    double s = larger(best, memory_s) + cast_s;
    s *= 1 - curve->short_gain * curve->short_s / (s + curve->short_s);
    double flop = 2 * work->m * work->n * work->k * work->batch;
    return larger(s, larger(flop / device->peak_flops, memory_s)) + curve->fixed_s;
}

/* Share of `ratio` at a head dimension: straight lines between 64, 128 and 192. */
static double dimension_ratio(const ff_attention_curve *curve, double dim) {
    if (dim <= 128) {
        double at = larger(0, (dim - 64) / 64);
        return curve->ratio_64 + at * (1 - curve->ratio_64);
    }
    return 1 + smaller(1, (dim - 128) / 64) * (curve->ratio_wide - 1);
}

double ff_attention_curve_s(const ff_attention_curve *curve, const ff_kernel_device *device,
                            const ff_attention_work *work) {
    double rate = device->peak_flops * curve->ratio * dimension_ratio(curve, work->head_dim);
    double memory_s = work->memory_bytes / device->memory_Bps;
    double s = work->flop / rate;
    if (work->rows > 0 && work->products > 0 && work->keys > 0 && work->flop > 0) {
        double flop_per_row = work->flop / (work->rows * work->products);
        double mean_keys = larger(1, smaller(work->keys, work->mean_keys));
        double extra = curve->depth / mean_keys;
        double rows = smaller(curve->block_rows, work->rows);
        double longest_s =
            rows * flop_per_row * (work->keys / mean_keys + extra) * device->processors / rate;
        double total_s = s * (1 + extra);
        s = larger(longest_s, total_s + curve->tail * longest_s);
    }
    s *= 1 + curve->long_loss * s / (s + curve->long_s);
    return larger(s, memory_s);
}
