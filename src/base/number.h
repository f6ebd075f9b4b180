/* Integers that cannot overflow, and counts as people write them.
 *
 * Saturating arithmetic (`ff_mul`, `ff_add`) clamps non-negative products and sums at FF_SATURATED:
 * a ledger that would overflow reads "far too big" instead of a wrong number.
 *
 * Counts: `4M` is 4,000,000, `4Mi` 4,194,304; k, M, G, B (=G), T and Ki, Mi, Gi, Ti; a fraction is
 * accepted when the product is whole (`0.5M`, `1.5Ki`, `70e9`). */
#ifndef FF_BASE_NUMBER_H
#define FF_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#define FF_SATURATED (INT64_MAX / 4)

static inline int64_t ff_mul(int64_t a, int64_t b) {
    int64_t result;
    if (__builtin_mul_overflow(a, b, &result) || result > FF_SATURATED)
        return FF_SATURATED;
    return result;
}

static inline int64_t ff_mul3(int64_t a, int64_t b, int64_t c) {
    return ff_mul(ff_mul(a, b), c);
}

static inline int64_t ff_add(int64_t a, int64_t b) {
    int64_t result;
    if (__builtin_add_overflow(a, b, &result) || result > FF_SATURATED)
        return FF_SATURATED;
    return result;
}

static inline int64_t ff_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

static inline int64_t ff_round_up(int64_t value, int64_t multiple) {
    return ff_mul(ff_ceil_div(value, multiple), multiple);
}

static inline int64_t ff_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t ff_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t ff_gcd(int64_t a, int64_t b);
int64_t ff_lcm(int64_t a, int64_t b); /* saturates */

/* Reads a whole text as a count. False when it is not one, is negative, is no whole number or is
 * above FF_SATURATED. */
bool ff_parse_count(const char *text, int64_t *count);
/* Reads a whole text as a finite decimal number. */
bool ff_parse_real(const char *text, double *value);

#endif
