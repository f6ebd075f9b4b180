/* The weights of one rank: which part of which tensor, and where it lies.
 *
 *     chunk   | head unit | layer L-1 | ... | layer 0 | embedding unit |    in the order of backward
 *     unit    | norms | q | k | v | q.bias | ... | down |                in the order of the table
 *
 * Units are what ZeRO-3 gathers and reduces together; buckets cut a chunk's weights in the order in
 * which backward finishes them, so weights lie in that order. Tensors and their shares come from
 * the model's table and `ff_tensor_shard_elements`; a role says what the engine does with one. */
#ifndef FF_ENGINE_UNITS_H
#define FF_ENGINE_UNITS_H

#include "engine/real.h"
#include "fivefold/program.h"

typedef enum ff_role {
    FF_ROLE_LAYER_NORMS, /* attention norm, MLP norm; weight and bias of each */
    FF_ROLE_Q,           /* q, k and v lie side by side: one product */
    FF_ROLE_K,
    FF_ROLE_V,
    FF_ROLE_Q_BIAS,
    FF_ROLE_K_BIAS,
    FF_ROLE_V_BIAS,
    FF_ROLE_O,
    FF_ROLE_O_BIAS,
    FF_ROLE_GATE, /* gate and up lie side by side */
    FF_ROLE_UP,
    FF_ROLE_UP_BIAS,
    FF_ROLE_DOWN,
    FF_ROLE_DOWN_BIAS,
    FF_ROLE_EMBEDDING,
    FF_ROLE_POSITIONS,
    FF_ROLE_FINAL_NORM,
    FF_ROLE_OUTPUT, /* the head's matrix, or the copy of a tied embedding */
    FF_ROLE_COUNT
} ff_role;

typedef struct ff_part {
    ff_role role;
    ff_tensor tensor;      /* whole */
    int64_t rows, columns; /* of one copy, on this rank */
    int64_t first_row, first_column;
    int64_t offset, elements; /* in the unit; all copies */
    uint64_t key;             /* of its random numbers: the same for a tied copy */
} ff_part;

typedef enum ff_unit_kind { FF_UNIT_HEAD, FF_UNIT_LAYER, FF_UNIT_EMBEDDING } ff_unit_kind;

enum { FF_MOST_PARTS = 16 };
typedef struct ff_unit {
    ff_unit_kind kind;
    int layer; /* of the model; -1 for the ends */
    int parts;
    ff_part part[FF_MOST_PARTS];
    int64_t offset, elements; /* in the chunk */
} ff_unit;

/* NULL when the engine runs the tensor, else its name. */
const char *ff_unit_unknown_tensor(const ff_model *model);

/* A unit as rank `tp_index` of `tp` holds it; its offset is left 0. `copy`: the head unit of a tied
 * model holds a copy of the embedding. */
void ff_unit_build(const ff_model *model, ff_unit_kind kind, int layer, int64_t tp,
                   int64_t tp_index, bool copy, ff_unit *unit);

/* The part with a role, or NULL. */
const ff_part *ff_unit_part(const ff_unit *unit, ff_role role);

/* Writes the unit's first weights: normal numbers of the given deviation, scaled down by the depth
 * for matrices that feed the residual stream (GPT-2); norms 1, biases and padding 0. */
typedef struct ff_initialisation {
    uint64_t seed;
    double deviation;
    int64_t real_vocab;
    int layers;
} ff_initialisation;
void ff_unit_initialise(const ff_unit *unit, const ff_initialisation *how, real *weights);

/* Whether weight decay applies to a part: matrices, not norms and biases. */
bool ff_part_decays(const ff_part *part);

#endif
