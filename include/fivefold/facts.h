/* Facts: what a command found out, as a tree of named values. Modules fill it, `output/` renders it
 * as text, JSON or CSV, so the forms cannot disagree.
 *
 *     record { name: value, list: [ ... ], record: { ... } }
 *
 * Units stand in the name, as the last word: `peak_bytes`, `step_s`, `link_Bps`, `fwd_flop`,
 * `bubble_ratio`, `gbs_tokens`. How a record's numbers came to be is its *basis*. */
#ifndef FIVEFOLD_FACTS_H
#define FIVEFOLD_FACTS_H

#include "fivefold/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum ff_fact_kind {
    FF_FACT_NULL,
    FF_FACT_BOOL,
    FF_FACT_INTEGER,
    FF_FACT_REAL,
    FF_FACT_TEXT,
    FF_FACT_LIST,
    FF_FACT_RECORD,
} ff_fact_kind;

typedef struct ff_fact {
    const char *name; /* NULL for list items and the root */
    ff_fact_kind kind;
    bool boolean;
    int64_t integer;
    double real;
    const char *text;
    int count; /* children of a list or record */
    struct ff_fact *first, *last, *next;
} ff_fact;

typedef struct ff_facts ff_facts;

/* A new tree whose root is an empty record, open for filling. */
FF_API ff_facts *ff_facts_create(void);
FF_API void ff_facts_free(ff_facts *facts);
FF_API const ff_fact *ff_facts_root(const ff_facts *facts);

/* The value at a dotted path below a record ("memory.peak_bytes"), or NULL. */
FF_API const ff_fact *ff_fact_find(const ff_fact *record, const char *path);
/* Values at a path, as 0, 0.0, false or "" when absent; integers and reals convert. */
FF_API int64_t ff_fact_integer(const ff_fact *record, const char *path);
FF_API double ff_fact_real(const ff_fact *record, const char *path);
FF_API bool ff_fact_boolean(const ff_fact *record, const char *path);
FF_API const char *ff_fact_text(const ff_fact *record, const char *path);

#endif
