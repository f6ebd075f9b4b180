/* What the simulator's files share: steps, the streams of a stage, and the simulation. */
#ifndef FF_SIMULATE_INTERNAL_H
#define FF_SIMULATE_INTERNAL_H

#include "simulate/simulate.h"

/* A piece of an action. */
typedef enum ff_step_kind {
    FF_STEP_COMPUTE,
    FF_STEP_COLLECTIVE,   /* hidden beside what came before, and waited for */
    FF_STEP_PUSH,         /* starts communication behind layers */
    FF_STEP_WAIT_GATHERS, /* for all weights that a step with a tag has started to gather */
    FF_STEP_WAIT_WEIGHTS, /* for the first `tag` gathers of updated weights */
    FF_STEP_DRAIN,        /* for all that was started */
    FF_STEP_NEXT,         /* prefetches the next action's first unit */
} ff_step_kind;

typedef struct ff_step {
    ff_step_kind kind;
    const char *name;
    int layer;
    int32_t link;     /* of communication; -1: none */
    int32_t exposure; /* ff_exposure of what is waited for */
    int64_t work_ps;  /* compute; of a collective the compute lost beside it; of a push all of it */
    int64_t hidden_ps, exposed_ps;
    int64_t bytes;
    int32_t tag; /* see the kinds; of the step's end: which stages meet (ff_meeting) */
} ff_step;

typedef enum ff_meeting { FF_MEET_NOBODY, FF_MEET_MIRROR, FF_MEET_ALL } ff_meeting;

/* Steps in order, and the collectives among them. */
typedef struct ff_steps {
    ff_step *step;
    int64_t count, room;
    int64_t first_pushes; /* leading gathers, which the action before may prefetch */
    int counts;
    ff_count calls[FF_MOST_COUNTS];
    int64_t times; /* run so far */
    bool made;
} ff_steps;

enum { FF_TEMPLATE_PLACES = 4, FF_TEMPLATE_KINDS = 4 };

typedef struct ff_stage_steps {
    /* Of an action of a kind, in a chunk, for a microbatch that is the chunk's first, last, ...:
     * [(chunk * FF_TEMPLATE_KINDS + kind) * FF_TEMPLATE_PLACES + place] */
    ff_steps **of;
    ff_steps end;     /* reductions after the pipeline */
    ff_steps late;    /* gradient reductions that the stack does not overlap */
    ff_steps gathers; /* of updated weights */
    int64_t update_ps;
} ff_stage_steps;

/* Steps of every stage, read from walks of the layout's program with few microbatches; at chunk
 * detail compute and what is waited for are summed up between points where streams meet. False
 * with findings when there is no such program. */
bool ff_steps_make(const ff_simulation_inputs *inputs, ff_arena *arena, ff_stage_steps *stages,
                   ff_diagnostics *findings);
int ff_template_place(const ff_schedule_shape *shape, const ff_action *action);

bool ff_overlaps_gathers(const ff_cost *cost);
int32_t ff_link_of(const ff_reach *reach); /* FF_STREAM_DOMAIN or FF_STREAM_NETWORK */
int64_t ff_picoseconds(double seconds);

/* ---- streams of a stage ---- */

typedef struct ff_pushed {
    const ff_step *step;
    int64_t left_ps, begin_ps;
} ff_pushed;

typedef struct ff_link_queue {
    ff_pushed *entry; /* ring of `room` */
    int64_t room, first, count;
    int64_t pushed, done; /* ever */
} ff_link_queue;

typedef struct ff_streams {
    int64_t now_ps;
    int64_t slow_ppm; /* slow-down of overlap, in millionths */
    ff_link_queue link[FF_LINKS];
    int64_t gathers[FF_LINKS]; /* pushes to wait for before the next unit */
    int64_t weights[FF_LINKS]; /* gathers of updated weights, which were pushed first */
    int64_t busy_ps, exposed_ps[FF_EXPOSED_COUNT];
    int64_t events;
    /* observing */
    const ff_observer *observer;
    bool by_operator; /* computing steps are intervals of their own */
    int64_t stage, link_end_ps[FF_LINKS];
    const ff_action *action;
    ff_arena *arena;
} ff_streams;

void ff_streams_run(ff_streams *s, const ff_step *step);
void ff_streams_idle_until(ff_streams *s, int64_t at_ps);
/* Waits for everything pushed; what is waited is exposed. */
void ff_streams_drain(ff_streams *s);
/* The time of a message of `work_ps` over a link that may be in use. */
int64_t ff_streams_message_ps(ff_streams *s, int32_t link, int64_t work_ps);
enum { FF_WHOLE_ACTION = -2 }; /* as a layer */
void ff_streams_note(const ff_streams *s, ff_stream stream, const char *name, int layer,
                     int64_t begin_ps, int64_t end_ps, int64_t bytes);

#endif
