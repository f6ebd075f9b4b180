/* See split.h. */
#include "validate/split.h"

#include <stdlib.h>
#include <string.h>

/* The head's GEMM over a layer's. Layers are of one kind here: the first's. */
static double head_in_layers(const ff_model *model) {
    ff_tensor tensors[FF_MODEL_MAX_TENSORS];
    double layer = 0, head = (double)model->vocab * (double)model->hidden;
    int count = ff_model_layer_tensors(model, 0, tensors);
    for (int i = 0; i < count; i++)
        layer += tensors[i].matmul ? (double)ff_tensor_elements(&tensors[i]) : 0;
    return layer > 0 ? head / layer : 0;
}

static bool running_cost(const ff_model *model, ff_layout *l) {
    double total = model->layers + head_in_layers(model);
    int stage = 0;
    for (int i = 0; i < model->layers; i++) {
        if (stage >= l->pp)
            return false;
        l->layers_of_chunk[stage]++;
        if (i + 1 >= total * (stage + 1) / (double)l->pp)
            stage++;
    }
    return stage < l->pp;
}

/* Stages filled from the front, each up to `most` layers' worth; true when everything fits. */
static bool fill(const ff_model *model, double head, double most, ff_layout *l) {
    int left = model->layers;
    for (int64_t s = l->pp - 1; s >= 0; s--) {
        double room = s == l->pp - 1 ? most - head : most;
        int take = room < 0 ? 0 : (int)(room + 1e-9);
        int even = (left + (int)s) / ((int)s + 1);
        take = take < even || s == l->pp - 1 ? take : even;
        l->layers_of_chunk[s] = (int16_t)(take < left ? take : left);
        left -= l->layers_of_chunk[s];
    }
    return left == 0;
}

static bool by_cost(const ff_model *model, ff_layout *l) {
    double head = head_in_layers(model);
    for (int layers = 1; layers <= model->layers; layers++) {
        double with_head = head + (double)layers - 1 - (double)(int)head;
        if (fill(model, head, head > layers ? head : layers, l))
            return true;
        if (with_head > layers && fill(model, head, with_head, l))
            return true;
    }
    return false;
}

/* "2..3": two layers on the first stage, three on the last, the rest dealt evenly. */
static bool by_ends(const char *name, const ff_model *model, ff_layout *l) {
    const char *dots = strstr(name, "..");
    if (dots == NULL || l->pp < 3)
        return false;
    long first = strtol(name, NULL, 10), last = strtol(dots + 2, NULL, 10), layers = model->layers;
    if (first < 0 || last < 0 || first > layers || last > layers - first ||
        (layers - first - last) % (l->pp - 2) != 0)
        return false;
    for (int64_t s = 0; s < l->pp; s++)
        l->layers_of_chunk[s] = (int16_t)(s == 0           ? first
                                          : s == l->pp - 1 ? last
                                                           : (layers - first - last) / (l->pp - 2));
    return true;
}

/* Chunks filled from the front, multi-token-prediction blocks counted as layers of the last one. */
static bool with_mtp(const ff_model *model, ff_layout *l) {
    int chunks = (int)(l->pp * l->vpp), left = model->layers;
    if (model->mtp_layers == 0)
        return false;
    int share = (left + model->mtp_layers + chunks - 1) / chunks;
    for (int i = 0; i < chunks; i++) {
        int take = share < left ? share : left;
        l->layers_of_chunk[i] = (int16_t)take;
        left -= take;
    }
    l->chunks = left == 0 ? chunks : 0;
    return left == 0;
}

bool ff_split_layers(const char *name, const ff_model *model, ff_layout *layout) {
    if (layout->pp == 1 || layout->pp * layout->vpp > FF_LAYOUT_MAX_CHUNKS)
        return false;
    memset(layout->layers_of_chunk, 0, sizeof layout->layers_of_chunk);
    if (strcmp(name, "with-mtp") == 0)
        return with_mtp(model, layout);
    if (layout->vpp > 1)
        return false;
    bool done = (strcmp(name, "running-cost") == 0 && running_cost(model, layout)) ||
                (strcmp(name, "by-cost") == 0 && by_cost(model, layout)) ||
                by_ends(name, model, layout);
    layout->chunks = done ? (int)layout->pp : 0;
    return done;
}
