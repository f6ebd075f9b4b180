/* Parameter counts against published totals, class by class; model FLOP against the check figures
 * of docs/model.md A; laws that hold for every model. */
#include "model_support.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MAX_CELLS = 20, CELL_BYTES = 1024 };

/* Splits one line of CSV, quotes honoured; returns the number of cells. */
static int split_csv(const char **line, char cells[MAX_CELLS][CELL_BYTES]) {
    int cell = 0;
    size_t length = 0;
    bool quoted = false;
    const char *c = *line;
    for (; *c != '\0' && (quoted || *c != '\n'); c++) {
        if (*c == '"') {
            quoted = !quoted;
        } else if (*c == ',' && !quoted) {
            cells[cell++][length] = '\0';
            length = 0;
        } else if (length + 1 < CELL_BYTES) {
            cells[cell][length++] = *c;
        }
    }
    cells[cell][length] = '\0';
    *line = *c == '\n' ? c + 1 : c;
    return cell + 1;
}

/* Every row of params_exact.csv: total, active and each class, found by its column's name. */
static void test_exact_counts(void **state) {
    (void)state;
    static char header[MAX_CELLS][CELL_BYTES], cells[MAX_CELLS][CELL_BYTES];
    size_t length;
    char *text = load_file("data/models/params_exact.csv", &length);
    assert_non_null(text);
    const char *line = text;
    int columns = split_csv(&line, header), rows = 0, checked = 0;
    while (*line != '\0') {
        assert_int_equal(split_csv(&line, cells), columns);
        ff_model *model = model_of_preset(cells[0]);
        ff_model_count count;
        ff_model_params(model, &count);
        for (int i = 1; i < columns; i++) {
            int64_t value = strtoll(cells[i], NULL, 10), actual = -1;
            if (strcmp(header[i], "params_total") == 0)
                actual = count.total;
            else if (strcmp(header[i], "params_active") == 0)
                actual = count.active;
            for (int c = 0; c < FF_CLASS_COUNT; c++)
                if (strcmp(header[i], ff_tensor_class_name((ff_tensor_class)c)) == 0)
                    actual = count.by_class[c];
            if (actual >= 0 && actual != value)
                fail_msg("%s %s: %lld, not %lld", cells[0], header[i], (long long)actual,
                         (long long)value);
            checked += actual >= 0;
        }
        free(model);
        rows++;
    }
    assert_true(rows >= 36);
    assert_int_equal(checked, rows * (2 + FF_CLASS_COUNT));
    free(text);
}

/* Every row of totals.csv. */
static void test_published_totals(void **state) {
    (void)state;
    static char cells[MAX_CELLS][CELL_BYTES];
    size_t length;
    char *text = load_file("data/models/totals.csv", &length);
    assert_non_null(text);
    const char *line = text;
    int rows = 0;
    for (split_csv(&line, cells); *line != '\0'; rows++) {
        split_csv(&line, cells);
        ff_model *model = model_of_preset(cells[0]);
        ff_model_count count;
        ff_model_params(model, &count);
        if (count.total != strtoll(cells[1], NULL, 10))
            fail_msg("%s: %lld, not %s", cells[0], (long long)count.total, cells[1]);
        free(model);
    }
    assert_true(rows >= 55);
    free(text);
}

/* The hub's total of GLM-4.5-Air holds the MTP block and both tables once more. */
static void test_glm_air_with_mtp(void **state) {
    (void)state;
    ff_model *model = model_of_preset("glm-4.5-air");
    ff_model_count count;
    ff_model_params(model, &count);
    int64_t tables = count.by_class[FF_CLASS_EMBEDDING] + count.by_class[FF_CLASS_HEAD];
    assert_int_equal(count.total + count.by_class[FF_CLASS_MTP] + tables, 110468824832);
    assert_int_equal(model->layers, 46);
    assert_int_equal(ff_model_moe_layers(model), 45);
    free(model);
}

static void for_each_preset(void (*check)(const char *name, const ff_model *model)) {
    char path[512];
    snprintf(path, sizeof path, "%s/data/models", FF_SOURCE_DIR);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char name[256];
        snprintf(name, sizeof name, "%s", entry->d_name);
        char *ending = strstr(name, ".json");
        if (ending == NULL)
            continue;
        *ending = '\0';
        ff_model *model = model_of_preset(name);
        check(name, model);
        free(model);
        files++;
    }
    closedir(directory);
    assert_true(files >= 90);
}

/* Sum over every tensor of every layer, in model order: a second way to the same total. */
static int64_t total_layer_by_layer(const ff_model *model) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    int64_t total = 0;
    for (int layer = -1; layer <= model->layers; layer++) {
        int n = layer < 0 ? ff_model_first_tensors(model, tensors)
                : layer == model->layers
                    ? ff_model_last_tensors(model, tensors)
                    : ff_model_layer_tensors(model, model->layer_kind[layer], tensors);
        assert_true(n <= FF_MODEL_MAX_TENSORS);
        for (int i = 0; i < n; i++)
            total += tensors[i].rows * tensors[i].columns * tensors[i].count;
    }
    return total;
}

static void check_laws(const char *name, const ff_model *model) {
    (void)name;
    ff_model_count count;
    ff_model_params(model, &count);
    int64_t sum = 0;
    for (int c = 0; c < FF_CLASS_COUNT; c++)
        sum += c == FF_CLASS_MTP ? 0 : count.by_class[c];
    assert_int_equal(sum, count.total);
    assert_int_equal(total_layer_by_layer(model), count.total);
    assert_true(count.active <= count.total);
    int64_t tied = model->tied_head ? model->vocab * model->embedding_width : 0;
    assert_true(count.matmul > 0 && count.matmul <= count.active + tied);
    assert_int_equal(count.active == count.total, ff_model_moe_layers(model) == 0);
    int layers = 0;
    for (int kind = 0; kind < model->kinds; kind++) {
        layers += ff_model_layers_of_kind(model, kind);
        assert_true(ff_model_layers_of_kind(model, kind) > 0);
        assert_true((model->kind[kind].mlp.width > 0) != (model->kind[kind].moe.experts > 0));
    }
    assert_int_equal(layers, model->layers);
}

static void test_laws(void **state) {
    (void)state;
    for_each_preset(check_laws);
}

/* FLOP: causal below full, and each above its GEMMs; both grow with the sequence unless every
 * layer is linear. */
static void check_flop_laws(const char *name, const ff_model *model) {
    (void)name;
    ff_model_count count;
    ff_model_params(model, &count);
    double before = 6 * (double)count.matmul;
    for (int64_t seq = 1; seq <= 1 << 20; seq *= 8) {
        double full = ff_model_flop_per_token(model, seq, FF_FLOP_FULL);
        double causal = ff_model_flop_per_token(model, seq, FF_FLOP_CAUSAL);
        assert_true(causal <= full * (1 + 1e-12));
        assert_true(causal >= before);
        before = causal;
    }
    double one = ff_model_flop_per_token(model, 1, FF_FLOP_FULL);
    assert_true(fabs(one / ff_model_flop_per_token(model, 1, FF_FLOP_CAUSAL) - 1) < 1e-12);
}

static void test_flop_laws(void **state) {
    (void)state;
    for_each_preset(check_flop_laws);
}

/* Check of docs/model.md A: Llama 8B at 8192 tokens, 57.9 and 51.5 GFLOP; worked by hand:
 * 6 * 7,504,658,432 + 12 * 32 * 4096 * 8192, and the same with 8193/2. */
static void test_llama_flop(void **state) {
    (void)state;
    ff_model *model = model_of_preset("llama-3.1-8b");
    ff_model_count count;
    ff_model_params(model, &count);
    assert_int_equal(count.matmul, 7504658432);
    double full = ff_model_flop_per_token(model, 8192, FF_FLOP_FULL);
    double causal = ff_model_flop_per_token(model, 8192, FF_FLOP_CAUSAL);
    assert_true(full == 57912852480.0);
    assert_true(causal == 45027950592.0 + 12.0 * 32 * 4096 * 4096.5);
    assert_true(fabs(full / 1e9 - 57.9) < 0.05 && fabs(causal / 1e9 - 51.5) < 0.05);
    free(model);
}

/* The mean over all queries of the keys each may see, counted one by one. */
static double mean_keys(int64_t seq, int64_t window, bool chunked) {
    double sum = 0;
    for (int64_t i = 0; i < seq; i++) {
        int64_t keys = chunked ? i % window + 1 : i + 1;
        sum += (double)(window > 0 && keys > window ? window : keys);
    }
    return sum / (double)seq;
}

static void test_attention_context(void **state) {
    (void)state;
    static const int64_t windows[] = {1, 7, 64, 100, 101, 5000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        for (int chunked = 0; chunked < 2; chunked++) {
            ff_attention a = {.window = windows[i], .chunked = chunked};
            double causal = ff_attention_context(&a, 100, FF_FLOP_CAUSAL);
            assert_true(fabs(causal - mean_keys(100, windows[i], chunked)) < 1e-9);
            double full = ff_attention_context(&a, 100, FF_FLOP_FULL);
            assert_true(full == (double)(windows[i] < 100 ? windows[i] : 100));
        }
    }
    ff_attention linear = {.type = FF_ATTENTION_LINEAR};
    assert_true(ff_attention_context(&linear, 100, FF_FLOP_FULL) == 0);
}

/* DeepSeek-V3's attention takes (192 + 128)/2 a head; 61 layers of 128 heads at 4096. */
static void test_mla_flop(void **state) {
    (void)state;
    ff_model *model = model_of_preset("deepseek-v3");
    ff_model_count count;
    ff_model_params(model, &count);
    double attention = ff_model_flop_per_token(model, 4096, FF_FLOP_FULL) - 6.0 * count.matmul;
    assert_true(attention == 12.0 * 61 * 128 * 160 * 4096);
    /* Active without lookup, norms and the correction bias. */
    assert_int_equal(count.matmul, count.active - 926679040 - 1006592 - 58 * 256);
    free(model);
}

/* Linear layers: 18 FLOP an element of state, 6 a convolution tap. */
static void test_linear_flop(void **state) {
    (void)state;
    ff_model *model = model_of_preset("qwen3.5-122b-a10b");
    ff_model_count count;
    ff_model_params(model, &count);
    double linear = 36 * (18.0 * 64 * 128 * 128 + 6.0 * 4 * (2 * 16 * 128 + 64 * 128));
    double full = 12 * (12.0 * 32 * 256 * 1000);
    double rest = ff_model_flop_per_token(model, 1000, FF_FLOP_FULL) - 6.0 * count.matmul;
    assert_true(fabs(rest / (linear + full) - 1) < 1e-12);
    free(model);
}

/* The head's GEMM is counted also where the head is tied. */
static void test_tied_head(void **state) {
    (void)state;
    ff_model *model = model_of_preset("llama-3.2-1b");
    ff_model_count tied, untied;
    ff_model_params(model, &tied);
    model->tied_head = false;
    ff_model_params(model, &untied);
    assert_int_equal(untied.matmul, tied.matmul);
    assert_int_equal(untied.total - tied.total, 128256 * 2048);
    free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_counts),      cmocka_unit_test(test_published_totals),
        cmocka_unit_test(test_glm_air_with_mtp),  cmocka_unit_test(test_laws),
        cmocka_unit_test(test_flop_laws),         cmocka_unit_test(test_llama_flop),
        cmocka_unit_test(test_attention_context), cmocka_unit_test(test_mla_flop),
        cmocka_unit_test(test_linear_flop),       cmocka_unit_test(test_tied_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
