/* Rules on a layout's sizes against the model: heads, widths, layers, experts. Each kind of layer
 * is asked, since they may differ. MLA's num_key_value_heads is no limit: K and V are made per
 * head. */
#include "rules/table.h"

#include "base/number.h"

const ff_rule *const ff_rule_tables[] = {ff_rules_shape, ff_rules_batch, ff_rules_advice, NULL};

typedef bool kind_test(const ff_layer_kind *kind, const ff_layout *layout);

static const ff_layer_kind *first_kind(const ff_rule_case *c, kind_test *test) {
    for (int i = 0; i < c->model->kinds; i++)
        if (test(&c->model->kind[i], c->layout))
            return &c->model->kind[i];
    return NULL;
}

static bool softmax(const ff_layer_kind *kind) {
    return kind->attention.type != FF_ATTENTION_LINEAR;
}

/* ---- heads ---- */

static bool uneven_heads(const ff_layer_kind *kind, const ff_layout *layout) {
    return softmax(kind) && kind->attention.heads % layout->tp != 0;
}

static bool heads_violated(const ff_rule_case *c) {
    return first_kind(c, uneven_heads) != NULL;
}

static void heads_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_layer_kind *kind = first_kind(c, uneven_heads);
    ff_report(findings, FF0210, where, "tp %lld does not divide %lld attention heads",
              (long long)c->layout->tp, (long long)kind->attention.heads);
}

static bool uneven_kv_heads(const ff_layer_kind *kind, const ff_layout *layout) {
    int64_t kv = kind->attention.kv_heads, tp = layout->tp;
    return kind->attention.type == FF_ATTENTION_SOFTMAX && kv % tp != 0 && tp % kv != 0;
}

static bool kv_heads_violated(const ff_rule_case *c) {
    return first_kind(c, uneven_kv_heads) != NULL;
}

static void kv_heads_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_layer_kind *kind = first_kind(c, uneven_kv_heads);
    ff_report(findings, FF0211, where, "tp %lld neither divides nor is a multiple of %lld KV heads",
              (long long)c->layout->tp, (long long)kind->attention.kv_heads);
}

static bool uneven_linear(const ff_layer_kind *kind, const ff_layout *layout) {
    const ff_attention *a = &kind->attention;
    int64_t ranks = ff_mul(layout->tp, layout->cp);
    return !softmax(kind) && (a->key_heads % ranks != 0 || a->value_heads % ranks != 0);
}

static bool linear_violated(const ff_rule_case *c) {
    return first_kind(c, uneven_linear) != NULL;
}

static void linear_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_attention *a = &first_kind(c, uneven_linear)->attention;
    ff_report(findings, FF0224, where,
              "tp %lld x cp %lld does not divide %lld key and %lld value heads of linear attention",
              (long long)c->layout->tp, (long long)c->layout->cp, (long long)a->key_heads,
              (long long)a->value_heads);
}

/* ---- widths ---- */

static bool uneven_width(const ff_layer_kind *kind, const ff_layout *layout) {
    return kind->mlp.width % layout->tp != 0 || kind->moe.shared_width % layout->tp != 0;
}

static bool width_violated(const ff_rule_case *c) {
    return first_kind(c, uneven_width) != NULL;
}

static void width_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_layer_kind *kind = first_kind(c, uneven_width);
    int64_t width = kind->mlp.width % c->layout->tp ? kind->mlp.width : kind->moe.shared_width;
    ff_report(findings, FF0212, where, "tp %lld does not divide the MLP width %lld",
              (long long)c->layout->tp, (long long)width);
}

/* ---- layers ---- */

static bool chunks_violated(const ff_rule_case *c) {
    return ff_layout_model_chunks(c->layout) > c->model->layers;
}

static void chunks_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0213, where, "pp %lld x vpp %lld is %lld chunks for %d layers",
              (long long)c->layout->pp, (long long)c->layout->vpp,
              (long long)ff_layout_model_chunks(c->layout), c->model->layers);
}

/* ---- Ulysses ---- */

static bool uses_ulysses(const ff_layout *layout) {
    return layout->cp_kind == FF_CP_ULYSSES || layout->cp_kind == FF_CP_HYBRID;
}

/* KV heads of a rank divide over the group, or each is copied to the same number of ranks. */
static bool uneven_ulysses(const ff_layer_kind *kind, const ff_layout *layout) {
    if (!uses_ulysses(layout) || !softmax(kind) || kind->attention.heads % layout->tp != 0)
        return false;
    int64_t group = layout->ulysses, heads = kind->attention.heads / layout->tp;
    int64_t kv = kind->attention.type == FF_ATTENTION_MLA
                     ? heads
                     : ff_max(1, kind->attention.kv_heads / layout->tp);
    return heads % group != 0 || (kv % group != 0 && group % kv != 0);
}

static bool ulysses_violated(const ff_rule_case *c) {
    return first_kind(c, uneven_ulysses) != NULL;
}

static void ulysses_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    const ff_attention *a = &first_kind(c, uneven_ulysses)->attention;
    ff_report(findings, FF0216, where,
              "Ulysses over %lld ranks does not divide %lld heads and %lld KV heads of a "
              "tensor-parallel rank",
              (long long)c->layout->ulysses, (long long)(a->heads / c->layout->tp),
              (long long)ff_max(1, a->kv_heads / c->layout->tp));
}

/* ---- experts ---- */

static bool ep_dense_violated(const ff_rule_case *c) {
    return c->layout->ep > 1 && ff_model_moe_kind(c->model) == NULL;
}

static void ep_dense_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0217, where, "ep %lld, but %s has no experts", (long long)c->layout->ep,
              c->model->name);
    ff_report_help(findings, "ep=1");
}

static bool experts_violated(const ff_rule_case *c) {
    const ff_layer_kind *kind = ff_model_moe_kind(c->model);
    return kind != NULL && kind->moe.experts % c->layout->ep != 0;
}

static void experts_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    int64_t experts = ff_model_moe_kind(c->model)->moe.experts;
    ff_report(findings, FF0218, where,
              c->layout->ep > experts ? "ep %lld exceeds %lld experts"
                                      : "ep %lld does not divide %lld experts",
              (long long)c->layout->ep, (long long)experts);
}

static bool expert_width_violated(const ff_rule_case *c) {
    const ff_layer_kind *kind = ff_model_moe_kind(c->model);
    return kind != NULL && kind->moe.expert_width % c->layout->etp != 0;
}

static void expert_width_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0219, where, "etp %lld does not divide the expert width %lld",
              (long long)c->layout->etp, (long long)ff_model_moe_kind(c->model)->moe.expert_width);
}

static bool moe_sp_violated(const ff_rule_case *c) {
    return ff_model_moe_kind(c->model) != NULL && c->layout->tp > 1 && c->layout->sp == 0;
}

static void moe_sp_say(const ff_rule_case *c, ff_place where, ff_diagnostics *findings) {
    ff_report(findings, FF0220, where, "experts with tp %lld and sp 0", (long long)c->layout->tp);
    ff_report_help(findings, "sp=1");
}

const ff_rule ff_rules_shape[] = {
    {FF0210, "tp", heads_violated, heads_say, FF_REMEDY(tp)},
    {FF0211, "tp", kv_heads_violated, kv_heads_say, FF_REMEDY(tp)},
    {FF0224, "cp", linear_violated, linear_say, FF_REMEDY(cp)},
    {FF0212, "tp", width_violated, width_say, FF_REMEDY(tp)},
    {FF0213, "pp", chunks_violated, chunks_say, FF_REMEDY(pp)},
    {FF0216, "cp_kind", ulysses_violated, ulysses_say, FF_NO_REMEDY},
    {FF0217, "ep", ep_dense_violated, ep_dense_say, FF_NO_REMEDY},
    {FF0218, "ep", experts_violated, experts_say, FF_REMEDY(ep)},
    {FF0219, "etp", expert_width_violated, expert_width_say, FF_REMEDY(etp)},
    {FF0220, "sp", moe_sp_violated, moe_sp_say, FF_NO_REMEDY},
    {0},
};
