/* Guards the preset profiles: few constants of their own, each physical, with its evidence, inside
 * the range in which it is plausible and not on its edge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "presets/presets.h"
#include <stdio.h>
#include <string.h>

enum { MOST_OVERRIDES = 8 };

/* A constant of a profile that says something else than the neutral value. */
static bool is_override(const ff_field *constant, const ff_field *neutral) {
    const ff_field *usual = ff_field_find(neutral, constant->name);
    return constant->kind == FF_FIELD_NUMBER && (usual == NULL || usual->real != constant->real);
}

static void check_override(const char *path, const ff_field *profile, const ff_field *constant) {
    const ff_field *ranges = ff_field_find(profile, "plausible");
    const ff_field *range = ranges == NULL ? NULL : ff_field_find(ranges, constant->name);
    const ff_field *texts = ff_field_find(profile, "evidence");
    const ff_field *evidence = texts == NULL ? NULL : ff_field_find(texts, constant->name);
    if (range == NULL || range->kind != FF_FIELD_LIST || range->count != 2)
        fail_msg("%s: %s has no plausible range", path, constant->name);
    double least = range->first->real, most = range->first->next->real;
    if (!(least < constant->real && constant->real < most))
        fail_msg("%s: %s is %g, on or beyond the edge of %g to %g", path, constant->name,
                 constant->real, least, most);
    if (evidence == NULL || strlen(evidence->text) < 4)
        fail_msg("%s: %s has no evidence", path, constant->name);
}

static int count_overrides(const char *path, const ff_field *neutral) {
    const ff_field *profile = ff_preset_tree(path);
    int overrides = 0;
    for (const ff_field *f = profile->first; f != NULL; f = f->next) {
        if (!is_override(f, neutral))
            continue;
        overrides++;
        check_override(path, profile, f);
    }
    return overrides;
}

static void test_every_profile(void **state) {
    (void)state;
    const ff_field *neutral = ff_field_find(ff_preset_tree("physics"), "software");
    assert_non_null(neutral);
    const char *path;
    int total = 0;
    for (int n = 0; (path = ff_preset_path("profiles/", n)) != NULL; n++) {
        int overrides = count_overrides(path, neutral);
        if (overrides > MOST_OVERRIDES)
            fail_msg("%s: %d constants of its own", path, overrides);
        print_message("%-28s %d constants of its own\n", path, overrides);
        total += overrides;
    }
    print_message("%-28s %d\n", "all", total);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_profile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
