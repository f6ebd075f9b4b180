/* What waits for backward: the program's saved tensors in slots, unit by unit.
 *
 * After a unit's forward its tensors are held against the program's list by name and size: what it keeps
 * counts as kept from now on, what it drops is given back. Recomputation makes the dropped ones again
 * in the same slots; after the unit's backward nothing is left. Under full recomputation the layer's
 * input and its first norm's input are one tensor. */
#include "engine/rank.h"

#include <string.h>

/* Tensors that the program does not keep go; those it keeps count as kept from now on. */
typedef struct saved_name {
    const char *name;
    ff_slot slot[2]; /* by occurrence in the list */
} saved_name;

static const saved_name saved_names[] = {
    {"norm input", {FF_SLOT_NORM1_IN, FF_SLOT_NORM2_IN}},
    {"norm output", {FF_SLOT_NORM1_OUT, FF_SLOT_NORM2_OUT}},
    {"query", {FF_SLOT_QUERY, FF_SLOT_QUERY}},
    {"key and value", {FF_SLOT_KEY_VALUE, FF_SLOT_KEY_VALUE}},
    {"attention output", {FF_SLOT_CORE, FF_SLOT_CORE}},
    {"log-sum-exp", {FF_SLOT_LOG_SUM_EXP, FF_SLOT_LOG_SUM_EXP}},
    {"gate and up", {FF_SLOT_INNER, FF_SLOT_INNER}},
    {"activation input", {FF_SLOT_INNER, FF_SLOT_INNER}},
    {"gated product", {FF_SLOT_PRODUCT, FF_SLOT_PRODUCT}},
    {"activation output", {FF_SLOT_PRODUCT, FF_SLOT_PRODUCT}},
    {"layer input", {FF_SLOT_LAYER_INPUT, FF_SLOT_LAYER_INPUT}},
    {"loss softmax", {FF_SLOT_SOFTMAX, FF_SLOT_SOFTMAX}},
};

static const ff_layer_list *list_of(const ff_rank *rank, const ff_chunk *chunk, int unit) {
    const ff_program *program = rank->setup->program;
    const ff_unit *u = &chunk->unit[unit];
    if (u->kind == FF_UNIT_HEAD)
        return ff_program_head(program);
    if (u->kind == FF_UNIT_EMBEDDING)
        return ff_program_embedding(program);
    int kind = rank->setup->model.layer_kind[u->layer], recomputed = 0;
    for (int k = 0; k < rank->setup->model.kinds; k++)
        recomputed += chunk->content.recomputed_of_kind[k];
    return ff_program_layer(program, kind, u->layer - chunk->content.first_layer < recomputed);
}

static void drop_slot(ff_rank *rank, real **slots, ff_slot slot) {
    bool alias = slot == FF_SLOT_NORM1_IN && slots[slot] == slots[FF_SLOT_LAYER_INPUT];
    if (!alias)
        ff_store_give(&rank->store, slots[slot]);
    slots[slot] = NULL;
}

static bool settle_tensor(ff_rank *rank, real **slots, const ff_saved_tensor *saved, ff_slot slot,
                          ff_store_kind kind) {
    if (slots[slot] == NULL)
        return ff_rank_fail(rank, "the program keeps \"%s\", which was not made", saved->name);
    if (ff_store_elements(slots[slot]) != saved->elements)
        return ff_rank_fail(rank, "\"%s\" has %lld elements, planned %lld", saved->name,
                            (long long)ff_store_elements(slots[slot]), (long long)saved->elements);
    if (saved->kept)
        ff_store_move(&rank->store, slots[slot], kind);
    else
        drop_slot(rank, slots, slot);
    return true;
}

/* After a unit's forward. */
static bool settle_unit(ff_rank *rank, int unit) {
    ff_chunk *chunk = ff_rank_chunk(rank);
    const ff_layer_list *list = list_of(rank, chunk, unit);
    real **slots = ff_rank_flight(rank)->slot[unit];
    ff_store_kind kind = chunk->unit[unit].kind == FF_UNIT_HEAD ? FF_STORE_LOSS : FF_STORE_KEPT;
    int seen[FF_SLOT_COUNT] = {0};
    for (int i = 0; i < list->tensors; i++) {
        const saved_name *row = NULL;
        for (size_t n = 0; n < sizeof saved_names / sizeof *saved_names; n++)
            if (strcmp(saved_names[n].name, list->tensor[i].name) == 0)
                row = &saved_names[n];
        if (row == NULL)
            return ff_rank_fail(rank, "the engine keeps no \"%s\"", list->tensor[i].name);
        ff_slot slot = row->slot[seen[row->slot[0]]++ > 0];
        if (!settle_tensor(rank, slots, &list->tensor[i], slot, kind))
            return false;
    }
    return true;
}

void ff_flight_drop_stream(ff_rank *rank) {
    if (rank->frame.owns_x)
        ff_store_give(&rank->store, rank->frame.x);
    rank->frame.x = NULL;
    rank->frame.owns_x = false;
}

/* Streamed weights are gathered anew for each use; a tied embedding stays for the head. */
static void free_weights(ff_rank *rank, int unit) {
    ff_chunk *chunk = ff_rank_chunk(rank);
    bool held = rank->tied_weights != NULL && chunk->unit[unit].kind == FF_UNIT_EMBEDDING;
    if (rank->streams && !held)
        chunk->unit_weights[unit] = NULL;
}

/* After a unit's backward nothing of it is left. */
static void forget_unit(ff_rank *rank, int unit) {
    real **slots = ff_rank_flight(rank)->slot[unit];
    for (int slot = 0; slot < FF_SLOT_COUNT; slot++)
        drop_slot(rank, slots, (ff_slot)slot);
    free_weights(rank, unit);
}

bool ff_flight_leave(ff_rank *rank) {
    ff_frame *f = &rank->frame;
    int unit = f->unit;
    f->unit = -1;
    if (unit < 0)
        return true;
    ff_store_give(&rank->store, f->gathered);
    f->gathered = NULL;
    if (!f->forward) {
        ff_flight_drop_stream(rank);
        forget_unit(rank, unit);
        return true;
    }
    free_weights(rank, unit);
    bool settled = settle_unit(rank, unit);
    if (rank->evaluates)
        forget_unit(rank, unit);
    return settled;
}

static bool whole_recompute(const ff_rank *rank, int unit) {
    const ff_chunk *chunk = &rank->chunk[rank->frame.action.chunk];
    if (chunk->unit[unit].kind != FF_UNIT_LAYER)
        return false;
    const ff_layer_list *list = list_of(rank, chunk, unit);
    return strcmp(list->tensor[list->tensors - 1].name, "layer input") == 0;
}

void ff_flight_enter(ff_rank *rank, const ff_item *item) {
    ff_frame *f = &rank->frame;
    f->unit = item->unit;
    f->halves = 0;
    if (!f->forward)
        ff_step_make_room(rank, ff_rank_unit(rank, item));
    if (!whole_recompute(rank, item->unit))
        return;
    real **slot = ff_rank_slot(rank, item, FF_SLOT_LAYER_INPUT);
    if (f->forward) {
        *slot = f->x;
        f->owns_x = false;
    } else {
        f->x = *slot;
    }
}
