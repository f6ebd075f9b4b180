/* A program's content: the lists of every kind of layer and of both ends, made once, the schedule,
 * and the weights of each unit. The list itself is never stored: walk.c visits it, counts.c
 * summarises it.
 *
 * Assumption: MTP blocks are never recomputed, whatever the mode says of the layers. */
#include "program/internal.h"

#include "base/diagnose.h"
#include "base/number.h"

static void build_lists(ff_program *p) {
    ff_layer_shape plain = ff_program_layer_shape(p->layout, &p->options, false);
    ff_layer_shape whole = ff_program_layer_shape(p->layout, &p->options, true);
    for (int kind = 0; kind < p->model->kinds; kind++) {
        p->layer[kind][0] = FF_ARENA_NEW(p->arena, ff_layer_list);
        p->layer[kind][1] = FF_ARENA_NEW(p->arena, ff_layer_list);
        ff_layer_build(p->model, kind, &plain, p->layer[kind][0]);
        ff_layer_build(p->model, kind, &whole, p->layer[kind][1]);
    }
    p->embedding = FF_ARENA_NEW(p->arena, ff_layer_list);
    p->head = FF_ARENA_NEW(p->arena, ff_layer_list);
    p->mtp = FF_ARENA_NEW(p->arena, ff_layer_list);
    ff_embedding_build(p->model, &plain, p->embedding);
    ff_head_build(p->model, &plain, p->head);
    ff_mtp_build(p->model, &plain, p->mtp);
}

static void report_too_long(const ff_schedule_shape *shape, ff_diagnostics *findings) {
    ff_report(findings, FF0246, FF_NOWHERE, "%d stages x %d chunks x %d microbatches: %lld actions",
              shape->stages, shape->chunks, shape->microbatches,
              (long long)ff_schedule_action_count(shape));
    ff_report_help(findings, "fewer microbatches: the pattern repeats after the first %d",
                   2 * shape->stages * shape->chunks);
}

ff_program *ff_program_create(const ff_model *model, const ff_layout *layout,
                              const ff_program_options *options, ff_diagnostics *findings) {
    ff_schedule_shape shape = ff_schedule_shape_of(layout);
    if (ff_schedule_check(&shape, findings) != FF_OK)
        return NULL;
    ff_schedule *schedule = ff_schedule_create(&shape);
    if (schedule == NULL) {
        report_too_long(&shape, findings);
        return NULL;
    }
    ff_arena *arena = ff_arena_create();
    ff_program *program = FF_ARENA_NEW(arena, ff_program);
    ff_model *own_model = FF_ARENA_NEW(arena, ff_model);
    ff_layout *own_layout = FF_ARENA_NEW(arena, ff_layout);
    *own_model = *model;
    *own_layout = *layout;
    *program = (ff_program){.arena = arena,
                            .model = own_model,
                            .layout = own_layout,
                            .options = *options,
                            .schedule = schedule};
    build_lists(program);
    return program;
}

void ff_program_free(ff_program *program) {
    if (program == NULL)
        return;
    ff_schedule_free(program->schedule);
    ff_arena_free(program->arena);
}

const ff_layer_list *ff_program_layer(const ff_program *program, int kind, bool recomputed) {
    return program->layer[kind][recomputed];
}

const ff_layer_list *ff_program_embedding(const ff_program *program) {
    return program->embedding;
}

const ff_layer_list *ff_program_head(const ff_program *program) {
    return program->head;
}

const ff_layer_list *ff_program_mtp(const ff_program *program) {
    return program->mtp;
}

const ff_schedule *ff_program_schedule(const ff_program *program) {
    return program->schedule;
}

/* ---- units of a chunk ---- */

ff_shard_params program_layer_params(const ff_program *p, int kind) {
    return ff_layer_shard_params(p->model, kind, p->layout->tp, p->layout->ep, p->layout->etp);
}

ff_shard_params program_embedding_params(const ff_program *p) {
    return ff_first_shard_params(p->model, p->layout->tp);
}

ff_shard_params program_head_params(const ff_program *p) {
    ff_shard_params head =
        ff_last_shard_params(p->model, p->layout->tp, ff_program_copies_embedding(p->layout));
    ff_shard_params mtp =
        ff_mtp_shard_params(p->model, p->layout->tp, p->layout->ep, p->layout->etp);
    head.dense = ff_add(head.dense, mtp.dense);
    head.expert = ff_add(head.expert, mtp.expert);
    return head;
}

ff_shard_params program_chunk_params(const ff_program *p, const ff_chunk_content *content) {
    ff_shard_params sum = {0};
    for (int kind = 0; kind < p->model->kinds; kind++) {
        ff_shard_params one = program_layer_params(p, kind);
        sum.dense = ff_add(sum.dense, ff_mul(one.dense, content->of_kind[kind]));
        sum.expert = ff_add(sum.expert, ff_mul(one.expert, content->of_kind[kind]));
    }
    ff_shard_params ends[2] = {content->embedding ? program_embedding_params(p)
                                                  : (ff_shard_params){0},
                               content->head ? program_head_params(p) : (ff_shard_params){0}};
    for (int i = 0; i < 2; i++) {
        sum.dense = ff_add(sum.dense, ends[i].dense);
        sum.expert = ff_add(sum.expert, ends[i].expert);
    }
    return sum;
}

int64_t program_replicas(const ff_layout *layout, bool expert) {
    return expert ? layout->edp : ff_mul(layout->dp, layout->cp);
}
