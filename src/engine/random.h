/* Numbers by coordinates: the same whatever rank draws them, and in whatever order.
 *
 * A 64-bit mix (splitmix64's finaliser, Steele 2014) of seed, stream and index. */
#ifndef FF_ENGINE_RANDOM_H
#define FF_ENGINE_RANDOM_H

#include <math.h>
#include <stdint.h>

static inline uint64_t ff_mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t ff_random(uint64_t seed, uint64_t stream, uint64_t index) {
    return ff_mix(ff_mix(ff_mix(seed) ^ stream) ^ index);
}

/* Standard normal (Box and Muller). */
static inline double ff_random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t bits = ff_random(seed, stream, index);
    double u = ((double)(bits >> 32) + 0.5) * 0x1p-32;
    double v = (double)(bits & 0xffffffffu) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

#endif
