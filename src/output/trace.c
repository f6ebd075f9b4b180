/* See trace.h. A simulation knows stages; a watched rank shows what its stage does. A message is a
 * flow between two watched ranks that differ in their stage alone: it leaves in the last nanosecond
 * of the computation that made it and arrives where its receiver's computation begins. */
#include "output/trace.h"

#include "base/arena.h"
#include "base/number.h"
#include "base/text.h"

enum { PIECE_BYTES = 1 << 16, COMPUTE_THREAD = 0 };

struct ff_trace {
    ff_arena *arena;
    ff_observer observer;
    bool (*write)(void *context, const char *bytes, size_t count);
    void *context;
    bool failed, any;
    ff_text text;
    ff_watched watched; /* copies, in the arena */
    ff_mesh mesh;
};

static void flush(ff_trace *t) {
    if (!t->failed && t->text.length > 0)
        t->failed = !t->write(t->context, ff_text_bytes(&t->text), t->text.length);
    t->text.length = 0;
}

/* Begins an event. */
static ff_text *event(ff_trace *t) {
    if (t->text.length > PIECE_BYTES)
        flush(t);
    ff_text_append(&t->text, t->any ? ",\n" : "\n");
    t->any = true;
    return &t->text;
}

static long long nanoseconds(int64_t time_ps) {
    return (long long)((time_ps + 500) / 1000);
}

static void append_time(ff_text *text, const char *key, long long time_ns) {
    ff_text_printf(text, "\"%s\":%lld.%03lld", key, time_ns / 1000, time_ns % 1000);
}

/* Our own stream numbers put compute last; a reader wants it first. */
static int thread_of(ff_stream stream) {
    return stream == FF_STREAM_COMPUTE ? COMPUTE_THREAD : 1 + (int)stream;
}

/* ---- who is watched ---- */

static void begin(void *context, const ff_watched *watched) {
    ff_trace *t = context;
    t->mesh = *watched->mesh;
    int64_t *rank = FF_ARENA_ARRAY(t->arena, watched->ranks + 1, int64_t);
    int64_t *stage = FF_ARENA_ARRAY(t->arena, watched->ranks + 1, int64_t);
    for (int64_t i = 0; i < watched->ranks; i++) {
        rank[i] = watched->rank[i];
        stage[i] = watched->stage[i];
    }
    t->watched = (ff_watched){NULL, &t->mesh, watched->ranks, rank, stage};
    ff_text_append(&t->text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (int64_t i = 0; i < watched->ranks; i++) {
        ff_text_printf(event(t),
                       "{\"ph\":\"M\",\"pid\":%lld,\"name\":\"process_name\",\"args\":{\"name\":"
                       "\"rank %lld, stage %lld\"}}",
                       (long long)rank[i], (long long)rank[i], (long long)stage[i]);
        ff_text_printf(event(t),
                       "{\"ph\":\"M\",\"pid\":%lld,\"name\":\"process_sort_index\",\"args\":{"
                       "\"sort_index\":%lld}}",
                       (long long)rank[i], (long long)stage[i]);
        for (int stream = 0; stream < FF_STREAM_COUNT; stream++)
            ff_text_printf(event(t),
                           "{\"ph\":\"M\",\"pid\":%lld,\"tid\":%d,\"name\":\"thread_name\","
                           "\"args\":{\"name\":\"%s\"}}",
                           (long long)rank[i], thread_of((ff_stream)stream),
                           ff_stream_name((ff_stream)stream));
    }
}

/* ---- slices ---- */

static void append_arguments(ff_text *text, const ff_interval *interval) {
    const char *comma = "";
    ff_text_append(text, ",\"args\":{");
    if (interval->action != NULL) {
        ff_text_printf(text, "\"microbatch\":%d,\"chunk\":%d", interval->action->microbatch,
                       interval->action->chunk);
        comma = ",";
    }
    if (interval->layer >= 0) {
        ff_text_printf(text, "%s\"layer\":%d", comma, interval->layer);
        comma = ",";
    }
    if (interval->bytes > 0)
        ff_text_printf(text, "%s\"bytes\":%lld", comma, (long long)interval->bytes);
    ff_text_append(text, "}}");
}

static void see_interval(void *context, const ff_interval *interval) {
    ff_trace *t = context;
    long long from = nanoseconds(interval->begin_ps), to = nanoseconds(interval->end_ps);
    if (to <= from)
        return;
    for (int64_t i = 0; i < t->watched.ranks; i++) {
        if (t->watched.stage[i] != interval->stage)
            continue;
        ff_text *text = event(t);
        ff_text_printf(text, "{\"ph\":\"X\",\"pid\":%lld,\"tid\":%d,",
                       (long long)t->watched.rank[i], thread_of(interval->stream));
        append_time(text, "ts", from);
        ff_text_append(text, ",");
        append_time(text, "dur", to - from);
        if (interval->whole)
            ff_text_printf(text, ",\"name\":\"%s %d\"", interval->name,
                           interval->action->microbatch);
        else
            ff_text_printf(text, ",\"name\":\"%s\"", interval->name);
        append_arguments(text, interval);
    }
}

/* ---- flows ---- */

/* The rank that differs from this one in its stage alone. */
static int64_t rank_on_stage(const ff_trace *t, int64_t rank, int64_t stage) {
    int64_t coordinate[FF_AXIS_COUNT];
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        coordinate[axis] = ff_mesh_coordinate(&t->mesh, rank, (ff_axis)axis);
    coordinate[FF_AXIS_PP] = stage;
    return ff_mesh_dense_rank(&t->mesh, coordinate);
}

static bool is_watched(const ff_trace *t, int64_t rank) {
    for (int64_t i = 0; i < t->watched.ranks; i++)
        if (t->watched.rank[i] == rank)
            return true;
    return false;
}

static void append_flow(ff_trace *t, const ff_message *message, char phase, int64_t rank,
                        long long id, long long time_ns) {
    ff_text *text = event(t);
    ff_text_printf(text, "{\"ph\":\"%c\",%s\"id\":%lld,\"pid\":%lld,\"tid\":%d,", phase,
                   phase == 'f' ? "\"bp\":\"e\"," : "", id, (long long)rank, COMPUTE_THREAD);
    append_time(text, "ts", time_ns);
    ff_text_printf(text, ",\"cat\":\"transfer\",\"name\":\"%s\",\"args\":{\"bytes\":%lld}}",
                   message->of_gradient ? "gradient" : "activation", (long long)message->bytes);
}

static void see_message(void *context, const ff_message *message) {
    ff_trace *t = context;
    for (int64_t i = 0; i < t->watched.ranks; i++) {
        if (t->watched.stage[i] != message->from)
            continue;
        int64_t from = t->watched.rank[i], to = rank_on_stage(t, from, message->to);
        if (!is_watched(t, to))
            continue;
        long long id = (long long)(message->id * t->watched.ranks + i);
        append_flow(t, message, 's', from, id, nanoseconds(message->sent_ps) - 1);
        append_flow(t, message, 'f', to, id, nanoseconds(message->used_ps));
    }
}

/* ---- counters ---- */

static void see_memory(void *context, const ff_memory_point *point) {
    ff_trace *t = context;
    const ff_ledger_fixed *fixed = point->fixed;
    for (int64_t i = 0; i < t->watched.ranks; i++) {
        if (t->watched.stage[i] != point->stage)
            continue;
        ff_text *text = event(t);
        ff_text_printf(text, "{\"ph\":\"C\",\"pid\":%lld,\"name\":\"memory (bytes)\",",
                       (long long)t->watched.rank[i]);
        append_time(text, "ts", nanoseconds(point->at_ps));
        ff_text_printf(text,
                       ",\"args\":{\"weights\":%lld,\"gradients\":%lld,\"optimizer\":%lld,"
                       "\"activations\":%lld,\"working set\":%lld,\"logits and loss\":%lld,"
                       "\"buffers\":%lld,\"runtime\":%lld}}",
                       (long long)fixed->weights_bytes, (long long)fixed->gradients_bytes,
                       (long long)fixed->optimizer_bytes, (long long)point->kept_bytes,
                       (long long)point->working_bytes, (long long)point->loss_bytes,
                       (long long)ff_add(fixed->gathered_bytes, fixed->bucket_bytes),
                       (long long)ff_add(fixed->context_bytes, fixed->communicator_bytes));
    }
}

/* ---- making one ---- */

ff_trace *ff_trace_create(bool (*write)(void *context, const char *bytes, size_t count),
                          void *context) {
    ff_arena *arena = ff_arena_create();
    ff_trace *t = FF_ARENA_NEW(arena, ff_trace);
    t->arena = arena;
    t->write = write;
    t->context = context;
    t->observer = (ff_observer){.context = t,
                                .begin = begin,
                                .interval = see_interval,
                                .message = see_message,
                                .memory = see_memory};
    return t;
}

const ff_observer *ff_trace_observer(ff_trace *trace) {
    return &trace->observer;
}

bool ff_trace_finish(ff_trace *trace) {
    ff_text_append(&trace->text, "\n]}\n");
    flush(trace);
    return !trace->failed;
}

void ff_trace_free(ff_trace *trace) {
    if (trace == NULL)
        return;
    ff_text_free(&trace->text);
    ff_arena_free(trace->arena);
}
