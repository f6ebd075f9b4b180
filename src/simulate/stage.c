/* The streams of one stage: compute in order, and on each link class a queue of communication that
 * runs behind layers.
 *
 *     compute   |  qkv  |  core  |..| out |          one step after the other
 *     domain    |       |        |rs|     |          blocking: compute waits (..)
 *     network   |   gradients 0     |  gradients 1   pushed: one after the other, beside compute
 *
 * Compute and the heads of the queues run at once and slow each other down by the same factor, so
 * whoever has least left ends first and the others have that much less left: no rates are kept.
 * Invariant: time never runs back; what is pushed ends in the order in which it was pushed. */
#include "simulate/internal.h"

#include "base/number.h"
#include <assert.h>

enum { PPM = 1000000 };

void ff_streams_note(const ff_streams *s, ff_stream stream, const char *name, int layer,
                     int64_t begin_ps, int64_t end_ps, int64_t bytes) {
    if (s->observer == NULL || s->observer->interval == NULL || end_ps <= begin_ps)
        return;
    ff_interval interval = {.stage = s->stage,
                            .stream = stream,
                            .name = name,
                            .action = s->action,
                            .whole = s->action != NULL && stream == FF_STREAM_COMPUTE &&
                                     layer == FF_WHOLE_ACTION,
                            .layer = layer == FF_WHOLE_ACTION ? -1 : layer,
                            .begin_ps = begin_ps,
                            .end_ps = end_ps,
                            .bytes = bytes};
    s->observer->interval(s->observer->context, &interval);
}

/* ---- queues ---- */

static ff_pushed *head_of(ff_link_queue *q) {
    return &q->entry[q->first];
}

static void grow(ff_streams *s, ff_link_queue *q) {
    int64_t room = q->room == 0 ? 16 : 2 * q->room;
    ff_pushed *entry = FF_ARENA_ARRAY(s->arena, room, ff_pushed);
    for (int64_t i = 0; i < q->count; i++)
        entry[i] = q->entry[(q->first + i) % q->room];
    q->entry = entry;
    q->room = room;
    q->first = 0;
}

static void push(ff_streams *s, const ff_step *step) {
    ff_link_queue *q = &s->link[step->link];
    if (q->count == q->room)
        grow(s, q);
    q->entry[(q->first + q->count) % q->room] = (ff_pushed){step, step->work_ps, s->now_ps};
    q->count++;
    q->pushed++;
}

/* The head has nothing left. */
static void pop(ff_streams *s, int32_t link, int64_t at_ps) {
    ff_link_queue *q = &s->link[link];
    ff_pushed *head = head_of(q);
    if (s->observer != NULL) {
        int64_t begin = ff_max(head->begin_ps, s->link_end_ps[link]);
        const ff_action *action = s->action;
        s->action = NULL;
        ff_streams_note(s, (ff_stream)link, head->step->name, head->step->layer, begin, at_ps,
                        head->step->bytes);
        s->action = action;
        s->link_end_ps[link] = ff_max(at_ps, s->link_end_ps[link]);
    }
    q->first = (q->first + 1) % q->room;
    q->count--;
    q->done++;
    s->events++;
    if (q->count > 0)
        head_of(q)->begin_ps = at_ps;
}

/* A link runs alone until `at_ps`. */
static void run_link_until(ff_streams *s, int32_t link, int64_t from_ps, int64_t at_ps) {
    ff_link_queue *q = &s->link[link];
    while (q->count > 0) {
        ff_pushed *head = head_of(q);
        int64_t begin = ff_max(from_ps, head->begin_ps);
        if (begin + head->left_ps > at_ps) {
            head->left_ps -= ff_max(0, at_ps - begin);
            return;
        }
        from_ps = begin + head->left_ps;
        pop(s, link, from_ps);
    }
}

void ff_streams_idle_until(ff_streams *s, int64_t at_ps) {
    if (at_ps <= s->now_ps)
        return;
    for (int32_t link = 0; link < FF_LINKS; link++)
        run_link_until(s, link, s->now_ps, at_ps);
    s->now_ps = at_ps;
}

/* ---- steps ---- */

/* `work` at 1/(1 + ppm) of the rate. */
static int64_t slowed(int64_t work, int64_t ppm) {
    return work + work / PPM * ppm + work % PPM * ppm / PPM;
}

/* Compute beside what the links run. */
static void compute(ff_streams *s, int64_t work_ps) {
    int64_t begin = s->now_ps;
    while (work_ps > 0) {
        int64_t least = work_ps;
        int active = 0;
        for (int32_t link = 0; link < FF_LINKS; link++) {
            if (s->link[link].count == 0)
                continue;
            active++;
            least = ff_min(least, head_of(&s->link[link])->left_ps);
        }
        if (active == 0) {
            s->now_ps += work_ps;
            break;
        }
        s->now_ps += slowed(least, active * s->slow_ppm);
        work_ps -= least;
        for (int32_t link = 0; link < FF_LINKS; link++) {
            if (s->link[link].count == 0)
                continue;
            ff_pushed *head = head_of(&s->link[link]);
            head->left_ps -= least;
            if (head->left_ps == 0)
                pop(s, link, s->now_ps);
        }
    }
    s->busy_ps += s->now_ps - begin;
    s->events++;
}

/* The rank waits for a collective that shares its link evenly. */
static void block(ff_streams *s, int32_t link, int64_t work_ps, int32_t exposure) {
    int64_t begin = s->now_ps;
    if (link < 0) {
        ff_streams_idle_until(s, s->now_ps + work_ps);
    } else {
        ff_link_queue *q = &s->link[link];
        while (work_ps > 0 && q->count > 0) {
            int64_t least = ff_min(work_ps, head_of(q)->left_ps);
            for (int32_t other = 0; other < FF_LINKS; other++)
                if (other != link)
                    run_link_until(s, other, s->now_ps, s->now_ps + 2 * least);
            s->now_ps += 2 * least;
            work_ps -= least;
            head_of(q)->left_ps -= least;
            if (head_of(q)->left_ps == 0)
                pop(s, link, s->now_ps);
        }
        if (work_ps > 0)
            ff_streams_idle_until(s, s->now_ps + work_ps);
    }
    s->exposed_ps[exposure] += s->now_ps - begin;
    s->events++;
}

static void collective(ff_streams *s, const ff_step *step) {
    int64_t begin = s->now_ps - step->hidden_ps;
    if (step->link >= 0 && step->hidden_ps > 0 && s->link[step->link].count > 0)
        head_of(&s->link[step->link])->left_ps += step->hidden_ps; /* it had the link meanwhile */
    if (step->work_ps > 0)
        compute(s, step->work_ps);
    if (step->exposed_ps > 0)
        block(s, step->link, step->exposed_ps, step->exposure);
    if (s->observer == NULL || step->link < 0)
        return;
    begin = ff_max(begin, s->link_end_ps[step->link]);
    ff_streams_note(s, (ff_stream)step->link, step->name, step->layer, begin, s->now_ps,
                    step->bytes);
    s->link_end_ps[step->link] = ff_max(s->now_ps, s->link_end_ps[step->link]);
}

static void wait_for(ff_streams *s, int32_t link, int64_t pushes, int32_t exposure) {
    ff_link_queue *q = &s->link[link];
    int64_t begin = s->now_ps;
    while (q->done < pushes) {
        ff_pushed *head = head_of(q);
        ff_streams_idle_until(s, ff_max(s->now_ps, head->begin_ps) + head->left_ps);
        if (q->count > 0 && head_of(q)->left_ps == 0)
            pop(s, link, s->now_ps);
    }
    s->exposed_ps[exposure] += s->now_ps - begin;
}

void ff_streams_drain(ff_streams *s) {
    for (int32_t link = 0; link < FF_LINKS; link++)
        wait_for(s, link, s->link[link].pushed, FF_EXPOSED_DP);
}

void ff_streams_run(ff_streams *s, const ff_step *step) {
    int64_t begin = s->now_ps;
    switch (step->kind) {
    case FF_STEP_COMPUTE:
        compute(s, step->work_ps);
        if (s->by_operator || s->action == NULL)
            ff_streams_note(s, FF_STREAM_COMPUTE, step->name, step->layer, begin, s->now_ps, 0);
        break;
    case FF_STEP_COLLECTIVE:
        collective(s, step);
        break;
    case FF_STEP_PUSH:
        push(s, step);
        if (step->tag != 0)
            s->gathers[step->link] = s->link[step->link].pushed;
        break;
    case FF_STEP_WAIT_GATHERS:
        for (int32_t link = 0; link < FF_LINKS; link++)
            wait_for(s, link, s->gathers[link], FF_EXPOSED_DP);
        break;
    case FF_STEP_WAIT_WEIGHTS:
        for (int32_t link = 0; link < FF_LINKS; link++)
            wait_for(s, link, ff_min(step->tag, s->weights[link]), FF_EXPOSED_DP);
        break;
    case FF_STEP_DRAIN:
        ff_streams_drain(s);
        break;
    case FF_STEP_NEXT:
        break; /* the caller's: see run.c */
    }
}

int64_t ff_streams_message_ps(ff_streams *s, int32_t link, int64_t work_ps) {
    ff_link_queue *q = &s->link[link];
    if (q->count == 0)
        return work_ps;
    int64_t shared = ff_min(work_ps, head_of(q)->left_ps);
    head_of(q)->left_ps += shared;
    return work_ps + shared;
}
