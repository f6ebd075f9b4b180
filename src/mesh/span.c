/* How a group lies on units of consecutive ranks (hosts, domains, pods): the group that touches the
 * most units, in closed form.
 *
 * A grid has four axes. Neighbours in the order that are both in the group, or both out of it,
 * merge into one digit; what remains alternates, so a group is at most two nested progressions, and
 * its first rank (the base) runs over at most two others:
 *
 *     group = base + i*s1 + j*s2       i < n1, j < n2, n1*s1 <= s2
 *     base  = a*t1 + b*t2              a < m1, b < m2
 *
 *     u = 6, s1 = 2, n1 = 4      unit |  .  .  x  .  x  . |  x  .  x  .  .  . |
 *     base = 2                     r = 2 = base mod u      last = 6: units = (2 + 6)/6 + 1 = 2
 *
 * Only r = base mod u matters. Three cases, by the gaps between neighbours of the group (s1 inside
 * a block of n1, s2 - (n1-1)*s1 between blocks):
 *   apart   s1 >= u: no two ranks share a unit: n units of one rank.
 *   dense   every gap < u: no unit is skipped between first and last rank, so
 *           units = (r + last)/u + 1 with the last rank `last` after the first. It grows with r:
 *           the largest reachable r is the worst.
 *   blocks  s1 < u <= gap between blocks: blocks share no unit, so the units of the blocks add up.
 *           Block j starts at r_j = (r + j*s2) mod u and touches (L1/u) + 1 units, one more when
 *           r_j + L1 mod u passes a boundary (L1 = (n1-1)*s1). How many j do is a sum of floors,
 *           which Euclid's algorithm gives.
 * Of several groups that touch equally many units the one that starts latest in its unit is
 * described: it has the fewest ranks in its first unit, the place where a ring is narrowest.
 *
 * Cost: a few divisions (some 0.1 us) where units and strides divide each other, which is nearly
 * always. Else loops run over what is distinct modulo u: in the dense case over the fewer of m1 and
 * m2 times the wraps around the unit, in the rare blocks case over the bases. Nothing is allocated
 * and no rank is visited. */
#include "fivefold/mesh.h"

#include "base/number.h"
#include <assert.h>
#include <stddef.h>

typedef struct digit {
    int64_t size, stride;
} digit;

/* Absent digits have size 1. */
typedef struct pattern {
    digit in[2], out[2]; /* inner one first */
    int64_t n;
} pattern;

static const ff_axes EXPERTS = FF_AXES(FF_AXIS_ETP) | FF_AXES(FF_AXIS_EP) | FF_AXES(FF_AXIS_EDP);

static void append(digit digits[2], int *count, int64_t size, int64_t stride) {
    digit *last = *count > 0 ? &digits[*count - 1] : NULL;
    if (last != NULL && last->size * last->stride == stride) {
        last->size *= size;
        return;
    }
    assert(*count < 2);
    digits[(*count)++] = (digit){size, stride};
}

/* Sorts the grid's axes into digits inside and outside the group, neighbours merged. */
static pattern pattern_of(const ff_mesh *mesh, ff_axes axes) {
    static const ff_axis grids[2][4] = {
        {FF_AXIS_TP, FF_AXIS_CP, FF_AXIS_DP, FF_AXIS_PP},
        {FF_AXIS_ETP, FF_AXIS_EP, FF_AXIS_EDP, FF_AXIS_PP},
    };
    const ff_axis *grid = grids[(axes & EXPERTS) != 0];
    pattern p = {{{1, 1}, {1, 1}}, {{1, 1}, {1, 1}}, ff_mesh_group_size(mesh, axes)};
    int in = 0, out = 0;
    for (int64_t stride = 1; stride < mesh->world;) {
        int i = 0;
        while (mesh->stride[grid[i]] != stride || mesh->size[grid[i]] == 1)
            i++;
        int64_t size = mesh->size[grid[i]];
        if (axes & FF_AXES(grid[i]))
            append(p.in, &in, size, stride);
        else
            append(p.out, &out, size, stride);
        stride *= size;
    }
    if (in < 2) /* one progression: as if a second block lay beyond the world */
        p.in[1].stride = mesh->world;
    return p;
}

/* When the innermost digit is outside the group and divides the unit, every such digit sees the
 * same picture, so it is divided away: strides of 8 on units of 72 are strides of 1 on units of 9.
 */
static int64_t reduce(pattern *p, int64_t unit) {
    int64_t factor = p->out[0].size;
    if (p->out[0].stride != 1 || p->in[0].stride < factor || unit % factor != 0)
        return unit;
    p->out[0] = (digit){1, 1};
    p->out[1].stride = ff_max(1, p->out[1].stride / factor);
    p->in[0].stride /= factor;
    p->in[1].stride /= factor;
    return unit / factor;
}

/* Steps after which k * stride mod unit has taken all its values. */
static int64_t cycle(int64_t stride, int64_t unit) {
    return unit / ff_gcd(stride % unit, unit);
}

/* The largest (start + k*stride) mod unit for k < count. Values climb by the stride, then wrap;
 * only the last one before each wrap can be the largest. */
static int64_t largest_remainder(int64_t start, digit d, int64_t unit) {
    int64_t step = d.stride % unit, period = cycle(d.stride, unit);
    if (d.size >= period)
        return start % (unit / period) + unit - unit / period;
    int64_t end = start + (d.size - 1) * step, largest = end % unit;
    for (int64_t wrap = unit; wrap <= end; wrap += unit) {
        int64_t last_step = (wrap - 1 - start) / step;
        largest = ff_max(largest, (start + last_step * step) % unit);
    }
    return largest;
}

/* The latest place in its unit where a group can start. */
static int64_t latest_start(const pattern *p, int64_t unit) {
    int64_t count[2] = {ff_min(p->out[0].size, cycle(p->out[0].stride, unit)),
                        ff_min(p->out[1].size, cycle(p->out[1].stride, unit))};
    int fewer = count[1] < count[0];
    int64_t latest = 0;
    for (int64_t k = 0; k < count[fewer] && latest < unit - 1; k++) {
        int64_t start = k * p->out[fewer].stride % unit;
        latest = ff_max(latest, largest_remainder(start, p->out[!fewer], unit));
    }
    return latest;
}

/* Ranks of a group that lie less than `distance` after its first. */
static int64_t ranks_before(const pattern *p, int64_t distance) {
    if (distance <= 0)
        return 0;
    const digit *inner = &p->in[0], *outer = &p->in[1];
    int64_t blocks = distance / outer->stride;
    if (blocks >= outer->size)
        return p->n;
    int64_t rest = ff_ceil_div(distance - blocks * outer->stride, inner->stride);
    return blocks * inner->size + ff_min(inner->size, rest);
}

/* Ranks in the fullest of the units that a group touches when it starts at `start` in its first.
 * Units between the first and the last repeat with the pattern. */
static int64_t fullest(const pattern *p, int64_t unit, int64_t start, int64_t units) {
    int64_t step = p->in[1].size > 1 ? p->in[1].stride : p->in[0].stride;
    int64_t period = step / ff_gcd(unit, step);
    int64_t most = p->n - ranks_before(p, (units - 1) * unit - start);
    for (int64_t k = 0; k < ff_min(units - 1, period + 1); k++) {
        int64_t here = ranks_before(p, (k + 1) * unit - start) - ranks_before(p, k * unit - start);
        most = ff_max(most, here);
    }
    return most;
}

/* sum of floor((a*j + b) / m) for j < n, with 0 <= a, b and m > 0. */
static int64_t floor_sum(int64_t n, int64_t m, int64_t a, int64_t b) {
    int64_t sum = 0;
    while (n > 0) {
        sum += a / m * (n * (n - 1) / 2) + b / m * n;
        a %= m;
        b %= m;
        int64_t top = a * n + b;
        n = top / m; /* swap the roles of the axes and count what is left below the line */
        b = top % m;
        int64_t swap = m;
        m = a;
        a = swap;
        if (m == 0)
            break;
    }
    return sum;
}

static ff_span dense_span(const pattern *p, int64_t unit) {
    int64_t last = (p->in[0].size - 1) * p->in[0].stride + (p->in[1].size - 1) * p->in[1].stride;
    int64_t start = latest_start(p, unit);
    int64_t units = (start + last) / unit + 1;
    return (ff_span){p->n, fullest(p, unit, start, units), units};
}

/* Units that the blocks touch together when the first starts at `start`. */
static int64_t units_of_blocks(const pattern *p, int64_t unit, int64_t start) {
    int64_t length = (p->in[0].size - 1) * p->in[0].stride;
    int64_t step = p->in[1].stride, blocks = p->in[1].size;
    return blocks + floor_sum(blocks, unit, step, start + length) -
           floor_sum(blocks, unit, step, start);
}

static ff_span block_span(const pattern *p, int64_t unit) {
    int64_t rows = ff_min(p->out[0].size, cycle(p->out[0].stride, unit));
    int64_t columns = ff_min(p->out[1].size, cycle(p->out[1].stride, unit));
    int64_t worst = -1, units = 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t start = (i % rows * p->out[0].stride + i / rows * p->out[1].stride) % unit;
        int64_t here = units_of_blocks(p, unit, start);
        if (here > units || (here == units && start > worst)) {
            units = here;
            worst = start;
        }
    }
    pattern block = *p;
    block.n = p->in[0].size;
    block.in[1].size = 1;
    int64_t length = (p->in[0].size - 1) * p->in[0].stride, inside = 0;
    for (int64_t j = 0; j < ff_min(p->in[1].size, cycle(p->in[1].stride, unit)); j++) {
        int64_t start = (worst + j * p->in[1].stride) % unit;
        inside = ff_max(inside, fullest(&block, unit, start, (start + length) / unit + 1));
    }
    return (ff_span){p->n, inside, units};
}

ff_span ff_mesh_span(const ff_mesh *mesh, ff_axes axes, int64_t unit) {
    assert(unit >= 1);
    pattern p = pattern_of(mesh, axes);
    if (p.n == 1 || unit >= mesh->world)
        return (ff_span){p.n, p.n, 1};
    unit = reduce(&p, unit);
    if (p.in[0].stride >= unit)
        return (ff_span){p.n, 1, p.n};
    int64_t gap = p.in[1].stride - (p.in[0].size - 1) * p.in[0].stride;
    return p.in[1].size == 1 || gap < unit ? dense_span(&p, unit) : block_span(&p, unit);
}
