/* See counted.h.
 *
 * Planned bytes of a rank are a fraction where its group does not divide a tensor; their sum over the
 * group is whole, so sums over all ranks are compared. A number is sizeof(real) here and 4 bytes in
 * recipe fp32. The gradient norm travels as an integer of 128 bits (engine/norm.h), planned as one
 * number. */
#include "verify/counted.h"

#include "fivefold/memory.h"
#include "layout/recipe.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- traffic --- */

static ff_traffic *row_of(ff_counted *c, const ff_traffic *like) {
    for (int i = 0; i < c->rows; i++) {
        ff_traffic *r = &c->row[i];
        if (r->collective == like->collective && r->group == like->group &&
            r->phase == like->phase && r->layer == like->layer)
            return r;
    }
    if (c->rows == c->room) {
        c->room = 2 * c->room + 64;
        c->row = ff_engine_grow(c->row, c->room, sizeof *c->row);
    }
    c->row[c->rows] = (ff_traffic){.collective = like->collective,
                                   .group = like->group,
                                   .phase = like->phase,
                                   .layer = like->layer};
    return &c->row[c->rows++];
}

static double width_of(const ff_operator *op) {
    if (strcmp(op->name, "gradient norm") == 0)
        return (double)sizeof(ff_grid_sum) / op->element_bytes;
    return (double)sizeof(real) / 4;
}

static void plan_event(void *context, const ff_event *event) {
    const ff_operator *op = event->op;
    if (op == NULL || op->kind != FF_OPERATOR_COLLECTIVE)
        return;
    ff_traffic like = {.collective = op->collective,
                       .group = op->group,
                       .phase = op->phase,
                       .layer = event->layer};
    ff_traffic *row = row_of(context, &like);
    row->planned_calls += op->calls;
    row->planned_bytes +=
        (double)op->calls * width_of(op) *
        ff_collective_sent_bytes(op->collective, op->elements, op->element_bytes, op->ranks);
}

void ff_count_traffic(const ff_loop *loop, ff_counted *counted) {
    *counted = (ff_counted){0};
    for (int r = 0; r < loop->world; r++) {
        const ff_rank *rank = loop->rank[r];
        for (int i = 0; i < rank->traffics; i++) {
            ff_traffic *row = row_of(counted, &rank->traffic[i]);
            row->calls += rank->traffic[i].calls;
            row->bytes += rank->traffic[i].bytes;
        }
        ff_program_walk(loop->setup->program, rank->stage, plan_event, counted);
    }
}

void ff_counted_free(ff_counted *counted) {
    free(counted->row);
    *counted = (ff_counted){0};
}

bool ff_traffic_equal(const ff_traffic *row) {
    return row->calls == row->planned_calls &&
           row->bytes == (int64_t)floor(row->planned_bytes + 0.5);
}

/* --- memory --- */

static int64_t engine_bytes(int64_t fp32_bytes) {
    return fp32_bytes / 4 * (int64_t)sizeof(real);
}

/* The list rebuilds the dropped tensors of all modules before a layer's backward; the ledger counts the
 * largest module's, as where each is rebuilt just before its own backward. */
static int64_t rebuilt_besides(const ff_layer_list *list) {
    int64_t all = 0, largest = 0;
    for (unsigned module = FF_MODULE_CORE; module <= FF_MODULE_ACTIVATION; module *= 2) {
        int64_t bytes = 0;
        for (int i = 0; i < list->tensors; i++)
            if (!list->tensor[i].kept && (list->tensor[i].module & module))
                bytes += ff_saved_tensor_bytes(&list->tensor[i]);
        all += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    return all - largest;
}

static int64_t rebuilt_at_once(const ff_setup *setup) {
    int64_t most = 0;
    for (int kind = 0; kind < setup->model.kinds; kind++) {
        int64_t bytes = rebuilt_besides(ff_program_layer(setup->program, kind, false));
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* At its ends a stage holds the stream of a microbatch, or its gradient, with nothing of a layer: beside the
 * logits' gradient that of the head's input, and with SP the gathered input; beside the logits three
 * numbers a token. The ledger leaves them out. */
static int64_t stream_bytes(const ff_setup *setup) {
    int64_t width = (setup->layout.sp == 1 ? 2 : 1) * setup->model.hidden;
    return (width > 3 ? width : 3) * setup->tokens * 4;
}

void ff_plan_memory(const ff_loop *loop, const ff_rank *rank, ff_planned_memory *planned) {
    const ff_setup *setup = loop->setup;
    ff_program_options how = {
        .seq = setup->options.seq, .kernels = ff_engine_kernels(), .imbalance = 1};
    ff_memory_blocks blocks;
    ff_stage_memory m;
    ff_runtime_memory none = {0};
    ff_memory_blocks_build(&setup->model, &setup->layout, &how, &blocks);
    ff_ledger_stage(&setup->model, &setup->layout, setup->options.seq, &blocks, &none, rank->stage,
                    &m);
    bool adam = setup->options.update == FF_UPDATE_ADAMW;
    *planned = (ff_planned_memory){
        .bytes =
            {
                [FF_STORE_WEIGHTS] = engine_bytes(m.weights_bytes),
                [FF_STORE_GRADIENTS] = engine_bytes(m.gradients_bytes),
                [FF_STORE_OPTIMIZER] = adam ? engine_bytes(m.optimizer_bytes) : 0,
                [FF_STORE_KEPT] = engine_bytes(m.kept_bytes),
                [FF_STORE_LOSS] = engine_bytes(m.loss_bytes),
                [FF_STORE_GATHERED] = engine_bytes(m.gathered_bytes),
                [FF_STORE_BUCKETS] = engine_bytes(m.bucket_bytes),
                [FF_STORE_TRANSFERS] = engine_bytes(m.transfer_bytes),
                [FF_STORE_WORKING] = engine_bytes(m.working_bytes),
                [FF_STORE_COMMUNICATION] = -1,
                [FF_STORE_SCRATCH] = -1,
            },
        .activations_bytes = engine_bytes(m.kept_bytes + m.loss_bytes + m.working_bytes +
                                          rebuilt_at_once(setup) + stream_bytes(setup))};
}

bool ff_store_kind_compared(ff_store_kind kind) {
    return kind < FF_STORE_WORKING;
}

int64_t ff_memory_slack(const ff_rank *rank) {
    int64_t uneven = 0;
    for (int64_t c = 0; c < rank->setup->layout.vpp; c++)
        for (int p = 0; p < rank->chunk[c].pieces; p++)
            uneven += rank->chunk[c].piece[p].cut_elements % rank->shard_ranks != 0;
    int64_t buffers = ff_layout_gradient_buffers(&rank->setup->layout) + 2;
    return uneven * buffers * (int64_t)sizeof(real);
}

/* --- order --- */

static void order_event(void *context, const ff_event *event) {
    uint64_t *order = context;
    *order = ff_order_next(*order, event->action, event->op, event->layer);
}

bool ff_order_equal(const ff_loop *loop, const ff_rank *rank) {
    uint64_t order = 0;
    ff_program_walk(loop->setup->program, rank->stage, order_event, &order);
    return order == rank->order;
}
