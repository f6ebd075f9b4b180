/* `show schedule`: a pipeline's lists as a drawing, with what it costs. */
#include "base/diagnose.h"
#include "base/fact.h"
#include "base/text.h"
#include "layout/keys.h"
#include "plan/entry.h"
#include "plan/explain.h"
#include <stdlib.h>
#include <string.h>

/* "pp=4 microbatches=8" -> "pp=4,microbatches=8". */
static void join_with_commas(const char *settings, char *text, size_t bytes) {
    ff_copy_text(text, bytes, settings);
    for (char *c = text; *c != '\0'; c++)
        if (*c == ' ')
            *c = ',';
}

static ff_status read_shape(const char *schedule, const char *settings, ff_diagnostics *findings,
                            ff_schedule_shape *shape) {
    char text[1024];
    ff_layout layout;
    ff_schedule_kind kind;
    if (!ff_schedule_find(schedule, &kind)) {
        ff_report(findings, FF0408, FF_NOWHERE, "no schedule \"%s\"", schedule);
        ff_report_help(findings, "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, dualpipe, "
                                 "dualpipe-v");
        return FF_INVALID;
    }
    join_with_commas(settings, text, sizeof text);
    if (ff_layout_parse(text, findings, &layout) != FF_OK)
        return FF_INVALID;
    layout.schedule = kind;
    bool interleaved = kind == FF_SCHEDULE_INTERLEAVED;
    *shape = (ff_schedule_shape){.kind = kind,
                                 .stages = (int32_t)(layout.pp > 0 ? layout.pp : 4),
                                 .chunks = (int32_t)(layout.vpp > 0 ? layout.vpp
                                                     : interleaved  ? 2
                                                                    : ff_default_vpp(&layout)),
                                 .microbatches =
                                     (int32_t)(layout.microbatches > 0 ? layout.microbatches : 8)};
    return ff_schedule_check(shape, findings) == FF_OK ? FF_OK : FF_INVALID;
}

static void stage_table(const ff_schedule_shape *shape, ff_facts *facts) {
    static const ff_column columns[] = {{"stage", "stage"},
                                        {"warmup", "warm-up forwards"},
                                        {"in_flight", "in flight (chunks)"},
                                        {"in_flight_weight", "until W"},
                                        {"sends", "messages sent"},
                                        {NULL, NULL}};
    ff_document_table(facts, columns);
    for (int32_t stage = 0; stage < shape->stages; stage++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_integer(facts, "stage", stage);
        ff_facts_add_integer(facts, "warmup", ff_schedule_warmup(shape, stage));
        ff_facts_add_integer(facts, "in_flight", ff_schedule_in_flight(shape, stage));
        ff_facts_add_integer(facts, "in_flight_weight", ff_schedule_in_flight_weight(shape, stage));
        ff_facts_add_integer(facts, "sends", ff_schedule_sends(shape, stage));
        ff_facts_close(facts);
    }
    ff_document_table_end(facts);
}

void ff_schedule_section(const ff_schedule_shape *shape, int columns, ff_facts *facts) {
    ff_schedule *schedule = ff_schedule_create(shape);
    if (schedule != NULL) {
        char *drawing = ff_schedule_draw(schedule, columns);
        ff_document_draw(facts, drawing);
        free(drawing);
        ff_schedule_free(schedule);
    }
    double percent = 100 * ff_schedule_bubble_ratio(shape);
    if (ff_schedule_splits(shape))
        ff_document_item(facts, "bubble",
                         "%.1f%% over the ideal, where forward, input gradient and weight gradient "
                         "take equally long and all stages wait for the last (%.1f%% with 1f1b)",
                         percent, 100.0 * (shape->stages - 1) / shape->microbatches);
    else
        ff_document_item(facts, "bubble",
                         "%.1f%% over the ideal: (pp %d - 1) / (vpp %d x %d microbatches)", percent,
                         shape->stages, shape->chunks, shape->microbatches);
    if (ff_schedule_copies(shape) > 1)
        ff_document_item(facts, "weights",
                         "every stage holds two copies' worth: one position of "
                         "the model for each direction");
    stage_table(shape, facts);
}

ff_status ff_show_schedule(const char *schedule, const char *settings, int columns,
                           ff_diagnostics *findings, ff_facts *facts) {
    ff_schedule_shape shape;
    ff_status status = read_shape(schedule, settings, findings, &shape);
    if (status != FF_OK)
        return status;
    ff_document_head(facts, "show");
    ff_document_open(facts, "%s, pp=%d vpp=%d, %d microbatch%s", ff_schedule_name(shape.kind),
                     shape.stages, shape.chunks, shape.microbatches,
                     shape.microbatches == 1 ? "" : "es");
    ff_document_section(facts, "%s", "");
    ff_schedule_section(&shape, columns - 2, facts);
    ff_document_close(facts);
    return FF_OK;
}
