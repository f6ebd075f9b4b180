#include "input/scalar.h"

#include "base/number.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words != NULL; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static const char *skip_digits(const char *text) {
    return text + strspn(text, "0123456789");
}

/* [-+] digits [. digits] [e [-+] digits], with a digit before or after the point. */
static bool is_decimal(const char *text) {
    const char *digits = text + (*text == '-' || *text == '+');
    const char *end = skip_digits(digits);
    bool any = end > digits;
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        any = any || end > fraction;
    }
    if (any && (*end == 'e' || *end == 'E')) {
        const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+');
        end = skip_digits(exponent);
        any = end > exponent;
    }
    return any && *end == '\0';
}

static void set_integer(ff_field *f) {
    const double exact = 9007199254740992.0; /* 2^53: whole doubles up to here are exact */
    if (strpbrk(f->text, ".eE") == NULL) {
        errno = 0;
        f->integer = strtoll(f->text, NULL, 10);
        f->is_integer = errno == 0;
    } else if (strchr(f->text, '.') == NULL && fabs(f->real) <= exact &&
               f->real == floor(f->real)) {
        f->integer = (int64_t)f->real;
        f->is_integer = true;
    }
}

void ff_scalar_resolve(ff_field *f) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    double real;
    f->kind = FF_FIELD_TEXT;
    if (is_one_of(f->text, nulls)) {
        f->kind = FF_FIELD_NULL;
    } else if (is_one_of(f->text, trues) || is_one_of(f->text, falses)) {
        f->kind = FF_FIELD_BOOL;
        f->boolean = is_one_of(f->text, trues);
    } else if (is_decimal(f->text) && ff_parse_real(f->text, &real)) {
        f->kind = FF_FIELD_NUMBER;
        f->real = real;
        set_integer(f);
    }
}

bool ff_scalar_is_json(const ff_field *f) {
    static const char *const allowed[] = {"NaN", "Infinity", "-Infinity", NULL};
    return f->kind != FF_FIELD_TEXT || is_decimal(f->text) || is_one_of(f->text, allowed);
}
