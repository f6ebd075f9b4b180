/* Ranks, coordinates and groups: pure integers.
 *
 * The world has two grids over the same ranks (docs/model.md B):
 *     dense    world = tp * cp * dp * pp
 *     experts  world = etp * ep * edp * pp
 * An order lists a grid's axes from innermost (neighbouring ranks) out. A group along a set of axes
 * is every rank that differs from a given one in those axes only; it is a pure function of mesh,
 * set and rank.
 *
 *     rank = sum over axes of coordinate * stride
 *     tp=2,cp=1,dp=2,pp=2:  rank 5 is tp 1, dp 0, pp 1
 *
 * Invariants: rank -> coordinates -> rank is the identity; the groups of one set of axes are
 * disjoint and cover the world; both grids have the same pp coordinate for every rank. */
#ifndef FIVEFOLD_MESH_H
#define FIVEFOLD_MESH_H

#include "fivefold/diagnostics.h"
#include "fivefold/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum ff_axis {
    FF_AXIS_TP,
    FF_AXIS_CP,
    FF_AXIS_DP,
    FF_AXIS_PP,
    FF_AXIS_ETP,
    FF_AXIS_EP,
    FF_AXIS_EDP,
    FF_AXIS_COUNT
} ff_axis;

/* A set of axes of one grid (pp belongs to both). */
typedef unsigned ff_axes;
#define FF_AXES(axis) (1u << (axis))

typedef struct ff_mesh {
    int64_t world;
    int64_t size[FF_AXIS_COUNT];
    int64_t stride[FF_AXIS_COUNT];
} ff_mesh;

/* The default order. */
#define FF_DENSE_ORDER                                                                             \
    { FF_AXIS_TP, FF_AXIS_CP, FF_AXIS_DP, FF_AXIS_PP }
#define FF_EXPERT_ORDER                                                                            \
    { FF_AXIS_ETP, FF_AXIS_EP, FF_AXIS_EDP, FF_AXIS_PP }

/* `size` gives all seven sizes (size[PP] shared); the two orders are permutations of their grid's
 * four axes. FF_INVALID when the grids' products differ, or pp would not coincide. */
FF_API ff_status ff_mesh_create(const int64_t size[FF_AXIS_COUNT], const ff_axis dense_order[4],
                                const ff_axis expert_order[4], ff_diagnostics *findings,
                                ff_mesh *mesh);

FF_API int64_t ff_mesh_coordinate(const ff_mesh *mesh, int64_t rank, ff_axis axis);
/* The rank with the given coordinates in the dense grid / the expert grid. */
FF_API int64_t ff_mesh_dense_rank(const ff_mesh *mesh, const int64_t coordinate[FF_AXIS_COUNT]);
FF_API int64_t ff_mesh_expert_rank(const ff_mesh *mesh, const int64_t coordinate[FF_AXIS_COUNT]);

/* Ranks in a group along `axes`, and its members in rank order for the group that holds `rank`
 * (`members` has room for the size). All axes must be of one grid. */
FF_API int64_t ff_mesh_group_size(const ff_mesh *mesh, ff_axes axes);
FF_API void ff_mesh_group(const ff_mesh *mesh, ff_axes axes, int64_t rank, int64_t *members);

/* How a group lies on units of `unit` consecutive ranks (nodes, domains, pods): `n` ranks, at most
 * `inside` of them in one unit, over `units` units; of the group that touches the most units (of
 * several, the one that starts latest in its unit). `unit` is at least 1. */
typedef struct ff_span {
    int64_t n, inside, units;
} ff_span;
FF_API ff_span ff_mesh_span(const ff_mesh *mesh, ff_axes axes, int64_t unit);

/* "tp", "cp", ... */
FF_API const char *ff_axis_name(ff_axis axis);

#endif
