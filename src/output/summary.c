/* See summary.h. Each line is left out when its facts are. */
#include "output/summary.h"

#include "base/units.h"
#include <math.h>
#include <string.h>

enum { INDENT = 2 };

static void line(ff_text *out, const char *label, ff_text *text, const ff_look *look) {
    if (text->length > 0)
        ff_item(out, INDENT, label, FF_SUMMARY_LABEL, ff_text_bytes(text), look);
    ff_text_free(text);
}

static bool has(const ff_fact *root, const char *path) {
    const ff_fact *f = ff_fact_find(root, path);
    return f != NULL && f->kind != FF_FACT_NULL;
}

static void append_count(ff_text *text, const char *before, double value, int digits,
                         const char *after) {
    char number[FF_VALUE_BYTES];
    ff_text_printf(text, "%s%s%s", before, ff_format_count(value, digits, number, sizeof number),
                   after);
}

static void print_model(ff_text *out, const ff_fact *root, const ff_look *look) {
    ff_text text = {0};
    const char *name = ff_fact_text(root, has(root, "model.name") ? "model.name" : "inputs.model");
    if (name[0] == '\0')
        return;
    ff_text_append(&text, name);
    if (has(root, "taken_for.model"))
        ff_text_printf(&text, " (%s)", ff_fact_text(root, "taken_for.model"));
    double total = ff_fact_real(root, "model.params_total");
    double active = ff_fact_real(root, "model.params_active");
    if (total > 0.0)
        append_count(&text, ": ", total, 4, " parameters");
    if (active > 0.0 && active < total)
        append_count(&text, " (", active, 3, " active)");
    if (has(root, "model.layers"))
        append_count(&text, ", ", ff_fact_real(root, "model.layers"), 3, " layers");
    line(out, "model", &text, look);
}

static void append_tiers(ff_text *text, const ff_fact *tiers) {
    const char *separator = "; ";
    for (const ff_fact *t = tiers->first; t != NULL; t = t->next) {
        double rate = ff_fact_real(t, "Bps");
        if (rate <= 0.0 || strcmp(ff_fact_text(t, "tier"), "spine") == 0)
            continue;
        char number[FF_VALUE_BYTES];
        bool assumed = ff_fact_boolean(t, "assumed");
        ff_text_printf(text, "%s%s %s%s", separator, ff_fact_text(t, "name"),
                       ff_format_number("Bps", rate, number, sizeof number),
                       assumed ? " (assumed)" : "");
        separator = ", ";
    }
    if (separator[0] == ',')
        ff_text_append(text, " a device");
}

static void print_cluster(ff_text *out, const ff_fact *root, const ff_look *look) {
    ff_text text = {0};
    if (!has(root, "cluster.devices")) {
        ff_text_append(&text, ff_fact_text(root, "inputs.cluster"));
        line(out, "cluster", &text, look);
        return;
    }
    const char *device = ff_fact_text(root, "cluster.device.name");
    append_count(&text, "", ff_fact_real(root, "cluster.devices"), 3, " x ");
    ff_text_append(&text, device[0] != '\0' ? device : ff_fact_text(root, "cluster.device.id"));
    int64_t nodes = ff_fact_integer(root, "cluster.nodes");
    if (nodes > 0)
        append_count(&text, ", ", (double)nodes, 3, nodes == 1 ? " node" : " nodes");
    const ff_fact *tiers = ff_fact_find(root, "cluster.tiers");
    if (tiers != NULL)
        append_tiers(&text, tiers);
    line(out, "cluster", &text, look);
}

static void print_batch(ff_text *out, const ff_fact *root, const ff_look *look) {
    ff_text text = {0};
    double batch = ff_fact_real(root, "inputs.gbs_tokens"),
           seq = ff_fact_real(root, "inputs.seq_tokens");
    if (batch > 0.0)
        append_count(&text, "", batch, 3, batch == 1.0 ? " token" : " tokens");
    if (batch > 0.0 && seq > 0.0)
        append_count(&text, ", ", ceil(batch / seq), 3, batch > seq ? " sequences" : " sequence");
    if (seq > 0.0) {
        char number[FF_VALUE_BYTES];
        ff_text_printf(&text, "%s%s%s", batch > 0.0 ? " of " : "sequences of ",
                       ff_format_integer((int64_t)seq, number, sizeof number),
                       batch > 0.0 ? "" : " tokens");
    }
    line(out, "batch", &text, look);
}

static void print_profile(ff_text *out, const ff_fact *root, const ff_look *look) {
    ff_text text = {0};
    const char *profile = ff_fact_text(root, "inputs.profile");
    const char *recipe = ff_fact_text(root, "inputs.recipe");
    const char *ledger = ff_fact_text(root, "inputs.ledger");
    ff_text_append(&text, profile);
    if (recipe[0] != '\0')
        ff_text_printf(&text, "%srecipe %s", text.length > 0 ? ", " : "", recipe);
    if (ledger[0] != '\0' && strcmp(ledger, "full") != 0)
        ff_text_printf(&text, "%s%s ledger", text.length > 0 ? ", " : "", ledger);
    line(out, "profile", &text, look);
}

static void print_search(ff_text *out, const ff_fact *root, const ff_look *look) {
    static const struct {
        const char *path, *words;
    } parts[] = {{"search.illegal", "illegal"},
                 {"search.pruned", "pruned"},
                 {"search.too_big", "too big"},
                 {"search.estimated", "priced"}};
    if (!has(root, "search.considered"))
        return;
    ff_text text = {0};
    char number[FF_VALUE_BYTES];
    ff_text_printf(
        &text, "%s layouts",
        ff_format_integer(ff_fact_integer(root, "search.considered"), number, sizeof number));
    if (has(root, "search.elapsed_s"))
        ff_text_printf(
            &text, " in %s",
            ff_format_seconds(ff_fact_real(root, "search.elapsed_s"), number, sizeof number));
    const char *separator = ": ";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int64_t count = ff_fact_integer(root, parts[i].path);
        if (count == 0)
            continue;
        ff_text_printf(&text, "%s%s %s", separator, ff_format_integer(count, number, sizeof number),
                       parts[i].words);
        separator = ", ";
    }
    line(out, "searched", &text, look);
}

/* What was run before it was ranked, and what came of it. */
static void print_simulated(ff_text *out, const ff_fact *root, const ff_look *look) {
    if (!has(root, "search.simulated"))
        return;
    ff_text text = {0};
    char bound[FF_VALUE_BYTES];
    int64_t layouts = ff_fact_integer(root, "search.simulated.layouts");
    int64_t first_was = ff_fact_integer(root, "search.simulated.first_was");
    int64_t changed = ff_fact_integer(root, "search.simulated.stages_changed");
    ff_text_printf(&text, "the best %lld, action by action", (long long)layouts);
    if (ff_fact_boolean(root, "search.simulated.capped"))
        ff_text_printf(&text, " (by formula, more come within %s)",
                       ff_format_percent(ff_fact_real(root, "search.simulated.bound_ratio"), bound,
                                         sizeof bound));
    if (!ff_fact_boolean(root, "search.simulated.order_changed"))
        ff_text_append(&text, ": the order stays");
    else if (first_was == 1)
        ff_text_append(&text, ": the order changed, not the first");
    else
        ff_text_printf(&text, ": the order changed, 1 was %lld by formula", (long long)first_was);
    if (changed > 0)
        ff_text_printf(&text, "; %lld gain%s by uneven stages", (long long)changed,
                       changed == 1 ? "s" : "");
    line(out, "ran", &text, look);
}

void ff_print_summary(ff_text *out, const ff_fact *root, const ff_look *look) {
    print_model(out, root, look);
    print_cluster(out, root, look);
    print_batch(out, root, look);
    print_profile(out, root, look);
    print_search(out, root, look);
    print_simulated(out, root, look);
}
