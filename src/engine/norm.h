/* The global gradient norm, in no order at all: squares are put on one integer grid, and integers
 * add up to the same whatever comes first.
 *
 * A square is rounded to a multiple of 2^-80 and summed in 128 bits: room for norms up to 10^7
 * (beyond, the sum saturates and the norm is infinite); gradients below 10^-12 vanish. */
#ifndef FF_ENGINE_NORM_H
#define FF_ENGINE_NORM_H

#include "engine/collective.h"

void ff_grid_add_squares(const real *numbers, int64_t count, ff_grid_sum *sum);
double ff_grid_norm(const ff_grid_sum *sum);

#endif
