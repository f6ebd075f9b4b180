/* The row kernels (rows_kernels.inc) for any machine. */
#define ROWS_NAME ff_rows_base
#define ROWS_LABEL "baseline"
#include "engine/rows_kernels.inc"
