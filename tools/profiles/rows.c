/* Reading the tables, and scoring a source under a profile. */
#include "profiles.h"

#include "base/text.h"
#include "presets/presets.h"
#include <stdlib.h>
#include <string.h>

static char *load(const char *name, size_t *length) {
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        perror(name);
        exit(3);
    }
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*length + 1);
    if (text == NULL || fread(text, 1, *length, file) != *length)
        exit(3);
    fclose(file);
    text[*length] = '\0';
    return text;
}

static stack_rows *stack_of(published *all, const char *name) {
    for (int i = 0; i < all->stacks; i++)
        if (strcmp(all->stack[i].name, name) == 0)
            return &all->stack[i];
    if (all->stacks == MOST_STACKS)
        return NULL;
    stack_rows *stack = &all->stack[all->stacks++];
    *stack = (stack_rows){.rows = 0};
    ff_copy_text(stack->name, sizeof stack->name, name);
    return stack;
}

static int source_in(stack_rows *stack, const char *name) {
    for (int i = 0; i < stack->sources; i++)
        if (strcmp(stack->source[i], name) == 0)
            return i;
    if (stack->sources == MOST_SOURCES)
        return -1;
    stack->source[stack->sources] = name;
    return stack->sources++;
}

static void *grown(void *array, int room, size_t size) {
    void *result = realloc(array, (size_t)room * size);
    if (result == NULL)
        exit(3);
    return result;
}

static void keep(stack_rows *stack, ff_row *row, ff_case *c) {
    int source = source_in(stack, row->value[FF_ROW_source]);
    if (source < 0)
        return;
    if (stack->rows == stack->room) {
        stack->room = stack->room == 0 ? 64 : 2 * stack->room;
        stack->row = grown(stack->row, stack->room, sizeof *stack->row);
        stack->c = grown(stack->c, stack->room, sizeof *stack->c);
        stack->source_of = grown(stack->source_of, stack->room, sizeof *stack->source_of);
    }
    stack->row[stack->rows] = row;
    stack->c[stack->rows] = c;
    stack->source_of[stack->rows++] = source;
}

/* Rows with a time, of stacks that have a profile. */
static void add_row(published *all, ff_row *row) {
    if (!ff_row_is(row, FF_ROW_quality, "good") || !ff_row_is(row, FF_ROW_outcome, "ran"))
        return;
    ff_row_assume(all->library.rules, row);
    if (ff_row_is(row, FF_ROW_score_time, "no") || ff_row_says(row, FF_ROW_profile) ||
        stack_profile(row->value[FF_ROW_stack]) == NULL)
        return;
    ff_case *c = malloc(sizeof *c);
    if (c == NULL)
        exit(3);
    const char *column;
    stack_rows *stack = stack_of(all, row->value[FF_ROW_stack]);
    if (stack == NULL || ff_case_of(&all->library, row, c) != FF_SKIP_NONE ||
        ff_measured_step_s(row, &c->job.model, &c->job.cluster, c->job.seq, &column) <= 0) {
        free(c);
        return;
    }
    c->job.profile = &c->profile;
    keep(stack, row, c);
}

void published_read(published *all, char **files, int count) {
    *all = (published){.arena = ff_arena_create()};
    ff_validate_library_init(all->arena, NULL, &all->library);
    ff_row *rows = NULL;
    int read = 0;
    for (int i = 0; i < count; i++) {
        size_t length;
        ff_csv csv;
        char *text = load(files[i], &length);
        if (ff_csv_read(all->arena, files[i], text, length, NULL, &csv) != FF_OK ||
            ff_rows_read(all->arena, &csv, NULL, &rows, &read) != FF_OK) {
            fprintf(stderr, "%s cannot be read\n", files[i]);
            exit(3);
        }
        free(text);
    }
    for (int i = 0; i < read; i++)
        add_row(all, &rows[i]);
}

void published_free(published *all) {
    for (int i = 0; i < all->stacks; i++) {
        for (int r = 0; r < all->stack[i].rows; r++)
            free(all->stack[i].c[r]);
        free(all->stack[i].row);
        free(all->stack[i].c);
        free(all->stack[i].source_of);
    }
    ff_arena_free(all->arena);
}

const ff_profile *stack_profile(const char *name) {
    static ff_profile profile[MOST_STACKS];
    static int profiles;
    char path[96];
    for (int i = 0; i < profiles; i++)
        if (strcmp(profile[i].name, name) == 0)
            return &profile[i];
    snprintf(path, sizeof path, "profiles/%s", name);
    const ff_field *root = ff_preset_tree(path);
    if (root == NULL || profiles == MOST_STACKS ||
        ff_profile_from_fields(root, name, NULL, &profile[profiles]) != FF_OK)
        return NULL;
    return &profile[profiles++];
}

int source_rows(const stack_rows *stack, int source) {
    int rows = 0;
    for (int i = 0; i < stack->rows; i++)
        rows += stack->source_of[i] == source;
    return rows;
}

int stack_sources_beside(const stack_rows *stack, int source, int least) {
    int rows = 0;
    for (int s = 0; s < stack->sources; s++)
        if (s != source && source_rows(stack, s) >= least)
            rows += source_rows(stack, s);
    return rows;
}

score score_source(stack_rows *stack, int source, const ff_profile *profile) {
    ff_arena *arena = ff_arena_create();
    ff_scored *scored = FF_ARENA_ARRAY(arena, stack->rows, ff_scored);
    const ff_scored **pointers = FF_ARENA_ARRAY(arena, stack->rows, const ff_scored *);
    ff_group_score group;
    int count = 0;
    for (int i = 0; i < stack->rows; i++) {
        if (stack->source_of[i] != source)
            continue;
        take_constants(&stack->c[i]->profile, profile);
        scored[count] = (ff_scored){.row = stack->row[i]};
        ff_predict(stack->row[i], stack->c[i], &scored[count].p);
        pointers[count] = &scored[count];
        count++;
    }
    ff_score_group(arena, "", pointers, count, &group);
    ff_arena_free(arena);
    return (score){group.time.rows, group.time.median, group.time.mean};
}

score score_stack(stack_rows *stack, const ff_profile *profile) {
    score all = {0};
    int used = 0;
    for (int s = 0; s < stack->sources; s++) {
        score one = score_source(stack, s, profile);
        all.rows += one.rows;
        all.median += one.median;
        all.mean += one.mean;
        used += one.rows > 0;
    }
    all.median /= used > 0 ? used : 1;
    all.mean /= used > 0 ? used : 1;
    return all;
}

void add_total(totals *sum, score in, score out) {
    sum->count++;
    sum->in.median += in.median;
    sum->in.mean += in.mean;
    sum->out.median += out.median;
    sum->out.mean += out.mean;
}
