/* What all ranks share (engine.h), and what the engine refuses: a table of conditions, each with
 * what would be legal. */
#include "engine/engine.h"

#include "base/diagnose.h"
#include "base/number.h"
#include "engine/collective.h"
#include "engine/units.h"
#include <stdlib.h>

ff_engine_options ff_engine_defaults(void) {
    return (ff_engine_options){.seed = 1,
                               .deviation = 0.02,
                               .update = FF_UPDATE_ADAMW,
                               .rate = 1e-3,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .epsilon = 1e-8,
                               .decay = 0.1,
                               .clip = 1};
}

ff_kernels ff_engine_kernels(void) {
    return (ff_kernels){
        .flash_attention = true, .fused_norm = true, .fused_activation = true, .fused_loss = true};
}

void ff_engine_adapt(ff_model *model) {
    model->vocab = ff_round_up(model->vocab, 128 * FF_CHUNKS);
    model->dropout = false;
    if (model->norm_epsilon == 0)
        model->norm_epsilon = 1e-5;
    if (model->rope_theta == 0)
        model->rope_theta = 10000;
}

/* --- what is refused --- */

typedef struct refusal {
    bool applies;
    ff_code code;
    const char *message, *help;
} refusal;

static bool unusual_attention(const ff_model *model) {
    for (int i = 0; i < model->kinds; i++) {
        const ff_attention *a = &model->kind[i].attention;
        if (a->type != FF_ATTENTION_SOFTMAX || a->window > 0 || a->sinks || a->output_gate ||
            a->qk_norm != FF_QK_NORM_NONE || a->qk_head_dim != a->v_head_dim)
            return true;
    }
    return false;
}

static bool unusual_block(const ff_model *model) {
    for (int i = 0; i < model->kinds; i++) {
        const ff_layer_kind *k = &model->kind[i];
        bool gated_gelu = k->mlp.gated && model->activation != FF_ACTIVATION_SILU;
        bool plain_silu = !k->mlp.gated && model->activation == FF_ACTIVATION_SILU;
        bool gated_bias = k->mlp.gated && k->mlp.bias;
        if (k->norms != 2 || k->parallel_residual || k->mlp.width == 0 || gated_gelu ||
            plain_silu || gated_bias)
            return true;
    }
    return false;
}

static bool splits_kv_heads(const ff_model *model, int64_t tp) {
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].attention.kv_heads % tp != 0)
            return true;
    return false;
}

static bool odd_rope(const ff_model *model) {
    return model->position_rows == 0 && model->kind[0].attention.qk_head_dim % 2 != 0;
}

static int refuse_models(const ff_model *m, refusal *r) {
    const refusal all[] = {
        {ff_model_moe_kind(m) != NULL, FF0701, "it has experts", "dense models only"},
        {m->mtp_layers > 0, FF0701, "it predicts several tokens", "no mtp layers"},
        {unusual_attention(m), FF0701, "its attention is not plain causal softmax attention",
         "no windows, sinks, gates, QK-norms, MLA or linear attention"},
        {unusual_block(m), FF0701, "its layers are neither GPT-2's nor Llama's",
         "two norms, and a GELU or ReLU MLP or SwiGLU without biases"},
        {m->norm_unweighted || m->embedding_norm || !m->final_norm || m->head_bias ||
             m->embedding_width != m->hidden,
         FF0701, "its ends are neither GPT-2's nor Llama's", "a final norm, no norm below"},
        {odd_rope(m), FF0701, "its head dimension is odd", "rope turns pairs"},
        {m->rope_altered && m->position_rows == 0, FF0701,
         "its rotary positions are scaled, or turn a part of the head",
         "no rope_scaling, the whole head"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        r[i] = all[i];
    return (int)(sizeof all / sizeof *all);
}

static int refuse_layouts(const ff_model *m, const ff_layout *l, int64_t seq, refusal *r) {
    int64_t replicas = l->dp * l->cp;
    const refusal all[] = {
        {l->cp > 1 || l->ep > 1 || l->etp > 1, FF0702, "cp and ep are not run yet", "cp=1,ep=1"},
        {l->schedule > FF_SCHEDULE_INTERLEAVED, FF0702, "its schedule is not run yet",
         "gpipe, 1f1b or interleaved"},
        {l->recipe != FF_RECIPE_FP32, FF0702, "the engine computes in fp32", "recipe=fp32"},
        {l->accumulate == FF_ACCUMULATE_CHAIN && l->microbatches > 1, FF0702,
         "the engine accumulates gradients as a tree", "accumulate=tree"},
        {l->tp > FF_CHUNKS, FF0702, "tp is above 8, the eighths that sums are cut into", "tp=8"},
        {splits_kv_heads(m, l->tp), FF0702, "tp does not divide the KV heads",
         "tp that divides them: copies of a KV head would need a sum that the program does not "
         "list"},
        {l->sp == 1 && (l->mbs * seq) % l->tp != 0, FF0702,
         "tp does not divide a microbatch's tokens", "sp=0, or another mbs"},
        {ff_mul(l->mbs, FF_CHUNKS) > FF_MOST_RUNS, FF0702,
         "a microbatch has more than 128 sequences, the parts that a sum over tokens has room for",
         "mbs=128"},
        {l->zero_group > 0 && l->zero_group < replicas, FF0702,
         "sharding over a part of the replicas is not run yet", "leave zero_group out"},
        {m->position_rows > 0 && seq > m->position_rows, FF0702,
         "sequences are longer than the position table", "a smaller --seq"},
        {ff_layout_world(l) > FF_ENGINE_MOST_RANKS, FF0702, "it has too many ranks", "at most 128"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        r[i] = all[i];
    return (int)(sizeof all / sizeof *all);
}

ff_status ff_engine_accepts(const ff_model *model, const ff_layout *layout, int64_t seq,
                            ff_diagnostics *findings) {
    refusal r[32];
    int count = refuse_models(model, r), refused = 0;
    count += refuse_layouts(model, layout, seq, r + count);
    for (int i = 0; i < count; i++) {
        if (!r[i].applies)
            continue;
        ff_report(findings, r[i].code, FF_NOWHERE, "%s", r[i].message);
        ff_report_help(findings, "%s", r[i].help);
        refused++;
    }
    const char *unknown = ff_unit_unknown_tensor(model);
    if (refused == 0 && unknown != NULL) {
        ff_report(findings, FF0701, FF_NOWHERE, "it has a tensor \"%s\"", unknown);
        refused++;
    }
    return refused == 0 ? FF_OK : FF_NO;
}

/* --- the setup --- */

static bool reduces_each_microbatch(const ff_model *model, const ff_layout *layout) {
    ff_sync syncs[FF_MOST_SYNCS];
    int count = ff_program_syncs(model, layout, syncs);
    for (int i = 0; i < count; i++)
        if (syncs[i].moment == FF_SYNC_AFTER_BACKWARD && syncs[i].each_microbatch)
            return true;
    return false;
}

ff_status ff_setup_create(const ff_model *model, const ff_layout *layout,
                          const ff_engine_options *options, ff_diagnostics *findings,
                          ff_setup **setup) {
    *setup = NULL;
    if (ff_engine_accepts(model, layout, options->seq, findings) != FF_OK)
        return FF_NO;
    ff_mesh mesh;
    if (ff_layout_mesh(layout, findings, &mesh) != FF_OK)
        return FF_NO;
    ff_program_options how = {.seq = options->seq, .kernels = ff_engine_kernels(), .imbalance = 1};
    ff_program *program = ff_program_create(model, layout, &how, findings);
    if (program == NULL)
        return FF_NO;
    ff_setup *s = ff_engine_array(1, sizeof *s);
    int64_t tokens = options->seq * layout->mbs;
    bool sp = layout->sp == 1 && layout->tp > 1;
    *s = (ff_setup){.model = *model,
                    .layout = *layout,
                    .mesh = mesh,
                    .options = *options,
                    .program = program,
                    .tokens = tokens,
                    .shard_tokens = sp ? tokens / layout->tp : tokens,
                    .batch_tokens = ff_layout_batch_sequences(layout) * options->seq,
                    .microbatch_major = reduces_each_microbatch(model, layout)};
    if (s->options.token_parts == 0)
        s->options.token_parts = sp ? (int)layout->tp : 1;
    *setup = s;
    return FF_OK;
}

void ff_setup_free(ff_setup *setup) {
    if (setup == NULL)
        return;
    ff_program_free(setup->program);
    free(setup);
}

ff_layout ff_engine_single(const ff_layout *layout) {
    ff_layout one = *layout;
    one.dp = one.tp = one.pp = one.cp = one.ep = one.etp = one.edp = one.vpp = 1;
    one.sp = 0;
    one.zero = 0;
    one.zero_group = 1;
    one.schedule = FF_SCHEDULE_1F1B;
    one.recompute = FF_RECOMPUTE_NONE;
    one.microbatches = layout->microbatches * layout->dp;
    one.chunks = 1;
    one.layers_of_chunk[0] = 0;
    for (int i = 0; i < layout->chunks; i++)
        one.layers_of_chunk[0] = (int16_t)(one.layers_of_chunk[0] + layout->layers_of_chunk[i]);
    return one;
}

static bool power_of_two(int64_t n) {
    return (n & (n - 1)) == 0;
}

bool ff_engine_exact(const ff_setup *setup, const char **why) {
    const ff_layout *l = &setup->layout;
    *why = "";
    if (setup->options.fast)
        *why = "--fast adds up in chains, which layouts cut differently";
    else if (!power_of_two(l->tp) || !power_of_two(l->dp) || !power_of_two(l->microbatches))
        *why = "tp, dp and microbatches are not all powers of two";
    else if (setup->options.token_parts > 1 && setup->tokens % (FF_CHUNKS * l->mbs) != 0)
        *why = "8 does not divide the sequence";
    for (int i = 0; i < setup->model.kinds && l->tp > 1; i++) {
        const ff_attention *a = &setup->model.kind[i].attention;
        if (a->heads * a->qk_head_dim % FF_CHUNKS != 0 ||
            a->kv_heads * a->qk_head_dim % FF_CHUNKS != 0 ||
            setup->model.kind[i].mlp.width % FF_CHUNKS != 0)
            *why = "8 does not divide the widths of heads and MLP";
    }
    return (*why)[0] == '\0';
}
