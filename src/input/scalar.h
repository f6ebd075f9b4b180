/* What a scalar without quotes stands for: YAML's core schema, in decimal only.
 *
 *     null ~ (nothing)   true True TRUE   12 -3   1.5 .5 2e9   everything else is text
 *
 * A whole number written with an exponent is an integer (2e9); one with a point is not (2.0), so
 * that a size written as 4096.0 is questioned. NaN, Infinity, .inf and numbers too large for a
 * double stay text, which no numeric key accepts; whole numbers beyond 64 bits are numbers, but no
 * integers. */
#ifndef FF_INPUT_SCALAR_H
#define FF_INPUT_SCALAR_H

#include "input/fields.h"

/* Sets the kind and value of a field from its text. */
void ff_scalar_resolve(ff_field *f);

/* True when JSON has such a scalar without quotes; what Python writes for numbers that are none
 * (NaN, Infinity) is let through. */
bool ff_scalar_is_json(const ff_field *f);

#endif
