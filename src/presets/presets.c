/* Named models, devices and clusters, out of the compiled data. A preset takes the path that a
 * user's own file takes; only the reading of text is already done.
 *
 * Model names are found in any case; the file's own spelling is the name. */
#include "presets/presets.h"

#include "base/text.h"
#include "model/config.h"
#include "presets/table.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char MODELS[] = "models/";
enum { MODELS_LENGTH = sizeof MODELS - 1, SHOWN_NAMES = 3 };

/* Index of the first path that is not before `path`. */
static int lower_bound(const char *path) {
    int low = 0, high = ff_preset_table_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(ff_preset_table[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ff_field *ff_preset_tree(const char *path) {
    int at = lower_bound(path);
    if (at < ff_preset_table_count && strcmp(ff_preset_table[at].path, path) == 0)
        return ff_preset_table[at].root;
    return NULL;
}

/* Paths with a prefix stand together, since they are sorted. */
const char *ff_preset_path(const char *prefix, int n) {
    int first = lower_bound(prefix);
    if (n < 0 || n >= ff_preset_table_count - first)
        return NULL;
    const char *path = ff_preset_table[first + n].path;
    return strncmp(path, prefix, strlen(prefix)) == 0 ? path : NULL;
}

const ff_cluster_library *ff_preset_cluster_library(void) {
    return &ff_preset_library;
}

static void report_unknown_model(const char *name, ff_diagnostics *findings) {
    ff_report(findings, FF0120, FF_NOWHERE, "no model preset is called \"%.80s\"", name);
    const char *names[1024];
    int count = 0;
    while (count < 1024 && ff_preset_path(MODELS, count) != NULL) {
        names[count] = ff_preset_path(MODELS, count) + MODELS_LENGTH;
        count++;
    }
    ff_text near = {0};
    for (int shown = 0; shown < SHOWN_NAMES; shown++) {
        int best = ff_nearest_word(name, names, count);
        if (best < 0)
            break;
        ff_text_printf(&near, "%s%s", shown == 0 ? "" : ", ", names[best]);
        names[best] = "";
    }
    if (near.length > 0)
        ff_report_help(findings, "did you mean %s? `fivefold show models` lists all",
                       ff_text_bytes(&near));
    else
        ff_report_help(findings, "`fivefold show models` lists the presets; a path to a "
                                 "config.json or a bare shape (params=70e9,...) works as well");
    ff_text_free(&near);
}

ff_status ff_model_preset(const char *name, ff_diagnostics *findings, ff_model *model) {
    *model = (ff_model){0};
    const char *path;
    for (int n = 0; (path = ff_preset_path(MODELS, n)) != NULL; n++)
        if (strcasecmp(path + MODELS_LENGTH, name) == 0)
            return ff_model_from_config(ff_preset_tree(path), path + MODELS_LENGTH, findings,
                                        model);
    report_unknown_model(name, findings);
    return FF_INVALID;
}

ff_status ff_cluster_preset(const char *text, ff_diagnostics *findings, ff_cluster *cluster) {
    return ff_cluster_from_text(text, ff_preset_cluster_library(), findings, cluster);
}
