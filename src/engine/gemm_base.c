/* The product's tile for baseline: 4 rows of 2 vectors of 16 bytes (gemm_kernel.inc). */
#define KERNEL_NAME ff_gemm_kernel_base
#define KERNEL_TILE tile_base
#define KERNEL_STORE store_base
#define KERNEL_PACK_A pack_a_base
#define KERNEL_PACK_B pack_b_base
#define KERNEL_LABEL "baseline"
#define KERNEL_VECTOR_BYTES 16
#define KERNEL_ROWS 4
#define KERNEL_VECTORS 2
#include "engine/gemm_kernel.inc"
