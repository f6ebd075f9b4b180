/* See rank.h: making a rank, and moving it on.
 *
 * advance: poll what runs in the background; if an exchange holds the rank up, poll it and finish
 * its operator when it is over; else do the next item. Opening an action closes the one before. */
#include "engine/rank.h"

#include "base/number.h"
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- helpers for the rows --- */

bool ff_rank_fail(ff_rank *rank, const char *format, ...) {
    if (rank->fault[0] != '\0')
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rank->fault, sizeof rank->fault, format, arguments);
    va_end(arguments);
    return false;
}

bool ff_rank_needs(ff_rank *rank, const ff_item *item, const real *tensor, const char *what) {
    return tensor != NULL || ff_rank_fail(rank, "%s (layer %d) needs the %s, which is not there",
                                          item->op.name, item->layer, what);
}

real *ff_rank_take(ff_rank *rank, int64_t elements, const char *name) {
    return ff_store_take(&rank->store, FF_STORE_WORKING, elements, name);
}

void ff_rank_give(ff_rank *rank, real **tensor) {
    ff_store_give(&rank->store, *tensor);
    *tensor = NULL;
}

ff_chunk *ff_rank_chunk(ff_rank *rank) {
    return &rank->chunk[rank->frame.action.chunk];
}

ff_flight *ff_rank_flight(ff_rank *rank) {
    return &ff_rank_chunk(rank)->flight[rank->frame.action.microbatch];
}

const ff_unit *ff_rank_unit(ff_rank *rank, const ff_item *item) {
    return &ff_rank_chunk(rank)->unit[item->unit];
}

real **ff_rank_slot(ff_rank *rank, const ff_item *item, ff_slot slot) {
    return &ff_rank_flight(rank)->slot[item->unit][slot];
}

real *ff_rank_fill(ff_rank *rank, const ff_item *item, ff_slot slot, int64_t elements,
                   const char *name) {
    real **tensor = ff_rank_slot(rank, item, slot);
    if (*tensor == NULL)
        *tensor = ff_rank_take(rank, elements, name);
    return *tensor;
}

const real *ff_rank_weights(ff_rank *rank, const ff_item *item, ff_role role) {
    ff_chunk *chunk = ff_rank_chunk(rank);
    const ff_part *part = ff_unit_part(&chunk->unit[item->unit], role);
    const real *base = chunk->unit_weights[item->unit];
    if (!ff_rank_needs(rank, item, base, "unit's weights") || part == NULL)
        return NULL;
    return base + part->offset;
}

real *ff_rank_gradient(ff_rank *rank, int unit, ff_role role, int set) {
    ff_chunk *chunk = ff_rank_chunk(rank);
    const ff_part *part = ff_unit_part(&chunk->unit[unit], role);
    if (part == NULL)
        return NULL;
    if (rank->streams)
        return rank->bucket + part->offset;
    if (rank->shards_gradients)
        return rank->bucket + (chunk->unit[unit].offset + part->offset - rank->bucket_begin);
    return chunk->full[set].work + chunk->unit[unit].offset + part->offset;
}

/* Of an operator for fewer ranks than its axes span only first and last take part. */
bool ff_rank_group(ff_rank *rank, const ff_operator *op, ff_exchange *exchange) {
    int64_t members[FF_ENGINE_MOST_RANKS];
    const ff_mesh *mesh = &rank->setup->mesh;
    int64_t size = ff_mesh_group_size(mesh, op->group);
    if (size > FF_ENGINE_MOST_RANKS)
        return ff_rank_fail(rank, "%s: a group of %lld ranks", op->name, (long long)size);
    ff_mesh_group(mesh, op->group, rank->id, members);
    if (op->outer && op->ranks == 2) {
        members[1] = members[size - 1];
        size = 2;
    }
    if (size != op->ranks)
        return ff_rank_fail(rank, "%s: planned for %lld ranks, the group has %lld", op->name,
                            (long long)op->ranks, (long long)size);
    exchange->ranks = (int)size;
    exchange->me = -1;
    for (int i = 0; i < exchange->ranks; i++) {
        exchange->member[i] = (int)members[i];
        if (members[i] == rank->id)
            exchange->me = i;
    }
    return exchange->me >= 0 || ff_rank_fail(rank, "%s: this rank is not in its group", op->name);
}

/* --- traffic --- */

static ff_traffic *traffic_of(ff_rank *rank, const ff_item *item) {
    for (int i = 0; i < rank->traffics; i++) {
        ff_traffic *t = &rank->traffic[i];
        if (t->collective == item->op.collective && t->group == item->op.group &&
            t->phase == item->op.phase && t->layer == item->layer)
            return t;
    }
    if (rank->traffics == rank->traffic_room) {
        rank->traffic_room = 2 * rank->traffic_room + 64;
        rank->traffic = ff_engine_grow(rank->traffic, rank->traffic_room, sizeof(ff_traffic));
    }
    rank->traffic[rank->traffics] = (ff_traffic){.collective = item->op.collective,
                                                 .group = item->op.group,
                                                 .phase = item->op.phase,
                                                 .layer = item->layer};
    return &rank->traffic[rank->traffics++];
}

static void count_traffic(ff_rank *rank, const ff_item *item, const ff_exchange *exchange) {
    ff_traffic *t = traffic_of(rank, item);
    t->calls++;
    t->bytes += exchange->sent_bytes;
}

/* --- action begins, action ends --- */

static bool close_action(ff_rank *rank) {
    ff_frame *f = &rank->frame;
    if (!f->open)
        return true;
    f->open = false;
    if (!ff_flight_leave(rank))
        return false;
    if (f->action.kind == FF_ACTION_FORWARD) {
        ff_rank_flight(rank)->out = f->owns_x ? f->x : NULL;
        return true;
    }
    if (f->action.kind != FF_ACTION_BACKWARD)
        return true;
    ff_rank_flight(rank)->out_gradient = f->dx;
    if (rank->stage == 0 && f->action.chunk == 0)
        ff_rank_give(rank, &ff_rank_flight(rank)->out_gradient);
    return ff_step_close_backward(rank, &f->action);
}

static int64_t boundary_elements(const ff_rank *rank) {
    return rank->setup->shard_tokens * rank->setup->model.hidden;
}

static void open_receive(ff_rank *rank, const ff_item *item, bool of_gradient) {
    ff_operator transfer = ff_program_transfer(&rank->setup->model, &rank->setup->layout,
                                               rank->setup->options.seq, of_gradient);
    int64_t members[FF_ENGINE_MOST_RANKS];
    ff_exchange *e = &rank->exchange;
    *e = (ff_exchange){.collective = FF_SEND_RECEIVE,
                       .ranks = 2,
                       .whole = (char *)rank->transfer_buffer[of_gradient],
                       .elements = boundary_elements(rank),
                       .width = (int)sizeof(real)};
    ff_mesh_group(&rank->setup->mesh, transfer.group, rank->id, members);
    e->member[1] = (int)members[item->action.peer];
    e->member[0] = rank->id;
    rank->waiting = item;
    ff_exchange_start(&rank->wire, e);
}

static void take_received(ff_rank *rank, const ff_item *item) {
    bool of_gradient = item->action.kind == FF_ACTION_RECV_GRADIENT;
    real *to = ff_rank_take(rank, boundary_elements(rank), "received");
    memcpy(to, rank->transfer_buffer[of_gradient], (size_t)boundary_elements(rank) * sizeof(real));
    ff_flight *flight = ff_rank_flight(rank);
    *(of_gradient ? &flight->arrived_gradient : &flight->arrived) = to;
}

static bool open_action(ff_rank *rank, const ff_item *item) {
    if (!close_action(rank))
        return false;
    ff_frame *f = &rank->frame;
    *f = (ff_frame){.open = true,
                    .action = item->action,
                    .unit = -1,
                    .forward = item->action.kind == FF_ACTION_FORWARD};
    ff_flight *flight = ff_rank_flight(rank);
    switch (item->action.kind) {
    case FF_ACTION_FORWARD:
        f->x = flight->arrived;
        f->owns_x = f->x != NULL;
        flight->arrived = NULL;
        return true;
    case FF_ACTION_BACKWARD:
        f->dx = flight->arrived_gradient;
        flight->arrived_gradient = NULL;
        rank->bucket_begin = rank->unsent = 0;
        return true;
    case FF_ACTION_RECV_ACTIVATION:
    case FF_ACTION_RECV_GRADIENT:
        open_receive(rank, item, item->action.kind == FF_ACTION_RECV_GRADIENT);
        return true;
    case FF_ACTION_SEND_ACTIVATION:
    case FF_ACTION_SEND_GRADIENT:
        return true;
    default:
        return ff_rank_fail(rank, "a split backward is not run yet");
    }
}

/* --- background --- */

static void end_background(ff_rank *rank, int at) {
    ff_background *b = rank->background[at];
    if (b->exchange.faulty)
        ff_rank_fail(rank, "a message in the background had another length than awaited");
    count_traffic(rank, b->item, &b->exchange);
    for (int i = 0; i < 4; i++)
        if (b->data != NULL && rank->transfer_buffer[i] == b->data)
            rank->transfer_busy[i] = false;
    free(b);
    rank->background[at] = rank->background[--rank->backgrounds];
}

static bool poll_background(ff_rank *rank) {
    bool moved = false;
    for (int i = rank->backgrounds - 1; i >= 0; i--) {
        if (!ff_exchange_poll(&rank->wire, &rank->background[i]->exchange))
            continue;
        end_background(rank, i);
        moved = true;
    }
    return moved;
}

static bool start_background(ff_rank *rank, const ff_exchange *exchange, const ff_item *item) {
    if (rank->backgrounds == FF_MOST_BACKGROUND)
        return ff_rank_fail(rank, "more than %d exchanges at once", FF_MOST_BACKGROUND);
    ff_background *b = ff_engine_array(1, sizeof *b);
    b->exchange = *exchange;
    b->item = item;
    rank->background[rank->backgrounds++] = b;
    ff_exchange_start(&rank->wire, &b->exchange);
    return true;
}

static bool is_send(const ff_item *item) {
    return !item->opens && item->in_action && item->op.kind == FF_OPERATOR_COLLECTIVE &&
           item->op.collective == FF_SEND_RECEIVE;
}

static int send_buffer(const ff_item *item) {
    return item->action.kind == FF_ACTION_SEND_GRADIENT ? 3 : 2;
}

/* A message leaves from the buffer of its kind, when the one before has left it. */
static bool start_send(ff_rank *rank, const ff_item *item) {
    bool of_gradient = item->action.kind == FF_ACTION_SEND_GRADIENT;
    ff_flight *flight = ff_rank_flight(rank);
    real **out = of_gradient ? &flight->out_gradient : &flight->out;
    if (!ff_rank_needs(rank, item, *out, "tensor to send"))
        return false;
    int64_t elements = boundary_elements(rank), members[FF_ENGINE_MOST_RANKS];
    real *data = rank->transfer_buffer[send_buffer(item)];
    rank->transfer_busy[send_buffer(item)] = true;
    memcpy(data, *out, (size_t)elements * sizeof(real));
    ff_rank_give(rank, out);
    ff_exchange e = {.collective = FF_SEND_RECEIVE,
                     .ranks = 2,
                     .sends = true,
                     .whole = (char *)data,
                     .elements = elements,
                     .width = (int)sizeof(real)};
    ff_mesh_group(&rank->setup->mesh, item->op.group, rank->id, members);
    e.member[0] = rank->id;
    e.member[1] = (int)members[item->action.peer];
    if (!start_background(rank, &e, item))
        return false;
    rank->background[rank->backgrounds - 1]->data = data;
    return true;
}

/* --- one thing --- */

static bool start_exchange(ff_rank *rank, const ff_item *item) {
    ff_exchange e = {.collective = item->op.collective, .width = (int)sizeof(real)};
    if (!ff_rank_group(rank, &item->op, &e) || !item->row->start(rank, item, &e))
        return false;
    if (e.elements != item->op.elements)
        return ff_rank_fail(rank, "%s (layer %d) moves %lld elements, planned %lld", item->op.name,
                            item->layer, (long long)e.elements, (long long)item->op.elements);
    if (item->row->background && !rank->shards_gradients)
        return start_background(rank, &e, item);
    rank->exchange = e;
    rank->waiting = item;
    ff_exchange_start(&rank->wire, &rank->exchange);
    return true;
}

static bool do_item(ff_rank *rank, const ff_item *item) {
    rank->order = ff_order_next(rank->order, item->in_action ? &item->action : NULL,
                                item->opens ? NULL : &item->op, item->layer);
    if (item->opens)
        return open_action(rank, item);
    if (is_send(item))
        return start_send(rank, item);
    if (item->unit >= 0 && item->unit != rank->frame.unit && !ff_item_is_sync(item)) {
        if (!ff_flight_leave(rank))
            return false;
        ff_flight_enter(rank, item);
    }
    if (item->op.kind == FF_OPERATOR_COLLECTIVE)
        return start_exchange(rank, item);
    bool backward = item->op.phase == FF_PHASE_BACKWARD || item->op.phase == FF_PHASE_WEIGHT;
    if (backward && rank->frame.x != NULL)
        ff_flight_drop_stream(rank);
    return item->row->run(rank, item);
}

static bool finish_exchange(ff_rank *rank) {
    const ff_item *item = rank->waiting;
    rank->waiting = NULL;
    if (rank->exchange.faulty)
        return ff_rank_fail(rank, "%s: a message had another length than awaited",
                            item->opens ? "receive" : item->op.name);
    if (item->opens) {
        take_received(rank, item);
        return true;
    }
    count_traffic(rank, item, &rank->exchange);
    return item->row->finish == NULL || item->row->finish(rank, item);
}

/* What an evaluation leaves out. */
static bool is_left_out(const ff_rank *rank, const ff_item *item) {
    bool forward = item->in_action && (item->action.kind == FF_ACTION_FORWARD ||
                                       item->action.kind == FF_ACTION_SEND_ACTIVATION ||
                                       item->action.kind == FF_ACTION_RECV_ACTIVATION);
    return rank->evaluates && !forward;
}

/* Between the last action and what follows at the step's end: all reductions are over. */
static ff_progress end_actions(ff_rank *rank) {
    if (rank->frame.open && !close_action(rank))
        return FF_FAULT;
    if (rank->backgrounds > 0)
        return FF_WAITS;
    rank->ended = true;
    return rank->evaluates || ff_step_end(rank) ? FF_MOVED : FF_FAULT;
}

ff_progress ff_rank_advance(ff_rank *rank) {
    if (rank->fault[0] != '\0')
        return FF_FAULT;
    rank->wire.transport->drive(rank->wire.transport, rank->id);
    bool moved = poll_background(rank);
    if (rank->waiting != NULL) {
        if (!ff_exchange_poll(&rank->wire, &rank->exchange))
            return moved ? FF_MOVED : FF_WAITS;
        return finish_exchange(rank) ? FF_MOVED : FF_FAULT;
    }
    bool over = rank->at == rank->listing.items;
    if (!rank->ended && (over || !rank->listing.item[rank->at].in_action)) {
        ff_progress progress = end_actions(rank);
        return progress == FF_WAITS && moved ? FF_MOVED : progress;
    }
    if (over) {
        if (!rank->updated && !rank->evaluates)
            ff_step_update(rank);
        return FF_DONE;
    }
    const ff_item *item = &rank->listing.item[rank->at];
    if (is_left_out(rank, item)) {
        rank->at++;
        return FF_MOVED;
    }
    if (is_send(item) && rank->transfer_busy[send_buffer(item)])
        return moved ? FF_MOVED : FF_WAITS;
    rank->at++;
    return do_item(rank, item) ? FF_MOVED : FF_FAULT;
}

void ff_rank_describe(const ff_rank *rank, char *text, size_t text_bytes) {
    if (rank->fault[0] != '\0') {
        snprintf(text, text_bytes, "rank %d: %s", rank->id, rank->fault);
        return;
    }
    const ff_item *item = rank->waiting;
    if (item == NULL) {
        snprintf(text, text_bytes, "rank %d is at item %lld of %lld", rank->id, (long long)rank->at,
                 (long long)rank->listing.items);
        return;
    }
    snprintf(text, text_bytes, "rank %d waits for rank %d in %s (layer %d, microbatch %d)",
             rank->id, ff_exchange_waits_for(&rank->exchange),
             item->opens ? "a receive" : item->op.name, item->layer,
             item->in_action ? item->action.microbatch : -1);
}
