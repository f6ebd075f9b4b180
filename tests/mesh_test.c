/* The mesh against its own laws and against brute force: bijection, groups that partition the
 * world, two grids with one pp coordinate, and the span of every group on every unit. */
#include "fivefold/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const ff_axis DENSE[4] = FF_DENSE_ORDER;
static const ff_axis EXPERT[4] = FF_EXPERT_ORDER;
enum { DENSE_AXES = 15, EXPERT_AXES = 8 + 16 + 32 + 64 };

static ff_mesh mesh_of(int64_t tp, int64_t cp, int64_t dp, int64_t pp, int64_t etp, int64_t ep) {
    int64_t size[FF_AXIS_COUNT] = {tp, cp, dp, pp, etp, ep, tp * cp * dp / (etp * ep)};
    ff_mesh mesh;
    assert_int_equal(ff_mesh_create(size, DENSE, EXPERT, NULL, &mesh), FF_OK);
    return mesh;
}

/* Hand-worked: the example of mesh.h. */
static void test_example(void **state) {
    (void)state;
    ff_mesh mesh = mesh_of(2, 1, 2, 2, 1, 4);
    assert_int_equal(mesh.world, 8);
    assert_int_equal(ff_mesh_coordinate(&mesh, 5, FF_AXIS_TP), 1);
    assert_int_equal(ff_mesh_coordinate(&mesh, 5, FF_AXIS_DP), 0);
    assert_int_equal(ff_mesh_coordinate(&mesh, 5, FF_AXIS_PP), 1);
    assert_int_equal(ff_mesh_coordinate(&mesh, 5, FF_AXIS_EP), 1);
    int64_t members[8];
    ff_mesh_group(&mesh, FF_AXES(FF_AXIS_DP), 5, members);
    assert_int_equal(members[0], 5);
    assert_int_equal(members[1], 7);
    ff_mesh_group(&mesh, FF_AXES(FF_AXIS_TP) | FF_AXES(FF_AXIS_PP), 7, members);
    const int64_t expected[4] = {2, 3, 6, 7};
    assert_memory_equal(members, expected, sizeof expected);
}

/* Llama 3 405B's shape: tp 8 stays in a host of 8, dp crosses hosts one rank each. */
static void test_known_spans(void **state) {
    (void)state;
    ff_mesh mesh = mesh_of(8, 1, 128, 16, 1, 1);
    ff_span tp = ff_mesh_span(&mesh, FF_AXES(FF_AXIS_TP), 8);
    assert_true(tp.n == 8 && tp.inside == 8 && tp.units == 1);
    ff_span dp = ff_mesh_span(&mesh, FF_AXES(FF_AXIS_DP), 8);
    assert_true(dp.n == 128 && dp.inside == 1 && dp.units == 128);
    /* A stage is 1024 ranks: pods of 3072 hold three, pods of 1536 cut every second one in half. */
    ff_span pod = ff_mesh_span(&mesh, FF_AXES(FF_AXIS_DP), 3072);
    assert_true(pod.n == 128 && pod.inside == 128 && pod.units == 1);
    ff_span half = ff_mesh_span(&mesh, FF_AXES(FF_AXIS_DP), 1536);
    assert_true(half.n == 128 && half.inside == 64 && half.units == 2);
    /* On racks of 72 a data-parallel group of stride 16 has 4 or 5 ranks in a rack. */
    ff_mesh rack = mesh_of(16, 1, 9, 1, 1, 1);
    ff_span on_rack = ff_mesh_span(&rack, FF_AXES(FF_AXIS_DP), 72);
    assert_true(on_rack.n == 9 && on_rack.units == 2 && on_rack.inside == 5);
}

static void check_bijection(const ff_mesh *mesh) {
    for (int64_t rank = 0; rank < mesh->world; rank++) {
        int64_t coordinate[FF_AXIS_COUNT];
        for (int axis = 0; axis < FF_AXIS_COUNT; axis++) {
            coordinate[axis] = ff_mesh_coordinate(mesh, rank, (ff_axis)axis);
            assert_in_range(coordinate[axis], 0, mesh->size[axis] - 1);
        }
        assert_int_equal(ff_mesh_dense_rank(mesh, coordinate), rank);
        assert_int_equal(ff_mesh_expert_rank(mesh, coordinate), rank);
    }
}

/* Every rank is in the group it asks for, groups are sorted, and a rank's group is the same seen
 * from each of its members: so the groups partition the world. */
static void check_partition(const ff_mesh *mesh, ff_axes axes) {
    int64_t n = ff_mesh_group_size(mesh, axes), members[64], again[64];
    int64_t seen = 0;
    for (int64_t rank = 0; rank < mesh->world; rank++) {
        ff_mesh_group(mesh, axes, rank, members);
        bool inside = false;
        for (int64_t i = 0; i < n; i++) {
            inside = inside || members[i] == rank;
            assert_true(i == 0 || members[i - 1] < members[i]);
            for (int axis = 0; axis < FF_AXIS_COUNT; axis++) {
                bool same_grid = ((axes & EXPERT_AXES & ~8u) != 0) == (axis > FF_AXIS_PP);
                if (!(axes & FF_AXES(axis)) && (same_grid || axis == FF_AXIS_PP))
                    assert_int_equal(ff_mesh_coordinate(mesh, members[i], (ff_axis)axis),
                                     ff_mesh_coordinate(mesh, rank, (ff_axis)axis));
            }
        }
        assert_true(inside);
        seen += members[0] == rank;
        ff_mesh_group(mesh, axes, members[n - 1], again);
        assert_memory_equal(members, again, (size_t)n * sizeof *members);
    }
    assert_int_equal(seen * n, mesh->world);
}

typedef struct counted {
    int64_t units, inside, start;
} counted;

static counted count_units(const int64_t *members, int64_t n, int64_t unit) {
    counted c = {1, 1, members[0] % unit};
    for (int64_t i = 1, here = 1; i < n; i++) {
        bool same = members[i] / unit == members[i - 1] / unit;
        c.units += !same;
        here = same ? here + 1 : 1;
        if (here > c.inside)
            c.inside = here;
    }
    return c;
}

static void check_span(const ff_mesh *mesh, ff_axes axes, int64_t unit) {
    int64_t n = ff_mesh_group_size(mesh, axes), members[256];
    counted worst = {0, 0, 0};
    for (int64_t rank = 0; rank < mesh->world; rank++) {
        ff_mesh_group(mesh, axes, rank, members);
        if (members[0] != rank)
            continue;
        counted c = count_units(members, n, unit);
        if (c.units > worst.units || (c.units == worst.units && c.start > worst.start))
            worst = c;
    }
    ff_span span = ff_mesh_span(mesh, axes, unit);
    if (span.n != n || span.units != worst.units || span.inside != worst.inside)
        fail_msg("axes %x unit %d: %d/%d/%d, brute force %d/%d/%d", axes, (int)unit, (int)span.n,
                 (int)span.inside, (int)span.units, (int)n, (int)worst.inside, (int)worst.units);
}

static void check_mesh(const ff_mesh *mesh) {
    check_bijection(mesh);
    for (ff_axes axes = 0; axes < 1u << FF_AXIS_COUNT; axes++) {
        if ((axes & ~(ff_axes)DENSE_AXES) != 0 && (axes & ~(ff_axes)EXPERT_AXES) != 0)
            continue;
        if (ff_mesh_group_size(mesh, axes) <= 64)
            check_partition(mesh, axes);
        for (int64_t unit = 1; unit <= mesh->world + 1; unit++)
            check_span(mesh, axes, unit);
    }
}

static void swap(ff_axis *a, ff_axis *b) {
    ff_axis keep = *a;
    *a = *b;
    *b = keep;
}

/* All 24 orders of the dense grid (k-th permutation). */
static void order_number(int k, ff_axis order[4]) {
    const ff_axis whole[4] = FF_DENSE_ORDER;
    memcpy(order, whole, sizeof whole);
    swap(&order[0], &order[k % 4]);
    swap(&order[1], &order[1 + k / 4 % 3]);
    swap(&order[2], &order[2 + k / 12 % 2]);
}

/* Every mesh with sizes from a small set that includes 1, primes and a power of two, in all orders,
 * on all units. The expert grid repeats the dense one, in the same order. */
static void test_small_meshes(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4};
    for (int shape = 0; shape < 256; shape++) {
        int64_t tp = sizes[shape % 4], cp = sizes[shape / 4 % 4], dp = sizes[shape / 16 % 4];
        int64_t pp = sizes[shape / 64], size[FF_AXIS_COUNT] = {tp, cp, dp, pp, tp, cp, dp};
        if (tp * cp * dp * pp > 24)
            continue;
        for (int k = 0; k < 24; k++) {
            ff_axis dense[4], expert[4];
            order_number(k, dense);
            for (int i = 0; i < 4; i++)
                expert[i] = dense[i] == FF_AXIS_PP ? dense[i] : dense[i] + FF_AXIS_ETP;
            ff_mesh mesh;
            assert_int_equal(ff_mesh_create(size, dense, expert, NULL, &mesh), FF_OK);
            check_mesh(&mesh);
        }
    }
}

/* Folded grids: etp and ep cut the same stage in another way. */
static void test_folded_grids(void **state) {
    (void)state;
    for (int64_t tp = 1; tp <= 4; tp++)
        for (int64_t dp = 1; dp <= 6; dp++)
            for (int64_t ep = 1; ep <= tp * dp; ep++)
                for (int64_t etp = 1; etp <= 2; etp++)
                    if (tp * dp % (ep * etp) == 0) {
                        ff_mesh mesh = mesh_of(tp, 1, dp, 3, etp, ep);
                        check_mesh(&mesh);
                    }
}

static unsigned next_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Larger sizes at random: long groups, many blocks, units up to the world. */
static void test_random_meshes(void **state) {
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        int64_t size[FF_AXIS_COUNT];
        for (int axis = 0; axis < 4; axis++)
            size[axis] = 1 + next_random(&seed) % 12;
        for (int axis = 0; axis < 3; axis++)
            size[FF_AXIS_ETP + axis] = size[axis];
        int64_t world = size[0] * size[1] * size[2] * size[3];
        ff_axis dense[4];
        order_number((int)(next_random(&seed) % 24), dense);
        ff_axis expert[4];
        for (int i = 0; i < 4; i++)
            expert[i] = dense[i] == FF_AXIS_PP ? dense[i] : dense[i] + FF_AXIS_ETP;
        ff_mesh mesh;
        assert_int_equal(ff_mesh_create(size, dense, expert, NULL, &mesh), FF_OK);
        ff_axes axes = next_random(&seed) % 16;
        if (ff_mesh_group_size(&mesh, axes) > 256)
            continue;
        check_span(&mesh, axes, 1 + next_random(&seed) % (unsigned)world);
        check_span(&mesh, axes, 1 + next_random(&seed) % 72);
    }
}

/* At the limit of 2^20 ranks, units that divide nothing: fast and in range. */
static void test_largest(void **state) {
    (void)state;
    ff_mesh mesh = mesh_of(8, 4, 2048, 16, 2, 16);
    assert_int_equal(mesh.world, 1 << 20);
    for (int64_t unit = 1; unit <= mesh.world; unit = unit * 3 / 2 + 1) {
        for (ff_axes axes = 0; axes < 16; axes++) {
            ff_span span = ff_mesh_span(&mesh, axes, unit);
            assert_true(span.inside >= 1 && span.inside <= span.n && span.inside <= unit);
            assert_true(span.units >= 1 && span.units * span.inside >= span.n);
        }
    }
}

static void refuse(const int64_t *size, const ff_axis *dense, const ff_axis *expert,
                   const char *code) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_mesh mesh;
    assert_int_equal(ff_mesh_create(size, dense, expert, findings, &mesh), FF_INVALID);
    assert_int_equal(ff_diagnostics_count(findings), 1);
    assert_string_equal(ff_diagnostics_at(findings, 0)->code, code);
    ff_diagnostics_free(findings);
}

static void test_refusals(void **state) {
    (void)state;
    const ff_axis pp_first[4] = {FF_AXIS_PP, FF_AXIS_TP, FF_AXIS_CP, FF_AXIS_DP};
    const ff_axis twice[4] = {FF_AXIS_TP, FF_AXIS_TP, FF_AXIS_DP, FF_AXIS_PP};
    const ff_axis wild[4] = {FF_AXIS_TP, FF_AXIS_CP, FF_AXIS_DP, (ff_axis)77};
    const int64_t good[] = {2, 1, 4, 2, 1, 4, 2}, unequal[] = {2, 1, 4, 2, 1, 3, 2};
    const int64_t zero[] = {2, 0, 4, 2, 1, 4, 2}, negative[] = {2, 1, 4, -2, 1, 4, 2};
    const int64_t huge[] = {INT64_MAX, INT64_MAX, 4, 2, 1, 4, INT64_MAX};
    const int64_t over[] = {1 << 10, 1, 1 << 10, 2, 1, 1 << 10, 1 << 10};
    refuse(unequal, DENSE, EXPERT, "FF0208");
    refuse(good, pp_first, EXPERT, "FF0208");
    refuse(good, twice, EXPERT, "FF0206");
    refuse(good, wild, EXPERT, "FF0206");
    refuse(good, DENSE, DENSE, "FF0206");
    refuse(zero, DENSE, EXPERT, "FF0206");
    refuse(negative, DENSE, EXPERT, "FF0206");
    refuse(huge, DENSE, EXPERT, "FF0209");
    refuse(over, DENSE, EXPERT, "FF0209");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),       cmocka_unit_test(test_known_spans),
        cmocka_unit_test(test_small_meshes),  cmocka_unit_test(test_folded_grids),
        cmocka_unit_test(test_random_meshes), cmocka_unit_test(test_largest),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
