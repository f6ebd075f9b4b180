/* The simulator against its other readers of the program: bytes, calls, in-flight counts and peak
 * memory equal the estimator's exactly over thousands of random layouts of every schedule; spans
 * without communication behind layers equal a run of the schedule with the estimator's chunk times
 * within a picosecond a term, and with it lie within a printed bound; streams by hand. */
#include "step_models.h"

#include "cost/cost.h"
#include "fivefold/cluster.h"
#include "fivefold/memory.h"
#include "schedule/span.h"
#include "simulate/internal.h"
#include <math.h>

typedef struct rig {
    ff_cluster cluster;
    ff_profile profile;
    ff_cost cost;
} rig;

/* `overlaps`: communication behind layers, as the profile has it; else none. */
static rig *rig_create(bool overlaps) {
    rig *r = calloc(1, sizeof *r);
    assert_int_equal(ff_cluster_preset("dgx-h100", NULL, &r->cluster), FF_OK);
    const ff_field *root = ff_preset_tree("profiles/megatron-core");
    assert_int_equal(ff_profile_from_fields(root, "megatron-core", NULL, &r->profile), FF_OK);
    if (!overlaps)
        r->profile.gradient_overlap_ratio = r->profile.sharded_overlap_ratio =
            r->profile.gather_overlap_ratio = 0;
    r->cost = (ff_cost){
        .cluster = &r->cluster, .profile = &r->profile, .seq = options.seq, .imbalance = 1};
    ff_physics_data data = ff_physics_presets();
    assert_int_equal(ff_physics_of_device(&data, &r->cluster.device, NULL, &r->cost.physics),
                     FF_OK);
    r->profile.kernels = options.kernels;
    return r;
}

/* A random layout under any schedule that it can run. */
static ff_layout random_case(uint64_t *seed, const ff_model *model) {
    for (;;) {
        char text[512];
        ff_layout layout;
        ff_layout_context context = {.layers = model->layers};
        random_layout(seed, model, text, sizeof text);
        assert_int_equal(ff_layout_parse(text, NULL, &layout), FF_OK);
        int kind = (int)(next_random(seed) % (FF_SCHEDULE_COUNT + 2));
        if (kind >= FF_SCHEDULE_ZB_H1 && kind < FF_SCHEDULE_COUNT) {
            bool one = kind <= FF_SCHEDULE_ZB_H2;
            layout.schedule = kind;
            layout.vpp = one ? 1 : 2;
            layout.microbatches = PICK(seed, 1, 2, 3, 5, 8, 12);
        }
        if (ff_layout_derive(&layout, &context, NULL) != FF_OK)
            continue;
        ff_schedule_shape shape = ff_schedule_shape_of(&layout);
        if (ff_schedule_check(&shape, NULL) == FF_OK &&
            ff_layout_model_chunks(&layout) <= model->layers)
            return layout;
    }
}

static ff_reaches reaches_of(const rig *r, const ff_layout *layout) {
    ff_mesh mesh;
    ff_reaches reaches;
    assert_int_equal(ff_layout_mesh(layout, NULL, &mesh), FF_OK);
    ff_reaches_of(&mesh, &r->cluster, &reaches);
    return reaches;
}

static const char *text_of(const ff_layout *layout) {
    static char text[FF_LAYOUT_TEXT_BYTES];
    return ff_layout_print(layout, FF_LAYOUT_FULL, text, sizeof text);
}

static void check_counts(const ff_layout *layout, const ff_program *program, int64_t stage,
                         const ff_stage_result *r) {
    ff_count counts[FF_MOST_COUNTS];
    int entries = ff_program_counts(program, stage, counts);
    if (entries != r->counts)
        fail_msg("%s stage %d: %d entries, simulated %d", text_of(layout), (int)stage, entries,
                 r->counts);
    for (int i = 0; i < entries; i++) {
        const ff_count *c = &counts[i], *s = &r->count[i];
        if (c->group != s->group || c->phase != s->phase || c->collective != s->collective ||
            c->calls != s->calls ||
            fabs(c->sent_bytes - s->sent_bytes) > 1e-9 * (c->sent_bytes + s->sent_bytes))
            fail_msg("%s stage %d: %s in %s: %lld calls %.0f bytes, simulated %lld, %.0f",
                     text_of(layout), (int)stage, ff_collective_name(c->collective),
                     ff_phase_name(c->phase), (long long)c->calls, c->sent_bytes,
                     (long long)s->calls, s->sent_bytes);
    }
}

static void check_stage(const rig *r, const ff_layout *layout, const ff_memory_blocks *blocks,
                        const ff_program *program, int64_t stage, const ff_stage_result *result) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    ff_stage_memory memory;
    ff_ledger_stage(r->cost.model, layout, options.seq, blocks, &r->profile.runtime, stage,
                    &memory);
    check_counts(layout, program, stage, result);
    assert_int_equal(result->in_flight, ff_schedule_in_flight(&shape, (int32_t)stage));
    assert_int_equal(result->in_flight_weight,
                     ff_schedule_in_flight_weight(&shape, (int32_t)stage));
    if (memory.total_bytes != result->memory.total_bytes)
        fail_msg("%s stage %d: peak %lld, simulated %lld", text_of(layout), (int)stage,
                 (long long)memory.total_bytes, (long long)result->memory.total_bytes);
    assert_int_equal(memory.weights_bytes, result->memory.weights_bytes);
    assert_int_equal(memory.loss_bytes + memory.kept_bytes + memory.working_bytes,
                     result->memory.loss_bytes + result->memory.kept_bytes +
                         result->memory.working_bytes);
    /* All of a stage's time is accounted for. */
    int64_t sum = result->busy_ps;
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        sum += result->exposed_ps[i];
    for (int i = 0; i < FF_WAIT_COUNT; i++)
        sum += result->idle_ps[i];
    assert_int_equal(sum, result->end_ps);
}

static void check_agreement(rig *r, const ff_layout *layout, ff_detail detail) {
    ff_reaches reaches = reaches_of(r, layout);
    ff_simulation_inputs inputs = {&r->cost, layout, &reaches, detail};
    ff_simulation *simulation = ff_simulation_create(&inputs, NULL, NULL);
    ff_program *program = ff_program_create(r->cost.model, layout, &options, NULL);
    ff_memory_blocks blocks;
    assert_non_null(simulation);
    ff_memory_blocks_build(r->cost.model, layout, &options, &blocks);
    for (int64_t stage = 0; stage < layout->pp; stage++)
        check_stage(r, layout, &blocks, program, stage, ff_simulation_stage(simulation, stage));
    /* The longest path is as long as the step. */
    const ff_path_part *part;
    int64_t path = 0;
    for (int i = ff_simulation_path(simulation, &part) - 1; i >= 0; i--)
        path += part[i].time_ps;
    assert_true(path <= ff_simulation_step_ps(simulation));
    ff_program_free(program);
    ff_simulation_free(simulation);
}

static void test_agreement(void **state) {
    (void)state;
    uint64_t seed = 11;
    int of_kind[FF_SCHEDULE_COUNT] = {0};
    for (int i = 0; i < 3000; i++) {
        rig *r = rig_create(i % 3 != 0);
        ff_model model = small_model(i % VARIANTS);
        ff_layout layout = random_case(&seed, &model);
        r->cost.model = &model;
        check_agreement(r, &layout, i % 2 ? FF_DETAIL_OPERATOR : FF_DETAIL_CHUNK);
        of_kind[layout.schedule]++;
        free(r);
    }
    for (int kind = 0; kind < FF_SCHEDULE_COUNT; kind++)
        print_message("%s %d  ", ff_schedule_name((ff_schedule_kind)kind), of_kind[kind]);
    print_message("\n");
    for (int kind = 0; kind < FF_SCHEDULE_COUNT; kind++)
        assert_true(of_kind[kind] >= 30);
}

/* ---- spans ---- */

/* The span of the pipeline with the estimator's chunk times, and its number of terms. */
static double run_span_s(const rig *r, const ff_layout *layout, const ff_time_blocks *blocks,
                         const ff_reaches *reaches) {
    double s[3][FF_LAYOUT_MAX_CHUNKS];
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    for (int64_t i = 0; i < layout->pp * layout->vpp; i++) {
        ff_chunk_content content;
        ff_stage_time time = ff_stage_time_start(layout);
        time.share = 1;
        ff_program_chunk(r->cost.model, layout, i / layout->vpp, i % layout->vpp, &content);
        ff_stage_time_add(r->cost.model, blocks, &content, &time);
        s[0][i] = time.forward_s;
        s[1][i] = time.backward_s;
        s[2][i] = time.weight_s;
    }
    ff_schedule *schedule = ff_schedule_create(&shape);
    ff_run_times times = {s[0], s[1], s[2], ff_transfer_s(&r->cost, layout, reaches)};
    double span = ff_schedule_split_span(schedule, &times);
    ff_schedule_free(schedule);
    return span;
}

/* Terms on a path: every operator of every action of a stage, and messages. */
static double terms_of(const rig *r, const ff_layout *layout) {
    return 8.0 * (double)(layout->microbatches * layout->vpp + layout->pp) *
           (double)(r->cost.model->layers + 4) * 80;
}

static void test_spans_without_overlap(void **state) {
    (void)state;
    uint64_t seed = 77;
    double worst = 0;
    rig *r = rig_create(false);
    for (int i = 0; i < 600; i++) {
        ff_model model = small_model(i % VARIANTS);
        ff_layout layout = random_case(&seed, &model);
        r->profile.host_s_per_layer = PICK(&seed, 0, 1, 30) * 1e-3; /* idle, in between, late */
        if (layout.zero >= 2) /* streams weights, or reduces in every microbatch */
            layout.zero = 1;
        r->cost.model = &model;
        ff_reaches reaches = reaches_of(r, &layout);
        ff_time_blocks blocks;
        ff_time_blocks_build(&r->cost, &layout, &reaches, &blocks);
        ff_simulation_inputs inputs = {&r->cost, &layout, &reaches,
                                       i % 2 ? FF_DETAIL_OPERATOR : FF_DETAIL_CHUNK};
        ff_simulation *simulation = ff_simulation_create(&inputs, NULL, NULL);
        double expected_ps = 1e12 * run_span_s(r, &layout, &blocks, &reaches);
        double error = fabs((double)ff_simulation_span_ps(simulation) - expected_ps);
        if (error > terms_of(r, &layout))
            fail_msg("%s: %.0f ps, simulated %lld", text_of(&layout), expected_ps,
                     (long long)ff_simulation_span_ps(simulation));
        worst = fmax(worst, error / expected_ps);
        ff_simulation_free(simulation);
    }
    print_message("without overlap: largest relative difference %.2g\n", worst);
    assert_true(worst < 1e-6);
    free(r);
}

/* The fast path runs the same pipeline; the step's other parts are the estimator's. */
static void test_fast_span(void **state) {
    (void)state;
    uint64_t seed = 5;
    double least = 0, most = 0;
    rig *r = rig_create(false);
    for (int i = 0; i < 300; i++) {
        ff_model model = small_model(i % VARIANTS);
        ff_layout layout = random_case(&seed, &model);
        r->cost.model = &model;
        if (layout.zero >= 2)
            layout.zero = 1;
        ff_reaches reaches = reaches_of(r, &layout);
        ff_time_blocks blocks;
        ff_shard_params params[FF_LAYOUT_MAX_CHUNKS];
        ff_time_blocks_build(&r->cost, &layout, &reaches, &blocks);
        for (int64_t stage = 0; stage < layout.pp; stage++)
            params[stage] = ff_program_stage_params(&model, &layout, stage);
        ff_simulation_inputs inputs = {&r->cost, &layout, &reaches, FF_DETAIL_CHUNK};
        ff_simulation *simulation = ff_simulation_create(&inputs, NULL, NULL);
        double exact_s = 1e-12 * (double)ff_simulation_step_ps(simulation);
        ff_step_time time;
        ff_step_time_of(&r->cost, &layout, &reaches, &blocks, params, &time);
        assert_true(ff_simulate_pipeline(&inputs, &blocks, &time));
        double error = time.step_s / exact_s - 1;
        least = fmin(least, error);
        most = fmax(most, error);
        ff_simulation_free(simulation);
    }
    print_message("fast path against the simulation: %+.2f%% .. %+.2f%%\n", 100 * least,
                  100 * most);
    assert_true(least > -0.07 && most < 0.05);
    free(r);
}

/* A real model with communication behind layers, against the estimator. */
static void test_overlapped_spans(void **state) {
    (void)state;
    static const char *const layouts[] = {
        "tp=8,pp=4,dp=4,m=16,zero=1",          "tp=8,pp=4,vpp=4,dp=4,m=16,zero=1",
        "tp=4,pp=2,dp=16,m=8,zero=1",          "tp=8,pp=1,dp=16,m=4,zero=1",
        "tp=8,pp=8,dp=2,m=32,schedule=zb-h1",  "tp=8,pp=8,dp=2,m=32,schedule=zb-h2",
        "tp=8,pp=4,dp=4,m=16,schedule=zb-v",   "tp=8,pp=4,dp=4,m=16,schedule=dualpipe",
        "tp=1,pp=1,dp=128,m=1,zero=3",         "tp=2,pp=1,dp=64,m=4,zero=3",
        "tp=8,pp=4,dp=4,m=16,zero=2",          "tp=8,pp=4,dp=4,m=16,zero=3",
        "tp=8,pp=1,dp=16,m=64,zero=2",         "tp=2,pp=1,dp=64,m=4,zero=2",
        "tp=4,cp=4,pp=2,dp=4,m=8,zero=1",      "tp=8,pp=4,dp=4,m=16,recompute=full,zero=1",
        "tp=8,pp=8,dp=2,m=32,schedule=v-half", "tp=8,pp=4,dp=4,m=16,schedule=gpipe",
    };
    ff_model *model = preset("llama-3.1-70b");
    rig *r = rig_create(true);
    r->cost.model = model;
    r->cost.seq = 4096;
    double least = 0, most = 0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        ff_layout layout = layout_of(model, layouts[i]);
        ff_reaches reaches = reaches_of(r, &layout);
        ff_time_blocks blocks;
        ff_step_time time;
        ff_shard_params params[FF_LAYOUT_MAX_CHUNKS];
        for (int64_t stage = 0; stage < layout.pp; stage++)
            params[stage] = ff_program_stage_params(model, &layout, stage);
        ff_time_blocks_build(&r->cost, &layout, &reaches, &blocks);
        ff_step_time_of(&r->cost, &layout, &reaches, &blocks, params, &time);
        ff_simulation_inputs inputs = {&r->cost, &layout, &reaches, FF_DETAIL_OPERATOR};
        ff_simulation *simulation = ff_simulation_create(&inputs, NULL, NULL);
        double step_s = 1e-12 * (double)ff_simulation_step_ps(simulation);
        double error = time.step_s / step_s - 1;
        print_message("%-44s simulated %8.4f s, estimated %+.2f%%\n", layouts[i], step_s,
                      100 * error);
        least = fmin(least, error);
        most = fmax(most, error);
        ff_simulation_free(simulation);
    }
    print_message("estimate against simulation: %+.1f%% .. %+.1f%%\n", 100 * least, 100 * most);
    assert_true(least > -0.07 && most < 0.05);
    free(model);
    free(r);
}

/* ---- streams by hand: slow-down 10% ---- */

static ff_streams *new_streams(ff_arena *arena) {
    ff_streams *s = FF_ARENA_NEW(arena, ff_streams);
    s->arena = arena;
    s->slow_ppm = 100000;
    return s;
}

static const ff_step work = {.kind = FF_STEP_COMPUTE, .name = "work", .link = -1, .work_ps = 1000};
static const ff_step on_net = {
    .kind = FF_STEP_PUSH, .name = "gradients", .link = FF_STREAM_NETWORK, .work_ps = 500};
static const ff_step in_domain = {.kind = FF_STEP_COLLECTIVE,
                                  .name = "all-gather",
                                  .link = FF_STREAM_NETWORK,
                                  .exposure = FF_EXPOSED_TP,
                                  .exposed_ps = 100};

static void test_streams_by_hand(void **state) {
    (void)state;
    ff_arena *arena = ff_arena_create();
    ff_streams *s = new_streams(arena);
    ff_streams_run(s, &on_net); /* 500 beside 1000: 550 at 1/1.1, then 500 alone */
    ff_streams_run(s, &work);
    assert_int_equal(s->now_ps, 1050);
    assert_int_equal(s->busy_ps, 1050);
    ff_streams_drain(s);
    assert_int_equal(s->now_ps, 1050);
    s = new_streams(arena);
    for (int i = 0; i < 3; i++) /* 1500 of communication: 1000 of it beside, 1100; 500 are left */
        ff_streams_run(s, &on_net);
    ff_streams_run(s, &work);
    ff_streams_drain(s);
    assert_int_equal(s->now_ps, 1600);
    assert_int_equal(s->exposed_ps[FF_EXPOSED_DP], 500);
    s = new_streams(arena);
    ff_streams_run(s, &on_net); /* a blocking collective shares the link: 200 for 100, 400 left */
    ff_streams_run(s, &in_domain);
    assert_int_equal(s->now_ps, 200);
    assert_int_equal(s->exposed_ps[FF_EXPOSED_TP], 200);
    ff_streams_drain(s);
    assert_int_equal(s->now_ps, 600);
    s = new_streams(arena); /* idle time is free for the links */
    ff_streams_run(s, &on_net);
    ff_streams_idle_until(s, 400);
    ff_streams_run(s, &work); /* the last 100 beside it */
    assert_int_equal(s->now_ps, 400 + 1010);
    ff_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_by_hand),       cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_spans_without_overlap), cmocka_unit_test(test_fast_span),
        cmocka_unit_test(test_overlapped_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
