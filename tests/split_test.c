/* The best cut into stages: against every cut of small models, never behind the balanced one, and
 * what the ends of a real model do to it. */
#include "cost_support.h"
#include "plan/split.h"
#include <float.h>
#include <math.h>

typedef struct rig {
    setting *s;
    ff_layout layout;
    ff_reaches reaches;
    ff_memory_blocks memory;
    ff_time_blocks time;
    ff_split_inputs in;
} rig;

static void rig_open(rig *r, setting *s, const char *text, int64_t limit_bytes) {
    ff_mesh mesh;
    r->s = s;
    r->layout = layout_of(s->model, text);
    ff_program_options options = {s->cost.seq, s->profile.kernels, 1};
    assert_int_equal(ff_layout_mesh(&r->layout, NULL, &mesh), FF_OK);
    ff_reaches_of(&mesh, &s->cluster, &r->reaches);
    ff_memory_blocks_build(s->model, &r->layout, &options, &r->memory);
    ff_time_blocks_build(&s->cost, &r->layout, &r->reaches, &r->time);
    r->in = (ff_split_inputs){&s->cost, &r->layout,  &r->memory,
                              &r->time, limit_bytes, FF_CUT_RECOMPUTES_FEWEST};
}

/* ---- a second implementation: a stage as the program cuts it, every cut ---- */

static double stage_s(const rig *r, const int *cut, int64_t stage) {
    double best = DBL_MAX;
    ff_layout layout = r->layout;
    for (int64_t i = 0; i < layout.pp; i++)
        layout.layers_of_chunk[i] = (int16_t)cut[i];
    for (int n = 0; n <= cut[stage] && best == DBL_MAX; n++) {
        ff_stage_memory memory;
        ff_chunk_content content;
        ff_stage_time time = ff_stage_time_start(&layout);
        layout.recompute = n > 0 ? FF_RECOMPUTE_FULL : FF_RECOMPUTE_NONE;
        layout.recompute_layers = n;
        ff_ledger_stage(r->s->model, &layout, r->s->cost.seq, &r->memory, &r->s->profile.runtime,
                        stage, &memory);
        ff_program_chunk(r->s->model, &layout, stage, 0, &content);
        ff_stage_time_add(r->s->model, &r->time, &content, &time);
        if (memory.total_bytes <= r->in.limit_bytes)
            best = time.forward_s + time.backward_s;
    }
    return best;
}

static double every_cut(const rig *r, int *cut, int64_t stage, int left) {
    double best = DBL_MAX;
    if (stage == r->layout.pp - 1) {
        cut[stage] = left;
        double slowest = 0;
        for (int64_t i = 0; i < r->layout.pp; i++)
            slowest = fmax(slowest, stage_s(r, cut, i));
        return slowest;
    }
    for (int n = 1; n <= left - (int)(r->layout.pp - 1 - stage); n++) {
        cut[stage] = n;
        best = fmin(best, every_cut(r, cut, stage + 1, left - n));
    }
    return best;
}

static void check_against_every_cut(setting *s, const char *text, int64_t limit_bytes) {
    rig r;
    ff_split split;
    int cut[16];
    rig_open(&r, s, text, limit_bytes);
    double best = every_cut(&r, cut, 0, s->model->layers);
    bool possible = ff_split_best(&r.in, &split);
    if (possible != (best < DBL_MAX))
        fail_msg("%s, %lld bytes: %d", text, (long long)limit_bytes, possible);
    if (possible && fabs(split.slowest_s - best) > 1e-9 * best)
        fail_msg("%s, %lld bytes: %.9g, of all cuts %.9g", text, (long long)limit_bytes,
                 split.slowest_s, best);
    int sum = 0;
    for (int64_t stage = 0; possible && stage < r.layout.pp; stage++)
        sum += split.layers[stage];
    if (possible)
        assert_int_equal(sum, s->model->layers);
}

static void test_every_cut(void **state) {
    (void)state;
    setting *s = setting_of("llama-3.1-8b", "dgx-h100", "megatron-core", 8192);
    static const char *const layouts[] = {"tp=2,pp=2,m=4", "tp=2,pp=3,m=8", "tp=1,pp=4,m=8",
                                          "tp=2,pp=4,m=8,schedule=zb-h1",
                                          "tp=2,pp=4,m=2,schedule=gpipe"};
    int possible = 0;
    s->model->layers = 9;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (int64_t gib = 4; gib <= 80; gib += gib / 4 + 1) {
            check_against_every_cut(s, layouts[i], gib << 30);
            possible++;
        }
    assert_true(possible > 40);
    setting_free(s);
}

/* With room for everything the cut is never slower than the balanced one, and the head's weight
 * takes layers from the last stage. */
static void test_real_models(void **state) {
    (void)state;
    static const struct {
        const char *model, *layout;
    } cases[] = {{"llama-3.1-405b", "tp=8,pp=16,m=32"},
                 {"llama-3.1-8b", "tp=1,pp=8,m=16"},
                 {"deepseek-v3", "tp=8,pp=8,ep=8,dp=8,m=16"},
                 {"gpt2", "tp=1,pp=4,m=8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting *s = setting_of(cases[i].model, "dgx-h100", "megatron-core", 1024);
        rig r;
        ff_split split;
        rig_open(&r, s, cases[i].layout, INT64_MAX / 8);
        assert_true(ff_split_best(&r.in, &split));
        double balanced = 0;
        int cut[64];
        for (int64_t stage = 0; stage < r.layout.pp; stage++)
            cut[stage] = r.layout.layers_of_chunk[stage];
        for (int64_t stage = 0; stage < r.layout.pp; stage++) {
            balanced = fmax(balanced, stage_s(&r, cut, stage));
            assert_int_equal(split.recomputed[stage], 0);
        }
        print_message("%-16s pp %2d: slowest stage %.2f%% of the balanced split's; first %d, last "
                      "%d\n",
                      cases[i].model, (int)r.layout.pp, 100 * split.slowest_s / balanced,
                      split.layers[0], split.layers[r.layout.pp - 1]);
        assert_true(split.slowest_s <= balanced * (1 + 1e-12));
        assert_true(split.layers[r.layout.pp - 1] <= split.layers[1]);
        ff_layout layout = ff_split_layout(&r.layout, &split);
        assert_int_equal(layout.layers_of_chunk[0], split.layers[0]);
        setting_free(s);
    }
}

/* Less memory: more is recomputed, and early stages, which hold most, recompute most. */
static void test_memory_limit(void **state) {
    (void)state;
    setting *s = setting_of("llama-3.1-8b", "dgx-h100", "megatron-core", 8192);
    double last_s = 0;
    int met = 0;
    for (int64_t gib = 79; gib >= 20; gib -= 3) {
        rig r;
        ff_split split;
        rig_open(&r, s, "tp=2,pp=4,m=16", gib << 30);
        if (!ff_split_best(&r.in, &split))
            break;
        assert_true(split.slowest_s >= last_s * (1 - 1e-12));
        last_s = split.slowest_s;
        ff_layout layout = ff_split_layout(&r.layout, &split);
        int most = 0;
        for (int stage = 0; stage < 4; stage++)
            most = split.recomputed[stage] > most ? split.recomputed[stage] : most;
        met += most > 0;
        assert_int_equal(layout.recompute, most > 0 ? FF_RECOMPUTE_FULL : FF_RECOMPUTE_NONE);
        assert_true(split.recomputed[0] >= split.recomputed[3]);
    }
    assert_true(met > 0);
    rig r;
    ff_split split;
    rig_open(&r, s, "tp=2,pp=4,m=16", 1 << 20);
    assert_false(ff_split_best(&r.in, &split));
    rig_open(&r, s, "tp=2,pp=4,vpp=2,m=16", INT64_MAX / 8);
    assert_false(ff_split_best(&r.in, &split)); /* several chunks a stage */
    setting_free(s);
}

static void assert_described(const char *text, int layers, const char *words) {
    ff_layout layout;
    char described[256];
    assert_int_equal(ff_layout_parse(text, NULL, &layout), FF_OK);
    assert_int_equal(ff_layout_derive(&layout, &(ff_layout_context){.layers = layers}, NULL),
                     FF_OK);
    ff_split_describe(&layout, described, sizeof described);
    assert_string_equal(described, words);
}

/* First and last counts where they suffice. */
static void test_description(void **state) {
    (void)state;
    assert_described("pp=8,layers=8*7/5", 61, "8 layers a stage, 5 on the last");
    assert_described("pp=4,layers=7/8*2/7", 30, "8 layers a stage, 7 on the first, 7 on the last");
    assert_described("pp=4", 32, "8 layers a stage");
    assert_described("pp=2,layers=9/7", 16, "9 layers a stage, 7 on the last");
    assert_described("pp=4,layers=7/9/8*2", 32, "7/9/8*2 by stage");
    assert_described("pp=4,recompute=full:4/2*2/0", 32,
                     "8 layers a stage; of these recomputed 2 a stage, 4 on the first, 0 on the "
                     "last");
    assert_described("pp=2,vpp=2,m=2,layers=5/4*2/3", 16, "9 layers a stage, 7 on the last");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_real_models),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
