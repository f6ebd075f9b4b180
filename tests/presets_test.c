/* The compiled data: every model, device and system reads without an error, and a compiled tree is
 * the tree that the reader makes of the file. */
#include "presets/presets.h"

#include "input/reader.h"
#include "model/config.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fail_with(const char *what, const ff_diagnostics *findings) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        print_message("%s %s:%d:%d %s\n", d->code, d->where.file ? d->where.file : "-",
                      d->where.line, d->where.column, d->message);
    }
    fail_msg("%s", what);
}

static void same_text(const char *a, const char *b) {
    assert_true((a == NULL) == (b == NULL));
    if (a != NULL)
        assert_string_equal(a, b);
}

static void same_place(ff_place a, ff_place b) {
    assert_int_equal(a.line, b.line);
    assert_int_equal(a.column, b.column);
    assert_int_equal(a.length, b.length);
}

static int same_tree(const ff_field *a, const ff_field *b) {
    assert_int_equal(a->kind, b->kind);
    same_text(a->name, b->name);
    same_text(a->text, b->text);
    assert_int_equal(a->boolean, b->boolean);
    assert_int_equal(a->is_integer, b->is_integer);
    assert_int_equal(a->integer, b->integer);
    assert_true(a->real == b->real);
    assert_int_equal(a->count, b->count);
    same_place(a->where, b->where);
    same_place(a->name_where, b->name_where);
    int fields = 1;
    const ff_field *x = a->first, *y = b->first;
    for (; x != NULL && y != NULL; x = x->next, y = y->next)
        fields += same_tree(x, y);
    assert_true(x == NULL && y == NULL);
    return fields;
}

static char *read_file(const char *path, const char *ending, size_t *length) {
    char name[512];
    snprintf(name, sizeof name, "%s/data/%s%s", FF_SOURCE_DIR, path, ending);
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        return NULL;
    char *text = malloc(1 << 24);
    *length = fread(text, 1, 1 << 24, file);
    fclose(file);
    return text;
}

static void test_trees(void **state) {
    (void)state;
    const char *path;
    int fields = 0;
    for (int n = 0; (path = ff_preset_path("", n)) != NULL; n++) {
        size_t length;
        char *text = read_file(path, ".yaml", &length);
        if (text == NULL)
            text = read_file(path, ".json", &length);
        assert_non_null(text);
        ff_arena *arena = ff_arena_create();
        const ff_field *root;
        assert_int_equal(ff_fields_read(arena, path, text, length, NULL, &root), FF_OK);
        fields += same_tree(ff_preset_tree(path), root);
        ff_arena_free(arena);
        free(text);
    }
    assert_true(fields > 1000);
}

static void test_paths(void **state) {
    (void)state;
    assert_non_null(ff_preset_tree("devices"));
    assert_null(ff_preset_tree("device"));
    assert_null(ff_preset_tree(""));
    assert_null(ff_preset_path("no-such-folder/", 0));
    assert_null(ff_preset_path("", -1));
    assert_null(ff_preset_path("", 1 << 30));
    assert_string_equal(ff_preset_path("devices", 0), "devices");
    assert_null(ff_preset_path("devices", 1));
    for (int n = 1; ff_preset_path("", n) != NULL; n++)
        assert_true(strcmp(ff_preset_path("", n - 1), ff_preset_path("", n)) < 0);
    for (int n = 0; ff_preset_path("models/", n) != NULL; n++)
        assert_memory_equal(ff_preset_path("models/", n), "models/", 7);
}

static void test_models(void **state) {
    (void)state;
    const char *path;
    int n = 0;
    for (; (path = ff_preset_path("models/", n)) != NULL; n++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_model model;
        if (ff_model_preset(path + 7, findings, &model) != FF_OK || ff_has_errors(findings))
            fail_with(path, findings);
        assert_string_equal(model.name, path + 7);
        assert_true(model.layers > 0 && model.hidden > 0);
        ff_diagnostics_free(findings);
    }
    assert_true(n > 30);
}

static void test_clusters(void **state) {
    (void)state;
    const ff_cluster_library *library = ff_preset_cluster_library();
    int devices = 0, systems = 0;
    for (const ff_field *entry = library->devices->first; entry; entry = entry->next, devices++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_device device;
        if (ff_device_from_fields(entry, entry->name, findings, &device) != FF_OK)
            fail_with(entry->name, findings);
        ff_diagnostics_free(findings);
    }
    for (const ff_field *entry = library->clusters->first; entry; entry = entry->next, systems++) {
        ff_diagnostics *findings = ff_diagnostics_create();
        ff_cluster cluster;
        if (ff_cluster_preset(entry->name, findings, &cluster) != FF_OK)
            fail_with(entry->name, findings);
        assert_string_equal(cluster.name, entry->name);
        ff_diagnostics_free(findings);
    }
    assert_int_equal(devices, 32);
    assert_int_equal(systems, 34);
}

static void test_unknown(void **state) {
    (void)state;
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_model model;
    ff_cluster cluster;
    assert_int_equal(ff_model_preset("llama-3.1-70", findings, &model), FF_INVALID);
    const ff_diagnostic *d = ff_diagnostics_at(findings, 0);
    assert_string_equal(d->code, "FF0120");
    assert_non_null(strstr(d->help, "llama-3.1-70b"));
    assert_int_equal(ff_model_preset("", findings, &model), FF_INVALID);
    assert_int_equal(ff_model_preset("%s%n\xff", NULL, &model), FF_INVALID);
    assert_int_equal(ff_cluster_preset("16x8xh", findings, &cluster), FF_INVALID);
    ff_diagnostics_free(findings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),   cmocka_unit_test(test_paths),
        cmocka_unit_test(test_models),  cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
