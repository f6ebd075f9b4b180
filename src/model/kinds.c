/* The layers of a model: for each layer which attention and which MLP it has, folded into kinds.
 *
 *     layer    0        1        2        3        ...
 *     type     linear   linear   linear   full          from layer_types, or the family's pattern
 *     experts  no       yes      yes      yes           from the keys below
 *     kind     0        1        1        2             equal layers share a kind
 *
 * Experts stand in layer i (from 0) when all of these that the config states allow it:
 *     first_k_dense_replace k     i >= k                  (DeepSeek, Kimi, GLM)
 *     moe_layer_freq n            i % n == 0              (DeepSeek)
 *     decoder_sparse_step n       (i + 1) % n == 0        (Qwen)
 *     interleave_moe_layer_step n (i + 1) % n == 0        (Llama 4)
 *     mlp_only_layers             i is not listed         (Qwen)
 *     moe_layers                  i is listed             (Llama 4)
 * The multi-token-prediction block is a layer like the last one with softmax or MLA attention. */
#include "base/number.h"
#include "model/family.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_WINDOW (INT64_C(1) << 40)

typedef struct layer_plan {
    uint8_t type[FF_MODEL_MAX_LAYERS]; /* ff_layer_type */
    bool experts[FF_MODEL_MAX_LAYERS];
    int64_t window;      /* of sliding or chunked layers */
    ff_moe moe;          /* of layers with experts */
    ff_attention linear; /* of linear layers */
    int64_t dense_width; /* of layers without experts */
} layer_plan;

static const struct layer_type_entry {
    const char *spelling, *suffix;
} layer_types[FF_LAYER_TYPE_COUNT] = {
    [FF_LAYER_FULL] = {"full_attention", ""},
    [FF_LAYER_SLIDING] = {"sliding_attention", "-sliding"},
    [FF_LAYER_CHUNKED] = {"chunked_attention", "-chunked"},
    [FF_LAYER_LINEAR] = {"linear_attention", "-linear"},
};

/* -- attention of each layer ----------------------------------------------------------------- */

static bool report_length(const ff_reading *r, const ff_field *list) {
    if (list->count == r->model->layers)
        return false;
    ff_report(r->findings, FF0122, list->where, "\"%s\" has %d entries for %d layers", list->name,
              list->count, r->model->layers);
    return true;
}

static void read_listed_types(const ff_reading *r, const ff_field *list, layer_plan *plan) {
    if (report_length(r, list))
        return;
    int i = 0;
    for (const ff_field *f = list->first; f != NULL; f = f->next, i++) {
        int type = 0;
        while (type < FF_LAYER_TYPE_COUNT && strcmp(f->text, layer_types[type].spelling) != 0)
            type++;
        if (type == FF_LAYER_TYPE_COUNT) {
            ff_report(r->findings, FF0122, f->where, "entry %d of \"layer_types\" is not known",
                      i + 1);
            ff_report_help(r->findings, "full_attention, sliding_attention, chunked_attention or "
                                        "linear_attention");
            return;
        }
        plan->type[i] = (uint8_t)type;
    }
}

static const char *window_key(const ff_family *family) {
    return family->window_key == NULL ? "sliding_window" : family->window_key;
}

/* The period's key also stands with a leading underscore (Gemma 3). */
static int64_t read_period(const ff_reading *r) {
    int64_t period = r->family->period;
    const char *key = r->family->period_key;
    char hidden_key[64];
    if (key == NULL)
        return period;
    snprintf(hidden_key, sizeof hidden_key, "_%s", key);
    if (!ff_reading_key(r, key, 1, FF_MODEL_MAX_LAYERS, &period))
        ff_reading_key(r, hidden_key, 1, FF_MODEL_MAX_LAYERS, &period);
    return period;
}

static int64_t first_sliding_layer(const ff_reading *r) {
    int64_t first = r->model->layers;
    if (ff_reading_flag(r, (ff_flag_rule){"use_sliding_window", false}))
        ff_reading_key(r, "max_window_layers", 0, FF_MODEL_MAX_LAYERS, &first);
    return first;
}

static void apply_pattern(const ff_reading *r, layer_plan *plan) {
    const ff_family *f = r->family;
    const ff_layer_type type =
        f->pattern_type == FF_LAYER_FULL ? FF_LAYER_SLIDING : f->pattern_type;
    int64_t window = 0, period = 1, first = 0;
    ff_reading_key(r, window_key(f), 1, MAX_WINDOW, &window);
    bool restricts = window > 0 || type == FF_LAYER_LINEAR;
    if (f->pattern == FF_PATTERN_BELOW_MAX)
        restricts = window > 0 && (r->model->max_seq == 0 || window < r->model->max_seq);
    if (f->pattern == FF_PATTERN_NONE || !restricts)
        return;
    if (f->pattern == FF_PATTERN_PERIODIC)
        period = read_period(r);
    if (f->pattern == FF_PATTERN_FROM_LAYER)
        first = first_sliding_layer(r);
    for (int i = 0; i < r->model->layers; i++) {
        bool full = f->pattern == FF_PATTERN_PERIODIC ? (i + 1) % period == 0 : i < first;
        plan->type[i] = full ? FF_LAYER_FULL : (uint8_t)type;
    }
}

/* Llama 4 lists its layers by rope: 0 sees everything, 1 sees its chunk. */
static void apply_no_rope_list(const ff_reading *r, const ff_field *list, layer_plan *plan) {
    if (list->count == 0 || report_length(r, list))
        return;
    int i = 0;
    for (const ff_field *f = list->first; f != NULL; f = f->next)
        plan->type[i++] = f->integer == 0 ? FF_LAYER_FULL : FF_LAYER_CHUNKED;
}

static bool has_type(const ff_reading *r, const layer_plan *plan, ff_layer_type type) {
    return memchr(plan->type, type, (size_t)r->model->layers) != NULL;
}

static const ff_field *find_list(const ff_reading *r, const char *key) {
    const ff_field *f = ff_field_find(r->body, key);
    if (f == NULL || f->kind == FF_FIELD_NULL)
        return NULL;
    if (f->kind == FF_FIELD_LIST)
        return f;
    ff_report(r->findings, FF0108, f->where, "\"%s\" must be a list, not %s", key,
              ff_field_kind_name(f->kind));
    return NULL;
}

static void read_types(const ff_reading *r, layer_plan *plan) {
    const ff_field *listed = find_list(r, "layer_types");
    const ff_field *no_rope = find_list(r, "no_rope_layers");
    if (listed != NULL) {
        read_listed_types(r, listed, plan);
    } else {
        apply_pattern(r, plan);
        if (no_rope != NULL && r->family->pattern_type == FF_LAYER_CHUNKED)
            apply_no_rope_list(r, no_rope, plan);
    }
    if (!has_type(r, plan, FF_LAYER_SLIDING) && !has_type(r, plan, FF_LAYER_CHUNKED))
        return;
    ff_reading_need_key(r, window_key(r->family), MAX_WINDOW, &plan->window);
}

static void read_linear(const ff_reading *r, layer_plan *plan) {
    ff_attention *a = &plan->linear;
    const struct needed {
        const char *key;
        int64_t *value;
    } needed[] = {
        {"linear_num_key_heads", &a->key_heads},     {"linear_num_value_heads", &a->value_heads},
        {"linear_key_head_dim", &a->key_dim},        {"linear_value_head_dim", &a->value_dim},
        {"linear_conv_kernel_dim", &a->conv_kernel},
    };
    a->type = FF_ATTENTION_LINEAR;
    a->output_gate = true;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        ff_reading_need_key(r, needed[i].key, 1 << 16, needed[i].value);
    if (a->key_heads == 0 || a->value_heads % a->key_heads == 0)
        return;
    ff_report(r->findings, FF0122, ff_reading_place(r, "linear_num_value_heads"),
              "%" PRId64 " value heads are not a multiple of %" PRId64 " key heads", a->value_heads,
              a->key_heads);
}

/* -- experts --------------------------------------------------------------------------------- */

static void read_shared(const ff_reading *r, ff_moe *moe) {
    int64_t shared = r->family->shared_expert ? 1 : 0;
    ff_reading_key(r, "n_shared_experts", 0, 1 << 10, &shared);
    moe->shared_width = ff_mul(shared, moe->expert_width);
    ff_reading_key(r, "shared_expert_intermediate_size", 0, 1 << 24, &moe->shared_width);
    moe->shared_gate = r->family->shared_gate && moe->shared_width > 0;
}

static void read_groups(const ff_reading *r, ff_moe *moe) {
    int64_t groups = 0, limit = 0;
    if (!ff_reading_key(r, "n_group", 1, 1 << 16, &groups) ||
        !ff_reading_key(r, "topk_group", 1, 1 << 16, &limit) || groups == 1)
        return;
    if (moe->experts % groups != 0)
        ff_report(r->findings, FF0122, ff_reading_place(r, "n_group"),
                  "%" PRId64 " experts do not split into %" PRId64 " groups", moe->experts, groups);
    if (limit > groups)
        ff_report(r->findings, FF0122, ff_reading_place(r, "topk_group"),
                  "a token may use %" PRId64 " groups of %" PRId64, limit, groups);
    moe->router_groups = groups;
    moe->router_group_limit = limit;
}

static void read_moe(const ff_reading *r, ff_moe *moe) {
    const ff_family *f = r->family;
    bool there = f->experts_optional ? ff_reading_size(r, FF_ROLE_EXPERTS, &moe->experts)
                                     : ff_reading_need(r, FF_ROLE_EXPERTS, &moe->experts);
    if (!there)
        return;
    ff_reading_need(r, FF_ROLE_EXPERTS_PER_TOKEN, &moe->experts_per_token);
    if (!ff_reading_size(r, FF_ROLE_EXPERT_FFN, &moe->expert_width) && f == &ff_family_unknown)
        moe->expert_width = r->ffn;
    if (moe->expert_width == 0)
        ff_reading_need(r, FF_ROLE_EXPERT_FFN, &moe->expert_width);
    moe->gated = r->model->kind[0].mlp.gated;
    moe->bias = f->expert_bias;
    moe->router_bias = f->router_bias;
    read_shared(r, moe);
    read_groups(r, moe);
    if (moe->experts_per_token > moe->experts) {
        ff_report(r->findings, FF0122, ff_reading_role_place(r, FF_ROLE_EXPERTS_PER_TOKEN),
                  "a token goes to %" PRId64 " experts of %" PRId64, moe->experts_per_token,
                  moe->experts);
        ff_report_help(r->findings, "at most %" PRId64, moe->experts);
    }
}

static void keep_where(bool *experts, int layers, int64_t modulus, int64_t remainder) {
    for (int i = 0; i < layers; i++)
        experts[i] = experts[i] && i % modulus == remainder;
}

static void apply_list(const ff_reading *r, const char *key, bool listed_value, bool *experts) {
    const ff_field *list = find_list(r, key);
    if (list == NULL)
        return;
    for (int i = 0; i < r->model->layers; i++) {
        bool listed = false;
        for (const ff_field *f = list->first; f != NULL && !listed; f = f->next)
            listed = f->is_integer && f->integer == i;
        if (listed == !listed_value)
            experts[i] = false;
    }
    for (const ff_field *f = list->first; f != NULL; f = f->next)
        if (!f->is_integer || f->integer < 0 || f->integer >= r->model->layers)
            ff_report(r->findings, FF0122, f->where, "\"%s\" names a layer that is not there", key);
}

static void place_experts(const ff_reading *r, bool *experts) {
    const int layers = r->model->layers;
    int64_t dense_first = 0, step;
    memset(experts, true, (size_t)layers);
    if (ff_reading_key(r, "first_k_dense_replace", 0, FF_MODEL_MAX_LAYERS, &dense_first) &&
        dense_first > layers)
        ff_report(r->findings, FF0122, ff_reading_place(r, "first_k_dense_replace"),
                  "%" PRId64 " dense layers of %d", dense_first, layers);
    for (int i = 0; i < layers && i < dense_first; i++)
        experts[i] = false;
    if (ff_reading_key(r, "moe_layer_freq", 1, FF_MODEL_MAX_LAYERS, &step))
        keep_where(experts, layers, step, 0);
    if (ff_reading_key(r, "decoder_sparse_step", 1, FF_MODEL_MAX_LAYERS, &step))
        keep_where(experts, layers, step, step - 1);
    if (ff_field_find(r->body, "moe_layers") == NULL &&
        ff_reading_key(r, "interleave_moe_layer_step", 1, FF_MODEL_MAX_LAYERS, &step))
        keep_where(experts, layers, step, step - 1);
    apply_list(r, "mlp_only_layers", false, experts);
    apply_list(r, "moe_layers", true, experts);
}

/* -- kinds ----------------------------------------------------------------------------------- */

static void read_dense_width(const ff_reading *r, layer_plan *plan) {
    if (memchr(plan->experts, false, (size_t)r->model->layers) == NULL)
        return;
    plan->dense_width = r->ffn;
    if (plan->moe.experts > 0 && r->family->dense_ffn != NULL)
        ff_reading_need_key(r, r->family->dense_ffn, 1 << 24, &plan->dense_width);
    else if (plan->dense_width == 0)
        ff_reading_need(r, FF_ROLE_FFN, &plan->dense_width);
}

static ff_layer_kind make_kind(const ff_reading *r, const layer_plan *plan,
                               const ff_layer_kind *template, int layer) {
    ff_layer_kind kind = *template;
    ff_layer_type type = plan->type[layer];
    kind.attention = type == FF_LAYER_LINEAR ? plan->linear : r->attention;
    if (type == FF_LAYER_SLIDING || type == FF_LAYER_CHUNKED)
        kind.attention.window = plan->window;
    kind.attention.chunked = type == FF_LAYER_CHUNKED;
    /* Llama 4 normalises queries and keys where it rotates them. */
    if (kind.attention.qk_norm == FF_QK_NORM_UNWEIGHTED && type == FF_LAYER_FULL &&
        has_type(r, plan, FF_LAYER_CHUNKED))
        kind.attention.qk_norm = FF_QK_NORM_NONE;
    if (plan->experts[layer])
        kind.moe = plan->moe;
    else
        kind.mlp.width = plan->dense_width;
    snprintf(kind.name, sizeof kind.name, "%s%s", plan->experts[layer] ? "moe" : "dense",
             layer_types[type].suffix);
    return kind;
}

/* Layers of one type with and without experts share a kind with those equal to them; four types,
 * with or without experts, are eight kinds at most. */
static void fold_layers(ff_reading *r, const layer_plan *plan) {
    ff_model *m = r->model;
    const ff_layer_kind template = m->kind[0];
    int kind_of[FF_LAYER_TYPE_COUNT][2];
    memset(kind_of, -1, sizeof kind_of);
    for (int i = 0; i < m->layers; i++) {
        int *kind = &kind_of[plan->type[i]][plan->experts[i]];
        if (*kind < 0) {
            *kind = m->kinds++;
            m->kind[*kind] = make_kind(r, plan, &template, i);
        }
        m->layer_kind[i] = (uint8_t)*kind;
        if (plan->type[i] != FF_LAYER_LINEAR || i == 0)
            m->mtp_kind = *kind;
    }
}

void ff_reading_layers(ff_reading *r) {
    layer_plan plan = {0};
    read_types(r, &plan);
    if (has_type(r, &plan, FF_LAYER_LINEAR))
        read_linear(r, &plan);
    if (r->family->experts)
        read_moe(r, &plan.moe);
    if (plan.moe.experts > 0)
        place_experts(r, plan.experts);
    read_dense_width(r, &plan);
    if (!ff_reading_failed(r))
        fold_layers(r, &plan);
}
