#include "plan/evaluate.h"

#include "base/number.h"
#include "presets/presets.h"
#include <stdlib.h>
#include <string.h>

/* Everything that the blocks of a layout depend on; compared as bytes, so it is zeroed first. */
typedef struct block_key {
    int64_t tp, cp, ep, etp, mbs, ulysses, pipelined;
    int64_t sp, cp_kind, recompute, modules, recipe;
    ff_reach tp_reach, cp_reach, ep_reach, etp_reach, expert_reach;
} block_key;

typedef struct blocks {
    block_key key;
    bool timed;
    ff_memory_blocks memory;
    ff_time_blocks time;
} blocks;

struct ff_evaluator {
    ff_arena *arena;
    const ff_job *job;
    ff_cost cost;
    ff_program_options options;
    double flop_per_token;
    blocks **table; /* open addressing, a power of two */
    size_t capacity, used;
    ff_shard_params *stage_params; /* of the layout evaluated last */
    double *scratch;
};

enum { FIRST_CAPACITY = 1024, MOST_STAGES = FF_LAYOUT_MAX_CHUNKS };

ff_evaluator *ff_evaluator_create(const ff_job *job, ff_diagnostics *findings) {
    ff_physics physics;
    const ff_field *root = ff_preset_tree("physics");
    if (root == NULL ||
        ff_physics_from_fields(root, job->cluster.device.generation, findings, &physics) != FF_OK)
        return NULL;
    ff_arena *arena = ff_arena_create();
    ff_evaluator *e = FF_ARENA_NEW(arena, ff_evaluator);
    e->arena = arena;
    e->job = job;
    e->cost = (ff_cost){.model = &job->model,
                        .cluster = &job->cluster,
                        .profile = job->profile,
                        .physics = physics,
                        .seq = job->seq,
                        .imbalance = job->imbalance};
    e->options = (ff_program_options){job->seq, job->profile->kernels, job->imbalance};
    e->flop_per_token = ff_model_flop_per_token(&job->model, job->seq, FF_FLOP_FULL);
    e->capacity = FIRST_CAPACITY;
    e->table = FF_ARENA_ARRAY(arena, e->capacity, blocks *);
    e->stage_params = FF_ARENA_ARRAY(arena, MOST_STAGES, ff_shard_params);
    e->scratch = FF_ARENA_ARRAY(arena, 2 * MOST_STAGES, double);
    return e;
}

void ff_evaluator_free(ff_evaluator *evaluator) {
    if (evaluator != NULL)
        ff_arena_free(evaluator->arena);
}

const ff_cost *ff_evaluator_cost(const ff_evaluator *evaluator) {
    return &evaluator->cost;
}

ff_program_options ff_evaluator_options(const ff_evaluator *evaluator) {
    return evaluator->options;
}

int64_t ff_job_sequences(const ff_job *job) {
    return job->gbs_tokens == 0 ? 0 : ff_ceil_div(job->gbs_tokens, job->seq);
}

static uint64_t hash_of(const block_key *key) {
    const int64_t *words = (const int64_t *)key;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < sizeof *key / sizeof *words; i++) {
        hash ^= (uint64_t)words[i];
        hash *= UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    return hash;
}

static blocks **slot_of(blocks **table, size_t capacity, const block_key *key) {
    size_t at = hash_of(key) & (capacity - 1);
    while (table[at] != NULL && memcmp(&table[at]->key, key, sizeof *key) != 0)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static void grow(ff_evaluator *e) {
    size_t capacity = 2 * e->capacity;
    blocks **table = FF_ARENA_ARRAY(e->arena, capacity, blocks *);
    for (size_t i = 0; i < e->capacity; i++)
        if (e->table[i] != NULL)
            *slot_of(table, capacity, &e->table[i]->key) = e->table[i];
    e->table = table;
    e->capacity = capacity;
}

static block_key key_of(const ff_layout *l, const ff_reaches *reaches) {
    block_key key;
    memset(&key, 0, sizeof key);
    key.tp = l->tp;
    key.cp = l->cp;
    key.ep = l->ep;
    key.etp = l->etp;
    key.mbs = l->mbs;
    key.ulysses = l->ulysses;
    key.sp = l->sp;
    key.cp_kind = (int64_t)l->cp_kind;
    key.recompute = (int64_t)l->recompute;
    key.modules = (int64_t)l->recompute_modules;
    key.recipe = (int64_t)l->recipe;
    key.tp_reach = reaches->tp;
    key.cp_reach = reaches->cp;
    key.ep_reach = reaches->ep;
    key.etp_reach = reaches->etp;
    key.expert_reach = reaches->expert;
    return key;
}

static blocks *blocks_of(ff_evaluator *e, const ff_layout *layout, const ff_reaches *reaches) {
    block_key key = key_of(layout, reaches);
    blocks **slot = slot_of(e->table, e->capacity, &key);
    if (*slot != NULL)
        return *slot;
    if (2 * (e->used + 1) > e->capacity) {
        grow(e);
        slot = slot_of(e->table, e->capacity, &key);
    }
    blocks *b = FF_ARENA_NEW(e->arena, blocks);
    b->key = key;
    ff_memory_blocks_build(e->cost.model, layout, &e->options, &b->memory);
    e->used++;
    *slot = b;
    return b;
}

void ff_evaluate_reaches(const ff_evaluator *evaluator, const ff_layout *layout,
                         ff_reaches *reaches) {
    ff_mesh mesh;
    *reaches = (ff_reaches){0};
    if (ff_layout_mesh(layout, NULL, &mesh) == FF_OK)
        ff_reaches_of(&mesh, evaluator->cost.cluster, reaches);
}

void ff_evaluate_memory(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate,
                        ff_stage_memory *stages) {
    ff_reaches reaches;
    ff_evaluate_reaches(e, layout, &reaches);
    const blocks *b = blocks_of(e, layout, &reaches);
    *estimate = (ff_estimate){.capacity_bytes = e->cost.cluster->device.memory_bytes};
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        ff_stage_memory memory;
        ff_ledger_stage(e->cost.model, layout, e->cost.seq, &b->memory, &e->cost.profile->runtime,
                        stage, &memory);
        e->stage_params[stage] = memory.params;
        if (memory.total_bytes > estimate->peak_bytes) {
            estimate->peak_bytes = memory.total_bytes;
            estimate->peak_stage = stage;
        }
        if (stages != NULL)
            stages[stage] = memory;
    }
    estimate->verdict =
        ff_ledger_verdict(estimate->peak_bytes, estimate->capacity_bytes, e->job->margin_bytes);
}

void ff_evaluate_time(ff_evaluator *e, const ff_layout *layout, ff_estimate *estimate) {
    ff_reaches reaches;
    ff_evaluate_reaches(e, layout, &reaches);
    blocks *b = blocks_of(e, layout, &reaches);
    if (!b->timed) {
        ff_time_blocks_build(&e->cost, layout, &reaches, &b->time);
        b->timed = true;
    }
    ff_step_time_of(&e->cost, layout, &reaches, &b->time, e->stage_params, e->scratch,
                    &estimate->time);
    ff_dtype dtype = ff_recipe_describe(layout->recipe)->compute;
    double step_s = estimate->time.step_s, devices = (double)ff_layout_world(layout);
    estimate->batch_tokens = ff_mul(ff_layout_batch_sequences(layout), e->cost.seq);
    estimate->s_per_token = step_s / (double)estimate->batch_tokens;
    estimate->tokens_per_s_per_device = (double)estimate->batch_tokens / step_s / devices;
    estimate->model_flops_per_device = estimate->tokens_per_s_per_device * e->flop_per_token;
    estimate->mfu =
        estimate->model_flops_per_device / ff_peak_flops(&e->cost.cluster->device, dtype);
}
