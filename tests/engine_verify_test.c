/* Every layout does what was priced: one rank's bits, planned bytes, calls, memory and order; and a
 * program that is spoiled in one place is found out. */
#include "engine_support.h"
#include "verify/digest.h"
#include "verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct verdict {
    ff_status status;
    char loss[16], gradients[16], weights[16];
    bool order_equal;
    int findings;
    char first[200];
} verdict;

typedef void alter_function(ff_listing *listing, const ff_program *program);

static verdict judge_run(const char *format, bool tied, const char *text,
                         const ff_engine_options *options, uint64_t shuffle) {
    ff_model model;
    ff_layout layout;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_facts *facts = ff_facts_create();
    verdict v = {.status = FF_BUG};
    tiny_model(format, tied, &model);
    if (!tiny_layout(text, &model, 8, &layout, findings))
        fail_msg("%s: %s", text, ff_diagnostics_at(findings, 0)->message);
    ff_verify_job job = {
        .model = &model, .layout = &layout, .options = *options, .steps = 2, .shuffle = shuffle};
    v.status = ff_verify(&job, findings, facts);
    const ff_fact *root = ff_facts_root(facts);
    snprintf(v.loss, sizeof v.loss, "%s", ff_fact_text(root, "equal.loss"));
    snprintf(v.gradients, sizeof v.gradients, "%s", ff_fact_text(root, "equal.gradients"));
    snprintf(v.weights, sizeof v.weights, "%s", ff_fact_text(root, "equal.weights"));
    v.order_equal = ff_fact_boolean(root, "order_equal");
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        if (d->severity != FF_ERROR)
            continue;
        if (v.findings++ == 0)
            snprintf(v.first, sizeof v.first, "%s: %s", d->code, d->message);
    }
    ff_facts_free(facts);
    ff_diagnostics_free(findings);
    return v;
}

static verdict judge(const char *format, bool tied, const char *text, alter_function *alter,
                     uint64_t shuffle) {
    ff_engine_options options = tiny_options();
    options.alter = alter;
    return judge_run(format, tied, text, &options, shuffle);
}

static void expect_bits(const char *format, bool tied, const char *layout, uint64_t shuffle) {
    verdict v = judge(format, tied, layout, NULL, shuffle);
    if (v.status != FF_OK)
        fail_msg("%s: %s", layout, v.first);
    assert_string_equal(v.loss, "bits");
    assert_string_equal(v.gradients, "bits");
    assert_string_equal(v.weights, "bits");
    assert_true(v.order_equal);
}

/* --- one dimension at a time, and how they combine --- */

static const char *const layouts[] = {
    "",
    "dp=2,zero=0",
    "dp=4,zero=1",
    "dp=2,zero=2",
    "dp=2,zero=3,zero3_weights=stream",
    "dp=4,zero=3,zero3_weights=resident",
    "tp=2",
    "tp=2,sp=0",
    "pp=2",
    "pp=4,schedule=gpipe",
    "pp=2,vpp=2,schedule=interleaved",
    "pp=2,layers=1/3",
    "recompute=full",
    "recompute=full:2,pp=2",
    "recompute=selective:core+mlp+norm,tp=2",
    "mbs=4,recompute=selective:activation",
    "recompute=selective:mlp,tp=2",
    "recompute=selective:norm,tp=2,dp=2,zero=2",
    "tp=2,dp=2,pp=2,zero=1,mbs=2",
    "tp=2,dp=2,pp=2,zero=2,recompute=full",
    "tp=2,dp=2,pp=2,zero=3,zero3_weights=stream",
    "tp=2,pp=2,vpp=2,dp=2,zero=1",
    "order=dp-tp-cp-pp,tp=2,dp=2,pp=2",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void test_gpt2_layouts(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++)
        expect_bits(gpt2_tiny, false, layouts[i], (uint64_t)i);
}

static void test_llama_layouts(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++)
        expect_bits(llama_tiny, false, layouts[i], (uint64_t)i);
}

static void test_tied_layouts(void **state) {
    (void)state;
    static const char *const tied[] = {"",
                                       "dp=2,zero=1",
                                       "dp=2,zero=2",
                                       "tp=2,dp=2",
                                       "pp=2",
                                       "pp=4,dp=2,zero=0",
                                       "tp=2,pp=2",
                                       "pp=2,vpp=2,tp=2,sp=0",
                                       "dp=2,zero=3,zero3_weights=resident",
                                       "dp=4,zero=3,zero3_weights=stream,schedule=gpipe",
                                       "tp=2,dp=2,zero=3,mbs=2,recompute=full",
                                       "pp=2,dp=2,zero=1",
                                       "pp=2,dp=4,zero=2,sp=0,tp=2",
                                       "pp=4,dp=2,zero=3,zero3_weights=resident",
                                       "pp=2,vpp=2,dp=2,zero=3,zero3_weights=stream",
                                       "tp=2,pp=2,dp=2,zero=3,zero3_weights=stream"};
    for (size_t i = 0; i < sizeof tied / sizeof *tied; i++) {
        expect_bits(gpt2_tiny, true, tied[i], i);
        expect_bits(llama_tiny, true, tied[i], i);
    }
}

/* A tied embedding is divided alike on both stages also where replicas do not divide it. */
static void test_tied_outside_powers_of_two(void **state) {
    (void)state;
    static const char *const odd[] = {"pp=2,dp=3,zero=1", "pp=2,dp=3,zero=2",
                                      "pp=2,dp=3,zero=3,zero3_weights=stream",
                                      "dp=3,zero=3,zero3_weights=stream"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        verdict v = judge(gpt2_tiny, true, odd[i], NULL, i);
        if (v.status != FF_OK)
            fail_msg("%s: %s", odd[i], v.first);
        assert_string_equal(v.gradients, "tolerance");
    }
}

/* --- several buckets a chunk: large models have them, so small ones are cut into three here --- */

enum { SLICES = 3 };
typedef struct slicing {
    ff_listing from, to;
    int64_t layer, embedding; /* elements of a unit */
    int64_t total, sent;
    int slices; /* sent of this chunk */
} slicing;

static void copy_item(slicing *s, const ff_item *item) {
    s->to.item = ff_engine_grow(s->to.item, s->to.items + 1, sizeof *s->to.item);
    s->to.item[s->to.items++] = *item;
}

static int64_t slice_end(const slicing *s, int slice) {
    return slice == SLICES - 1 ? s->total : s->total / SLICES * (slice + 1);
}

/* Slices that end at or before what backward has passed; all of them at the end. */
static void emit_slices(slicing *s, const ff_item *like, int64_t passed) {
    for (; s->slices < SLICES && slice_end(s, s->slices) <= passed; s->slices++) {
        ff_item item = *like;
        item.block = s->slices;
        item.op.elements = slice_end(s, s->slices) - s->sent;
        s->sent += item.op.elements;
        copy_item(s, &item);
    }
}

static const ff_item *next_sync(const slicing *s, int64_t at) {
    for (int64_t i = at; i < s->from.items; i++)
        if (!s->from.item[i].opens && s->from.item[i].block >= 0)
            return &s->from.item[i];
    return NULL;
}

/* Of units that come before the reduction at `sync` and after item i. */
static int64_t still_to_come(const slicing *s, int64_t i, const ff_item *sync) {
    int64_t elements = 0;
    for (const ff_item *item = &s->from.item[i + 1]; item < sync; item++)
        if (item->unit >= 0 && item->unit != item[-1].unit)
            elements += item->layer >= 0 ? s->layer : s->embedding;
    return elements;
}

static void slice_item(slicing *s, int64_t i) {
    const ff_item *item = &s->from.item[i], *sync = next_sync(s, i);
    bool backward = item->in_action && item->action.kind == FF_ACTION_BACKWARD;
    if (item->opens)
        s->sent = s->slices = 0;
    if (item == sync) {
        s->total = sync->op.elements;
        emit_slices(s, sync, s->total);
        s->sent = s->slices = 0;
        return;
    }
    copy_item(s, item);
    if (item->unit < 0 || !backward || sync == NULL || item[1].unit == item->unit ||
        sync->action.microbatch != item->action.microbatch)
        return;
    s->total = sync->op.elements;
    emit_slices(s, sync, s->total - still_to_come(s, i, sync));
}

static void cut_buckets(ff_listing *listing, const ff_program *program) {
    (void)program;
    ff_model model;
    tiny_model(llama_tiny, false, &model);
    slicing s = {.from = *listing,
                 .layer = ff_layer_shard_params(&model, 0, 1, 1, 1).dense,
                 .embedding = ff_first_shard_params(&model, 1).dense};
    for (int64_t i = 0; i < listing->items; i++)
        slice_item(&s, i);
    free(listing->item);
    *listing = s.to;
}

/* The same bits, whatever the buckets: of sums over replicas none is taken in another order. */
static void expect_sliced_bits(const char *text, bool tied) {
    ff_model model;
    ff_layout layout;
    ff_engine_options options = tiny_options();
    ff_setup *whole, *sliced;
    ff_diagnostics *findings = ff_diagnostics_create();
    tiny_model(llama_tiny, tied, &model);
    assert_true(tiny_layout(text, &model, 8, &layout, findings));
    assert_int_equal(ff_setup_create(&model, &layout, &options, findings, &whole), FF_OK);
    options.alter = cut_buckets;
    assert_int_equal(ff_setup_create(&model, &layout, &options, findings, &sliced), FF_OK);
    ff_loop *a = ff_loop_create(whole, 0), *b = ff_loop_create(sliced, 1);
    for (int step = 0; step < 3; step++) {
        double loss_a = 0, loss_b = 0;
        if (ff_loop_step(a, findings, &loss_a) != FF_OK ||
            ff_loop_step(b, findings, &loss_b) != FF_OK)
            fail_msg("%s: %s", text, ff_diagnostics_at(findings, 0)->message);
        assert_true(loss_a == loss_b);
        assert_true(a->rank[0]->norm == b->rank[0]->norm);
    }
    assert_int_equal(b->rank[0]->chunk[0].blocks, SLICES);
    ff_loop_free(a);
    ff_loop_free(b);
    ff_setup_free(whole);
    ff_setup_free(sliced);
    ff_diagnostics_free(findings);
}

static void test_several_buckets(void **state) {
    (void)state;
    static const char *const sliced[] = {"dp=2,zero=0",      "dp=2,zero=1",
                                         "dp=2,zero=2",      "dp=4,zero=2,recompute=full",
                                         "pp=2,dp=2,zero=1", "pp=2,dp=2,zero=2"};
    for (size_t i = 0; i < sizeof sliced / sizeof *sliced; i++) {
        expect_sliced_bits(sliced[i], false);
        expect_sliced_bits(sliced[i], true);
    }
}

/* Layouts drawn at random from those that the engine runs. */
static void test_drawn_layouts(void **state) {
    (void)state;
    int run = 0;
    for (uint64_t draw = 0; run < 40; draw++) {
        char text[256];
        uint64_t bits = ff_random(2, draw, 0);
        int tp = 1 << (bits % 2), pp = 1 << (bits / 2 % 3), dp = 1 << (bits / 8 % 3);
        int zero = (int)(bits / 32 % 4), mbs = 1 << (bits / 128 % 2), vpp = 1 + (bits / 256 % 2);
        int sp = tp > 1 && bits / 512 % 2, resident = bits / 1024 % 2;
        static const char *const recompute[] = {"none", "full", "full:1", "selective:core+norm"};
        if (tp * pp * dp > 16 || pp * vpp > 4 || dp * mbs > 8 ||
            (vpp > 1 && (pp == 1 || 8 / (dp * mbs) % pp != 0)))
            continue;
        snprintf(text, sizeof text,
                 "tp=%d,pp=%d,dp=%d,zero=%d,mbs=%d,vpp=%d,sp=%d,recompute=%s,zero3_weights=%s", tp,
                 pp, dp, zero, mbs, vpp, sp, recompute[bits / 2048 % 4],
                 resident ? "resident" : "stream");
        expect_bits(bits / 8192 % 2 ? llama_tiny : gpt2_tiny, false, text, draw);
        run++;
    }
}

static void test_outside_powers_of_two(void **state) {
    (void)state;
    static const char *const odd[] = {"dp=3", "microbatches=3,dp=2", "dp=3,zero=3,pp=2"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        verdict v = judge(gpt2_tiny, false, odd[i], NULL, i);
        if (v.status != FF_OK)
            fail_msg("%s: %s", odd[i], v.first);
        assert_string_equal(v.gradients, "tolerance");
    }
}

/* --- evaluations --- */

static void deal_the_same(void *context, int64_t step, int64_t sequence, int64_t seq,
                          int32_t *tokens) {
    deal_walk(context, step < 0 ? -1 - step : step, sequence, seq, tokens);
}

/* Evaluation -1 - s of the data of step s gives the loss that the step then begins with, keeps nothing,
 * and leaves no trace: the next losses are those of a run without. */
static void expect_evaluation(const char *format, const char *text, bool tied) {
    ff_model model;
    ff_layout layout;
    ff_engine_options options = tiny_options();
    ff_setup *setup;
    ff_diagnostics *findings = ff_diagnostics_create();
    tiny_model(format, tied, &model);
    options.deal = deal_the_same;
    assert_true(tiny_layout(text, &model, 8, &layout, findings));
    assert_int_equal(ff_setup_create(&model, &layout, &options, findings, &setup), FF_OK);
    ff_loop *evaluated = ff_loop_create(setup, 5), *plain = ff_loop_create(setup, 0);
    for (int64_t step = 0; step < 3; step++) {
        double before, after, other;
        evaluated->step = -1 - step;
        if (ff_loop_step(evaluated, findings, &before) != FF_OK)
            fail_msg("%s: %s", text, ff_diagnostics_at(findings, 0)->message);
        for (int r = 0; r < evaluated->world; r++)
            assert_null(ff_store_leak(&evaluated->rank[r]->store));
        evaluated->step = step;
        assert_int_equal(ff_loop_step(evaluated, findings, &after), FF_OK);
        assert_int_equal(ff_loop_step(plain, findings, &other), FF_OK);
        assert_true(before == after && after == other);
    }
    ff_loop_free(evaluated);
    ff_loop_free(plain);
    ff_setup_free(setup);
    ff_diagnostics_free(findings);
}

static void test_evaluations(void **state) {
    (void)state;
    static const char *const run[] = {"",
                                      "tp=2,dp=2,zero=2,recompute=full",
                                      "pp=2,dp=2,zero=3,zero3_weights=stream",
                                      "pp=2,dp=2,zero=3,zero3_weights=resident",
                                      "dp=2,zero=3,zero3_weights=stream,recompute=selective:core",
                                      "pp=4,schedule=gpipe",
                                      "tp=2,pp=2,vpp=2,zero=0"};
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        expect_evaluation(gpt2_tiny, run[i], i % 2 == 0);
        expect_evaluation(llama_tiny, run[i], i % 2 == 1);
    }
}

/* --- digests --- */

static void digest_of(const char *text, ff_engine_options options, uint64_t shuffle,
                      ff_digest *digest) {
    ff_model model;
    ff_layout layout;
    ff_setup *setup;
    double loss;
    tiny_model(llama_tiny, false, &model);
    assert_true(tiny_layout(text, &model, 8, &layout, NULL));
    assert_int_equal(ff_setup_create(&model, &layout, &options, NULL, &setup), FF_OK);
    ff_loop *loop = ff_loop_create(setup, shuffle);
    assert_int_equal(ff_loop_step(loop, NULL, &loss), FF_OK);
    ff_digest_rank(loop->rank[1], digest);
    ff_loop_free(loop);
    ff_setup_free(setup);
}

/* Ranks that took turns in another order are the same; other weights, lists or kept tensors are not. */
static void test_digests(void **state) {
    (void)state;
    ff_engine_options options = tiny_options(), other = tiny_options();
    ff_digest a, b;
    digest_of("tp=2,dp=2", options, 0, &a);
    digest_of("tp=2,dp=2", options, 9, &b);
    assert_null(ff_digest_differs(&a, &b));
    other.seed = 2;
    digest_of("tp=2,dp=2", other, 0, &b);
    assert_string_equal(ff_digest_differs(&a, &b), "weights");
    digest_of("dp=4,zero=0", options, 0, &a);
    digest_of("dp=4,zero=1", options, 0, &b);
    assert_true(a.weights == b.weights);
    assert_string_equal(ff_digest_differs(&a, &b), "order");
    b.order = a.order;
    b.calls = a.calls;
    b.sent_bytes = a.sent_bytes + 4;
    assert_string_equal(ff_digest_differs(&a, &b), "traffic");
    b.sent_bytes = a.sent_bytes;
    assert_string_equal(ff_digest_differs(&a, &b), "peak memory");
}

/* --- spoiled programs --- */

static ff_item *find_item(ff_listing *listing, const char *name) {
    for (int64_t i = 0; i < listing->items; i++)
        if (!listing->item[i].opens && strcmp(listing->item[i].op.name, name) == 0)
            return &listing->item[i];
    return NULL;
}

static void one_count(ff_listing *listing, const ff_program *program) {
    (void)program;
    ff_item *item = find_item(listing, "attention.reduce-scatter");
    if (item != NULL)
        item->op.elements += 32;
}

static void one_order(ff_listing *listing, const ff_program *program) {
    (void)program;
    ff_item *item = find_item(listing, "mlp.up dX");
    if (item != NULL) {
        ff_item kept = item[0];
        item[0] = item[1];
        item[1] = kept;
    }
}

static void one_missing(ff_listing *listing, const ff_program *program) {
    (void)program;
    ff_item *item = find_item(listing, "mlp.activation backward");
    if (item != NULL) {
        memmove(item, item + 1, (size_t)(listing->item + listing->items - item - 1) * sizeof *item);
        listing->items--;
    }
}

static void one_free(ff_listing *listing, const ff_program *program) {
    (void)listing;
    ff_layer_list *list = (ff_layer_list *)(uintptr_t)ff_program_layer(program, 0, false);
    for (int i = 0; i < list->tensors; i++)
        if (strcmp(list->tensor[i].name, "query") == 0)
            list->tensor[i].kept = false;
}

/* Kept, but of no use to anyone: the sums stay right, the memory does not. */
static void one_kept(ff_listing *listing, const ff_program *program) {
    (void)listing;
    ff_layer_list *list = (ff_layer_list *)(uintptr_t)ff_program_layer(program, 0, true);
    for (int i = 0; i < list->tensors; i++)
        if (strcmp(list->tensor[i].name, "gate and up") == 0)
            list->tensor[i].kept = true;
}

static void one_size(ff_listing *listing, const ff_program *program) {
    (void)listing;
    ff_layer_list *list = (ff_layer_list *)(uintptr_t)ff_program_layer(program, 0, false);
    list->tensor[0].elements++;
}

static void one_fewer_gather(ff_listing *listing, const ff_program *program) {
    (void)program;
    for (int64_t i = 0; i < listing->items; i++) {
        ff_item *item = &listing->item[i];
        if (item->opens || item->in_action || strcmp(item->op.name, "weights") != 0)
            continue;
        memmove(item, item + 1, (size_t)(listing->item + listing->items - item - 1) * sizeof *item);
        listing->items--;
        return;
    }
}

static void test_spoiled(void **state) {
    (void)state;
    static const struct {
        alter_function *alter;
        const char *layout, *says;
    } cases[] = {
        {one_count, "tp=2", "elements, planned"},
        {one_order, "tp=2", "did other things"},
        {one_missing, "", "not there"},
        {one_free, "", "needs the query"},
        {one_kept, "recompute=full", "peak"},
        {one_size, "", "elements, planned"},
        {one_fewer_gather, "dp=2,zero=1", "differ"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verdict good = judge(llama_tiny, false, cases[i].layout, NULL, 0);
        verdict bad = judge(llama_tiny, false, cases[i].layout, cases[i].alter, 0);
        assert_int_equal(good.status, FF_OK);
        assert_int_equal(bad.status, FF_NO);
        if (strstr(bad.first, cases[i].says) == NULL)
            fail_msg("case %d says \"%s\"", (int)i, bad.first);
    }
}

/* Without an order the same is judged by the bound, and what is spoiled is still found. */
static void test_fast(void **state) {
    (void)state;
    static const char *const run[] = {"", "dp=2,mbs=2", "tp=2,pp=2,dp=2,zero=3",
                                      "mbs=4,recompute=full", "tp=2,sp=0,dp=4,zero=2"};
    ff_engine_options options = tiny_options();
    options.fast = true;
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        verdict v = judge_run(i % 2 ? gpt2_tiny : llama_tiny, i == 3, run[i], &options, i);
        if (v.status != FF_OK)
            fail_msg("%s: %s", run[i], v.first);
        assert_string_equal(v.loss, "tolerance");
        assert_string_equal(v.gradients, "tolerance");
        assert_string_equal(v.weights, "tolerance");
    }
    options.alter = one_fewer_gather;
    verdict bad = judge_run(llama_tiny, false, "dp=2,zero=1", &options, 0);
    assert_int_equal(bad.status, FF_NO);
    assert_string_equal(bad.weights, "no");
}

/* A rank that leaves out a collective leaves the others waiting, and that is said. */
static void one_absent(ff_listing *listing, const ff_program *program) {
    (void)program;
    static int calls = 0;
    ff_item *item = find_item(listing, "attention.all-gather");
    if (calls++ % 2 == 0 && item != NULL) {
        memmove(item, item + 1, (size_t)(listing->item + listing->items - item - 1) * sizeof *item);
        listing->items--;
    }
}

static void test_absent_rank(void **state) {
    (void)state;
    verdict v = judge(llama_tiny, false, "tp=2", one_absent, 0);
    assert_int_equal(v.status, FF_NO);
    assert_true(v.findings > 0);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *layout, *says;
        bool tied;
    } cases[] = {{"cp=2", "cp and ep", false},
                 {"tp=4", "KV heads", false},
                 {"accumulate=chain", "as a tree", false},
                 {"mbs=256", "more than 128 sequences", false},
                 {"tp=16", "tp is above 8", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        verdict v = judge(llama_tiny, cases[i].tied, cases[i].layout, NULL, 0);
        assert_int_equal(v.status, FF_NO);
        if (strstr(v.first, cases[i].says) == NULL)
            fail_msg("%s says \"%s\"", cases[i].layout, v.first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_layouts),
        cmocka_unit_test(test_llama_layouts),
        cmocka_unit_test(test_tied_layouts),
        cmocka_unit_test(test_drawn_layouts),
        cmocka_unit_test(test_outside_powers_of_two),
        cmocka_unit_test(test_spoiled),
        cmocka_unit_test(test_tied_outside_powers_of_two),
        cmocka_unit_test(test_several_buckets),
        cmocka_unit_test(test_fast),
        cmocka_unit_test(test_evaluations),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_absent_rank),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
