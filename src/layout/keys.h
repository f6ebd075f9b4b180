/* The table of layout keys: one row a key, and everything that parses, prints, explains or
 * completes a layout reads the rows.
 *
 *     text --parse--> field of ff_layout (0 or -1: left out) --derive--> value --print--> text
 *
 * A row says how a value is read and written, when it is left out, and what stands for it then.
 * Invariant: print writes what parse reads, for every value that parse or derive makes. */
#ifndef FF_LAYOUT_KEYS_H
#define FF_LAYOUT_KEYS_H

#include "base/text.h"
#include "fivefold/layout.h"

/* Ranks along one axis; sequences or microbatches. */
enum { FF_LAYOUT_LARGEST_SIZE = 1 << 20, FF_LAYOUT_LARGEST_COUNT = INT32_MAX };

/* A word and what it stands for; lists end with a NULL name. Of several names of one value the
 * first is printed. */
typedef struct ff_word {
    const char *name;
    int value;
} ff_word;

typedef enum ff_key_show {                  /* in the short form */
                           FF_SHOW_CHANGED, /* where it differs from what would be derived */
                           FF_SHOW_ALWAYS,  /* what readers look for first */
                           FF_SHOW_GIVEN,   /* where the user wrote it: what would be derived is not
                                               known here */
} ff_key_show;

typedef struct ff_layout_key ff_layout_key;
struct ff_layout_key {
    ff_layout_key_help help;
    const char *aliases[2];
    ff_key_show show;
    size_t offset;        /* of the field that plain rows read and write */
    int64_t largest;      /* sizes: at most this */
    const ff_word *words; /* words: the legal ones */
    /* Sets the field; returns NULL, or why the value is refused. */
    const char *(*parse)(const ff_layout_key *key, const char *value, ff_layout *layout);
    void (*print)(const ff_layout_key *key, const ff_layout *layout, ff_text *text);
    bool (*left_out)(const ff_layout_key *key, const ff_layout *layout);
    bool (*is_default)(const ff_layout_key *key, const ff_layout *layout);
};

extern const ff_layout_key ff_layout_keys[];
extern const int ff_layout_key_count;

/* By name or alias; -1 when unknown. */
int ff_layout_key_find(const char *name);
/* The bit of `given` for a key of the table. */
unsigned ff_layout_key_bit(const char *name);

/* The place of a key (by any of its names) in a layout as written, up to the end of its value; of
 * the whole text when `key` is NULL. FF_NOWHERE when the text is NULL or does not have the key. */
ff_place ff_layout_place(const char *text, const char *key);

/* Words (words.c). */
const ff_word *ff_word_find(const ff_word *words, const char *name);
const char *ff_word_of(const ff_word *words, int value); /* "?" when there is none */
extern const ff_word ff_cp_kind_words[], ff_recipe_words[], ff_schedule_words[], ff_zero_words[],
    ff_zero3_words[], ff_switch_words[], ff_grid_words[], ff_accumulation_words[];
extern const ff_word ff_module_words[];

/* Values that have a grammar of their own (values.c). */
const char *ff_parse_cp_kind(const ff_layout_key *key, const char *value, ff_layout *layout);
const char *ff_parse_recompute(const ff_layout_key *key, const char *value, ff_layout *layout);
const char *ff_parse_order(const ff_layout_key *key, const char *value, ff_layout *layout);
const char *ff_parse_split(const ff_layout_key *key, const char *value, ff_layout *layout);
void ff_print_cp_kind(const ff_layout_key *key, const ff_layout *layout, ff_text *text);
void ff_print_recompute(const ff_layout_key *key, const ff_layout *layout, ff_text *text);
void ff_print_order(const ff_layout_key *key, const ff_layout *layout, ff_text *text);
void ff_print_split(const ff_layout_key *key, const ff_layout *layout, ff_text *text);

/* Digits only: no sign, suffix or fraction. Returns NULL, or why not. */
const char *ff_parse_whole(const char *text, int64_t least, int64_t largest, int64_t *value);

/* What stands for a left-out key once the others are known (defaults.c). */
int64_t ff_default_etp(const ff_layout *layout);
int ff_default_sp(const ff_layout *layout);
int ff_default_zero3_weights(const ff_layout *layout);
int ff_default_schedule(const ff_layout *layout);
int64_t ff_default_vpp(const ff_layout *layout);
/* The expert order that follows a dense one: etp in tp's place, ep in cp's, edp in dp's. */
void ff_default_expert_order(const ff_axis dense[4], ff_axis expert[4]);
/* Spreads `layers` over `chunks`; what is left over goes to the middle chunks. */
void ff_default_split(int layers, int chunks, int16_t *layers_of_chunk);

#endif
