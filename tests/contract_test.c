/* The JSON that other programs read: every key that is promised is there with its kind, and sums
 * add up. Runs the tool. Keys may be added; those listed here stay. */
#include "input/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST_OUTPUT = 1 << 23 };

typedef struct run {
    ff_arena *arena;
    const ff_field *root;
    int status;
} run;

/* Runs `fivefold ARGUMENTS -o json` and reads what it prints. */
static run ask(const char *arguments) {
    char command[1024];
    run r = {.arena = ff_arena_create()};
    snprintf(command, sizeof command, "'%s' %s -o json 2>/dev/null", FF_BINARY, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *text = malloc(MOST_OUTPUT);
    assert_non_null(text);
    size_t length = fread(text, 1, MOST_OUTPUT, pipe);
    r.status = WEXITSTATUS(pclose(pipe));
    assert_true(length > 0 && length < MOST_OUTPUT);
    assert_int_equal(text[0], '{');
    assert_int_equal(ff_fields_read(r.arena, "output", text, length, NULL, &r.root), FF_OK);
    free(text);
    return r;
}

static void end(run *r) {
    ff_arena_free(r->arena);
}

/* The field at a dotted path; a list stands for its first item. NULL when there is none. */
static const ff_field *at(const ff_field *field, const char *path) {
    while (field != NULL && *path != '\0') {
        char name[64];
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        if (field->kind == FF_FIELD_LIST)
            field = field->first;
        field = field == NULL ? NULL : ff_field_find(field, name);
        path += length + (path[length] == '.');
    }
    return field;
}

static double number(const ff_field *field, const char *path) {
    const ff_field *found = at(field, path);
    if (found == NULL || found->kind != FF_FIELD_NUMBER)
        fail_msg("%s is no number", path);
    return found->is_integer ? (double)found->integer : found->real;
}

static const char *text(const ff_field *field, const char *path) {
    const ff_field *found = at(field, path);
    if (found == NULL || found->kind != FF_FIELD_TEXT)
        fail_msg("%s is no text", path);
    return found->text;
}

static bool boolean(const ff_field *field, const char *path) {
    const ff_field *found = at(field, path);
    if (found == NULL || found->kind != FF_FIELD_BOOL)
        fail_msg("%s is neither true nor false", path);
    return found->boolean;
}

/* "i:" a whole number, "n:" a number, "t:" text, "b:" true or false, "m:" a map, "l:" a list. */
static void promise(const ff_field *root, const char *const *keys) {
    for (; *keys != NULL; keys++) {
        const char *path = *keys + 2;
        const ff_field *found = at(root, path);
        if (found == NULL)
            fail_msg("%s is missing", path);
        bool good = false;
        switch ((*keys)[0]) {
        case 'i':
            good = found->kind == FF_FIELD_NUMBER && found->is_integer;
            break;
        case 'n':
            good = found->kind == FF_FIELD_NUMBER;
            break;
        case 't':
            good = found->kind == FF_FIELD_TEXT;
            break;
        case 'b':
            good = found->kind == FF_FIELD_BOOL;
            break;
        case 'm':
            good = found->kind == FF_FIELD_MAP;
            break;
        case 'l':
            good = found->kind == FF_FIELD_LIST;
            break;
        }
        if (!good)
            fail_msg("%s is a %s", path, ff_field_kind_name(found->kind));
    }
}

static const char *const estimate_keys[] = {
    "t:layout",
    "i:layout_fields.dp",
    "i:layout_fields.tp",
    "i:layout_fields.sp",
    "i:layout_fields.pp",
    "i:layout_fields.vpp",
    "i:layout_fields.cp",
    "t:layout_fields.cp_kind",
    "i:layout_fields.ep",
    "i:layout_fields.etp",
    "i:layout_fields.edp",
    "i:layout_fields.zero",
    "i:layout_fields.mbs",
    "i:layout_fields.microbatches",
    "t:layout_fields.recompute",
    "t:layout_fields.schedule",
    "t:layout_fields.recipe",
    "t:verdict",
    "b:fits",
    "i:memory.peak_bytes",
    "i:memory.capacity_bytes",
    "i:memory.peak_stage",
    "l:memory.stages",
    "n:time.step_s",
    "n:time.compute_s",
    "n:time.bubble_s",
    "n:time.exposed.tp_s",
    "n:time.exposed.pp_s",
    "n:time.exposed.cp_s",
    "n:time.exposed.ep_s",
    "n:time.exposed.dp_s",
    "n:time.optimizer_s",
    "i:gbs_tokens_actual",
    "n:tokens_per_s_per_device",
    "n:model_tflops_per_device",
    "n:mfu",
    NULL,
};

static const char *const stage_keys[] = {
    "i:stage",           "i:weights_bytes",     "i:gradients_bytes",
    "i:optimizer_bytes", "i:activations_bytes", "i:buffers_bytes",
    "i:runtime_bytes",   "i:total_bytes",       NULL,
};

static const char *const head_keys[] = {
    "t:schema",
    "t:version",
    "m:inputs",
    "t:model.name",
    "i:model.params_total",
    "i:model.params_active",
    "m:cluster",
    NULL,
};

static void check_stages(const ff_field *estimate) {
    double peak = 0, stages = 0;
    for (const ff_field *s = at(estimate, "memory.stages")->first; s != NULL; s = s->next) {
        static const char *const parts[] = {"weights_bytes",   "gradients_bytes",
                                            "optimizer_bytes", "activations_bytes",
                                            "buffers_bytes",   "runtime_bytes"};
        double sum = 0;
        promise(s, stage_keys);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            sum += number(s, parts[i]);
        assert_true(sum == number(s, "total_bytes"));
        assert_true(number(s, "stage") == stages);
        if (number(s, "total_bytes") > peak) {
            peak = number(s, "total_bytes");
            assert_true(number(estimate, "memory.peak_stage") >= stages);
        }
        stages++;
    }
    assert_true(stages == number(estimate, "layout_fields.pp"));
    assert_true(peak == number(estimate, "memory.peak_bytes"));
}

static void check_estimate(const ff_field *estimate) {
    static const char *const terms[] = {"compute_s",    "bubble_s",     "exposed.tp_s",
                                        "exposed.pp_s", "exposed.cp_s", "exposed.ep_s",
                                        "exposed.dp_s", "optimizer_s"};
    promise(estimate, estimate_keys);
    check_stages(estimate);
    const ff_field *time = at(estimate, "time");
    double sum = 0, step_s = number(time, "step_s");
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        sum += number(time, terms[i]);
    assert_true(fabs(sum - step_s) <= 1e-9 * step_s);
    assert_true(number(estimate, "mfu") > 0 && number(estimate, "mfu") < 1);
    double batch = number(estimate, "gbs_tokens_actual");
    double world = number(estimate, "layout_fields.dp") * number(estimate, "layout_fields.tp") *
                   number(estimate, "layout_fields.pp") * number(estimate, "layout_fields.cp");
    double rate = number(estimate, "tokens_per_s_per_device");
    assert_true(fabs(rate - batch / step_s / world) <= 1e-9 * rate);
    const char *verdict = text(estimate, "verdict");
    bool fits = number(estimate, "memory.peak_bytes") <= number(estimate, "memory.capacity_bytes");
    assert_int_equal(boolean(estimate, "fits"), fits);
    assert_int_equal(strcmp(verdict, "too_big") != 0, fits);
}

static void check_search(const ff_field *root) {
    static const char *const keys[] = {
        "i:search.considered", "i:search.illegal",   "i:search.pruned", "i:search.too_big",
        "i:search.estimated",  "n:search.elapsed_s", "l:plans",         NULL};
    promise(root, keys);
    assert_true(number(root, "search.considered") ==
                number(root, "search.illegal") + number(root, "search.pruned") +
                    number(root, "search.too_big") + number(root, "search.estimated"));
}

static void plans_keep_their_promise(void **state) {
    (void)state;
    static const char *const questions[] = {
        "plan llama-3.1-70b 16x8xh100-80gb-sxm --seq 4096 --gbs 4M",
        "plan mixtral-8x7b 2x8xh100-80gb-sxm --seq 4096 --gbs 1M --where 'ep>1,pp>1' --top 3",
        "plan gpt2 1x4xa100-40gb-sxm --gbs 64seq --top 50",
        "plan llama-3.1-8b 1x8xh100-80gb-sxm --seq 4096 --gbs 1M --near 5% --objective memory",
    };
    static const int counts[] = {5, 3, 50, 5};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        run r = ask(questions[i]);
        assert_int_equal(r.status, 0);
        promise(r.root, head_keys);
        assert_string_equal(text(r.root, "schema"), "fivefold/plan/1");
        check_search(r.root);
        assert_int_equal(at(r.root, "plans")->count, counts[i]);
        for (const ff_field *p = at(r.root, "plans")->first; p != NULL; p = p->next)
            check_estimate(p);
        end(&r);
    }
}

static void inputs_are_echoed_with_defaults(void **state) {
    (void)state;
    run r = ask("plan llama-3.1-8b 1x8xh100-80gb-sxm --gbs 16seq --top 1");
    assert_true(number(r.root, "inputs.seq_tokens") == 131072);
    assert_true(number(r.root, "inputs.gbs_tokens") == 16.0 * 131072);
    assert_false(boolean(r.root, "inputs.gbs_exact"));
    assert_string_equal(text(r.root, "inputs.recipe"), "bf16-megatron");
    assert_string_equal(text(r.root, "inputs.ledger"), "full");
    assert_true(number(r.root, "inputs.imbalance") == 1);
    assert_string_equal(text(r.root, "taken_for.model"), "preset");
    end(&r);
}

static void no_plan_is_an_empty_list(void **state) {
    (void)state;
    static const char *const questions[] = {
        "plan llama-3.1-405b 1x8xh100-80gb-sxm --seq 4096 --gbs 4M",
        "plan llama-3.1-405b 1x8xh100-80gb-sxm --seq 4096 --gbs 4M --ledger lesson",
        "plan llama-3.1-8b 1x8xh100-80gb-sxm --seq 4096 --gbs 4M --where tp=3",
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        run r = ask(questions[i]);
        assert_int_equal(r.status, 1);
        check_search(r.root);
        assert_int_equal(at(r.root, "plans")->count, 0);
        end(&r);
    }
}

static void lesson_plans_keep_their_promise(void **state) {
    (void)state;
    static const char *const keys[] = {"t:layout",
                                       "i:layout_fields.dp",
                                       "i:layout_fields.tp",
                                       "i:layout_fields.pp",
                                       "i:layout_fields.cp",
                                       "i:layout_fields.ep",
                                       "i:layout_fields.zero",
                                       "i:layout_fields.microbatches",
                                       "t:verdict",
                                       "b:fits",
                                       "i:memory.peak_bytes",
                                       "i:memory.capacity_bytes",
                                       "i:gbs_tokens_actual",
                                       NULL};
    run r = ask("plan params=70e9,layers=80,hidden=8192,heads=64 '16x8x(mem=80GiB)' --seq 4096 "
                "--gbs 4M --ledger lesson --top all");
    assert_int_equal(r.status, 0);
    promise(r.root, head_keys);
    check_search(r.root);
    assert_int_equal(at(r.root, "plans")->count, 60);
    for (const ff_field *p = at(r.root, "plans")->first; p != NULL; p = p->next)
        promise(p, keys);
    end(&r);
}

static void checks_keep_their_promise(void **state) {
    (void)state;
    static const struct {
        const char *question;
        int status;
        bool legal, fits;
        const char *verdict;
    } checks[] = {
        {"check mixtral-8x7b 8x8xh100-80gb-sxm tp=4,pp=2,ep=8,zero=1,mbs=1 --seq 4096 --gbs 1M", 0,
         true, true, "fits"},
        {"check llama-3.1-70b 1x8xh100-80gb-sxm tp=8 --seq 4096 --gbs 1M", 1, true, false,
         "too_big"},
        {"check mixtral-8x7b 8x8xh100-80gb-sxm tp=4,ep=3 --seq 4096 --gbs 1M", 1, false, false,
         "illegal"},
        {"check llama-3.1-8b 1x8xh100-80gb-sxm zero=0,cp=2,tp=2 --seq 4096", 0, true, true, "fits"},
    };
    static const char *const keys[] = {"b:legal", "t:verdict", "b:fits", "l:findings", NULL};
    static const char *const finding[] = {"t:code",    "t:severity", "t:where",
                                          "t:message", "t:help",     NULL};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        run r = ask(checks[i].question);
        assert_int_equal(r.status, checks[i].status);
        promise(r.root, head_keys);
        promise(r.root, keys);
        assert_string_equal(text(r.root, "schema"), "fivefold/check/1");
        assert_int_equal(boolean(r.root, "legal"), checks[i].legal);
        assert_int_equal(boolean(r.root, "fits"), checks[i].fits);
        if (checks[i].legal)
            assert_string_equal(text(r.root, "verdict"), text(r.root, "estimate.verdict"));
        else
            assert_string_equal(text(r.root, "verdict"), checks[i].verdict);
        for (const ff_field *f = at(r.root, "findings")->first; f != NULL; f = f->next)
            promise(f, finding);
        if (checks[i].legal)
            check_estimate(at(r.root, "estimate"));
        end(&r);
    }
}

static void models_keep_their_promise(void **state) {
    (void)state;
    static const char *const models[] = {"llama-3.1-70b", "deepseek-v3", "gpt2", "mixtral-8x7b",
                                         "params=8e9,layers=32,hidden=4096,heads=32"};
    static const char *const keys[] = {"t:schema", "i:params_total", "i:params_active",
                                       "m:params_by_class", NULL};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char question[128];
        snprintf(question, sizeof question, "show model %s", models[i]);
        run r = ask(question);
        assert_int_equal(r.status, 0);
        promise(r.root, keys);
        double sum = 0;
        for (const ff_field *c = at(r.root, "params_by_class")->first; c != NULL; c = c->next) {
            assert_true(c->kind == FF_FIELD_NUMBER && c->is_integer);
            sum += strcmp(c->name, "mtp") == 0 ? 0 : (double)c->integer;
        }
        assert_true(sum == number(r.root, "params_total"));
        assert_true(number(r.root, "params_active") <= number(r.root, "params_total"));
        end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_keep_their_promise),
        cmocka_unit_test(inputs_are_echoed_with_defaults),
        cmocka_unit_test(no_plan_is_an_empty_list),
        cmocka_unit_test(lesson_plans_keep_their_promise),
        cmocka_unit_test(checks_keep_their_promise),
        cmocka_unit_test(models_keep_their_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
