/* What the tests of clusters share: the data read from its files, and asking for a good or a bad
 * answer. */
#ifndef TESTS_CLUSTER_FIXTURE_H
#define TESTS_CLUSTER_FIXTURE_H

#include "cluster/describe.h"

#include "input/reader.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ff_arena *arena;
static ff_cluster_library library;

static inline const ff_field *read_data(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/data/%s.yaml", FF_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char text[1 << 20];
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    const ff_field *root;
    assert_int_equal(ff_fields_read(arena, path, text, length, NULL, &root), FF_OK);
    return root;
}

static inline int set_up(void **state) {
    (void)state;
    arena = ff_arena_create();
    library =
        (ff_cluster_library){read_data("devices"), read_data("networks"), read_data("clusters")};
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    ff_arena_free(arena);
    return 0;
}

static inline void fail_with(const char *what, const ff_diagnostics *findings) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        print_message("%s %s:%d:%d %s\n", d->code, d->where.file ? d->where.file : "-",
                      d->where.line, d->where.column, d->message);
    }
    fail_msg("%s", what);
}

static inline ff_cluster good(const char *text) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_cluster cluster;
    if (ff_cluster_from_text(text, &library, findings, &cluster) != FF_OK ||
        ff_has_errors(findings))
        fail_with(text, findings);
    ff_diagnostics_free(findings);
    return cluster;
}

static inline bool has_code(const ff_diagnostics *findings, const char *code, const char *words) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        if (strcmp(d->code, code) == 0 &&
            (strstr(d->message, words) || (d->help != NULL && strstr(d->help, words))))
            return true;
    }
    return false;
}

static inline void bad(const char *text, const char *code, const char *words) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_cluster cluster;
    ff_status status = ff_cluster_from_text(text, &library, findings, &cluster);
    if (status != FF_INVALID || ff_diagnostics_count_of(findings, FF_ERROR) != 1 ||
        !has_code(findings, code, words))
        fail_with(text, findings);
    assert_int_equal(ff_cluster_from_text(text, &library, NULL, &cluster), FF_INVALID);
    ff_diagnostics_free(findings);
}

static inline void note(const char *text, const char *words) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_cluster cluster;
    assert_int_equal(ff_cluster_from_text(text, &library, findings, &cluster), FF_OK);
    if (!has_code(findings, "FF0409", words))
        fail_with(text, findings);
    ff_diagnostics_free(findings);
}

static inline void near(double value, double expected, double tolerance) {
    if (!(value >= expected * (1 - tolerance) && value <= expected * (1 + tolerance)))
        fail_msg("%.9g is not %.9g", value, expected);
}

static inline ff_status read_yaml(const char *text, ff_diagnostics *findings, ff_cluster *cluster) {
    ff_arena *own = ff_arena_create();
    const ff_field *root;
    ff_status status = ff_fields_read(own, "c.yaml", text, strlen(text), findings, &root);
    if (status == FF_OK)
        status = ff_cluster_from_fields(root, "c", &library, findings, cluster);
    ff_arena_free(own);
    return status;
}

static inline ff_cluster good_yaml(const char *text) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_cluster cluster;
    if (read_yaml(text, findings, &cluster) != FF_OK || ff_has_errors(findings))
        fail_with(text, findings);
    ff_diagnostics_free(findings);
    return cluster;
}

#endif
