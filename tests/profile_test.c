/* Profiles and physics: every file of data/ loads, every generation of device has its physics, and
 * what is out of range, unknown or missing is refused at its place. */
#include "base/text.h"
#include "cost/physics.h"
#include "cost/profile.h"
#include "layout/recipe.h"
#include "model_support.h"
#include "step_support.h"

static ff_arena *arena;

static const ff_field *read(const char *text) {
    const ff_field *root;
    assert_int_equal(ff_fields_read(arena, "test.yaml", text, strlen(text), NULL, &root), FF_OK);
    return root;
}

/* A file of data/ with the line that begins with `key` replaced (NULL: none); its number goes to
 * *line. An empty replacement leaves the line out. */
static const ff_field *altered(const char *path, const char *key, const char *replacement,
                               int *line) {
    size_t length;
    char *text = load_file(path, &length), *rest = text;
    ff_text out = {0};
    int number = 0;
    *line = 0;
    for (char *at; (at = strsep(&rest, "\n")) != NULL;) {
        bool here = key != NULL && *line == 0 && strncmp(at, key, strlen(key)) == 0;
        number++;
        if (here)
            *line = number;
        ff_text_printf(&out, "%s\n", here ? replacement : at);
    }
    const ff_field *root = read(out.bytes);
    free(out.bytes);
    free(text);
    return root;
}

static const char profile_file[] = "data/profiles/megatron-core.yaml";

static void test_a_profile(void **state) {
    (void)state;
    ff_profile p;
    int line;
    const ff_field *root = altered(profile_file, "step_fixed_ms", "step_fixed_ms: 40", &line);
    assert_int_equal(ff_profile_from_fields(root, "mine", NULL, &p), FF_OK);
    assert_string_equal(p.name, "mine");
    assert_true(p.step_fixed_s == 40e-3);
    root = altered(profile_file, "kernel_launch_us", "kernel_launch_us: 8", &line);
    assert_int_equal(ff_profile_from_fields(root, "mine", NULL, &p), FF_OK);
    assert_true(p.kernel_launch_s > 7.99e-6 && p.kernel_launch_s < 8.01e-6);
    root = altered(profile_file, "context_MiB", "context_MiB: 512", &line);
    assert_int_equal(ff_profile_from_fields(root, "mine", NULL, &p), FF_OK);
    assert_int_equal(p.runtime.context_bytes, 512 * 1024 * 1024);
    root = altered(profile_file, "  fused_loss", "  fused_loss: false", &line);
    assert_int_equal(ff_profile_from_fields(root, "mine", NULL, &p), FF_OK);
    assert_true(p.kernels.flash_attention && p.kernels.fused_norm && !p.kernels.fused_loss);
}

static void assert_refused(const char *key, const char *replacement, const char *word,
                           bool at_line) {
    ff_profile p;
    int line;
    const ff_field *root = altered(profile_file, key, replacement, &line);
    ff_diagnostics *findings = ff_diagnostics_create();
    assert_true(line > 0);
    assert_int_equal(ff_profile_from_fields(root, "mine", findings, &p), FF_INVALID);
    bool found = false;
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        found |= strstr(d->message, word) != NULL && (!at_line || d->where.line == line);
    }
    if (!found)
        fail_msg("%s: nothing about %s", replacement, word);
    ff_diagnostics_free(findings);
}

static void test_bad_profiles(void **state) {
    (void)state;
    const char *const clock = "gemm_clock_ratio", *const host = "host_ms_per_layer";
    assert_refused(clock, "gemm_clock_ratio: 1.5", clock, true);
    assert_refused(clock, "gemm_clock_ratio: 0", clock, true);
    assert_refused(clock, "gemm_clock_ratio: fast", clock, true);
    assert_refused(host, "host_ms_per_layer: -1", host, true);
    assert_refused("gradient_overlap_ratio", "gradient_overlap_ratio: 1.01", "overlap", true);
    assert_refused("context_MiB", "context_MiB: -1", "context_MiB", true);
    assert_refused("context_MiB", "context_MiB: 1.5", "context_MiB", true);
    assert_refused("fragmentation_ratio", "fragmentation_ratio: 0.9", "fragmentation", true);
    assert_refused("about", "abouts_of_it: none", "abouts_of_it", true);
    assert_refused("  fused_norm", "  fused_norms_all: true", "fused_norms_all", true);
    assert_refused("  fused_norm", "  fused_norm: 3", "fused_norm", true);
    assert_refused("step_fixed_ms", "", "step_fixed_ms", false);
    assert_refused("workspace_MiB", "", "workspace_MiB", false);
    ff_profile p;
    assert_int_equal(ff_profile_from_fields(read("[1, 2]"), "mine", NULL, &p), FF_INVALID);
}

static void test_preset_profiles(void **state) {
    (void)state;
    int n = 0;
    const char *path;
    for (; (path = ff_preset_path("profiles/", n)) != NULL; n++) {
        ff_profile p;
        ff_diagnostics *findings = ff_diagnostics_create();
        assert_int_equal(ff_profile_from_fields(ff_preset_tree(path), path, findings, &p), FF_OK);
        assert_int_equal(ff_diagnostics_count(findings), 0);
        assert_true(p.about[0] != 0);
        ff_diagnostics_free(findings);
    }
    assert_true(n >= 4);
}

/* --- physics --- */

static ff_status physics_of(const ff_field *shares, const char *generation,
                            ff_diagnostics *findings, ff_physics *physics) {
    ff_physics_data data = ff_physics_presets();
    ff_device device = {0};
    data.shares = shares;
    snprintf(device.generation, sizeof device.generation, "%s", generation);
    return ff_physics_of_device(&data, &device, findings, physics);
}

static ff_status preset_physics(const char *generation, ff_physics *physics) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_status status = physics_of(ff_preset_tree("physics"), generation, findings, physics);
    ff_diagnostics_free(findings);
    return status;
}

static void assert_complete(const ff_physics *p) {
    for (int dtype = 0; dtype < FF_DTYPE_COUNT; dtype++)
        assert_true(p->gemm[dtype].peak_ratio > 0 && p->gemm[dtype].peak_ratio <= 1.1);
    assert_true(p->attention_forward.ratio > 0 && p->attention_forward.ratio <= 1);
    assert_true(p->attention_backward.ratio > 0 && p->memory_ratio > 0);
    assert_true(p->collective.link_ratio > 0 && p->collective.chunk_s > 0);
    assert_true(p->sustained_ratio > 0 && p->flash_1_ratio > 0 && p->flash_2_ratio > 0);
}

/* Each generation has its own entry; only bare devices, and those of no known one, take "other". */
static void test_physics_of_every_device(void **state) {
    (void)state;
    const ff_field *entries = ff_field_find(ff_preset_tree("physics"), "generations");
    const ff_field *devices = ff_preset_tree("devices");
    for (const ff_field *d = devices->first; d != NULL; d = d->next) {
        const char *generation = NULL;
        ff_physics physics;
        assert_true(ff_field_get_text(d, "generation", NULL, &generation));
        if (strcmp(generation, "bare") != 0 && ff_field_find(entries, generation) == NULL)
            fail_msg("%s: no physics for %s", d->name, generation);
        assert_int_equal(preset_physics(generation, &physics), FF_OK);
        assert_complete(&physics);
    }
    ff_physics own, other;
    assert_int_equal(preset_physics("hopper", &own), FF_OK);
    assert_int_equal(preset_physics("no such thing", &other), FF_OK);
    assert_complete(&other);
    assert_true(own.sustained_ratio != other.sustained_ratio); /* its own */
    assert_true(own.flash_1_ratio == other.flash_1_ratio);     /* common */
    assert_int_equal(preset_physics("volta", &own), FF_OK);    /* no bf16 of its own */
    assert_true(own.gemm[FF_DTYPE_BF16].peak_ratio == other.gemm[FF_DTYPE_BF16].peak_ratio);
    assert_true(own.gemm[FF_DTYPE_FP16].peak_ratio != other.gemm[FF_DTYPE_FP16].peak_ratio);
}

/* The data file with one more generation in front. */
static void assert_physics_refused(const char *figures, const char *word) {
    char lines[256];
    ff_physics physics;
    ff_diagnostics *findings = ff_diagnostics_create();
    int line;
    snprintf(lines, sizeof lines, "generations:\n  new: {%s}", figures);
    const ff_field *root = altered("data/physics.yaml", "generations:", lines, &line);
    assert_int_equal(physics_of(root, "new", findings, &physics), FF_INVALID);
    assert_int_equal(ff_diagnostics_count(findings), 1);
    assert_int_equal(ff_diagnostics_at(findings, 0)->where.line, line + 1);
    assert_non_null(strstr(ff_diagnostics_at(findings, 0)->message, word));
    ff_diagnostics_free(findings);
}

static void test_bad_physics(void **state) {
    (void)state;
    ff_physics physics;
    ff_diagnostics *findings = ff_diagnostics_create();
    int line;
    assert_physics_refused("gemm_bf16: 1.2", "gemm_bf16");
    assert_physics_refused("gemm_bf16: 0", "gemm_bf16");
    assert_physics_refused("memory: -1", "memory");
    assert_physics_refused("flash_1: quick", "flash_1");
    assert_physics_refused("gemm_b16: 0.7", "gemm_b16");
    const ff_field *root = altered("data/physics.yaml", "  flash_1", "", &line);
    assert_int_equal(physics_of(root, "hopper", findings, &physics), FF_INVALID);
    root = read("common: {flash_1: 0.5}\n");
    assert_int_equal(physics_of(root, "hopper", findings, &physics), FF_INVALID);
    ff_diagnostics_free(findings);
}

static int set_up(void **state) {
    (void)state;
    arena = ff_arena_create();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ff_arena_free(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_profile),       cmocka_unit_test(test_bad_profiles),
        cmocka_unit_test(test_preset_profiles), cmocka_unit_test(test_physics_of_every_device),
        cmocka_unit_test(test_bad_physics),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
