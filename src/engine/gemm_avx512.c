/* The product's tile for avx512: 12 rows of 2 vectors of 64 bytes (gemm_kernel.inc). */
#ifdef __x86_64__
#define KERNEL_NAME ff_gemm_kernel_avx512
#define KERNEL_TILE tile_avx512
#define KERNEL_STORE store_avx512
#define KERNEL_PACK_A pack_a_avx512
#define KERNEL_PACK_B pack_b_avx512
#define KERNEL_LABEL "avx512"
#define KERNEL_VECTOR_BYTES 64
#define KERNEL_ROWS 12
#define KERNEL_VECTORS 2
#include "engine/gemm_kernel.inc"
#endif
