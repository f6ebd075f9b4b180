/* ZB-V (Qi 2023, 2401.10241, section 6): two chunks a stage in a V, so that the stage that begins
 * also ends; with F = B = W no stage idles between its first and last action, at 1F1B's memory.
 *
 *     p 2, m 3   stage 0  F F F f b w f b w F B W f b w B W B W      capitals: the chunk on the way
 *                stage 1    F f F f b w f b w F B f B b b B W w w    down, small letters: back up
 *
 * A stage's phases, r its number: 2(p-r)-1 forwards of the first chunk; r pairs of forwards; p-r
 * rounds of the second chunk (F B W); rounds of both until the forwards are done; r pairs of B
 * without their W; p-r backwards of the first chunk with its W; all W that wait. Fewer microbatches
 * than 2p-1 run the same phases, without the actions of those that do not exist.
 *
 * From F to W a stage holds at most 2p chunks, as much as p stages' worth. With F = B = W and
 * m >= 2p-1 nobody waits but for the first microbatch: the last stage begins (p-1)F/2 after the
 * first, which is the bubble where all wait for it at the step's end. Other times: by_list.h. */
#include "schedule/by_list.h"

#include "base/number.h"

typedef struct phases {
    const ff_schedule_shape *shape;
    ff_order *order;
    int32_t forward[2], input[2], weight[2]; /* next microbatch of each chunk */
} phases;

static bool exists(const phases *now, int32_t microbatch) {
    return microbatch < now->shape->microbatches;
}

static void forward(phases *now, int32_t chunk) {
    if (exists(now, now->forward[chunk]))
        ff_order_forward(now->order, chunk, now->forward[chunk]);
    now->forward[chunk]++;
}

static void input(phases *now, int32_t chunk) {
    if (exists(now, now->input[chunk]))
        ff_order_backward_input(now->order, chunk, now->input[chunk]);
    now->input[chunk]++;
}

static void weight(phases *now, int32_t chunk) {
    if (exists(now, now->weight[chunk]))
        ff_order_backward_weight(now->order, chunk, now->weight[chunk]);
    now->weight[chunk]++;
}

static void round_of(phases *now, int32_t chunk) {
    input(now, chunk);
    weight(now, chunk);
}

static void generate(const ff_schedule_shape *shape, int32_t stage, ff_order *order) {
    phases now = {.shape = shape, .order = order};
    int32_t p = shape->stages, r = stage;
    int32_t most = (int32_t)ff_max(shape->microbatches, 2 * p - 1);
    for (int32_t i = 0; i < 2 * (p - r) - 1; i++)
        forward(&now, 0);
    for (int32_t i = 0; i < r; i++) {
        forward(&now, 1);
        forward(&now, 0);
    }
    for (int32_t i = 0; i < p - r; i++) {
        forward(&now, 1);
        round_of(&now, 1);
    }
    while (now.forward[1] < now.forward[0] || now.forward[0] < most) {
        if (now.forward[0] < most)
            forward(&now, 0);
        round_of(&now, 0);
        forward(&now, 1);
        round_of(&now, 1);
    }
    for (int32_t i = 0; i < r; i++) {
        input(&now, 0);
        input(&now, 1);
    }
    for (int32_t i = 0; i < p - r; i++)
        round_of(&now, 0);
    while (now.weight[1] < now.input[1])
        weight(&now, 1);
    while (now.weight[0] < now.input[0])
        weight(&now, 0);
}

static int64_t warmup(const ff_schedule_shape *shape, int32_t stage) {
    int64_t m = shape->microbatches, r = stage, p = shape->stages;
    return ff_min(m, 2 * (p - r) - 1 + r) + ff_min(m, r);
}

/* 2p chunks once there are microbatches enough; a short list says what fewer hold. */
static int64_t in_flight(const ff_schedule_shape *shape, int32_t stage) {
    if (shape->microbatches >= 2 * (int64_t)shape->stages - 1)
        return 2 * (int64_t)shape->stages;
    return ff_list_in_flight_weight(shape, stage);
}

const ff_generator ff_generator_zb_v = {
    .kind = FF_SCHEDULE_ZB_V,
    .placement = FF_PLACEMENT_V,
    .splits = true,
    .check = ff_generator_check_two_chunks,
    .generate = generate,
    .warmup = warmup,
    .in_flight = in_flight,
    .in_flight_weight = in_flight,
    .bubble = ff_list_bubble,
    .span_estimate = ff_list_span,
};
