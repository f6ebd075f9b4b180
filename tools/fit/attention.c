/* Flash-attention curves from SimuMax's tables, with the formula that the planner uses.
 *
 * Wanted: columns gpu, op (sdp_fwd, sdp_bwd), batch, seq_len, heads, qk_head_dim, v_head_dim,
 * efficiency_vs_peak, peak_tflops, source. SimuMax counts the whole square of scores, not the
 * causal half: its efficiencies pass 1 (1.19 on A100), and half of them agrees with the published
 * kernels. Forward 2*S*S*heads*(d_qk+d_v) FLOP, backward 2.5 times that. */
#include "fit.h"

#include "cost/physics.h"
#include "presets/presets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sample {
    ff_attention_work work;
    double s;
} sample;

typedef struct samples {
    sample *at;
    int count;
    ff_kernel_device device;
} samples;

enum { PARAMETERS = 8 };

static ff_attention_curve curve_of(const double *x) {
    return (ff_attention_curve){.ratio = x[0],
                                .ratio_64 = x[1],
                                .ratio_wide = x[2],
                                .depth = x[3],
                                .block_rows = x[4],
                                .tail = x[5],
                                .long_loss = x[6],
                                .long_s = x[7] * 1e-6};
}

static double error_of(const ff_attention_curve *curve, const samples *s, int i) {
    return ff_attention_curve_s(curve, &s->device, &s->at[i].work) / s->at[i].s;
}

static double loss(const double *x, const void *context) {
    const samples *s = context;
    ff_attention_curve curve = curve_of(x);
    double sum = 0;
    for (int i = 0; i < s->count; i++)
        sum += fabs(log(error_of(&curve, s, i)));
    return sum / s->count;
}

static samples samples_of(const table *t, const char *gpu, const char *op,
                          const ff_device *device) {
    samples s = {
        .at = calloc((size_t)t->rows + 1, sizeof *s.at),
        .device = {device->bf16_flops, device->memory_Bps * 0.85, (double)device->processors}};
    double passes = strcmp(op, "sdp_bwd") == 0 ? 2.5 : 1;
    for (int i = 0; i < t->rows; i++) {
        if (strcmp(table_text(t, i, "gpu"), gpu) != 0 || strcmp(table_text(t, i, "op"), op) != 0)
            continue;
        double keys = table_number(t, i, "seq_len"), heads = table_number(t, i, "heads"),
               dims = table_number(t, i, "qk_head_dim") + table_number(t, i, "v_head_dim"),
               batch = table_number(t, i, "batch");
        double square = passes * 2 * keys * keys * heads * batch * dims;
        double rate =
            table_number(t, i, "efficiency_vs_peak") * table_number(t, i, "peak_tflops") * 1e12;
        s.at[s.count++] = (sample){{.flop = square / 2,
                                    .rows = keys,
                                    .keys = keys,
                                    .mean_keys = keys / 2,
                                    .products = heads * batch,
                                    .head_dim = table_number(t, i, "qk_head_dim")},
                                   square / rate};
    }
    return s;
}

static errors errors_on(const samples *s, const ff_attention_curve *curve) {
    double *e = calloc((size_t)s->count + 1, sizeof *e);
    for (int i = 0; i < s->count; i++)
        e[i] = fabs(error_of(curve, s, i) - 1);
    errors result = errors_of(e, s->count);
    free(e);
    return result;
}

static void fit_one(const table *t, const char *gpu, const char *op, const char *name,
                    const ff_device *device, bool long_rows, FILE *out, FILE *report) {
    const parameter parameters[PARAMETERS] = {
        {"ratio", 0.55, 0.2, 0.9, false},
        {"ratio_64", 0.85, 0.3, 1.1, true},
        {"ratio_wide", 0.9, 0.4, 1.2, false},
        {"depth", 150, 0, 300, false},
        {"block_rows", 128, 32, 256, false},
        {"tail", 0.7, 0, 1, false},
        {"long_loss", long_rows ? 0.2 : 0, 0, 0.6, !long_rows},
        {"long_us", 20000, 1000, 200000, !long_rows}};
    samples s = samples_of(t, gpu, op, device);
    double x[PARAMETERS];
    minimise(loss, &s, parameters, PARAMETERS, 40, 800, x);
    ff_attention_curve curve = curve_of(x);
    errors all = errors_on(&s, &curve);
    fprintf(out, "    %s:\n", name);
    write_parameters(out, 6, parameters, PARAMETERS, x);
    fprintf(out, "      fit:\n");
    write_errors(out, 8, "all", all);
    fprintf(report, "%-10s %s  %d: %.1f %.1f %.0f\n", gpu, name, all.points, 100 * all.median,
            100 * all.p90, 100 * all.worst);
    free(s.at);
}

static void fit_device(const table *t, const char *gpu, const char *id, bool long_rows, FILE *out,
                       FILE *report) {
    char text[64];
    ff_cluster cluster;
    snprintf(text, sizeof text, "1x1x%s", id);
    ff_diagnostics *findings = ff_diagnostics_create();
    if (ff_cluster_preset(text, findings, &cluster) != FF_OK)
        fprintf(stderr, "fit_kernels: no device %s\n", id);
    ff_diagnostics_free(findings);
    fprintf(out, "  %s:\n", id);
    fit_one(t, gpu, "sdp_fwd", "forward", &cluster.device, long_rows, out, report);
    fit_one(t, gpu, "sdp_bwd", "backward", &cluster.device, long_rows, out, report);
}

void fit_attention(const table *measured, FILE *out, FILE *report) {
    fprintf(out,
            "# Flash-attention curves by device, written by tools/fit (docs/kernels.md); the "
            "formula is in\n"
            "# src/cost/kernels.c. Shares are of the bf16 peak, on causal FLOP (the half of the "
            "square),\n"
            "# backward 2.5 forwards. ratio_64 was not measured: FlashAttention-2 and -3 publish "
            "0.80 to 0.90.\n\n"
            "source: >-\n"
            "  MooreThreads SimuMax, commit 4dcaae513b (A100 PCIe: FlashAttention-2; B200: cuDNN). "
            "SimuMax counts\n"
            "  the whole square (efficiencies up to 1.2): halved here. Hopper: no table; "
            "FlashAttention-3,\n"
            "  2407.08608, causal, head dimension 128: 8k tokens 500 to 600 TFLOP/s forward, 420 "
            "to 480 backward,\n"
            "  with depth and tail near the A100's fit.\n\n"
            "generations:\n  ampere: a100-80gb-pcie\n  hopper: h100-80gb-sxm\n  blackwell: "
            "b200-180gb-sxm\n\n"
            "# Where no table was measured: `ratio` is the generation's share in physics.yaml.\n"
            "general:\n");
    static const char *const names[] = {"forward", "backward"};
    for (int i = 0; i < 2; i++)
        fprintf(out,
                "  %s:\n    ratio: 0.5\n    ratio_64: 0.85\n    ratio_wide: 0.9\n    depth: 200\n"
                "    block_rows: 128\n    tail: 0.7\n    long_loss: 0\n    long_us: 20000\n"
                "    source: between A100 and B200\n",
                names[i]);
    fprintf(out, "\ndevices:\n  h100-80gb-sxm:\n");
    static const double hopper[] = {0.62, 0.51};
    for (int i = 0; i < 2; i++)
        fprintf(
            out,
            "    %s:\n      ratio: %g\n      ratio_64: 0.85\n      ratio_wide: 0.95\n"
            "      depth: 150\n      block_rows: 128\n      tail: 0.45\n      long_loss: 0\n    "
            "  long_us: 20000\n"
            "      source: published, not fitted\n",
            names[i], hopper[i]);
    fit_device(measured, "A100-PCIe", "a100-80gb-pcie", false, out, report);
    fit_device(measured, "B200-SXM", "b200-180gb-sxm", true, out, report);
}
