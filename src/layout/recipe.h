/* Precision recipes: bytes of each part of a parameter's state, and what travels.
 *
 * It stands with the layout's keys, above the program, because the program sends gradients and
 * weights in these widths; the ledger reads the same table. */
#ifndef FF_LAYOUT_RECIPE_H
#define FF_LAYOUT_RECIPE_H

#include "fivefold/layout.h"

typedef enum ff_dtype {
    FF_DTYPE_FP32,
    FF_DTYPE_FP16,
    FF_DTYPE_BF16,
    FF_DTYPE_FP8,
    FF_DTYPE_FP4,
    FF_DTYPE_COUNT
} ff_dtype;
const char *ff_dtype_name(ff_dtype dtype);
/* What attention, the embedding and the head compute in: fp8 and fp4 are for layers' GEMMs alone. */
ff_dtype ff_dtype_of_ends(ff_dtype dtype);

/* Bytes a parameter. `weight`, `gradient` and `optimizer` are the parts that ZeRO divides, at stage
 * 3, 2 and 1 from the right. `gathered_...` is one parameter's share of a gathered layer (ZeRO-3).
 */
typedef struct ff_recipe_bytes {
    int weight, gradient, optimizer;
    int gathered_weight, gathered_gradient;
    int weight_wire, gradient_wire;
    int activation, gemm_input; /* of one element that waits for backward */
    int optimizer_traffic;      /* read and written by the update */
    int in_step;                /* of `optimizer`, gradient copies that live in the step alone */
    int gather_buffer;          /* ZeRO-1 and 2: bytes of the shard's flat buffer from which updated
                                 * weights are gathered; 0 = in place */
    /* Traffic of casts: of a weight for its product, forward; of its gradient after; of a product's
     * input, beside a plain cast. 0: none. */
    int weight_cast, gradient_casts, input_cast;
    ff_dtype compute; /* of the GEMMs */
    const char *about;
} ff_recipe_bytes;

const ff_recipe_bytes *ff_recipe_describe(ff_recipe recipe);

#endif
