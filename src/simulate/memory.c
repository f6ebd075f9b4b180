/* Memory of a stage over time, from what forwards keep and backwards free. The rules are the
 * ledger's (memory/ledger.c): what a chunk keeps is there from the end of its forward to the end of
 * its backward; a split backward turns it into what waits for the weight gradient; the working set
 * is there while a backward runs. State, buffers and runtime stay for the whole step. So the peak
 * equals the ledger's, which finds it without a list (tests/simulate_test.c). */
#include "simulate/run.h"

#include "base/number.h"
#include <string.h>

static void list_chunks(const memory_state *m, const ff_chunk_memory **chunks) {
    for (int32_t c = 0; c < m->chunks; c++)
        chunks[c] = &m->chunk[c];
}

void memory_open(memory_state *m, const ff_simulation_inputs *in, const ff_memory_blocks *blocks,
                 int64_t stage, ff_arena *arena) {
    *m = (memory_state){.stage = stage, .chunks = (int32_t)in->layout->vpp, .in = in};
    m->chunk = FF_ARENA_ARRAY(arena, m->chunks, ff_chunk_memory);
    m->now = FF_ARENA_ARRAY(arena, m->chunks, ff_held);
    m->most = FF_ARENA_ARRAY(arena, m->chunks, ff_held);
    ff_ledger_chunks(in->cost->model, in->layout, blocks, stage, m->chunk);
    const ff_chunk_memory *chunks[FF_LAYOUT_MAX_CHUNKS];
    list_chunks(m, chunks);
    ff_ledger_fix(in->cost->model, in->layout, &in->cost->profile->runtime, chunks, &m->fixed);
}

void memory_reset(memory_state *m, const ff_observer *observer) {
    memset(m->now, 0, (size_t)m->chunks * sizeof *m->now);
    memset(m->most, 0, (size_t)m->chunks * sizeof *m->most);
    m->kept_bytes = m->loss_bytes = 0;
    m->peak_bytes = -1;
    m->running = m->peak_running = -1;
    m->to_backward = m->to_weight = m->in_flight = m->in_flight_weight = 0;
    m->observer = observer;
}

static void hold(memory_state *m, int32_t chunk, int kept, int waiting) {
    const ff_chunk_memory *c = &m->chunk[chunk];
    m->now[chunk].kept += kept;
    m->now[chunk].waiting += waiting;
    m->kept_bytes += kept * c->kept_bytes + waiting * c->waiting_bytes;
    m->loss_bytes += kept * c->loss_kept_bytes + waiting * c->loss_waiting_bytes;
}

static void note(memory_state *m, int64_t at_ps) {
    const ff_chunk_memory *c = m->running < 0 ? NULL : &m->chunk[m->running];
    int64_t working = c == NULL ? 0 : c->working_bytes;
    int64_t logits = c == NULL ? 0 : c->loss_working_bytes;
    int64_t bytes = ff_add(ff_add(m->kept_bytes, m->loss_bytes), ff_add(working, logits));
    if (bytes > m->peak_bytes) {
        m->peak_bytes = bytes;
        m->peak_at_ps = at_ps;
        m->peak_running = m->running;
        memcpy(m->most, m->now, (size_t)m->chunks * sizeof *m->most);
    }
    if (m->observer == NULL || m->observer->memory == NULL)
        return;
    ff_memory_point point = {m->stage, at_ps, m->kept_bytes, working, ff_add(m->loss_bytes, logits),
                             &m->fixed};
    m->observer->memory(m->observer->context, &point);
}

void memory_begin(memory_state *m, const ff_action *action, int64_t at_ps) {
    if (action->kind != FF_ACTION_BACKWARD && action->kind != FF_ACTION_BACKWARD_INPUT)
        return;
    m->running = action->chunk;
    note(m, at_ps);
}

void memory_end(memory_state *m, const ff_action *action, int64_t at_ps) {
    switch (action->kind) {
    case FF_ACTION_FORWARD:
        hold(m, action->chunk, 1, 0);
        m->in_flight = ff_max(m->in_flight, ++m->to_backward);
        m->in_flight_weight = ff_max(m->in_flight_weight, ++m->to_weight);
        break;
    case FF_ACTION_BACKWARD:
        hold(m, action->chunk, -1, 0);
        m->to_backward--;
        m->to_weight--;
        break;
    case FF_ACTION_BACKWARD_INPUT:
        hold(m, action->chunk, -1, 1);
        m->to_backward--;
        note(m, at_ps); /* what waits is there before the working set goes */
        break;
    default:
        hold(m, action->chunk, 0, -1);
        m->to_weight--;
    }
    m->running = -1;
    note(m, at_ps);
}

void memory_result(const memory_state *m, ff_stage_result *r) {
    const ff_chunk_memory *chunks[FF_LAYOUT_MAX_CHUNKS];
    const ff_cost *cost = m->in->cost;
    list_chunks(m, chunks);
    r->held = m->most;
    r->running = m->peak_running;
    r->peak_at_ps = m->peak_at_ps;
    r->in_flight = m->in_flight;
    r->in_flight_weight = m->in_flight_weight;
    ff_ledger_sum(m->chunks, &m->fixed,
                  ff_ledger_transfer_bytes(cost->model, m->in->layout, cost->seq), chunks, m->most,
                  m->peak_running, &r->memory);
}
