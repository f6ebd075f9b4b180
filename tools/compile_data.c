/* Build step: data files -> one C file of const trees, so that presets need no file at run time.
 *
 *     compile_data OUTPUT.c ROOT_DIR FILE...
 *
 * A file below ROOT_DIR becomes an array of ff_field, parents before children, linked by address:
 *
 *     static const ff_field f3[] = {
 *         {MAP,  NULL,    first=&f3[1]},         devices.yaml
 *         {TEXT, "name", "A100", next=&f3[2]},
 *         ...
 * and a row of ff_preset_table, sorted by path. The tree is the one that the reader makes of the
 * file, places included; only the lines' texts are left out. Files that are neither .yaml nor .json
 * are skipped. A file that does not parse fails the build, with its place. */
#include "base/text.h"
#include "input/reader.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct source_file {
    const char *file_name;
    char *path; /* below the root, without ending */
    const char *ending;
    ff_arena *arena;
    const ff_field *root;
} source_file;

static _Noreturn void fail(const char *what, const char *detail) {
    fprintf(stderr, "compile_data: %s: %s\n", what, detail);
    exit(1);
}

static char *read_whole(const char *file_name, size_t *length) {
    FILE *file = fopen(file_name, "rb");
    if (file == NULL)
        fail("cannot open", file_name);
    ff_text text = {0};
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        ff_text_append_bytes(&text, block, got);
    if (ferror(file))
        fail("cannot read", file_name);
    fclose(file);
    *length = text.length;
    ff_text_append(&text, "");
    return text.bytes;
}

static void print_findings(const ff_diagnostics *findings) {
    for (int i = 0; i < ff_diagnostics_count(findings); i++) {
        const ff_diagnostic *d = ff_diagnostics_at(findings, i);
        fprintf(stderr, "%s:%d:%d: %s %s: %s\n", d->where.file == NULL ? "?" : d->where.file,
                d->where.line, d->where.column, ff_severity_name(d->severity), d->code, d->message);
    }
}

static const char *ending_of(const char *file_name) {
    const char *ending = strrchr(file_name, '.');
    bool known = ending != NULL && (strcmp(ending, ".yaml") == 0 || strcmp(ending, ".json") == 0);
    return known ? ending : NULL;
}

static char *path_below(const char *root, const char *file_name, const char *ending) {
    size_t root_length = strlen(root);
    if (strncmp(file_name, root, root_length) != 0)
        fail("file is not below the root directory", file_name);
    const char *start = file_name + root_length;
    while (*start == '/')
        start++;
    return strndup(start, (size_t)(ending - start));
}

static source_file load(const char *root, const char *file_name, const char *ending) {
    source_file file = {.file_name = file_name,
                        .path = path_below(root, file_name, ending),
                        .ending = ending,
                        .arena = ff_arena_create()};
    size_t length;
    char *text = read_whole(file_name, &length);
    ff_diagnostics *findings = ff_diagnostics_create();
    ff_status status = ff_fields_read(file.arena, file_name, text, length, findings, &file.root);
    if (status != FF_OK) {
        print_findings(findings);
        fail("data file is refused", file_name);
    }
    ff_diagnostics_free(findings);
    free(text);
    return file;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const source_file *)a)->path, ((const source_file *)b)->path);
}

/* Octal escapes end after three digits, so no character that follows can join them; '?' is escaped
 * against trigraphs. */
static void emit_string(FILE *out, const char *text) {
    if (text == NULL) {
        fputs("0", out);
        return;
    }
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (isalnum(*c) || (*c < 128 && strchr(" _-+.,:;/()[]{}=<>*&%#@!'|~^$`", *c) != NULL))
            fputc(*c, out);
        else
            fprintf(out, "\\%03o", *c);
    }
    fputc('"', out);
}

static void emit_real(FILE *out, double value) {
    if (isfinite(value))
        fprintf(out, "%.17g%s", value, value == floor(value) && fabs(value) < 1e15 ? ".0" : "");
    else
        fputs(value > 0 ? "__builtin_inf()" : "-__builtin_inf()", out);
}

static void emit_place(FILE *out, int tree, ff_place place) {
    if (place.file == NULL)
        fputs("{0}", out);
    else
        fprintf(out, "{n%d, %d, %d, %d, 0}", tree, place.line, place.column, place.length);
}

/* Index that the field after `field` and all below it gets, when it has `index`. */
static int after(const ff_field *field, int index) {
    index++;
    for (const ff_field *child = field->first; child != NULL; child = child->next)
        index = after(child, index);
    return index;
}

static void emit_field(FILE *out, int tree, const ff_field *field, int index) {
    fprintf(out, "{%d, ", (int)field->kind);
    emit_string(out, field->name);
    fputs(", ", out);
    emit_string(out, field->text);
    fprintf(out, ", %d, %d, ", field->boolean, field->is_integer);
    if (field->integer == INT64_MIN)
        fputs("INT64_MIN, ", out);
    else
        fprintf(out, "INT64_C(%lld), ", (long long)field->integer);
    emit_real(out, field->real);
    fprintf(out, ", %d, ", field->count);
    if (field->first != NULL)
        fprintf(out, "&f%d[%d], ", tree, index + 1);
    else
        fputs("0, ", out);
    if (field->next != NULL)
        fprintf(out, "&f%d[%d], ", tree, after(field, index));
    else
        fputs("0, ", out);
    emit_place(out, tree, field->where);
    fputs(", ", out);
    emit_place(out, tree, field->name_where);
    fputs("},\n", out);
    int child_index = index + 1;
    for (const ff_field *child = field->first; child != NULL; child = child->next) {
        emit_field(out, tree, child, child_index);
        child_index = after(child, child_index);
    }
}

static void emit_tree(FILE *out, int tree, const source_file *file) {
    fprintf(out, "\nstatic const char n%d[] = ", tree);
    ff_text name = {0};
    ff_text_printf(&name, "data/%s%s", file->path, file->ending);
    emit_string(out, ff_text_bytes(&name));
    ff_text_free(&name);
    fprintf(out, ";\nstatic const ff_field f%d[%d] = {\n", tree, after(file->root, 0));
    emit_field(out, tree, file->root, 0);
    fputs("};\n", out);
}

static void emit_table(FILE *out, const source_file *files, int count) {
    fputs("\nconst ff_preset_entry ff_preset_table[] = {\n", out);
    for (int i = 0; i < count; i++) {
        fputs("    {", out);
        emit_string(out, files[i].path);
        fprintf(out, ", f%d},\n", i);
    }
    fprintf(out, "    {0, 0},\n};\nconst int ff_preset_table_count = %d;\n", count);
}

/* The maps that clusters are described from, by name; 0 where there is no such file. */
static void emit_library(FILE *out, const source_file *files, int count) {
    static const char *const members[] = {"devices", "networks", "clusters"};
    fputs("\nconst ff_cluster_library ff_preset_library = {\n", out);
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        int found = -1;
        for (int i = 0; i < count; i++)
            if (strcmp(files[i].path, members[m]) == 0)
                found = i;
        if (found >= 0)
            fprintf(out, "    .%s = f%d,\n", members[m], found);
        else
            fprintf(out, "    .%s = 0,\n", members[m]);
    }
    fputs("};\n", out);
}

static int load_all(const char *root, char **names, int count, source_file *files) {
    int loaded = 0;
    for (int i = 0; i < count; i++) {
        const char *ending = ending_of(names[i]);
        if (ending != NULL)
            files[loaded++] = load(root, names[i], ending);
    }
    qsort(files, (size_t)loaded, sizeof *files, by_path);
    for (int i = 1; i < loaded; i++)
        if (strcmp(files[i - 1].path, files[i].path) == 0)
            fail("two data files differ in their ending alone", files[i].file_name);
    return loaded;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: compile_data OUTPUT.c ROOT_DIR FILE...\n", stderr);
        return 2;
    }
    source_file *files = calloc((size_t)argc, sizeof *files);
    int count = load_all(argv[2], argv + 3, argc - 3, files);
    FILE *out = fopen(argv[1], "w");
    if (out == NULL)
        fail("cannot write", argv[1]);
    fputs("/* Made of data/ by tools/compile_data.c; change the data instead. */\n"
          "#include \"presets/table.h\"\n",
          out);
    for (int i = 0; i < count; i++)
        emit_tree(out, i, &files[i]);
    emit_table(out, files, count);
    emit_library(out, files, count);
    if (ferror(out) || fclose(out) != 0)
        fail("cannot write", argv[1]);
    for (int i = 0; i < count; i++) {
        ff_arena_free(files[i].arena);
        free(files[i].path);
    }
    free(files);
    return 0;
}
