/* Rules on sequence, batch and world. */
#include "rules/table.h"

#include "base/number.h"
#include "fivefold/schedule.h"
#include "layout/recipe.h"

/* The multiples of `unit` next to a value, of which 0 is none: "--gbs 48, 64seq". */
static void help_with_multiples(ff_diagnostics *findings, const char *before, int64_t value,
                                int64_t unit, const char *after) {
    int64_t below = value / unit * unit;
    if (below > 0)
        ff_report_help(findings, "%s%lld, %lld%s", before, (long long)below,
                       (long long)ff_add(below, unit), after);
    else
        ff_report_help(findings, "%s%lld%s", before, (long long)unit, after);
}

/* ---- sequence ---- */

static int64_t cp_slices(const ff_layout *layout) {
    bool zigzag = layout->cp_kind == FF_CP_RING || layout->cp_kind == FF_CP_HYBRID;
    if (layout->cp == 1)
        return 1;
    int64_t ring = layout->cp_kind == FF_CP_HYBRID ? layout->cp / ff_max(1, layout->ulysses) : 1;
    return layout->cp_kind == FF_CP_HYBRID && ring == 1 ? layout->cp
           : zigzag                                     ? 2 * layout->cp
                                                        : layout->cp;
}

static bool cp_violated(const ff_rule_case *c) {
    return c->seq > 0 && c->seq % cp_slices(c->layout) != 0;
}

static void cp_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t slices = cp_slices(c->layout);
    ff_report(findings, FF0214, where, "sequence %lld does not divide into %lld slices (cp %lld)",
              (long long)c->seq, (long long)slices, (long long)c->layout->cp);
    help_with_multiples(findings, "--seq ", c->seq, slices, "");
}

static bool sp_violated(const ff_rule_case *c) {
    int64_t parts = ff_mul(c->layout->tp, c->layout->cp);
    return c->seq > 0 && c->layout->sp == 1 && ff_mul(c->seq, c->layout->mbs) % parts != 0;
}

static void sp_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t parts = ff_mul(c->layout->tp, c->layout->cp);
    ff_report(findings, FF0215, where,
              "%lld tokens of a microbatch do not divide over tp %lld x cp %lld",
              (long long)ff_mul(c->seq, c->layout->mbs), (long long)c->layout->tp,
              (long long)c->layout->cp);
    help_with_multiples(findings, "nearest legal: --seq ", c->seq,
                        parts / ff_gcd(parts, c->layout->mbs), "");
}

static bool positions_violated(const ff_rule_case *c) {
    return c->model->position_rows > 0 && c->seq > c->model->position_rows;
}

static void positions_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0226, where, "sequence %lld, but the position table has %lld rows",
              (long long)c->seq, (long long)c->model->position_rows);
    ff_report_help(findings, "--seq %lld", (long long)c->model->position_rows);
}

static bool tokens_violated(const ff_rule_case *c) {
    return ff_mul(c->seq, c->layout->mbs) / c->layout->cp > (INT64_C(1) << 31);
}

static void tokens_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0228, where, "mbs %lld x sequence %lld / cp %lld is %lld tokens",
              (long long)c->layout->mbs, (long long)c->seq, (long long)c->layout->cp,
              (long long)(ff_mul(c->seq, c->layout->mbs) / c->layout->cp));
}

/* ---- batch ---- */

/* Interleaving runs microbatches in groups of pp. */
static int64_t whole_groups(const ff_layout *layout, int64_t microbatches) {
    return layout->schedule == FF_SCHEDULE_INTERLEAVED ? ff_round_up(microbatches, layout->pp)
                                                       : microbatches;
}

static bool reached_violated(const ff_rule_case *c) {
    return c->gbs_sequences > 0 && ff_layout_batch_sequences(c->layout) < c->gbs_sequences;
}

static void reached_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_layout *l = c->layout;
    ff_report(findings, FF0221, where,
              "mbs %lld x microbatches %lld x dp %lld is %lld sequences of %lld wanted",
              (long long)l->mbs, (long long)l->microbatches, (long long)l->dp,
              (long long)ff_layout_batch_sequences(l), (long long)c->gbs_sequences);
    ff_report_help(
        findings, "microbatches=%lld",
        (long long)whole_groups(l, ff_ceil_div(c->gbs_sequences, ff_mul(l->mbs, l->dp))));
}

static bool exact_violated(const ff_rule_case *c) {
    return c->gbs_exact && c->gbs_sequences > 0 &&
           ff_layout_batch_sequences(c->layout) != c->gbs_sequences;
}

static void exact_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_layout *l = c->layout;
    int64_t unit = ff_mul(l->mbs, l->dp);
    ff_report(findings, FF0222, where,
              "%lld sequences: the layout reaches %lld (multiples of mbs %lld x dp %lld = %lld)",
              (long long)c->gbs_sequences, (long long)ff_layout_batch_sequences(l),
              (long long)l->mbs, (long long)l->dp, (long long)unit);
    help_with_multiples(findings, "nearest batches: ", c->gbs_sequences, unit, " sequences");
}

static bool overshot_violated(const ff_rule_case *c) {
    int64_t batch = ff_layout_batch_sequences(c->layout);
    return !c->gbs_exact && c->gbs_sequences > 0 &&
           batch - c->gbs_sequences > c->gbs_sequences / 20;
}

static void overshot_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t batch = ff_layout_batch_sequences(c->layout);
    ff_report(findings, FF0259, where, "the batch is %lld sequences, %.1f%% above the %lld wanted",
              (long long)batch,
              100.0 * (double)(batch - c->gbs_sequences) / (double)c->gbs_sequences,
              (long long)c->gbs_sequences);
}

static bool schedule_violated(const ff_rule_case *c) {
    ff_schedule_shape shape = ff_schedule_shape_of(c->layout);
    return ff_schedule_check(&shape, NULL) != FF_OK;
}

static void schedule_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_schedule_shape shape = ff_schedule_shape_of(c->layout);
    ff_schedule_check(&shape, findings);
    ff_report_where(findings, where);
}

/* ---- devices ---- */

static bool world_violated(const ff_rule_case *c) {
    return c->cluster != NULL && ff_layout_world(c->layout) != c->cluster->devices;
}

static void world_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0225, where, "the layout takes %lld devices, the cluster has %lld",
              (long long)ff_layout_world(c->layout), (long long)c->cluster->devices);
}

static double format_flops(const ff_device *device, ff_dtype dtype) {
    switch (dtype) {
    case FF_DTYPE_BF16:
        return device->bf16_flops;
    case FF_DTYPE_FP16:
        return device->fp16_flops;
    case FF_DTYPE_FP8:
        return device->fp8_flops;
    case FF_DTYPE_FP4:
        return device->fp4_flops;
    default:
        return device->fp32_flops;
    }
}

static bool format_violated(const ff_rule_case *c) {
    ff_dtype dtype = ff_recipe_describe(c->layout->recipe)->compute;
    return c->cluster != NULL && format_flops(&c->cluster->device, dtype) <= 0;
}

static void format_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_dtype dtype = ff_recipe_describe(c->layout->recipe)->compute;
    ff_report(findings, FF0223, where, "recipe %s computes in %s, which %s does not have",
              ff_recipe_name(c->layout->recipe), ff_dtype_name(dtype), c->cluster->device.id);
    bool has_bf16 = c->cluster->device.bf16_flops > 0;
    ff_report_help(findings, "recipe=%s",
                   ff_recipe_name(has_bf16 ? FF_RECIPE_BF16_MEGATRON : FF_RECIPE_FP16_MEGATRON));
}

const ff_rule ff_rules_batch[] = {
    {FF0225, "dp", world_violated, world_say, FF_NO_REMEDY},
    {FF0214, "cp", cp_violated, cp_say, FF_REMEDY(cp)},
    {FF0215, "tp", sp_violated, sp_say, FF_NO_REMEDY},
    {FF0226, NULL, positions_violated, positions_say, FF_NO_REMEDY},
    {FF0228, "mbs", tokens_violated, tokens_say, FF_NO_REMEDY},
    {FF0221, "microbatches", reached_violated, reached_say, FF_NO_REMEDY},
    {FF0222, "mbs", exact_violated, exact_say, FF_NO_REMEDY},
    {FF0244, "schedule", schedule_violated, schedule_say, FF_NO_REMEDY},
    {FF0223, "recipe", format_violated, format_say, FF_NO_REMEDY},
    {FF0259, "mbs", overshot_violated, overshot_say, FF_NO_REMEDY},
    {0},
};
