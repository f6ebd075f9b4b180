/* The trace of a simulation, checked as a reader of Chrome's format would: slices of a thread nest,
 * flows come in pairs and bind to slices, counters run forward, every process and thread that is
 * used has a name, and a file that cannot be written whole is reported. */
#include "output/trace.h"
#include "plan_support.h"
#include <math.h>

typedef struct file {
    char *bytes;
    size_t length, capacity, most;
} file;

static bool write_piece(void *context, const char *bytes, size_t count) {
    file *f = context;
    if (f->most > 0 && f->length + count > f->most)
        return false;
    if (f->length + count + 1 > f->capacity) {
        f->capacity = 2 * (f->length + count + 1);
        f->bytes = realloc(f->bytes, f->capacity);
        assert_non_null(f->bytes);
    }
    memcpy(f->bytes + f->length, bytes, count);
    f->length += count;
    f->bytes[f->length] = '\0';
    return true;
}

/* ---- events, one a line ---- */

typedef struct event {
    char phase;
    long long pid, tid, id;
    double ts, dur;
    char name[64];
} event;

typedef struct trace {
    event *event;
    int count;
} trace;

static double number_of(const char *line, const char *key) {
    char text[32];
    snprintf(text, sizeof text, "\"%s\":", key);
    const char *at = strstr(line, text);
    return at == NULL ? -1 : atof(at + strlen(text));
}

static void name_of(const char *line, char *name, size_t bytes) {
    const char *at = strstr(line, "\"name\":\"");
    assert_non_null(at);
    at += strlen("\"name\":\"");
    snprintf(name, bytes, "%.*s", (int)strcspn(at, "\""), at);
}

static event parse_event(const char *line) {
    event e = {.phase = line[7]};
    e.pid = (long long)number_of(line, "pid");
    e.tid = (long long)number_of(line, "tid");
    e.id = (long long)number_of(line, "id");
    e.ts = number_of(line, "ts");
    e.dur = number_of(line, "dur");
    name_of(line, e.name, sizeof e.name);
    return e;
}

static trace parse(const file *f) {
    trace t = {0};
    int lines = 0;
    for (size_t i = 0; i < f->length; i++)
        lines += f->bytes[i] == '\n';
    t.event = calloc((size_t)lines + 1, sizeof *t.event);
    assert_true(strncmp(f->bytes, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", 40) == 0);
    assert_string_equal(f->bytes + f->length - 4, "\n]}\n");
    /* Each line becomes a string of its own, so that looking into it ends with it. */
    char *line = f->bytes, *end;
    while ((end = memchr(line, '\n', f->length - (size_t)(line - f->bytes))) != NULL) {
        *end = '\0';
        if (strncmp(line, "{\"ph\"", 5) == 0)
            t.event[t.count++] = parse_event(line);
        line = end + 1;
    }
    return t;
}

/* ---- the checker ---- */

static bool has_name(const trace *t, const event *of, const char *what) {
    for (int i = 0; i < t->count; i++)
        if (t->event[i].phase == 'M' && t->event[i].pid == of->pid &&
            strcmp(t->event[i].name, what) == 0 &&
            (strcmp(what, "process_name") == 0 || t->event[i].tid == of->tid))
            return true;
    return false;
}

static int by_track(const void *a, const void *b) {
    const event *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->dur > y->dur ? -1 : x->dur < y->dur;
}

static void check_nesting(event *slices, int count) {
    double ends[64];
    int depth = 0;
    qsort(slices, (size_t)count, sizeof *slices, by_track);
    for (int i = 0; i < count; i++) {
        bool same =
            i > 0 && slices[i].pid == slices[i - 1].pid && slices[i].tid == slices[i - 1].tid;
        depth = same ? depth : 0;
        while (depth > 0 && ends[depth - 1] <= slices[i].ts + 1e-6)
            depth--;
        double end = slices[i].ts + slices[i].dur;
        if (depth > 0 && end > ends[depth - 1] + 1e-6)
            fail_msg("%s of rank %lld, thread %lld at %.3f crosses another's end", slices[i].name,
                     slices[i].pid, slices[i].tid, slices[i].ts);
        assert_true(depth < 64 && slices[i].dur > 0);
        ends[depth++] = end;
    }
}

/* Slices are sorted: the last one that begins before the flow, or one around it, holds its time. */
static bool binds(const event *slices, int count, const event *flow) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        const event *s = &slices[middle];
        bool before = s->pid != flow->pid   ? s->pid < flow->pid
                      : s->tid != flow->tid ? s->tid < flow->tid
                                            : s->ts <= flow->ts + 1e-6;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    for (int i = low - 1; i >= 0 && i > low - 200; i--)
        if (slices[i].pid == flow->pid && slices[i].tid == flow->tid &&
            flow->ts <= slices[i].ts + slices[i].dur + 1e-6)
            return true;
    return false;
}

static void check_flows(const trace *t, const event *slices, int count) {
    int starts = 0, ends = 0;
    for (int i = 0; i < t->count; i++) {
        const event *s = &t->event[i];
        starts += s->phase == 's';
        ends += s->phase == 'f';
        if (s->phase != 's')
            continue;
        const event *f = s + 1; /* written together */
        assert_int_equal(f->phase, 'f');
        assert_int_equal(f->id, s->id);
        assert_true(f->ts > s->ts);
        assert_true(binds(slices, count, s) && binds(slices, count, f));
    }
    assert_int_equal(starts, ends);
    assert_true(starts > 0);
}

static void check_trace(const trace *t) {
    event *slices = calloc((size_t)t->count, sizeof *slices);
    int count = 0;
    for (int i = 0; i < t->count; i++) {
        const event *e = &t->event[i];
        if (e->phase == 'X')
            slices[count++] = *e;
        if (e->phase == 'M')
            continue;
        assert_true(e->ts >= 0);
        assert_true(has_name(t, e, "process_name"));
        if (e->phase != 'C')
            assert_true(has_name(t, e, "thread_name"));
        for (int j = i - 1; e->phase == 'C' && j >= 0; j--) {
            if (t->event[j].phase != 'C' || t->event[j].pid != e->pid)
                continue;
            assert_true(t->event[j].ts <= e->ts); /* time runs on */
            break;
        }
    }
    check_nesting(slices, count);
    check_flows(t, slices, count);
    free(slices);
}

static ff_status trace_of(const char *layout, bool by_operator, const char *ranks, file *f) {
    ff_job *job = new_job("llama-3.1-8b", "2x8xh100-80gb-sxm", 4096, 4096 * 24);
    ff_facts *facts = ff_facts_create();
    ff_trace *writer = ff_trace_create(write_piece, f);
    ff_simulate_options options = {by_operator, ranks, 76, ff_trace_observer(writer)};
    ff_status status = ff_simulate(job, layout, &options, NULL, facts);
    if (status == FF_OK && !ff_trace_finish(writer))
        status = FF_ENVIRONMENT;
    ff_trace_free(writer);
    ff_facts_free(facts);
    free_job(job);
    return status;
}

static void test_traces(void **state) {
    (void)state;
    static const char *const layouts[] = {
        "tp=2,pp=4,zero=1",
        "tp=2,pp=4,vpp=2,zero=1",
        "tp=1,pp=2,dp=8,zero=3,zero3_weights=stream",
        "tp=2,pp=4,schedule=zb-h1,zero=1",
        "tp=2,pp=4,schedule=zb-v,zero=2",
        "tp=2,pp=4,schedule=dualpipe,zero=1",
        "tp=2,pp=4,schedule=v-half,zero=0",
        "tp=2,cp=2,pp=4,dp=1,schedule=gpipe",
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (int by_operator = 0; by_operator < 2; by_operator++) {
            file f = {0};
            if (trace_of(layouts[i], by_operator == 1, by_operator || i % 2 ? NULL : "16", &f) !=
                FF_OK)
                fail_msg("%s is not simulated", layouts[i]);
            trace t = parse(&f);
            check_trace(&t);
            free(t.event);
            free(f.bytes);
        }
}

/* The checker can fail. */
static void test_ranks(void **state) {
    (void)state;
    file f = {0};
    assert_int_equal(trace_of("tp=2,pp=4,zero=1", false, "3,7", &f), FF_OK);
    assert_non_null(strstr(f.bytes, "\"rank 3, stage 0\""));
    assert_non_null(strstr(f.bytes, "\"rank 7, stage 1\""));
    assert_null(strstr(f.bytes, "\"rank 4,"));
    free(f.bytes);
    f = (file){0};
    assert_int_equal(trace_of("tp=2,pp=4,zero=1", false, "99", &f), FF_INVALID);
    assert_int_equal(trace_of("tp=2,pp=4,zero=1", false, "3,x", &f), FF_INVALID);
    free(f.bytes);
}

static void test_full_disk(void **state) {
    (void)state;
    file f = {.most = 100000};
    assert_int_equal(trace_of("tp=2,pp=4,zero=1", true, NULL, &f), FF_ENVIRONMENT);
    free(f.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
