/* Profiles from fields, with the range in which each constant is plausible. */
#include "cost/profile.h"

#include "presets/presets.h"

#include "base/fact.h"
#include "base/text.h"
#include "fivefold/layout.h"
#include "layout/recipe.h"
#include <stddef.h>
#include <string.h>

/* One row a constant: its key, where it goes, the factor to base units, its plausible range (in the
 * key's units), how it is shown, and what is taken where a profile does not say (below 0: it
 * must). */
typedef struct constant {
    const char *key;
    size_t offset;
    double factor, least, most;
    const char *fact;
    double otherwise;
} constant;

#define CONSTANT(key, member, factor, least, most, fact)                                           \
    { key, offsetof(ff_profile, member), factor, least, most, fact, -1 }
#define OPTIONAL(key, least, most, otherwise)                                                      \
    { #key, offsetof(ff_profile, key), 1, least, most, #key, otherwise }

static const constant constants[] = {
    CONSTANT("gemm_clock_ratio", gemm_clock_ratio, 1, 0.5, 1.1, "gemm_clock_ratio"),
    CONSTANT("host_ms_per_layer", host_s_per_layer, 1e-3, 0, 20, "host_per_layer_s"),
    CONSTANT("kernel_launch_us", kernel_launch_s, 1e-6, 0, 50, "kernel_launch_s"),
    CONSTANT("gradient_overlap_ratio", gradient_overlap_ratio, 1, 0, 1, "gradient_overlap_ratio"),
    CONSTANT("gather_overlap_ratio", gather_overlap_ratio, 1, 0, 1, "gather_overlap_ratio"),
    CONSTANT("overlap_slowdown_ratio", overlap_slowdown_ratio, 1, 0, 1, "overlap_slowdown_ratio"),
    OPTIONAL(host_forward_ratio, 0.2, 0.9, 0.42),
    OPTIONAL(sharded_overlap_ratio, 0, 1, 1),
    OPTIONAL(attention_rate_ratio, 0.2, 1.5, 1),
    {"ddp_bucket_MiB", offsetof(ff_profile, ddp_bucket_bytes), 1048576, 0, 10000,
     "ddp_bucket_bytes", 0},
    OPTIONAL(tp_overlap_ratio, 0, 1, 1),
    OPTIONAL(tp_hidden_ratio, 0, 1, 0),
    OPTIONAL(ep_hidden_ratio, 0, 1, 0),
    OPTIONAL(link_rate_ratio, 0.1, 1.5, 1),
    OPTIONAL(network_rate_ratio, 0.05, 1.5, 1),
    CONSTANT("step_fixed_ms", step_fixed_s, 1e-3, 0, 10000, "step_fixed_s"),
    CONSTANT("fragmentation_ratio", runtime.fragmentation_ratio, 1, 0, 0.5, "fragmentation_ratio"),
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

static const struct size {
    const char *key;
    size_t offset;
    const char *fact;
} sizes[] = {
    {"context_MiB", offsetof(ff_profile, runtime.context_bytes), "context_bytes"},
    {"communicator_MiB", offsetof(ff_profile, runtime.communicator_bytes), "communicator_bytes"},
    {"workspace_MiB", offsetof(ff_profile, runtime.workspace_bytes), "workspace_bytes"},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static const struct flag {
    const char *key;
    size_t offset;
    bool otherwise; /* where a profile does not say */
} flags[] = {
    {"flash_attention", offsetof(ff_kernels, flash_attention), true},
    {"flash_2", offsetof(ff_kernels, flash_2), true},
    {"flash_3", offsetof(ff_kernels, flash_3), true},
    {"eager_softmax", offsetof(ff_kernels, eager_softmax), false},
    {"eager_accumulation", offsetof(ff_kernels, eager_accumulation), false},
    {"mixed_accumulation", offsetof(ff_kernels, mixed_accumulation), false},
    {"eager_rope", offsetof(ff_kernels, eager_rope), false},
    {"keeps_gathered", offsetof(ff_kernels, keeps_gathered), false},
    {"keeps_logits", offsetof(ff_kernels, keeps_logits), false},
    {"gathers_logits", offsetof(ff_kernels, gathers_logits), false},
    {"stops_early", offsetof(ff_kernels, stops_early), false},
    {"stepwise_loss", offsetof(ff_kernels, stepwise_loss), false},
    {"narrow_gathers", offsetof(ff_kernels, narrow_gathers), false},
    {"node_dispatch", offsetof(ff_kernels, node_dispatch), false},
    {"fused_norm", offsetof(ff_kernels, fused_norm), true},
    {"fused_activation", offsetof(ff_kernels, fused_activation), true},
    {"fused_loss", offsetof(ff_kernels, fused_loss), true},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static double *real_at(ff_profile *profile, size_t offset) {
    return (double *)((char *)profile + offset);
}

static void read_constants(const ff_field *root, ff_diagnostics *findings, ff_profile *profile) {
    for (int i = 0; i < CONSTANTS; i++) {
        double value;
        if (ff_field_get_real(root, constants[i].key, constants[i].least, constants[i].most,
                              findings, &value))
            *real_at(profile, constants[i].offset) = value * constants[i].factor;
        else if (ff_field_find(root, constants[i].key) != NULL)
            continue;
        else if (constants[i].otherwise >= 0)
            *real_at(profile, constants[i].offset) = constants[i].otherwise * constants[i].factor;
        else
            ff_field_report_missing(root, constants[i].key, findings);
    }
    if (ff_field_find(root, "sharded_overlap_ratio") == NULL)
        profile->sharded_overlap_ratio = profile->gradient_overlap_ratio;
    for (int i = 0; i < SIZES; i++) {
        int64_t mebibytes;
        int64_t *bytes = (int64_t *)((char *)profile + sizes[i].offset);
        if (ff_field_get_integer(root, sizes[i].key, 0, 1 << 20, findings, &mebibytes))
            *bytes = mebibytes * 1024 * 1024;
        else if (ff_field_find(root, sizes[i].key) == NULL)
            ff_field_report_missing(root, sizes[i].key, findings);
    }
}

static void read_kernels(const ff_field *root, ff_diagnostics *findings, ff_profile *profile) {
    const ff_field *kernels = ff_field_find(root, "kernels");
    if (kernels == NULL) {
        ff_field_report_missing(root, "kernels", findings);
        return;
    }
    const char *known[FLAGS + 1] = {0};
    for (int i = 0; i < FLAGS; i++) {
        bool *flag = (bool *)((char *)&profile->kernels + flags[i].offset);
        known[i] = flags[i].key;
        *flag = flags[i].otherwise;
        ff_field_get_boolean(kernels, flags[i].key, findings, flag);
    }
    ff_field_report_unknown(kernels, known, findings);
}

/* What most pipelines run; without "schedules" a stack is taken to run both. */
static const unsigned USUAL_SCHEDULES = 1u << FF_SCHEDULE_1F1B | 1u << FF_SCHEDULE_INTERLEAVED;

static void read_schedules(const ff_field *root, ff_diagnostics *findings, ff_profile *profile) {
    const ff_field *list = ff_field_find(root, "schedules");
    profile->schedules = list == NULL ? USUAL_SCHEDULES : 0;
    if (list != NULL && list->kind != FF_FIELD_LIST)
        ff_report(findings, FF0108, list->where, "schedules is a list of names");
    for (const ff_field *f = list == NULL ? NULL : list->first; f != NULL; f = f->next) {
        ff_schedule_kind kind;
        if (ff_schedule_find(f->text, &kind)) {
            profile->schedules |= 1u << kind;
            continue;
        }
        ff_report(findings, FF0108, f->where, "there is no schedule \"%s\"", f->text);
        ff_report_help(findings, "%s", ff_layout_key_help_of("schedule")->values);
    }
}

static bool runs(const ff_profile *profile, int kind) {
    return (profile->schedules & 1u << kind) != 0;
}

ff_status ff_profile_from_fields(const ff_field *root, const char *name, ff_diagnostics *findings,
                                 ff_profile *profile) {
    int errors_before = ff_diagnostics_count_of(findings, FF_ERROR);
    const char *known[CONSTANTS + SIZES + 7] = {0}, *about = "";
    *profile = (ff_profile){0};
    ff_copy_text(profile->name, sizeof profile->name, name);
    if (root->kind != FF_FIELD_MAP) {
        ff_report(findings, FF0108, root->where, "a profile is a map of constants");
        return FF_INVALID;
    }
    ff_field_get_text(root, "about", findings, &about);
    ff_copy_text(profile->about, sizeof profile->about, about);
    read_constants(root, findings, profile);
    read_kernels(root, findings, profile);
    read_schedules(root, findings, profile);
    int count = 0;
    for (int i = 0; i < CONSTANTS; i++)
        known[count++] = constants[i].key;
    for (int i = 0; i < SIZES; i++)
        known[count++] = sizes[i].key;
    known[count++] = "about";
    known[count++] = "default_for";
    known[count++] = "kernels";
    known[count++] = "schedules";
    known[count++] = "evidence";
    known[count++] = "plausible";
    ff_field_report_unknown(root, known, findings);
    return ff_diagnostics_count_of(findings, FF_ERROR) > errors_before ? FF_INVALID : FF_OK;
}

const char *ff_profile_default(const ff_cluster *cluster) {
    const char *path, *otherwise = "";
    for (int n = 0; (path = ff_preset_path("profiles/", n)) != NULL; n++) {
        const ff_field *generations = ff_field_find(ff_preset_tree(path), "default_for");
        for (const ff_field *g = generations == NULL ? NULL : generations->first; g != NULL;
             g = g->next) {
            if (strcmp(g->text, cluster->device.generation) == 0)
                return path + strlen("profiles/");
            if (strcmp(g->text, "other") == 0)
                otherwise = path + strlen("profiles/");
        }
    }
    return otherwise;
}

ff_constant ff_profile_constant(int index) {
    if (index < 0 || index >= CONSTANTS)
        return (ff_constant){0};
    return (ff_constant){constants[index].key, constants[index].least, constants[index].most};
}

double ff_profile_get(const ff_profile *profile, int index) {
    const double *at = (const double *)((const char *)profile + constants[index].offset);
    return *at / constants[index].factor;
}

void ff_profile_set(ff_profile *profile, int index, double value) {
    *real_at(profile, constants[index].offset) = value * constants[index].factor;
}

void ff_profile_write(const ff_profile *profile, ff_text *out) {
    ff_text_append(out, "about: \"");
    for (const char *c = profile->about; *c != '\0'; c++)
        ff_text_printf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    ff_text_append(out, "\"\nkernels:\n");
    for (int i = 0; i < FLAGS; i++) {
        bool set = *(const bool *)((const char *)&profile->kernels + flags[i].offset);
        ff_text_printf(out, "  %s: %s\n", flags[i].key, set ? "true" : "false");
    }
    const char *before = "schedules: [";
    for (int kind = 0; kind < FF_SCHEDULE_COUNT; kind++) {
        if (!runs(profile, kind))
            continue;
        ff_text_printf(out, "%s%s", before, ff_schedule_name((ff_schedule_kind)kind));
        before = ", ";
    }
    ff_text_append(out, profile->schedules == 0 ? "schedules: []\n" : "]\n");
    for (int i = 0; i < CONSTANTS; i++)
        ff_text_printf(out, "%s: %.4g\n", constants[i].key, ff_profile_get(profile, i));
    for (int i = 0; i < SIZES; i++) {
        int64_t bytes = *(const int64_t *)((const char *)profile + sizes[i].offset);
        ff_text_printf(out, "%s: %lld\n", sizes[i].key, (long long)(bytes / (1024 * 1024)));
    }
}

void ff_profile_facts(const ff_profile *profile, ff_facts *facts) {
    ff_facts_add_text(facts, "name", "%s", profile->name);
    ff_facts_add_text(facts, "about", "%s", profile->about);
    for (int i = 0; i < FLAGS; i++)
        ff_facts_add_boolean(facts, flags[i].key,
                             *(const bool *)((const char *)&profile->kernels + flags[i].offset));
    ff_facts_open_list(facts, "schedules");
    for (int kind = 0; kind < FF_SCHEDULE_COUNT; kind++)
        if (runs(profile, kind))
            ff_facts_add_text(facts, NULL, "%s", ff_schedule_name((ff_schedule_kind)kind));
    ff_facts_close(facts);
    for (int i = 0; i < CONSTANTS; i++)
        ff_facts_add_real(facts, constants[i].fact,
                          *(const double *)((const char *)profile + constants[i].offset));
    for (int i = 0; i < SIZES; i++)
        ff_facts_add_integer(facts, sizes[i].fact,
                             *(const int64_t *)((const char *)profile + sizes[i].offset));
}
