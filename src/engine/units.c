/* See units.h. How a tensor is cut is not said by its shard kind alone: a matrix that ends a
 * block's column-parallel half is cut by rows, one that begins its row-parallel half by columns. */
#include "engine/units.h"

#include "engine/random.h"
#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct role_row {
    const char *tensor;
    ff_role role;
    bool by_columns; /* where it is divided at all */
} role_row;

static const role_row roles[] = {
    {"norms", FF_ROLE_LAYER_NORMS, false},
    {"attention.q", FF_ROLE_Q, false},
    {"attention.k", FF_ROLE_K, false},
    {"attention.v", FF_ROLE_V, false},
    {"attention.q.bias", FF_ROLE_Q_BIAS, false},
    {"attention.k.bias", FF_ROLE_K_BIAS, false},
    {"attention.v.bias", FF_ROLE_V_BIAS, false},
    {"attention.o", FF_ROLE_O, true},
    {"attention.o.bias", FF_ROLE_O_BIAS, false},
    {"mlp.gate", FF_ROLE_GATE, false},
    {"mlp.up", FF_ROLE_UP, false},
    {"mlp.up.bias", FF_ROLE_UP_BIAS, false},
    {"mlp.down", FF_ROLE_DOWN, true},
    {"mlp.down.bias", FF_ROLE_DOWN_BIAS, false},
    {"embedding", FF_ROLE_EMBEDDING, false},
    {"positions", FF_ROLE_POSITIONS, false},
    {"final_norm", FF_ROLE_FINAL_NORM, false},
    {"head", FF_ROLE_OUTPUT, false},
};

static const role_row *find_role(const char *tensor) {
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].tensor, tensor) == 0)
            return &roles[i];
    return NULL;
}

static const char *first_unknown(const ff_tensor *tensors, int count) {
    for (int i = 0; i < count; i++)
        if (find_role(tensors[i].name) == NULL)
            return tensors[i].name;
    return NULL;
}

const char *ff_unit_unknown_tensor(const ff_model *model) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    for (int kind = 0; kind < model->kinds; kind++) {
        int count = ff_model_layer_tensors(model, kind, tensors);
        const char *unknown = first_unknown(tensors, count);
        if (unknown != NULL)
            return unknown;
    }
    const char *unknown = first_unknown(tensors, ff_model_first_tensors(model, tensors));
    if (unknown == NULL)
        unknown = first_unknown(tensors, ff_model_last_tensors(model, tensors));
    return unknown;
}

static void add_part(ff_unit *unit, const ff_tensor *tensor, const role_row *row, int64_t tp,
                     int64_t tp_index, uint64_t key) {
    bool divided = tensor->shard != FF_SHARD_REPLICATED;
    ff_part *part = &unit->part[unit->parts++];
    assert(unit->parts <= FF_MOST_PARTS);
    *part =
        (ff_part){.role = row->role,
                  .tensor = *tensor,
                  .rows = divided && !row->by_columns ? tensor->rows / tp : tensor->rows,
                  .columns = divided && row->by_columns ? tensor->columns / tp : tensor->columns,
                  .offset = unit->elements,
                  .key = key};
    part->first_row = divided && !row->by_columns ? part->rows * tp_index : 0;
    part->first_column = divided && row->by_columns ? part->columns * tp_index : 0;
    part->elements = part->rows * part->columns * tensor->count;
    assert(part->elements == ff_tensor_shard_elements(tensor, tp, 1, 1));
    unit->elements += part->elements;
}

/* Keys of random numbers: the layer (0 for the ends) and the role. */
static uint64_t key_of(int layer, ff_role role) {
    return (uint64_t)(layer + 1) * FF_ROLE_COUNT + role;
}

void ff_unit_build(const ff_model *model, ff_unit_kind kind, int layer, int64_t tp,
                   int64_t tp_index, bool copy, ff_unit *unit) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    *unit = (ff_unit){.kind = kind, .layer = layer};
    int count = kind == FF_UNIT_LAYER
                    ? ff_model_layer_tensors(model, model->layer_kind[layer], tensors)
                : kind == FF_UNIT_EMBEDDING ? ff_model_first_tensors(model, tensors)
                                            : ff_model_last_tensors(model, tensors);
    for (int i = 0; i < count; i++) {
        const role_row *row = find_role(tensors[i].name);
        add_part(unit, &tensors[i], row, tp, tp_index, key_of(layer, row->role));
    }
    if (kind != FF_UNIT_HEAD || !copy)
        return;
    role_row row = {"head", FF_ROLE_OUTPUT, false};
    ff_model_first_tensors(model, tensors);
    add_part(unit, &tensors[0], &row, tp, tp_index, key_of(-1, FF_ROLE_EMBEDDING));
}

const ff_part *ff_unit_part(const ff_unit *unit, ff_role role) {
    for (int i = 0; i < unit->parts; i++)
        if (unit->part[i].role == role)
            return &unit->part[i];
    return NULL;
}

bool ff_part_decays(const ff_part *part) {
    return part->tensor.columns > 1;
}

static bool feeds_residual(ff_role role) {
    return role == FF_ROLE_O || role == FF_ROLE_DOWN;
}

static bool is_vocabulary(ff_role role) {
    return role == FF_ROLE_EMBEDDING || role == FF_ROLE_OUTPUT;
}

static void initialise_matrix(const ff_part *part, const ff_initialisation *how, real *to) {
    double deviation = how->deviation;
    if (feeds_residual(part->role))
        deviation /= sqrt(2.0 * how->layers);
    for (int64_t r = 0; r < part->rows; r++)
        for (int64_t c = 0; c < part->columns; c++) {
            int64_t row = part->first_row + r, column = part->first_column + c;
            uint64_t index = (uint64_t)(row * part->tensor.columns + column);
            bool padding = is_vocabulary(part->role) && row >= how->real_vocab;
            *to++ = padding
                        ? 0
                        : (real)(float)(deviation * ff_random_normal(how->seed, part->key, index));
        }
}

/* Norms hold weight, bias, weight, bias, ... where they have biases. */
static void initialise_vectors(const ff_part *part, real *to) {
    bool norm = part->role == FF_ROLE_LAYER_NORMS || part->role == FF_ROLE_FINAL_NORM;
    int64_t norms = part->role == FF_ROLE_LAYER_NORMS ? 2 : 1;
    bool biased = part->tensor.count == 2 * norms;
    for (int64_t c = 0; c < part->tensor.count; c++)
        for (int64_t r = 0; r < part->rows; r++)
            *to++ = norm && !(biased && c % 2 == 1) ? 1 : 0;
}

void ff_unit_initialise(const ff_unit *unit, const ff_initialisation *how, real *weights) {
    for (int i = 0; i < unit->parts; i++) {
        const ff_part *part = &unit->part[i];
        if (ff_part_decays(part))
            initialise_matrix(part, how, weights + part->offset);
        else
            initialise_vectors(part, weights + part->offset);
    }
}
