/* What stands for a left-out key. Derive fills these in, and the short form of a layout leaves out
 * what equals them: both call the same functions, so what is printed derives to itself again.
 *
 * etp. Both grids must see the same pipeline stages: as many ranks inside pp, in the dense grid
 * tp*cp*dp or what of it lies inside pp, in the expert grid etp*ep*edp or what lies inside. With pp
 * outermost (the default) that holds for any sizes and etp is 1. With pp further in, and no expert
 * parallelism, etp takes all ranks on its side of pp:
 *
 *     order tp-cp-pp-dp, tp 4, cp 2:   dense 4*2 | pp | dp     experts etp 8, ep 1 | pp | edp
 *
 * so that a model without experts, for which etp means nothing, can use every order. */
#include "layout/keys.h"

#include "base/number.h"

int ff_default_sp(const ff_layout *layout) {
    return layout->tp > 1;
}

int ff_default_zero3_weights(const ff_layout *layout) {
    return layout->pp > 1 ? FF_ZERO3_RESIDENT : FF_ZERO3_STREAM;
}

/* Schedules that fold the model into a V or run it both ways hold two chunks a stage. */
int ff_schedule_own_chunks(ff_schedule_kind schedule) {
    static const int own[FF_SCHEDULE_COUNT] = {
        [FF_SCHEDULE_GPIPE] = 1,  [FF_SCHEDULE_1F1B] = 1,        [FF_SCHEDULE_ZB_H1] = 1,
        [FF_SCHEDULE_ZB_H2] = 1,  [FF_SCHEDULE_INTERLEAVED] = 0, [FF_SCHEDULE_ZB_V] = 2,
        [FF_SCHEDULE_V_HALF] = 2, [FF_SCHEDULE_DUALPIPE] = 2,    [FF_SCHEDULE_DUALPIPE_V] = 2,
    };
    return own[schedule];
}

int64_t ff_default_vpp(const ff_layout *layout) {
    bool known = layout->schedule >= 0;
    return known && ff_schedule_own_chunks((ff_schedule_kind)layout->schedule) == 2 ? 2 : 1;
}

int ff_default_schedule(const ff_layout *layout) {
    return layout->vpp > 1 ? FF_SCHEDULE_INTERLEAVED : FF_SCHEDULE_1F1B;
}

static int64_t dense_size(const ff_layout *layout, ff_axis axis) {
    switch (axis) {
    case FF_AXIS_TP:
        return layout->tp;
    case FF_AXIS_CP:
        return layout->cp;
    case FF_AXIS_DP:
        return layout->dp;
    default:
        return 1;
    }
}

static int place_of(const ff_axis order[4], ff_axis axis) {
    int place = 0;
    while (place < 3 && order[place] != axis)
        place++;
    return place;
}

int64_t ff_default_etp(const ff_layout *layout) {
    int pp = place_of(layout->dense_order, FF_AXIS_PP);
    bool outermost = pp == 3 || pp == 0 || layout->pp == 1;
    bool etp_inside = place_of(layout->expert_order, FF_AXIS_ETP) < pp;
    bool edp_inside = place_of(layout->expert_order, FF_AXIS_EDP) < pp;
    if (outermost || layout->ep > 1 || etp_inside == edp_inside)
        return 1;
    int64_t ranks = 1;
    for (int place = 0; place < 4; place++)
        if ((place < pp) == etp_inside)
            ranks = ff_mul(ranks, dense_size(layout, layout->dense_order[place]));
    return ranks;
}

void ff_default_expert_order(const ff_axis dense[4], ff_axis expert[4]) {
    for (int i = 0; i < 4; i++) {
        switch (dense[i]) {
        case FF_AXIS_TP:
            expert[i] = FF_AXIS_ETP;
            break;
        case FF_AXIS_CP:
            expert[i] = FF_AXIS_EP;
            break;
        case FF_AXIS_DP:
            expert[i] = FF_AXIS_EDP;
            break;
        default:
            expert[i] = FF_AXIS_PP;
        }
    }
}

/* 126 layers over 16: 7, fourteen times 8, 7. First and last chunk also hold embedding and head. */
void ff_default_split(int layers, int chunks, int16_t *layers_of_chunk) {
    int each = layers / chunks, over = layers % chunks, first = (chunks - over) / 2;
    for (int i = 0; i < chunks; i++)
        layers_of_chunk[i] = (int16_t)(each + (i >= first && i < first + over));
}
