/* See norm.h. A square x = y * 2^-80 is split into y = high * 2^64 + low. */
#include "engine/norm.h"

#include <math.h>

static void add_square(double square, ff_grid_sum *sum) {
    double scaled = square * 0x1p80;
    if (!(scaled < 0x1p120)) { /* NaN too */
        sum->high = INT64_MAX / 4;
        return;
    }
    double high = floor(scaled * 0x1p-64);
    uint64_t low = (uint64_t)(scaled - high * 0x1p64);
    uint64_t before = sum->low;
    sum->low += low;
    sum->high += (int64_t)high + (sum->low < before);
}

void ff_grid_add_squares(const real *numbers, int64_t count, ff_grid_sum *sum) {
    for (int64_t i = 0; i < count; i++)
        add_square((double)numbers[i] * (double)numbers[i], sum);
}

double ff_grid_norm(const ff_grid_sum *sum) {
    if (sum->high >= INT64_MAX / 8 || sum->high < 0)
        return HUGE_VAL;
    return sqrt(((double)sum->high * 0x1p64 + (double)sum->low) * 0x1p-80);
}
