/* The reader of tables: what RFC 4180 says, limits, and texts that are no table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "input/csv.h"
#include <string.h>

typedef struct reading {
    ff_arena *arena;
    ff_diagnostics *findings;
    ff_csv csv;
    ff_status status;
} reading;

static reading read_bytes(const char *text, size_t length) {
    reading r = {.arena = ff_arena_create(), .findings = ff_diagnostics_create()};
    r.status = ff_csv_read(r.arena, "t.csv", text, length, r.findings, &r.csv);
    return r;
}

static reading read_text(const char *text) {
    return read_bytes(text, strlen(text));
}

static void done(reading *r) {
    ff_diagnostics_free(r->findings);
    ff_arena_free(r->arena);
}

static void expect_cells(const char *text, int rows, int columns, const char *const *cells) {
    reading r = read_text(text);
    assert_int_equal(r.status, FF_OK);
    assert_int_equal(r.csv.rows, rows);
    assert_int_equal(r.csv.columns, columns);
    for (int i = 0; i < rows * columns; i++)
        assert_string_equal(ff_csv_at(&r.csv, i / columns, i % columns), cells[i]);
    done(&r);
}

static void test_good_tables(void **state) {
    (void)state;
    expect_cells("a,b\n1,2\n", 2, 2, (const char *[]){"a", "b", "1", "2"});
    expect_cells("a,b\r\n1,2", 2, 2, (const char *[]){"a", "b", "1", "2"});
    expect_cells("\xEF\xBB\xBF"
                 "a\n\n1\n",
                 2, 1, (const char *[]){"a", "1"});
    expect_cells("a,b\n\"x, \"\"y\"\"\",\n", 2, 2, (const char *[]){"a", "b", "x, \"y\"", ""});
    expect_cells("a,b\n\"two\nlines\",\"\"\n", 2, 2, (const char *[]){"a", "b", "two\nlines", ""});
    expect_cells(",\n,\n", 2, 2, (const char *[]){"", "", "", ""});
}

/* Lines count on inside a quoted field. */
static void test_places(void **state) {
    (void)state;
    reading r = read_text("a,b\n\"1\n2\",x\n3\n");
    assert_int_equal(r.status, FF_INVALID);
    const ff_diagnostic *d = ff_diagnostics_at(r.findings, 0);
    assert_string_equal(d->code, "FF0112");
    assert_int_equal(d->where.line, 4);
    done(&r);
}

static void expect_refused(const char *text, size_t length, const char *code) {
    reading r = read_bytes(text, length);
    assert_int_equal(r.status, FF_INVALID);
    assert_string_equal(ff_diagnostics_at(r.findings, 0)->code, code);
    done(&r);
}

static void test_no_tables(void **state) {
    (void)state;
    expect_refused("", 0, "FF0111");
    expect_refused("\n\n", 2, "FF0111");
    expect_refused("a\n\"open", 7, "FF0111");
    expect_refused("a\n\"x\"y\n", 7, "FF0111");
    expect_refused("a\nx\"y\n", 6, "FF0111");
    expect_refused("a\nx\0y\n", 6, "FF0111");
    expect_refused("a\n\"x\0y\"\n", 8, "FF0111");
    expect_refused("a,b\n1\n", 6, "FF0112");
    expect_refused("a\n1,2\n", 6, "FF0112");
    char wide[600];
    memset(wide, ',', sizeof wide);
    expect_refused(wide, sizeof wide, "FF0113");
}

/* A quoted field longer than the buffer it starts with. */
static void test_long_field(void **state) {
    (void)state;
    char text[4000] = "a\n\"";
    memset(text + 3, 'x', 3000);
    strcpy(text + 3003, "\"\n");
    reading r = read_text(text);
    assert_int_equal(r.status, FF_OK);
    assert_int_equal(strlen(ff_csv_at(&r.csv, 1, 0)), 3000);
    done(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_tables),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_no_tables),
        cmocka_unit_test(test_long_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
