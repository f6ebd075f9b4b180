/* The words of a layout: every enumeration's names, with their aliases behind the name that is
 * printed. */
#include "layout/keys.h"

#include <string.h>

const ff_word ff_switch_words[] = {{"0", 0}, {"1", 1}, {NULL, 0}};

const ff_word ff_zero_words[] = {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}, {"fsdp", 3}, {NULL, 0}};

const ff_word ff_zero3_words[] = {
    {"stream", FF_ZERO3_STREAM}, {"resident", FF_ZERO3_RESIDENT}, {NULL, 0}};

const ff_word ff_grid_words[] = {
    {"folded", FF_GRID_FOLDED}, {"product", FF_GRID_PRODUCT}, {NULL, 0}};

const ff_word ff_accumulation_words[] = {
    {"chain", FF_ACCUMULATE_CHAIN}, {"tree", FF_ACCUMULATE_TREE}, {NULL, 0}};

const ff_word ff_cp_kind_words[] = {
    {"ring", FF_CP_RING},
    {"ring-plain", FF_CP_RING_PLAIN},
    {"ring-balanced", FF_CP_RING_BALANCED},
    {"allgather", FF_CP_ALLGATHER},
    {"ulysses", FF_CP_ULYSSES},
    {"hybrid", FF_CP_HYBRID},
    {NULL, 0},
};

const ff_word ff_module_words[] = {
    {"core", FF_MODULE_CORE},           {"mlp", FF_MODULE_MLP},
    {"norm", FF_MODULE_NORM},           {"moe", FF_MODULE_MOE},
    {"act", FF_MODULE_ACTIVATION},      {"activation", FF_MODULE_ACTIVATION},
    {"alternate", FF_MODULE_ALTERNATE}, {NULL, 0},
};

const ff_word ff_recipe_words[] = {
    {"bf16-megatron", FF_RECIPE_BF16_MEGATRON},
    {"bf16-classic", FF_RECIPE_BF16_CLASSIC},
    {"bf16-deepspeed", FF_RECIPE_BF16_DEEPSPEED},
    {"bf16-fsdp2", FF_RECIPE_BF16_FSDP2},
    {"bf16-fsdp", FF_RECIPE_BF16_FSDP},
    {"bf16-autocast", FF_RECIPE_BF16_AUTOCAST},
    {"fp16-megatron", FF_RECIPE_FP16_MEGATRON},
    {"fp8-te", FF_RECIPE_FP8_TE},
    {"mxfp8", FF_RECIPE_MXFP8},
    {"fp8-params", FF_RECIPE_FP8_PARAMS},
    {"fp8-rowwise", FF_RECIPE_FP8_ROWWISE},
    {"fp8-fsdp2", FF_RECIPE_FP8_FSDP2},
    {"nvfp4", FF_RECIPE_NVFP4},
    {"bf16-nanotron", FF_RECIPE_BF16_NANOTRON},
    {"fp32", FF_RECIPE_FP32},
    {NULL, 0},
};

const ff_word ff_schedule_words[] = {
    {"gpipe", FF_SCHEDULE_GPIPE},
    {"1f1b", FF_SCHEDULE_1F1B},
    {"interleaved", FF_SCHEDULE_INTERLEAVED},
    {"zb-h1", FF_SCHEDULE_ZB_H1},
    {"zb-h2", FF_SCHEDULE_ZB_H2},
    {"zb-v", FF_SCHEDULE_ZB_V},
    {"v-half", FF_SCHEDULE_V_HALF},
    {"dualpipe", FF_SCHEDULE_DUALPIPE},
    {"dualpipe-v", FF_SCHEDULE_DUALPIPE_V},
    {"afab", FF_SCHEDULE_GPIPE},
    {"interleaved-1f1b", FF_SCHEDULE_INTERLEAVED},
    {"zb-1p", FF_SCHEDULE_ZB_H1},
    {"zb-2p", FF_SCHEDULE_ZB_H2},
    {NULL, 0},
};

const ff_word *ff_word_find(const ff_word *words, const char *name) {
    for (; words->name != NULL; words++)
        if (strcmp(words->name, name) == 0)
            return words;
    return NULL;
}

const char *ff_word_of(const ff_word *words, int value) {
    for (; words->name != NULL; words++)
        if (words->value == value)
            return words->name;
    return "?";
}

const char *ff_cp_kind_name(ff_cp_kind kind) {
    return ff_word_of(ff_cp_kind_words, (int)kind);
}

const char *ff_recipe_name(ff_recipe recipe) {
    return ff_word_of(ff_recipe_words, (int)recipe);
}

const char *ff_schedule_name(ff_schedule_kind schedule) {
    return ff_word_of(ff_schedule_words, (int)schedule);
}

bool ff_schedule_find(const char *name, ff_schedule_kind *schedule) {
    const ff_word *word = ff_word_find(ff_schedule_words, name);
    if (word != NULL)
        *schedule = (ff_schedule_kind)word->value;
    return word != NULL;
}

bool ff_recipe_find(const char *name, ff_recipe *recipe) {
    const ff_word *word = ff_word_find(ff_recipe_words, name);
    if (word != NULL)
        *recipe = (ff_recipe)word->value;
    return word != NULL;
}
