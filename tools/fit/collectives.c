/* Collective curves from nccl-tests sweeps, with the formulas that the planner uses.
 *
 * Wanted: columns op, gpu, gpus, nodes, bytes, time_us, source, notes. Rows of NVIDIA aiconfigurator (1 KiB
 * to 512 MiB, 2, 4 and 8 ranks in one domain) are fitted; point-to-point rows of microsoft/vidur
 * give messages to a neighbour; two nodes of p5 (EFA v2) and p4de (EFA v1) the ramp between nodes.
 * Link rates and the latency of a step are the device's own (data/devices.yaml), not fitted. */
#include "fit.h"

#include "cost/cost.h"
#include "presets/presets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct source_device {
    const char *gpu, *id, *send_gpu; /* send_gpu: name in the point-to-point rows */
    bool in_switch, crowded, all_to_all;
} source_device;

static const source_device devices[] = {
    {"A100-SXM4-80GB", "a100-80gb-sxm", "A100-SXM-80GB (DGX)", false, false, true},
    {"H100-SXM5-80GB", "h100-80gb-sxm", "H100-SXM (DGX)", true, false, true},
    {"H200-SXM", "h200-141gb-sxm", NULL, true, false, true},
    {"B200-SXM", "b200-180gb-sxm", NULL, true, false, true},
    {"B300-SXM", "b300-288gb-sxm", NULL, true, false, true},
    {"GB200", "gb200-186gb", NULL, true, false, true},
    {"GB300", "gb300-288gb", NULL, true, false, true},
    {"L40S", "l40s-48gb", NULL, false, true, true}};
enum { DEVICES = sizeof devices / sizeof *devices };

typedef struct sample {
    ff_collective collective;
    double bytes, s;
    ff_reach reach;
    bool held_out;
} sample;

typedef struct samples {
    sample *at;
    int count;
    ff_cluster cluster;
    bool all;
} samples;

enum { PARAMETERS = 15, NETWORK_CHUNK = 14 };
static const char *const keys[PARAMETERS] = {
    "link_ratio",         "group_loss",         "all_reduce_loss",
    "crowding",           "fixed_us",           "chunk_us",
    "all_to_all_ratio",   "all_to_all_loss",    "all_to_all_fixed_us",
    "send_fixed_us",      "send_chunk_us",      "in_switch_ratio",
    "in_switch_fixed_us", "in_switch_chunk_us", "network_chunk_steps"};

static ff_collective_curve curve_of(const double *x) {
    return (ff_collective_curve){.link_ratio = x[0],
                                 .group_loss = x[1],
                                 .all_reduce_loss = x[2],
                                 .crowding = x[3],
                                 .fixed_s = x[4] * 1e-6,
                                 .chunk_s = x[5] * 1e-6,
                                 .all_to_all_ratio = x[6],
                                 .all_to_all_loss = x[7],
                                 .all_to_all_fixed_s = x[8] * 1e-6,
                                 .send_fixed_s = x[9] * 1e-6,
                                 .send_chunk_s = x[10] * 1e-6,
                                 .in_switch_ratio = x[11],
                                 .in_switch_fixed_s = x[12] * 1e-6,
                                 .in_switch_chunk_s = x[13] * 1e-6,
                                 .network_chunk_steps = x[14]};
}

static double predicted_s(const ff_cost *cost, const sample *p) {
    return ff_collective_s(cost, &p->reach, p->collective, p->bytes);
}

static double loss(const double *x, const void *context) {
    const samples *s = context;
    ff_profile stack = {0}; /* that reaches what the benchmarks do */
    ff_cost cost = {.cluster = &s->cluster, .profile = &stack};
    cost.physics.collective = curve_of(x);
    double sum = 0;
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        if (s->at[i].held_out && !s->all)
            continue;
        double error = fabs(log(predicted_s(&cost, &s->at[i]) / s->at[i].s));
        sum += error < 0.3 ? error : 0.3 + (error - 0.3) / 3;
        count++;
    }
    return sum / count;
}

static ff_collective collective_of(const char *op) {
    static const struct {
        const char *op;
        ff_collective collective;
    } known[] = {{"all_gather", FF_ALL_GATHER},
                 {"reduce_scatter", FF_REDUCE_SCATTER},
                 {"all_reduce", FF_ALL_REDUCE},
                 {"all_to_all", FF_ALL_TO_ALL},
                 {"p2p", FF_SEND_RECEIVE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].op, op) == 0)
            return known[i].collective;
    return FF_COLLECTIVE_COUNT;
}

static void add_samples(const table *t, const char *gpu, const char *source, bool sends,
                        samples *s) {
    for (int i = 0; i < t->rows; i++) {
        ff_collective collective = collective_of(table_text(t, i, "op"));
        double ranks = table_number(t, i, "gpus"), nodes = table_number(t, i, "nodes"),
               us = table_number(t, i, "time_us"), bytes = table_number(t, i, "bytes");
        if (strcmp(table_text(t, i, "gpu"), gpu) != 0 ||
            strstr(table_text(t, i, "source"), source) == NULL || !(us > 0) ||
            collective == FF_COLLECTIVE_COUNT || (collective == FF_SEND_RECEIVE) != sends ||
            (sends && nodes > 1) || strstr(table_text(t, i, "notes"), "excerpt") != NULL)
            continue;
        int64_t domains = (int64_t)nodes, inside = (int64_t)(ranks / nodes);
        unsigned identity = (unsigned)(bytes / 64 + ranks * 101 + (double)collective * 1009);
        s->at[s->count++] = (sample){
            collective, bytes, us * 1e-6, {(int64_t)ranks, inside, domains, 1}, held_out(identity)};
    }
}

static void load_cluster(const char *text, ff_cluster *cluster) {
    ff_diagnostics *findings = ff_diagnostics_create();
    if (ff_cluster_preset(text, findings, cluster) != FF_OK)
        fprintf(stderr, "fit_kernels: no cluster %s\n", text);
    ff_diagnostics_free(findings);
}

/* Errors of the samples of one kind and of a range of sizes; kind COUNT is all kinds. */
static errors errors_on(const samples *s, const double *x, ff_collective kind, double least,
                        double most, bool only_held_out) {
    double *e = calloc((size_t)s->count + 1, sizeof *e);
    ff_profile stack = {0}; /* that reaches what the benchmarks do */
    ff_cost cost = {.cluster = &s->cluster, .profile = &stack};
    cost.physics.collective = curve_of(x);
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        const sample *p = &s->at[i];
        if ((kind == FF_COLLECTIVE_COUNT || kind == p->collective) && p->bytes >= least &&
            p->bytes <= most && (!only_held_out || p->held_out))
            e[count++] = fabs(predicted_s(&cost, p) / p->s - 1);
    }
    errors result = errors_of(e, count);
    free(e);
    return result;
}

static const struct range {
    const char *name;
    double least, most;
} ranges[] = {{"to_64KiB", 0, 65536}, {"to_8MiB", 65537, 8388608}, {"from_16MiB", 8388609, 1e18}};
enum { RANGES = sizeof ranges / sizeof *ranges };

static void report_errors(const char *name, const samples *s, const double *x, const double *part_x,
                          FILE *out, FILE *report) {
    fprintf(out, "      fit:\n");
    for (int r = 0; r < RANGES; r++) {
        errors e = errors_on(s, x, FF_COLLECTIVE_COUNT, ranges[r].least, ranges[r].most, false);
        write_errors(out, 8, ranges[r].name, e);
    }
    write_errors(out, 8, "held_out", errors_on(s, part_x, FF_COLLECTIVE_COUNT, 0, 1e18, true));
    for (int kind = 0; kind < FF_COLLECTIVE_COUNT; kind++) {
        fprintf(report, "%-15s %-14s", name, ff_collective_name((ff_collective)kind));
        for (int r = 0; r < RANGES; r++) {
            errors e = errors_on(s, x, (ff_collective)kind, ranges[r].least, ranges[r].most, false);
            fprintf(report, "  %3d: %5.1f %5.1f %4.0f", e.points, 100 * e.median, 100 * e.p90,
                    100 * e.worst);
        }
        fprintf(report, "\n");
    }
    fflush(report);
}

/* The ramp between nodes, on the inside curve of the generation. */
static double network_chunk(const table *t, const char *gpu, const char *cluster, const double *x,
                            FILE *report) {
    samples s = {.at = calloc((size_t)t->rows + 1, sizeof *s.at), .all = true};
    load_cluster(cluster, &s.cluster);
    add_samples(t, gpu, "awsome", false, &s);
    parameter p[PARAMETERS];
    double fitted[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        p[i] = (parameter){keys[i], x[i], 0, 1, true};
    p[NETWORK_CHUNK] = (parameter){keys[NETWORK_CHUNK], 2, 0.01, 20, false};
    minimise(loss, &s, p, PARAMETERS, 2, 100, fitted);
    for (int r = 0; r < RANGES; r++) {
        errors e = errors_on(&s, fitted, FF_ALL_REDUCE, ranges[r].least, ranges[r].most, false);
        fprintf(report, "%s all-reduce 2 nodes %s %d: %.1f %.1f %.0f\n", gpu, ranges[r].name,
                e.points, 100 * e.median, 100 * e.p90, 100 * e.worst);
    }
    fprintf(report, "%s network chunk %.2f steps\n", gpu, fitted[NETWORK_CHUNK]);
    free(s.at);
    return fitted[NETWORK_CHUNK];
}

static void set_parameters(const source_device *d, double send_chunk_us, parameter *p) {
    bool nodes = d->in_switch, c = d->crowded;
    bool sends = d->send_gpu != NULL;
    const parameter all[PARAMETERS] = {{keys[0], c ? 0.3 : 0.98, 0.05, 1.02, false},
                                       {keys[1], c ? 0 : 0.5, 0, 1.4, c},
                                       {keys[2], c ? 0 : 0.2, 0, 1.4, c},
                                       {keys[3], c ? 2 : 0, 0, 4, !c},
                                       {keys[4], 5, 0, 60, false},
                                       {keys[5], 1.5, 0, 40, false},
                                       {keys[6], 0.95, 0.3, 1.5, false},
                                       {keys[7], c ? 0 : 0.3, 0, 1.4, c},
                                       {keys[8], 6, 0, 60, false},
                                       {keys[9], 5, 0, 30, !sends},
                                       {keys[10], send_chunk_us, 0, 20, !sends},
                                       {keys[11], nodes ? 0.72 : 0, 0, 1.1, !nodes},
                                       {keys[12], nodes ? 20 : 0, 0, 100, !nodes},
                                       {keys[13], nodes ? 3 : 0, 0, 40, !nodes},
                                       {keys[14], 2.5, 0, 20, true}};
    memcpy(p, all, sizeof all);
}

static void fit_device(const table *t, const source_device *d, FILE *out, FILE *report) {
    char text[64];
    samples s = {.at = calloc((size_t)t->rows + 1, sizeof *s.at)};
    snprintf(text, sizeof text, "1x%dx%s", strncmp(d->gpu, "GB", 2) == 0 ? 4 : 8, d->id);
    load_cluster(text, &s.cluster);
    add_samples(t, d->gpu, "aiconfigurator", false, &s);
    if (d->send_gpu != NULL)
        add_samples(t, d->send_gpu, "vidur", true, &s);
    if (strncmp(d->gpu, "GB", 2) == 0)
        add_samples(t, d->gpu, "aiconfigurator", false, &s);
    parameter p[PARAMETERS];
    double x[PARAMETERS], part_x[PARAMETERS];
    set_parameters(d, 2, p);
    minimise(loss, &s, p, PARAMETERS, 3, 900, part_x);
    s.all = true;
    minimise(loss, &s, p, PARAMETERS, 3, 900, x);
    if (strcmp(d->id, "h100-80gb-sxm") == 0)
        x[NETWORK_CHUNK] = network_chunk(t, "H100-SXM-80GB (p5.48xlarge)", "aws-p5", x, report);
    else if (strcmp(d->id, "a100-80gb-sxm") == 0)
        x[NETWORK_CHUNK] = network_chunk(t, "A100-SXM-80GB (p4de.24xlarge)", "aws-p4de", x, report);
    fprintf(out, "  %s:\n    links:\n", d->id);
    write_parameters(out, 6, p, PARAMETERS, x);
    report_errors(d->gpu, &s, x, part_x, out, report);
    free(s.at);
}

void fit_collectives(const table *measured, FILE *out, FILE *report) {
    fprintf(report,
            "median, 90th percentile, worst error in %%: up to 64 KiB, up to 8 MiB, from 16 MiB\n");
    fprintf(
        out,
        "# Collective curves by device, written by tools/fit (docs/kernels.md); the formulas are "
        "in\n"
        "# src/cost/collective.c. Link rates and the latency of a step are those of devices.yaml; "
        "errors are\n"
        "# of the time.\n\n"
        "source: >-\n"
        "  NVIDIA aiconfigurator systems data, commit 095f58a51c: nccl-tests sweeps, NCCL 2.26 to "
        "2.29, 1 KiB to\n"
        "  512 MiB, one domain. Sends: microsoft/vidur on DGX. network_chunk_steps: all-reduce "
        "over "
        "two nodes of\n"
        "  p5.48xlarge and p4de.24xlarge (aws-samples), others assumed.\n\n"
        "generations:\n  ampere: a100-80gb-sxm\n  hopper: h100-80gb-sxm\n  blackwell: "
        "b200-180gb-sxm\n"
        "  ada: l40s-48gb\n\n"
        "general:\n  links:\n    link_ratio: 0.97\n    group_loss: 0.5\n    all_reduce_loss: 0.2\n"
        "    crowding: 0\n    fixed_us: 6\n    chunk_us: 2\n    all_to_all_ratio: 0.95\n"
        "    all_to_all_loss: 0.3\n    all_to_all_fixed_us: 8\n    send_fixed_us: 5\n"
        "    send_chunk_us: 2\n    in_switch_ratio: 0\n    in_switch_fixed_us: 0\n"
        "    in_switch_chunk_us: 0\n    network_chunk_steps: 2.5\n    source: near the "
        "A100's\n\ndevices:\n");
    for (int i = 0; i < DEVICES; i++)
        fit_device(measured, &devices[i], out, report);
}
