/* The program: its summary equals a walk of its list, entry by entry, over hundreds of random
 * layouts; bytes of data parallelism against the published formulas; chunks cover the model. */
#include "step_models.h"
#include <math.h>

typedef struct tally {
    ff_count counts[FF_MOST_COUNTS];
    int entries;
} tally;

static void visit(void *context, const ff_event *event) {
    tally *t = context;
    if (event->op != NULL)
        t->entries = ff_count_operator(event->op, 1, t->counts, t->entries);
}

static bool same(const ff_count *a, const ff_count *b) {
    return a->collective == b->collective && a->group == b->group && a->phase == b->phase &&
           a->calls == b->calls &&
           fabs(a->sent_bytes - b->sent_bytes) <= 1e-9 * (a->sent_bytes + b->sent_bytes);
}

static ff_program *program_of(const ff_model *model, const ff_layout *layout) {
    ff_program *program = ff_program_create(model, layout, &options, NULL);
    assert_non_null(program);
    return program;
}

static void check_counts(const ff_model *model, const char *text) {
    ff_layout layout = layout_of(model, text);
    ff_program *program = program_of(model, &layout);
    for (int64_t stage = 0; stage < layout.pp; stage++) {
        tally walked = {.entries = 0}, counted = {.entries = 0};
        ff_program_walk(program, stage, visit, &walked);
        counted.entries = ff_program_counts(program, stage, counted.counts);
        if (walked.entries != counted.entries)
            fail_msg("%s stage %d: %d entries, walked %d", text, (int)stage, counted.entries,
                     walked.entries);
        for (int i = 0; i < walked.entries; i++) {
            const ff_count *w = &walked.counts[i], *c = &counted.counts[i];
            if (!same(w, c))
                fail_msg("%s stage %d entry %d: %s of group %x in %s: walked %lld calls %.0f "
                         "bytes, counted %lld calls %.0f bytes",
                         text, (int)stage, i, ff_collective_name(w->collective), w->group,
                         ff_phase_name(w->phase), (long long)w->calls, w->sent_bytes,
                         (long long)c->calls, c->sent_bytes);
        }
    }
    ff_program_free(program);
}

static void test_counts_equal_walk(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 800; i++) {
        char text[512];
        ff_model model = small_model(i % VARIANTS);
        random_layout(&seed, &model, text, sizeof text);
        check_counts(&model, text);
    }
}

/* Large enough for several buckets a chunk. */
static void test_counts_with_buckets(void **state) {
    (void)state;
    static const char *const texts[] = {
        "dp=8,tp=2,pp=2,vpp=2,microbatches=4,zero=0", "dp=8,tp=2,pp=2,microbatches=3,zero=1",
        "dp=8,zero=2,microbatches=2", "dp=8,zero=2,zero_group=4,microbatches=2",
        "dp=64,pp=4,zero=1,microbatches=4"};
    ff_model *model = preset("llama-3.1-8b");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_counts(model, texts[i]);
    free(model);
    model = preset("mixtral-8x7b");
    check_counts(model, "dp=8,tp=2,pp=2,ep=4,zero=1,microbatches=2");
    check_counts(model, "dp=8,tp=2,pp=2,ep=4,zero=3,zero3_weights=stream,microbatches=2");
    free(model);
    /* Megatron-LM's sizes: 40 M, and 1 M for each rank of the group. */
    assert_int_equal(ff_bucket_count(39999999, 2), 1);
    assert_int_equal(ff_bucket_count(120000001, 2), 3);
    assert_int_equal(ff_bucket_count(120000001, 60), 2);
    assert_int_equal(ff_bucket_count(0, 1), 1);
}

/* --- bytes of data parallelism --- */

typedef struct dp_bytes {
    double gradients, weights; /* sent by a rank in a step, over dp*cp */
    double across;             /* all-reduces of them */
} dp_bytes;

static dp_bytes dp_bytes_of(const ff_model *model, const char *text, int64_t *params) {
    ff_layout layout = layout_of(model, text);
    ff_program *program = program_of(model, &layout);
    ff_count counts[FF_MOST_COUNTS];
    dp_bytes sum = {0};
    int entries = ff_program_counts(program, 0, counts);
    for (int i = 0; i < entries; i++) {
        if (counts[i].group != (FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_CP)))
            continue;
        bool gather = counts[i].collective == FF_ALL_GATHER;
        *(gather ? &sum.weights : &sum.gradients) += counts[i].sent_bytes;
        if (counts[i].collective == FF_ALL_REDUCE)
            sum.across += counts[i].sent_bytes;
    }
    *params = ff_program_stage_params(model, &layout, 0).dense;
    ff_program_free(program);
    return sum;
}

static void assert_close(double found, double expected) {
    if (fabs(found - expected) > 1e-9 * expected + 1e-9)
        fail_msg("%.17g instead of %.17g", found, expected);
}

/* P elements: ZeRO-0 2P, 1 2P, 2 (m+1)P, 3 3mP streamed and 2P resident, each (n-1)/n. Gradients
 * travel in 4 bytes here, weights in 2. */
static void test_zero_bytes(void **state) {
    (void)state;
    ff_model model = small_model(0);
    const int m = 5;
    const double share = 7.0 / 8;
    const struct {
        const char *text;
        double gradients, weights; /* in P elements */
    } cases[] = {{"dp=4,cp=2,zero=0,microbatches=5", 2, 0},
                 {"dp=4,cp=2,zero=1,microbatches=5", 1, 1},
                 {"dp=4,cp=2,zero=2,microbatches=5", m, 1},
                 {"dp=4,cp=2,zero=3,zero3_weights=stream,microbatches=5", m, 2 * m},
                 {"dp=4,cp=2,zero=3,zero3_weights=resident,microbatches=5", 1, 1},
                 {"dp=4,cp=2,zero=3,microbatches=5,recompute=full", m, 2 * m}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t params;
        dp_bytes sent = dp_bytes_of(&model, cases[i].text, &params);
        assert_close(sent.gradients, 4 * cases[i].gradients * share * (double)params);
        assert_close(sent.weights, 2 * cases[i].weights * share * (double)params);
    }
}

/* HSDP: shards over 4 of 8, then the shards are all-reduced over the 2 groups: 2 * 1/2 * P/4. */
static void test_hybrid_sharding(void **state) {
    (void)state;
    ff_model model = small_model(0);
    int64_t params;
    dp_bytes sent = dp_bytes_of(
        &model, "dp=8,zero=3,zero3_weights=stream,zero_group=4,microbatches=3", &params);
    double p = (double)params;
    assert_close(sent.weights, 2 * (2 * 3) * 3.0 / 4 * p);
    assert_true(fabs(sent.across / (4 * p / 4) - 1) < 1e-3); /* the last slice is rounded up */
    assert_close(sent.gradients - sent.across, 4 * 3 * 3.0 / 4 * p);
}

static double bytes_over(const ff_model *model, const char *text, ff_axes group, int64_t *calls) {
    ff_layout layout = layout_of(model, text);
    ff_program *program = program_of(model, &layout);
    ff_count counts[FF_MOST_COUNTS];
    double bytes = 0;
    *calls = 0;
    int entries = ff_program_counts(program, 0, counts);
    for (int i = 0; i < entries; i++) {
        if (counts[i].group == group) {
            bytes += counts[i].sent_bytes;
            *calls += counts[i].calls;
        }
    }
    ff_program_free(program);
    return bytes;
}

/* Experts reduce over edp, which may be above 1 where dp is 1: tp 4, etp 1, ep 1. */
static void test_expert_reductions(void **state) {
    (void)state;
    ff_model model = small_model(3);
    int64_t calls;
    const double experts = 7 * 8 * 3 * 64 * 32; /* 7 layers of 8 experts */
    assert_close(bytes_over(&model, "tp=4,dp=1,ep=1,zero=1", FF_AXES(FF_AXIS_EDP), &calls),
                 3.0 / 4 * experts * (4 + 2));
    assert_close(bytes_over(&model, "tp=4,dp=2,ep=4,zero=1", FF_AXES(FF_AXIS_EDP), &calls),
                 1.0 / 2 * experts / 4 * (4 + 2));
    assert_close(bytes_over(&model, "tp=4,dp=1,ep=4,zero=1", FF_AXES(FF_AXIS_EDP), &calls), 0);
    ff_sync syncs[FF_MOST_SYNCS];
    ff_model dense = small_model(0);
    ff_layout layout = layout_of(&dense, "tp=4,dp=1,zero=1");
    assert_int_equal(ff_program_syncs(&dense, &layout, syncs), 0);
    assert_int_equal(ff_program_syncs(&model, &layout, syncs), 2);
}

/* Every stage boundary: T*h (/t with SP) elements forward and back, of each microbatch. */
static void test_transfers(void **state) {
    (void)state;
    ff_model model = small_model(0);
    int64_t calls;
    double bytes =
        bytes_over(&model, "tp=2,cp=2,pp=4,microbatches=6,mbs=3", FF_AXES(FF_AXIS_PP), &calls);
    assert_int_equal(calls, 6); /* the first stage sends activations alone */
    assert_close(bytes, 6.0 * (64 * 3 / 2 / 2) * 64 * 2);
    bytes =
        bytes_over(&model, "tp=2,sp=0,cp=2,pp=4,microbatches=6,mbs=3", FF_AXES(FF_AXIS_PP), &calls);
    assert_close(bytes, 6.0 * (64 * 3 / 2) * 64 * 2);
    bytes_over(&model, "pp=4,vpp=2,microbatches=8", FF_AXES(FF_AXIS_PP), &calls);
    assert_int_equal(calls, 8 * (2 + 1));
}

/* The end of a step: norms and other replicated weights over TP (SP), the embedding and its copy
 * over the two end stages, one float of gradient norm. */
static void test_step_end(void **state) {
    (void)state;
    ff_operator ops[FF_MOST_STEP_OPERATORS];
    ff_model tied = small_model(1), mtp = small_model(5), plain = small_model(0);
    mtp.tied_head = false;
    ff_layout layout = layout_of(&tied, "tp=2,pp=4,dp=2,microbatches=4");
    assert_int_equal(ff_program_step_operators(&tied, &layout, 0, 128, ops), 3);
    assert_int_equal(ops[0].elements, 128);
    assert_int_equal(ops[1].elements, 1024 / 2 * 64);
    assert_int_equal(ops[1].ranks, 2);
    assert_int_equal(ops[2].ranks, 16);
    assert_int_equal(ff_program_step_operators(&tied, &layout, 1, 128, ops), 2);
    assert_int_equal(ff_program_step_operators(&plain, &layout, 0, 128, ops), 2);
    assert_int_equal(ff_program_step_operators(&mtp, &layout, 3, 128, ops), 3);
    layout = layout_of(&tied, "tp=2,sp=0,pp=4,dp=2,microbatches=4"); /* every rank saw all tokens */
    assert_int_equal(ff_program_step_operators(&tied, &layout, 1, 128, ops), 1);
    layout = layout_of(&tied, "tp=1,pp=1,dp=1");
    assert_int_equal(ff_program_step_operators(&tied, &layout, 0, 128, ops), 0);
}

/* --- order --- */

/* Names of the operators of one microbatch, in order. */
typedef struct journal {
    const char *name[2048];
    int layer[2048], count;
} journal;

static void note(void *context, const ff_event *event) {
    journal *j = context;
    if (event->op == NULL)
        return;
    assert_true(j->count < 2048);
    j->name[j->count] = event->op->name;
    j->layer[j->count++] = event->layer;
}

static int find(const journal *j, const char *name, int from) {
    for (int i = from; i < j->count; i++)
        if (strcmp(j->name[i], name) == 0)
            return i;
    fail_msg("no %s", name);
    return -1;
}

static journal journal_of(const ff_model *model, const char *text) {
    ff_layout layout = layout_of(model, text);
    ff_program *program = program_of(model, &layout);
    journal j = {.count = 0};
    ff_program_walk(program, 0, note, &j);
    ff_program_free(program);
    return j;
}

/* Forward ends with head and MTP block, backward takes them in the opposite order, then the layers
 * from the last; ZeRO-3 gathers before a layer's work and reduces after it. */
static void test_order(void **state) {
    (void)state;
    ff_model model = small_model(5);
    journal j = journal_of(&model, "dp=2,zero=3,zero3_weights=stream,microbatches=1");
    int lookup = find(&j, "embedding.lookup", 0), head = find(&j, "head", 0);
    int mtp = find(&j, "mtp.project", 0), mtp_head = find(&j, "head", head + 1);
    assert_true(lookup < head && head < mtp && mtp < mtp_head);
    int back = find(&j, "head dX", 0), mtp_back = find(&j, "mtp.project dX", 0);
    int head_back = find(&j, "head dX", back + 1);
    assert_true(mtp_head < back && back < mtp_back && mtp_back < head_back);
    assert_string_equal(j.name[0], "weights");
    int previous = model.layers;
    for (int i = head_back; i < j.count; i++) {
        if (j.layer[i] < 0)
            continue;
        bool first = j.layer[i] != j.layer[i - 1];
        bool last = i + 1 == j.count || j.layer[i + 1] != j.layer[i];
        if (first)
            assert_int_equal(j.layer[i], --previous);
        if (first)
            assert_string_equal(j.name[i], "weights");
        if (last)
            assert_string_equal(j.name[i], "gradients");
    }
    assert_int_equal(previous, 0);
}

/* --- chunks --- */

static void check_chunks(const ff_model *model, const char *text) {
    ff_layout layout = layout_of(model, text);
    int seen[FF_MODEL_MAX_LAYERS] = {0}, embeddings = 0, heads = 0, recomputed = 0;
    for (int64_t stage = 0; stage < layout.pp; stage++) {
        for (int64_t chunk = 0; chunk < layout.vpp; chunk++) {
            ff_chunk_content content;
            ff_program_chunk(model, &layout, stage, chunk, &content);
            int layers = 0;
            for (int i = 0; i < content.layers; i++)
                seen[content.first_layer + i]++;
            for (int kind = 0; kind < model->kinds; kind++) {
                layers += content.of_kind[kind];
                recomputed += content.recomputed_of_kind[kind];
                assert_in_range(content.recomputed_of_kind[kind], 0, content.of_kind[kind]);
            }
            assert_int_equal(layers, content.layers);
            embeddings += content.embedding;
            heads += content.head;
        }
    }
    for (int i = 0; i < model->layers; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(embeddings, 1);
    assert_int_equal(heads, 1);
    int by_stage = 0;
    for (int i = 0; i < layout.recompute_stages; i++)
        by_stage += layout.recompute_of_stage[i];
    int wanted = layout.recompute != FF_RECOMPUTE_FULL ? 0
                 : layout.recompute_stages > 0         ? by_stage
                 : layout.recompute_layers == 0        ? model->layers
                                                       : (int)(layout.recompute_layers * layout.pp);
    assert_int_equal(recomputed, wanted);
}

static void test_chunks_cover_the_model(void **state) {
    (void)state;
    ff_model model = small_model(3);
    check_chunks(&model, "pp=4,recompute=full");
    check_chunks(&model, "pp=2,vpp=2,microbatches=2,recompute=full:3");
    check_chunks(&model, "pp=4,layers=1/3/3/1,recompute=full:1");
    check_chunks(&model, "pp=3");
    check_chunks(&model, "pp=4,layers=1/3/3/1,recompute=full:1/2/0/1");
    check_chunks(&model, "pp=2,vpp=2,microbatches=2,recompute=full:3/1");
    ff_model *llama = preset("llama-3.1-405b"); /* 126 layers */
    check_chunks(llama, "pp=16,vpp=4,microbatches=16");
    free(llama);
}

/* The parameters of all stages are the model's, with nothing sharded and no padding. */
static void test_stage_params(void **state) {
    (void)state;
    ff_model *model = preset("llama-3.1-8b"); /* its vocabulary is a multiple of 128 */
    ff_model_count count;
    ff_model_params(model, &count);
    ff_layout layout = layout_of(model, "pp=8,microbatches=8");
    int64_t sum = 0;
    for (int64_t stage = 0; stage < 8; stage++)
        sum += ff_program_stage_params(model, &layout, stage).dense;
    assert_int_equal(sum, count.total);
    free(model);
}

static void test_too_long_a_step(void **state) {
    (void)state;
    ff_model model = small_model(0);
    ff_layout layout = layout_of(&model, "pp=8,microbatches=10000000");
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_null(ff_program_create(&model, &layout, &options, findings));
    assert_int_equal(ff_diagnostics_count(findings), 1);
    assert_string_equal(ff_diagnostics_at(findings, 0)->code, "FF0246");
    ff_diagnostics_free(findings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_equal_walk),
        cmocka_unit_test(test_counts_with_buckets),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_hybrid_sharding),
        cmocka_unit_test(test_expert_reductions),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_step_end),
        cmocka_unit_test(test_chunks_cover_the_model),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_stage_params),
        cmocka_unit_test(test_too_long_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
