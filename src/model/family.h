/* How the configs of one family of models are read: a row of the table in families.c.
 *
 *     config.json --(find by model_type)--> row: spellings, defaults, implied facts, rules
 *                                            |
 *              config.c: sizes and flags <---+---> kinds.c: attention and experts of each layer
 *
 * A field of a config plays a role (hidden size, layers, ...). Each role has a list of spellings in
 * use; a row names the family's own, which is tried first and which a finding names.
 *
 * A row says what the architecture implies and the config does not: this is what makes counts
 * exact. What a config does say wins over the row where the modelling code lets it. */
#ifndef FF_MODEL_FAMILY_H
#define FF_MODEL_FAMILY_H

#include "fivefold/model.h"
#include "input/fields.h"

typedef enum ff_role {
    FF_ROLE_HIDDEN,
    FF_ROLE_LAYERS,
    FF_ROLE_HEADS,
    FF_ROLE_KV_HEADS,
    FF_ROLE_HEAD_DIM,
    FF_ROLE_FFN,
    FF_ROLE_VOCAB,
    FF_ROLE_MAX_SEQ,
    FF_ROLE_EXPERTS,
    FF_ROLE_EXPERTS_PER_TOKEN,
    FF_ROLE_EXPERT_FFN,
    FF_ROLE_COUNT
} ff_role;

enum { FF_ROLE_SPELLINGS = 8, FF_FAMILY_TYPES = 6, FF_FAMILY_DEFAULTS = 8 };

typedef struct ff_role_entry {
    const char *names[FF_ROLE_SPELLINGS]; /* NULL-terminated */
    int64_t most;                         /* from 1 */
    bool one_value;                       /* spellings mean the same, so two of them must agree */
} ff_role_entry;
extern const ff_role_entry ff_roles[FF_ROLE_COUNT];

/* A yes or no: the flag's value when the config has the key, `otherwise` when not (or when there
 * is no key to look for). */
typedef struct ff_flag_rule {
    const char *key;
    bool otherwise;
} ff_flag_rule;
#define FF_ALWAYS                                                                                  \
    { NULL, true }

/* Where layers with restricted attention stand, when no `layer_types` says it. */
typedef enum ff_pattern {
    FF_PATTERN_NONE,
    FF_PATTERN_ALL,        /* every layer has the window (Mistral, StarCoder2) */
    FF_PATTERN_BELOW_MAX,  /* every layer, when the window is below the longest sequence (Phi-3) */
    FF_PATTERN_FROM_LAYER, /* layers from max_window_layers on, if use_sliding_window (Qwen) */
    FF_PATTERN_PERIODIC,   /* all but every n-th: (i + 1) % n == 0 is full (Gemma, Llama 4, ...) */
} ff_pattern;

typedef enum ff_layer_type {
    FF_LAYER_FULL,
    FF_LAYER_SLIDING,
    FF_LAYER_CHUNKED,
    FF_LAYER_LINEAR,
    FF_LAYER_TYPE_COUNT
} ff_layer_type;

typedef struct ff_reading ff_reading;

typedef struct ff_family {
    const char *types[FF_FAMILY_TYPES]; /* model_type values, NULL-terminated */
    const char *key[FF_ROLE_COUNT];     /* its spelling, NULL = the role's first */
    struct ff_family_default {
        const char *key;
        int64_t value;
    } defaults[FF_FAMILY_DEFAULTS]; /* of its config class, where published files leave it out */
    bool ffn_is_four_hidden;        /* when the config does not say */
    bool plain_mlp;                 /* two matrices */
    ff_activation activation;
    bool layer_norm;      /* weight and bias */
    bool norm_unweighted; /* no weight either */
    bool tied;            /* default of tie_word_embeddings */
    bool dropout;         /* when no rate is given */
    int norms;            /* a layer; 0 means 2 */
    ff_flag_rule parallel_residual;
    ff_flag_rule qkv_bias, output_bias, mlp_bias, head_bias;
    ff_flag_rule qk_norm_on;
    ff_qk_norm qk_norm;
    bool learned_positions;
    int extra_position_rows;
    bool embedding_norm;
    bool sinks;
    ff_flag_rule output_gate;
    ff_pattern pattern;
    ff_layer_type pattern_type; /* FULL means SLIDING */
    const char *period_key;
    int period;
    const char *window_key; /* NULL = "sliding_window" */
    bool mla;               /* needs kv_lora_rank and kin */
    bool experts;           /* reads experts */
    bool experts_optional;  /* may have none */
    bool shared_expert;     /* one of the experts' width, implied */
    bool shared_gate, router_bias, expert_bias;
    const char *dense_ffn; /* width of dense layers among expert layers, when it has its own key */
    void (*adjust)(ff_reading *reading); /* what no column says */
} ff_family;

/* What is being read: `body` is the map that describes the text model, inside `outer` where the
 * config nests it. */
struct ff_reading {
    const ff_field *outer, *body;
    const ff_family *family;
    ff_diagnostics *findings; /* never NULL */
    int errors_before;        /* that the list held when the reading began */
    ff_model *model;
    int64_t ffn, heads, kv_heads, head_dim; /* 0 = not said */
    ff_attention attention;                 /* of a full-attention layer */
};

/* The row of a model_type, NULL when unknown; the row for unknown ones. */
const ff_family *ff_family_find(const char *model_type);
extern const ff_family ff_family_unknown;
/* What a model_type is that is no decoder-only transformer ("an encoder"); NULL for any other. */
const char *ff_family_other_kind(const char *model_type);
/* The n-th key that the reading of configs knows, NULL past the end. */
const char *ff_family_known_key(int n);
bool ff_family_knows_key(const char *name);

/* The role's value under the family's spelling, any other spelling, or the family's default. */
bool ff_reading_size(const ff_reading *reading, ff_role role, int64_t *value);
/* The same; reports the role as missing. */
bool ff_reading_need(const ff_reading *reading, ff_role role, int64_t *value);
/* A size under one key from `least`, or the family's default for the key. */
bool ff_reading_key(const ff_reading *reading, const char *key, int64_t least, int64_t most,
                    int64_t *value);
/* The same from 1; reports the key as missing. */
void ff_reading_need_key(const ff_reading *reading, const char *key, int64_t most, int64_t *value);
/* True when a finding stands at the place. */
bool ff_reading_is_reported(const ff_reading *reading, ff_place where);
/* True when this reading has reported an error. */
bool ff_reading_failed(const ff_reading *reading);
bool ff_reading_flag(const ff_reading *reading, ff_flag_rule rule);
/* The place of the first of the keys that the config has (NULL-terminated), else of the body. */
ff_place ff_reading_place(const ff_reading *reading, const char *key);
ff_place ff_reading_role_place(const ff_reading *reading, ff_role role);

/* kinds.c: the layer kinds from what config.c has read. Findings tell of contradictions. */
void ff_reading_layers(ff_reading *reading);

#endif
