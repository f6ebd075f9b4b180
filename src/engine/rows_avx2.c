/* The row kernels (rows_kernels.inc) for avx2. */
#ifdef __x86_64__
#define ROWS_NAME ff_rows_avx2
#define ROWS_LABEL "avx2"
#include "engine/rows_kernels.inc"
#endif
