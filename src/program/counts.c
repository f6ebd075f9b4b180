/* The program's summary: calls and bytes of every collective of a step, without the list.
 *
 * Lists of layers count once a microbatch, the data-parallel rows (sync.c) as their moment says,
 * transfers by what the schedule sends.
 * Invariant: entry by entry what a walk of the list counts (tests/program_test.c). */
#include "program/internal.h"

#include <assert.h>

static bool ordered_before(const ff_count *a, const ff_count *b) {
    if (a->group != b->group)
        return a->group < b->group;
    if (a->phase != b->phase)
        return a->phase < b->phase;
    return a->collective < b->collective;
}

int ff_count_add(const ff_count *count, int64_t times, ff_count *counts, int entries) {
    ff_count more = *count;
    more.calls = count->calls * times;
    more.sent_bytes = count->sent_bytes * (double)times;
    int at = 0;
    while (at < entries && ordered_before(&counts[at], &more))
        at++;
    if (at < entries && !ordered_before(&more, &counts[at])) {
        counts[at].calls += more.calls;
        counts[at].sent_bytes += more.sent_bytes;
        return entries;
    }
    assert(entries < FF_MOST_COUNTS);
    for (int i = entries; i > at; i--)
        counts[i] = counts[i - 1];
    counts[at] = more;
    return entries + 1;
}

int ff_count_operator(const ff_operator *op, int64_t times, ff_count *counts, int entries) {
    if (op->kind != FF_OPERATOR_COLLECTIVE || times <= 0)
        return entries;
    ff_count one = {
        .collective = op->collective,
        .group = op->group,
        .phase = op->phase,
        .calls = op->calls,
        .sent_bytes = (double)op->calls * ff_collective_sent_bytes(op->collective, op->elements,
                                                                   op->element_bytes, op->ranks),
    };
    return ff_count_add(&one, times, counts, entries);
}

typedef struct tally {
    const ff_program *program;
    ff_count *counts;
    int entries;
} tally;

static void count_list(tally *t, const ff_layer_list *list, int64_t times) {
    for (int i = 0; i < list->operators; i++)
        t->entries = ff_count_operator(&list->op[i], times, t->counts, t->entries);
}

static void count_sync_of(tally *t, const ff_sync *s, int64_t params, int64_t times, bool expert) {
    ff_operator op;
    if (ff_program_sync_operator(t->program->layout, s, params, expert, &op))
        t->entries = ff_count_operator(&op, times, t->counts, t->entries);
}

static void count_unit(tally *t, const ff_sync *s, ff_shard_params unit, int64_t times) {
    count_sync_of(t, s, unit.dense, times, false);
    count_sync_of(t, s, unit.expert, times, true);
}

static void count_slices(tally *t, const ff_sync *s, int64_t total, int64_t times, bool expert) {
    int64_t slices = ff_bucket_count(total, program_replicas(t->program->layout, expert));
    int64_t even = total / slices;
    count_sync_of(t, s, even, times * (slices - 1), expert);
    count_sync_of(t, s, total - even * (slices - 1), times, expert);
}

static void count_sync(tally *t, const ff_sync *s, const ff_chunk_content *content,
                       int64_t microbatches) {
    const ff_program *p = t->program;
    int64_t times = s->each_microbatch ? microbatches : 1;
    if (!s->by_layer) {
        ff_shard_params all = program_chunk_params(p, content);
        count_slices(t, s, all.dense, times, false);
        count_slices(t, s, all.expert, times, true);
        return;
    }
    for (int kind = 0; kind < p->model->kinds; kind++)
        count_unit(t, s, program_layer_params(p, kind), times * content->of_kind[kind]);
    if (content->embedding)
        count_unit(t, s, program_embedding_params(p), times);
    if (content->head)
        count_unit(t, s, program_head_params(p), times);
}

static void count_chunk(tally *t, int64_t stage, int64_t chunk) {
    const ff_program *p = t->program;
    ff_schedule_shape shape = ff_schedule_shape_of(p->layout);
    int32_t first, m;
    ff_chunk_content content;
    ff_sync syncs[FF_MOST_SYNCS];
    ff_schedule_chunk_microbatches(&shape, (int32_t)chunk, &first, &m);
    ff_program_chunk(p->model, p->layout, stage, chunk, &content);
    for (int kind = 0; kind < p->model->kinds; kind++) {
        int recomputed = content.recomputed_of_kind[kind];
        count_list(t, p->layer[kind][1], (int64_t)m * recomputed);
        count_list(t, p->layer[kind][0], (int64_t)m * (content.of_kind[kind] - recomputed));
    }
    if (content.embedding)
        count_list(t, p->embedding, m);
    if (content.head) {
        int64_t blocks = p->model->mtp_layers;
        count_list(t, p->head, m * (1 + blocks));
        count_list(t, p->mtp, m * blocks);
        count_list(t, p->layer[p->model->mtp_kind][0], m * blocks);
    }
    int count = ff_program_syncs(p->model, p->layout, syncs);
    for (int i = 0; i < count; i++)
        count_sync(t, &syncs[i], &content, m);
}

static void count_transfers(tally *t, int64_t stage) {
    const ff_program *p = t->program;
    ff_schedule_shape shape = ff_schedule_shape_of(p->layout);
    for (int gradient = 0; gradient < 2; gradient++) {
        ff_operator op = ff_program_transfer(p->model, p->layout, p->options.seq, gradient == 1);
        int64_t times = ff_schedule_sends_of(&shape, (int32_t)stage, gradient == 1);
        t->entries = ff_count_operator(&op, times, t->counts, t->entries);
    }
}

int ff_program_counts(const ff_program *program, int64_t stage, ff_count *counts) {
    tally t = {.program = program, .counts = counts};
    ff_operator ops[FF_MOST_STEP_OPERATORS];
    for (int64_t chunk = 0; chunk < program->layout->vpp; chunk++)
        count_chunk(&t, stage, chunk);
    count_transfers(&t, stage);
    int steps = ff_program_step_operators(
        program->model, program->layout, stage,
        ff_program_stage_params(program->model, program->layout, stage).replicated, ops);
    for (int i = 0; i < steps; i++)
        t.entries = ff_count_operator(&ops[i], 1, counts, t.entries);
    return t.entries;
}
