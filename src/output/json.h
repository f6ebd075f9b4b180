/* The scalars of JSON, which CSV writes the same way: exact integers, shortest reals. */
#ifndef FF_OUTPUT_JSON_H
#define FF_OUTPUT_JSON_H

#include "base/text.h"
#include "fivefold/facts.h"

void ff_json_write_scalar(ff_text *out, const ff_fact *fact);

#endif
