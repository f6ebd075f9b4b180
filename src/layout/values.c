/* Values with a grammar of their own.
 *
 *     cp_kind    ring | ring-plain | ring-balanced | allgather | ulysses | hybrid:U
 *     recompute  none | full | full:N | full:8/6/2*6 | selective | selective:core+mlp+...
 *     order      tp-cp-dp-pp[/etp-ep-edp-pp]     from innermost out
 *     layers     20/22*6/16                      a number a chunk, in model order
 *
 * In lists "22*6" stands for 22 six times.
 *
 * Refusals are texts that complete "KEY cannot be VALUE: ...". */
#include "layout/keys.h"

#include "base/number.h"
#include <ctype.h>
#include <string.h>

enum { LONGEST_VALUE = 64, LARGEST_LAYERS = INT16_MAX, SHORTEST_RUN = 3 };

const char *ff_parse_whole(const char *text, int64_t least, int64_t largest, int64_t *value) {
    if (*text == '\0')
        return "a number is missing";
    for (const char *c = text; *c != '\0'; c++)
        if (!isdigit((unsigned char)*c))
            return *text == '-' ? "it is negative or no number" : "it is no whole number";
    int64_t number;
    if (!ff_parse_count(text, &number) || number > largest)
        return "it is out of range";
    if (number < least)
        return "it must be positive";
    *value = number;
    return NULL;
}

/* Takes the text up to a separator (or the end) off *rest; false when nothing is left. */
static bool next_part(const char **rest, char separator, char *part, size_t part_bytes) {
    if (*rest == NULL)
        return false;
    const char *end = strchr(*rest, separator);
    size_t length = end == NULL ? strlen(*rest) : (size_t)(end - *rest);
    if (length >= part_bytes)
        length = part_bytes - 1;
    memcpy(part, *rest, length);
    part[length] = '\0';
    *rest = end == NULL ? NULL : end + 1;
    return true;
}

/* --- lists of numbers --- */

/* "22" or "22*6". */
static bool parse_run(char *run, int64_t *value, int64_t *times) {
    char *star = strchr(run, '*');
    *times = 1;
    if (star != NULL)
        *star++ = '\0';
    return ff_parse_whole(run, 0, LARGEST_LAYERS, value) == NULL &&
           (star == NULL || ff_parse_whole(star, 1, LARGEST_LAYERS, times) == NULL);
}

/* How many there are; -1 when it is no list, more than the most when it is too long. */
static int parse_list(const char *text, int16_t list[FF_LAYOUT_MAX_CHUNKS]) {
    char run[LONGEST_VALUE];
    int count = 0;
    while (next_part(&text, '/', run, sizeof run)) {
        int64_t value, times;
        if (!parse_run(run, &value, &times))
            return -1;
        if (count + times > FF_LAYOUT_MAX_CHUNKS)
            return FF_LAYOUT_MAX_CHUNKS + 1;
        for (int64_t i = 0; i < times; i++)
            list[count++] = (int16_t)value;
    }
    return count;
}

static void print_list(const int16_t *list, int count, ff_text *text) {
    for (int i = 0, run = 1; i < count; i += run) {
        const char *before = i == 0 ? "" : "/";
        run = 1;
        while (i + run < count && list[i + run] == list[i])
            run++;
        if (run < SHORTEST_RUN) {
            run = 1;
            ff_text_printf(text, "%s%d", before, list[i]);
        } else {
            ff_text_printf(text, "%s%d*%d", before, list[i], run);
        }
    }
}

/* --- cp_kind --- */

const char *ff_parse_cp_kind(const ff_layout_key *key, const char *value, ff_layout *layout) {
    (void)key;
    static const char HYBRID[] = "hybrid:";
    if (strncmp(value, HYBRID, sizeof HYBRID - 1) == 0) {
        layout->cp_kind = FF_CP_HYBRID;
        return ff_parse_whole(value + sizeof HYBRID - 1, 1, FF_LAYOUT_LARGEST_SIZE,
                              &layout->ulysses);
    }
    const ff_word *word = ff_word_find(ff_cp_kind_words, value);
    if (word == NULL)
        return "there is no such kind";
    if (word->value == FF_CP_HYBRID)
        return "hybrid needs the ranks of its Ulysses part, as in hybrid:4";
    layout->cp_kind = (ff_cp_kind)word->value;
    return NULL;
}

void ff_print_cp_kind(const ff_layout_key *key, const ff_layout *layout, ff_text *text) {
    (void)key;
    ff_text_append(text, ff_cp_kind_name(layout->cp_kind));
    if (layout->cp_kind == FF_CP_HYBRID)
        ff_text_printf(text, ":%lld", (long long)layout->ulysses);
}

/* --- recompute --- */

static const char *parse_modules(const char *modules, unsigned *set) {
    char name[LONGEST_VALUE];
    while (next_part(&modules, '+', name, sizeof name)) {
        const ff_word *word = ff_word_find(ff_module_words, name);
        if (word == NULL)
            return "its modules are core, mlp, norm, moe and act, joined by +";
        if (*set & (unsigned)word->value)
            return "it names a module twice";
        *set |= (unsigned)word->value;
    }
    return NULL;
}

/* "3" of every stage, or a list with a number a stage. */
static const char *parse_recomputed_layers(const char *text, ff_layout *layout) {
    if (strpbrk(text, "/*") == NULL)
        return ff_parse_whole(text, 1, LARGEST_LAYERS, &layout->recompute_layers);
    int stages = parse_list(text, layout->recompute_of_stage);
    if (stages < 0)
        return "behind full: it must be a number, or numbers joined by /, one a stage";
    if (stages > FF_LAYOUT_MAX_CHUNKS)
        return "it has more than 1024 stages";
    layout->recompute_stages = stages;
    return NULL;
}

const char *ff_parse_recompute(const ff_layout_key *key, const char *value, ff_layout *layout) {
    (void)key;
    char mode[LONGEST_VALUE];
    const char *rest = value;
    next_part(&rest, ':', mode, sizeof mode);
    layout->recompute_modules = 0;
    layout->recompute_layers = 0;
    layout->recompute_stages = 0;
    if (strcmp(mode, "none") == 0) {
        layout->recompute = FF_RECOMPUTE_NONE;
        return rest == NULL ? NULL : "none takes nothing behind it";
    }
    if (strcmp(mode, "full") == 0) {
        layout->recompute = FF_RECOMPUTE_FULL;
        return rest == NULL ? NULL : parse_recomputed_layers(rest, layout);
    }
    if (strcmp(mode, "selective") == 0) {
        layout->recompute = FF_RECOMPUTE_SELECTIVE;
        return parse_modules(rest == NULL ? "core" : rest, &layout->recompute_modules);
    }
    return "there is no such mode";
}

void ff_print_recompute(const ff_layout_key *key, const ff_layout *layout, ff_text *text) {
    (void)key;
    if (layout->recompute == FF_RECOMPUTE_NONE) {
        ff_text_append(text, "none");
    } else if (layout->recompute == FF_RECOMPUTE_FULL) {
        ff_text_append(text, "full");
        if (layout->recompute_layers > 0)
            ff_text_printf(text, ":%lld", (long long)layout->recompute_layers);
        if (layout->recompute_stages > 0)
            ff_text_append(text, ":");
        print_list(layout->recompute_of_stage, layout->recompute_stages, text);
    } else {
        const char *before = "selective:";
        unsigned left = layout->recompute_modules;
        for (const ff_word *word = ff_module_words; word->name != NULL; word++) {
            if (!(left & (unsigned)word->value))
                continue;
            ff_text_printf(text, "%s%s", before, word->name);
            before = "+";
            left &= ~(unsigned)word->value; /* further names of the same module are aliases */
        }
    }
}

const char *ff_recompute_print(const ff_layout *layout, char *text, size_t text_bytes) {
    ff_text written = {0};
    ff_print_recompute(NULL, layout, &written);
    ff_copy_text(text, text_bytes, ff_text_bytes(&written));
    ff_text_free(&written);
    return text;
}

/* --- order --- */

/* Four axes of one grid, each once. */
static bool parse_axes(const char *axes, const ff_axis grid[4], ff_axis order[4]) {
    char name[LONGEST_VALUE];
    int count = 0;
    unsigned seen = 0;
    while (next_part(&axes, '-', name, sizeof name)) {
        int i = 0;
        while (i < 4 && strcmp(ff_axis_name(grid[i]), name) != 0)
            i++;
        if (i == 4 || (seen & FF_AXES(grid[i])))
            return false;
        seen |= FF_AXES(grid[i]);
        order[count++] = grid[i];
    }
    return count == 4;
}

const char *ff_parse_order(const ff_layout_key *key, const char *value, ff_layout *layout) {
    (void)key;
    static const ff_axis dense[4] = FF_DENSE_ORDER, expert[4] = FF_EXPERT_ORDER;
    char axes[LONGEST_VALUE];
    const char *rest = value;
    next_part(&rest, '/', axes, sizeof axes);
    if (!parse_axes(axes, dense, layout->dense_order))
        return "it must name tp, cp, dp and pp once each, joined by -";
    ff_default_expert_order(layout->dense_order, layout->expert_order);
    if (rest != NULL && !parse_axes(rest, expert, layout->expert_order))
        return "behind the / it must name etp, ep, edp and pp once each";
    return NULL;
}

static void print_axes(const ff_axis order[4], ff_text *text) {
    for (int i = 0; i < 4; i++)
        ff_text_printf(text, "%s%s", i == 0 ? "" : "-", ff_axis_name(order[i]));
}

void ff_print_order(const ff_layout_key *key, const ff_layout *layout, ff_text *text) {
    (void)key;
    ff_axis follows[4];
    ff_default_expert_order(layout->dense_order, follows);
    print_axes(layout->dense_order, text);
    if (memcmp(follows, layout->expert_order, sizeof follows) == 0)
        return;
    ff_text_append(text, "/");
    print_axes(layout->expert_order, text);
}

/* --- layers --- */

const char *ff_parse_split(const ff_layout_key *key, const char *value, ff_layout *layout) {
    (void)key;
    int chunks = parse_list(value, layout->layers_of_chunk);
    if (chunks < 0)
        return "it must be whole numbers joined by /, one a chunk";
    if (chunks > FF_LAYOUT_MAX_CHUNKS)
        return "it has more than 1024 chunks";
    layout->chunks = chunks;
    return NULL;
}

void ff_print_split(const ff_layout_key *key, const ff_layout *layout, ff_text *text) {
    (void)key;
    print_list(layout->layers_of_chunk, layout->chunks, text);
}
