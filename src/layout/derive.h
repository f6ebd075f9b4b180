/* What completing a layout shares between its files: derive.c (keys one by one), grid.c (dp, etp
 * and edp from the world). */
#ifndef FF_LAYOUT_DERIVE_H
#define FF_LAYOUT_DERIVE_H

#include "fivefold/layout.h"

enum { FF_LAYOUT_LARGEST_WORLD = 1 << 20 };

typedef struct ff_deriving {
    ff_layout *layout;
    const ff_layout_context *context;
    ff_diagnostics *findings; /* may be NULL: the search asks only whether */
    bool failed;
} ff_deriving;

/* Settles the grid, dp, etp and edp. When it fails, the three are set to something positive so that
 * the other keys can still be checked. */
void ff_derive_grid(ff_deriving *now);

/* Where a finding about a key points: its item as written, NULL for the whole layout. */
ff_place ff_derive_place(const ff_deriving *now, const char *key);

/* "tp=4, tp=8": the divisors of `number` nearest to `value` from below and above, or "" when
 * `number` is no positive number within the world's limit. */
typedef struct ff_nearest {
    char text[96];
} ff_nearest;
ff_nearest ff_nearest_divisors(const char *name, int64_t number, int64_t value);

#endif
