/* The two grids of a layout: which reading of dp makes the world, and what follows for the experts.
 *
 *     folded    world = tp * cp * dp * pp
 *               experts on the same ranks: etp * ep * edp = tp * cp * dp
 *     product   world = tp * cp * dp * pp * ep; the dense part has dp*ep replicas, etp is tp
 *
 *     dp=2,tp=8,cp=2,pp=4,ep=8 on 1024     folded 128 no    product 1024 yes
 *     becomes                              dp=16,tp=8,cp=2,pp=4,ep=8,etp=8, edp = 4
 *
 * Which reading:
 *     grid given                 that one
 *     dp left out                folded: dp = world / (tp*cp*pp); without a world the smallest dp
 *                                that has room for the experts
 *     dp given, world known      the one that makes the world, folded first
 *     dp given, world unknown    folded where etp*ep divides tp*cp*dp, else product
 * Invariant: a layout that leaves here is folded, tp*cp*dp*pp is the world and etp*ep*edp*pp too. */
#include "layout/derive.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "layout/keys.h"
#include <stdio.h>

static int64_t ranks_without_dp(const ff_layout *layout) {
    return ff_mul3(layout->tp, layout->cp, layout->pp);
}

/* --- finding the nearest legal numbers --- */

ff_nearest ff_nearest_divisors(const char *name, int64_t number, int64_t value) {
    ff_nearest nearest = {""};
    if (number < 1 || number > FF_LAYOUT_LARGEST_WORLD)
        return nearest;
    int64_t below = ff_min(value, number), above = value;
    while (number % below != 0)
        below--;
    while (above < number && number % above != 0)
        above++;
    if (above > number || above == below)
        snprintf(nearest.text, sizeof nearest.text, "%s=%lld", name, (long long)below);
    else
        snprintf(nearest.text, sizeof nearest.text, "%s=%lld, %s=%lld", name, (long long)below,
                 name, (long long)above);
    return nearest;
}

/* One axis at a time is changed so that tp*cp*pp divides the world. */
static void help_divide(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    const struct {
        const char *name;
        int64_t value, others;
    } axes[] = {{"tp", layout->tp, ff_mul(layout->cp, layout->pp)},
                {"cp", layout->cp, ff_mul(layout->tp, layout->pp)},
                {"pp", layout->pp, ff_mul(layout->tp, layout->cp)}};
    ff_text help = {0};
    for (int i = 0; i < 3; i++) {
        int64_t world = now->context->world;
        if (axes[i].value == 1 || world % axes[i].others != 0)
            continue;
        ff_nearest nearest =
            ff_nearest_divisors(axes[i].name, world / axes[i].others, axes[i].value);
        ff_text_printf(&help, "%s%s", help.length == 0 ? "" : "; or ", nearest.text);
    }
    if (help.length > 0)
        ff_report_help(now->findings, "nearest legal: %s", ff_text_bytes(&help));
    else
        ff_report_help(now->findings, "make tp*cp*pp a divisor of %lld",
                       (long long)now->context->world);
    ff_text_free(&help);
}

/* --- refusals --- */

static void refuse_indivisible(ff_deriving *now, int64_t factor) {
    const ff_layout *layout = now->layout;
    long long world = now->context->world;
    now->failed = true;
    ff_report(now->findings, FF0205, ff_derive_place(now, NULL),
              "tp %lld x cp %lld x pp %lld = %lld does not divide the world of %lld",
              (long long)layout->tp, (long long)layout->cp, (long long)layout->pp,
              (long long)ranks_without_dp(layout), world);
    if (factor == ranks_without_dp(layout)) {
        ff_report_rule(now->findings,
                       "every rank holds one place of tp x cp x dp x pp; %lld / %lld leaves %lld",
                       world, (long long)factor, (long long)(world % factor));
        help_divide(now);
    } else {
        ff_report_rule(now->findings, "with grid=product the factors are tp x cp x pp x ep = %lld",
                       (long long)factor);
    }
}

static void refuse_mismatch(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    int64_t ranks = ranks_without_dp(layout), folded = ff_mul(ranks, layout->dp);
    long long world = now->context->world;
    now->failed = true;
    char product[64] = "";
    if (layout->ep > 1)
        snprintf(product, sizeof product, ", and %lld with ep %lld as a factor",
                 (long long)ff_mul(folded, layout->ep), (long long)layout->ep);
    ff_report(now->findings, FF0205, ff_derive_place(now, NULL),
              "tp %lld x cp %lld x dp %lld x pp %lld makes %lld ranks%s; the world has %lld",
              (long long)layout->tp, (long long)layout->cp, (long long)layout->dp,
              (long long)layout->pp, (long long)folded, product, world);
    if (world % ranks == 0)
        ff_report_help(now->findings, "dp=%lld; left out, dp follows from the world",
                       world / (long long)ranks);
    else
        help_divide(now);
}

static void refuse_size(ff_deriving *now, int64_t ranks) {
    now->failed = true;
    if (ranks >= FF_SATURATED)
        ff_report(now->findings, FF0205, ff_derive_place(now, NULL), "the layout's sizes overflow");
    else
        ff_report(now->findings, FF0205, ff_derive_place(now, NULL), "the layout makes %lld ranks",
                  (long long)ranks);
    ff_report_rule(now->findings, "a world has at most %d ranks", (int)FF_LAYOUT_LARGEST_WORLD);
}

static void refuse_experts(ff_deriving *now) {
    const ff_layout *layout = now->layout;
    int64_t stage = ff_mul3(layout->tp, layout->cp, layout->dp);
    now->failed = true;
    ff_report(now->findings, FF0205, ff_derive_place(now, "ep"),
              "etp %lld x ep %lld = %lld does not divide tp %lld x cp %lld x dp %lld = %lld",
              (long long)layout->etp, (long long)layout->ep,
              (long long)ff_mul(layout->etp, layout->ep), (long long)layout->tp,
              (long long)layout->cp, (long long)layout->dp, (long long)stage);
    ff_report_rule(now->findings,
                   "experts live on the ranks of the dense layers, as etp x ep x edp x pp; the "
                   "smallest world for both grids is pp*lcm(tp*cp, etp*ep) = %lld",
                   (long long)ff_layout_min_world(layout));
    if (stage % layout->etp == 0)
        ff_report_help(now->findings, "nearest legal: %s",
                       ff_nearest_divisors("ep", stage / layout->etp, layout->ep).text);
    else
        ff_report_help(now->findings, "nearest legal: %s",
                       ff_nearest_divisors("etp", stage, layout->etp).text);
}

/* --- the reading --- */

static ff_grid choose_grid(const ff_layout *layout, int64_t world) {
    bool written = layout->given & ff_layout_key_bit("grid");
    if (written || layout->grid == FF_GRID_PRODUCT || layout->dp == 0)
        return layout->grid;
    int64_t folded = ff_mul(ranks_without_dp(layout), layout->dp);
    if (world != 0)
        return folded != world && ff_mul(folded, layout->ep) == world ? FF_GRID_PRODUCT
                                                                      : FF_GRID_FOLDED;
    int64_t stage = ff_mul3(layout->tp, layout->cp, layout->dp);
    bool has_room = stage % ff_mul(ff_max(layout->etp, 1), layout->ep) == 0;
    return has_room ? FF_GRID_FOLDED : FF_GRID_PRODUCT;
}

/* dp of a layout that leaves it out; 0 when there is none. */
static int64_t missing_dp(const ff_layout *layout, ff_grid grid, int64_t world, int64_t factor) {
    if (world != 0)
        return world % factor == 0 ? world / factor : 0;
    if (grid == FF_GRID_PRODUCT)
        return 1;
    int64_t dense = ff_mul(layout->tp, layout->cp);
    return ff_lcm(dense, ff_mul(ff_max(layout->etp, 1), layout->ep)) / dense;
}

static void settle_dp(ff_deriving *now, ff_grid grid) {
    ff_layout *layout = now->layout;
    int64_t world = now->context->world;
    int64_t factor = ranks_without_dp(layout);
    if (grid == FF_GRID_PRODUCT)
        factor = ff_mul(factor, layout->ep);
    if (layout->dp == 0) {
        layout->dp = missing_dp(layout, grid, world, factor);
        if (layout->dp == 0)
            refuse_indivisible(now, factor);
    } else if (world != 0 && ff_mul(factor, layout->dp) != world) {
        refuse_mismatch(now);
    }
}

/* Every expert-parallel rank was one more replica of the dense part. */
static void fold(ff_deriving *now) {
    ff_layout *layout = now->layout;
    int64_t written_dp = layout->dp;
    layout->dp = ff_mul(layout->dp, layout->ep);
    if (layout->etp == 0)
        layout->etp = layout->tp;
    layout->grid = FF_GRID_FOLDED;
    if (layout->ep == 1)
        return;
    ff_report(
        now->findings, FF0207, FF_NOWHERE,
        "read as tp %lld x cp %lld x dp %lld x pp %lld x ep %lld = %lld ranks; with EP folded "
        "into the dense ranks that is dp=%lld, ep=%lld, etp=%lld",
        (long long)layout->tp, (long long)layout->cp, (long long)written_dp, (long long)layout->pp,
        (long long)layout->ep, (long long)ff_layout_world(layout), (long long)layout->dp,
        (long long)layout->ep, (long long)layout->etp);
}

static void settle_experts(ff_deriving *now) {
    ff_layout *layout = now->layout;
    int64_t stage = ff_mul3(layout->tp, layout->cp, layout->dp);
    int64_t experts = ff_mul(layout->etp, layout->ep);
    if (stage % experts == 0)
        layout->edp = stage / experts;
    else
        refuse_experts(now);
}

void ff_derive_grid(ff_deriving *now) {
    ff_layout *layout = now->layout;
    if (now->context->world > FF_LAYOUT_LARGEST_WORLD) {
        refuse_size(now, now->context->world);
    } else {
        ff_grid grid = choose_grid(layout, now->context->world);
        settle_dp(now, grid);
        if (!now->failed && grid == FF_GRID_PRODUCT)
            fold(now);
    }
    layout->dp = ff_max(layout->dp, 1);
    if (layout->etp == 0)
        layout->etp = ff_default_etp(layout);
    layout->edp = 1;
    if (now->failed)
        return;
    if (ff_layout_world(layout) > FF_LAYOUT_LARGEST_WORLD)
        refuse_size(now, ff_layout_world(layout));
    else
        settle_experts(now);
}
