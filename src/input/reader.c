/* Events of libfyaml -> a tree of fields.
 *
 *     text -> source.c (bytes) -> libfyaml -> event -> frames[depth] -> tree
 *                                             |
 *                                             +-- depth, values, anchors checked here, while
 * reading
 *
 * The event parser is used, not the document builder: nothing is built that has not been checked,
 * no alias is ever expanded, and nesting costs a frame of a fixed array, not a stack frame.
 *
 * JSON is read as the flow style of YAML 1.2, of which it is a part; what YAML would read more
 * generously (a missing comma makes `1 "b": 2` one plain scalar) is then refused scalar by scalar.
 * JSON is what comes from a file named *.json, or begins with '{' and is not named *.yaml, *.yml.
 *
 * Invariant: a tree that is handed out has no duplicate keys, no key of more than 256 bytes or with
 * control characters, and no NUL in its texts. */
#include "input/reader.h"

#include "input/scalar.h"
#include "input/source.h"
#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY_BYTES = 256, MAX_SHOWN_BYTES = 40, MAX_DUPLICATES_REPORTED = 20 };

typedef struct frame {
    ff_field *container;
    ff_field *last;  /* its last child */
    const char *key; /* of a map: read, its value not yet */
    ff_place key_where;
} frame;

typedef struct reader {
    ff_arena *arena;
    ff_source source;
    ff_diagnostics *findings;
    bool json;
    frame frames[FF_INPUT_MAX_DEPTH];
    int depth, values, documents, duplicates;
    ff_field *root;
} reader;

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), cut = strlen(ending);
    return length >= cut && strcmp(text + length - cut, ending) == 0;
}

static bool looks_like_json(const ff_source *source) {
    if (source->file != NULL && ends_with(source->file, ".json"))
        return true;
    bool yaml = source->file != NULL &&
                (ends_with(source->file, ".yaml") || ends_with(source->file, ".yml"));
    size_t i = 0;
    while (i < source->length && strchr(" \t\r\n", source->text[i]) != NULL)
        i++;
    return !yaml && i < source->length && source->text[i] == '{';
}

/* The beginning of a text for a message, cut between characters. */
static const char *shown(reader *r, const char *text) {
    size_t length = strlen(text);
    if (length <= MAX_SHOWN_BYTES)
        return text;
    length = MAX_SHOWN_BYTES;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return ff_arena_printf(r->arena, "%s...", ff_arena_copy(r->arena, text, length));
}

static bool is_quoted(struct fy_token *token) {
    enum fy_scalar_style style = fy_token_scalar_style(token);
    return style == FYSS_DOUBLE_QUOTED || style == FYSS_SINGLE_QUOTED;
}

/* The marks of a quoted scalar lie inside its quotes; the place includes them. A token without
 * marks (an empty value, a block list) stands where its key stands. */
static ff_place place_of(reader *r, struct fy_token *token) {
    const struct fy_mark *start = token == NULL ? NULL : fy_token_start_mark(token);
    const struct fy_mark *end = token == NULL ? NULL : fy_token_end_mark(token);
    if (start == NULL || end == NULL) {
        if (r->depth > 0 && r->frames[r->depth - 1].key != NULL)
            return r->frames[r->depth - 1].key_where;
        return ff_source_place(&r->source, r->source.at, r->source.at);
    }
    size_t quote = is_quoted(token) && start->input_pos > 0;
    return ff_source_place(&r->source, start->input_pos - quote, end->input_pos + quote);
}

static bool refuse(reader *r, ff_code code, struct fy_token *token, const char *message) {
    ff_report(r->findings, code, place_of(r, token), "%s", message);
    return false;
}

/* Anchors, tags and aliases, wherever they stand. */
static bool check_decorations(reader *r, struct fy_token *anchor, struct fy_token *tag) {
    if (anchor != NULL)
        return refuse(r, FF0105, anchor, "anchors are not read");
    if (tag != NULL)
        return refuse(r, FF0101, tag, "tags are not read");
    return true;
}

/* -- scalars ------------------------------------------------------------------------------- */

static bool check_json_plain(reader *r, const ff_field *f) {
    if (f->text[0] == '\0') {
        ff_report(r->findings, FF0101, f->where, "a value is missing");
        return false;
    }
    if (ff_scalar_is_json(f))
        return true;
    ff_report(r->findings, FF0101, f->where, "not a JSON value: %s", shown(r, f->text));
    if (strpbrk(f->text, "\":") != NULL)
        ff_report_help(r->findings, "is a comma missing?");
    else
        ff_report_help(r->findings, "texts stand in double quotes");
    return false;
}

/* A copy of the token's text, NULL (with a finding) when it holds a NUL. */
static const char *copy_text(reader *r, struct fy_token *token) {
    size_t length = 0;
    const char *text = token == NULL ? "" : fy_token_get_text(token, &length);
    if (text == NULL)
        length = 0;
    if (length > 0 && memchr(text, '\0', length) != NULL) {
        refuse(r, FF0101, token, "a text holds a NUL character");
        return NULL;
    }
    return ff_arena_copy(r->arena, text, length);
}

/* -- the tree ------------------------------------------------------------------------------ */

/* A new value where the reader stands: the root, the next item of a list, the value of a key. */
static ff_field *add_field(reader *r, struct fy_token *token) {
    if (++r->values > FF_INPUT_MAX_VALUES) {
        refuse(r, FF0104, token, "more than 100,000 values");
        return NULL;
    }
    ff_field *f = FF_ARENA_NEW(r->arena, ff_field);
    f->text = "";
    f->where = place_of(r, token);
    if (r->depth == 0) {
        r->root = f;
        return f;
    }
    frame *top = &r->frames[r->depth - 1];
    f->name = top->key;
    f->name_where = top->key_where;
    top->key = NULL;
    if (top->last == NULL)
        top->container->first = f;
    else
        top->last->next = f;
    top->last = f;
    top->container->count++;
    return f;
}

static bool awaits_key(const reader *r) {
    const frame *top = r->depth == 0 ? NULL : &r->frames[r->depth - 1];
    return top != NULL && top->container->kind == FF_FIELD_MAP && top->key == NULL;
}

static bool take_key(reader *r, struct fy_token *token) {
    const char *key = copy_text(r, token);
    if (key == NULL)
        return false;
    if (r->json && (token == NULL || fy_token_scalar_style(token) != FYSS_DOUBLE_QUOTED))
        return refuse(r, FF0101, token, "a key must stand in double quotes");
    if (strcmp(key, "<<") == 0)
        return refuse(r, FF0105, token, "merge keys are not read");
    if (strlen(key) > MAX_KEY_BYTES)
        return refuse(r, FF0101, token, "a key has more than 256 bytes");
    for (const char *c = key; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return refuse(r, FF0101, token, "a key holds a control character");
    frame *top = &r->frames[r->depth - 1];
    top->key_where = place_of(r, token);
    top->key = key;
    return true;
}

static bool take_scalar(reader *r, struct fy_token *token) {
    if (awaits_key(r))
        return take_key(r, token);
    const char *text = copy_text(r, token);
    ff_field *f = text == NULL ? NULL : add_field(r, token);
    if (f == NULL)
        return false;
    f->text = text;
    f->kind = FF_FIELD_TEXT;
    if (token != NULL && fy_token_scalar_style(token) != FYSS_PLAIN)
        return true;
    ff_scalar_resolve(f);
    return !r->json || check_json_plain(r, f);
}

static bool open_container(reader *r, ff_field_kind kind, struct fy_token *token) {
    if (awaits_key(r))
        return refuse(r, FF0101, token, "a key must be a word, not a list or a map");
    if (r->depth == FF_INPUT_MAX_DEPTH)
        return refuse(r, FF0103, token, "more than 64 levels");
    ff_field *f = add_field(r, token);
    if (f == NULL)
        return false;
    f->kind = kind;
    f->where.length = f->where.length > 0; /* a mark, not all of it */
    r->frames[r->depth++] = (frame){.container = f};
    return true;
}

static int compare_names(const void *a, const void *b) {
    const ff_field *x = *(const ff_field *const *)a, *y = *(const ff_field *const *)b;
    int order = strcmp(x->name, y->name);
    if (order == 0)
        order = x->name_where.line - y->name_where.line;
    return order == 0 ? x->name_where.column - y->name_where.column : order;
}

static void report_duplicates(reader *r, const ff_field *map) {
    const ff_field **sorted = FF_ARENA_ARRAY(r->arena, map->count, const ff_field *);
    int count = 0;
    for (const ff_field *f = map->first; f != NULL; f = f->next)
        sorted[count++] = f;
    qsort(sorted, (size_t)count, sizeof *sorted, compare_names);
    for (int i = 1; i < count && r->duplicates < MAX_DUPLICATES_REPORTED; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) != 0)
            continue;
        r->duplicates++;
        ff_report(r->findings, FF0106, sorted[i]->name_where, "\"%s\" is given twice",
                  sorted[i]->name);
        ff_report_help(r->findings, "the other one stands at line %d, column %d",
                       sorted[i - 1]->name_where.line, sorted[i - 1]->name_where.column);
    }
}

static bool close_container(reader *r) {
    const ff_field *closed = r->frames[--r->depth].container;
    if (closed->kind == FF_FIELD_MAP && closed->count > 1)
        report_duplicates(r, closed);
    return true;
}

/* -- events -------------------------------------------------------------------------------- */

static bool take_event(reader *r, struct fy_event *e) {
    switch (e->type) {
    case FYET_DOCUMENT_START:
        if (++r->documents > 1)
            return refuse(r, FF0101, e->document_start.document_start,
                          "a second document begins; a file holds one");
        return true;
    case FYET_SCALAR:
        return check_decorations(r, e->scalar.anchor, e->scalar.tag) &&
               take_scalar(r, e->scalar.value);
    case FYET_MAPPING_START:
        return check_decorations(r, e->mapping_start.anchor, e->mapping_start.tag) &&
               open_container(r, FF_FIELD_MAP, e->mapping_start.mapping_start);
    case FYET_SEQUENCE_START:
        return check_decorations(r, e->sequence_start.anchor, e->sequence_start.tag) &&
               open_container(r, FF_FIELD_LIST, e->sequence_start.sequence_start);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return close_container(r);
    case FYET_ALIAS:
        return refuse(r, FF0105, e->alias.anchor, "an alias refers to another value");
    default:
        return true;
    }
}

/* What the parser means, where its words need a manual. */
static const char *plain_words(const char *message) {
    static const struct phrase {
        const char *parser, *plain;
    } phrases[] = {
        {"did not find expected node content", "a value is missing"},
        {"missing comma in flow mapping", "a comma or the closing } of a map is missing"},
        {"missing comma in flow sequence", "a comma or the closing ] of a list is missing"},
        {"flow mapping without a closing brace", "the closing } of a map is missing"},
        {"flow sequence without a closing bracket", "the closing ] of a list is missing"},
        {"mismatched flow mapping end", "a } closes what a [ opened"},
        {"mismatched flow sequence end", "a ] closes what a { opened"},
        {"missing document start", "more text follows after the end of the value"},
        {"double-quoted scalar without closing quote", "the closing quote of a text is missing"},
        {"single-quoted scalar without closing quote", "the closing quote of a text is missing"},
        {"invalid nested block mapping on the same line", "two keys on one line"},
        {"could not find expected ':'", "a ':' is missing after a key"},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strcmp(message, phrases[i].parser) == 0)
            return phrases[i].plain;
    return message;
}

/* The parser's own finding, once: what follows from it is noise. */
static void report_parser_error(reader *r, struct fy_diag *diag) {
    void *position = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &position);
    if (error == NULL || error->msg == NULL) {
        ff_report(r->findings, FF0101, ff_source_place(&r->source, r->source.at, r->source.at),
                  "the text ends within a value");
        return;
    }
    ff_place where = ff_source_place_at(&r->source, error->line, error->column);
    ff_report(r->findings, FF0101, where, "%s", plain_words(error->msg));
    if (r->source.at == r->source.length)
        ff_report_help(r->findings, "the file ends here: is it cut short?");
}

/* True when the stream was read to its end. */
static bool read_stream(reader *r, struct fy_parser *parser, struct fy_diag *diag) {
    bool going = true, ended = false;
    struct fy_event *event;
    while (going && !ended && (event = fy_parser_parse(parser)) != NULL) {
        ended = event->type == FYET_STREAM_END;
        going = take_event(r, event);
        fy_parser_event_free(parser, event);
    }
    if (going && !ended)
        report_parser_error(r, diag);
    return going && ended;
}

static bool read_text(reader *r) {
    struct fy_diag_cfg diag_config;
    fy_diag_cfg_default(&diag_config);
    diag_config.fp = NULL;
    diag_config.level = FYET_ERROR;
    struct fy_diag *diag = fy_diag_create(&diag_config);
    if (diag == NULL)
        abort();
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg config = {.flags = FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2,
                                  .diag = diag};
    struct fy_parser *parser = fy_parser_create(&config);
    if (parser == NULL || fy_parser_set_string(parser, r->source.text, r->source.length) != 0)
        abort();
    bool good = read_stream(r, parser, diag);
    fy_diag_set_collect_errors(diag, false); /* frees what was collected */
    fy_parser_destroy(parser);
    fy_diag_unref(diag);
    return good;
}

static bool is_blank(const ff_source *source) {
    for (size_t i = 0; i < source->length; i++)
        if (strchr(" \t\r\n", source->text[i]) == NULL)
            return false;
    return true;
}

static bool check_root(reader *r) {
    if (r->root != NULL && (r->root->kind == FF_FIELD_MAP || r->root->kind == FF_FIELD_LIST))
        return true;
    ff_report(r->findings, FF0101, ff_source_place(&r->source, 0, 1),
              r->root == NULL ? "the file holds no value" : "the file holds no keys and values");
    return false;
}

ff_status ff_fields_read(ff_arena *arena, const char *file_name, const char *text, size_t length,
                         ff_diagnostics *findings, const ff_field **root) {
    reader *r = FF_ARENA_NEW(arena, reader);
    r->arena = arena;
    r->findings = findings;
    *root = NULL;
    const char *file =
        file_name == NULL ? NULL : ff_arena_copy(arena, file_name, strlen(file_name));
    if (!ff_source_open(&r->source, arena, file, text, length, findings))
        return FF_INVALID;
    if (is_blank(&r->source)) {
        ff_report(findings, FF0101, ff_source_place(&r->source, 0, 0), "the file is empty");
        return FF_INVALID;
    }
    r->json = looks_like_json(&r->source);
    if (!read_text(r) || !check_root(r) || r->duplicates > 0)
        return FF_INVALID;
    *root = r->root;
    return FF_OK;
}
