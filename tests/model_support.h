/* What the tests of input and models share: files of the repository as text, texts as models. */
#ifndef TESTS_MODEL_SUPPORT_H
#define TESTS_MODEL_SUPPORT_H

#include "input/reader.h"
#include "model/config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a file below the repository root; NULL when there is none. Freed by the caller. */
static inline char *load_file(const char *path, size_t *length) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", FF_SOURCE_DIR, path);
    FILE *file = fopen(full, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, *length + 1);
    if (text == NULL || fread(text, 1, *length, file) != *length)
        abort();
    fclose(file);
    return text;
}

/* Reads a text and makes a model of it; findings are added to the list. */
static inline ff_status model_of_text(const char *text, ff_diagnostics *findings, ff_model *model) {
    ff_arena *arena = ff_arena_create();
    const ff_field *root;
    ff_status status = ff_fields_read(arena, "config.json", text, strlen(text), findings, &root);
    if (status == FF_OK)
        status = ff_model_from_config(root, "test", findings, model);
    ff_arena_free(arena);
    return status;
}

/* The model of data/models/<name>.json; must be one. */
static inline ff_model *model_of_preset(const char *name) {
    char path[256];
    size_t length = 0;
    snprintf(path, sizeof path, "data/models/%s.json", name);
    char *text = load_file(path, &length);
    ff_model *model = calloc(1, sizeof *model);
    if (text == NULL || model == NULL || model_of_text(text, NULL, model) != FF_OK) {
        fprintf(stderr, "%s is no model\n", path);
        abort();
    }
    free(text);
    return model;
}

#endif
