/* Rendering: units worked by hand, JSON escapes and numbers, tables and documents at 80 columns,
 * diagnostics with carets, and golden texts of a small made-up plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/diagnose.h"
#include "base/fact.h"
#include "base/number.h"
#include "base/units.h"
#include "output/lines.h"
#include "output/render.h"
#include "output/table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ff_look plain80 = {.columns = 80, .colour = false, .unicode = true};
static const ff_look ascii80 = {.columns = 80, .colour = false, .unicode = false};
static const ff_look wide = {.columns = 120, .colour = false, .unicode = true};
static const ff_look coloured = {.columns = 80, .colour = true, .unicode = true};

#define GIB (1024.0 * 1024.0 * 1024.0)

static void units_follow_the_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double value;
        const char *expected;
    } cases[] = {
        {"peak_bytes", 63.2 * GIB, "63.2 GiB"},
        {"peak_bytes", 1051.0 * GIB, "1,051 GiB"},
        {"bytes", 512.0, "512 B"},
        {"bytes", 0.0, "0 B"},
        {"bytes", 1536.0, "1.50 KiB"},
        {"bytes", 50.3 * 1024 * 1024, "50.3 MiB"},
        {"bytes", 1024.0 * 1024.0, "1.00 MiB"},
        {"bytes", GIB - 1.0, "1.00 GiB"},
        {"bytes", (double)FF_SATURATED, "far too many"},
        {"step_s", 8.914, "8.91 s"},
        {"step_s", 0.14, "140 ms"},
        {"step_s", 2.5e-6, "2.50 us"},
        {"step_s", 0.9996, "1.00 s"},
        {"step_s", 0.0, "0 s"},
        {"step_s", 1234.5, "1,235 s"},
        {"latency_s", 5e-10, "0.500 ns"},
        {"link_Bps", 450e9, "450 GB/s"},
        {"memory_Bps", 3.35e12, "3,350 GB/s"},
        {"bf16_flops", 989.4e12, "989 TFLOP/s"},
        {"fwd_flop", 1.5e15, "1.50 PFLOP"},
        {"gbs_tokens", 4e6, "4.00 M"},
        {"gbs_tokens", 3998000.0, "4.00 M"},
        {"seq_tokens", 4096, "4,096"},
        {"total_params", 70553706496.0, "70.55 B"},
        {"tokens_per_s_per_device", 3508.2, "3,508"},
        {"tokens_per_s", 3508.2, "3,508"},
        {"mfu", 0.4312, "43.1%"},
        {"bubble_ratio", 0.004, "0.4%"},
        {"bubble_ratio", 0.0001, "<0.1%"},
        {"over_ratio", 13.2, "1,320%"},
        {"over_ratio", 0.0, "0.0%"},
        {"model_tflops_per_device", 426.4, "426"},
        {"ratio_of_two", 99.96, "100"},
        {"x", 9.999, "10.0"},
        {"x", -0.15, "-0.150"},
        {"x", 0.0, "0.00"},
        {"x", 1e300, "far too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[FF_VALUE_BYTES];
        assert_string_equal(ff_format_number(cases[i].name, cases[i].value, text, sizeof text),
                            cases[i].expected);
    }
}

static void integers_are_separated_and_exact(void **state) {
    (void)state;
    char text[FF_VALUE_BYTES];
    assert_string_equal(ff_format_integer(0, text, sizeof text), "0");
    assert_string_equal(ff_format_integer(999, text, sizeof text), "999");
    assert_string_equal(ff_format_integer(412806, text, sizeof text), "412,806");
    assert_string_equal(ff_format_integer(-1234567, text, sizeof text), "-1,234,567");
    assert_string_equal(ff_format_integer(-123, text, sizeof text), "-123");
    assert_string_equal(ff_format_integer(INT64_MAX, text, sizeof text),
                        "9,223,372,036,854,775,807");
}

/* Whatever the value, three significant digits are within half a unit of the third. */
static void three_digits_are_near(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double value = ldexp((double)(seed >> 11), (int)(seed % 40) - 70);
        char text[FF_VALUE_BYTES], digits[FF_VALUE_BYTES];
        ff_format_significant(value, text, sizeof text);
        char *to = digits;
        for (const char *c = text; *c != '\0'; c++)
            if (*c != ',')
                *to++ = *c;
        *to = '\0';
        double error = fabs(strtod(digits, NULL) - value);
        assert_true(error <= fmax(0.00501 * value, 1e-12));
    }
}

static ff_facts *awkward_facts(void) {
    ff_facts *facts = ff_facts_create();
    ff_facts_add_text(facts, "escapes", "%s", "a\"b\\c\n\t\x01\x7f");
    ff_facts_add_text(facts, "utf8", "%s", "…×é");
    ff_facts_add_text(facts, "broken", "%s", "a\xff\xc3(\xed\xa0\x80z");
    ff_facts_add_integer(facts, "big", INT64_MAX);
    ff_facts_add_real(facts, "tenth", 0.1);
    ff_facts_add_real(facts, "third", 1.0 / 3.0);
    ff_facts_add_real(facts, "five", 5.0);
    ff_facts_add_real(facts, "huge", 1e300);
    ff_facts_add_real(facts, "nan", NAN);
    ff_facts_add_boolean(facts, "yes", true);
    ff_facts_open_list(facts, "list");
    ff_facts_add_integer(facts, NULL, 1);
    ff_facts_add_integer(facts, NULL, 2);
    ff_facts_close(facts);
    ff_facts_open_list(facts, "empty");
    ff_facts_close(facts);
    ff_facts_open_record(facts, "record");
    ff_facts_add_null(facts, "none");
    ff_facts_close(facts);
    return facts;
}

static void json_is_exact_and_valid(void **state) {
    (void)state;
    ff_facts *facts = awkward_facts();
    ff_text out = {0};
    ff_render_json(ff_facts_root(facts), &out);
    assert_string_equal(ff_text_bytes(&out),
                        "{\n"
                        "  \"escapes\": \"a\\\"b\\\\c\\n\\t\\u0001\\u007f\",\n"
                        "  \"utf8\": \"…×é\",\n"
                        "  \"broken\": \"a\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffdz\",\n"
                        "  \"big\": 9223372036854775807,\n"
                        "  \"tenth\": 0.1,\n"
                        "  \"third\": 0.3333333333333333,\n"
                        "  \"five\": 5.0,\n"
                        "  \"huge\": 1e+300,\n"
                        "  \"nan\": null,\n"
                        "  \"yes\": true,\n"
                        "  \"list\": [1, 2],\n"
                        "  \"empty\": [],\n"
                        "  \"record\": {\n"
                        "    \"none\": null\n"
                        "  }\n"
                        "}\n");
    ff_text_free(&out);
    ff_facts_free(facts);
}

/* A small made-up answer of plan: two plans, one with a layout wider than any room. */
static void add_plan(ff_facts *facts, int rank, const char *layout, double gib,
                     const char *verdict) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_integer(facts, "rank", rank);
    ff_facts_add_text(facts, "layout", "%s", layout);
    ff_facts_add_text(facts, "verdict", "%s", verdict);
    ff_facts_open_record(facts, "memory");
    ff_facts_add_integer(facts, "peak_bytes", (int64_t)(gib * GIB));
    ff_facts_add_integer(facts, "capacity_bytes", (int64_t)(80 * GIB));
    ff_facts_close(facts);
    ff_facts_open_record(facts, "time");
    ff_facts_add_real(facts, "step_s", 8.91);
    ff_facts_close(facts);
    ff_facts_add_real(facts, "tokens_per_s_per_device", 3508.0);
    ff_facts_add_real(facts, "mfu", 0.431);
    ff_facts_close(facts);
}

static void add_text_list(ff_facts *facts, const char *list, const char *name, const char *text) {
    ff_facts_open_list(facts, list);
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, name, "%s", text);
    ff_facts_close(facts);
    ff_facts_close(facts);
}

static ff_facts *small_plan(const char *second_layout) {
    ff_facts *facts = ff_facts_create();
    ff_facts_open_record(facts, "inputs");
    ff_facts_add_integer(facts, "seq_tokens", 4096);
    ff_facts_add_integer(facts, "gbs_tokens", 4000000);
    ff_facts_add_text(facts, "profile", "megatron-core");
    ff_facts_close(facts);
    ff_facts_open_record(facts, "model");
    ff_facts_add_text(facts, "name", "llama-3.1-70b");
    ff_facts_add_integer(facts, "params_total", 70553706496);
    ff_facts_add_integer(facts, "params_active", 70553706496);
    ff_facts_add_integer(facts, "layers", 80);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "search");
    ff_facts_add_integer(facts, "considered", 412806);
    ff_facts_add_integer(facts, "illegal", 96114);
    ff_facts_add_integer(facts, "pruned", 0);
    ff_facts_add_integer(facts, "too_big", 201377);
    ff_facts_add_integer(facts, "estimated", 115315);
    ff_facts_add_real(facts, "elapsed_s", 0.21);
    ff_facts_close(facts);
    ff_facts_open_list(facts, "plans");
    add_plan(facts, 1, "dp=16,tp=4,pp=2,zero=1,mbs=1,vpp=4", 63.2, "fits");
    add_plan(facts, 2, second_layout, 71.9, "tight");
    ff_facts_close(facts);
    ff_facts_open_list(facts, "steps");
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "step", "fit");
    ff_facts_add_text(facts, "text",
                      "tp=4 and pp=2 bring states to 31.0 GiB; stage 0 holds 2 "
                      "microbatches in flight (20.4 GiB)");
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "against");
    ff_facts_add_integer(facts, "first", 1);
    ff_facts_add_integer(facts, "second", 2);
    ff_facts_add_real(facts, "total_s", -0.15);
    ff_facts_open_list(facts, "terms");
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "term", "TP");
    ff_facts_add_real(facts, "delta_s", -0.41);
    ff_facts_close(facts);
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "term", "bubble");
    ff_facts_add_real(facts, "delta_s", 0.26);
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_facts_close(facts);
    add_text_list(facts, "next", "text",
                  "fivefold explain llama-3.1-70b 16x8xh100-80gb-sxm "
                  "dp=16,tp=4,pp=2,zero=1,mbs=1,vpp=4 memory");
    return facts;
}

static void plan_reads_as_it_should(void **state) {
    (void)state;
    ff_facts *facts = small_plan("dp=16,tp=8,zero=1,mbs=1");
    ff_text out = {0};
    ff_render_plan(ff_facts_root(facts), &plain80, &out);
    assert_string_equal(
        ff_text_bytes(&out),
        "\n"
        "  model     llama-3.1-70b: 70.55 B parameters, 80 layers\n"
        "  batch     4.00 M tokens, 977 sequences of 4,096\n"
        "  profile   megatron-core\n"
        "  searched  412,806 layouts in 210 ms: 96,114 illegal, 201,377 too big, 115,315\n"
        "            priced\n"
        "\n"
        "  #  layout                         s/step  tok/s/dev    MFU  peak memory\n"
        "  1  dp=16,tp=4,pp=2,zero=1,mbs=1,vpp=4\n"
        "                                      8.91      3,508  43.1%     63.2 GiB  fits\n"
        "  2  dp=16,tp=8,zero=1,mbs=1          8.91      3,508  43.1%     71.9 GiB  tight\n"
        "\n"
        "  why 1  1 fit  tp=4 and pp=2 bring states to 31.0 GiB; stage 0 holds 2\n"
        "                microbatches in flight (20.4 GiB)\n"
        "  1 v 2  -0.15 s a step: TP -0.41, bubble +0.26\n"
        "\n"
        "  next   fivefold explain llama-3.1-70b 16x8xh100-80gb-sxm \\\n"
        "           dp=16,tp=4,pp=2,zero=1,mbs=1,vpp=4 memory\n"
        "\n");
    ff_text_free(&out);
    ff_render_plan(ff_facts_root(facts), &wide, &out);
    assert_non_null(strstr(ff_text_bytes(&out), "3,508  43.1%     63.2 GiB  ███████▉"));
    ff_text_free(&out);
    ff_facts_free(facts);
}

/* The widest line of a text, in columns. */
static int widest_line(const char *text) {
    int widest = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char line[4096];
        assert_true(length < sizeof line);
        memcpy(line, text, length);
        line[length] = '\0';
        int columns = ff_text_columns(line);
        widest = columns > widest ? columns : widest;
        text += length + (text[length] == '\n');
    }
    return widest;
}

static void long_layouts_take_a_line_of_their_own(void **state) {
    (void)state;
    const char *layout = "dp=16,tp=4,pp=2,cp=2,ep=8,zero=1,mbs=1,vpp=4,recompute=selective:core";
    ff_facts *facts = small_plan(layout);
    ff_text out = {0};
    ff_render_plan(ff_facts_root(facts), &plain80, &out);
    assert_non_null(strstr(ff_text_bytes(&out), layout)); /* never cut */
    assert_non_null(strstr(ff_text_bytes(&out), "selective:core\n"));
    assert_true(widest_line(ff_text_bytes(&out)) <= 80);
    ff_text_free(&out);
    ff_facts_free(facts);
}

static void colour_changes_nothing_but_colour(void **state) {
    (void)state;
    ff_facts *facts = small_plan("dp=16,tp=8,zero=1,mbs=1");
    ff_text with = {0}, without = {0}, stripped = {0};
    ff_render_plan(ff_facts_root(facts), &coloured, &with);
    ff_render_plan(ff_facts_root(facts), &plain80, &without);
    for (const char *c = ff_text_bytes(&with); *c != '\0';) {
        size_t skip = *c == '\033' ? strcspn(c, "m") + 1 : 0;
        if (skip == 0)
            ff_text_append_bytes(&stripped, c++, 1);
        c += skip;
    }
    assert_non_null(strchr(ff_text_bytes(&with), '\033'));
    assert_null(strchr(ff_text_bytes(&without), '\033'));
    assert_string_equal(ff_text_bytes(&stripped), ff_text_bytes(&without));
    ff_text_free(&with);
    ff_text_free(&without);
    ff_text_free(&stripped);
    ff_facts_free(facts);
}

static void csv_has_a_row_a_plan(void **state) {
    (void)state;
    ff_facts *facts = small_plan("dp=16,tp=8");
    ff_text out = {0};
    ff_render_csv(ff_facts_root(facts), &out);
    assert_string_equal(ff_text_bytes(&out),
                        "rank,layout,verdict,memory.peak_bytes,memory.capacity_bytes,time.step_s,"
                        "tokens_per_s_per_device,mfu\n"
                        "1,\"dp=16,tp=4,pp=2,zero=1,mbs=1,vpp=4\",fits,67860483276,85899345920,"
                        "8.91,3508.0,0.431\n"
                        "2,\"dp=16,tp=8\",tight,77202037145,85899345920,8.91,3508.0,0.431\n");
    ff_text_free(&out);
    ff_facts_free(facts);
}

/* Random tables: no line is wider than the look unless a single word is. */
static void tables_fit(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 300; round++) {
        ff_look look = {.columns = 60 + round % 50, .unicode = true};
        ff_table *table = ff_table_create(2, &look);
        ff_table_add_column(table, (ff_table_column){.heading = "#", .right = true});
        ff_table_add_column(table, (ff_table_column){.heading = "text", .flow = true});
        for (int j = 0; j < 6; j++)
            ff_table_add_column(
                table, (ff_table_column){.heading = "number", .right = true, .keep = j + 1});
        for (int i = 0; i < 5; i++) {
            ff_table_cell(table, "1", FF_PAINT_NONE);
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            ff_text words = {0};
            for (int k = 0; k < (int)(seed >> 40) % 12; k++)
                ff_text_append(&words, k % 3 == 0 ? "wörd " : "longer,word ");
            ff_table_cell(table, ff_text_bytes(&words), FF_PAINT_NONE);
            ff_text_free(&words);
            for (int j = 0; j < 6; j++)
                ff_table_cell(table, "12,345 GiB", FF_PAINT_NONE);
        }
        ff_text out = {0};
        ff_table_print(table, &out);
        assert_true(widest_line(ff_text_bytes(&out)) <= ff_look_columns(&look));
        ff_text_free(&out);
        ff_table_free(table);
    }
}

static void columns_go_in_their_order(void **state) {
    (void)state;
    ff_look look = {.columns = 40};
    ff_table *table = ff_table_create(0, &look);
    ff_table_add_column(table, (ff_table_column){.heading = "always-here-1234567890"});
    ff_table_add_column(table, (ff_table_column){.heading = "second-to-go", .keep = 2});
    ff_table_add_column(table, (ff_table_column){.heading = "first-to-go!", .keep = 1});
    for (int i = 0; i < 3; i++)
        ff_table_cell(table, "x", FF_PAINT_NONE);
    ff_text out = {0};
    assert_int_equal(ff_table_print(table, &out), 1);
    assert_string_equal(ff_text_bytes(&out), "always-here-1234567890  second-to-go\n"
                                             "x                       x\n");
    ff_text_free(&out);
    ff_table_free(table);
}

static void hostile_text_is_made_safe(void **state) {
    (void)state;
    ff_text out = {0};
    ff_plain(&out, "a\033[31mb\x07\xff\xc2\x9b\xe2\x80\xaez\t!", &plain80);
    assert_string_equal(ff_text_bytes(&out), "a?[31mb????z !");
    ff_text_free(&out);
    ff_plain(&out, "1 × 2 → …│", &ascii80);
    assert_string_equal(ff_text_bytes(&out), "1 x 2 > .|");
    ff_text_free(&out);
}

static void bars_are_in_eighths(void **state) {
    (void)state;
    ff_text out = {0};
    ff_bar(&out, 0.5, 4, &plain80);
    assert_string_equal(ff_text_bytes(&out), "██");
    ff_text_free(&out);
    ff_bar(&out, 0.3125, 4, &plain80); /* 10 of 32 eighths */
    assert_string_equal(ff_text_bytes(&out), "█▎");
    ff_text_free(&out);
    ff_bar(&out, 13.0, 4, &ascii80);
    assert_string_equal(ff_text_bytes(&out), "####");
    ff_text_free(&out);
    ff_bar(&out, NAN, 4, &ascii80);
    assert_string_equal(ff_text_bytes(&out), "");
    ff_text_free(&out);
}

static void diagnostics_point_at_the_place(void **state) {
    (void)state;
    ff_diagnostics *list = ff_diagnostics_create();
    ff_place where = {"my-model.json", 7, 5, 20, "    \"num_attention_head\": 64,"};
    ff_report(list, FF0107, where, "unknown key \"num_attention_head\"");
    ff_report_help(list, "did you mean \"num_attention_heads\"?");
    ff_report(list, FF0203, FF_NOWHERE, "tp is given twice");
    ff_report_help(list, "give it once");
    ff_text out = {0};
    ff_render_diagnostics(list, FF_NOTE, &plain80, &out);
    assert_string_equal(ff_text_bytes(&out),
                        "error[FF0107]: unknown key \"num_attention_head\"\n"
                        "  --> my-model.json:7:5\n"
                        "   |\n"
                        " 7 |     \"num_attention_head\": 64,\n"
                        "   |     ^^^^^^^^^^^^^^^^^^^^ did you mean \"num_attention_heads\"?\n"
                        "error[FF0203]: tp is given twice\n"
                        "   = rule   of two values for one key neither can be trusted\n"
                        "   = help   give it once\n");
    ff_text_free(&out);
    ff_diagnostics_free(list);
}

static void long_lines_are_windowed(void **state) {
    (void)state;
    char line[5001];
    memset(line, 'a', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    memcpy(line + 2500, "HERE", 4);
    for (int column = 1; column <= 5010; column += 37) {
        ff_diagnostics *list = ff_diagnostics_create();
        ff_place where = {"x.json", 123, column, 4, line};
        ff_report(list, FF0107, where, "message");
        ff_text out = {0};
        ff_render_diagnostics(list, FF_NOTE, &plain80, &out);
        assert_true(widest_line(ff_text_bytes(&out)) <= 80);
        assert_non_null(strchr(ff_text_bytes(&out), '^'));
        ff_text_free(&out);
        ff_diagnostics_free(list);
    }
    ff_diagnostics *list = ff_diagnostics_create();
    ff_report(list, FF0107, (ff_place){"x.json", 1, 2501, 4, line}, "message");
    ff_text out = {0};
    ff_render_diagnostics(list, FF_NOTE, &plain80, &out);
    const char *shown = strstr(ff_text_bytes(&out), "HERE"),
               *carets = strstr(ff_text_bytes(&out), "^^^^");
    assert_non_null(shown);
    assert_non_null(carets);
    const char *shown_line = shown, *caret_line = carets;
    while (shown_line[-1] != '\n')
        shown_line--;
    while (caret_line[-1] != '\n')
        caret_line--;
    assert_int_equal(shown - shown_line, carets - caret_line);
    ff_text_free(&out);
    ff_diagnostics_free(list);
}

static void documents_are_laid_out(void **state) {
    (void)state;
    static const ff_column columns[] = {
        {"name", "what"}, {"moved_bytes", "bytes a rank"}, {NULL, NULL}};
    ff_facts *facts = ff_facts_create();
    ff_document_open(facts, "TP %d", 4);
    ff_document_section(facts, "%s", "why");
    ff_document_say(facts, "The output projection leaves partial sums, and the norm that follows "
                           "needs the whole sum, so the layer waits.");
    ff_document_item(facts, "forward", "all-gather");
    ff_document_item(facts, "b", "x");
    ff_document_table(facts, columns);
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "name", "all-gather");
    ff_facts_add_integer(facts, "moved_bytes", 1 << 20);
    ff_facts_close(facts);
    ff_document_table_end(facts);
    ff_document_draw(facts, "F0 F1\n\nB0");
    ff_document_close(facts);
    ff_text out = {0};
    ff_render_document(ff_facts_root(facts), &plain80, &out);
    assert_string_equal(
        ff_text_bytes(&out),
        "TP 4\n"
        "\n"
        "  why\n"
        "    The output projection leaves partial sums, and the norm that follows needs\n"
        "    the whole sum, so the layer waits.\n"
        "\n"
        "    forward  all-gather\n"
        "    b        x\n"
        "\n"
        "    what        bytes a rank\n"
        "    all-gather      1.00 MiB\n"
        "\n"
        "    F0 F1\n"
        "\n"
        "    B0\n");
    ff_text_free(&out);
    ff_render_csv(ff_facts_root(facts), &out);
    assert_string_equal(ff_text_bytes(&out), "name,moved_bytes\nall-gather,1048576\n");
    ff_text_free(&out);
    ff_facts_free(facts);
}

static void add_stage(ff_facts *facts, int stage, double gib) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_integer(facts, "stage", stage);
    ff_facts_add_integer(facts, "weights_bytes", (int64_t)(gib * GIB / 2));
    ff_facts_add_integer(facts, "total_bytes", (int64_t)(gib * GIB));
    ff_facts_close(facts);
}

static void check_shows_first_worst_and_last_stage(void **state) {
    (void)state;
    ff_facts *facts = ff_facts_create();
    ff_facts_add_text(facts, "layout", "tp=8,pp=16");
    ff_facts_add_text(facts, "verdict", "too_big");
    ff_facts_add_boolean(facts, "fits", false);
    ff_facts_open_list(facts, "findings");
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "severity", "warning");
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "estimate");
    ff_facts_open_record(facts, "memory");
    ff_facts_add_integer(facts, "peak_bytes", (int64_t)(90 * GIB));
    ff_facts_add_integer(facts, "capacity_bytes", (int64_t)(80 * GIB));
    ff_facts_add_integer(facts, "peak_stage", 5);
    ff_facts_open_list(facts, "stages");
    for (int i = 0; i < 16; i++)
        add_stage(facts, i, i == 5 ? 90 : 40);
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_text out = {0};
    ff_render_check(ff_facts_root(facts), &plain80, &out);
    assert_string_equal(
        ff_text_bytes(&out),
        "\n"
        "  layout    tp=8,pp=16\n"
        "  verdict   too big: peak 90.0 GiB of 80.0 GiB, on stage 5\n"
        "\n"
        "  memory a device, GiB\n"
        "    stage  weights  grads  optim  acts  buffers  runtime  total\n"
        "        0     20.0      -      -     -        -        -   40.0\n"
        "       +4                                                        no larger\n"
        "        5     45.0      -      -     -        -        -   90.0  peak\n"
        "       +9                                                        no larger\n"
        "       15     20.0      -      -     -        -        -   40.0\n"
        "\n"
        "1 warning, does not fit; not launched as it stands\n");
    ff_text_free(&out);
    ff_facts_free(facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_follow_the_name),
        cmocka_unit_test(integers_are_separated_and_exact),
        cmocka_unit_test(three_digits_are_near),
        cmocka_unit_test(json_is_exact_and_valid),
        cmocka_unit_test(plan_reads_as_it_should),
        cmocka_unit_test(long_layouts_take_a_line_of_their_own),
        cmocka_unit_test(colour_changes_nothing_but_colour),
        cmocka_unit_test(csv_has_a_row_a_plan),
        cmocka_unit_test(tables_fit),
        cmocka_unit_test(columns_go_in_their_order),
        cmocka_unit_test(hostile_text_is_made_safe),
        cmocka_unit_test(bars_are_in_eighths),
        cmocka_unit_test(diagnostics_point_at_the_place),
        cmocka_unit_test(long_lines_are_windowed),
        cmocka_unit_test(documents_are_laid_out),
        cmocka_unit_test(check_shows_first_worst_and_last_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
