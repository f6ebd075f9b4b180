/* Summaries made from a short list; see by_list.c. For kinds of one or two chunks a stage. */
#ifndef FF_SCHEDULE_BY_LIST_H
#define FF_SCHEDULE_BY_LIST_H

#include "schedule/generators.h"

enum { FF_PEAK_MOST_CHUNKS = 2 };

/* The shape with no more microbatches than a summary needs. */
ff_schedule_shape ff_list_shortened(ff_schedule_shape shape);

/* The states of a stage that may be its fullest, whatever its chunks hold: made once for a shape, in
 * the arena, and asked often. */
typedef struct ff_peak_state {
    ff_held held[FF_PEAK_MOST_CHUNKS];
    int32_t running; /* chunk whose backward runs; -1: none */
} ff_peak_state;
typedef struct ff_peak_states {
    int32_t chunks, count;
    const ff_peak_state *state;
} ff_peak_states;
ff_peak_states ff_list_peak_states(const ff_schedule_shape *shape, int32_t stage, ff_arena *arena);
ff_peak ff_list_peak_among(const ff_peak_states *states, const ff_chunk_hold *holds, ff_held *held);

ff_peak ff_list_peak(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                     ff_held *held);
int64_t ff_list_in_flight(const ff_schedule_shape *shape, int32_t stage);
int64_t ff_list_in_flight_weight(const ff_schedule_shape *shape, int32_t stage);
/* Lists that were made, for callers who time many layouts of few shapes. When it holds as many as it
 * may it is emptied. */
ff_list_memo *ff_list_memo_create(ff_arena *arena);
void ff_list_memo_free(ff_list_memo *memo); /* what the arena does not hold */

double ff_list_span(const ff_schedule_shape *shape, const ff_pipeline_times *times);
double ff_list_bubble(const ff_schedule_shape *shape, double f, double b, double w);

#endif
