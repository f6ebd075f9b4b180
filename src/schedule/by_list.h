/* Summaries made from a short list; see by_list.c. For kinds of one or two chunks a stage. */
#ifndef FF_SCHEDULE_BY_LIST_H
#define FF_SCHEDULE_BY_LIST_H

#include "schedule/generators.h"

ff_peak ff_list_peak(const ff_schedule_shape *shape, int32_t stage, const ff_chunk_hold *holds,
                     ff_held *held);
int64_t ff_list_in_flight(const ff_schedule_shape *shape, int32_t stage);
int64_t ff_list_in_flight_weight(const ff_schedule_shape *shape, int32_t stage);
double ff_list_span(const ff_schedule_shape *shape, const ff_pipeline_times *times);
double ff_list_bubble(const ff_schedule_shape *shape, double f, double b, double w);

#endif
