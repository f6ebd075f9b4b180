/* Ranks, coordinates and groups as pure integers: a rank is a mixed-radix number, an axis one of
 * its digits.
 *
 *     rank = ... + digit(pp) * tp*cp*dp + digit(dp) * tp*cp + digit(cp) * tp + digit(tp)
 *
 * Invariants: strides of one grid form a chain, each the product of the sizes inside it; pp has one
 * stride in both grids. Sizes and orders that break them are refused by ff_mesh_create; the other
 * functions trust a mesh that it made. The span of a group on hosts and domains is in span.c. */
#include "fivefold/mesh.h"

#include "base/diagnose.h"
#include "base/number.h"
#include <assert.h>

enum { GRID_AXES = 4, LARGEST_WORLD = 1 << 20 };

static const ff_axes DENSE_AXES =
    FF_AXES(FF_AXIS_TP) | FF_AXES(FF_AXIS_CP) | FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_PP);
static const ff_axes EXPERT_AXES =
    FF_AXES(FF_AXIS_ETP) | FF_AXES(FF_AXIS_EP) | FF_AXES(FF_AXIS_EDP) | FF_AXES(FF_AXIS_PP);

const char *ff_axis_name(ff_axis axis) {
    static const char *const names[FF_AXIS_COUNT] = {
        [FF_AXIS_TP] = "tp",   [FF_AXIS_CP] = "cp", [FF_AXIS_DP] = "dp",   [FF_AXIS_PP] = "pp",
        [FF_AXIS_ETP] = "etp", [FF_AXIS_EP] = "ep", [FF_AXIS_EDP] = "edp",
    };
    return names[axis];
}

static bool sizes_are_positive(const int64_t size[FF_AXIS_COUNT], ff_diagnostics *findings) {
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++) {
        if (size[axis] >= 1)
            continue;
        ff_report(findings, FF0206, FF_NOWHERE, "%s is %lld; every axis has at least one rank",
                  ff_axis_name((ff_axis)axis), (long long)size[axis]);
        ff_report_help(findings, "%s=1 leaves the axis unused", ff_axis_name((ff_axis)axis));
        return false;
    }
    return true;
}

/* Whether an order names each axis of its grid once. */
static bool order_is_whole(const ff_axis order[GRID_AXES], ff_axes grid, ff_diagnostics *findings) {
    ff_axes named = 0;
    for (int i = 0; i < GRID_AXES; i++)
        named |= (unsigned)order[i] < FF_AXIS_COUNT ? FF_AXES(order[i]) : 0;
    if (named == grid)
        return true;
    ff_report(findings, FF0206, FF_NOWHERE,
              "the order of the %s grid does not name each of its axes once",
              grid == DENSE_AXES ? "dense" : "expert");
    ff_report_help(findings, grid == DENSE_AXES ? "the default is tp-cp-dp-pp"
                                                : "the default is etp-ep-edp-pp");
    return false;
}

/* Strides of one grid from innermost out; returns the ranks of the grid (saturating). */
static int64_t lay_out(const ff_axis order[GRID_AXES], const int64_t size[FF_AXIS_COUNT],
                       int64_t stride[FF_AXIS_COUNT]) {
    int64_t ranks = 1;
    for (int i = 0; i < GRID_AXES; i++) {
        stride[order[i]] = ranks;
        ranks = ff_mul(ranks, size[order[i]]);
    }
    return ranks;
}

static ff_status refuse_unequal(const int64_t size[FF_AXIS_COUNT], int64_t dense, int64_t experts,
                                ff_diagnostics *findings) {
    ff_report(findings, FF0208, FF_NOWHERE,
              "tp*cp*dp*pp = %lld*%lld*%lld*%lld makes %lld ranks, etp*ep*edp*pp = "
              "%lld*%lld*%lld*%lld makes %lld",
              (long long)size[FF_AXIS_TP], (long long)size[FF_AXIS_CP], (long long)size[FF_AXIS_DP],
              (long long)size[FF_AXIS_PP], (long long)dense, (long long)size[FF_AXIS_ETP],
              (long long)size[FF_AXIS_EP], (long long)size[FF_AXIS_EDP],
              (long long)size[FF_AXIS_PP], (long long)experts);
    int64_t stage = dense / size[FF_AXIS_PP];
    int64_t inner = ff_mul(size[FF_AXIS_ETP], size[FF_AXIS_EP]);
    if (stage % inner == 0)
        ff_report_help(findings, "edp=%lld makes them equal", (long long)(stage / inner));
    else
        ff_report_help(findings, "etp*ep must divide tp*cp*dp = %lld; %lld would", (long long)stage,
                       (long long)ff_gcd(stage, inner));
    return FF_INVALID;
}

ff_status ff_mesh_create(const int64_t size[FF_AXIS_COUNT], const ff_axis dense_order[4],
                         const ff_axis expert_order[4], ff_diagnostics *findings, ff_mesh *mesh) {
    *mesh = (ff_mesh){0};
    if (!sizes_are_positive(size, findings) || !order_is_whole(dense_order, DENSE_AXES, findings) ||
        !order_is_whole(expert_order, EXPERT_AXES, findings))
        return FF_INVALID;
    ff_mesh made = {0};
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        made.size[axis] = size[axis];
    int64_t experts = lay_out(expert_order, size, made.stride);
    int64_t expert_pp_stride = made.stride[FF_AXIS_PP];
    made.world = lay_out(dense_order, size, made.stride);
    if (made.world > LARGEST_WORLD || experts > LARGEST_WORLD) {
        ff_report(findings, FF0209, FF_NOWHERE, "the axes make more than %d ranks",
                  (int)LARGEST_WORLD);
        return FF_INVALID;
    }
    if (made.world != experts)
        return refuse_unequal(size, made.world, experts, findings);
    if (size[FF_AXIS_PP] > 1 && made.stride[FF_AXIS_PP] != expert_pp_stride) {
        ff_report(findings, FF0208, FF_NOWHERE,
                  "neighbouring stages are %lld ranks apart in the dense grid, %lld in the expert "
                  "grid",
                  (long long)made.stride[FF_AXIS_PP], (long long)expert_pp_stride);
        ff_report_help(findings, "put pp outermost in both orders");
        return FF_INVALID;
    }
    *mesh = made;
    return FF_OK;
}

int64_t ff_mesh_coordinate(const ff_mesh *mesh, int64_t rank, ff_axis axis) {
    return rank / mesh->stride[axis] % mesh->size[axis];
}

static int64_t rank_in(const ff_mesh *mesh, ff_axes grid, const int64_t coordinate[FF_AXIS_COUNT]) {
    int64_t rank = 0;
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        if (grid & FF_AXES(axis))
            rank += coordinate[axis] * mesh->stride[axis];
    return rank;
}

int64_t ff_mesh_dense_rank(const ff_mesh *mesh, const int64_t coordinate[FF_AXIS_COUNT]) {
    return rank_in(mesh, DENSE_AXES, coordinate);
}

int64_t ff_mesh_expert_rank(const ff_mesh *mesh, const int64_t coordinate[FF_AXIS_COUNT]) {
    return rank_in(mesh, EXPERT_AXES, coordinate);
}

int64_t ff_mesh_group_size(const ff_mesh *mesh, ff_axes axes) {
    assert((axes & ~DENSE_AXES) == 0 || (axes & ~EXPERT_AXES) == 0);
    int64_t ranks = 1;
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        if (axes & FF_AXES(axis))
            ranks *= mesh->size[axis];
    return ranks;
}

/* The axis of a set with the smallest stride among those of more than one rank; -1 when none. */
static int innermost(const ff_mesh *mesh, ff_axes axes) {
    int found = -1;
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        if ((axes & FF_AXES(axis)) && mesh->size[axis] > 1 &&
            (found < 0 || mesh->stride[axis] < mesh->stride[found]))
            found = axis;
    return found;
}

/* Each axis repeats what stands there so far, shifted by its stride. From the innermost axis out
 * the ranks come in rising order, since a stride exceeds all that lies inside it. */
void ff_mesh_group(const ff_mesh *mesh, ff_axes axes, int64_t rank, int64_t *members) {
    int64_t first = rank, count = 1;
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        if (axes & FF_AXES(axis))
            first -= ff_mesh_coordinate(mesh, rank, (ff_axis)axis) * mesh->stride[axis];
    members[0] = first;
    for (int axis = innermost(mesh, axes); axis >= 0; axis = innermost(mesh, axes)) {
        for (int64_t i = count; i < count * mesh->size[axis]; i++)
            members[i] = members[i - count] + mesh->stride[axis];
        count *= mesh->size[axis];
        axes &= ~FF_AXES(axis);
    }
}
