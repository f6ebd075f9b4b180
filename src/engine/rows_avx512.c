/* The row kernels (rows_kernels.inc) for avx512. */
#ifdef __x86_64__
#define ROWS_NAME ff_rows_avx512
#define ROWS_LABEL "avx512"
#include "engine/rows_kernels.inc"
#endif
