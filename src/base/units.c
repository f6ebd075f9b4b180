/* See units.h. One row of `units` a kind of unit: its prefixes are tried from the largest down and
 * the first that leaves at least 1 is taken, after rounding, so that 999.96 ms reads 1.00 s. */
#include "base/units.h"

#include "base/number.h"
#include "base/text.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KIB 1024.0
#define MIB (1024.0 * KIB)
#define GIB (1024.0 * MIB)

typedef struct scale {
    double one;
    const char *unit;
} scale;

static const scale byte_scales[] = {{GIB, " GiB"}, {MIB, " MiB"}, {KIB, " KiB"}, {1, " B"}, {0, 0}};
static const scale rate_scales[] = {
    {1e9, " GB/s"}, {1e6, " MB/s"}, {1e3, " kB/s"}, {1, " B/s"}, {0, 0}};
static const scale sent_scales[] = {{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"},
                                    {1e3, " kB"},  {1, " B"},    {0, 0}};
static const scale second_scales[] = {
    {1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}, {0, 0}};
static const scale flop_scales[] = {{1e18, " EFLOP"},
                                    {1e15, " PFLOP"},
                                    {1e12, " TFLOP"},
                                    {1e9, " GFLOP"},
                                    {1e6, " MFLOP"},
                                    {1, " FLOP"},
                                    {0, 0}};
static const scale flops_scales[] = {
    {1e12, " TFLOP/s"}, {1e9, " GFLOP/s"}, {1e6, " MFLOP/s"}, {1, " FLOP/s"}, {0, 0}};
static const scale count_scales[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {0, 0}};

/* Rounds to a number of significant digits. */
static double round_significant(double value, int digits) {
    if (value == 0.0 || !isfinite(value))
        return value;
    double step = pow(10.0, floor(log10(fabs(value))) - (digits - 1));
    /* Steps below 1 are not exact in binary: divide by their exact inverse. */
    return step < 1.0 ? round(value * round(1.0 / step)) / round(1.0 / step)
                      : round(value / step) * step;
}

static const char *separate_thousands(const char *digits, char *text, size_t text_bytes) {
    int length = (int)strlen(digits);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < text_bytes; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

const char *ff_format_integer(int64_t value, char *text, size_t text_bytes) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    return separate_thousands(digits, text, text_bytes);
}

static const char *format_digits(double value, int significant, char *text, size_t text_bytes) {
    if (!isfinite(value) || fabs(value) >= (double)FF_SATURATED) {
        snprintf(text, text_bytes, "far too many");
        return text;
    }
    if (fabs(value) >= pow(10.0, significant))
        return ff_format_integer((int64_t)llround(value), text, text_bytes);
    double rounded = round_significant(value, significant);
    int whole_digits = rounded == 0.0 ? 1 : (int)floor(log10(fabs(rounded))) + 1;
    int decimals = significant - whole_digits;
    char digits[64];
    snprintf(digits, sizeof digits, "%.*f",
             decimals < 0    ? 0
             : decimals > 12 ? 12
                             : decimals,
             rounded);
    if (decimals <= 0)
        return separate_thousands(digits, text, text_bytes);
    snprintf(text, text_bytes, "%s", digits);
    return text;
}

const char *ff_format_significant(double value, char *text, size_t text_bytes) {
    return format_digits(value, 3, text, text_bytes);
}

static const char *format_scaled(double value, const scale *scales, char *text, size_t text_bytes) {
    const scale *s = scales;
    if (value == 0.0) {
        while (s->one > 1.0 && s[1].unit != NULL)
            s++;
        snprintf(text, text_bytes, "0%s", scales == byte_scales ? " B" : s->unit);
        return text;
    }
    while (s[1].unit != NULL && fabs(round_significant(value / s->one, 3)) < 1.0)
        s++;
    char number[FF_VALUE_BYTES];
    if (s[1].unit == NULL && s->one == 1.0) /* nothing smaller: bytes are whole */
        ff_format_integer((int64_t)llround(value), number, sizeof number);
    else
        ff_format_significant(value / s->one, number, sizeof number);
    snprintf(text, text_bytes, "%s%s", number, number[0] == 'f' ? "" : s->unit);
    return text;
}

const char *ff_format_bytes(double bytes, char *text, size_t text_bytes) {
    if (bytes >= (double)FF_SATURATED) {
        snprintf(text, text_bytes, "far too many");
        return text;
    }
    return format_scaled(bytes, byte_scales, text, text_bytes);
}

const char *ff_format_seconds(double seconds, char *text, size_t text_bytes) {
    return format_scaled(seconds, second_scales, text, text_bytes);
}

const char *ff_format_percent(double ratio, char *text, size_t text_bytes) {
    double percent = 100.0 * ratio;
    if (fabs(percent) >= 999.95) {
        char number[FF_VALUE_BYTES];
        snprintf(text, text_bytes, "%s%%", ff_format_significant(percent, number, sizeof number));
    } else if (percent != 0.0 && fabs(percent) < 0.05) {
        snprintf(text, text_bytes, percent < 0.0 ? ">-0.1%%" : "<0.1%%");
    } else {
        snprintf(text, text_bytes, "%.1f%%", percent);
    }
    return text;
}

const char *ff_format_count(double count, int digits, char *text, size_t text_bytes) {
    if (fabs(count) < 1e6)
        return ff_format_integer((int64_t)llround(count), text, text_bytes);
    if (!isfinite(count) || fabs(count) >= (double)FF_SATURATED) {
        snprintf(text, text_bytes, "far too many");
        return text;
    }
    const scale *s = count_scales;
    while (s[1].unit != NULL && fabs(round_significant(count / s->one, digits)) < 1.0)
        s++;
    char number[FF_VALUE_BYTES];
    snprintf(text, text_bytes, "%s%s", format_digits(count / s->one, digits, number, sizeof number),
             s->unit);
    return text;
}

const char *ff_format_gib(double bytes, char *text, size_t text_bytes) {
    if (bytes >= (double)FF_SATURATED) {
        snprintf(text, text_bytes, "huge");
        return text;
    }
    double gib = bytes / GIB;
    if (gib != 0.0 && fabs(gib) < 0.005)
        snprintf(text, text_bytes, "<0.01");
    else if (fabs(gib) < 9.995)
        snprintf(text, text_bytes, "%.2f", gib);
    else
        ff_format_significant(gib, text, text_bytes);
    return text;
}

typedef enum unit_kind {
    UNIT_PLAIN,
    UNIT_SCALED,
    UNIT_PERCENT,
    UNIT_COUNT,
} unit_kind;

static const struct {
    const char *word;
    unit_kind kind;
    const scale *scales;
    int digits;
} units[] = {
    {"per_s", UNIT_PLAIN, NULL, 3},          {"bytes", UNIT_SCALED, byte_scales, 3},
    {"sent", UNIT_SCALED, sent_scales, 3},   {"Bps", UNIT_SCALED, rate_scales, 3},
    {"s", UNIT_SCALED, second_scales, 3},    {"flop", UNIT_SCALED, flop_scales, 3},
    {"flops", UNIT_SCALED, flops_scales, 3}, {"ratio", UNIT_PERCENT, NULL, 3},
    {"mfu", UNIT_PERCENT, NULL, 3},          {"tokens", UNIT_COUNT, NULL, 3},
    {"params", UNIT_COUNT, NULL, 4},
};

/* True when the last word of a name of words_like_this is `word`. */
static bool ends_in_word(const char *name, const char *word) {
    size_t name_length = strlen(name), length = strlen(word);
    if (name_length < length || strcmp(name + name_length - length, word) != 0)
        return false;
    return name_length == length || name[name_length - length - 1] == '_';
}

const char *ff_format_number(const char *name, double value, char *text, size_t text_bytes) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!ends_in_word(name, units[i].word))
            continue;
        switch (units[i].kind) {
        case UNIT_PLAIN:
            return ff_format_significant(value, text, text_bytes);
        case UNIT_SCALED:
            return fabs(value) >= (double)FF_SATURATED && units[i].scales == byte_scales
                       ? ff_format_bytes(value, text, text_bytes)
                       : format_scaled(value, units[i].scales, text, text_bytes);
        case UNIT_PERCENT:
            return ff_format_percent(value, text, text_bytes);
        case UNIT_COUNT:
            return ff_format_count(value, units[i].digits, text, text_bytes);
        }
    }
    return ff_format_significant(value, text, text_bytes);
}

/* Whole numbers of a name without a unit are exact, however large. */
static bool has_unit(const char *name) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (ends_in_word(name, units[i].word))
            return true;
    return false;
}

const char *ff_format_fact(const ff_fact *fact, const char *name, char *text, size_t text_bytes) {
    name = name != NULL ? name : fact->name != NULL ? fact->name : "";
    switch (fact->kind) {
    case FF_FACT_TEXT:
        return fact->text;
    case FF_FACT_BOOL:
        return fact->boolean ? "yes" : "no";
    case FF_FACT_INTEGER:
        if (!has_unit(name))
            return ff_format_integer(fact->integer, text, text_bytes);
        return ff_format_number(name, (double)fact->integer, text, text_bytes);
    case FF_FACT_REAL:
        return ff_format_number(name, fact->real, text, text_bytes);
    case FF_FACT_NULL:
    case FF_FACT_LIST:
    case FF_FACT_RECORD:
        break;
    }
    return "-";
}
