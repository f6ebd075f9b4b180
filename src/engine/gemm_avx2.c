/* The product's tile for avx2: 4 rows of 3 vectors of 32 bytes (gemm_kernel.inc). */
#ifdef __x86_64__
#define KERNEL_NAME ff_gemm_kernel_avx2
#define KERNEL_TILE tile_avx2
#define KERNEL_STORE store_avx2
#define KERNEL_PACK_A pack_a_avx2
#define KERNEL_PACK_B pack_b_avx2
#define KERNEL_LABEL "avx2"
#define KERNEL_VECTOR_BYTES 32
#define KERNEL_ROWS 4
#define KERNEL_VECTORS 3
#include "engine/gemm_kernel.inc"
#endif
