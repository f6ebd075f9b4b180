/* The rows. Order here is the order of printing. */
#include "layout/keys.h"

#include "base/number.h"
#include <string.h>

/* --- plain rows: a size or a word in one field --- */

static int64_t size_of(const ff_layout_key *key, const ff_layout *layout) {
    int64_t value;
    memcpy(&value, (const char *)layout + key->offset, sizeof value);
    return value;
}

static int word_of(const ff_layout_key *key, const ff_layout *layout) {
    int value;
    memcpy(&value, (const char *)layout + key->offset, sizeof value);
    return value;
}

static const char *parse_size(const ff_layout_key *key, const char *value, ff_layout *layout) {
    int64_t number;
    const char *fault = ff_parse_whole(value, 1, key->largest, &number);
    if (fault == NULL)
        memcpy((char *)layout + key->offset, &number, sizeof number);
    return fault;
}

/* 0 says "left out" in so many words. */
static const char *parse_size_or_0(const ff_layout_key *key, const char *value, ff_layout *layout) {
    return strcmp(value, "0") == 0 ? NULL : parse_size(key, value, layout);
}

static const char *parse_word(const ff_layout_key *key, const char *value, ff_layout *layout) {
    const ff_word *word = ff_word_find(key->words, value);
    if (word == NULL)
        return "there is no such value";
    memcpy((char *)layout + key->offset, &word->value, sizeof word->value);
    return NULL;
}

static void print_size(const ff_layout_key *key, const ff_layout *layout, ff_text *text) {
    ff_text_printf(text, "%lld", (long long)size_of(key, layout));
}

static void print_word(const ff_layout_key *key, const ff_layout *layout, ff_text *text) {
    ff_text_append(text, ff_word_of(key->words, word_of(key, layout)));
}

static bool size_left_out(const ff_layout_key *key, const ff_layout *layout) {
    return size_of(key, layout) == 0;
}

static bool word_left_out(const ff_layout_key *key, const ff_layout *layout) {
    return word_of(key, layout) < 0;
}

static bool never_left_out(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    (void)layout;
    return false;
}

static bool split_left_out(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->chunks == 0;
}

/* --- what would be derived --- */

static bool is_one(const ff_layout_key *key, const ff_layout *layout) {
    return size_of(key, layout) == 1;
}

static bool is_first_word(const ff_layout_key *key, const ff_layout *layout) {
    return word_of(key, layout) == 0;
}

static bool is_default_etp(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->etp == ff_default_etp(layout);
}

static bool is_default_sp(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->sp == ff_default_sp(layout);
}

static bool is_default_zero_group(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->zero_group == ff_mul(layout->dp, layout->cp);
}

static bool is_default_zero3_weights(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->zero3_weights == ff_default_zero3_weights(layout);
}

static bool is_default_vpp(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->vpp == ff_default_vpp(layout);
}

static bool is_default_schedule(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    return layout->schedule == ff_default_schedule(layout);
}

static bool is_default_order(const ff_layout_key *key, const ff_layout *layout) {
    (void)key;
    static const ff_axis dense[4] = FF_DENSE_ORDER, expert[4] = FF_EXPERT_ORDER;
    return memcmp(dense, layout->dense_order, sizeof dense) == 0 &&
           memcmp(expert, layout->expert_order, sizeof expert) == 0;
}

/* A balanced split that the user wrote is kept: the model's layers may not be known. */
static bool is_default_split(const ff_layout_key *key, const ff_layout *layout) {
    int64_t layers = 0;
    int16_t balanced[FF_LAYOUT_MAX_CHUNKS];
    for (int i = 0; i < layout->chunks; i++)
        layers += layout->layers_of_chunk[i];
    ff_default_split((int)layers, layout->chunks, balanced);
    size_t bytes = (size_t)layout->chunks * sizeof *balanced;
    return !(layout->given & ff_layout_key_bit(key->help.name)) &&
           memcmp(balanced, layout->layers_of_chunk, bytes) == 0;
}

/* --- the table --- */

#define SIZE_READ(parser, field, most, left_out_text, default_test)                                \
    .offset = offsetof(ff_layout, field), .largest = (most), .parse = (parser),                    \
    .print = print_size, .left_out = size_left_out, .is_default = (default_test),                  \
    .help.left_out = (left_out_text)
#define SIZE(field, most, left_out_text, default_test)                                             \
    SIZE_READ(parse_size, field, most, left_out_text, default_test)
#define WORD(field, list, left_out_text, default_test)                                             \
    .offset = offsetof(ff_layout, field), .words = (list), .parse = parse_word,                    \
    .print = print_word, .left_out = word_left_out, .is_default = (default_test),                  \
    .help.left_out = (left_out_text)
#define OTHER(value, missing, left_out_text, default_test)                                         \
    .parse = ff_parse_##value, .print = ff_print_##value, .left_out = (missing),                   \
    .is_default = (default_test), .help.left_out = (left_out_text)

static const char SIZES[] = "1 to 1048576", COUNTS[] = "1 to 2147483647";
#define AXIS .help.values = SIZES
#define COUNT .help.values = COUNTS

const ff_layout_key ff_layout_keys[] = {
    {.help.name = "dp", AXIS, SIZE(dp, FF_LAYOUT_LARGEST_SIZE, "from the world", is_one)},
    {.help.name = "tp", AXIS, SIZE(tp, FF_LAYOUT_LARGEST_SIZE, "1", is_one)},
    {.help.name = "pp", AXIS, SIZE(pp, FF_LAYOUT_LARGEST_SIZE, "1", is_one)},
    {.help.name = "cp", AXIS, SIZE(cp, FF_LAYOUT_LARGEST_SIZE, "1", is_one)},
    {.help.name = "ep", AXIS, SIZE(ep, FF_LAYOUT_LARGEST_SIZE, "1", is_one)},
    {.help.name = "etp",
     AXIS,
     SIZE(etp, FF_LAYOUT_LARGEST_SIZE, "1; tp with grid=product", is_default_etp)},
    {.help.name = "sp",
     .help.values = "0, 1",
     WORD(sp, ff_switch_words, "1 where tp > 1", is_default_sp)},
    {.help.name = "vpp",
     .help.values = "1 to 1024 chunks a stage",
     SIZE(vpp, FF_LAYOUT_MAX_CHUNKS, "1; 2 for zb-v, v-half, dualpipe, dualpipe-v",
          is_default_vpp)},
    {.help.name = "cp_kind",
     .help.values =
         "ring, ring-plain, ring-balanced, allgather, ulysses, hybrid:U (Ulysses over U ranks)",
     .words = ff_cp_kind_words,
     .offset = offsetof(ff_layout, cp_kind),
     OTHER(cp_kind, never_left_out, "ring", is_first_word)},
    {.help.name = "zero",
     .help.values = "0, 1, 2, 3 (alias fsdp)",
     .show = FF_SHOW_ALWAYS,
     WORD(zero, ff_zero_words, "1", NULL)},
    {.help.name = "zero_group",
     .help.values = "a divisor of dp*cp: ranks that shard together",
     SIZE_READ(parse_size_or_0, zero_group, FF_LAYOUT_LARGEST_SIZE, "dp*cp",
               is_default_zero_group)},
    {.help.name = "zero3_weights",
     .help.values = "stream (gather per microbatch), resident",
     WORD(zero3_weights, ff_zero3_words, "stream; resident where pp > 1",
          is_default_zero3_weights)},
    {.help.name = "mbs",
     COUNT,
     .show = FF_SHOW_ALWAYS,
     SIZE(mbs, FF_LAYOUT_LARGEST_COUNT, "1", NULL)},
    {.help.name = "microbatches",
     .aliases = {"m", "grad_acc"},
     COUNT,
     .show = FF_SHOW_GIVEN,
     SIZE(microbatches, FF_LAYOUT_LARGEST_COUNT, "the fewest that reach the batch", NULL)},
    {.help.name = "accumulate",
     .help.values = "chain (one buffer of gradients), tree (the same sum however the batch is cut)",
     WORD(accumulate, ff_accumulation_words, "chain; tree where the step is executed",
          is_first_word)},
    {.help.name = "recompute",
     .help.values = "none, full, full:N (of every stage), full:8/6*3 (by stage), selective, "
                    "selective:core+mlp+norm+moe+activation",
     .offset = offsetof(ff_layout, recompute),
     OTHER(recompute, never_left_out, "none", is_first_word)},
    {.help.name = "recipe",
     .help.values =
         "bf16-megatron, bf16-classic, bf16-deepspeed, bf16-fsdp2, bf16-fsdp, bf16-autocast, "
         "fp16-megatron, fp8-te, mxfp8, fp8-params, fp8-fsdp2, fp8-rowwise, nvfp4, bf16-nanotron, "
         "fp32",
     WORD(recipe, ff_recipe_words, "bf16-megatron", is_first_word)},
    {.help.name = "schedule",
     .help.values = "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, dualpipe, dualpipe-v",
     WORD(schedule, ff_schedule_words, "1f1b; interleaved where vpp > 1", is_default_schedule)},
    {.help.name = "order",
     .help.values = "axes from innermost out, as tp-cp-dp-pp/etp-ep-edp-pp",
     OTHER(order, never_left_out, "tp-cp-dp-pp", is_default_order)},
    {.help.name = "layers",
     .help.values = "layers of each chunk in model order, as 20/22/22/16 or 20/22*6/16",
     OTHER(split, split_left_out, "balanced", is_default_split)},
    {.help.name = "grid",
     .help.values = "folded (EP inside tp*cp*dp), product",
     WORD(grid, ff_grid_words, "folded where consistent", is_first_word)},
};
const int ff_layout_key_count = sizeof ff_layout_keys / sizeof *ff_layout_keys;

int ff_layout_key_find(const char *name) {
    for (int i = 0; i < ff_layout_key_count; i++) {
        if (strcmp(ff_layout_keys[i].help.name, name) == 0)
            return i;
        for (int j = 0; j < 2 && ff_layout_keys[i].aliases[j] != NULL; j++)
            if (strcmp(ff_layout_keys[i].aliases[j], name) == 0)
                return i;
    }
    return -1;
}

unsigned ff_layout_key_bit(const char *name) {
    int index = ff_layout_key_find(name);
    return index < 0 ? 0 : 1u << index;
}

const ff_layout_key_help *ff_layout_key_describe(int index) {
    return index < 0 || index >= ff_layout_key_count ? NULL : &ff_layout_keys[index].help;
}

const ff_layout_key_help *ff_layout_key_help_of(const char *key) {
    return ff_layout_key_describe(ff_layout_key_find(key));
}
