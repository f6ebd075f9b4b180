/* Small models and random legal layouts for them. */
#ifndef TESTS_STEP_MODELS_H
#define TESTS_STEP_MODELS_H

#include "step_support.h"

/* Sequences of 64 tokens, fused kernels, experts evenly loaded. */
static const ff_program_options options = {.seq = 64, .kernels = FUSED_KERNELS, .imbalance = 1};

/* Eight small models: plain, gated, tied, with experts, shared experts, a dense first layer, MTP,
 * two kinds of attention. */
static inline ff_model small_model(int variant) {
    ff_model m = {.hidden = 64,
                  .vocab = 1000,
                  .embedding_width = 64,
                  .layers = 8,
                  .kinds = 1,
                  .final_norm = true};
    ff_attention gqa = {.heads = 8, .kv_heads = 2, .qk_head_dim = 8, .v_head_dim = 8};
    m.kind[0] = (ff_layer_kind){.attention = gqa, .mlp = {256, true, false}, .norms = 2};
    m.tied_head = variant == 1 || variant == 5;
    if (variant == 2) {
        m.dropout = m.norm_bias = true;
        m.position_rows = 64;
        m.kind[0].mlp.gated = false;
    }
    if (variant < 3)
        return m;
    m.kinds = 2; /* the first layer is dense, the others have experts */
    m.kind[1] = m.kind[0];
    m.kind[1].mlp.width = 0;
    m.kind[1].moe =
        (ff_moe){.experts = 8, .experts_per_token = 2, .expert_width = 32, .gated = true};
    for (int i = 1; i < m.layers; i++)
        m.layer_kind[i] = 1;
    if (variant >= 4)
        m.kind[1].moe.shared_width = 64;
    if (variant >= 5) {
        m.mtp_layers = variant == 7 ? 2 : 1;
        m.mtp_kind = 1;
    }
    if (variant == 6)
        m.kind[1].attention.window = 16;
    return m;
}
enum { VARIANTS = 8 };

static inline void random_layout(uint64_t *seed, const ff_model *model, char *text, size_t bytes) {
    static const char *const cp_kinds[] = {"ring",      "ring-plain", "ring-balanced",
                                           "allgather", "ulysses",    "hybrid:2"};
    static const char *const recomputes[] = {"none",         "full",           "full:1",
                                             "full:2",       "selective:core", "selective:mlp+norm",
                                             "selective:moe"};
    static const char *const recipes[] = {"bf16-megatron", "bf16-classic", "bf16-fsdp2",
                                          "bf16-autocast", "fp8-rowwise",  "fp32"};
    bool experts = ff_model_moe_kind(model) != NULL;
    int64_t tp = PICK(seed, 1, 2, 4), cp = PICK(seed, 1, 2, 4), dp = PICK(seed, 1, 2, 4, 6);
    int64_t pp = PICK(seed, 1, 2, 4), vpp = pp > 1 ? PICK(seed, 1, 1, 2) : 1;
    int64_t m = vpp > 1 ? pp * PICK(seed, 1, 2, 3) : PICK(seed, 1, 2, 3, 5, 8);
    int64_t ep = 1, etp = 1, ranks = tp * cp * dp;
    if (experts) {
        ep = PICK(seed, 1, 2, 4, 8);
        etp = PICK(seed, 1, 2);
        if (ranks % (ep * etp) != 0)
            ep = etp = 1;
    }
    bool sp = tp > 1 && (experts || PICK(seed, 0, 1));
    const char *cp_kind = cp_kinds[PICK(seed, 0, 1, 2, 3, 4)];
    if (cp == 1)
        cp_kind = "ring";
    int64_t group = PICK(seed, 1, 2);
    snprintf(text, bytes,
             "tp=%d,cp=%d,dp=%d,pp=%d,vpp=%d,microbatches=%d,ep=%d,etp=%d,sp=%d,cp_kind=%s,zero=%d,"
             "zero3_weights=%s,zero_group=%d,recompute=%s,recipe=%s,mbs=%d,grid=folded,schedule=%s",
             (int)tp, (int)cp, (int)dp, (int)pp, (int)vpp, (int)m, (int)ep, (int)etp, sp, cp_kind,
             (int)PICK(seed, 0, 1, 2, 3), PICK(seed, 0, 1) ? "stream" : "resident",
             (int)(dp * cp % group == 0 ? dp * cp / group : dp * cp),
             recomputes[PICK(seed, 0, 1, 2, 3, 4, 5, 6)], recipes[PICK(seed, 0, 1, 2, 3, 4, 5)],
             (int)PICK(seed, 1, 2),
             vpp > 1               ? "interleaved"
             : PICK(seed, 0, 1, 1) ? "1f1b"
                                   : "gpipe");
}

#endif
