#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t ff_gcd(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t ff_lcm(int64_t a, int64_t b) {
    return a == 0 || b == 0 ? 0 : ff_mul(a / ff_gcd(a, b), b);
}

static const struct suffix {
    const char *text;
    int64_t factor;
} suffixes[] = {
    {"", 1},
    {"k", 1000},
    {"K", 1000},
    {"M", 1000000},
    {"G", 1000000000},
    {"B", 1000000000},
    {"T", 1000000000000},
    {"Ki", INT64_C(1) << 10},
    {"Mi", INT64_C(1) << 20},
    {"Gi", INT64_C(1) << 30},
    {"Ti", INT64_C(1) << 40},
};

static bool factor_of(const char *suffix, int64_t *factor) {
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(suffix, suffixes[i].text) == 0) {
            *factor = suffixes[i].factor;
            return true;
        }
    }
    return false;
}

/* strtod takes hex, "inf" and leading blanks; a number here starts with a digit, sign or point and
 * is written in decimal. */
static bool starts_as_decimal(const char *text) {
    const char *digits = text + (*text == '-' || *text == '+');
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        return false;
    return isdigit((unsigned char)digits[0]) ||
           (digits[0] == '.' && isdigit((unsigned char)digits[1]));
}

static bool all_digits(const char *text, const char *end) {
    for (const char *c = text; c < end; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return end > text;
}

bool ff_parse_count(const char *text, int64_t *count) {
    if (!starts_as_decimal(text) || *text == '-')
        return false;
    char *end;
    int64_t factor;
    double value = strtod(text, &end);
    if (!isfinite(value) || !factor_of(end, &factor))
        return false;
    errno = 0;
    if (all_digits(text, end)) {
        long long whole = strtoll(text, NULL, 10);
        if (errno != 0 || whole > FF_SATURATED / factor)
            return false;
        *count = whole * factor;
        return true;
    }
    double product = value * (double)factor;
    if (product != floor(product) || product > (double)FF_SATURATED)
        return false;
    *count = (int64_t)product;
    return true;
}

bool ff_parse_real(const char *text, double *value) {
    if (!starts_as_decimal(text))
        return false;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}
