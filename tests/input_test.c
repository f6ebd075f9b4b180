/* The reader: what it makes of good text, where it says faults are, and that no text breaks it. */
#include "model_support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct reading {
    ff_arena *arena;
    ff_diagnostics *findings;
    const ff_field *root;
    ff_status status;
} reading;

/* The text is copied to a block of exactly its size, so that a sanitizer sees any overrun. */
static reading read_bytes(const char *file, const char *text, size_t length) {
    reading r = {ff_arena_create(), ff_diagnostics_create(), NULL, FF_BUG};
    char *exact = malloc(length == 0 ? 1 : length);
    memcpy(exact, text, length);
    r.status = ff_fields_read(r.arena, file, exact, length, r.findings, &r.root);
    free(exact);
    return r;
}

static reading read_text(const char *file, const char *text) {
    return read_bytes(file, text, strlen(text));
}

static void end(reading *r) {
    ff_diagnostics_free(r->findings);
    ff_arena_free(r->arena);
}

static void test_json(void **state) {
    (void)state;
    reading r = read_text("a.json", "{\n\t\"a\": 1,\t\"b\": [2.5, true, null],\n \"c\": {\"d\": "
                                    "\"x\\u00e9\\ud83d\\ude00\"}, \"e\": -1e3}\n");
    assert_int_equal(r.status, FF_OK);
    const ff_field *a = ff_field_find(r.root, "a");
    assert_true(a->kind == FF_FIELD_NUMBER && a->is_integer && a->integer == 1);
    assert_true(a->where.line == 2 && a->where.column == 7 && a->where.length == 1);
    assert_true(a->name_where.line == 2 && a->name_where.column == 2);
    assert_int_equal(a->name_where.length, 3);
    assert_string_equal(a->where.line_text, "\t\"a\": 1,\t\"b\": [2.5, true, null],");
    assert_string_equal(a->where.file, "a.json");
    const ff_field *b = ff_field_find(r.root, "b");
    assert_true(b->kind == FF_FIELD_LIST && b->count == 3);
    assert_true(b->first->real == 2.5 && !b->first->is_integer);
    assert_true(b->first->next->kind == FF_FIELD_BOOL && b->first->next->boolean);
    assert_int_equal(b->first->next->next->kind, FF_FIELD_NULL);
    const ff_field *d = ff_field_find(ff_field_find(r.root, "c"), "d");
    assert_string_equal(d->text, "x\xc3\xa9\xf0\x9f\x98\x80");
    const ff_field *e = ff_field_find(r.root, "e");
    assert_true(e->is_integer && e->integer == -1000);
    end(&r);
}

static void test_yaml(void **state) {
    (void)state;
    reading r = read_text("a.yaml", "# cluster\nname: big\nmemory: 40GiB\ntiers:\n  - size: 8\n"
                                    "    rate: 900e9\n  - {size: 72, on: yes}\nempty:\n");
    assert_int_equal(r.status, FF_OK);
    assert_int_equal(r.root->count, 4);
    assert_string_equal(ff_field_find(r.root, "memory")->text, "40GiB");
    assert_int_equal(ff_field_find(r.root, "memory")->kind, FF_FIELD_TEXT);
    assert_int_equal(ff_field_find(r.root, "empty")->kind, FF_FIELD_NULL);
    const ff_field *tier = ff_field_find(r.root, "tiers")->first;
    assert_true(ff_field_find(tier, "rate")->integer == 900000000000);
    assert_true(ff_field_find(tier, "rate")->where.line == 6);
    assert_int_equal(ff_field_find(tier->next, "on")->kind, FF_FIELD_TEXT);
    assert_int_equal(ff_field_find(tier->next, "size")->integer, 72);
    end(&r);
}

static void test_numbers(void **state) {
    (void)state;
    static const struct number {
        const char *text;
        ff_field_kind kind;
        bool is_integer;
        double real;
    } numbers[] = {
        {"4096", FF_FIELD_NUMBER, true, 4096},
        {"-3", FF_FIELD_NUMBER, true, -3},
        {"4096.0", FF_FIELD_NUMBER, false, 4096},
        {"1e3", FF_FIELD_NUMBER, true, 1000},
        {"1e-3", FF_FIELD_NUMBER, false, 0.001},
        {"9223372036854775807", FF_FIELD_NUMBER, true, 9223372036854775807.0},
        {"9223372036854775808", FF_FIELD_NUMBER, false, 9223372036854775808.0},
        {"1e30", FF_FIELD_NUMBER, false, 1e30},
        {"1e999", FF_FIELD_TEXT, false, 0},
        {"NaN", FF_FIELD_TEXT, false, 0},
        {"-Infinity", FF_FIELD_TEXT, false, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"n\": %s}", numbers[i].text);
        reading r = read_text("a.json", text);
        assert_int_equal(r.status, FF_OK);
        const ff_field *n = ff_field_find(r.root, "n");
        assert_int_equal(n->kind, numbers[i].kind);
        assert_int_equal(n->is_integer, numbers[i].is_integer);
        assert_true(n->real == numbers[i].real);
        assert_string_equal(n->text, numbers[i].text);
        end(&r);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct refusal {
        const char *file, *text, *code;
        int line, column;
    } refusals[] = {
        {"a.json", "", "FF0101", 1, 1},
        {"a.json", " \n\t\n", "FF0101", 1, 1},
        {"a.yaml", "# nothing\n", "FF0101", 1, 1},
        {"a.yaml", "word\n", "FF0101", 1, 1},
        {"a.json", "{\"a\": 1", "FF0101", 1, 8},
        {"a.json", "{\"a\": 1,\n \"b\": 2,\n", "FF0101", 3, 1},
        {"a.json", "{\"a\": 1 \"b\": 2}", "FF0101", 1, 7},
        {"a.json", "{\"a\": 1,\n \"b\" 2}", "FF0101", 2, 2},
        {"a.json", "{\"a\": tru}", "FF0101", 1, 7},
        {"a.json", "{a: 1}", "FF0101", 1, 2},
        {"a.json", "{\"a\": \"\\q\"}", "FF0101", 1, 8},
        {"a.json", "{\"a\": \"x\\u0000y\"}", "FF0101", 1, 7},
        {"a.json", "{\"a\\n\": 1}", "FF0101", 1, 2},
        {"a.json", "{\"a\": 1}\n{\"b\": 2}", "FF0101", 2, 1},
        {"a.yaml", "a: 1\n---\nb: 2\n", "FF0101", 2, 1},
        {"a.yaml", "a: 1\nb: \xff\xfe\n", "FF0101", 2, 4},
        {"a.yaml", "a: \xc0\xaf\n", "FF0101", 1, 4},
        {"a.yaml", "a: \x01\n", "FF0101", 1, 4},
        {"a.yaml", "a: b: c\n", "FF0101", 1, 5},
        {"a.yaml", "a: !!int 3\n", "FF0101", 1, 4},
        {"a.yaml", "[1, 2]: 3\n", "FF0101", 1, 1},
        {"a.yaml", "a: &x 1\nb: *x\n", "FF0105", 1, 5},
        {"a.yaml", "a: *x\n", "FF0105", 1, 5},
        {"a.yaml", "a: 1\n<<: {b: 2}\n", "FF0105", 2, 1},
        {"a.json", "{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", "FF0106", 3, 2},
        {"a.yaml", "x:\n  a: 1\n  a: 1\n", "FF0106", 3, 3},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *want = &refusals[i];
        reading r = read_text(want->file, want->text);
        assert_int_equal(r.status, FF_INVALID);
        assert_null(r.root);
        assert_int_equal(ff_diagnostics_count(r.findings), 1);
        const ff_diagnostic *d = ff_diagnostics_at(r.findings, 0);
        if (strcmp(d->code, want->code) != 0 || d->where.line != want->line ||
            d->where.column != want->column)
            fail_msg("case %zu: %s at %d:%d: %s", i, d->code, d->where.line, d->where.column,
                     d->message);
        end(&r);
    }
}

static void expect_code(reading r, const char *code) {
    assert_int_equal(r.status, FF_INVALID);
    assert_int_equal(ff_diagnostics_count(r.findings), 1);
    assert_string_equal(ff_diagnostics_at(r.findings, 0)->code, code);
    end(&r);
}

/* `count` copies of a piece, in a new block. */
static char *repeat(const char *piece, size_t count) {
    size_t length = strlen(piece);
    char *text = malloc(length * count + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, piece, length);
    text[length * count] = '\0';
    return text;
}

static void test_limits(void **state) {
    (void)state;
    static const struct hostile {
        const char *piece;
        size_t count;
        const char *code;
    } hostiles[] = {
        {"[", 65, "FF0103"},
        {"[", 16 << 20, "FF0104"},
        {"{\"a\":", 100000, "FF0103"},
        {"[1,1,1,", 2 << 20, "FF0104"},
        {"- ", 4 << 20, "FF0103"},
        {"- 1\n", 100000, "FF0104"},
        {"a", (16 << 20) + 1, "FF0102"},
        {"&a ", 1 << 20, "FF0104"},
        {"\"", 1 << 20, "FF0101"},
        {"? ", 1 << 20, "FF0101"},
        {"#", 16 << 20, "FF0101"},
        {"\n", 16 << 20, "FF0101"},
    };
    for (size_t i = 0; i < sizeof hostiles / sizeof *hostiles; i++) {
        char *text = repeat(hostiles[i].piece, hostiles[i].count);
        expect_code(read_text("a.yaml", text), hostiles[i].code);
        free(text);
    }
    char nested[129] = {0};
    memset(nested, '[', 64);
    memset(nested + 64, ']', 64);
    reading deep = read_text("a.json", nested);
    assert_int_equal(deep.status, FF_OK);
    end(&deep);
    expect_code(read_bytes("a.json", "{\"a\":\0 1}", 9), "FF0101");
}

/* 60,000 keys, all different but the last: found without comparing each with each. */
static void test_many_keys(void **state) {
    (void)state;
    enum { KEYS = 60000 };
    char *text = malloc(KEYS * 16);
    size_t length = 0;
    for (int i = 0; i < KEYS; i++)
        length += (size_t)sprintf(text + length, "k%d: 1\n", i == KEYS - 1 ? 77 : i);
    reading r = read_bytes("a.yaml", text, length);
    assert_int_equal(r.status, FF_INVALID);
    assert_string_equal(ff_diagnostics_at(r.findings, 0)->code, "FF0106");
    assert_int_equal(ff_diagnostics_at(r.findings, 0)->where.line, KEYS);
    end(&r);
    free(text);
}

static void test_bom_and_crlf(void **state) {
    (void)state;
    reading r = read_text("a.json", "\xef\xbb\xbf{\r\n \"a\": 1\r\n}\r\n");
    assert_int_equal(r.status, FF_OK);
    const ff_field *a = ff_field_find(r.root, "a");
    assert_true(a->where.line == 2 && a->where.column == 7);
    assert_string_equal(a->where.line_text, " \"a\": 1");
    end(&r);
}

static void test_getters(void **state) {
    (void)state;
    reading r =
        read_text("a.json", "{\"n\": 12, \"t\": \"12\", \"f\": 1.5, \"b\": true, \"z\": null,"
                            " \"big\": 99999999999999999999, \"l\": []}");
    int64_t n = 0;
    double real = 0;
    bool flag = false;
    const char *text = NULL;
    assert_true(ff_field_get_integer(r.root, "n", 1, 12, r.findings, &n) && n == 12);
    assert_true(ff_field_get_real(r.root, "n", 0, 20, r.findings, &real) && real == 12);
    assert_true(ff_field_get_boolean(r.root, "b", r.findings, &flag) && flag);
    assert_true(ff_field_get_text(r.root, "t", r.findings, &text));
    assert_false(ff_field_get_integer(r.root, "absent", 1, 12, r.findings, &n));
    assert_false(ff_field_get_integer(r.root, "z", 1, 12, r.findings, &n));
    assert_int_equal(ff_diagnostics_count(r.findings), 0);
    static const char *const codes[] = {"FF0109", "FF0108", "FF0108", "FF0109",
                                        "FF0108", "FF0108", "FF0109"};
    assert_false(ff_field_get_integer(r.root, "n", 13, 20, r.findings, &n));
    assert_false(ff_field_get_integer(r.root, "t", 1, 20, r.findings, &n));
    assert_false(ff_field_get_integer(r.root, "f", 1, 20, r.findings, &n));
    assert_false(ff_field_get_integer(r.root, "big", 1, 20, r.findings, &n));
    assert_false(ff_field_get_boolean(r.root, "n", r.findings, &flag));
    assert_false(ff_field_get_text(r.root, "l", r.findings, &text));
    assert_false(ff_field_get_real(r.root, "f", 2, 3, r.findings, &real));
    assert_int_equal(ff_diagnostics_count(r.findings), 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(ff_diagnostics_at(r.findings, i)->code, codes[i]);
    assert_string_equal(ff_diagnostics_at(r.findings, 0)->help, "nearest legal: 13");
    assert_int_equal(n, 12);
    /* Ranges are written as one would type them. */
    assert_false(ff_field_get_real(r.root, "f", 2, 1048576, r.findings, &real));
    assert_string_equal(ff_diagnostics_at(r.findings, 7)->message,
                        "\"f\" is 1.5; it must be from 2 to 1048576");
    assert_false(ff_field_get_real(r.root, "n", 0.001, 1.1, r.findings, &real));
    assert_non_null(strstr(ff_diagnostics_at(r.findings, 8)->message, "from 0.001 to 1.1"));
    end(&r);
}

static void test_missing_and_unknown(void **state) {
    (void)state;
    static const char *const known[] = {"size", "hidden_size", NULL};
    reading r = read_text("a.json", "{\"size\": 1,\n \"hiden_size\": 2, \"zzz\": 3}");
    ff_field_report_missing(r.root, "hidden_size", r.findings);
    ff_field_report_missing(r.root, "vocab_size", r.findings);
    ff_field_report_unknown(r.root, known, r.findings);
    assert_int_equal(ff_diagnostics_count(r.findings), 4);
    const ff_diagnostic *d = ff_diagnostics_at(r.findings, 0);
    assert_string_equal(d->code, "FF0107");
    assert_true(d->where.line == 2 && d->where.column == 2 && d->where.length == 12);
    assert_string_equal(d->help, "did you mean \"hidden_size\"?");
    d = ff_diagnostics_at(r.findings, 1);
    assert_string_equal(d->code, "FF0110");
    assert_true(d->where.line == 1 && d->where.column == 1);
    assert_string_equal(ff_diagnostics_at(r.findings, 2)->help, "did you mean \"hidden_size\"?");
    assert_null(ff_diagnostics_at(r.findings, 3)->help);
    end(&r);
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Whatever the bytes: an answer, and a reason when it is no. */
static void check_any(const char *text, size_t length) {
    reading r = read_bytes("config.json", text, length);
    if (r.status == FF_OK) {
        ff_model *model = malloc(sizeof *model);
        ff_status status = ff_model_from_config(r.root, "mutant", r.findings, model);
        assert_true(status == FF_OK || (status == FF_INVALID && ff_has_errors(r.findings)));
        free(model);
    } else {
        assert_int_equal(r.status, FF_INVALID);
        assert_null(r.root);
        assert_true(ff_diagnostics_count(r.findings) >= 1);
        assert_true(ff_diagnostics_at(r.findings, 0)->where.line >= 1);
    }
    end(&r);
}

static void mutate_file(const char *path, uint32_t *seed) {
    size_t length = 0;
    char *text = load_file(path, &length);
    assert_non_null(text);
    for (size_t cut = 0; cut < length; cut += 7)
        check_any(text, cut);
    for (int round = 0; round < 40; round++) {
        char *mutant = malloc(length);
        memcpy(mutant, text, length);
        for (uint32_t flips = 1 + next_random(seed) % 4; flips > 0; flips--)
            mutant[next_random(seed) % length] ^= (char)(1 << next_random(seed) % 8);
        check_any(mutant, length);
        free(mutant);
    }
    free(text);
}

static void test_mutations(void **state) {
    (void)state;
    char path[512];
    uint32_t seed = 5;
    int files = 0;
    snprintf(path, sizeof path, "%s/data/models", FF_SOURCE_DIR);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        snprintf(path, sizeof path, "data/models/%.200s", entry->d_name);
        mutate_file(path, &seed);
        files++;
    }
    closedir(directory);
    assert_true(files >= 36);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_bom_and_crlf),
        cmocka_unit_test(test_getters),
        cmocka_unit_test(test_missing_and_unknown),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
