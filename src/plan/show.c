/* `show`: what the presets hold, and one thing of them. */
#include "base/diagnose.h"
#include "base/fact.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/describe.h"
#include "cost/cost.h"
#include "cost/profile.h"
#include "plan/entry.h"
#include "presets/presets.h"
#include "rules/rules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

static void model_rows(ff_facts *facts) {
    static const ff_column columns[] = {{"name", "model"},         {"family", "family"},
                                        {"total_params", "total"}, {"active_params", "active"},
                                        {"layers", "layers"},      {"hidden", "hidden"},
                                        {"seq", "context"},        {NULL, NULL}};
    const char *path;
    ff_model *model = malloc(sizeof *model);
    if (model == NULL)
        return;
    ff_document_table(facts, columns);
    for (int n = 0; (path = ff_preset_path("models/", n)) != NULL; n++) {
        ff_model_count count;
        const char *name = path + strlen("models/");
        if (ff_model_preset(name, NULL, model) != FF_OK)
            continue;
        ff_model_params(model, &count);
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "name", "%s", name);
        ff_facts_add_text(facts, "family", "%s", model->family);
        ff_facts_add_integer(facts, "total_params", count.total);
        ff_facts_add_integer(facts, "active_params", count.active);
        ff_facts_add_integer(facts, "layers", model->layers);
        ff_facts_add_integer(facts, "hidden", model->hidden);
        ff_facts_add_integer(facts, "seq", model->max_seq);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
    free(model);
}

static void device_rows(ff_facts *facts) {
    static const ff_column columns[] = {{"id", "device"},
                                        {"memory_bytes", "memory"},
                                        {"memory_Bps", "bandwidth"},
                                        {"half_flops", "16 bits"},
                                        {"fp8_flops", "fp8"},
                                        {"link", "link"},
                                        {"link_Bps", "link rate"},
                                        {NULL, NULL}};
    const ff_field *devices = ff_preset_cluster_library()->devices;
    ff_document_table(facts, columns);
    for (const ff_field *d = devices->first; d != NULL; d = d->next) {
        ff_device device;
        if (ff_device_from_fields(d, d->name, NULL, &device) != FF_OK || device.memory_bytes == 0 ||
            device.id[0] == '\0' || strcmp(d->name, "bare") == 0)
            continue;
        double half = device.bf16_flops > 0 ? device.bf16_flops : device.fp16_flops;
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "id", "%s", d->name);
        ff_facts_add_integer(facts, "memory_bytes", device.memory_bytes);
        ff_facts_add_real(facts, "memory_Bps", device.memory_Bps);
        ff_facts_add_real(facts, "half_flops", half);
        if (device.fp8_flops > 0)
            ff_facts_add_real(facts, "fp8_flops", device.fp8_flops);
        else
            ff_facts_add_null(facts, "fp8_flops");
        ff_facts_add_text(facts, "link", "%s", device.link);
        ff_facts_add_real(facts, "link_Bps", device.link_Bps);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static void cluster_rows(ff_facts *facts) {
    static const ff_column columns[] = {
        {"id", "system"},     {"device", "device"},   {"per_node", "a node"},
        {"domain", "domain"}, {"link_Bps", "inside"}, {"network_Bps", "network"},
        {NULL, NULL}};
    const ff_field *clusters = ff_preset_cluster_library()->clusters;
    ff_document_table(facts, columns);
    for (const ff_field *c = clusters->first; c != NULL; c = c->next) {
        ff_cluster cluster;
        char text[128];
        snprintf(text, sizeof text, "2x%s", c->name);
        if (ff_cluster_preset(text, NULL, &cluster) != FF_OK)
            continue;
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "id", "%s", c->name);
        ff_facts_add_text(facts, "device", "%s", cluster.device.id);
        ff_facts_add_integer(facts, "per_node", cluster.devices_per_node);
        bool joins_nodes = cluster.device.domain_devices > cluster.device.node_devices;
        ff_facts_add_integer(facts, "domain",
                             joins_nodes ? cluster.device.domain_devices : cluster.domain_devices);
        ff_facts_add_real(facts, "link_Bps", cluster.tier[FF_TIER_DOMAIN].Bps);
        ff_facts_add_real(facts, "network_Bps", cluster.tier[FF_TIER_NETWORK].Bps);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static void profile_rows(ff_facts *facts) {
    static const ff_column columns[] = {{"name", "profile"}, {"about", "stack"}, {NULL, NULL}};
    const char *path;
    ff_document_table(facts, columns);
    for (int n = 0; (path = ff_preset_path("profiles/", n)) != NULL; n++) {
        ff_profile profile;
        const char *name = path + strlen("profiles/");
        if (ff_profile_from_fields(ff_preset_tree(path), name, NULL, &profile) != FF_OK)
            continue;
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "name", "%s", name);
        ff_facts_add_text(facts, "about", "%s", profile.about);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static const struct list {
    const char *what, *title, *use;
    void (*rows)(ff_facts *facts);
} lists[] = {
    {"models", "Model presets",
     "Any other model: the path of its config.json, or a bare shape such as "
     "params=70e9,layers=80,hidden=8192,heads=64.",
     model_rows},
    {"clusters", "Reference systems",
     "NODESxNAME is a cluster of them (16xdgx-h100); any other: NODESxDEVICESxDEVICE, or a YAML "
     "file.",
     cluster_rows},
    {"devices", "Devices",
     "Dense peaks, usable link rates of one direction. A device of your own: "
     "4x8x(mem=40GiB,flops=312T,bw=1555G,link=300G).",
     device_rows},
    {"profiles", "Stack profiles", "--profile NAME, or the path of a profile of your own.",
     profile_rows},
};
enum { LISTS = sizeof lists / sizeof *lists };

ff_status ff_show_list(const char *what, ff_diagnostics *findings, ff_facts *facts) {
    for (int i = 0; i < LISTS; i++) {
        if (strcmp(what, lists[i].what) != 0)
            continue;
        ff_document_head(facts, "show");
        ff_document_open(facts, "%s", lists[i].title);
        ff_document_section(facts, "%s", "");
        lists[i].rows(facts);
        ff_document_say(facts, "%s", lists[i].use);
        ff_document_close(facts);
        return FF_OK;
    }
    ff_report(findings, FF0408, FF_NOWHERE, "show knows no list \"%s\"", what);
    ff_report_help(findings, "models, clusters, devices, profiles, rules");
    return FF_INVALID;
}

/* ---- one model ---- */

static const char *attention_words(const ff_attention *a) {
    switch (a->type) {
    case FF_ATTENTION_MLA:
        return "low-rank (MLA)";
    case FF_ATTENTION_LINEAR:
        return "linear";
    default:
        return a->kv_heads == a->heads ? "multi-head"
               : a->kv_heads == 1      ? "multi-query"
                                       : "grouped-query";
    }
}

static void kind_section(const ff_model *model, int index, ff_facts *facts) {
    const ff_layer_kind *k = &model->kind[index];
    const ff_attention *a = &k->attention;
    int layers = ff_model_layers_of_kind(model, index);
    ff_document_section(facts, "%d layers: %s", layers, k->name);
    if (a->type == FF_ATTENTION_LINEAR)
        ff_document_item(facts, "attention",
                         "linear, %lld key heads of %lld, %lld value heads of %lld",
                         (long long)a->key_heads, (long long)a->key_dim, (long long)a->value_heads,
                         (long long)a->value_dim);
    else
        ff_document_item(facts, "attention", "%s, %lld heads, %lld KV heads of %lld%s",
                         attention_words(a), (long long)a->heads, (long long)a->kv_heads,
                         (long long)a->qk_head_dim, a->qkv_bias ? ", biases" : "");
    if (a->window > 0)
        ff_document_item(facts, "window", "%lld tokens%s", (long long)a->window,
                         a->chunked ? ", chunked" : "");
    if (k->mlp.width > 0)
        ff_document_item(facts, "mlp", "%s, width %lld", k->mlp.gated ? "gated" : "plain",
                         (long long)k->mlp.width);
    if (k->moe.experts > 0)
        ff_document_item(facts, "experts", "%lld of width %lld, %lld a token",
                         (long long)k->moe.experts, (long long)k->moe.expert_width,
                         (long long)k->moe.experts_per_token);
    if (k->moe.shared_width > 0)
        ff_document_item(facts, "shared", "an expert of width %lld for every token",
                         (long long)k->moe.shared_width);
}

static void class_table(const ff_model_count *count, ff_facts *facts) {
    static const ff_column columns[] = {
        {"class", "class"}, {"count", "parameters"}, {"ratio", "share"}, {NULL, NULL}};
    ff_document_section(facts, "Parameters");
    ff_document_table(facts, columns);
    for (int i = 0; i < FF_CLASS_COUNT; i++) {
        if (count->by_class[i] == 0)
            continue;
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "class", "%s", ff_tensor_class_name((ff_tensor_class)i));
        ff_facts_add_integer(facts, "count", count->by_class[i]);
        ff_facts_add_real(facts, "ratio", (double)count->by_class[i] / (double)count->total);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
    if (count->by_class[FF_CLASS_MTP] > 0)
        ff_document_say(facts, "The total leaves out mtp, the blocks that predict further tokens.");
}

static void model_flop(const ff_model *model, ff_facts *facts) {
    int64_t seq = model->max_seq > 0 && model->max_seq < 8192 ? model->max_seq : 8192;
    double full = ff_model_flop_per_token(model, seq, FF_FLOP_FULL);
    double causal = ff_model_flop_per_token(model, seq, FF_FLOP_CAUSAL);
    ff_document_item(facts, "FLOP", "%.1f G a token at %lld tokens (%.1f G with causal attention)",
                     full / 1e9, (long long)seq, causal / 1e9);
}

void ff_show_model(const ff_model *model, ff_facts *facts) {
    ff_model_count count;
    char total[FF_VALUE_BYTES], active[FF_VALUE_BYTES];
    ff_model_params(model, &count);
    ff_document_head(facts, "show");
    ff_model_summary(model, facts);
    ff_facts_open_record(facts, "params_by_class");
    for (int i = 0; i < FF_CLASS_COUNT; i++)
        ff_facts_add_integer(facts, ff_tensor_class_name((ff_tensor_class)i), count.by_class[i]);
    ff_facts_close(facts);
    ff_document_open(facts, "%s", model->name);
    ff_document_section(facts, "%s", "");
    ff_document_item(facts, "total", "%s parameters",
                     ff_format_integer(count.total, total, sizeof total));
    if (count.active != count.total)
        ff_document_item(facts, "active", "%s a token",
                         ff_format_integer(count.active, active, sizeof active));
    ff_document_item(facts, "family", "%s", model->family);
    ff_document_item(facts, "shape", "%d layers, hidden %lld, vocabulary %lld, %s head",
                     model->layers, (long long)model->hidden, (long long)model->vocab,
                     model->tied_head ? "tied" : "untied");
    if (model->max_seq > 0)
        ff_document_item(facts, "context", "%lld tokens at most", (long long)model->max_seq);
    model_flop(model, facts);
    for (int kind = 0; kind < model->kinds; kind++)
        if (ff_model_layers_of_kind(model, kind) > 0)
            kind_section(model, kind, facts);
    class_table(&count, facts);
    ff_document_close(facts);
}

/* ---- one cluster, device, profile ---- */

static void tier_table(const ff_cluster *cluster, ff_facts *facts) {
    static const ff_column columns[] = {
        {"tier", "tier"},     {"name", "link"},      {"devices", "joins"},   {"Bps", "usable"},
        {"wire_Bps", "wire"}, {"latency_s", "step"}, {"assumed", "assumed"}, {NULL, NULL}};
    ff_document_section(facts, "Tiers, a device and direction");
    ff_document_table(facts, columns);
    for (int i = 0; i < FF_TIER_COUNT; i++) {
        const ff_tier *t = &cluster->tier[i];
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "tier", "%s", ff_tier_id_name((ff_tier_id)i));
        ff_facts_add_text(facts, "name", "%s", t->name);
        ff_facts_add_integer(facts, "devices", t->devices);
        ff_facts_add_real(facts, "Bps", t->Bps);
        ff_facts_add_real(facts, "wire_Bps", t->wire_Bps);
        ff_facts_add_real(facts, "latency_s", t->latency_s);
        ff_facts_add_boolean(facts, "assumed", t->assumed);
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

static void device_section(const ff_device *d, ff_facts *facts) {
    char memory[FF_VALUE_BYTES], rate[FF_VALUE_BYTES];
    const struct {
        const char *name;
        double flops;
    } peaks[] = {{"fp32", d->fp32_flops},
                 {"fp16", d->fp16_flops},
                 {"bf16", d->bf16_flops},
                 {"fp8", d->fp8_flops},
                 {"fp4", d->fp4_flops}};
    ff_document_section(facts, "Device %s", d->id);
    ff_document_item(facts, "name", "%s", d->name);
    ff_document_item(facts, "memory", "%s, %s",
                     ff_format_bytes((double)d->memory_bytes, memory, sizeof memory),
                     ff_format_number("Bps", d->memory_Bps, rate, sizeof rate));
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (peaks[i].flops > 0)
            ff_document_item(facts, peaks[i].name, "%.1f TFLOP/s dense", peaks[i].flops / 1e12);
    ff_document_item(facts, "link", "%s%s", d->link,
                     d->link_switch ? ", any peer at full rate" : ", a mesh: one link a peer");
}

static void curve_item(ff_facts *facts, const char *label, ff_basis_kind basis,
                       const char *source) {
    if (basis == FF_FITTED_DEVICE)
        ff_document_item(facts, label, "fitted to measurements of %s", source);
    else if (basis == FF_FITTED_GENERATION)
        ff_document_item(facts, label, "assumed as on %s", source);
    else
        ff_document_item(facts, label, "assumed: general constants");
}

/* Which measurements the times of kernels and links rest on. */
static void curve_section(const ff_device *d, const ff_physics *physics, ff_facts *facts) {
    ff_document_section(facts, "What its times rest on");
    for (int dtype = 0; dtype < FF_DTYPE_COUNT; dtype++)
        if (ff_peak_flops(d, (ff_dtype)dtype) > 0) {
            char label[32];
            snprintf(label, sizeof label, "GEMM %s", ff_dtype_name((ff_dtype)dtype));
            curve_item(facts, label, physics->gemm[dtype].basis, physics->gemm[dtype].source);
        }
    curve_item(facts, "attention", physics->attention_forward.basis,
               physics->attention_forward.source);
    curve_item(facts, "collectives", physics->collective.basis, physics->collective.source);
}

void ff_show_cluster(const ff_cluster *cluster, ff_facts *facts) {
    ff_document_head(facts, "show");
    ff_facts_open_record(facts, "cluster");
    ff_cluster_facts(cluster, facts);
    ff_facts_close(facts);
    ff_document_open(facts, "%s", cluster->name);
    ff_document_section(facts, "%s", "");
    ff_document_item(facts, "devices", "%lld: %lld nodes of %lld, domains of %lld",
                     (long long)cluster->devices, (long long)cluster->nodes,
                     (long long)cluster->devices_per_node, (long long)cluster->domain_devices);
    ff_document_item(facts, "network", "%lld adapters a node, %srail-optimised, spine %g:1",
                     (long long)cluster->nics_per_node, cluster->rail_optimised ? "" : "not ",
                     cluster->oversubscription);
    tier_table(cluster, facts);
    device_section(&cluster->device, facts);
    ff_document_close(facts);
}

ff_status ff_show_device(const char *id, ff_diagnostics *findings, ff_facts *facts) {
    char text[128];
    ff_cluster cluster;
    snprintf(text, sizeof text, "2x1x%s", id);
    ff_status status = ff_cluster_preset(text, findings, &cluster);
    if (status != FF_OK)
        return status;
    ff_physics physics;
    ff_physics_data data = ff_physics_presets();
    status = ff_physics_of_device(&data, &cluster.device, findings, &physics);
    if (status != FF_OK)
        return status;
    ff_document_head(facts, "show");
    ff_facts_open_record(facts, "device");
    ff_device_facts(&cluster.device, facts);
    ff_facts_open_record(facts, "kernels");
    ff_physics_facts(&physics, facts);
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_document_open(facts, "%s", cluster.device.id);
    device_section(&cluster.device, facts);
    curve_section(&cluster.device, &physics, facts);
    ff_document_close(facts);
    return FF_OK;
}

/* One text, or a text for each constant with the range in which it is plausible. */
static void show_evidence(const ff_field *evidence, const ff_field *ranges, ff_facts *facts) {
    if (evidence->kind != FF_FIELD_MAP) {
        ff_document_say(facts, "%s", evidence->text);
        return;
    }
    for (const ff_field *e = evidence->first; e != NULL; e = e->next) {
        const ff_field *range = ranges == NULL ? NULL : ff_field_find(ranges, e->name);
        if (range != NULL && range->kind == FF_FIELD_LIST && range->count == 2)
            ff_document_item(facts, e->name, "%s to %s: %s", range->first->text,
                             range->first->next->text, e->text);
        else
            ff_document_item(facts, e->name, "%s", e->text);
    }
}

ff_status ff_show_profile(const char *name, ff_diagnostics *findings, ff_facts *facts) {
    char path[128];
    ff_profile profile;
    snprintf(path, sizeof path, "profiles/%s", name);
    const ff_field *root = ff_preset_tree(path);
    if (root == NULL) {
        ff_report(findings, FF0408, FF_NOWHERE, "no profile \"%s\"", name);
        ff_report_help(findings, "`fivefold show profiles` lists them");
        return FF_INVALID;
    }
    ff_status status = ff_profile_from_fields(root, name, findings, &profile);
    if (status != FF_OK)
        return status;
    ff_document_head(facts, "show");
    ff_facts_open_record(facts, "profile");
    ff_profile_facts(&profile, facts);
    ff_facts_close(facts);
    ff_document_open(facts, "%s", name);
    ff_document_section(facts, "%s", "");
    ff_document_item(facts, "stack", "%s", profile.about);
    for (const ff_field *f = root->first; f != NULL; f = f->next)
        if (f->kind == FF_FIELD_NUMBER)
            ff_document_item(facts, f->name, "%s", f->text);
    const ff_field *kernels = ff_field_find(root, "kernels");
    for (const ff_field *f = kernels->first; f != NULL; f = f->next)
        ff_document_item(facts, f->name, "%s", f->text);
    const ff_field *evidence = ff_field_find(root, "evidence");
    if (evidence != NULL) {
        ff_document_section(facts, "Evidence");
        show_evidence(evidence, ff_field_find(root, "plausible"), facts);
    }
    ff_document_close(facts);
    return FF_OK;
}

/* ---- rules ---- */

static void rule_row(const ff_code_entry *entry, ff_facts *facts) {
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "code", "%s", entry->name);
    ff_facts_add_text(facts, "severity", "%s", ff_severity_name(entry->severity));
    ff_facts_add_text(facts, "title", "%s", entry->title);
    ff_facts_close(facts);
}

void ff_show_rules(ff_facts *facts) {
    static const ff_column columns[] = {
        {"code", "code"}, {"severity", "severity"}, {"title", "rule"}, {NULL, NULL}};
    const ff_rule *rule;
    ff_document_head(facts, "show");
    ff_document_open(facts, "Rules on layouts");
    ff_document_section(facts, "%s", "");
    ff_document_table(facts, columns);
    for (int n = 0; (rule = ff_rule_at(n)) != NULL; n++)
        rule_row(ff_code_describe(rule->code), facts);
    ff_document_table_end(facts);
    ff_document_say(facts, "Errors make a layout illegal; warnings and notes are priced, not "
                           "forbidden. `fivefold explain FF0210` says why a rule is there.");
    ff_document_close(facts);
}

ff_status ff_explain_code(const char *code, ff_diagnostics *findings, ff_facts *facts) {
    ff_code found = ff_code_find(code);
    if (found == FF_CODE_COUNT) {
        ff_report(findings, FF0408, FF_NOWHERE, "no code \"%s\"", code);
        ff_report_help(findings, "`fivefold show rules` lists the rules on layouts");
        return FF_INVALID;
    }
    const ff_code_entry *entry = ff_code_describe(found);
    ff_document_head(facts, "explain");
    ff_document_open(facts, "%s: %s", entry->name, entry->title);
    ff_document_section(facts, "%s", "");
    ff_document_item(facts, "severity", "%s", ff_severity_name(entry->severity));
    if (entry->rule[0] != '\0')
        ff_document_item(facts, "rule", "%s", entry->rule);
    ff_document_close(facts);
    return FF_OK;
}

ff_status ff_show_rule(const char *code, ff_diagnostics *findings, ff_facts *facts) {
    return ff_explain_code(code, findings, facts);
}
