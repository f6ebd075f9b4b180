/* A simulation as a trace in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing read.
 *
 *     process  a rank                 thread  compute | links inside the domain | network
 *     slice    what a stream did      flow    a pipeline message, from computation to computation
 *     counter  memory by category
 *
 * Times are microseconds from the step's beginning, with three decimals. It is written as it comes,
 * so its size is bounded by the disk alone. */
#ifndef FF_OUTPUT_TRACE_H
#define FF_OUTPUT_TRACE_H

#include "simulate/simulate.h"
#include <stddef.h>

typedef struct ff_trace ff_trace;
/* `write` is handed pieces of the file; after it returns false nothing more is. */
ff_trace *ff_trace_create(bool (*write)(void *context, const char *bytes, size_t count),
                          void *context);
/* What to give to ff_simulate. */
const ff_observer *ff_trace_observer(ff_trace *trace);
/* Writes the rest; false when something could not be written. */
bool ff_trace_finish(ff_trace *trace);
void ff_trace_free(ff_trace *trace);

#endif
