/* A config.json as an ff_model: sizes and flags, then (kinds.c) the layers.
 *
 * Order: find the map that describes the text model and its family's row; read the sizes; what the
 * row implies; what the family's own function adjusts; the attention; the layers; last, whether all
 * of it fits together. Every fault is reported; layers are built only from sizes without faults.
 *
 * A key that is nearly a known one, which is absent, is an error: ignoring it would count another
 * model ("num_key_value_head" would silently mean multi-head attention). Other unknown keys are
 * none of our business; configs carry many. */
#include "model/config.h"

#include "base/number.h"
#include "base/text.h"
#include "model/family.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MTP_LAYERS = 64, MOST_NAMED = 8 };
#define MAX_PARAMETERS INT64_C(1000000000000000)

bool ff_model_is_shape(const char *argument) {
    return strchr(argument, '=') != NULL;
}

/* -- which map, which family ----------------------------------------------------------------- */

static const ff_field *find_body(const ff_field *outer) {
    static const char *const nests[] = {"text_config", "llm_config", "language_config", NULL};
    for (const char *const *nest = nests; *nest != NULL; nest++) {
        const ff_field *inner = ff_field_find(outer, *nest);
        if (inner != NULL && inner->kind == FF_FIELD_MAP)
            return inner;
    }
    return outer;
}

/* A type is printed and put into JSON: one that is cut within a character, or that would steer a
 * terminal, is not taken over. */
static void set_family_name(ff_model *model, const char *type) {
    bool printable = type != NULL && type[0] != '\0';
    for (const char *c = type; printable && *c != '\0'; c++)
        printable = *c > ' ' && *c <= '~';
    ff_copy_text(model->family, sizeof model->family, printable ? type : "unknown");
}

static const ff_family *find_family(ff_reading *r) {
    const ff_field *maps[] = {r->body, r->outer};
    const char *first_type = NULL;
    for (int i = 0; i < 2; i++) {
        const char *type = NULL;
        ff_field_get_text(maps[i], "model_type", i == 0 ? r->findings : NULL, &type);
        if (type == NULL)
            continue;
        first_type = first_type == NULL ? type : first_type;
        const ff_family *family = ff_family_find(type);
        if (family != NULL) {
            set_family_name(r->model, type);
            return family;
        }
    }
    set_family_name(r->model, first_type);
    return &ff_family_unknown;
}

/* False with a finding when the type is known to be something else. Where types nest, one that is a
 * known family decides: a Llama with an image encoder is planned as that Llama. */
static bool is_decoder(const ff_reading *r) {
    const ff_field *maps[] = {r->body, r->outer};
    if (r->family != &ff_family_unknown)
        return true;
    for (int i = 0; i < 2; i++) {
        const char *type = NULL, *kind = NULL;
        if (ff_field_get_text(maps[i], "model_type", NULL, &type))
            kind = ff_family_other_kind(type);
        if (kind == NULL)
            continue;
        ff_report(r->findings, FF0120, ff_field_find(maps[i], "model_type")->where,
                  "model_type \"%s\" is %s, no decoder-only transformer", type, kind);
        ff_report_help(r->findings, "only decoder-only transformers are counted and planned");
        return false;
    }
    return true;
}

/* -- facts beside sizes ---------------------------------------------------------------------- */

static bool is_present(const ff_reading *r, const char *key) {
    const ff_field *f = ff_field_find(r->body, key);
    return f != NULL && f->kind != FF_FIELD_NULL;
}

static bool any_present(const ff_reading *r, const char *const *keys) {
    for (; *keys != NULL; keys++)
        if (is_present(r, *keys))
            return true;
    return false;
}

/* Of a nested config the flag may stand on either level; the inner one is nearer. */
static bool read_tied(const ff_reading *r) {
    bool tied = r->family->tied;
    if (!ff_field_get_boolean(r->body, "tie_word_embeddings", r->findings, &tied) &&
        r->outer != r->body)
        ff_field_get_boolean(r->outer, "tie_word_embeddings", r->findings, &tied);
    return tied;
}

static bool read_dropout(const ff_reading *r) {
    static const char *const rates[] = {"hidden_dropout",   "attention_dropout", "resid_pdrop",
                                        "attn_pdrop",       "embd_pdrop",        "dropout",
                                        "residual_dropout", "embedding_dropout", "attn_dropout_p",
                                        "resid_dropout",    "activation_dropout"};
    bool said = false, drops = false;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double rate = 0;
        if (ff_field_get_real(r->body, rates[i], 0, 1, r->findings, &rate)) {
            said = true;
            drops = drops || rate > 0;
        }
    }
    return said ? drops : r->family->dropout;
}

static const char *const activation_keys[] = {"hidden_activation", "hidden_act",
                                              "activation_function", "activation"};
enum { ACTIVATION_KEYS = sizeof activation_keys / sizeof *activation_keys };

static ff_activation read_activation(const ff_reading *r) {
    static const struct word {
        const char *part;
        ff_activation activation;
    } words[] = {{"gelu", FF_ACTIVATION_GELU},
                 {"geglu", FF_ACTIVATION_GELU},
                 {"relu", FF_ACTIVATION_RELU},
                 {"silu", FF_ACTIVATION_SILU},
                 {"swi", FF_ACTIVATION_SILU}};
    for (int i = 0; i < ACTIVATION_KEYS; i++) {
        const char *text = NULL;
        if (!ff_field_get_text(r->body, activation_keys[i], r->findings, &text))
            continue;
        for (size_t j = 0; j < sizeof words / sizeof *words; j++)
            if (strstr(text, words[j].part) != NULL)
                return words[j].activation;
    }
    return r->family->activation;
}

/* What only running the model needs. Where they are left out, most config classes take 1e-5 for
 * LayerNorm, 1e-6 for RMSNorm, and 10,000. Rotary positions have a map of their own in newer files. */
static void set_numerics(ff_reading *r) {
    static const char *const epsilons[] = {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps",
                                           "norm_epsilon", "norm_eps"};
    static const char *const parts[] = {"partial_rotary_factor", "rotary_pct"};
    const ff_field *rope = ff_field_find(r->body, "rope_parameters");
    const ff_field *scaling = ff_field_find(r->body, "rope_scaling");
    const ff_field *maps[] = {r->body, rope, scaling};
    ff_model *m = r->model;
    m->norm_epsilon = m->norm_bias ? 1e-5 : 1e-6;
    m->rope_theta = 10000;
    m->rope_altered = is_present(r, "rotary_dim");
    for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++)
        if (is_present(r, epsilons[i]) &&
            ff_field_get_real(r->body, epsilons[i], 0, 1, r->findings, &m->norm_epsilon))
            break;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        double part = 1;
        const char *type = "default";
        if (maps[i] == NULL || maps[i]->kind != FF_FIELD_MAP)
            continue;
        ff_field_get_real(maps[i], "rope_theta", 1, 1e15, r->findings, &m->rope_theta);
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++)
            ff_field_get_real(maps[i], parts[j], 0, 1, r->findings, &part);
        if (maps[i] != r->body && !ff_field_get_text(maps[i], "rope_type", NULL, &type))
            ff_field_get_text(maps[i], "type", NULL, &type);
        m->rope_altered = m->rope_altered || part < 1 || strcmp(type, "default") != 0;
    }
}

static void set_facts(ff_reading *r) {
    const ff_family *f = r->family;
    ff_model *m = r->model;
    m->tied_head = read_tied(r);
    m->dropout = read_dropout(r);
    m->activation = read_activation(r);
    m->norm_bias = f->layer_norm;
    m->norm_unweighted = f->norm_unweighted;
    set_numerics(r);
    m->embedding_norm = f->embedding_norm;
    m->final_norm = true;
    m->head_bias = ff_reading_flag(r, f->head_bias);
    m->kind[0].norms = f->norms == 0 ? 2 : f->norms;
    m->kind[0].parallel_residual = ff_reading_flag(r, f->parallel_residual);
    m->kind[0].mlp.gated = !f->plain_mlp;
    m->kind[0].mlp.bias = ff_reading_flag(r, f->mlp_bias);
}

/* True for an activation that published models use in an MLP without a gate. A gated GELU has words
 * of its own: geglu, and gelu_pytorch_tanh in Gemma. */
static bool suggests_plain_mlp(const ff_reading *r) {
    static const char *const plain[] = {"relu",     "relu2",     "gelu",
                                        "gelu_new", "gelu_fast", "quick_gelu"};
    const char *text = NULL;
    for (int i = 0; i < ACTIVATION_KEYS && text == NULL; i++)
        ff_field_get_text(r->body, activation_keys[i], NULL, &text);
    for (size_t i = 0; text != NULL && i < sizeof plain / sizeof *plain; i++)
        if (strcmp(text, plain[i]) == 0)
            return true;
    return false;
}

/* True when the field has to do with experts or state spaces and nothing here reads it: without a
 * number of experts none of their keys is read. */
static bool is_left_out(const ff_field *f, bool has_experts) {
    static const char *const hybrids[] = {"hybrid_override_pattern", "ssm_cfg", "mamba_d_state"};
    for (size_t i = 0; i < sizeof hybrids / sizeof *hybrids; i++)
        if (strcmp(f->name, hybrids[i]) == 0)
            return true;
    return f->kind != FF_FIELD_NULL && strstr(f->name, "expert") != NULL &&
           !(has_experts && ff_family_knows_key(f->name));
}

/* The count leaves out what these fields mean, so it must not be trusted silently. */
static void name_left_out(const ff_reading *r, ff_text *list) {
    int64_t experts = 0;
    int named = 0;
    bool has_experts = ff_reading_size(r, FF_ROLE_EXPERTS, &experts);
    for (const ff_field *f = r->body->first; f != NULL; f = f->next) {
        if (!is_left_out(f, has_experts))
            continue;
        if (named == MOST_NAMED) {
            ff_text_append(list, ", ...");
            return;
        }
        ff_text_printf(list, "%s\"%.60s\"", named++ == 0 ? "; not read, so not counted: " : ", ",
                       f->name);
    }
}

/* An architecture nobody described: Llama's, but for what its fields say. */
static void assume_unknown(ff_reading *r) {
    static const char *const layer_norm_keys[] = {"layer_norm_eps", "layer_norm_epsilon",
                                                  "norm_epsilon", NULL};
    ff_model *m = r->model;
    ff_text assumed = {0};
    bool rms = is_present(r, "rms_norm_eps");
    m->norm_bias = !rms && any_present(r, layer_norm_keys);
    if (!rms)
        ff_text_append(&assumed, m->norm_bias ? "LayerNorm with biases, " : "RMSNorm, ");
    m->kind[0].mlp.gated = !suggests_plain_mlp(r);
    ff_text_printf(&assumed, "rotary positions, %s MLP", m->kind[0].mlp.gated ? "gated" : "plain");
    if (r->kv_heads == r->heads && !is_present(r, "num_key_value_heads"))
        ff_text_append(&assumed, ", a KV head for each head");
    if (!is_present(r, "attention_bias") || !is_present(r, "mlp_bias"))
        ff_text_append(&assumed, ", no biases where none are named");
    if (!is_present(r, "tie_word_embeddings"))
        ff_text_append(&assumed, ", untied head");
    if (is_present(r, "sliding_window") && !is_present(r, "layer_types"))
        ff_text_append(&assumed, ", full attention in every layer");
    ff_text_append(&assumed, ", no norm on queries and keys");
    name_left_out(r, &assumed);
    const ff_field *type = ff_field_find(r->body, "model_type");
    if (type == NULL)
        ff_report(r->findings, FF0121, r->body->where, "no \"model_type\"; assumed: %s",
                  ff_text_bytes(&assumed));
    else
        ff_report(r->findings, FF0121, type->where, "model_type \"%s\" is not known; assumed: %s",
                  m->family, ff_text_bytes(&assumed));
    ff_text_free(&assumed);
}

/* -- sizes ----------------------------------------------------------------------------------- */

static void read_sizes(ff_reading *r) {
    ff_model *m = r->model;
    int64_t layers = 0;
    ff_reading_need(r, FF_ROLE_HIDDEN, &m->hidden);
    ff_reading_need(r, FF_ROLE_LAYERS, &layers);
    ff_reading_need(r, FF_ROLE_HEADS, &r->heads);
    ff_reading_need(r, FF_ROLE_VOCAB, &m->vocab);
    ff_reading_size(r, FF_ROLE_KV_HEADS, &r->kv_heads);
    ff_reading_size(r, FF_ROLE_HEAD_DIM, &r->head_dim);
    ff_reading_size(r, FF_ROLE_FFN, &r->ffn);
    m->layers = (int)layers;
    m->embedding_width = m->hidden;
    if (r->family->learned_positions)
        ff_reading_need(r, FF_ROLE_MAX_SEQ, &m->max_seq);
    else
        ff_reading_size(r, FF_ROLE_MAX_SEQ, &m->max_seq);
    if (r->family->learned_positions)
        m->position_rows = m->max_seq + r->family->extra_position_rows;
    if (r->ffn == 0 && r->family->ffn_is_four_hidden)
        r->ffn = 4 * m->hidden;
    if (r->kv_heads == 0)
        r->kv_heads = r->heads;
    static const char *const mtp[] = {"num_nextn_predict_layers", "mtp_num_hidden_layers"};
    int64_t blocks = 0;
    for (int i = 0; i < 2 && blocks == 0; i++)
        ff_reading_key(r, mtp[i], 0, MAX_MTP_LAYERS, &blocks);
    m->mtp_layers = (int)blocks;
}

static void read_mla(ff_reading *r) {
    ff_attention *a = &r->attention;
    int64_t plain_dim = 0;
    a->type = FF_ATTENTION_MLA;
    ff_reading_need_key(r, "kv_lora_rank", 1 << 16, &a->kv_lora_rank);
    ff_reading_need_key(r, "qk_nope_head_dim", 1 << 16, &plain_dim);
    ff_reading_need_key(r, "qk_rope_head_dim", 1 << 16, &a->rope_head_dim);
    ff_reading_need_key(r, "v_head_dim", 1 << 16, &a->v_head_dim);
    ff_reading_key(r, "q_lora_rank", 1, 1 << 20, &a->q_lora_rank);
    a->qk_head_dim = plain_dim + a->rope_head_dim;
    a->kv_heads = r->heads; /* each head has its own keys, whatever num_key_value_heads says */
}

static void check_heads(ff_reading *r) {
    if (r->heads % r->kv_heads != 0) {
        ff_report(r->findings, FF0122, ff_reading_role_place(r, FF_ROLE_KV_HEADS),
                  "%" PRId64 " attention heads are not a multiple of %" PRId64 " KV heads",
                  r->heads, r->kv_heads);
        ff_report_rule(r->findings, "each KV head serves the same number of query heads");
        int64_t nearest = r->kv_heads < r->heads ? r->kv_heads : r->heads;
        while (r->heads % nearest != 0)
            nearest--;
        ff_report_help(r->findings, "nearest legal: %" PRId64 " KV heads", nearest);
    }
    if (r->head_dim != 0)
        return;
    if (r->model->hidden % r->heads != 0) {
        ff_report(r->findings, FF0122, ff_reading_role_place(r, FF_ROLE_HEADS),
                  "hidden size %" PRId64 " is not a multiple of %" PRId64 " heads",
                  r->model->hidden, r->heads);
        ff_report_rule(r->findings, "without \"head_dim\" the heads share the hidden size evenly");
        ff_report_help(r->findings, "state \"head_dim\", or correct one of the two");
    }
    r->head_dim = r->model->hidden / r->heads;
}

static void set_attention(ff_reading *r) {
    const ff_family *f = r->family;
    ff_attention *a = &r->attention;
    a->heads = r->heads;
    a->qkv_bias = ff_reading_flag(r, f->qkv_bias);
    a->output_bias = ff_reading_flag(r, f->output_bias);
    a->sinks = f->sinks;
    if (f->mla || is_present(r, "kv_lora_rank")) {
        read_mla(r);
        return;
    }
    check_heads(r);
    a->type = FF_ATTENTION_SOFTMAX;
    a->kv_heads = r->kv_heads;
    a->qk_head_dim = a->v_head_dim = r->head_dim;
    a->output_gate = ff_reading_flag(r, f->output_gate);
    a->qk_norm = ff_reading_flag(r, f->qk_norm_on) ? f->qk_norm : FF_QK_NORM_NONE;
}

/* -- slips of the pen ------------------------------------------------------------------------ */

/* A known key that the config lacks and that `name` misses by a letter (two of a long word). */
static const char *find_intended(const ff_reading *r, const char *name) {
    int length = (int)strlen(name);
    int allowed = length < 6 ? 0 : length < 14 ? 1 : 2;
    const char *key;
    if (ff_family_knows_key(name))
        return NULL;
    for (int n = 0; (key = ff_family_known_key(n)) != NULL; n++)
        if (abs((int)strlen(key) - length) <= allowed && ff_edit_distance(key, name) <= allowed &&
            ff_field_find(r->body, key) == NULL)
            return key;
    return NULL;
}

static void report_slips(const ff_reading *r) {
    for (const ff_field *f = r->body->first; f != NULL; f = f->next) {
        const char *intended = find_intended(r, f->name);
        if (intended == NULL || ff_reading_is_reported(r, f->name_where))
            continue;
        ff_report(r->findings, FF0107, f->name_where, "unknown key \"%s\"", f->name);
        ff_report_help(r->findings, "did you mean \"%s\"?", intended);
    }
}

/* -- all of it ------------------------------------------------------------------------------- */

static void check_size(const ff_reading *r) {
    ff_model_count count;
    ff_model_params(r->model, &count);
    if (ff_add(count.total, count.by_class[FF_CLASS_MTP]) > MAX_PARAMETERS)
        ff_report(r->findings, FF0123, r->body->where, "the model has more than 10^15 parameters");
}

static void read_model(ff_reading *r) {
    r->family = find_family(r);
    if (!is_decoder(r))
        return;
    read_sizes(r);
    set_facts(r);
    if (r->family == &ff_family_unknown)
        assume_unknown(r);
    if (r->family->adjust != NULL)
        r->family->adjust(r);
    if (r->family != &ff_family_unknown)
        report_slips(r);
    if (ff_reading_failed(r))
        return;
    set_attention(r);
    if (ff_reading_failed(r))
        return;
    ff_reading_layers(r);
    if (!ff_reading_failed(r))
        check_size(r);
}

ff_status ff_model_from_config(const ff_field *config, const char *name, ff_diagnostics *findings,
                               ff_model *model) {
    *model = (ff_model){0};
    ff_copy_text(model->name, sizeof model->name, name);
    if (config->kind != FF_FIELD_MAP) {
        ff_report(findings, FF0108, config->where, "a model is a map of keys and values, not %s",
                  ff_field_kind_name(config->kind));
        return FF_INVALID;
    }
    ff_diagnostics *own = findings == NULL ? ff_diagnostics_create() : NULL;
    ff_reading reading = {.outer = config,
                          .body = find_body(config),
                          .findings = findings == NULL ? own : findings,
                          .errors_before = ff_diagnostics_count_of(findings, FF_ERROR),
                          .model = model};
    read_model(&reading);
    ff_status status = ff_reading_failed(&reading) ? FF_INVALID : FF_OK;
    ff_diagnostics_free(own);
    return status;
}
