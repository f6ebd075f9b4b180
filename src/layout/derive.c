/* Completes a layout: every left-out key gets its value, and keys that contradict each other are
 * refused. Checked is only what the layout says about itself and about the world; whether it suits
 * a model or a schedule is for the rules.
 *
 *     sizes left out = 1  ->  grid, dp, etp, edp  ->  sp, schedule, cp, zero, microbatches, layers
 *
 * Decisions:
 *   - sp=1 with tp=1 is read as sp=0, with a note (FF0200): there is nothing to shard.
 *   - schedule=interleaved needs vpp of at least 2, also where vpp was left out.
 *   - microbatches from the batch: the fewest with mbs*m*dp >= batch, for interleaved rounded up to
 * a multiple of pp, which its groups need, for dualpipe and dualpipe-v at least 2*pp (dualpipe: an
 * even number). Without a batch the fewest that the schedule runs; the key then counts as not given.
 *   - zb-v, v-half, dualpipe and dualpipe-v hold two chunks a stage: vpp left out is 2, anything else
 * is refused. A split has one number a part of the model: pp*vpp, for dualpipe (which holds each part
 * twice, for its two directions) pp.
 *   - a split may give a chunk no layers (a stage of the embedding alone).
 * Deriving a derived layout in the same context changes nothing. */
#include "layout/derive.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "layout/keys.h"
#include <string.h>

ff_place ff_derive_place(const ff_deriving *now, const char *key) {
    return ff_layout_place(now->context->text, key);
}

static void default_sizes(ff_layout *layout) {
    if (layout->vpp == 0)
        layout->vpp = ff_default_vpp(layout);
    int64_t *const sizes[] = {&layout->tp, &layout->pp,  &layout->cp,
                              &layout->ep, &layout->vpp, &layout->mbs};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (*sizes[i] == 0)
            *sizes[i] = 1;
    if (layout->zero < 0)
        layout->zero = 1;
    if (layout->zero3_weights < 0)
        layout->zero3_weights = ff_default_zero3_weights(layout);
    if (layout->schedule < 0)
        layout->schedule = ff_default_schedule(layout);
}

static void settle_sp(ff_deriving *now) {
    ff_layout *layout = now->layout;
    if (layout->sp < 0)
        layout->sp = ff_default_sp(layout);
    if (layout->sp == 0 || layout->tp > 1)
        return;
    layout->sp = 0;
    ff_report(now->findings, FF0200, FF_NOWHERE,
              "sp=1 has nothing to shard with tp=1: read as sp=0");
}

static void check_schedule(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    long long vpp = layout->vpp;
    int own = ff_schedule_own_chunks((ff_schedule_kind)layout->schedule);
    if (layout->schedule == FF_SCHEDULE_INTERLEAVED && vpp == 1) {
        now->failed = true;
        ff_report(now->findings, FF0206, ff_derive_place(now, "schedule"),
                  "schedule=interleaved with vpp=1");
        ff_report_rule(now->findings,
                       "interleaving runs several chunks a stage; with one it is 1f1b");
        ff_report_help(now->findings, "vpp=2, or schedule=1f1b");
    } else if (own == 1 && vpp > 1) {
        const char *name = ff_schedule_name((ff_schedule_kind)layout->schedule);
        now->failed = true;
        ff_report(now->findings, FF0206, ff_derive_place(now, "schedule"),
                  "schedule=%s with vpp=%lld", name, vpp);
        ff_report_rule(now->findings, "%s runs one chunk a stage", name);
        ff_report_help(now->findings, "schedule=interleaved, or vpp=1");
    } else if (own == 2 && vpp != 2) {
        const char *name = ff_schedule_name((ff_schedule_kind)layout->schedule);
        now->failed = true;
        ff_report(now->findings, FF0206, ff_derive_place(now, "schedule"),
                  "schedule=%s with vpp=%lld", name, vpp);
        ff_report_rule(now->findings, "%s holds two chunks a stage", name);
        ff_report_help(now->findings, "vpp=2, or left out");
    }
}

static void settle_ulysses(ff_deriving *now) {
    ff_layout *layout = now->layout;
    if (layout->cp_kind != FF_CP_HYBRID) {
        layout->ulysses = layout->cp_kind == FF_CP_ULYSSES ? layout->cp : 1;
        return;
    }
    layout->ulysses = ff_max(layout->ulysses, 1);
    if (layout->cp % layout->ulysses == 0)
        return;
    now->failed = true;
    ff_report(now->findings, FF0206, ff_derive_place(now, "cp_kind"),
              "cp_kind=hybrid:%lld does not divide cp=%lld", (long long)layout->ulysses,
              (long long)layout->cp);
    ff_report_rule(now->findings, "cp is the ring of groups of Ulysses ranks: cp = U x ring");
    ff_report_help(now->findings, "nearest legal: U of %s",
                   ff_nearest_divisors("hybrid", layout->cp, layout->ulysses).text);
}

/* Runs only where the grid stands: dp*cp is then a number to divide. */
static void settle_zero_group(ff_deriving *now) {
    ff_layout *layout = now->layout;
    int64_t replicas = ff_mul(layout->dp, layout->cp);
    if (layout->zero_group == 0)
        layout->zero_group = replicas;
    if (replicas % layout->zero_group == 0)
        return;
    now->failed = true;
    ff_report(now->findings, FF0206, ff_derive_place(now, "zero_group"),
              "zero_group=%lld does not divide dp %lld x cp %lld = %lld",
              (long long)layout->zero_group, (long long)layout->dp, (long long)layout->cp,
              (long long)replicas);
    ff_report_rule(now->findings,
                   "the dp*cp ranks that hold the same weights shard in equal groups");
    ff_report_help(now->findings, "nearest legal: %s",
                   ff_nearest_divisors("zero_group", replicas, layout->zero_group).text);
}

static void settle_microbatches(ff_deriving *now) {
    ff_layout *layout = now->layout;
    if (layout->microbatches > 0)
        return;
    int64_t batch = ff_max(now->context->gbs_sequences, 1);
    int64_t fewest = ff_ceil_div(batch, ff_mul(layout->mbs, layout->dp));
    if (layout->schedule == FF_SCHEDULE_INTERLEAVED)
        fewest = ff_round_up(fewest, layout->pp);
    bool dualpipe = layout->schedule == FF_SCHEDULE_DUALPIPE;
    if (dualpipe || layout->schedule == FF_SCHEDULE_DUALPIPE_V)
        fewest = ff_max(fewest, 2 * layout->pp);
    if (dualpipe)
        fewest = ff_round_up(fewest, 2);
    layout->microbatches = ff_min(fewest, FF_LAYOUT_LARGEST_COUNT);
    if (fewest <= FF_LAYOUT_LARGEST_COUNT)
        return;
    now->failed = true;
    ff_report(now->findings, FF0204, ff_derive_place(now, "mbs"),
              "a batch of %lld sequences needs %lld microbatches of mbs %lld x dp %lld",
              (long long)batch, (long long)fewest, (long long)layout->mbs, (long long)layout->dp);
    ff_report_rule(now->findings, "a step has at most %d microbatches", FF_LAYOUT_LARGEST_COUNT);
    ff_report_help(now->findings, "a larger mbs or dp, or a smaller batch");
}

/* --- the split --- */

/* A number a stage was given: shows one a chunk. */
static void help_split(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    int64_t chunks = ff_layout_model_chunks(layout);
    if (layout->chunks != layout->pp || chunks > 32) {
        ff_report_help(now->findings, "%lld numbers, one a chunk in model order",
                       (long long)chunks);
        return;
    }
    ff_text split = {0};
    for (int64_t i = 0; i < chunks; i++) {
        int64_t layers = layout->layers_of_chunk[i % layout->pp], chunk = i / layout->pp;
        ff_text_printf(&split, "%s%lld", i == 0 ? "" : "/",
                       (long long)(layers / layout->vpp + (chunk < layers % layout->vpp)));
    }
    ff_report_help(now->findings, "one number a chunk, not a stage: layers=%s",
                   ff_text_bytes(&split));
    ff_text_free(&split);
}

static void check_split(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    int64_t chunks = ff_layout_model_chunks(layout), sum = 0;
    for (int i = 0; i < layout->chunks; i++)
        sum += layout->layers_of_chunk[i];
    if (layout->chunks != chunks) {
        now->failed = true;
        ff_report(now->findings, FF0206, ff_derive_place(now, "layers"),
                  "layers has %d numbers, pp %lld x vpp %lld makes %lld chunks", layout->chunks,
                  (long long)layout->pp, (long long)layout->vpp, (long long)chunks);
        help_split(now);
    }
    if (now->context->layers > 0 && sum != now->context->layers) {
        now->failed = true;
        ff_report(now->findings, FF0206, ff_derive_place(now, "layers"),
                  "layers adds up to %lld, the model has %d", (long long)sum, now->context->layers);
        ff_report_help(now->findings, "left out, layers are balanced");
    }
}

static void settle_split(ff_deriving *now) {
    ff_layout *layout = now->layout;
    int64_t chunks = ff_layout_model_chunks(layout);
    if (chunks > FF_LAYOUT_MAX_CHUNKS) {
        now->failed = true;
        ff_report(now->findings, FF0204, ff_derive_place(now, "pp"),
                  "pp %lld x vpp %lld makes %lld chunks", (long long)layout->pp,
                  (long long)layout->vpp, (long long)chunks);
        ff_report_rule(now->findings, "a pipeline has at most %d chunks",
                       (int)FF_LAYOUT_MAX_CHUNKS);
        return;
    }
    if (layout->chunks > 0) {
        check_split(now);
    } else if (now->context->layers > 0 && now->context->layers / chunks < INT16_MAX) {
        layout->chunks = (int)chunks;
        ff_default_split(now->context->layers, layout->chunks, layout->layers_of_chunk);
    }
}

static void check_recompute(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    if (layout->recompute_stages == 0 || layout->recompute_stages == layout->pp)
        return;
    now->failed = true;
    ff_report(now->findings, FF0206, ff_derive_place(now, "recompute"),
              "recompute has %d numbers, pp is %lld", layout->recompute_stages,
              (long long)layout->pp);
    ff_report_help(now->findings, "one number a stage, or one for all: recompute=full:%d",
                   layout->recompute_of_stage[0]);
}

/* The default order fits any sizes. */
static void check_order(ff_deriving *now) {
    static const ff_axis dense[4] = FF_DENSE_ORDER, expert[4] = FF_EXPERT_ORDER;
    const ff_layout *layout = now->layout;
    ff_mesh mesh;
    if (memcmp(layout->dense_order, dense, sizeof dense) == 0 &&
        memcmp(layout->expert_order, expert, sizeof expert) == 0)
        return;
    if (ff_layout_mesh(layout, now->findings, &mesh) != FF_OK)
        now->failed = true;
}

ff_status ff_layout_derive(ff_layout *layout, const ff_layout_context *context,
                           ff_diagnostics *findings) {
    ff_deriving now = {.layout = layout, .context = context, .findings = findings};
    default_sizes(layout);
    ff_derive_grid(&now);
    if (!now.failed) {
        settle_zero_group(&now);
        check_order(&now);
        settle_microbatches(&now);
    }
    settle_ulysses(&now);
    settle_sp(&now);
    check_schedule(&now);
    check_recompute(&now);
    settle_split(&now);
    return now.failed ? FF_INVALID : FF_OK;
}
