/* A bare shape as an ff_model: a Llama-like transformer from a few numbers.
 *
 *     params=70e9,layers=80,hidden=8192,heads=64[,kv=8,seq=4096,vocab=32000,...]
 *
 * What is left out: KV heads = heads; head_dim = hidden / heads; vocabulary 32000; gated MLP;
 * untied head; with experts, 2 a token and no shared ones. The MLP width (of an expert, where there
 * are experts) is 8/3 of the hidden size rounded up to 256 (4 times where not gated), or, with
 * `params`, the width that brings the total nearest to it: the total is linear in the width, so two
 * counts give the line. The stated count is kept beside the counted one (model->stated_params). */
#include "base/number.h"
#include "base/text.h"
#include "model/config.h"
#include <inttypes.h>
#include <string.h>

enum { DEFAULT_VOCAB = 32000, DEFAULT_TOP_K = 2, MAX_KEY_BYTES = 32, MAX_VALUE_BYTES = 32 };
#define MAX_PARAMETERS INT64_C(1000000000000000)

typedef enum shape_key {
    PARAMS,
    LAYERS,
    HIDDEN,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    FFN,
    VOCAB,
    SEQ,
    EXPERTS,
    TOP_K,
    EXPERT_FFN,
    SHARED_FFN,
    TIED,
    GATED,
    KEY_COUNT
} shape_key;

static const struct shape_entry {
    const char *name;
    int64_t least, most;
} entries[KEY_COUNT] = {
    [PARAMS] = {"params", 1, MAX_PARAMETERS},
    [LAYERS] = {"layers", 1, FF_MODEL_MAX_LAYERS},
    [HIDDEN] = {"hidden", 1, 1 << 20},
    [HEADS] = {"heads", 1, 1 << 16},
    [KV_HEADS] = {"kv_heads", 1, 1 << 16},
    [HEAD_DIM] = {"head_dim", 1, 1 << 16},
    [FFN] = {"ffn", 1, 1 << 24},
    [VOCAB] = {"vocab", 1, 1 << 26},
    [SEQ] = {"seq", 1, INT64_C(1) << 40},
    [EXPERTS] = {"experts", 1, 1 << 16},
    [TOP_K] = {"topk", 1, 1 << 16},
    [EXPERT_FFN] = {"expert_ffn", 1, 1 << 24},
    [SHARED_FFN] = {"shared_ffn", 0, 1 << 24},
    [TIED] = {"tied", 0, 1},
    [GATED] = {"gated", 0, 1},
};

typedef struct shape_reading {
    const char *text;
    int64_t value[KEY_COUNT];
    ff_place where[KEY_COUNT]; /* of the value; line 0 = not given */
    ff_diagnostics *findings;  /* never NULL */
    int errors_before;
} shape_reading;

static bool failed(const shape_reading *r) {
    return ff_diagnostics_count_of(r->findings, FF_ERROR) > r->errors_before;
}

static bool is_given(const shape_reading *r, shape_key key) {
    return r->where[key].line != 0;
}

static ff_place place(const shape_reading *r, const char *begin, size_t length) {
    return (ff_place){NULL, 1, (int)(begin - r->text) + 1, (int)length, r->text};
}

/* Index of the key, KEY_COUNT (with a finding) when it is none. */
static shape_key find_key(shape_reading *r, const char *name, ff_place where) {
    const char *names[KEY_COUNT];
    if (strcmp(name, "kv") == 0)
        return KV_HEADS;
    for (int i = 0; i < KEY_COUNT; i++) {
        names[i] = entries[i].name;
        if (strcmp(name, names[i]) == 0)
            return (shape_key)i;
    }
    ff_report(r->findings, FF0124, where, "unknown key \"%s\"", name);
    int nearest = ff_nearest_word(name, names, KEY_COUNT);
    if (nearest >= 0)
        ff_report_help(r->findings, "did you mean \"%s\"?", names[nearest]);
    else
        ff_report_help(r->findings, "keys: params layers hidden heads kv_heads head_dim ffn vocab "
                                    "seq experts topk expert_ffn shared_ffn tied gated");
    return KEY_COUNT;
}

static bool parse_value(const char *text, int64_t *value) {
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *value = text[0] == 't';
        return true;
    }
    return ff_parse_count(text, value);
}

static void take_value(shape_reading *r, shape_key key, const char *text, ff_place where) {
    const struct shape_entry *entry = &entries[key];
    if (is_given(r, key)) {
        ff_report(r->findings, FF0124, where, "\"%s\" is given twice", entry->name);
        return;
    }
    r->where[key] = where;
    if (!parse_value(text, &r->value[key])) {
        ff_report(r->findings, FF0124, where, "\"%s\" needs a whole number, not \"%s\"",
                  entry->name, text);
        ff_report_help(r->findings, "such as 8192, 70e9 or 0.5M");
        return;
    }
    int64_t value = r->value[key];
    if (value >= entry->least && value <= entry->most)
        return;
    ff_report(r->findings, FF0124, where,
              "\"%s\" is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, entry->name, value,
              entry->least, entry->most);
    ff_report_help(r->findings, "nearest legal: %" PRId64,
                   value < entry->least ? entry->least : entry->most);
}

/* One `key=value`, `length` bytes at `begin`. */
static void take_pair(shape_reading *r, const char *begin, size_t length) {
    char name[MAX_KEY_BYTES], text[MAX_VALUE_BYTES];
    const char *equals = memchr(begin, '=', length);
    size_t name_length = equals == NULL ? length : (size_t)(equals - begin);
    size_t text_length = equals == NULL ? 0 : length - name_length - 1;
    if (equals == NULL || name_length == 0 || text_length == 0 || name_length >= sizeof name ||
        text_length >= sizeof text) {
        ff_report(r->findings, FF0124, place(r, begin, length),
                  "a shape is key=value,key=value,...");
        ff_report_help(r->findings, "such as params=70e9,layers=80,hidden=8192,heads=64");
        return;
    }
    memcpy(name, begin, name_length);
    name[name_length] = '\0';
    memcpy(text, equals + 1, text_length);
    text[text_length] = '\0';
    shape_key key = find_key(r, name, place(r, begin, name_length));
    if (key != KEY_COUNT)
        take_value(r, key, text, place(r, equals + 1, text_length));
}

static void read_pairs(shape_reading *r) {
    for (const char *begin = r->text;;) {
        size_t length = strcspn(begin, ",");
        take_pair(r, begin, length);
        if (begin[length] == '\0')
            return;
        begin += length + 1;
    }
}

/* -- what was left out ----------------------------------------------------------------------- */

static int64_t value_or(const shape_reading *r, shape_key key, int64_t otherwise) {
    return is_given(r, key) ? r->value[key] : otherwise;
}

static void check_needed(shape_reading *r) {
    static const shape_key needed[] = {LAYERS, HIDDEN, HEADS};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!is_given(r, needed[i]))
            ff_report(r->findings, FF0124, place(r, r->text, 0), "\"%s\" is needed, but missing",
                      entries[needed[i]].name);
}

static void contradict(shape_reading *r, shape_key key, const char *what, int64_t a, int64_t b) {
    ff_report(r->findings, FF0122, r->where[key], what, a, b);
}

static void check_consistency(shape_reading *r) {
    int64_t heads = r->value[HEADS], kv_heads = value_or(r, KV_HEADS, heads);
    if (heads % kv_heads != 0)
        contradict(r, KV_HEADS, "%" PRId64 " heads are not a multiple of %" PRId64 " KV heads",
                   heads, kv_heads);
    if (!is_given(r, HEAD_DIM) && r->value[HIDDEN] % heads != 0)
        contradict(r, HEADS,
                   "hidden size %" PRId64 " is not a multiple of %" PRId64
                   " heads; state head_dim or change one",
                   r->value[HIDDEN], heads);
    if (is_given(r, TOP_K) && r->value[TOP_K] > value_or(r, EXPERTS, 0))
        contradict(r, TOP_K, "a token goes to %" PRId64 " experts of %" PRId64, r->value[TOP_K],
                   value_or(r, EXPERTS, 0));
}

static void set_width(ff_layer_kind *kind, int64_t width) {
    *(kind->moe.experts > 0 ? &kind->moe.expert_width : &kind->mlp.width) = width;
}

static int64_t total_at_width(ff_model *model, int64_t width) {
    ff_model_count count;
    set_width(&model->kind[0], width);
    ff_model_params(model, &count);
    return count.total;
}

static void solve_width(shape_reading *r, ff_model *model) {
    int64_t at_1 = total_at_width(model, 1), each = total_at_width(model, 2) - at_1;
    int64_t stated = r->value[PARAMS];
    if (at_1 > stated + stated / 20) {
        contradict(r, PARAMS,
                   "%" PRId64 " parameters are fewer than attention and embedding alone, %" PRId64,
                   stated, at_1);
        return;
    }
    int64_t width = stated <= at_1 ? 1 : 1 + (stated - at_1 + each / 2) / each;
    set_width(&model->kind[0], ff_min(width, entries[FFN].most));
}

static void choose_width(shape_reading *r, ff_model *model) {
    const ff_layer_kind *kind = &model->kind[0];
    int64_t hidden = model->hidden;
    if (kind->moe.experts > 0 && is_given(r, EXPERT_FFN))
        set_width(&model->kind[0], r->value[EXPERT_FFN]);
    else if (is_given(r, FFN))
        set_width(&model->kind[0], r->value[FFN]);
    else if (is_given(r, PARAMS))
        solve_width(r, model);
    else
        set_width(&model->kind[0],
                  kind->mlp.gated ? ff_round_up(ff_ceil_div(8 * hidden, 3), 256) : 4 * hidden);
}

static void fill_kind(const shape_reading *r, ff_layer_kind *kind) {
    int64_t heads = r->value[HEADS];
    int64_t head_dim = value_or(r, HEAD_DIM, r->value[HIDDEN] / heads);
    bool gated = value_or(r, GATED, 1) != 0;
    int64_t experts = value_or(r, EXPERTS, 0);
    ff_copy_text(kind->name, sizeof kind->name, experts > 0 ? "moe" : "dense");
    kind->norms = 2;
    kind->attention = (ff_attention){.type = FF_ATTENTION_SOFTMAX,
                                     .heads = heads,
                                     .kv_heads = value_or(r, KV_HEADS, heads),
                                     .qk_head_dim = head_dim,
                                     .v_head_dim = head_dim};
    kind->mlp.gated = gated;
    if (experts > 0)
        kind->moe =
            (ff_moe){.experts = experts,
                     .experts_per_token = value_or(r, TOP_K, ff_min(experts, DEFAULT_TOP_K)),
                     .shared_width = value_or(r, SHARED_FFN, 0),
                     .gated = gated};
}

static void fill_model(shape_reading *r, ff_model *model) {
    model->hidden = model->embedding_width = r->value[HIDDEN];
    model->vocab = value_or(r, VOCAB, DEFAULT_VOCAB);
    model->max_seq = value_or(r, SEQ, 0);
    model->layers = (int)r->value[LAYERS];
    model->kinds = 1;
    model->tied_head = value_or(r, TIED, 0) != 0;
    model->final_norm = true;
    model->activation = value_or(r, GATED, 1) != 0 ? FF_ACTIVATION_SILU : FF_ACTIVATION_GELU;
    model->stated_params = value_or(r, PARAMS, 0);
    fill_kind(r, &model->kind[0]);
    choose_width(r, model);
    ff_model_count count;
    ff_model_params(model, &count);
    if (count.total > MAX_PARAMETERS)
        ff_report(r->findings, FF0123, place(r, r->text, 0),
                  "the model has more than 10^15 parameters");
}

ff_status ff_model_from_shape(const char *shape, ff_diagnostics *findings, ff_model *model) {
    ff_diagnostics *own = findings == NULL ? ff_diagnostics_create() : NULL;
    shape_reading r = {.text = shape,
                       .findings = findings == NULL ? own : findings,
                       .errors_before = ff_diagnostics_count_of(findings, FF_ERROR)};
    *model = (ff_model){0};
    ff_copy_text(model->name, sizeof model->name, shape);
    ff_copy_text(model->family, sizeof model->family, "shape");
    read_pairs(&r);
    if (!failed(&r))
        check_needed(&r);
    if (!failed(&r))
        check_consistency(&r);
    if (!failed(&r))
        fill_model(&r, model);
    ff_status status = failed(&r) ? FF_INVALID : FF_OK;
    ff_diagnostics_free(own);
    return status;
}
