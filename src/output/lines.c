/* See lines.h. */
#include "output/lines.h"

#include <math.h>
#include <string.h>

int ff_look_columns(const ff_look *look) {
    enum { NARROWEST = 40 };
    if (look->columns < NARROWEST)
        return NARROWEST;
    return look->columns > FF_WIDEST ? FF_WIDEST : look->columns;
}

/* Bytes of the UTF-8 sequence at `c` and its code point; 1 and -1 when it is malformed. */
static int decode(const char *text, int32_t *point) {
    const unsigned char *c = (const unsigned char *)text;
    int more = c[0] < 0x80                   ? 0
               : c[0] >= 0xC2 && c[0] < 0xE0 ? 1
               : (c[0] & 0xF0) == 0xE0       ? 2
               : c[0] >= 0xF0 && c[0] < 0xF5 ? 3
                                             : -1;
    *point = -1;
    if (more < 0)
        return 1;
    int32_t value = more == 0 ? c[0] : c[0] & (0x3F >> more);
    for (int i = 1; i <= more; i++) {
        if ((c[i] & 0xC0) != 0x80)
            return 1;
        value = value << 6 | (c[i] & 0x3F);
    }
    if ((more == 2 && value < 0x800) || (more == 3 && value < 0x10000) || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000))
        return 1;
    *point = value;
    return more + 1;
}

/* Characters that move the cursor or reorder what is read. */
static bool is_unsafe(int32_t point) {
    return point < 0x20 || (point >= 0x7F && point < 0xA0) ||
           (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
           (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF;
}

/* One ASCII character for each that our own texts use, so that columns stay aligned. */
static char ascii_of(int32_t point) {
    static const struct {
        int32_t first, last;
        char ascii;
    } table[] = {
        {0x00B1, 0x00B1, '~'}, {0x00B5, 0x00B5, 'u'}, {0x00B7, 0x00B7, '.'},  {0x00D7, 0x00D7, 'x'},
        {0x03BC, 0x03BC, 'u'}, {0x2010, 0x2015, '-'}, {0x2018, 0x2019, '\''}, {0x201C, 0x201D, '"'},
        {0x2022, 0x2022, '*'}, {0x2026, 0x2026, '.'}, {0x2190, 0x2190, '<'},  {0x2191, 0x2191, '^'},
        {0x2192, 0x2192, '>'}, {0x2193, 0x2193, 'v'}, {0x2212, 0x2212, '-'},  {0x2248, 0x2248, '~'},
        {0x2460, 0x24FF, '*'}, {0x2260, 0x2260, '#'}, {0x2264, 0x2264, '<'},  {0x2265, 0x2265, '>'},
        {0x2500, 0x2501, '-'}, {0x2502, 0x2503, '|'}, {0x2504, 0x257F, '+'},  {0x2580, 0x2590, '#'},
        {0x2591, 0x2593, ':'}, {0x25A0, 0x25FF, '#'},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (point >= table[i].first && point <= table[i].last)
            return table[i].ascii;
    return '?';
}

void ff_plain(ff_text *out, const char *text, const ff_look *look) {
    while (*text != '\0') {
        int32_t point;
        int length = decode(text, &point);
        char ascii = 0;
        if (point == '\t')
            ascii = ' ';
        else if (point < 0 || (point != '\n' && is_unsafe(point)))
            ascii = '?';
        else if (point >= 0x80 && !look->unicode)
            ascii = ascii_of(point);
        if (ascii != 0)
            ff_text_append_bytes(out, &ascii, 1);
        else
            ff_text_append_bytes(out, text, (size_t)length);
        text += length;
    }
}

void ff_painted(ff_text *out, const char *text, ff_paint paint, const ff_look *look) {
    static const char *const sequences[] = {
        [FF_PAINT_NONE] = "",          [FF_PAINT_HEADING] = "\033[1m",
        [FF_PAINT_LABEL] = "\033[36m", [FF_PAINT_QUIET] = "\033[2m",
        [FF_PAINT_GOOD] = "\033[32m",  [FF_PAINT_DOUBTFUL] = "\033[33m",
        [FF_PAINT_BAD] = "\033[1;31m", [FF_PAINT_NOTE] = "\033[1;36m",
    };
    bool coloured = look->colour && paint != FF_PAINT_NONE && text[0] != '\0';
    if (coloured)
        ff_text_append(out, sequences[paint]);
    ff_plain(out, text, look);
    if (coloured)
        ff_text_append(out, "\033[0m");
}

static const struct {
    const char *verdict, *words;
    ff_paint paint;
} verdicts[] = {
    {"fits", "fits", FF_PAINT_GOOD},
    {"tight", "tight", FF_PAINT_DOUBTFUL},
    {"too_big", "too big", FF_PAINT_BAD},
    {"illegal", "illegal", FF_PAINT_BAD},
};

ff_paint ff_paint_of_verdict(const char *verdict) {
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(verdict, verdicts[i].verdict) == 0)
            return verdicts[i].paint;
    return FF_PAINT_NONE;
}

const char *ff_verdict_words(const char *verdict) {
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(verdict, verdicts[i].verdict) == 0)
            return verdicts[i].words;
    return verdict;
}

/* Splits off the next word: blanks before it are skipped; "\n" is a word of its own. */
static size_t next_word(const char **at) {
    while (**at == ' ')
        (*at)++;
    return **at == '\n' ? 1 : strcspn(*at, " \n");
}

static int columns_of(const char *bytes, size_t length) {
    int columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return columns;
}

static void break_line(ff_text *out, int indent, const char *end) {
    ff_text_append(out, end);
    ff_text_repeat(out, ' ', indent);
}

/* Words of `text` from column `at`, further lines from `indent`; a broken line ends with `end`. */
static void wrap_words(ff_text *out, const char *text, int at, int indent, int columns,
                       const char *end) {
    bool line_empty = true;
    size_t length;
    for (const char *c = text; (length = next_word(&c)) > 0; c += length) {
        if (*c == '\n') {
            break_line(out, indent, "\n");
            at = indent;
            line_empty = true;
            continue;
        }
        int width = columns_of(c, length);
        if (!line_empty && at + 1 + width > columns) {
            break_line(out, indent, end);
            at = indent;
            line_empty = true;
        }
        if (!line_empty)
            ff_text_append(out, " ");
        ff_text_append_bytes(out, c, length);
        at += width + !line_empty;
        line_empty = false;
    }
    ff_text_append(out, "\n");
}

void ff_wrap(ff_text *out, const char *text, int indent, const ff_look *look) {
    ff_text plain = {0};
    ff_plain(&plain, text, look);
    wrap_words(out, ff_text_bytes(&plain), indent, indent, ff_look_columns(look), "\n");
    ff_text_free(&plain);
}

void ff_item_here(ff_text *out, int at, const char *label, int label_columns, const char *text,
                  const ff_look *look) {
    int used = ff_text_columns(label), from = at + label_columns + FF_ITEM_GAP;
    ff_painted(out, label, FF_PAINT_LABEL, look);
    if (used > label_columns) /* a long label has its line for itself */
        break_line(out, from, "\n");
    else
        ff_text_repeat(out, ' ', label_columns - used + FF_ITEM_GAP);
    ff_wrap(out, text, from, look);
}

void ff_item(ff_text *out, int indent, const char *label, int label_columns, const char *text,
             const ff_look *look) {
    ff_text_repeat(out, ' ', indent);
    ff_item_here(out, indent, label, label_columns, text, look);
}

void ff_shell_command(ff_text *out, const char *command, int indent, const ff_look *look) {
    enum { BACKSLASH = 2, FURTHER = 2 };
    ff_text plain = {0};
    ff_plain(&plain, command, look);
    const char *words = ff_text_bytes(&plain);
    size_t program = strcspn(words, " ");
    ff_text_append_bytes(out, words, program);
    ff_text_append(out, words[program] == ' ' ? " " : "");
    int used = indent + columns_of(words, program) + 1;
    wrap_words(out, words + program, used, indent + FURTHER, ff_look_columns(look) - BACKSLASH,
               " \\\n");
    ff_text_free(&plain);
}

void ff_bar(ff_text *out, double ratio, int columns, const ff_look *look) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double cut = ratio < 0.0 || !isfinite(ratio) ? 0.0 : ratio > 1.0 ? 1.0 : ratio;
    if (!look->unicode) {
        ff_text_repeat(out, '#', (int)lround(cut * columns));
        return;
    }
    int filled = (int)lround(cut * columns * 8);
    for (int i = 0; i < filled / 8; i++)
        ff_text_append(out, "█");
    ff_text_append(out, eighths[filled % 8]);
}
