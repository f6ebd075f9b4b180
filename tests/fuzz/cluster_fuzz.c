/* Clusters: a YAML file, or the short form when the first byte is not part of one. */
#include "fuzz.h"

#include "cluster/describe.h"
#include "input/reader.h"
#include "presets/presets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ff_arena *arena = ff_arena_create();
    ff_diagnostics *findings = ff_diagnostics_create();
    const ff_field *root = NULL;
    ff_cluster cluster;
    ff_status status;
    if (size > 0 && data[0] == '!') {
        const char *text = ff_arena_copy(arena, (const char *)data + 1, size - 1);
        status = ff_cluster_from_text(text, ff_preset_cluster_library(), findings, &cluster);
    } else {
        status = ff_fields_read(arena, "fuzz.yaml", (const char *)data, size, findings, &root);
        if (status == FF_OK)
            status = ff_cluster_from_fields(root, "fuzz", ff_preset_cluster_library(), findings,
                                            &cluster);
    }
    fuzz_judge(status, findings);
    if (status == FF_OK && (cluster.devices < 1 || cluster.devices > 1 << 20))
        abort();
    ff_diagnostics_free(findings);
    ff_arena_free(arena);
    return 0;
}
