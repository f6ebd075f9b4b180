/* Placement: the grid of ranks on nodes, and which link each group crosses.
 *
 *     node 0  [  0  1  2  3][  4  5  6  7]   dp 0-1   pp 0        brackets: ranks of one TP group
 *
 * Every rank is one device; ranks fill nodes in order. */
#include "plan/explain.h"

#include "base/number.h"
#include "base/text.h"
#include <stdio.h>

enum { MOST_NODES = 8, MOST_MEMBERS = 8 };

/* "dp 0-1", "pp 3": the coordinates that a node's ranks take along an axis. */
static void axis_range(const ff_mesh *mesh, ff_axis axis, int64_t first, int64_t ranks,
                       ff_text *text) {
    int64_t least = INT64_MAX, most = 0;
    if (mesh->size[axis] == 1)
        return;
    for (int64_t rank = first; rank < first + ranks; rank++) {
        int64_t at = ff_mesh_coordinate(mesh, rank, axis);
        least = ff_min(least, at);
        most = ff_max(most, at);
    }
    ff_text_printf(text, "  %s %lld", ff_axis_name(axis), (long long)least);
    if (most > least)
        ff_text_printf(text, "-%lld", (long long)most);
}

static void draw_node(const ff_explained *e, const ff_mesh *mesh, int64_t node, ff_text *text) {
    static const ff_axis axes[] = {FF_AXIS_CP, FF_AXIS_DP, FF_AXIS_PP, FF_AXIS_EP, FF_AXIS_EDP};
    int64_t per_node = e->job->cluster.devices_per_node, first = node * per_node;
    int width = snprintf(NULL, 0, "%lld", (long long)(mesh->world - 1));
    ff_text_printf(text, "node %-4lld ", (long long)node);
    for (int64_t rank = first; rank < first + per_node; rank++) {
        bool opens = ff_mesh_coordinate(mesh, rank, FF_AXIS_TP) == 0;
        if (rank == first)
            ff_text_append(text, "[");
        else
            ff_text_append(text, !opens ? " " : e->layout.tp > 1 ? "][" : "|");
        ff_text_printf(text, "%*lld", width, (long long)rank);
    }
    ff_text_append(text, "] ");
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        bool expert = axes[i] == FF_AXIS_EP || axes[i] == FF_AXIS_EDP;
        if (!expert || e->layout.ep > 1)
            axis_range(mesh, axes[i], first, per_node, text);
    }
    ff_text_append(text, "\n");
}

static void draw(const ff_explained *e, const ff_mesh *mesh, ff_facts *facts) {
    ff_text text = {0};
    int64_t nodes = e->job->cluster.nodes;
    for (int64_t node = 0; node < nodes && node < MOST_NODES; node++)
        draw_node(e, mesh, node, &text);
    if (nodes > MOST_NODES)
        ff_text_printf(&text, "... and %lld nodes more\n", (long long)(nodes - MOST_NODES));
    ff_document_draw(facts, ff_text_bytes(&text));
    ff_text_free(&text);
    ff_document_say(facts, "Numbers are ranks, one a device%s",
                    e->layout.tp > 1 ? "; brackets hold the ranks of one TP group." : ".");
}

static void member_list(const ff_mesh *mesh, ff_axes axes, ff_arena *arena, ff_text *text) {
    int64_t size = ff_mesh_group_size(mesh, axes);
    int64_t *members = FF_ARENA_ARRAY(arena, size, int64_t);
    ff_mesh_group(mesh, axes, 0, members);
    for (int64_t i = 0; i < size && i < MOST_MEMBERS; i++)
        ff_text_printf(text, "%s%lld", i == 0 ? "" : " ", (long long)members[i]);
    if (size > MOST_MEMBERS)
        ff_text_append(text, " ...");
}

static void group_row(const ff_explained *e, const ff_mesh *mesh, const char *name, ff_axes axes,
                      const ff_reach *reach, ff_facts *facts) {
    char link[128];
    ff_text members = {0};
    if (reach->ranks <= 1)
        return;
    ff_span nodes = ff_mesh_span(mesh, axes, e->job->cluster.devices_per_node);
    member_list(mesh, axes, e->arena, &members);
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "group", "%s", name);
    ff_facts_add_integer(facts, "ranks", reach->ranks);
    ff_facts_add_integer(facts, "inside", nodes.inside);
    ff_facts_add_integer(facts, "nodes", nodes.units);
    ff_facts_add_text(facts, "link", "%s", ff_reach_words(e, reach, link, sizeof link));
    ff_facts_add_text(facts, "members", "%s", ff_text_bytes(&members));
    ff_facts_close(facts);
    ff_text_free(&members);
}

static void group_table(const ff_explained *e, const ff_mesh *mesh, ff_facts *facts) {
    static const ff_column columns[] = {
        {"group", "group"}, {"ranks", "ranks"},       {"inside", "in a node"},
        {"nodes", "nodes"}, {"link", "slowest link"}, {"members", "the first one's ranks"},
        {NULL, NULL}};
    const ff_reaches *r = &e->reaches;
    ff_axes dp = FF_AXES(FF_AXIS_DP), cp = FF_AXES(FF_AXIS_CP);
    ff_document_section(facts, "Groups");
    ff_document_table(facts, columns);
    group_row(e, mesh, "tp", FF_AXES(FF_AXIS_TP), &r->tp, facts);
    group_row(e, mesh, "cp", cp, &r->cp, facts);
    group_row(e, mesh, "dp x cp", dp | cp, &r->dp_cp, facts);
    group_row(e, mesh, "pp", FF_AXES(FF_AXIS_PP), &r->pp, facts);
    if (e->layout.ep > 1) {
        group_row(e, mesh, "ep", FF_AXES(FF_AXIS_EP), &r->ep, facts);
        group_row(e, mesh, "etp", FF_AXES(FF_AXIS_ETP), &r->etp, facts);
        group_row(e, mesh, "edp", FF_AXES(FF_AXIS_EDP), &r->edp, facts);
    }
    ff_document_table_end(facts);
}

static void order_text(const ff_axis order[4], ff_text *text) {
    for (int i = 0; i < 4; i++)
        ff_text_printf(text, "%s%s", i == 0 ? "" : "-", ff_axis_name(order[i]));
}

void ff_explain_placement(const ff_explained *e, ff_facts *facts) {
    ff_mesh mesh;
    ff_text order = {0};
    if (ff_layout_mesh(&e->layout, NULL, &mesh) != FF_OK)
        return;
    order_text(e->layout.dense_order, &order);
    if (e->layout.ep > 1) {
        ff_text_append(&order, ", experts ");
        order_text(e->layout.expert_order, &order);
    }
    ff_document_open(facts, "placement: %s", e->job->cluster.name);
    ff_document_section(facts, "%s", "");
    ff_document_item(facts, "order", "%s, from neighbouring ranks outward", ff_text_bytes(&order));
    ff_text_free(&order);
    if (e->job->cluster.domain_devices != e->job->cluster.devices_per_node)
        ff_document_item(facts, "domain", "%lld devices, %lld nodes",
                         (long long)e->job->cluster.domain_devices,
                         (long long)(e->job->cluster.domain_devices /
                                     ff_max(1, e->job->cluster.devices_per_node)));
    draw(e, &mesh, facts);
    group_table(e, &mesh, facts);
    ff_document_close(facts);
}
