/* The model of a row. See case.h. */
#include "validate/shape.h"

#include "base/text.h"
#include "model/config.h"
#include "presets/presets.h"
#include <inttypes.h>
#include <string.h>

int ff_validate_presets(ff_arena *arena, ff_model **presets) {
    static const char prefix[] = "models/";
    int count = 0, read = 0;
    while (ff_preset_path(prefix, count) != NULL)
        count++;
    *presets = FF_ARENA_ARRAY(arena, count, ff_model);
    for (int i = 0; i < count; i++)
        if (ff_model_preset(ff_preset_path(prefix, i) + strlen(prefix), NULL, &(*presets)[read]) ==
            FF_OK)
            read++;
    return read;
}

static int64_t width_of(const ff_layer_kind *kind) {
    return kind->moe.experts > 0 ? kind->moe.expert_width : kind->mlp.width;
}

/* A preset of the row's shape, vocabulary and depth aside. */
static bool same_shape(const ff_model *model, const ff_row *row) {
    const ff_layer_kind *moe = ff_model_moe_kind(model);
    const ff_layer_kind *kind = moe != NULL ? moe : &model->kind[0];
    int64_t experts = ff_row_integer(row, FF_ROW_moe_experts);
    int64_t kv = ff_row_integer(row, FF_ROW_kv_heads);
    int64_t width = ff_row_integer(row, FF_ROW_moe_ffn_hidden);
    bool mla = ff_row_is(row, FF_ROW_attn, "mla");
    if (experts == 0 || width == 0)
        width = ff_row_integer(row, FF_ROW_ffn_hidden);
    if (model->hidden != ff_row_integer(row, FF_ROW_hidden) ||
        kind->attention.heads != ff_row_integer(row, FF_ROW_heads) || width_of(kind) != width)
        return false;
    if (mla != (kind->attention.type == FF_ATTENTION_MLA))
        return false;
    if (!mla && kv > 0 && kind->attention.kv_heads != kv)
        return false;
    return kind->moe.experts == experts;
}

static void set_depth(ff_model *model, int64_t layers) {
    for (int64_t i = model->layers; i < layers; i++)
        model->layer_kind[i] = model->layer_kind[i % model->layers];
    model->layers = (int)layers;
}

static void add_key(ff_text *text, const char *key, int64_t value) {
    if (value > 0)
        ff_text_printf(text, "%s%s=%" PRId64, text->length == 0 ? "" : ",", key, value);
}

static ff_status from_columns(const ff_row *row, ff_model *model) {
    ff_text shape = {0};
    int64_t experts = ff_row_integer(row, FF_ROW_moe_experts);
    add_key(&shape, "layers", ff_row_integer(row, FF_ROW_layers));
    add_key(&shape, "hidden", ff_row_integer(row, FF_ROW_hidden));
    add_key(&shape, "heads", ff_row_integer(row, FF_ROW_heads));
    add_key(&shape, "kv_heads", ff_row_integer(row, FF_ROW_kv_heads));
    add_key(&shape, "head_dim", ff_row_integer(row, FF_ROW_head_dim));
    add_key(&shape, "vocab", ff_row_integer(row, FF_ROW_vocab));
    add_key(&shape, "ffn", ff_row_integer(row, FF_ROW_ffn_hidden));
    add_key(&shape, "experts", experts);
    if (experts > 0) {
        add_key(&shape, "topk", ff_row_integer(row, FF_ROW_moe_topk));
        add_key(&shape, "expert_ffn", ff_row_integer(row, FF_ROW_moe_ffn_hidden));
        add_key(&shape, "shared_ffn", ff_row_integer(row, FF_ROW_shared_ffn));
    }
    ff_text_printf(&shape, ",gated=%d,tied=%d", ff_row_is(row, FF_ROW_gated, "1"),
                   ff_row_is(row, FF_ROW_tied, "1"));
    ff_status status = ff_model_from_shape(ff_text_bytes(&shape), NULL, model);
    ff_text_free(&shape);
    return status;
}

ff_status ff_validate_model(const ff_model *presets, int count, const ff_row *row,
                            ff_model *model) {
    int64_t layers = ff_row_integer(row, FF_ROW_layers), vocab = ff_row_integer(row, FF_ROW_vocab);
    bool columns_suffice =
        ff_row_integer(row, FF_ROW_moe_experts) == 0 && !ff_row_is(row, FF_ROW_attn, "mla") &&
        !ff_row_matches(row->value[FF_ROW_attn], "*sliding*") && ff_row_says(row, FF_ROW_head_dim);
    if (layers < 1 || layers > FF_MODEL_MAX_LAYERS || ff_row_integer(row, FF_ROW_hidden) < 1)
        return FF_INVALID;
    for (int i = 0; i < count && !columns_suffice; i++) {
        if (!same_shape(&presets[i], row))
            continue;
        *model = presets[i];
        set_depth(model, layers);
        if (vocab > 0)
            model->vocab = vocab;
        return FF_OK;
    }
    if (ff_row_is(row, FF_ROW_attn, "mla"))
        return FF_INVALID;
    ff_status status = from_columns(row, model);
    model->position_rows =
        ff_row_is(row, FF_ROW_gated, "1") ? 0 : ff_row_integer(row, FF_ROW_seq_len);
    model->norm_bias = !ff_row_is(row, FF_ROW_gated, "1");
    model->dropout = ff_row_is(row, FF_ROW_dropout, "1");
    ff_copy_text(model->name, sizeof model->name, row->value[FF_ROW_model_name]);
    return status;
}
