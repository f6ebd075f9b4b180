/* See inputs.h. */
#include "cli/inputs.h"

#include "base/fact.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/files.h"
#include "cluster/describe.h"
#include "input/reader.h"
#include "model/config.h"
#include "presets/presets.h"
#include <string.h>

static ff_status worse(ff_status a, ff_status b) {
    return a > b ? a : b;
}

/* A missing file is said to be one, not an unknown preset. */
static bool looks_like_path(const char *argument) {
    static const char *const endings[] = {".json", ".yaml", ".yml"};
    size_t length = strlen(argument);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t cut = strlen(endings[i]);
        if (length > cut && strcmp(argument + length - cut, endings[i]) == 0)
            return true;
    }
    return strchr(argument, '/') != NULL;
}

static ff_status refuse_empty(const char *what, ff_diagnostics *findings) {
    ff_report(findings, FF0404, FF_NOWHERE, "the %s is an empty text", what);
    ff_report_help(findings, "fivefold show %ss lists those known by name", what);
    return FF_INVALID;
}

static ff_status read_fields(const char *path, ff_arena *arena, ff_diagnostics *findings,
                             const ff_field **root) {
    const char *text;
    size_t length;
    ff_status status = ff_file_read(arena, path, findings, &text, &length);
    return status == FF_OK ? ff_fields_read(arena, path, text, length, findings, root) : status;
}

static ff_status model_from_file(const char *path, ff_arena *arena, ff_diagnostics *findings,
                                 ff_model *model, const char **source) {
    const ff_field *root;
    *source = ff_arena_printf(arena, "file %s", path);
    ff_status status = read_fields(path, arena, findings, &root);
    if (status != FF_OK)
        return status;
    char name[FF_NAME_BYTES];
    ff_copy_text(name, sizeof name, ff_path_stem(arena, path));
    return ff_model_from_config(root, name, findings, model);
}

ff_status ff_input_model(const char *argument, ff_arena *arena, ff_diagnostics *findings,
                         ff_model *model, const char **source) {
    if (argument[0] == '\0')
        return refuse_empty("model", findings);
    ff_path_kind kind = ff_path_look(argument);
    if (kind == FF_PATH_FOLDER) {
        const char *inside = ff_arena_printf(arena, "%s/config.json", argument);
        if (ff_path_look(inside) != FF_PATH_NONE)
            return model_from_file(inside, arena, findings, model, source);
    }
    if (kind == FF_PATH_FILE || kind == FF_PATH_OTHER)
        return model_from_file(argument, arena, findings, model, source);
    if (ff_model_is_shape(argument)) {
        *source = "bare shape";
        return ff_model_from_shape(argument, findings, model);
    }
    if (looks_like_path(argument))
        return model_from_file(argument, arena, findings, model, source);
    *source = "preset";
    return ff_model_preset(argument, findings, model);
}

static ff_status cluster_from_file(const char *path, ff_arena *arena, ff_diagnostics *findings,
                                   ff_cluster *cluster, const char **source) {
    const ff_field *root;
    *source = ff_arena_printf(arena, "file %s", path);
    ff_status status = read_fields(path, arena, findings, &root);
    if (status != FF_OK)
        return status;
    char name[FF_NAME_BYTES];
    ff_copy_text(name, sizeof name, ff_path_stem(arena, path));
    return ff_cluster_from_fields(root, name, ff_preset_cluster_library(), findings, cluster);
}

ff_status ff_input_cluster(const char *argument, ff_arena *arena, ff_diagnostics *findings,
                           ff_cluster *cluster, const char **source) {
    if (argument[0] == '\0')
        return refuse_empty("cluster", findings);
    ff_path_kind kind = ff_path_look(argument);
    if (kind == FF_PATH_FILE || kind == FF_PATH_OTHER || looks_like_path(argument))
        return cluster_from_file(argument, arena, findings, cluster, source);
    *source = "preset";
    return ff_cluster_preset(argument, findings, cluster);
}

static void report_unknown_profile(const char *name, ff_diagnostics *findings) {
    enum { MOST = 32 };
    static const char prefix[] = "profiles/";
    const char *known[MOST], *path;
    int count = 0;
    while (count < MOST && (path = ff_preset_path(prefix, count)) != NULL)
        known[count++] = path + strlen(prefix);
    ff_report(findings, FF0408, FF_NOWHERE, "no profile is called \"%s\"", name);
    int nearest = ff_nearest_word(name, known, count);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean %s?", known[nearest]);
    else
        ff_report_help(findings, "fivefold show profiles lists them; a file works too");
}

ff_status ff_input_profile(const char *argument, ff_arena *arena, ff_diagnostics *findings,
                           ff_profile *profile, const char **source) {
    const ff_field *root = NULL;
    if (ff_path_look(argument) == FF_PATH_FILE || looks_like_path(argument)) {
        *source = ff_arena_printf(arena, "file %s", argument);
        ff_status status = read_fields(argument, arena, findings, &root);
        if (status != FF_OK)
            return status;
        return ff_profile_from_fields(root, ff_path_stem(arena, argument), findings, profile);
    }
    *source = "preset";
    root = ff_preset_tree(ff_arena_printf(arena, "profiles/%s", argument));
    if (root == NULL) {
        report_unknown_profile(argument, findings);
        return FF_INVALID;
    }
    return ff_profile_from_fields(root, argument, findings, profile);
}

static ff_status read_profile(const ff_options *options, const ff_cluster *cluster, ff_arena *arena,
                              ff_diagnostics *findings, ff_inputs *inputs) {
    const char *name = options->profile == NULL ? ff_profile_default(cluster) : options->profile;
    ff_status status =
        ff_input_profile(name, arena, findings, &inputs->profile, &inputs->profile_source);
    if (options->profile == NULL)
        inputs->profile_source = "default";
    return status;
}

static ff_status settle_seq(const ff_options *options, ff_diagnostics *findings, ff_job *job) {
    job->seq = options->seq > 0 ? options->seq : job->model.max_seq;
    if (job->seq <= 0) {
        ff_report(findings, FF0404, FF_NOWHERE, "%s does not say how long its sequences are",
                  job->model.name);
        ff_report_help(findings, "give --seq, such as --seq 4096");
        return FF_INVALID;
    }
    if (options->seq == 0) {
        ff_report(findings, FF0409, FF_NOWHERE, "sequences of %lld tokens, the model's maximum",
                  (long long)job->seq);
        ff_report_help(findings, "--seq sets another length");
    }
    return FF_OK;
}

/* A batch in sequences may be within its limit and yet too many tokens. */
static ff_status settle_batch(const ff_options *options, ff_diagnostics *findings, ff_job *job) {
    job->gbs_tokens = options->gbs_tokens;
    if (options->gbs_exact && job->gbs_tokens % job->seq != 0) {
        ff_report(findings, FF0403, FF_NOWHERE,
                  "--gbs-exact: %lld tokens are no whole number of sequences of %lld",
                  (long long)job->gbs_tokens, (long long)job->seq);
        ff_report_help(findings, "--gbs %lldseq", (long long)ff_max(1, job->gbs_tokens / job->seq));
        return FF_INVALID;
    }
    if (options->gbs_sequences == 0)
        return FF_OK;
    job->gbs_tokens = ff_mul(options->gbs_sequences, job->seq);
    if (job->gbs_tokens <= FF_LARGEST_BATCH_TOKENS)
        return FF_OK;
    ff_report(findings, FF0403, FF_NOWHERE,
              "--gbs %lldseq: of %lld tokens each is out of all proportion",
              (long long)options->gbs_sequences, (long long)job->seq);
    return FF_INVALID;
}

ff_status ff_inputs_read(const char *model, const char *cluster, const ff_options *options,
                         ff_arena *arena, ff_diagnostics *findings, ff_inputs *inputs) {
    ff_job *job = &inputs->job;
    ff_status status = ff_input_model(model, arena, findings, &job->model, &inputs->model_source);
    ff_status of_cluster =
        ff_input_cluster(cluster, arena, findings, &job->cluster, &inputs->cluster_source);
    if (status == FF_OK)
        status = settle_seq(options, findings, job);
    if (of_cluster == FF_OK)
        of_cluster = read_profile(options, &job->cluster, arena, findings, inputs);
    status = worse(status, of_cluster);
    if (status != FF_OK)
        return status;
    status = settle_batch(options, findings, job);
    if (status != FF_OK)
        return status;
    job->profile = &inputs->profile;
    job->gbs_exact = options->gbs_exact;
    job->recipe_given = options->recipe >= 0;
    if (job->recipe_given)
        job->recipe = (ff_recipe)options->recipe;
    job->imbalance = options->imbalance;
    job->margin_bytes = options->margin_bytes;
    job->ledger = (ff_ledger_choice)options->ledger;
    return FF_OK;
}

void ff_inputs_facts(const ff_inputs *inputs, ff_facts *facts) {
    ff_facts_open_record(facts, "taken_for");
    ff_facts_add_text(facts, "model", "%s", inputs->model_source);
    ff_facts_add_text(facts, "cluster", "%s", inputs->cluster_source);
    ff_facts_add_text(facts, "profile", "%s", inputs->profile_source);
    ff_facts_close(facts);
}
