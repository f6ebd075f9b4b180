/* V-Half (Qi 2024, 2405.15362): ZB-V's placement at half of 1F1B's memory and about half its
 * bubble.
 *
 * Every microbatch runs the same pattern, one after another every 6 units of time (F, B, W of two
 * chunks, one unit each). The pattern says when stage i runs what of microbatch 0:
 *
 *     F down   2i                    2 units from stage to stage
 *     F up     2p-1 + (p-1-i)        1 unit
 *     B up     3p   + 2i             2 units, begun on stage 0, where the V ends
 *     B down   ...                   1 unit
 *
 * A chunk is held between its F and its W; 3 units a stage each way, over 6, makes p chunks, half
 * of 1F1B's p stages. The units are chosen so that the four never meet on a stage (mod 6); each W
 * takes the next unit that is free. A list is what the pattern does in order of time; the stages
 * then run it as early as they can (the paper's "squeezing"). */
#include "schedule/by_list.h"

#include "base/number.h"

enum { PERIOD = 6, KINDS = 6 };

/* Begin of each action of microbatch 0 on a stage. */
typedef struct pattern {
    int64_t at[KINDS]; /* by the rows below */
} pattern;

static const struct {
    ff_action_kind kind;
    int32_t chunk;
} rows[KINDS] = {
    {FF_ACTION_FORWARD, 0},        {FF_ACTION_FORWARD, 1},         {FF_ACTION_BACKWARD_INPUT, 1},
    {FF_ACTION_BACKWARD_INPUT, 0}, {FF_ACTION_BACKWARD_WEIGHT, 1}, {FF_ACTION_BACKWARD_WEIGHT, 0},
};

/* The first time from `from` on whose place in the period nobody has taken. */
static int64_t free_from(const pattern *p, int rows_taken, int64_t from) {
    for (int64_t at = from;; at++) {
        bool taken = false;
        for (int i = 0; i < rows_taken; i++)
            taken |= p->at[i] % PERIOD == at % PERIOD;
        if (!taken)
            return at;
    }
}

/* The turn-offs, smallest that keep data in order and residues apart: F up begins at a residue of 1
 * or 2 mod 3 against F down, B up at 0 mod 3, B down at the other one (head of the file). */
static int64_t next_with_residue(int64_t from, int64_t residue, int64_t modulus) {
    int64_t over = ((from - residue) % modulus + modulus) % modulus;
    return over == 0 ? from : from + modulus - over;
}

static pattern pattern_of(int32_t p, int32_t stage) {
    pattern t;
    int64_t i = stage, last = p - 1;
    int64_t turn = 2 * last + 1; /* F up on the last stage */
    int64_t end = turn + last;   /* F up on stage 0 */
    /* On stage 0: F down 0, F up end. B up must lie 3 after F down in the period. */
    int64_t begin = next_with_residue(end + 1, 3, PERIOD);
    int64_t back = begin + 2 * last + 1; /* B down on the last stage, earliest */
    /* On the last stage F down is 2*last, F up 2*last+1. B down may not meet these or B up. */
    int64_t f = (2 * last) % PERIOD;
    while (back % 3 == f % 3 || back % PERIOD == turn % PERIOD)
        back++;
    t.at[0] = 2 * i;
    t.at[1] = turn + (last - i);
    t.at[2] = begin + 2 * i;
    t.at[3] = back + (last - i);
    t.at[4] = free_from(&t, 4, t.at[2] + 1);
    t.at[5] = free_from(&t, 5, t.at[3] + 1);
    return t;
}

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    pattern t = pattern_of(shape->stages, stage);
    int64_t done[KINDS] = {0};
    for (int64_t left = (int64_t)KINDS * shape->microbatches; left > 0; left--) {
        int next = -1;
        for (int k = 0; k < KINDS; k++)
            if (done[k] < shape->microbatches &&
                (next < 0 || t.at[k] + PERIOD * done[k] < t.at[next] + PERIOD * done[next]))
                next = k;
        order->actions[order->count++] =
            (ff_action){rows[next].kind, rows[next].chunk, (int32_t)done[next], -1};
        done[next]++;
    }
}

/* How many of a row have begun at a time. */
static int64_t begun(const ff_schedule_shape *shape, int64_t at, int64_t now) {
    return now < at ? 0 : ff_min(shape->microbatches, (now - at) / PERIOD + 1);
}

static int64_t held_at(const ff_schedule_shape *shape, const pattern *t, int until, int64_t now) {
    return begun(shape, t->at[0], now) + begun(shape, t->at[1], now) -
           begun(shape, t->at[until], now) - begun(shape, t->at[until + 1], now);
}

/* The largest holding; after the first microbatch's last action every period is the same. */
static int64_t most_held(const ff_schedule_shape *shape, int32_t stage, int until) {
    pattern t = pattern_of(shape->stages, stage);
    int64_t most = 0;
    for (int64_t now = 0; now <= t.at[5] + PERIOD; now++)
        most = ff_max(most, held_at(shape, &t, until, now));
    return most;
}

static int64_t in_flight(const ff_schedule_shape *shape, int32_t stage) {
    return most_held(shape, stage, 2);
}

static int64_t in_flight_weight(const ff_schedule_shape *shape, int32_t stage) {
    return most_held(shape, stage, 4);
}

/* Forwards before the first backward, less the steady state's own. */
static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    pattern t = pattern_of(shape->stages, stage);
    int64_t before = begun(shape, t.at[0], t.at[2]) + begun(shape, t.at[1], t.at[2]);
    return before == 2 * (int64_t)shape->microbatches ? before : before - 1;
}

const ff_generator ff_generator_v_half = {
    .kind = FF_SCHEDULE_V_HALF,
    .placement = FF_PLACEMENT_V,
    .splits = true,
    .check = ff_generator_check_two_chunks,
    .generate = generate,
    .warmup = warmup,
    .in_flight = in_flight,
    .in_flight_weight = in_flight_weight,
    .bubble = ff_list_bubble,
    .span_estimate = ff_list_span,
};
