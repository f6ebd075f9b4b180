/* The table of precision recipes (docs/model.md D).
 *
 *   megatron   bf16 weights, fp32 main gradients, fp32 master and two moments      2 + 4 + 12
 *   classic    gradients in bf16 too (mixed-precision Adam of the ZeRO paper)       2 + 2 + 12
 *   deepspeed  the same bytes; ZeRO shards 12, then 2, then 2                      2 + 2 + 12
 *   fsdp2      fp32 shards, bf16 copy of what is gathered, fp32 reduction          4 + 4 + 8
 *   fsdp       as fsdp2, reduced in bf16: what FSDP's examples set (MixedPrecision of bf16 alone)
 *   autocast   fp32 shards gathered as they are; every product casts its weight (4 + 2 bytes an
 *              element), and its gradient is cast up (2 + 4), joined (4 + 4), divided (4) and cast
 *              for a bf16 reduction (4 + 2): Composer's "DEFAULT" until 2023, FSDP without param_dtype
 *   fp16       as Megatron's fp16 optimizer: fp32 gradients live with the optimizer 2 + 2 + 16,
 *              made of the fp16 ones when the step begins and freed before the next forward
 *   fp8        bf16 weights and their fp8 copies, transposed once; GEMM inputs kept in fp8
 *   fp8-params the weights themselves in fp8 (and transposed), bf16 gradients: what performance
 *              recipes of Megatron-Core run (fp8_param, grad_reduce_in_fp32 off)   2 + 2 + 12
 *   rowwise    as fp8 over fp32 shards, with a scale for every row and, for the weight gradient, column
 *              of an operand: amax and cast by rows and by columns, strided; 14 bytes an operand's
 *              element in each of the three products more than with one scale (8B on 8 and 64 H100:
 *              0.15 and 0.9 s a step, torchao and torchtitan)
 *   mxfp8      as fp8, a scale byte for 32 elements not counted
 *   nvfp4      bf16 weights and their fp4 copies, by rows and by columns; GEMM inputs kept in fp4, a
 *              byte with their transpose (Transformer Engine; scales of 16 elements not counted)
 *   nanotron   bf16 gradients beside their fp32 sums (20 a parameter); ZeRO-1 gathers updated
 *              weights through flat buffers: 10 + 14/dp a parameter just after the step, as its
 *              logs print; 8 + 14/dp at the peak, when the whole buffer is free again
 *
 * Sources: Rajbhandari 2019 (1910.02054); Megatron-LM docs, distributed optimizer (20, 18 and 16
 * bytes); torch FSDP2 mixed precision policy; Transformer Engine, fp8 weight caching. Adam's
 * traffic: master, two moments and gradient read, master, moments and weight written. */
#include "layout/recipe.h"

static const ff_recipe_bytes recipes[FF_RECIPE_COUNT] = {
    [FF_RECIPE_BF16_MEGATRON] = {2, 4, 12, 2, 4, 2, 4, 2, 2, 30, 0, 0, 0, 0, 0, FF_DTYPE_BF16,
                                 "bf16 weights, fp32 gradients, fp32 master and moments"},
    [FF_RECIPE_BF16_CLASSIC] = {2, 2, 12, 2, 2, 2, 2, 2, 2, 28, 0, 0, 0, 0, 0, FF_DTYPE_BF16,
                                "bf16 weights and gradients, fp32 master and moments"},
    [FF_RECIPE_BF16_DEEPSPEED] = {2, 2, 12, 2, 2, 2, 2, 2, 2, 28, 0, 0, 0, 0, 0, FF_DTYPE_BF16,
                                  "bf16 weights and gradients, fp32 master and moments"},
    [FF_RECIPE_BF16_FSDP2] = {4, 4, 8, 2, 4, 2, 4, 2, 2, 28, 0, 0, 0, 0, 0, FF_DTYPE_BF16,
                              "fp32 shards, bf16 copy of gathered layers, fp32 reduction"},
    [FF_RECIPE_BF16_FSDP] = {4, 4, 8, 2, 2, 2, 2, 2, 2, 28, 0, 0, 0, 0, 0, FF_DTYPE_BF16,
                             "fp32 shards, bf16 copy of gathered layers, bf16 reduction"},
    [FF_RECIPE_BF16_AUTOCAST] = {4, 4, 8, 6, 4, 4, 2, 2, 2, 28, 0, 0, 6, 24, 0, FF_DTYPE_BF16,
                                 "fp32 weights gathered, cast as they are used, bf16 reduction"},
    [FF_RECIPE_FP16_MEGATRON] = {2, 2, 16, 2, 2, 2, 2, 2, 2, 32, 4, 0, 0, 0, 0, FF_DTYPE_FP16,
                                 "fp16 weights and gradients, fp32 master, gradient, moments"},
    [FF_RECIPE_FP8_TE] = {4, 4, 12, 2, 4, 2, 4, 2, 1, 30, 0, 0, 0, 0, 0, FF_DTYPE_FP8,
                          "bf16 weights with fp8 copies, fp32 gradients, master and moments"},
    [FF_RECIPE_MXFP8] = {4, 4, 12, 2, 4, 2, 4, 2, 1, 30, 0, 0, 0, 0, 0, FF_DTYPE_FP8,
                         "as fp8-te, scales of 32 elements"},
    [FF_RECIPE_FP8_PARAMS] = {2, 2, 12, 2, 2, 1, 2, 2, 1, 28, 0, 0, 0, 0, 0, FF_DTYPE_FP8,
                              "fp8 weights and their transposes, bf16 gradients, fp32 master"},
    [FF_RECIPE_NVFP4] = {3, 2, 12, 2, 2, 2, 2, 2, 1, 28, 0, 0, 0, 0, 0, FF_DTYPE_FP4,
                         "bf16 weights with fp4 copies, bf16 gradients, fp32 master and moments"},
    [FF_RECIPE_FP8_FSDP2] = {4, 4, 8, 2, 4, 2, 4, 2, 2, 28, 0, 0, 0, 0, 0, FF_DTYPE_FP8,
                             "fp32 shards, bf16 copy of gathered layers, fp8 products"},
    [FF_RECIPE_FP8_ROWWISE] = {4, 4, 8, 2, 4, 2, 4, 2, 2, 28, 0, 0, 0, 0, 14, FF_DTYPE_FP8,
                               "as fp8-fsdp2, a scale for every row and column"},
    [FF_RECIPE_BF16_NANOTRON] = {2, 6, 12, 2, 6, 2, 4, 2, 2, 32, 0, 2, 0, 0, 0, FF_DTYPE_BF16,
                                 "bf16 weights and gradients, fp32 sums, master and moments"},
    [FF_RECIPE_FP32] = {4, 4, 8, 4, 4, 4, 4, 4, 4, 28, 0, 0, 0, 0, 0, FF_DTYPE_FP32,
                        "fp32 weights, gradients and moments"},
};

const ff_recipe_bytes *ff_recipe_describe(ff_recipe recipe) {
    return &recipes[recipe];
}

ff_dtype ff_dtype_of_ends(ff_dtype dtype) {
    return dtype == FF_DTYPE_FP8 || dtype == FF_DTYPE_FP4 ? FF_DTYPE_BF16 : dtype;
}

const char *ff_dtype_name(ff_dtype dtype) {
    static const char *const names[FF_DTYPE_COUNT] = {"fp32", "fp16", "bf16", "fp8", "fp4"};
    return names[dtype];
}
