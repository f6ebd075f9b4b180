/* The number that the engine computes in: fp32, or fp64 where the tests compile the same sources
 * again with FF_ENGINE_FP64, to tell errors of order from errors of thought. */
#ifndef FF_ENGINE_REAL_H
#define FF_ENGINE_REAL_H

#include <stdint.h>

#ifdef FF_ENGINE_FP64
typedef double real;

#else
typedef float real;

#endif

/* Sums over tokens, hidden width and vocabulary are cut into this many chunks (order.h). */
enum { FF_CHUNKS = 8 };

#endif
