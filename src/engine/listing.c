/* See listing.h. */
#include "engine/listing.h"

#include "engine/random.h"
#include "engine/store.h"
#include <stdlib.h>
#include <string.h>

static const ff_operator_row *find_row(const char *name) {
    static const ff_operator_row *const tables[] = {ff_layer_rows, ff_backward_rows, ff_end_rows,
                                                    ff_step_rows};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const ff_operator_row *row = tables[t]; row->name != NULL; row++)
            if (strcmp(row->name, name) == 0)
                return row;
    return NULL;
}

bool ff_item_is_sync(const ff_item *item) {
    return !item->opens &&
           (strcmp(item->op.name, "weights") == 0 || strcmp(item->op.name, "gradients") == 0);
}

static void append(void *context, const ff_event *event) {
    ff_listing *list = context;
    if (list->items == list->room) {
        list->room = list->room == 0 ? 256 : 2 * list->room;
        list->item = ff_engine_grow(list->item, list->room, sizeof *list->item);
    }
    ff_item *item = &list->item[list->items++];
    *item = (ff_item){.opens = event->op == NULL,
                      .in_action = event->action != NULL,
                      .layer = event->layer,
                      .unit = -1,
                      .block = -1};
    if (event->action != NULL)
        item->action = *event->action;
    if (event->op == NULL)
        return;
    item->op = *event->op;
    item->row = find_row(event->op->name);
    if (item->row == NULL)
        list->unknown = event->op->name;
}

static bool is_end_row(const ff_operator_row *row) {
    for (const ff_operator_row *r = ff_end_rows; r->name != NULL; r++)
        if (r == row)
            return true;
    return false;
}

static int unit_of(const ff_item *item, const ff_unit *units, int count) {
    ff_unit_kind kind = item->layer >= 0                              ? FF_UNIT_LAYER
                        : strncmp(item->op.name, "embedding", 9) == 0 ? FF_UNIT_EMBEDDING
                                                                      : FF_UNIT_HEAD;
    for (int i = 0; i < count; i++)
        if (units[i].kind == kind && units[i].layer == item->layer)
            return i;
    return -1;
}

static void find_units(ff_listing *list, const ff_unit *const *units, const int *counts) {
    for (int64_t i = 0; i < list->items; i++) {
        ff_item *item = &list->item[i];
        if (item->opens || !item->in_action || ff_item_is_sync(item) ||
            !(item->layer >= 0 || is_end_row(item->row)))
            continue;
        item->unit = unit_of(item, units[item->action.chunk], counts[item->action.chunk]);
    }
    for (int64_t i = list->items - 2; i >= 0; i--)
        if (ff_item_is_sync(&list->item[i]) && list->item[i].op.name[0] == 'w')
            list->item[i].unit = list->item[i + 1].unit;
    for (int64_t i = 1; i < list->items; i++)
        if (ff_item_is_sync(&list->item[i]) && list->item[i].op.name[0] == 'g')
            list->item[i].unit = list->item[i - 1].unit;
}

/* Reductions are counted from the start of a backward; the gathers at the step's end go chunk after
 * chunk, each with as many as its backward had reductions. */
static void number_blocks(ff_listing *list) {
    int block = 0, blocks_of[FF_LAYOUT_MAX_CHUNKS] = {0}, chunk = 0;
    for (int64_t i = 0; i < list->items; i++) {
        ff_item *item = &list->item[i];
        if (item->opens || (i > 0 && item->in_action != list->item[i - 1].in_action))
            block = 0;
        if (!ff_item_is_sync(item) || (item->in_action && item->op.name[0] == 'w'))
            continue;
        if (item->in_action) {
            item->block = block++;
            blocks_of[item->action.chunk] = block;
            continue;
        }
        while (chunk < FF_LAYOUT_MAX_CHUNKS - 1 && block >= blocks_of[chunk]) {
            block = 0;
            chunk++;
        }
        item->action.chunk = chunk;
        item->block = block++;
    }
}

void ff_listing_build(const ff_setup *setup, int64_t stage, const ff_unit *const *units,
                      const int *counts, ff_listing *listing) {
    *listing = (ff_listing){0};
    ff_program_walk(setup->program, stage, append, listing);
    if (listing->unknown != NULL)
        return;
    find_units(listing, units, counts);
    number_blocks(listing);
    if (setup->options.alter != NULL)
        setup->options.alter(listing, setup->program);
}

void ff_listing_free(ff_listing *listing) {
    free(listing->item);
    *listing = (ff_listing){0};
}

uint64_t ff_order_next(uint64_t order, const ff_action *action, const ff_operator *op, int layer) {
    uint64_t event = ff_mix((uint64_t)(layer + 2));
    if (action != NULL)
        event = ff_random(event, (uint64_t)action->kind,
                          ((uint64_t)action->chunk << 32) ^ (uint64_t)action->microbatch);
    for (const char *c = op == NULL ? "" : op->name; *c != '\0'; c++)
        event = ff_mix(event ^ (uint64_t)(unsigned char)*c);
    return ff_mix(order ^ event ^ (op == NULL ? 99 : (uint64_t)op->phase));
}
