#include "plan/methods.h"

#include "base/number.h"
#include <stdio.h>

enum { TP = FF_AXES(FF_AXIS_TP), CP = FF_AXES(FF_AXIS_CP), PP = FF_AXES(FF_AXIS_PP) };
static const ff_axes DATA = FF_AXES(FF_AXIS_DP) | FF_AXES(FF_AXIS_CP);

/* ---- making the explained layout use a method ---- */

static bool use_zero(const ff_explained *e, ff_layout *v, int stage) {
    v->zero = stage;
    v->zero3_weights = stage == 3 && e->layout.zero == 3 ? e->layout.zero3_weights : -1;
    return e->layout.dp * e->layout.cp > 1;
}

static bool use_dp(const ff_explained *e, ff_layout *v) {
    return use_zero(e, v, 0);
}

static bool use_zero1(const ff_explained *e, ff_layout *v) {
    return use_zero(e, v, 1);
}

static bool use_zero2(const ff_explained *e, ff_layout *v) {
    return use_zero(e, v, 2);
}

static bool use_zero3(const ff_explained *e, ff_layout *v) {
    v->zero3_weights = FF_ZERO3_STREAM;
    return use_zero(e, v, 3);
}

/* The largest power of two up to `most` that the devices beside the other axes allow. */
static int64_t natural_size(const ff_explained *e, int64_t most) {
    int64_t ranks = e->layout.dp, size = 1;
    while (2 * size <= most && ranks % (2 * size) == 0)
        size *= 2;
    return size;
}

static bool use_tp_any(const ff_explained *e, ff_layout *v, int sp) {
    if (v->tp == 1)
        v->tp = natural_size(e, ff_min(e->job->cluster.domain_devices, 8));
    v->sp = sp;
    return v->tp > 1 && e->job->model.kind[0].attention.heads % v->tp == 0;
}

static bool use_tp(const ff_explained *e, ff_layout *v) {
    return use_tp_any(e, v, 0);
}

static bool use_tp_sp(const ff_explained *e, ff_layout *v) {
    return use_tp_any(e, v, 1);
}

static bool use_pp(const ff_explained *e, ff_layout *v) {
    if (v->pp == 1)
        v->pp = natural_size(e, 2);
    return v->pp > 1 && e->job->model.layers >= v->pp;
}

static bool use_cp(const ff_explained *e, ff_layout *v) {
    if (v->cp == 1)
        v->cp = natural_size(e, 2);
    return v->cp > 1;
}

static bool use_ep(const ff_explained *e, ff_layout *v) {
    const ff_layer_kind *kind = ff_model_moe_kind(&e->job->model);
    if (kind == NULL)
        return false;
    if (v->ep == 1)
        v->ep = natural_size(e, ff_min(e->job->cluster.domain_devices, kind->moe.experts));
    return v->ep > 1;
}

/* ---- the panorama ---- */

const ff_method ff_methods[] = {
    {"dp", "DP, data parallelism",
     "the batch: each replica runs other sequences through all weights",
     "no memory: weights, gradients and optimizer state are held in full by each replica",
     "all-reduce of the gradients, once a step",
     "replicas saw other data, and must make the same update: they need the sum of all gradients",
     "overlapped with backward of the last microbatch; its last bucket is not",
     "outermost, over the network: it sends once a step, and mostly hidden",
     "memory; and gradients that outlast the backward that hides them", 0, FF_EXPOSED_DP, true,
     use_dp},
    {"zero", "ZeRO-1", "the optimizer state, over the data-parallel ranks",
     "12 of 16 to 18 bytes a parameter, divided by dp * cp",
     "reduce-scatter of gradients, then all-gather of the updated weights: the calls of an "
     "all-reduce, each half in its own width",
     "a rank updates its shard alone, so it needs that shard's summed gradient; all need the "
     "result",
     "reduce-scatter overlapped with backward, all-gather with the next forward",
     "outermost, over the network", "the gather after the update, where the stack does not hide it",
     0, FF_EXPOSED_DP, true, use_zero1},
    {"zero", "ZeRO-2", "optimizer state and gradients",
     "all but the 2 bytes of weights a parameter, divided by dp * cp",
     "reduce-scatter of gradients in every microbatch, all-gather of weights once",
     "full gradients never accumulate, so each microbatch is reduced at once",
     "overlapped with each microbatch's backward",
     "outermost; with many microbatches it wants a faster network than ZeRO-1",
     "microbatches: (m+1) times the weights instead of 2", 0, FF_EXPOSED_DP, true, use_zero2},
    {"zero", "ZeRO-3", "optimizer state, gradients and weights",
     "all bytes of a parameter, divided by dp * cp; a gathered layer or two remain",
     "all-gather of each layer's weights before its forward and again before its backward, "
     "reduce-scatter of its gradients",
     "a layer cannot run on a shard of its weights; after use they are freed",
     "overlapped with the layer before, by prefetch",
     "over the network when tokens a device cover it; else inside the node (HSDP)",
     "small microbatches: gathers cost the same for one token as for thousands", 0, FF_EXPOSED_DP,
     true, use_zero3},
    {"tp", "TP, tensor parallelism", "the hidden dimension: heads and MLP columns of every layer",
     "weights and inner activations, divided by tp; norms and residual stay whole",
     "all-reduce after attention and after the MLP, forward; the same backward",
     "row-parallel products leave partial sums, and the norm that follows needs the whole sum",
     "blocks the path, in every layer",
     "inside the fast domain: outside the same bytes take many times as long",
     "latency and bandwidth of each layer; ever narrower GEMMs", TP, FF_EXPOSED_TP, false, use_tp},
    {"tp", "TP + SP, with sequence parallelism",
     "the hidden dimension, and between the blocks the tokens",
     "besides TP's, norms and residual divided by tp",
     "all-gather before and reduce-scatter after each block, the mirror backward, and a second "
     "gather of inputs for weight gradients",
     "blocks need all tokens, norms do not: an all-reduce is split into its two halves around them",
     "blocks the path forward; backward mostly beside GEMMs", "inside the fast domain",
     "as TP; a quarter more bytes for the gathers of backward", TP, FF_EXPOSED_TP, false,
     use_tp_sp},
    {"pp", "PP, pipeline parallelism", "the layers: each stage holds consecutive ones",
     "weights and state divided by pp; activations hardly, since stages hold several microbatches",
     "send of a microbatch's activations to the next stage, of its gradient back",
     "a stage's input is the output of the one before", "at stage boundaries, once a microbatch",
     "across nodes: boundary activations are small", "the bubble, and uneven stages", PP,
     FF_EXPOSED_PP, false, use_pp},
    {"cp", "CP, context parallelism", "the sequence of every layer, attention included",
     "activations divided by cp; weights not",
     "K and V of the other ranks: ring steps, a gather or an all-to-all, in each layer",
     "every query meets all keys before it, and those live on other ranks",
     "inside one operator: a ring step runs beside the attention block it feeds",
     "inside the domain, or across when a ring step hides behind its block of attention",
     "short sequences: too little attention to hide the exchange", CP, FF_EXPOSED_CP, false,
     use_cp},
    {"ep", "EP, expert parallelism", "the experts of each layer",
     "expert weights and state divided by ep",
     "all-to-all of tokens to their experts, and of results back; the mirror backward",
     "a token's experts live on other ranks", "blocks the path, in every expert layer",
     "inside the domain; across with routing limited to few nodes",
     "the busiest expert, and the network", FF_AXES(FF_AXIS_EP), FF_EXPOSED_EP, false, use_ep},
};
const int ff_method_count = sizeof ff_methods / sizeof *ff_methods;

const ff_reach *ff_method_reach(const ff_method *method, const ff_reaches *reaches) {
    switch (method->exposure) {
    case FF_EXPOSED_TP:
        return &reaches->tp;
    case FF_EXPOSED_PP:
        return &reaches->pp;
    case FF_EXPOSED_CP:
        return &reaches->cp;
    case FF_EXPOSED_EP:
        return &reaches->ep;
    default:
        return &reaches->dp_cp;
    }
}

static bool in_group(const ff_method *method, const ff_count *count) {
    bool data = count->group == DATA || count->group == FF_AXES(FF_AXIS_EDP);
    return method->exposure == FF_EXPOSED_DP ? data : count->group == method->group;
}

void ff_method_traffic(const ff_method *method, const ff_variant *variant, int64_t *calls,
                       double *sent_bytes) {
    *calls = 0;
    *sent_bytes = 0;
    for (int i = 0; i < variant->counts; i++) {
        if (!in_group(method, &variant->count[i]))
            continue;
        *calls += variant->count[i].calls;
        *sent_bytes += variant->count[i].sent_bytes;
    }
}

/* What hides data-parallel traffic: backward (about two thirds) of the microbatches in which it
 * runs; ZeRO-3 gathers hide behind all of them. */
static double cover_s(const ff_variant *variant) {
    double work_s = variant->estimate.time.compute_s;
    double m = (double)variant->layout.microbatches;
    switch (variant->layout.zero) {
    case 2:
        return work_s * 2 / 3;
    case 3:
        return variant->layout.zero3_weights == FF_ZERO3_STREAM ? work_s : work_s / m;
    default:
        return work_s / m;
    }
}

double ff_method_needs_Bps(const ff_method *method, const ff_variant *variant, double sent_bytes) {
    const ff_step_time *time = &variant->estimate.time;
    double room_s =
        method->hides ? cover_s(variant) : 0.1 * (time->step_s - time->exposed_s[method->exposure]);
    return room_s > 0 ? sent_bytes / room_s : 0;
}

const char *ff_reach_words(const ff_explained *e, const ff_reach *reach, char *text, size_t bytes) {
    const ff_cluster *cluster = &e->job->cluster;
    char rate[FF_VALUE_BYTES];
    ff_tier_id tier = reach->domains <= 1 ? FF_TIER_DOMAIN
                      : reach->pods > 1   ? FF_TIER_SPINE
                                          : FF_TIER_NETWORK;
    ff_format_number("Bps", cluster->tier[tier].Bps, rate, sizeof rate);
    snprintf(text, bytes, "%s, %s a device", cluster->tier[tier].name, rate);
    return text;
}

/* What a stack hides although it blocks: constants of its profile. */
static void hidden_item(const ff_explained *e, const ff_method *method, const ff_layout *layout,
                        const ff_reaches *reaches, ff_facts *facts) {
    const ff_profile *profile = e->job->profile;
    bool sliced = method->exposure == FF_EXPOSED_TP && layout->sp == 1 && reaches->tp.domains == 1;
    double ratio = sliced                              ? profile->tp_hidden_ratio
                   : method->exposure == FF_EXPOSED_EP ? profile->ep_hidden_ratio
                                                       : 0;
    if (ratio <= 0)
        return;
    ff_document_item(facts, "hidden", "of what blocks %s hides %.0f%%, %s (%s)", profile->name,
                     100 * ratio,
                     sliced ? "in slices beside the GEMM that waits for it"
                            : "beside another microbatch's layers",
                     sliced ? "tp_hidden_ratio" : "ep_hidden_ratio");
}

void ff_method_items(const ff_explained *e, const ff_method *method, const ff_variant *variant,
                     ff_facts *facts) {
    char sent[FF_VALUE_BYTES], count[FF_VALUE_BYTES], needs[FF_VALUE_BYTES], link[128],
        peak[FF_VALUE_BYTES], exposed[FF_VALUE_BYTES], share[FF_VALUE_BYTES];
    ff_reaches reaches;
    int64_t calls;
    double sent_bytes;
    ff_method_traffic(method, variant, &calls, &sent_bytes);
    ff_evaluate_reaches(e->evaluator, &variant->layout, &reaches);
    const ff_step_time *time = &variant->estimate.time;
    double exposed_s = time->exposed_s[method->exposure];
    ff_document_item(facts, "splits", "%s", method->splits);
    ff_document_item(facts, "saves", "%s; peak %s", method->saves,
                     ff_format_bytes((double)variant->estimate.peak_bytes, peak, sizeof peak));
    ff_document_item(facts, "sends", "%s", method->sends);
    ff_document_item(facts, "why there", "%s", method->why);
    ff_document_item(facts, "timing", "%s; %s of a step exposed (%s)", method->timing,
                     ff_format_seconds(exposed_s, exposed, sizeof exposed),
                     ff_format_percent(exposed_s / time->step_s, share, sizeof share));
    hidden_item(e, method, &variant->layout, &reaches, facts);
    ff_document_item(facts, "a step", "%s calls, %s sent by a rank, over %s",
                     ff_format_integer(calls, count, sizeof count),
                     ff_format_number("sent", sent_bytes, sent, sizeof sent),
                     ff_reach_words(e, ff_method_reach(method, &reaches), link, sizeof link));
    ff_document_item(facts, "needs", "%s a device %s",
                     ff_format_number("Bps", ff_method_needs_Bps(method, variant, sent_bytes),
                                      needs, sizeof needs),
                     method->hides
                         ? "to stay behind the work that hides it"
                         : "to take a tenth of the step's other time, if nothing is hidden");
    ff_document_item(facts, "belongs", "%s", method->belongs);
    ff_document_item(facts, "bottleneck", "%s", method->bottleneck);
}
