/* GEMM curves from measured products, with the formula that the planner uses.
 *
 * Wanted: columns gpu, dtype, m, n, k, tflops, source, notes. Rows of NVIDIA aiconfigurator (torch
 * linear, CUTLASS fp8; 7 x 16 x 16 sizes a device) are fitted; the fp8 rows contain the
 * quantisation of the input, which `cast_bytes` takes apart. Rows of SimuMax (training: forward,
 * input gradient, weight gradient with accumulation) give the passes' rates against the forward
 * one. GB200's bf16 table contradicts GB300 and an exhaustive search and is left out. */
#include "fit.h"

#include "cost/physics.h"
#include "presets/presets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct source_device {
    const char *gpu, *id;
} devices[] = {{"A100-SXM", "a100-80gb-sxm"},  {"H100-SXM", "h100-80gb-sxm"},
               {"H200-SXM", "h200-141gb-sxm"}, {"B200-SXM", "b200-180gb-sxm"},
               {"B300-SXM", "b300-288gb-sxm"}, {"GB200", "gb200-186gb"},
               {"GB300", "gb300-288gb"},       {"L40S", "l40s-48gb"}};
enum { DEVICES = sizeof devices / sizeof *devices };

typedef struct sample {
    double m, n, k, s;
    bool held_out;
} sample;

typedef struct samples {
    sample *at;
    int count;
    ff_kernel_device device;
    bool fp8;
    bool all; /* held-out samples are fitted too */
} samples;

enum { PARAMETERS = 12 };
static const parameter parameters[PARAMETERS] = {
    {"peak_ratio", 0.8, 0.3, 1.1, false}, {"tile_256", 0.8, 0.3, 1.15, false},
    {"tile_128", 0.95, 0.3, 1, false},    {"tile_128x64", 0.9, 0.3, 1, false},
    {"tile_64", 0.8, 0.3, 1, false},      {"depth", 64, 0, 1024, false},
    {"wave_loss", 0.5, 0, 1, false},      {"split_passes", 0.5, 0, 4, false},
    {"fixed_us", 3, 0.5, 30, false},      {"cast_bytes", 6, 0, 40, false},
    {"short_gain", 0.08, 0, 0.4, false},  {"short_us", 1000, 1, 100000, false}};

static ff_gemm_curve curve_of(const double *x) {
    return (ff_gemm_curve){.peak_ratio = x[0],
                           .tile_256 = x[1],
                           .tile_128 = x[2],
                           .tile_128x64 = x[3],
                           .tile_64 = x[4],
                           .depth = x[5],
                           .wave_loss = x[6],
                           .split_passes = x[7],
                           .fixed_s = x[8] * 1e-6,
                           .cast_bytes = x[9],
                           .short_gain = x[10],
                           .short_s = x[11] * 1e-6};
}

static double predicted_s(const ff_gemm_curve *curve, const samples *s, const sample *p) {
    int in = s->fp8 ? 1 : 2;
    double bytes = in * (p->m * p->k + p->k * p->n) + 2 * p->m * p->n;
    ff_gemm_work work = {p->m, p->n, p->k, 1, bytes, curve->cast_bytes * p->m * p->k};
    return ff_gemm_curve_s(curve, &s->device, &work);
}

static bool is_large(const sample *p) {
    return p->m >= 2048 && p->n >= 2048 && p->k >= 2048 && p->m * p->n * p->k >= 1e12;
}

/* Mean absolute log error, outliers at a third of their weight, large shapes three times. */
static double loss(const double *x, const void *context) {
    const samples *s = context;
    ff_gemm_curve curve = curve_of(x);
    double sum = 0, weights = 0;
    for (int i = 0; i < s->count; i++) {
        const sample *p = &s->at[i];
        if (p->held_out && !s->all)
            continue;
        double error = fabs(log(predicted_s(&curve, s, p) / p->s));
        double weight = is_large(p) ? 3 : 1;
        sum += weight * (error < 0.3 ? error : 0.3 + (error - 0.3) / 3);
        weights += weight;
    }
    return sum / weights;
}

static samples samples_of(const table *t, const struct source_device *d, const char *dtype,
                          const ff_device *device) {
    bool fp8 = strcmp(dtype, "fp8") == 0;
    samples s = {.at = calloc((size_t)t->rows, sizeof *s.at), .fp8 = fp8};
    double memory_ratio = 0;
    const ff_field *shares = ff_field_find(ff_preset_tree("physics"), "generations");
    const ff_field *own = ff_field_find(shares, device->generation);
    ff_field_get_real(own, "memory", 0, 1, NULL, &memory_ratio);
    s.device = (ff_kernel_device){fp8 ? device->fp8_flops : device->bf16_flops,
                                  device->memory_Bps * memory_ratio, (double)device->processors};
    for (int i = 0; i < t->rows; i++) {
        if (strcmp(table_text(t, i, "gpu"), d->gpu) != 0 ||
            strcmp(table_text(t, i, "dtype"), dtype) != 0 ||
            strstr(table_text(t, i, "source"), "aiconfigurator") == NULL)
            continue;
        double m = table_number(t, i, "m"), n = table_number(t, i, "n"),
               k = table_number(t, i, "k"), tflops = table_number(t, i, "tflops");
        unsigned identity = (unsigned)(m * 7 + n * 13 + k * 29 + 17);
        s.at[s.count++] = (sample){m, n, k, 2 * m * n * k / (tflops * 1e12), held_out(identity)};
    }
    return s;
}

typedef enum which { ALL, LARGE, HELD_OUT } which;

static errors errors_on(const samples *s, const ff_gemm_curve *curve, which w) {
    double *e = calloc((size_t)s->count + 1, sizeof *e);
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        const sample *p = &s->at[i];
        if ((w == LARGE && !is_large(p)) || (w == HELD_OUT && !p->held_out))
            continue;
        e[count++] = fabs(predicted_s(curve, s, p) / p->s - 1);
    }
    errors result = errors_of(e, count);
    free(e);
    return result;
}

/* What no smooth curve can do away with: the distance of large samples from the middle of their
 * neighbours in k, which carries 1.22 times the noise of one. */
static double noise_of(const samples *s) {
    double *e = calloc((size_t)s->count + 1, sizeof *e);
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        const sample *p = &s->at[i], *before = NULL, *after = NULL;
        for (int j = 0; j < s->count && is_large(p); j++) {
            const sample *q = &s->at[j];
            if (q->m != p->m || q->n != p->n || !is_large(q))
                continue;
            if (q->k < p->k && (before == NULL || q->k > before->k))
                before = q;
            if (q->k > p->k && (after == NULL || q->k < after->k))
                after = q;
        }
        if (before != NULL && after != NULL)
            e[count++] = fabs(2 * p->k / p->s / (before->k / before->s + after->k / after->s) - 1);
    }
    double noise = errors_of(e, count).median / 1.22;
    free(e);
    return noise;
}

/* ---- passes: SimuMax's training rows, as the planner composes them ---- */

typedef enum pass { FORWARD, INPUT, WEIGHT, PASSES } pass;

typedef struct training_row {
    ff_gemm_work work;
    pass pass;
    double s, accumulated_bytes; /* read and written an element */
} training_row;

typedef struct training {
    training_row *at;
    int count;
    ff_kernel_device device;
    const ff_gemm_curve *curve;
} training;

enum { PASS_PARAMETERS = 5 };
static const parameter pass_parameters[PASS_PARAMETERS] = {
    {"input_gradient_ratio", 0.98, 0.7, 1.2, false},
    {"weight_gradient_ratio", 0.98, 0.7, 1.2, false},
    {"accumulate_ratio", 0.5, 0, 1.5, false},
    {"product_us", 3, 0, 20, false},
    {"forward_ratio", 0.9, 0.5, 1.1, false}};

/* The layouts name the passes: TN forward, NN input gradient, NT weight gradient. Grouped rows say
 * it themselves; their m is that of all groups, and a weight gradient's k is what m is elsewhere. */
static bool read_training_row(const table *t, int i, training_row *row) {
    const char *notes = table_text(t, i, "notes"), *groups = strstr(notes, "ng=");
    double m = table_number(t, i, "m"), n = table_number(t, i, "n"), k = table_number(t, i, "k");
    double batch = groups == NULL ? 1 : strtod(groups + 3, NULL);
    double flop = 2 * m * n * k;
    bool input = strstr(notes, "layout=NN") != NULL || strstr(notes, "bwd_grad_act") != NULL;
    bool weight = strstr(notes, "layout=NT") != NULL || strstr(notes, "bwd_grad_w") != NULL;
    row->pass = input ? INPUT : weight ? WEIGHT : FORWARD;
    m /= batch;
    if (groups != NULL && weight) {
        double tokens = m;
        m = k;
        k = tokens;
    }
    row->work = (ff_gemm_work){m, n, k, batch, 2 * batch * (m * k + k * n + m * n), 0};
    row->s = flop / (table_number(t, i, "tflops") * 1e12);
    bool accumulates = strstr(notes, "accumulate=True") != NULL;
    row->accumulated_bytes = !accumulates ? 0 : strstr(notes, "out=fp32") != NULL ? 8 : 4;
    return row->s > 0;
}

static double training_s(const training *all, const training_row *row, const double *x) {
    ff_kernel_device device = all->device;
    const ff_gemm_work *w = &row->work;
    const double ratio[PASSES] = {1, x[0], x[1]};
    device.peak_flops *= x[4] * ratio[row->pass];
    double added = x[2] * row->accumulated_bytes * w->m * w->n * w->batch / device.memory_Bps;
    return ff_gemm_curve_s(all->curve, &device, w) + added + (w->batch - 1) * x[3] * 1e-6;
}

static double training_loss(const double *x, const void *context) {
    const training *all = context;
    double sum = 0;
    for (int i = 0; i < all->count; i++)
        sum += fabs(log(training_s(all, &all->at[i], x) / all->at[i].s));
    return sum / all->count;
}

static void report_training(const training *all, const double *x, FILE *out, FILE *report) {
    static const char *const names[PASSES + 1] = {"forward", "input_gradient", "weight_gradient",
                                                  "grouped"};
    double *e = calloc((size_t)all->count + 1, sizeof *e);
    for (int group = 0; group <= PASSES; group++) {
        int count = 0;
        for (int i = 0; i < all->count; i++) {
            const training_row *row = &all->at[i];
            int kind = row->work.batch > 1 ? (int)PASSES : (int)row->pass;
            if (kind == group)
                e[count++] = fabs(training_s(all, row, x) / row->s - 1);
        }
        errors of_kind = errors_of(e, count);
        write_errors(out, 8, names[group], of_kind);
        fprintf(report, "  training %-15s %4d: %.1f %.1f %.0f\n", names[group], of_kind.points,
                100 * of_kind.median, 100 * of_kind.p90, 100 * of_kind.worst);
    }
    free(e);
}

static void fit_passes(const table *t, const char *gpu, const ff_kernel_device *device,
                       const ff_gemm_curve *curve, FILE *out, FILE *report) {
    training all = {
        .at = calloc((size_t)t->rows, sizeof *all.at), .device = *device, .curve = curve};
    double x[PASS_PARAMETERS];
    for (int i = 0; i < t->rows; i++)
        if (strcmp(table_text(t, i, "gpu"), gpu) == 0 &&
            strstr(table_text(t, i, "source"), "SimuMax") != NULL &&
            read_training_row(t, i, &all.at[all.count]))
            all.count++;
    minimise(training_loss, &all, pass_parameters, PASS_PARAMETERS, 3, 300, x);
    fprintf(report,
            "%s training: input %.3f weight %.3f accumulate %.2f product %.2f us forward "
            "%.3f\n",
            gpu, x[0], x[1], x[2], x[3], x[4]);
    fprintf(out, "    passes:\n");
    write_parameters(out, 6, pass_parameters, PASS_PARAMETERS, x);
    fprintf(out, "      fit:\n");
    report_training(&all, x, out, report);
    free(all.at);
}

/* ---- one device and format ---- */

static ff_gemm_curve fit_one(const table *t, const struct source_device *d, const char *dtype,
                             const ff_device *device, FILE *out, FILE *report) {
    samples s = samples_of(t, d, dtype, device);
    parameter p[PARAMETERS];
    double x[PARAMETERS], part_x[PARAMETERS];
    memcpy(p, parameters, sizeof p);
    if (!s.fp8) {
        p[9].start = 0;
        p[9].fixed = true;
    }
    minimise(loss, &s, p, PARAMETERS, 3, 700, part_x);
    ff_gemm_curve part = curve_of(part_x);
    errors held = errors_on(&s, &part, HELD_OUT);
    s.all = true;
    minimise(loss, &s, p, PARAMETERS, 3, 700, x);
    ff_gemm_curve curve = curve_of(x);
    errors all = errors_on(&s, &curve, ALL), large = errors_on(&s, &curve, LARGE);
    double noise = noise_of(&s);
    fprintf(out, "    %s:\n", dtype);
    write_parameters(out, 6, p, PARAMETERS, x);
    fprintf(out, "      fit:\n");
    write_errors(out, 8, "all", all);
    write_errors(out, 8, "large", large);
    write_errors(out, 8, "held_out", held);
    fprintf(out, "        noise_pct: %.1f\n", 100 * noise);
    fprintf(report,
            "%-10s %s  all %4d: %4.1f %5.1f %3.0f   large %3d: %4.1f %5.1f %3.0f   held out %3d: "
            "%4.1f %5.1f %3.0f   noise %.1f\n",
            d->gpu, dtype, all.points, 100 * all.median, 100 * all.p90, 100 * all.worst,
            large.points, 100 * large.median, 100 * large.p90, 100 * large.worst, held.points,
            100 * held.median, 100 * held.p90, 100 * held.worst, 100 * noise);
    fflush(report);
    free(s.at);
    return curve;
}

static void fit_device(const table *t, const struct source_device *d, FILE *out, FILE *report) {
    char text[64];
    ff_cluster cluster;
    snprintf(text, sizeof text, "1x1x%s", d->id);
    ff_diagnostics *findings = ff_diagnostics_create();
    if (ff_cluster_preset(text, findings, &cluster) != FF_OK)
        fprintf(stderr, "fit_kernels: no device %s\n", d->id);
    ff_diagnostics_free(findings);
    const ff_device *device = &cluster.device;
    fprintf(out, "  %s:\n", d->id);
    ff_kernel_device kernel = {device->bf16_flops, device->memory_Bps * 0.85,
                               (double)device->processors};
    if (strcmp(d->id, "gb200-186gb") == 0) {
        fprintf(out, "    bf16: gb300-288gb\n    passes: b200-180gb-sxm\n");
    } else {
        ff_gemm_curve curve = fit_one(t, d, "bf16", device, out, report);
        if (strcmp(d->gpu, "A100-SXM") == 0)
            fit_passes(t, "A100-PCIe", &kernel, &curve, out, report);
        else if (strcmp(d->gpu, "B200-SXM") == 0)
            fit_passes(t, d->gpu, &kernel, &curve, out, report);
    }
    if (device->fp8_flops > 0)
        fit_one(t, d, "fp8", device, out, report);
}

static const char heading[] =
    "# GEMM curves by device and number format, written by tools/fit (docs/kernels.md). The "
    "formulas are\n"
    "# in src/cost/kernels.c and gemm.c, each constant's meaning in src/cost/physics.h. Errors are "
    "of the\n"
    "# time; noise_pct is what the table itself scatters (large shapes against their neighbours in "
    "k).\n"
    "#\n"
    "# fp8 rows contain the quantisation of the input (cast_bytes an element): training takes\n"
    "# training_cast_bytes of physics.yaml in its place.\n"
    "# passes: the backward products against the forward one (SimuMax training tables; A100 "
    "measured on\n"
    "# the PCIe board); forward_ratio compares that harness with the curve and is shown, not "
    "used.\n"
    "\n"
    "source: >-\n"
    "  NVIDIA aiconfigurator systems data, commit 095f58a51c: A100 sglang 0.5.10, others vllm "
    "0.24.0, torch\n"
    "  linear and CutlassFP8ScaledMM. Training: MooreThreads SimuMax, commit 4dcaae513b. GB200's "
    "bf16 table\n"
    "  (41 % of peak) contradicts GB300 and the search of ml-engineering (73 %): GB300's curve "
    "stands for it.\n"
    "\n"
    "generations:\n"
    "  ampere: a100-80gb-sxm\n"
    "  ada: l40s-48gb\n"
    "  hopper: h100-80gb-sxm\n"
    "  blackwell: b200-180gb-sxm\n"
    "\n"
    "# Where no table was measured: peak_ratio is the generation's share in physics.yaml.\n"
    "general:\n"
    "  any:\n"
    "    peak_ratio: 0.7\n"
    "    tile_256: 0.8\n"
    "    tile_128: 0.95\n"
    "    tile_128x64: 0.9\n"
    "    tile_64: 0.75\n"
    "    depth: 150\n"
    "    wave_loss: 0.3\n"
    "    split_passes: 1\n"
    "    fixed_us: 4\n"
    "    cast_bytes: 6\n"
    "    short_gain: 0.08\n"
    "    short_us: 800\n"
    "    source: the middle of the fitted ones\n"
    "  passes:\n"
    "    input_gradient_ratio: 1\n"
    "    weight_gradient_ratio: 1.02\n"
    "    accumulate_ratio: 0.6\n"
    "    product_us: 3\n"
    "    source: between A100 and B200\n"
    "\n"
    "devices:\n";

void fit_gemm(const table *measured, FILE *out, FILE *report) {
    fputs(heading, out);
    for (int i = 0; i < DEVICES; i++)
        fit_device(measured, &devices[i], out, report);
}
