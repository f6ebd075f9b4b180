/* The largest tensors alive at a stage's peak, for people: tensors of one name in all layers and
 * microbatches in flight are one line, and so is each part of state, buffers and runtime.
 * Invariant: the lines add up to the stage's total. */
#include "fivefold/memory.h"

#include "base/number.h"
#include <assert.h>
#include <string.h>

enum { MOST_LINES = 128 };

typedef struct lines {
    ff_live_tensor line[MOST_LINES];
    int count;
} lines;

static void add(lines *l, const char *name, int64_t bytes) {
    if (bytes <= 0)
        return;
    for (int i = 0; i < l->count; i++) {
        if (strcmp(l->line[i].name, name) == 0) {
            l->line[i].bytes = ff_add(l->line[i].bytes, bytes);
            return;
        }
    }
    assert(l->count < MOST_LINES);
    l->line[l->count++] = (ff_live_tensor){name, bytes};
}

/* `layers` of a list, in each microbatch held. What waits for W is one line: GEMM inputs and the
 * output gradients that B made. */
static void add_list(lines *l, const ff_layer_list *list, ff_held held, int64_t layers) {
    int64_t times = ff_mul(held.kept, layers);
    for (int i = 0; i < list->tensors; i++)
        if (list->tensor[i].kept)
            add(l, list->tensor[i].name, ff_mul(ff_saved_tensor_bytes(&list->tensor[i]), times));
    add(l, "inputs and gradients for W",
        ff_mul3(ff_layer_waiting_bytes(list), held.waiting, layers));
}

/* The head's own tensors stand under "logits and loss". */
static void add_ends(lines *l, const ff_model *model, const ff_layout *layout,
                     const ff_program_options *options, const ff_chunk_content *content,
                     ff_held held) {
    ff_layer_shape shape = ff_program_layer_shape(layout, options, false);
    ff_layer_list list;
    if (content->embedding) {
        ff_embedding_build(model, &shape, &list);
        add_list(l, &list, held, 1);
    }
    if (content->head && model->mtp_layers > 0) {
        ff_mtp_build(model, &shape, &list);
        add_list(l, &list, held, model->mtp_layers);
        ff_layer_build(model, model->mtp_kind, &shape, &list);
        add_list(l, &list, held, model->mtp_layers);
    }
}

static void add_chunk(lines *l, const ff_model *model, const ff_layout *layout,
                      const ff_program_options *options, int64_t stage, int64_t chunk,
                      ff_held held) {
    ff_chunk_content content;
    ff_layer_list list;
    ff_program_chunk(model, layout, stage, chunk, &content);
    for (int kind = 0; kind < model->kinds; kind++) {
        for (int whole = 0; whole < 2; whole++) {
            int layers = whole ? content.recomputed_of_kind[kind]
                               : content.of_kind[kind] - content.recomputed_of_kind[kind];
            if (layers == 0)
                continue;
            ff_layer_shape shape = ff_program_layer_shape(layout, options, whole == 1);
            ff_layer_build(model, kind, &shape, &list);
            add_list(l, &list, held, layers);
        }
    }
    add_ends(l, model, layout, options, &content, held);
}

static void add_parts(lines *l, const ff_stage_memory *memory) {
    add(l, "weights", memory->weights_bytes);
    add(l, "gradients", memory->gradients_bytes);
    add(l, "optimizer state", memory->optimizer_bytes);
    add(l, "logits and loss", memory->loss_bytes);
    add(l, "gathered weights", memory->gathered_bytes);
    add(l, "gradient buckets", memory->bucket_bytes);
    add(l, "pipeline transfers", memory->transfer_bytes);
    add(l, "working set of the running layer", memory->working_bytes);
    add(l, "context and workspaces", memory->context_bytes);
    add(l, "communicators", memory->communicator_bytes);
    add(l, "fragmentation", memory->fragmentation_bytes);
}

static void sort_by_bytes(lines *l) {
    for (int i = 1; i < l->count; i++) {
        ff_live_tensor line = l->line[i];
        int at = i;
        for (; at > 0 && l->line[at - 1].bytes < line.bytes; at--)
            l->line[at] = l->line[at - 1];
        l->line[at] = line;
    }
}

int ff_ledger_tensors(const ff_model *model, const ff_layout *layout,
                      const ff_program_options *options, const ff_stage_memory *memory,
                      int64_t stage, int most, ff_live_tensor *tensors) {
    ff_memory_blocks blocks;
    ff_chunk_memory chunk_memory[FF_LAYOUT_MAX_CHUNKS];
    const ff_chunk_memory *chunks[FF_LAYOUT_MAX_CHUNKS];
    ff_held held[FF_LAYOUT_MAX_CHUNKS];
    lines l = {.count = 0};
    ff_memory_blocks_build(model, layout, options, &blocks);
    ff_ledger_chunks(model, layout, &blocks, stage, chunk_memory);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        chunks[chunk] = &chunk_memory[chunk];
    ff_ledger_peak(layout, chunks, stage, held);
    for (int64_t chunk = 0; chunk < layout->vpp; chunk++)
        add_chunk(&l, model, layout, options, stage, chunk, held[chunk]);
    add_parts(&l, memory);
    sort_by_bytes(&l);
    int count = l.count < most ? l.count : most;
    memcpy(tensors, l.line, (size_t)count * sizeof *tensors);
    return count;
}
