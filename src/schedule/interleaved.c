/* Interleaved 1F1B (Narayanan 2021, 2104.04473): each stage holds v chunks of the model, so a
 * microbatch passes every stage v times in pieces of 1/v and the pipeline fills v times faster.
 *
 * Microbatches run in groups of u (default p): a group passes chunk 0, then chunk 1, ...; backward
 * takes the same order with chunks reversed. Numbering the v*m forwards of a stage in that order:
 *
 *     v 2, u 3, m 5    number      0 1 2 3 4 5 | 6 7 8 9        the last group is smaller
 *                      microbatch  0 1 2 0 1 2 | 3 4 3 4
 *                      chunk       0 0 0 1 1 1 | 0 0 1 1        backward: 1 1 1 0 0 0 | 1 1 0 0
 *
 * A stage runs min(v*m, 2(p-1-stage) + (v-1)u) forwards, then one forward, one backward, then the
 * rest: Megatron-LM's order (schedules.py, get_schedule_table and get_pp_rank_microbatches, core
 * 0.6 on). Older Megatron-LM (before microbatch groups) ran all forwards first when m = p; here,
 * as in the newer one, m = p is no special case.
 *
 * Span of uneven stages: as in 1F1B, for each stage the path that reaches it, works through its
 * pieces and leaves it, with the waits that it cannot cover (times of one piece, 1/v of a stage):
 *
 *     fill    v-1 times until the first microbatch has been through all stages and is back (sum F +
 *             p*x, of which the stage's own u pieces cover u*F); then until it is back from the
 *             stages below (D; 2(p-1-stage) further forwards cover)
 *     drain   the same for the last group's backwards
 *
 * In the steady state forwards and backwards alternate, so a round has twice the time it needs and
 * hides its transfers. Measured against the exact run: span.h. */
#include "schedule/generators.h"

#include "base/diagnose.h"
#include "base/number.h"

static int32_t group_size(const ff_schedule_shape *shape) {
    return shape->group == 0 ? shape->stages : shape->group;
}

static void check_default_group(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    int64_t p = shape->stages, m = shape->microbatches;
    if (m % p == 0)
        return;
    ff_report(findings, FF0244, FF_NOWHERE, "%lld microbatches are no multiple of pp=%lld",
              (long long)m, (long long)p);
    if (m > p)
        ff_report_help(findings, "nearest legal: microbatches=%lld, microbatches=%lld",
                       (long long)(m - m % p), (long long)ff_round_up(m, p));
    else
        ff_report_help(findings, "nearest legal: microbatches=%lld", (long long)p);
}

static void check_given_group(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    long long p = shape->stages, m = shape->microbatches, u = shape->group;
    if (u < p || u > m) {
        ff_report(findings, FF0245, FF_NOWHERE,
                  "a microbatch group of %lld with pp=%lld and %lld microbatches", u, p, m);
        if (m >= p)
            ff_report_help(findings, "a group of %lld to %lld", p, m);
        else
            ff_report_help(findings, "microbatches=%lld or more", p);
    } else if (m % u != 0 && m % u < p) {
        ff_report(findings, FF0244, FF_NOWHERE,
                  "%lld microbatches in groups of %lld leave %lld, fewer than pp=%lld", m, u, m % u,
                  p);
        ff_report_help(findings, "nearest legal: microbatches=%lld, microbatches=%lld", m - m % u,
                       m - m % u + p);
    }
}

static void check(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    if (shape->stages < 2 || shape->chunks < 2) {
        ff_report(findings, FF0243, FF_NOWHERE, "interleaved with pp=%d and vpp=%d", shape->stages,
                  shape->chunks);
        ff_report_help(findings, shape->stages < 2 ? "schedule=1f1b,vpp=1, or pp=2 or more"
                                                   : "vpp=2 or more, or schedule=1f1b");
        return;
    }
    if (shape->group == 0)
        check_default_group(shape, findings);
    else
        check_given_group(shape, findings);
}

/* Chunk and microbatch of the stage's forward with a given number (see the drawing above). */
static void locate(const ff_schedule_shape *shape, int64_t number, int32_t *chunk,
                   int32_t *microbatch) {
    int64_t u = group_size(shape), first = number / (u * shape->chunks) * u;
    int64_t size = ff_min(u, shape->microbatches - first);
    int64_t inside = number - first * shape->chunks;
    *chunk = (int32_t)(inside / size);
    *microbatch = (int32_t)(first + inside % size);
}

static void forward(const ff_schedule_shape *shape, int64_t number, ff_order *order) {
    int32_t chunk, microbatch;
    locate(shape, number, &chunk, &microbatch);
    ff_order_forward(order, chunk, microbatch);
}

static void backward(const ff_schedule_shape *shape, int64_t number, ff_order *order) {
    int32_t chunk, microbatch;
    locate(shape, number, &chunk, &microbatch);
    ff_order_backward(order, shape->chunks - 1 - chunk, microbatch);
}

static int64_t pieces(const ff_schedule_shape *shape) {
    return (int64_t)shape->chunks * shape->microbatches;
}

static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    int64_t ahead =
        2 * (int64_t)(shape->stages - 1 - stage) + (int64_t)(shape->chunks - 1) * group_size(shape);
    return ff_min(pieces(shape), ahead);
}

static int64_t in_flight(const ff_schedule_shape *shape, int32_t stage) {
    return ff_min(pieces(shape), warmup(shape, stage) + 1);
}

/* The first in_flight forwards are what is held; whole groups pass every chunk, the last one begun
 * fills its chunks in order. */
static int64_t in_flight_of_chunk(const ff_schedule_shape *shape, int32_t stage, int32_t chunk) {
    int64_t u = group_size(shape), held = in_flight(shape, stage);
    int64_t groups = held / (u * shape->chunks), first = groups * u;
    int64_t size = ff_min(u, shape->microbatches - first);
    int64_t inside = held - first * shape->chunks;
    return first + ff_max(0, ff_min(size, inside - chunk * size));
}

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    int64_t ahead = warmup(shape, stage), all = pieces(shape);
    for (int64_t i = 0; i < ahead; i++)
        forward(shape, i, order);
    for (int64_t i = ahead; i < all; i++) {
        forward(shape, i, order);
        backward(shape, i - ahead, order);
    }
    for (int64_t i = all - ahead; i < all; i++)
        backward(shape, i, order);
}

static double bubble(const ff_schedule_shape *shape, double f, double b, double w) {
    return (shape->stages - 1) * (f + b + w) / shape->chunks;
}

/* --- the peak of uneven chunks --- */

/* A place in the order of chunks that forwards (or, mirrored, backwards) follow. */
typedef struct cursor {
    int64_t first, size, inside; /* of the group: its first microbatch, microbatches, place */
    int32_t chunk;
} cursor;

static cursor cursor_at(const ff_schedule_shape *shape, int64_t number) {
    int64_t u = group_size(shape), first = number / (u * shape->chunks) * u;
    int64_t size = ff_min(u, shape->microbatches - first);
    int64_t inside = number - first * shape->chunks;
    return (cursor){first, size, inside % size, (int32_t)(inside / size)};
}

static void step(const ff_schedule_shape *shape, cursor *at, int64_t steps) {
    at->inside += steps;
    if (at->inside < at->size)
        return;
    at->inside = 0;
    if (++at->chunk < shape->chunks)
        return;
    at->chunk = 0;
    at->first += at->size;
    at->size = ff_min(group_size(shape), shape->microbatches - at->first);
}

static bool all_alike(const ff_schedule_shape *shape, const ff_chunk_hold *holds) {
    for (int32_t c = 1; c < shape->chunks; c++)
        if (holds[c].kept_bytes != holds[0].kept_bytes ||
            holds[c].working_bytes != holds[0].working_bytes)
            return false;
    return true;
}

/* Sums that would not be exact are not worth telling apart. */
static bool too_large(const ff_schedule_shape *shape, int64_t forwards,
                      const ff_chunk_hold *holds) {
    for (int32_t c = 0; c < shape->chunks; c++)
        if (ff_add(ff_mul(forwards + 1, holds[c].kept_bytes), holds[c].working_bytes) ==
            FF_SATURATED)
            return true;
    return false;
}

/* Looks at every backward of a round of groups, from the first one on, with what is held before it;
 * counts repeat from round to round, but for a last group that is smaller. While neither forwards
 * nor backwards change their chunk, what is held grows or shrinks evenly: a run's ends say it all.
 * Returns the number of the one with the most. */
static int64_t worst_backward(const ff_schedule_shape *shape, int32_t stage,
                              const ff_chunk_hold *holds, ff_peak *peak) {
    int64_t all = pieces(shape), u = group_size(shape), worst = 0, bytes = 0, run;
    int64_t backwards = shape->microbatches % u == 0 ? ff_min(all, u * shape->chunks) : all;
    int64_t forwards = in_flight(shape, stage);
    for (int32_t c = 0; c < shape->chunks; c++)
        bytes += in_flight_of_chunk(shape, stage, c) * holds[c].kept_bytes;
    cursor back = cursor_at(shape, 0), on = cursor_at(shape, forwards < all ? forwards : 0);
    *peak = (ff_peak){-1, 0};
    for (int64_t i = 0; i < backwards; i += run) {
        int32_t running = shape->chunks - 1 - back.chunk;
        bool goes_on = forwards + i < all;
        run = ff_min(back.size - back.inside, backwards - i);
        if (goes_on)
            run = ff_min(run, ff_min(on.size - on.inside, all - forwards - i));
        int64_t grows = (goes_on ? holds[on.chunk].kept_bytes : 0) - holds[running].kept_bytes;
        int64_t last = grows > 0 ? run - 1 : 0;
        int64_t most = bytes + last * grows + holds[running].working_bytes;
        if (most > peak->bytes) {
            *peak = (ff_peak){most, running};
            worst = i + last;
        }
        bytes += run * grows;
        step(shape, &back, run);
        if (goes_on)
            step(shape, &on, run);
    }
    return worst;
}

/* Of the pieces before a cursor, those of the chunk that stands at `place` in the order. */
static int64_t passed(const cursor *at, int32_t place) {
    return at->first + (at->chunk > place ? at->size : at->chunk == place ? at->inside : 0);
}

/* Past all of them where there are no more. */
static cursor cursor_after(const ff_schedule_shape *shape, int64_t number) {
    if (number >= pieces(shape))
        return (cursor){shape->microbatches, 0, 0, 0};
    return cursor_at(shape, number);
}

static ff_peak peak(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                    ff_held *held) {
    ff_peak most = {0, shape->chunks - 1}; /* which runs backward first */
    int64_t worst = 0, forwards = in_flight(shape, stage);
    if (all_alike(shape, holds) || too_large(shape, forwards, holds))
        most.bytes = ff_add(ff_mul(forwards, holds[0].kept_bytes), holds[0].working_bytes);
    else
        worst = worst_backward(shape, stage, holds, &most);
    cursor on = cursor_after(shape, forwards + worst), back = cursor_after(shape, worst);
    for (int32_t c = 0; c < shape->chunks; c++)
        held[c] = (ff_held){passed(&on, c) - passed(&back, shape->chunks - 1 - c), 0};
    return most;
}

/* --- the span of uneven stages --- */

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double wait_s(double until_s, double covered_s) {
    return larger(0, until_s - covered_s);
}

/* One stage as the others see it; times of one piece (1/v of the stage), transfers included. */
typedef struct place {
    int32_t stage;
    double forward_s, backward_s;             /* of the stage's own piece */
    double above_s;                           /* forward and backward of all stages before it */
    double below_s;                           /* and of all after it */
    double forward_round_s, backward_round_s; /* once through all stages, back to this one */
} place;

/* From the stage's first forward to its last backward (head of the file). */
static double busy_s(const ff_schedule_shape *shape, const place *at) {
    int64_t u = group_size(shape), rest = shape->microbatches % u, last = rest == 0 ? u : rest;
    int64_t rounds = shape->chunks - 1, all = pieces(shape), ahead = warmup(shape, at->stage);
    double n = 2.0 * (shape->stages - 1 - at->stage);
    double fill_s = (double)rounds * wait_s(at->forward_round_s, (double)u * at->forward_s);
    double drain_s = (double)rounds * wait_s(at->backward_round_s, (double)last * at->backward_s);
    double own_s = (double)all * (at->forward_s + at->backward_s);
    if (ahead < all)
        return own_s + fill_s + wait_s(at->below_s, n * at->forward_s) + drain_s +
               wait_s(at->below_s, n * at->backward_s);
    /* All forwards, one wait, all backwards: it follows the first microbatch or the last one. */
    double after_first_s = (double)(all - 1 - rounds * u) * at->forward_s;
    double before_last_s = (double)(all - 1 - rounds * last) * at->backward_s;
    return own_s + fill_s + drain_s +
           larger(wait_s(at->below_s, after_first_s), wait_s(at->below_s, before_last_s));
}

static double span_estimate(const ff_schedule_shape *shape, const ff_pipeline_times *times) {
    int32_t p = shape->stages, v = shape->chunks;
    place at = {0};
    double longest_s = 0;
    for (int32_t i = 0; i < p; i++) {
        at.forward_round_s += times->forward_s[i] / v + times->transfer_s;
        at.backward_round_s += times->backward_s[i] / v + times->transfer_s;
    }
    at.below_s = at.forward_round_s + at.backward_round_s - 2 * times->transfer_s;
    for (at.stage = 0; at.stage < p; at.stage++) {
        at.forward_s = times->forward_s[at.stage] / v;
        at.backward_s = times->backward_s[at.stage] / v;
        at.below_s -= at.forward_s + at.backward_s;
        longest_s = larger(longest_s, at.above_s + busy_s(shape, &at));
        at.above_s += at.forward_s + at.backward_s + 2 * times->transfer_s;
        at.below_s -= 2 * times->transfer_s;
    }
    return longest_s;
}

const ff_generator ff_generator_interleaved = {
    .kind = FF_SCHEDULE_INTERLEAVED,
    .check = check,
    .generate = generate,
    .warmup = warmup,
    .in_flight = in_flight,
    .in_flight_of_chunk = in_flight_of_chunk,
    .peak = peak,
    .bubble = bubble,
    .span_estimate = span_estimate,
};
