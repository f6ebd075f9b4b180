/* Building blocks of the recipe's files: appending operators and tensors to a list.
 *
 * A weight GEMM is described once (`product`) and appended three times: forward, and mirrored for
 * the input gradient (B) and the weight gradient (W); FLOP and traffic follow from its sides. */
#ifndef FF_LAYER_LIST_H
#define FF_LAYER_LIST_H

#include "fivefold/layer.h"

/* What every block of a layer needs to know. */
typedef struct layer_view {
    const ff_model *model;
    const ff_layer_shape *shape;
    ff_layer_list *list;
    int64_t tokens;          /* T */
    int64_t shard_tokens;    /* T/t with SP, else T: where norms and residual live */
    int64_t heads, kv_heads; /* of one TP rank */
    int element_bytes;
} layer_view;

typedef struct product {
    const char *forward, *input_gradient, *weight_gradient;
    int64_t m, n, k, batch;
    unsigned module;
} product;

/* Empties a list; entries beyond its counts are never read. */
void list_clear(ff_layer_list *list);

layer_view layer_view_of(const ff_model *model, const ff_layer_shape *shape, ff_layer_list *list);

int list_gemm(layer_view *view, const product *p, ff_phase phase);
int list_attention(layer_view *view, const char *name, ff_phase phase, double flop,
                   double memory_bytes, unsigned module);
/* `element_moves` counts elements read or written. */
int list_memory(layer_view *view, const char *name, ff_phase phase, double element_moves,
                unsigned module);

typedef struct exchange {
    const char *name;
    ff_collective collective;
    ff_axes group;
    bool outer; /* see ff_operator */
    int64_t elements, calls;
    int element_bytes; /* 0 = the activation's */
    ff_timing timing;
    int behind;
    unsigned module;
} exchange;
/* Left out when the group has one rank (`ranks` of 1). */
void list_exchange(layer_view *view, ff_phase phase, int64_t ranks, const exchange *e);

typedef struct saving {
    const char *name;
    int64_t elements;
    int element_bytes; /* 0 = the activation's */
    unsigned module;
    ff_phase freed_by;
    const char *divided_by;
} saving;
void list_save(layer_view *view, const saving *s);
void list_working(layer_view *view, const char *name, int64_t bytes);

/* The two collectives around a tensor-parallel block (docs/model.md C): all-gather before and
 * reduce-scatter after with SP, an all-reduce after without; backward mirrors and, with SP, gathers
 * the saved input again for the weight gradient. `width` is a token's elements; `behind_...` are
 * the backward GEMMs that hide them. */
void list_tp_enter(layer_view *view, const char *name, ff_phase phase, int64_t width,
                   unsigned module);
void list_tp_leave(layer_view *view, const char *name, ff_phase phase, unsigned module);
void list_tp_leave_backward(layer_view *view, const char *name);
void list_tp_regather(layer_view *view, const char *name, int64_t width, int behind_input_gradient);
void list_tp_enter_backward(layer_view *view, const char *name, int64_t width,
                            int behind_weight_gradient);

/* Blocks; each appends its forward part, or its backward part. */
void attention_forward(layer_view *view, const ff_attention *attention);
void attention_backward(layer_view *view, const ff_attention *attention);
void mlp_forward(layer_view *view, const ff_mlp *mlp);
void mlp_backward(layer_view *view, const ff_mlp *mlp);
void moe_forward(layer_view *view, const ff_moe *moe);
void moe_backward(layer_view *view, const ff_moe *moe);
/* `input_module`: whose recomputation makes its input again; 0 = it is kept. */
void norm_forward(layer_view *view, const char *name, bool saves_output, int64_t tokens,
                  unsigned input_module);
void norm_backward(layer_view *view, const char *name, int64_t tokens);

#endif
