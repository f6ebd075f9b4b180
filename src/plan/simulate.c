/* `simulate`: one layout run as discrete events, as facts. The estimate stands beside, since the
 * two are readers of one program and ought to agree. */
#include "base/diagnose.h"
#include "base/number.h"
#include "base/text.h"
#include "cluster/describe.h"
#include "plan/entry.h"
#include "plan/explain.h"
#include "plan/timeline.h"
#include <stdlib.h>

enum { MOST_TENSORS = 8, MOST_RANKS = 4096 };

static double seconds(int64_t time_ps) {
    return 1e-12 * (double)time_ps;
}

/* ---- which ranks are watched ---- */

typedef struct watch {
    ff_watched watched;
    ff_mesh mesh;
    int64_t rank[MOST_RANKS], stage[MOST_RANKS];
} watch;

static void add_rank(watch *w, int64_t rank) {
    w->rank[w->watched.ranks] = rank;
    w->stage[w->watched.ranks++] = ff_mesh_coordinate(&w->mesh, rank, FF_AXIS_PP);
}

static ff_status refuse_ranks(const char *text, int64_t world, ff_diagnostics *findings) {
    ff_report(findings, FF0403, FF_NOWHERE, "--ranks %s", text);
    ff_report_help(findings, "a number of ranks, or a list such as 0,8,16 of ranks below %lld",
                   (long long)ff_min(world, MOST_RANKS));
    return FF_INVALID;
}

static ff_status read_list(const char *text, int64_t world, ff_diagnostics *findings, watch *w) {
    for (const char *at = text; *at != '\0';) {
        char *end;
        long long rank = strtoll(at, &end, 10);
        if (end == at || rank < 0 || rank >= world || w->watched.ranks == MOST_RANKS ||
            (*end != '\0' && *end != ','))
            return refuse_ranks(text, world, findings);
        add_rank(w, rank);
        at = *end == ',' ? end + 1 : end;
    }
    return FF_OK;
}

static ff_status read_ranks(const ff_explained *e, const char *text, ff_diagnostics *findings,
                            watch *w) {
    int64_t world = ff_layout_world(&e->layout);
    w->watched = (ff_watched){&e->layout, &w->mesh, 0, w->rank, w->stage};
    if (ff_layout_mesh(&e->layout, findings, &w->mesh) != FF_OK)
        return FF_NO;
    if (text == NULL) {
        for (int64_t rank = 0; rank < world && w->watched.ranks < e->layout.pp; rank++)
            if (ff_mesh_coordinate(&w->mesh, rank, FF_AXIS_PP) == w->watched.ranks)
                add_rank(w, rank);
        return FF_OK;
    }
    char *end;
    long long count = strtoll(text, &end, 10);
    if (*end == ',')
        return read_list(text, world, findings, w);
    if (end == text || *end != '\0' || count < 1 || count > world || count > MOST_RANKS)
        return refuse_ranks(text, world, findings);
    for (int64_t rank = 0; rank < count; rank++)
        add_rank(w, rank);
    return FF_OK;
}

/* ---- facts ---- */

static void tensor_facts(const ff_explained *e, const ff_stage_result *r, int64_t stage,
                         ff_facts *facts) {
    ff_live_tensor tensors[MOST_TENSORS];
    int count = ff_ledger_tensors(&e->job->model, &e->layout, &e->options, &r->memory, stage,
                                  MOST_TENSORS, tensors);
    ff_facts_open_list(facts, "tensors");
    for (int i = 0; i < count; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "name", "%s", tensors[i].name);
        ff_facts_add_integer(facts, "bytes", tensors[i].bytes);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

static void stage_facts(const ff_explained *e, const ff_simulation *simulation, int64_t stage,
                        ff_facts *facts) {
    static const char *const waits[FF_WAIT_COUNT] = {"activation_s", "gradient_s", "step_end_s"};
    const ff_stage_result *r = ff_simulation_stage(simulation, stage);
    int64_t idle_ps = 0;
    ff_facts_open_record(facts, NULL);
    ff_facts_add_integer(facts, "stage", stage);
    ff_facts_add_real(facts, "busy_s", seconds(r->busy_ps));
    ff_facts_open_record(facts, "exposed_s");
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        ff_facts_add_real(facts, ff_exposure_name((ff_exposure)i), seconds(r->exposed_ps[i]));
    ff_facts_close(facts);
    for (int i = 0; i < FF_WAIT_COUNT; i++)
        idle_ps += r->idle_ps[i];
    ff_facts_add_real(facts, "idle_s", seconds(idle_ps));
    ff_facts_open_record(facts, "waits_s");
    for (int i = 0; i < FF_WAIT_COUNT; i++)
        ff_facts_add_real(facts, waits[i], seconds(r->idle_ps[i]));
    ff_facts_close(facts);
    ff_facts_add_real(facts, "bubble_s", seconds(r->bubble_ps));
    ff_facts_add_integer(facts, "in_flight", r->in_flight);
    ff_facts_add_integer(facts, "in_flight_weight", r->in_flight_weight);
    ff_facts_add_integer(facts, "peak_bytes", r->memory.total_bytes);
    ff_facts_add_real(facts, "peak_at_s", seconds(r->peak_at_ps));
    tensor_facts(e, r, stage, facts);
    ff_facts_close(facts);
}

static void path_facts(const ff_simulation *simulation, ff_facts *facts) {
    const ff_path_part *part;
    int parts = ff_simulation_path(simulation, &part);
    ff_facts_open_list(facts, "critical_path");
    for (int i = 0; i < parts; i++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "what", "%s", part[i].what);
        ff_facts_add_real(facts, "s", seconds(part[i].time_ps));
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
}

static void group_name(ff_axes group, ff_text *text) {
    for (int axis = 0; axis < FF_AXIS_COUNT; axis++)
        if (group & FF_AXES(axis))
            ff_text_printf(text, "%s%s", text->length > 0 ? "*" : "", ff_axis_name((ff_axis)axis));
}

static void count_facts(const ff_explained *e, const ff_simulation *simulation, ff_facts *facts) {
    ff_facts_open_list(facts, "counts");
    for (int64_t stage = 0; stage < e->layout.pp; stage++) {
        const ff_stage_result *r = ff_simulation_stage(simulation, stage);
        for (int i = 0; i < r->counts; i++) {
            ff_text group = {0};
            group_name(r->count[i].group, &group);
            ff_facts_open_record(facts, NULL);
            ff_facts_add_integer(facts, "stage", stage);
            ff_facts_add_text(facts, "op", "%s", ff_collective_name(r->count[i].collective));
            ff_facts_add_text(facts, "group", "%s", ff_text_bytes(&group));
            ff_facts_add_text(facts, "phase", "%s", ff_phase_name(r->count[i].phase));
            ff_facts_add_integer(facts, "calls", r->count[i].calls);
            ff_facts_add_real(facts, "bytes", r->count[i].sent_bytes);
            ff_facts_close(facts);
            ff_text_free(&group);
        }
    }
    ff_facts_close(facts);
}

static void answer_facts(const ff_explained *e, const ff_simulation *simulation,
                         const ff_timeline *timeline, const ff_simulate_options *options,
                         ff_facts *facts) {
    char layout[FF_LAYOUT_TEXT_BYTES];
    ff_text drawing = {0};
    int64_t step_ps = ff_simulation_step_ps(simulation);
    ff_facts_add_text(facts, "layout", "%s",
                      ff_layout_print(&e->layout, FF_LAYOUT_SHORT, layout, sizeof layout));
    ff_facts_add_text(facts, "layout_full", "%s",
                      ff_layout_print(&e->layout, FF_LAYOUT_FULL, layout, sizeof layout));
    ff_facts_add_text(facts, "detail", "%s", options->by_operator ? "operator" : "chunk");
    ff_facts_add_basis(facts, FF_BASIS_SIMULATED);
    ff_facts_add_real(facts, "step_s", seconds(step_ps));
    ff_facts_add_real(facts, "pipeline_s", seconds(ff_simulation_span_ps(simulation)));
    ff_facts_add_real(facts, "estimated_step_s", e->estimate.time.step_s);
    ff_timeline_draw(timeline, step_ps, options->columns, &drawing);
    ff_facts_add_text(facts, "drawing", "%s", ff_text_bytes(&drawing));
    ff_text_free(&drawing);
    ff_facts_open_list(facts, "stages");
    for (int64_t stage = 0; stage < e->layout.pp; stage++)
        stage_facts(e, simulation, stage, facts);
    ff_facts_close(facts);
    path_facts(simulation, facts);
    count_facts(e, simulation, facts);
    ff_facts_add_integer(facts, "events", ff_simulation_events(simulation));
}

static ff_status simulate(const ff_explained *e, const ff_simulate_options *options,
                          ff_diagnostics *findings, ff_facts *facts) {
    watch *w = FF_ARENA_NEW(e->arena, watch);
    ff_status status = read_ranks(e, options->ranks, findings, w);
    if (status != FF_OK)
        return status;
    if (options->observer != NULL && options->observer->begin != NULL)
        options->observer->begin(options->observer->context, &w->watched);
    ff_simulation_inputs inputs = {ff_evaluator_cost(e->evaluator), &e->layout, &e->reaches,
                                   options->by_operator ? FF_DETAIL_OPERATOR : FF_DETAIL_CHUNK};
    ff_timeline *timeline = ff_timeline_create(e->layout.pp, options->observer);
    ff_simulation *simulation =
        ff_simulation_create(&inputs, ff_timeline_observer(timeline), findings);
    if (simulation != NULL)
        answer_facts(e, simulation, timeline, options, facts);
    status = simulation == NULL ? FF_NO : FF_OK;
    ff_simulation_free(simulation);
    ff_timeline_free(timeline);
    return status;
}

ff_status ff_simulate(const ff_job *job, const char *layout, const ff_simulate_options *options,
                      ff_diagnostics *findings, ff_facts *facts) {
    ff_explained e;
    ff_status status = ff_explained_open(job, layout, findings, &e);
    if (status == FF_OK) {
        ff_document_head(facts, "simulate");
        ff_inputs_of_job(job, facts);
        status = simulate(&e, options, findings, facts);
    }
    ff_explained_close(&e);
    return status;
}
