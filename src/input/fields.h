/* A structured text as a tree of values that remember their place, so that a finding can point at
 * the user's own line. Pure: the tree is made by input/reader.c (libfyaml) or by the build step
 * that compiles data/ into const trees (presets/).
 *
 * A field is never freed on its own: it lives in the arena it was read into, or in const data. */
#ifndef FF_INPUT_FIELDS_H
#define FF_INPUT_FIELDS_H

#include "base/arena.h"
#include "base/diagnose.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum ff_field_kind {
    FF_FIELD_NULL,
    FF_FIELD_BOOL,
    FF_FIELD_NUMBER, /* `text` as written; `integer` valid when `is_integer` */
    FF_FIELD_TEXT,
    FF_FIELD_LIST,
    FF_FIELD_MAP,
} ff_field_kind;

typedef struct ff_field {
    ff_field_kind kind;
    const char *name; /* key in a map, NULL in a list and at the root */
    const char *text; /* scalars as written, "" otherwise */
    bool boolean, is_integer;
    int64_t integer;
    double real;
    int count; /* children */
    const struct ff_field *first, *next;
    ff_place where;      /* of the value */
    ff_place name_where; /* of its key */
} ff_field;

const ff_field *ff_field_find(const ff_field *map, const char *name);
const char *ff_field_kind_name(ff_field_kind kind);

/* Typed access with a finding when the value is there but of the wrong kind or out of range.
 * Each returns true and sets *value when the key is present and good. An absent key or null is
 * false without a finding. */
bool ff_field_get_integer(const ff_field *map, const char *name, int64_t least, int64_t most,
                          ff_diagnostics *findings, int64_t *value);
bool ff_field_get_real(const ff_field *map, const char *name, double least, double most,
                       ff_diagnostics *findings, double *value);
bool ff_field_get_boolean(const ff_field *map, const char *name, ff_diagnostics *findings,
                          bool *value);
bool ff_field_get_text(const ff_field *map, const char *name, ff_diagnostics *findings,
                       const char **value);

/* The key of the map that is nearest to `name`, when it differs by a slip of the pen: an edit, and
 * one more for ten letters (another word of one vocabulary differs by more). NULL when none is. */
const ff_field *ff_field_misspelled(const ff_field *map, const char *name);
/* Reports FF0110 for a key that is needed and absent; when a key of the map is nearly the same,
 * FF0107 at that key instead ("did you mean"). */
void ff_field_report_missing(const ff_field *map, const char *name, ff_diagnostics *findings);
/* Reports FF0107 for every key of the map that is not in the NULL-terminated list. */
void ff_field_report_unknown(const ff_field *map, const char *const *known,
                             ff_diagnostics *findings);

#endif
