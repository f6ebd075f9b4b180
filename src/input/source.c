/* What a text may hold, checked byte by byte before a parser sees it.
 *
 * The parser looks ahead: it keeps a few hundred bytes for each punctuation mark from a '[' to
 * its ']', so 16 MiB of "[1,1,1," would take gigabytes before the first value is counted. 100,000
 * values need at most two openers, separators or decorations each; a text with more is refused
 * here, which bounds the parser's memory to about 100 MB. */
#include "input/source.h"

#include <string.h>

enum { MAX_PUNCTUATION = 2 * FF_INPUT_MAX_VALUES, MAX_SHOWN_LINE_BYTES = 4096 };

/* Bytes of the UTF-8 sequence that starts at `s` with `left` bytes to go, 0 when it is invalid:
 * overlong forms, surrogates and values above U+10FFFF are refused. */
static size_t sequence_bytes(const unsigned char *s, size_t left) {
    if (s[0] < 0x80)
        return 1;
    size_t bytes = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || left < bytes)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || beyond ? 0 : bytes;
}

static bool is_control(unsigned char byte) {
    return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
}

/* True when the byte may begin a list, map, separator or decoration; counted without regard to
 * quotes, which errs on the safe side. */
static bool is_punctuation(unsigned char byte) {
    return memchr("[{,&!*", byte, 6) != NULL;
}

static bool check_bytes(ff_source *source, ff_diagnostics *findings) {
    const unsigned char *s = (const unsigned char *)source->text;
    int punctuation = 0;
    for (size_t i = 0; i < source->length;) {
        size_t bytes = sequence_bytes(s + i, source->length - i);
        if (bytes == 0 || is_control(s[i])) {
            ff_report(findings, FF0101, ff_source_place(source, i, i + 1),
                      bytes == 0 ? "byte 0x%02x is not UTF-8 text"
                                 : "control character 0x%02x does not belong in a text file",
                      s[i]);
            return false;
        }
        if (is_punctuation(s[i]) && ++punctuation > MAX_PUNCTUATION) {
            ff_report(findings, FF0104, ff_source_place(source, i, i + 1), "more than %d values",
                      FF_INPUT_MAX_VALUES);
            return false;
        }
        i += bytes;
    }
    return true;
}

static const char *copy_as_lines(ff_arena *arena, const char *text, size_t length) {
    char *lines = ff_arena_copy(arena, text, length);
    for (size_t i = 0; i < length; i++) {
        if (lines[i] == '\n') {
            lines[i] = '\0';
            if (i > 0 && lines[i - 1] == '\r')
                lines[i - 1] = '\0';
        }
    }
    return lines;
}

bool ff_source_open(ff_source *source, ff_arena *arena, const char *file, const char *text,
                    size_t length, ff_diagnostics *findings) {
    *source = (ff_source){.file = file, .text = text, .length = length, .line = 1, .column = 1};
    if (length > FF_INPUT_MAX_BYTES) {
        ff_report(findings, FF0102, (ff_place){.file = file}, "file has %zu bytes, more than %d",
                  length, FF_INPUT_MAX_BYTES);
        return false;
    }
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        source->text += 3;
        source->length -= 3;
    }
    source->lines = copy_as_lines(arena, source->text, source->length);
    return check_bytes(source, findings);
}

static bool starts_character(char byte) {
    return ((unsigned char)byte & 0xc0) != 0x80;
}

static void move_to(ff_source *source, size_t offset) {
    if (offset < source->at) {
        bool same_line = offset >= source->line_start;
        source->at = same_line ? source->line_start : 0;
        source->line_start = source->at;
        source->line = same_line ? source->line : 1;
        source->column = 1;
    }
    for (; source->at < offset; source->at++) {
        if (source->text[source->at] == '\n') {
            source->line++;
            source->column = 1;
            source->line_start = source->at + 1;
        } else if (source->at + 1 >= source->length ||
                   starts_character(source->text[source->at + 1])) {
            source->column++;
        }
    }
}

/* A line of thousands of characters helps nobody: it is left out. */
static const char *shown_line(const ff_source *source) {
    const char *line = source->lines + source->line_start;
    return strnlen(line, MAX_SHOWN_LINE_BYTES) < MAX_SHOWN_LINE_BYTES ? line : NULL;
}

ff_place ff_source_place(ff_source *source, size_t begin, size_t end) {
    begin = begin > source->length ? source->length : begin;
    end = end > source->length ? source->length : end;
    move_to(source, begin);
    int length = 0;
    for (size_t i = begin; i < end && source->lines[i] != '\0'; i++)
        length += starts_character(source->text[i]);
    return (ff_place){source->file, source->line, source->column, length, shown_line(source)};
}

ff_place ff_source_place_at(ff_source *source, int line, int column) {
    size_t offset = 0;
    for (int i = 1; i < line; i++) {
        const char *newline = memchr(source->text + offset, '\n', source->length - offset);
        if (newline == NULL)
            return ff_source_place(source, source->length, source->length);
        offset = (size_t)(newline - source->text) + 1;
    }
    while (--column > 0 && offset < source->length && source->text[offset] != '\n')
        do
            offset++;
        while (offset < source->length && !starts_character(source->text[offset]));
    return ff_source_place(source, offset, offset + 1);
}
