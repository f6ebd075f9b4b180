/* Rules on layouts that run but are unwise or wasteful (docs/model.md I). They never stop a
 * search: what they warn of is priced. */
#include "rules/table.h"

#include "base/number.h"
#include "fivefold/layer.h"
#include "fivefold/schedule.h"
#include "layout/recipe.h"

static bool tp_crosses(const ff_rule_case *c) {
    return c->cluster != NULL && c->layout->tp > c->cluster->domain_devices;
}

static void tp_crosses_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_tier *inner = &c->cluster->tier[FF_TIER_DOMAIN];
    const ff_tier *outer = &c->cluster->tier[FF_TIER_NETWORK];
    ff_report(findings, FF0250, where,
              "tp %lld leaves the domain of %lld devices: %.0f GB/s a device instead of %.0f",
              (long long)c->layout->tp, (long long)c->cluster->domain_devices, outer->Bps / 1e9,
              inner->Bps / 1e9);
    ff_report_help(findings, "tp=%lld or less, and pp or ZeRO for the rest of the memory",
                   (long long)c->cluster->domain_devices);
}

static bool zero3_streams(const ff_rule_case *c) {
    return c->layout->zero == 3 && c->layout->zero3_weights == FF_ZERO3_STREAM &&
           c->layout->pp > 1 && ff_mul(c->layout->dp, c->layout->cp) > 1;
}

static void zero3_streams_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t m = c->layout->microbatches;
    ff_report(findings, FF0251, where,
              "ZeRO-3 with pp %lld: %lld gathers and %lld reductions of each layer a step",
              (long long)c->layout->pp, (long long)(2 * m), (long long)m);
    ff_report_help(findings, "zero=1 (1 reduction and 1 gather)");
}

static bool cp_short(const ff_rule_case *c) {
    return c->layout->cp > 1 && c->seq > 0 && c->seq < 32768;
}

static void cp_short_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0252, where, "cp %lld on sequences of %lld tokens",
              (long long)c->layout->cp, (long long)c->seq);
}

static bool bubble(const ff_rule_case *c) {
    ff_schedule_shape shape = ff_schedule_shape_of(c->layout);
    return ff_schedule_check(&shape, NULL) == FF_OK && ff_schedule_bubble_ratio(&shape) > 0.1;
}

static void bubble_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_schedule_shape shape = ff_schedule_shape_of(c->layout);
    const ff_layout *l = c->layout;
    ff_report(findings, FF0253, where,
              "bubble %.0f%%: (pp %lld - 1) / (vpp %lld x %lld microbatches)",
              100 * ff_schedule_bubble_ratio(&shape), (long long)l->pp, (long long)l->vpp,
              (long long)l->microbatches);
    int64_t enough = ff_ceil_div(10 * (l->pp - 1), l->vpp);
    if (l->schedule == FF_SCHEDULE_INTERLEAVED)
        enough = ff_round_up(enough, l->pp);
    ff_report_help(findings, "%lld microbatches or more, or a larger vpp", (long long)enough);
}

static bool ep_crosses(const ff_rule_case *c) {
    return c->cluster != NULL && ff_mul(c->layout->ep, c->layout->etp) > c->cluster->domain_devices;
}

static void ep_crosses_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0254, where, "ep %lld x etp %lld leaves the domain of %lld devices",
              (long long)c->layout->ep, (long long)c->layout->etp,
              (long long)c->cluster->domain_devices);
}

static int64_t most_kv_heads(const ff_rule_case *c) {
    int64_t most = 0;
    for (int i = 0; i < c->model->kinds; i++)
        if (c->model->kind[i].attention.type == FF_ATTENTION_SOFTMAX)
            most = ff_max(most, c->model->kind[i].attention.kv_heads);
    return most;
}

static bool kv_replicated(const ff_rule_case *c) {
    int64_t kv = most_kv_heads(c);
    return kv > 0 && c->layout->tp > kv;
}

static void kv_replicated_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t kv = most_kv_heads(c);
    ff_report(findings, FF0255, where, "tp %lld with %lld KV heads: each is held by %lld ranks",
              (long long)c->layout->tp, (long long)kv, (long long)(c->layout->tp / kv));
}

static bool zero2_reduces(const ff_rule_case *c) {
    return c->layout->zero == 2 && c->layout->microbatches > 1 &&
           ff_mul(c->layout->dp, c->layout->cp) > 1;
}

static void zero2_reduces_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0256, where, "zero=2 with %lld microbatches sends %lld times the weights",
              (long long)c->layout->microbatches, (long long)c->layout->microbatches + 1);
    ff_report_help(findings, "zero=1 sends 2 times");
}

static bool uneven_stages(const ff_rule_case *c) {
    const ff_layout *l = c->layout;
    for (int i = 1; i < l->chunks; i++)
        if (l->layers_of_chunk[i] != l->layers_of_chunk[0])
            return true;
    return false;
}

static void uneven_stages_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int least = c->layout->layers_of_chunk[0], most = least;
    for (int i = 1; i < c->layout->chunks; i++) {
        int layers = c->layout->layers_of_chunk[i];
        least = layers < least ? layers : least;
        most = layers > most ? layers : most;
    }
    ff_report(findings, FF0257, where, "%d layers over %d chunks: %d to %d a chunk",
              c->model->layers, c->layout->chunks, least, most);
}

static bool experts_unsharded(const ff_rule_case *c) {
    return c->layout->zero > 0 && c->layout->edp == 1 && c->layout->ep > 1 &&
           ff_model_moe_kind(c->model) != NULL;
}

static void experts_unsharded_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0258, where, "ep %lld leaves edp 1: zero=%d shards no expert state",
              (long long)c->layout->ep, c->layout->zero);
}

static bool nothing_to_shard(const ff_rule_case *c) {
    return c->layout->zero > 0 && ff_mul(c->layout->dp, c->layout->cp) == 1;
}

static void nothing_to_shard_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0260, where, "zero=%d with dp * cp = 1", c->layout->zero);
}

static bool replicated_state(const ff_rule_case *c) {
    return c->layout->zero == 0 && ff_mul(c->layout->dp, c->layout->cp) > 1;
}

static void replicated_state_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0261, where, "zero=0 holds optimizer state %lld times",
              (long long)ff_mul(c->layout->dp, c->layout->cp));
    ff_report_help(findings, "zero=1");
}

static bool plain_ring(const ff_rule_case *c) {
    return c->layout->cp > 1 && c->layout->cp_kind == FF_CP_RING_PLAIN;
}

static void plain_ring_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    double cp = (double)c->layout->cp;
    ff_report(findings, FF0262, where,
              "cp %lld: the last rank does %.2f of the mean attention work",
              (long long)c->layout->cp, (2 * cp - 1) / cp);
    ff_report_help(findings, "cp_kind=ring (zigzag)");
}

static int64_t ragged_side(const ff_rule_case *c) {
    for (int i = 0; i < c->model->kinds; i++) {
        int64_t side = c->model->kind[i].mlp.width / c->layout->tp;
        if (side % 64 != 0)
            return side;
    }
    return c->model->hidden % 64 != 0 ? c->model->hidden : 0;
}

static bool ragged(const ff_rule_case *c) {
    return ragged_side(c) != 0;
}

static void ragged_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0263, where, "a GEMM side of %lld is no multiple of 64",
              (long long)ragged_side(c));
}

static bool long_sequence(const ff_rule_case *c) {
    return c->model->position_rows == 0 && c->model->max_seq > 0 && c->seq > c->model->max_seq;
}

static void long_sequence_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0264, where, "sequence %lld, the model's maximum is %lld",
              (long long)c->seq, (long long)c->model->max_seq);
}

static int64_t rows_an_expert(const ff_rule_case *c) {
    const ff_moe *moe = &ff_model_moe_kind(c->model)->moe;
    const ff_layout *l = c->layout;
    int64_t routed = ff_mul3(moe->experts_per_token, c->seq, l->mbs) / ff_mul(l->cp, l->tp);
    return ff_mul(routed, l->etp) / ff_max(1, moe->experts / l->ep);
}

static bool few_rows(const ff_rule_case *c) {
    return ff_model_moe_kind(c->model) != NULL && c->seq > 0 && rows_an_expert(c) < 256;
}

static void few_rows_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0265, where, "an expert sees %lld tokens of a microbatch",
              (long long)rows_an_expert(c));
    ff_report_help(findings, "a larger ep or mbs");
}

static int64_t padded_rows(const ff_rule_case *c) {
    return ff_padded_vocab(c->model->vocab, c->layout->tp) - c->model->vocab;
}

static bool much_padding(const ff_rule_case *c) {
    return padded_rows(c) > c->model->vocab / 20;
}

static void much_padding_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0266, where,
              "vocabulary %lld is padded by %lld rows to a multiple of 128 x tp",
              (long long)c->model->vocab, (long long)padded_rows(c));
}

/* The link over which the shards of a layer's weights are gathered. */
static double gather_Bps(const ff_rule_case *c) {
    const ff_layout *l = c->layout;
    int64_t shards = l->zero_group > 0 ? l->zero_group : ff_mul(l->dp, l->cp);
    bool inside = ff_mul(shards, l->tp) <= c->cluster->domain_devices;
    return c->cluster->tier[inside ? FF_TIER_DOMAIN : FF_TIER_NETWORK].Bps;
}

static int64_t covering_tokens(const ff_rule_case *c) {
    const ff_device *device = &c->cluster->device;
    double flops = device->bf16_flops > 0 ? device->bf16_flops : device->fp16_flops;
    double flop_per_byte = 2.0 / ff_recipe_describe(c->layout->recipe)->weight_wire;
    return (int64_t)(flops / flop_per_byte / gather_Bps(c));
}

static int64_t microbatch_tokens(const ff_rule_case *c) {
    return ff_mul(c->layout->mbs, c->seq) / c->layout->cp;
}

static bool waits_for_weights(const ff_rule_case *c) {
    const ff_layout *l = c->layout;
    return c->cluster != NULL && c->seq > 0 && l->zero == 3 &&
           l->zero3_weights == FF_ZERO3_STREAM && ff_mul(l->dp, l->cp) > 1 &&
           microbatch_tokens(c) < covering_tokens(c) / 4;
}

static void waits_for_weights_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0267, where,
              "%lld tokens a microbatch; over %.0f GB/s gathers hide from about %lld on",
              (long long)microbatch_tokens(c), gather_Bps(c) / 1e9, (long long)covering_tokens(c));
    ff_report_help(findings, "a larger mbs, zero=1, or zero_group inside the domain");
}

/* The stage whose count exceeds its layers, or -1. */
static int64_t overcounted_stage(const ff_rule_case *c) {
    const ff_layout *l = c->layout;
    for (int64_t stage = 0; l->recompute == FF_RECOMPUTE_FULL && stage < l->pp; stage++) {
        int64_t count =
            l->recompute_stages > 0 ? l->recompute_of_stage[stage] : l->recompute_layers;
        if (count > ff_schedule_stage_layers(l, stage))
            return stage;
    }
    return -1;
}

static bool overcounted(const ff_rule_case *c) {
    return c->layout->chunks > 0 && overcounted_stage(c) >= 0;
}

static void overcounted_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t stage = overcounted_stage(c);
    ff_report(findings, FF0269, where, "stage %lld holds %lld layers: all of them are recomputed",
              (long long)stage, (long long)ff_schedule_stage_layers(c->layout, stage));
    ff_report_help(findings, "recompute=full says the same");
}

static bool no_batch(const ff_rule_case *c) {
    return c->gbs_sequences == 0 && c->layout->microbatches == 1;
}

static void no_batch_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0268, where, "one microbatch is assumed: %lld sequences a step",
              (long long)ff_layout_batch_sequences(c->layout));
    ff_report_help(findings, "--gbs 4M, or microbatches=N");
}

const ff_rule ff_rules_advice[] = {
    {FF0250, "tp", tp_crosses, tp_crosses_say, FF_NO_REMEDY},
    {FF0251, "zero", zero3_streams, zero3_streams_say, FF_NO_REMEDY},
    {FF0252, "cp", cp_short, cp_short_say, FF_NO_REMEDY},
    {FF0253, "pp", bubble, bubble_say, FF_NO_REMEDY},
    {FF0254, "ep", ep_crosses, ep_crosses_say, FF_NO_REMEDY},
    {FF0255, "tp", kv_replicated, kv_replicated_say, FF_NO_REMEDY},
    {FF0256, "zero", zero2_reduces, zero2_reduces_say, FF_NO_REMEDY},
    {FF0257, "pp", uneven_stages, uneven_stages_say, FF_NO_REMEDY},
    {FF0258, "ep", experts_unsharded, experts_unsharded_say, FF_NO_REMEDY},
    {FF0260, "zero", nothing_to_shard, nothing_to_shard_say, FF_NO_REMEDY},
    {FF0261, "zero", replicated_state, replicated_state_say, FF_NO_REMEDY},
    {FF0262, "cp_kind", plain_ring, plain_ring_say, FF_NO_REMEDY},
    {FF0263, "tp", ragged, ragged_say, FF_NO_REMEDY},
    {FF0264, NULL, long_sequence, long_sequence_say, FF_NO_REMEDY},
    {FF0265, "ep", few_rows, few_rows_say, FF_NO_REMEDY},
    {FF0266, "tp", much_padding, much_padding_say, FF_NO_REMEDY},
    {FF0267, "zero", waits_for_weights, waits_for_weights_say, FF_NO_REMEDY},
    {FF0269, "recompute", overcounted, overcounted_say, FF_NO_REMEDY},
    {FF0268, NULL, no_batch, no_batch_say, FF_NO_REMEDY},
    {0},
};
