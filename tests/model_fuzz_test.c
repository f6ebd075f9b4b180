/* Every value of every preset replaced by each of a list of hostile ones: the answer is a model
 * whose numbers hold together, or a reason. */
#include "model_support.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char *const hostile[] = {
    "0",    "-1",    "1",    "2",  "3",   "7",       "1e9",   "4096.5",  "9223372036854775807",
    "1e40", "65536", "1024", "[]", "{}",  "[1,2,3]", "true",  "false",   "\"text\"",
    "null", "NaN",   "\"\"", "16", "128", "1e3",     "1e-30", "1048576",
};

static void check_model(const ff_model *model) {
    ff_model_count count;
    ff_model_params(model, &count);
    assert_true(count.total > 0 && count.total <= 1000000000000000);
    assert_true(count.active > 0 && count.active <= count.total);
    assert_true(model->layers >= 1 && model->layers <= FF_MODEL_MAX_LAYERS);
    assert_true(model->kinds >= 1 && model->kinds <= FF_MODEL_MAX_KINDS);
    assert_true(model->mtp_kind < model->kinds);
    for (int i = 0; i < model->layers; i++)
        assert_true(model->layer_kind[i] < model->kinds);
    for (int i = 0; i < model->kinds; i++) {
        const ff_attention *a = &model->kind[i].attention;
        assert_true(a->type == FF_ATTENTION_LINEAR ? a->value_heads % a->key_heads == 0
                                                   : a->heads % a->kv_heads == 0);
        const ff_moe *moe = &model->kind[i].moe;
        assert_true(moe->experts == 0 ||
                    (moe->experts_per_token >= 1 && moe->experts_per_token <= moe->experts));
    }
    double flop = ff_model_flop_per_token(model, 4096, FF_FLOP_CAUSAL);
    assert_true(isfinite(flop) && flop > 0);
}

static int check_text(const char *text) {
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_model *model = malloc(sizeof *model);
    ff_status status = model_of_text(text, findings, model);
    if (status == FF_OK)
        check_model(model);
    else
        assert_true(status == FF_INVALID && ff_has_errors(findings));
    free(model);
    ff_diagnostics_free(findings);
    return status == FF_OK;
}

/* End of the value that begins at `value`: a comma, bracket or newline outside quotes and lists. */
static const char *end_of_value(const char *value) {
    int depth = 0;
    bool quoted = false;
    for (const char *c = value;; c++) {
        if (*c == '"')
            quoted = !quoted;
        if (quoted)
            continue;
        if (depth == 0 && strchr(",]}\n", *c) != NULL)
            return c;
        depth += (*c == '[' || *c == '{') - (*c == ']' || *c == '}');
    }
}

static void replace_values(const char *text, int *good, int *all) {
    char *mutant = malloc(strlen(text) + 64);
    for (const char *c = strstr(text, "\": "); c != NULL; c = strstr(c + 1, "\": ")) {
        const char *value = c + 3, *end = end_of_value(value);
        for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
            sprintf(mutant, "%.*s%s%s", (int)(value - text), text, hostile[i], end);
            *good += check_text(mutant);
            ++*all;
        }
    }
    free(mutant);
}

static void test_hostile_values(void **state) {
    (void)state;
    char path[512];
    int good = 0, all = 0;
    snprintf(path, sizeof path, "%s/data/models", FF_SOURCE_DIR);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        size_t length;
        snprintf(path, sizeof path, "data/models/%.200s", entry->d_name);
        char *text = load_file(path, &length);
        assert_true(check_text(text));
        replace_values(text, &good, &all);
        free(text);
    }
    closedir(directory);
    assert_true(all > 30000 && good > all / 10 && good < all * 9 / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hostile_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
