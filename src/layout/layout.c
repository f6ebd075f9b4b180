/* Layout strings: reading, writing, and what follows from a layout's sizes.
 *
 *     " tp = 8, pp=4 "  -> items at commas -> key, value at '=' -> the key's row parses the value
 *
 * Every fault is reported, up to 64 of them. A text is first made printable byte by byte (blanks
 * for white space, ? for what is no ASCII), so that columns stay true and a finding can quote it.
 */
#include "layout/keys.h"

#include "base/arena.h"
#include "base/diagnose.h"
#include "base/number.h"
#include <ctype.h>
#include <string.h>

enum { LONGEST_TEXT = 64 * 1024, LONGEST_QUOTED_LINE = 1024, LONGEST_QUOTE = 60, MOST_FAULTS = 64 };

void ff_layout_init(ff_layout *layout) {
    static const ff_axis dense[4] = FF_DENSE_ORDER, expert[4] = FF_EXPERT_ORDER;
    *layout = (ff_layout){.sp = -1, .zero = -1, .zero3_weights = -1, .schedule = -1};
    memcpy(layout->dense_order, dense, sizeof dense);
    memcpy(layout->expert_order, expert, sizeof expert);
}

/* --- reading --- */

typedef struct reading {
    char *text;       /* printable copy, cut into items while it is read */
    const char *line; /* the same, whole; NULL when too long to quote */
    ff_diagnostics *findings;
    int faults;
    ff_layout *layout;
} reading;

static ff_place place_of(const reading *reader, const char *part) {
    return (ff_place){.file = "layout",
                      .line = 1,
                      .column = (int)(part - reader->text) + 1,
                      .length = (int)strlen(part),
                      .line_text = reader->line};
}

/* Whether there is room for one more finding; says so when there is none. */
static bool may_report(reading *reader) {
    reader->faults++;
    if (reader->faults == MOST_FAULTS + 1)
        ff_report(reader->findings, FF0201, FF_NOWHERE,
                  "more than %d faults; the rest is not shown", (int)MOST_FAULTS);
    return reader->faults <= MOST_FAULTS;
}

static char *trimmed(char *text) {
    while (*text == ' ')
        text++;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ')
        text[--length] = '\0';
    return text;
}

/* The name nearest to an unknown key, or NULL. Case is a slip of the pen too. */
static const char *nearest_key(const char *name) {
    const char *names[64];
    char lower[64];
    int count = 0;
    for (int i = 0; i < ff_layout_key_count; i++) {
        names[count++] = ff_layout_keys[i].help.name;
        for (int j = 0; j < 2 && ff_layout_keys[i].aliases[j] != NULL; j++)
            names[count++] = ff_layout_keys[i].aliases[j];
    }
    ff_copy_text(lower, sizeof lower, name);
    for (char *c = lower; *c != '\0'; c++)
        *c = (char)(*c == '-' ? '_' : tolower((unsigned char)*c));
    int nearest = ff_nearest_word(lower, names, count);
    return nearest < 0 ? NULL : names[nearest];
}

static void report_unknown(reading *reader, const char *name) {
    if (!may_report(reader))
        return;
    ff_report(reader->findings, FF0202, place_of(reader, name), "unknown layout key \"%.*s\"",
              (int)LONGEST_QUOTE, name);
    const char *nearest = nearest_key(name);
    if (nearest != NULL) {
        ff_report_help(reader->findings, "did you mean \"%s\"?", nearest);
        return;
    }
    ff_text keys = {0};
    for (int i = 0; i < ff_layout_key_count; i++)
        ff_text_printf(&keys, "%s%s", i == 0 ? "" : ", ", ff_layout_keys[i].help.name);
    ff_report_help(reader->findings, "keys: %s", ff_text_bytes(&keys));
    ff_text_free(&keys);
}

static void report_value(reading *reader, const ff_layout_key *key, const char *value,
                         const char *fault) {
    if (!may_report(reader))
        return;
    ff_report(reader->findings, FF0204, place_of(reader, value), "%s cannot be \"%.*s\": %s",
              key->help.name, (int)LONGEST_QUOTE, value, fault);
    const char *words[32];
    int count = 0, nearest = -1;
    for (const ff_word *word = key->words; word != NULL && word->name != NULL; word++)
        words[count++] = word->name;
    if (count > 0 && strlen(value) > 1)
        nearest = ff_nearest_word(value, words, count);
    if (nearest >= 0 && strcmp(words[nearest], value) != 0)
        ff_report_help(reader->findings, "did you mean \"%s\"? legal: %s", words[nearest],
                       key->help.values);
    else
        ff_report_help(reader->findings, "legal: %s", key->help.values);
}

/* "tp8" is likely to be tp=8. */
static void report_no_pair(reading *reader, const char *item) {
    if (!may_report(reader))
        return;
    ff_report(reader->findings, FF0201, place_of(reader, item),
              *item == '\0' ? "an item between commas is empty%.*s" : "\"%.*s\" is not key=value",
              *item == '\0' ? 0 : (int)LONGEST_QUOTE, item);
    char name[32];
    size_t letters = strcspn(item, "0123456789");
    if (letters == 0 || letters >= sizeof name)
        return;
    memcpy(name, item, letters);
    name[letters] = '\0';
    if (ff_layout_key_find(name) >= 0)
        ff_report_help(reader->findings, "did you mean \"%s=%s\"?", name,
                       item[letters] == '\0' ? "..." : item + letters);
}

static void read_item(reading *reader, char *item) {
    item = trimmed(item);
    char *equals = strchr(item, '=');
    if (equals == NULL) {
        report_no_pair(reader, item);
        return;
    }
    *equals = '\0';
    char *name = trimmed(item), *value = trimmed(equals + 1);
    int index = ff_layout_key_find(name);
    if (index < 0) {
        report_unknown(reader, name);
        return;
    }
    const ff_layout_key *key = &ff_layout_keys[index];
    if (reader->layout->given & 1u << index) {
        if (may_report(reader))
            ff_report(reader->findings, FF0203, place_of(reader, name), "%s is given twice",
                      key->help.name);
        return;
    }
    reader->layout->given |= 1u << index;
    const char *fault = key->parse(key, value, reader->layout);
    if (fault != NULL)
        report_value(reader, key, value, fault);
}

static void read_items(reading *reader) {
    char *item = reader->text;
    while (item != NULL) {
        char *comma = strchr(item, ',');
        if (comma != NULL)
            *comma = '\0';
        read_item(reader, item);
        item = comma == NULL ? NULL : comma + 1;
    }
}

static char *printable_copy(ff_arena *arena, const char *text, size_t length) {
    char *copy = ff_arena_copy(arena, text, length);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool printable = byte > ' ' && byte < 127;
        copy[i] = (char)(printable                                       ? byte
                         : byte == ' ' || (byte >= '\t' && byte <= '\r') ? ' '
                                                                         : '?');
    }
    return copy;
}

ff_status ff_layout_parse(const char *text, ff_diagnostics *findings, ff_layout *layout) {
    ff_layout_init(layout);
    size_t length = strnlen(text, LONGEST_TEXT + 1);
    if (length > LONGEST_TEXT) {
        ff_report(findings, FF0201, FF_NOWHERE, "the layout is longer than 64 KiB");
        return FF_INVALID;
    }
    ff_arena *arena = ff_arena_create();
    char *line = printable_copy(arena, text, length), *copy = printable_copy(arena, text, length);
    reading reader = {.text = copy,
                      .line = length <= LONGEST_QUOTED_LINE ? line : NULL,
                      .findings = findings,
                      .layout = layout};
    if (strspn(line, " ") < length) /* nothing given is a layout too */
        read_items(&reader);
    ff_arena_free(arena);
    return reader.faults == 0 ? FF_OK : FF_INVALID;
}

/* --- pointing --- */

static ff_place place_between(const char *text, const char *begin, const char *end) {
    while (begin < end && isspace((unsigned char)*begin))
        begin++;
    while (begin < end && isspace((unsigned char)end[-1]))
        end--;
    size_t length = strlen(text);
    bool quotable = length <= LONGEST_QUOTED_LINE && strcspn(text, "\t\r\n\v\f") == length;
    return (ff_place){.file = "layout",
                      .line = 1,
                      .column = (int)(begin - text) + 1,
                      .length = (int)(end - begin),
                      .line_text = quotable ? text : NULL};
}

static bool item_has_key(const char *item, size_t length, const char *key) {
    char name[32];
    while (length > 0 && isspace((unsigned char)*item)) {
        item++;
        length--;
    }
    size_t letters = strcspn(item, "=, \t\r\n\v\f");
    if (letters > length || letters >= sizeof name)
        return false;
    memcpy(name, item, letters);
    name[letters] = '\0';
    return ff_layout_key_find(name) >= 0 && ff_layout_key_find(name) == ff_layout_key_find(key);
}

ff_place ff_layout_place(const char *text, const char *key) {
    if (text == NULL || *text == '\0')
        return FF_NOWHERE;
    if (key == NULL)
        return place_between(text, text, text + strlen(text));
    for (const char *item = text; item != NULL;) {
        size_t length = strcspn(item, ",");
        if (item_has_key(item, length, key))
            return place_between(text, item, item + length);
        item = item[length] == ',' ? item + length + 1 : NULL;
    }
    return FF_NOWHERE;
}

/* --- writing --- */

static bool is_shown(const ff_layout_key *key, unsigned bit, const ff_layout *layout,
                     ff_layout_style style) {
    if (key->left_out(key, layout))
        return false;
    if (style == FF_LAYOUT_FULL || key->show == FF_SHOW_ALWAYS)
        return true;
    if (key->show == FF_SHOW_GIVEN)
        return (layout->given & bit) != 0;
    return !key->is_default(key, layout);
}

const char *ff_layout_print(const ff_layout *layout, ff_layout_style style, char *text,
                            size_t text_bytes) {
    ff_text written = {0};
    for (int i = 0; i < ff_layout_key_count; i++) {
        const ff_layout_key *key = &ff_layout_keys[i];
        if (!is_shown(key, 1u << i, layout, style))
            continue;
        ff_text_printf(&written, "%s%s=", written.length == 0 ? "" : ",", key->help.name);
        key->print(key, layout, &written);
    }
    ff_copy_text(text, text_bytes, ff_text_bytes(&written));
    ff_text_free(&written);
    return text;
}

/* --- what follows from the sizes --- */

int64_t ff_layout_model_chunks(const ff_layout *layout) {
    bool both_ways = layout->schedule == FF_SCHEDULE_DUALPIPE;
    return both_ways ? layout->pp : ff_mul(layout->pp, layout->vpp);
}

int64_t ff_layout_world(const ff_layout *layout) {
    return ff_mul(ff_mul3(layout->tp, layout->cp, layout->dp), layout->pp);
}

int64_t ff_layout_min_world(const ff_layout *layout) {
    return ff_mul(layout->pp,
                  ff_lcm(ff_mul(layout->tp, layout->cp), ff_mul(layout->etp, layout->ep)));
}

int64_t ff_layout_batch_sequences(const ff_layout *layout) {
    return ff_mul3(layout->mbs, layout->microbatches, layout->dp);
}

int ff_layout_gradient_buffers(const ff_layout *layout) {
    int buffers = 1;
    while (layout->accumulate == FF_ACCUMULATE_TREE &&
           (layout->microbatches - 1) >> (buffers - 1) > 0)
        buffers++;
    return buffers;
}

int ff_layout_active_dimensions(const ff_layout *layout) {
    return (layout->dp > 1) + (layout->tp > 1) + (layout->pp > 1) + (layout->cp > 1) +
           (layout->ep > 1);
}

bool ff_layout_given(const ff_layout *layout, const char *key) {
    return (layout->given & ff_layout_key_bit(key)) != 0;
}
