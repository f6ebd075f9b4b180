/* The short form of a cluster, one word on the command line.
 *
 *     16x8xh100-80gb-sxm      nodes x devices a node x device (id or alias)
 *     16xdgx-h100             nodes x reference system
 *     gb200-nvl72             a reference system in its usual size
 *     4x8x(mem=40GiB,flops=312T,bw=1555G,link=300G,net=25G)     a bare device by its figures
 *
 * Counts come first, each ended by an 'x'; what follows is a name, or figures in parentheses.
 * Figures are of one device: bytes, dense 16-bit FLOP/s, bytes/s one way. They are turned into the
 * same fields that a file has, and take the same path. */
#include "cluster/parts.h"

#include "base/number.h"
#include "base/text.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COUNTS = 2, MOST_FIGURES = 16, WORD_BYTES = 64 };

typedef struct short_form {
    int counts;
    int64_t count[MOST_COUNTS];
    const char *rest;
} short_form;

static bool all_digits(const char *word) {
    return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

static bool read_count(const char *word, ff_diagnostics *findings, int64_t *count) {
    double real;
    if (ff_parse_count(word, count))
        return true;
    if (all_digits(word)) {
        ff_report(findings, FF0304, FF_NOWHERE, "%s is more than any cluster has", word);
        return false;
    }
    if (ff_parse_real(word, &real)) {
        ff_report(findings, FF0303, FF_NOWHERE, "%s is no number of nodes or devices", word);
        double nearest = fmax(1, fmin(round(real), 1 << 20));
        ff_report_help(findings, "a whole number of at least 1; nearest: %.0f", nearest);
        return false;
    }
    ff_report(findings, FF0303, FF_NOWHERE, "\"%s\" is not a number", word);
    ff_report_help(findings, "write nodes x devices x device: 16x8xh100-80gb-sxm");
    return false;
}

/* Takes the counts off the front. A part is one when it begins like a number and ends in 'x'. */
static bool split(const char *text, ff_diagnostics *findings, short_form *form) {
    *form = (short_form){.rest = text};
    for (;;) {
        size_t length = strcspn(form->rest, "xX");
        char first = form->rest[0], word[WORD_BYTES];
        if (form->rest[length] == '\0' || !(isdigit((unsigned char)first) || strchr("+-.", first)))
            return true;
        if (form->counts == MOST_COUNTS) {
            ff_report(findings, FF0303, FF_NOWHERE, "\"%.60s\" has more than two counts", text);
            ff_report_help(findings, "write nodes x devices x device: 16x8xh100-80gb-sxm");
            return false;
        }
        snprintf(word, sizeof word, "%.*s", (int)(length < WORD_BYTES ? length : WORD_BYTES - 1),
                 form->rest);
        if (!read_count(word, findings, &form->count[form->counts++]))
            return false;
        form->rest += length + 1;
    }
}

/* Figures of a bare device: the short word, the field it stands for, the unit of that field, and
 * the range in the user's own units. A figure that may be 0 says that the device lacks the format.
 */
static const struct figure {
    const char *word, *field;
    double unit;
    bool network;
    const char *least, *most, *unit_name;
} figures[] = {
    {"mem", "memory_bytes", 1, false, "1Mi", "1024Ti", "bytes"},
    {"bw", "memory_GBps", 1e9, false, "1M", "1000T", "bytes/s"},
    {"flops", "bf16_tflops", 1e12, false, "1M", "1000000T", "FLOP/s"},
    {"fp8", "fp8_tflops", 1e12, false, "0", "1000000T", "FLOP/s"},
    {"fp4", "fp4_tflops", 1e12, false, "0", "1000000T", "FLOP/s"},
    {"fp32", "fp32_tflops", 1e12, false, "1M", "1000000T", "FLOP/s"},
    {"link", "link_wire_GBps", 1e9, false, "1M", "1000T", "bytes/s"},
    {"domain", "domain_devices", 1, false, "1", "1Mi", "devices"},
    {"net", "nic_GBps", 1e9, true, "1M", "1000T", "bytes/s"},
};
enum { FIGURES = sizeof figures / sizeof *figures };
#define FIGURE_HELP "a number with k, M, G, T or Ki, Mi, Gi, Ti: mem=40GiB, bw=1555G"

/* "40GiB", "312T", "1.5TB/s", "312TFLOPS" -> a number; the unit itself is known from the word. */
static bool read_quantity(const char *text, double *value) {
    static const char *const units[] = {"FLOPS", "FLOP/s", "flops", "Bps", "B/s", "B"};
    char word[WORD_BYTES], factor_word[WORD_BYTES + 1];
    ff_copy_text(word, sizeof word, text);
    if (strlen(text) >= sizeof word)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(word), unit = strlen(units[i]);
        if (length > unit && strcmp(word + length - unit, units[i]) == 0) {
            word[length - unit] = '\0';
            break;
        }
    }
    size_t length = strlen(word), suffix = length;
    while (suffix > 0 && isalpha((unsigned char)word[suffix - 1]))
        suffix--;
    snprintf(factor_word, sizeof factor_word, "1%s", word + suffix);
    word[suffix] = '\0';
    int64_t factor;
    if (!ff_parse_count(factor_word, &factor) || !ff_parse_real(word, value))
        return false;
    *value *= (double)factor;
    return true;
}

/* The fields behind the figures have ranges too, but speak of other names and units. */
static bool check_range(const struct figure *figure, const char *text, double value,
                        ff_diagnostics *findings) {
    double least = 0, most = 0;
    read_quantity(figure->least, &least);
    read_quantity(figure->most, &most);
    if (value >= least && value <= most)
        return true;
    ff_report(findings, FF0109, FF_NOWHERE, "%s=%s is out of range: it must be from %s to %s %s",
              figure->word, text, figure->least, figure->most, figure->unit_name);
    ff_report_help(findings, FIGURE_HELP);
    return false;
}

typedef struct figure_list {
    char word[FIGURES][WORD_BYTES]; /* values as written, for messages */
    ff_field field[FIGURES];
    bool given[FIGURES];
} figure_list;

static int find_figure(const char *word, ff_diagnostics *findings) {
    const char *words[FIGURES];
    for (int i = 0; i < FIGURES; i++) {
        words[i] = figures[i].word;
        if (strcmp(word, words[i]) == 0)
            return i;
    }
    ff_report(findings, FF0107, FF_NOWHERE, "unknown figure \"%s\" of a bare device", word);
    int nearest = ff_nearest_word(word, words, FIGURES);
    if (nearest >= 0)
        ff_report_help(findings, "did you mean %s?", words[nearest]);
    else
        ff_report_help(findings, "known: mem, bw, flops, fp8, fp4, fp32, link, domain, net");
    return -1;
}

/* One "word=value" as the field that it stands for. */
static bool read_figure(char *pair, ff_diagnostics *findings, figure_list *list) {
    char *value_text = strchr(pair, '=');
    if (value_text == NULL) {
        ff_report(findings, FF0303, FF_NOWHERE, "\"%s\" is not of the form figure=value", pair);
        ff_report_help(findings, "for example (mem=40GiB,flops=312T)");
        return false;
    }
    *value_text++ = '\0';
    int i = find_figure(pair, findings);
    if (i < 0)
        return false;
    double value;
    if (list->given[i]) {
        ff_report(findings, FF0106, FF_NOWHERE, "%s is given twice", pair);
        return false;
    }
    if (!read_quantity(value_text, &value)) {
        ff_report(findings, FF0303, FF_NOWHERE, "%s=%s is not a quantity", pair, value_text);
        ff_report_help(findings, FIGURE_HELP);
        return false;
    }
    if (!check_range(&figures[i], value_text, value, findings))
        return false;
    ff_copy_text(list->word[i], WORD_BYTES, value_text);
    value /= figures[i].unit;
    list->given[i] = true;
    list->field[i] = (ff_field){.kind = FF_FIELD_NUMBER,
                                .name = figures[i].field,
                                .text = list->word[i],
                                .real = value,
                                .integer = value < 1e18 ? (int64_t)value : 0,
                                .is_integer = value < 1e18 && value == floor(value)};
    return true;
}

static bool read_figures(const char *text, ff_diagnostics *findings, figure_list *list) {
    const char *end = strchr(text, ')');
    if (end == NULL || end[1] != '\0') {
        ff_report(findings, FF0303, FF_NOWHERE, "\"%.60s\" does not end with its parenthesis",
                  text);
        ff_report_help(findings, "for example 4x8x(mem=40GiB,flops=312T)");
        return false;
    }
    for (const char *pair = text + 1; pair < end;) {
        size_t length = strcspn(pair, ",)");
        char word[2 * WORD_BYTES];
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1),
                 pair);
        if (!read_figure(word, findings, list))
            return false;
        pair += length + 1;
    }
    return true;
}

/* Links the figures that go to the device, or to the network, into a map. */
static ff_field map_of(figure_list *list, bool network) {
    ff_field map = {.kind = FF_FIELD_MAP, .text = ""};
    for (int i = FIGURES - 1; i >= 0; i--) {
        if (!list->given[i] || figures[i].network != network)
            continue;
        list->field[i].next = map.first;
        map.first = &list->field[i];
        map.count++;
    }
    return map;
}

static bool bare_cluster(const short_form *form, const ff_cluster_library *library,
                         ff_diagnostics *findings, cluster_parts *parts) {
    figure_list list = {0};
    if (!read_figures(form->rest, findings, &list))
        return false;
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    ff_field device = map_of(&list, false), network = map_of(&list, true);
    if (!device_from_figures(&device, library, findings, &parts->device))
        return false;
    parts->link_assumed = ff_field_find(&device, "link_wire_GBps") == NULL;
    if (ff_field_find(&device, "domain_devices") != NULL)
        parts->domain_devices = parts->device.domain_devices;
    parts->network_assumed = network.count == 0;
    parts->spine_assumed = true;
    if (parts->network_assumed)
        network_of_device(library, &parts->device, ff_max(1, parts->devices_per_node), findings,
                          &parts->network);
    else
        network_read(&network, library, &parts->device, ff_max(1, parts->devices_per_node),
                     findings, &parts->network);
    return ff_diagnostics_count_of(findings, FF_ERROR) == errors;
}

/* nodes x devices x device. */
static bool device_cluster(const short_form *form, const ff_field *entry,
                           const ff_cluster_library *library, ff_diagnostics *findings,
                           cluster_parts *parts) {
    if (form->counts < MOST_COUNTS) {
        ff_report(findings, FF0303, FF_NOWHERE, "%s is a device; a cluster also has nodes",
                  entry->name);
        ff_report_help(findings, "write nodes x devices x device: %lldx%lldx%s",
                       (long long)(form->counts == 1 ? form->count[0] : 1), 8LL, entry->name);
        return false;
    }
    parts->network_assumed = true;
    return ff_device_from_fields(entry, entry->name, findings, &parts->device) == FF_OK &&
           network_of_device(library, &parts->device, ff_max(1, parts->devices_per_node), findings,
                             &parts->network);
}

/* A rack's name counts nodes, not racks; whoever writes another number than whole racks is told. */
static void note_usual_size(const ff_field *entry, const cluster_parts *parts,
                            ff_diagnostics *findings) {
    int64_t usual = 1;
    if (!ff_field_get_integer(entry, "nodes", 1, FF_SATURATED, NULL, &usual) ||
        parts->nodes % usual == 0)
        return;
    ff_report(findings, FF0409, FF_NOWHERE, "%lldx%s is taken as %lld nodes of %lld devices",
              (long long)parts->nodes, entry->name, (long long)parts->nodes,
              (long long)parts->devices_per_node);
    ff_report_help(findings, "a whole one has %lld nodes: %lldx%s", (long long)usual,
                   (long long)usual, entry->name);
}

/* nodes x reference system; devices a node may be repeated. */
static bool reference_cluster(const short_form *form, const ff_field *entry,
                              const ff_cluster_library *library, ff_diagnostics *findings,
                              cluster_parts *parts) {
    int64_t nodes = 1, wanted = parts->devices_per_node;
    if (form->counts > 0)
        nodes = form->count[0];
    else
        ff_field_get_integer(entry, "nodes", 1, FF_SATURATED, findings, &nodes);
    if (!cluster_read(entry, library, ff_max(1, nodes), findings, parts))
        return false;
    parts->nodes = nodes;
    parts->domain_is_usual = true;
    parts->nodes_where = parts->node_size_where = parts->domain_where = FF_NOWHERE;
    parts->pod_where = FF_NOWHERE;
    if (form->counts == MOST_COUNTS && wanted != parts->devices_per_node) {
        ff_report(findings, FF0306, FF_NOWHERE, "a node of %s has %lld devices, not %lld",
                  entry->name, (long long)parts->devices_per_node, (long long)wanted);
        ff_report_help(findings, "write %lldx%s, or %lldx%lldx%s", (long long)nodes, entry->name,
                       (long long)nodes, (long long)wanted, parts->device.id);
        return false;
    }
    note_usual_size(entry, parts, findings);
    return true;
}

static void report_unknown(const short_form *form, const ff_cluster_library *library,
                           ff_diagnostics *findings) {
    const ff_field *both[] = {library->clusters, library->devices};
    if (form->rest[0] == '\0' || all_digits(form->rest)) {
        ff_report(findings, FF0303, FF_NOWHERE, "the cluster names no device");
        ff_report_help(findings, "write nodes x devices x device: 16x8xh100-80gb-sxm");
    } else if (form->counts == MOST_COUNTS) {
        ff_report(findings, FF0302, FF_NOWHERE, "unknown device \"%.60s\"", form->rest);
        library_suggest(&library->devices, 1, form->rest, "devices", findings);
    } else {
        ff_report(findings, FF0301, FF_NOWHERE, "unknown cluster \"%.60s\"", form->rest);
        library_suggest(both, 2, form->rest, "clusters", findings);
    }
}

/* The name as it would be written in full; it reads back as the same cluster. */
static void name_cluster(const char *text, const short_form *form, const char *id,
                         cluster_parts *parts) {
    if (id == NULL || form->counts == 0)
        ff_copy_text(parts->name, sizeof parts->name, id == NULL ? text : id);
    else if (form->counts == 1)
        snprintf(parts->name, sizeof parts->name, "%lldx%s", (long long)form->count[0], id);
    else
        snprintf(parts->name, sizeof parts->name, "%lldx%lldx%s", (long long)form->count[0],
                 (long long)form->count[1], id);
}

static bool read_parts(const char *text, const ff_cluster_library *library,
                       ff_diagnostics *findings, cluster_parts *parts) {
    short_form form;
    if (!split(text, findings, &form))
        return false;
    parts->nodes = form.counts > 0 ? form.count[0] : 1;
    parts->devices_per_node = form.counts > 1 ? form.count[1] : 0;
    if (form.rest[0] == '(' && form.counts == MOST_COUNTS) {
        name_cluster(text, &form, NULL, parts);
        return bare_cluster(&form, library, findings, parts);
    }
    const ff_field *system = library_find(library->clusters, form.rest, findings);
    const ff_field *entry =
        system == NULL ? library_find(library->devices, form.rest, findings) : system;
    if (entry == NULL) {
        report_unknown(&form, library, findings);
        return false;
    }
    bool read = system != NULL ? reference_cluster(&form, system, library, findings, parts)
                               : device_cluster(&form, entry, library, findings, parts);
    name_cluster(text, &form, entry->name, parts);
    return read;
}

ff_status ff_cluster_from_text(const char *text, const ff_cluster_library *library,
                               ff_diagnostics *findings, ff_cluster *cluster) {
    *cluster = (ff_cluster){0};
    ff_diagnostics *own = findings == NULL ? ff_diagnostics_create() : NULL;
    ff_diagnostics *list = own == NULL ? findings : own;
    cluster_parts parts = {0};
    ff_status status = FF_INVALID;
    if (read_parts(text, library, list, &parts)) {
        status = cluster_assemble(&parts, list, cluster);
        if (status == FF_OK && parts.network_assumed)
            report_assumed_network(&parts, list);
    }
    ff_diagnostics_free(own);
    return status;
}
