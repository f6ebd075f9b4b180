/* Linear attention (gated delta rule), the other attention block. */
#ifndef FF_LAYER_LINEAR_H
#define FF_LAYER_LINEAR_H

#include "layer/list.h"

void linear_attention_forward(layer_view *view, const ff_attention *attention);
void linear_attention_backward(layer_view *view, const ff_attention *attention);

#endif
