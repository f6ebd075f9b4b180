/* Facts as JSON: two blanks a level, keys in the order they were stated, one document.
 *
 * Integers are exact. Reals take the fewest of 15, 16 or 17 digits that read back as the same
 * number, and always show that they are reals (5.0). Texts are UTF-8; what is not becomes U+FFFD,
 * so that the document is always valid. Lists of scalars stand on one line. */
#include "output/json.h"
#include "output/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int utf8_length(const unsigned char *c) {
    static const struct {
        unsigned char first, last, low, high; /* of the second byte */
        int length;
    } forms[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    if (c[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (c[0] < forms[i].first || c[0] > forms[i].last)
            continue;
        if (c[1] < forms[i].low || c[1] > forms[i].high)
            return 0;
        for (int k = 2; k < forms[i].length; k++)
            if ((c[k] & 0xC0) != 0x80)
                return 0;
        return forms[i].length;
    }
    return 0;
}

static void write_text(ff_text *out, const char *text) {
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* byte, letter */
    ff_text_append(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        int length = utf8_length(c);
        const char *pair = NULL;
        for (const char *s = shorts; *s != '\0'; s += 2)
            if ((unsigned char)*s == *c)
                pair = s;
        if (pair != NULL)
            ff_text_printf(out, "\\%c", pair[1]);
        else if (*c < 0x20 || *c == 0x7F)
            ff_text_printf(out, "\\u%04x", *c);
        else if (length == 0)
            ff_text_append(out, "\\ufffd");
        else
            ff_text_append_bytes(out, (const char *)c, (size_t)length);
        c += length == 0 ? 1 : length;
    }
    ff_text_append(out, "\"");
}

static void write_real(ff_text *out, double value) {
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    bool looks_real = false;
    for (char *c = text; *c != '\0'; c++) {
        bool digit = (*c >= '0' && *c <= '9') || *c == '-' || *c == '+';
        looks_real = looks_real || !digit;
        if (!digit && *c != 'e')
            *c = '.'; /* whatever the caller's locale writes */
    }
    ff_text_append(out, text);
    if (!looks_real)
        ff_text_append(out, ".0");
}

static bool is_flat_list(const ff_fact *fact) {
    if (fact->kind != FF_FACT_LIST)
        return false;
    for (const ff_fact *f = fact->first; f != NULL; f = f->next)
        if (f->kind == FF_FACT_LIST || f->kind == FF_FACT_RECORD)
            return false;
    return true;
}

static void write_value(ff_text *out, const ff_fact *fact, int depth);

static void new_line(ff_text *out, int depth) {
    ff_text_append(out, "\n");
    ff_text_repeat(out, ' ', 2 * depth);
}

static void write_children(ff_text *out, const ff_fact *fact, int depth) {
    bool flat = is_flat_list(fact);
    for (const ff_fact *f = fact->first; f != NULL; f = f->next) {
        if (!flat)
            new_line(out, depth + 1);
        if (f->name != NULL) {
            write_text(out, f->name);
            ff_text_append(out, ": ");
        }
        write_value(out, f, depth + 1);
        if (f->next != NULL)
            ff_text_append(out, flat ? ", " : ",");
    }
    if (!flat && fact->first != NULL)
        new_line(out, depth);
}

static void write_value(ff_text *out, const ff_fact *fact, int depth) {
    switch (fact->kind) {
    case FF_FACT_NULL:
        ff_text_append(out, "null");
        break;
    case FF_FACT_BOOL:
        ff_text_append(out, fact->boolean ? "true" : "false");
        break;
    case FF_FACT_INTEGER:
        ff_text_printf(out, "%lld", (long long)fact->integer);
        break;
    case FF_FACT_REAL:
        write_real(out, fact->real);
        break;
    case FF_FACT_TEXT:
        write_text(out, fact->text);
        break;
    case FF_FACT_LIST:
    case FF_FACT_RECORD:
        ff_text_append(out, fact->kind == FF_FACT_LIST ? "[" : "{");
        write_children(out, fact, depth);
        ff_text_append(out, fact->kind == FF_FACT_LIST ? "]" : "}");
        break;
    }
}

void ff_render_json(const ff_fact *root, ff_text *out) {
    write_value(out, root, 0);
    ff_text_append(out, "\n");
}

void ff_json_write_scalar(ff_text *out, const ff_fact *fact) {
    write_value(out, fact, 0);
}
