/* A device from named figures. One table says which key sets which member, in which unit and range;
 * reading, the list of known keys and the overrides of a cluster file all come from it.
 *
 * Three sources of a figure: the user's map, the entry named by `like`, the library's bare device
 * (`bare: true`). A map without `like` must say memory, its bandwidth and a 16-bit rate; the rest
 * is taken from the bare device and said to be assumed:
 *   - fp16 equals bf16 and the other way round; tf32 and fp32 keep the bare device's ratio to them;
 *   - fp8 and fp4 that are not given do not exist;
 *   - the usable link is the bare device's share of the wire rate. */
#include "cluster/parts.h"

#include "base/number.h"
#include "base/text.h"
#include <stddef.h>
#include <string.h>

typedef enum key_kind { KEY_REAL, KEY_BYTES, KEY_COUNT, KEY_SWITCH, KEY_TEXT, KEY_NOTE } key_kind;

typedef struct device_key {
    const char *name;
    key_kind kind;
    bool link;     /* may also stand at the root of a cluster file */
    size_t offset; /* of the member; KEY_NOTE has none: it is there for the reader */
    double unit;   /* of the key in the member's unit; KEY_TEXT: room of the member */
    double least, most;
} device_key;

#define AT(member) offsetof(ff_device, member)
#define ROOM(member) (double)sizeof(((ff_device *)0)->member)

static const device_key keys[] = {
    {"name", KEY_TEXT, false, AT(name), ROOM(name), 0, 0},
    {"generation", KEY_TEXT, false, AT(generation), ROOM(generation), 0, 0},
    {"memory_bytes", KEY_BYTES, false, AT(memory_bytes), 1, 1 << 20, 1125899906842624.0},
    {"memory_GiB", KEY_BYTES, false, AT(memory_bytes), 1 << 30, 0.001, 1 << 20},
    {"memory_GBps", KEY_REAL, false, AT(memory_Bps), 1e9, 0.001, 1e6},
    {"fp32_tflops", KEY_REAL, false, AT(fp32_flops), 1e12, 0, 1e6},
    {"tf32_tflops", KEY_REAL, false, AT(tf32_flops), 1e12, 0, 1e6},
    {"fp16_tflops", KEY_REAL, false, AT(fp16_flops), 1e12, 0, 1e6},
    {"bf16_tflops", KEY_REAL, false, AT(bf16_flops), 1e12, 0, 1e6},
    {"fp8_tflops", KEY_REAL, false, AT(fp8_flops), 1e12, 0, 1e6},
    {"fp4_tflops", KEY_REAL, false, AT(fp4_flops), 1e12, 0, 1e6},
    {"processors", KEY_COUNT, false, AT(processors), 1, 0, 1 << 20},
    {"power_W", KEY_REAL, false, AT(power_W), 1, 0, 1e6},
    {"link", KEY_TEXT, true, AT(link), ROOM(link), 0, 0},
    {"link_wire_GBps", KEY_REAL, true, AT(link_wire_Bps), 1e9, 0.001, 1e6},
    {"link_GBps", KEY_REAL, true, AT(link_Bps), 1e9, 0.001, 1e6},
    {"link_latency_us", KEY_REAL, true, AT(link_latency_s), 1e-6, 0, 1e6},
    {"link_switch", KEY_SWITCH, true, AT(link_switch), 0, 0, 0},
    {"in_switch_reduction", KEY_SWITCH, true, AT(in_switch_reduction), 0, 0, 0},
    {"domain_devices", KEY_COUNT, false, AT(domain_devices), 1, 1, 1 << 20},
    {"node_devices", KEY_COUNT, false, AT(node_devices), 1, 1, 1 << 20},
    {"like", KEY_NOTE, false, 0, 0, 0, 0},
    {"aliases", KEY_NOTE, false, 0, 0, 0, 0},
    {"bare", KEY_NOTE, false, 0, 0, 0, 0},
    {"memory_basis", KEY_NOTE, false, 0, 0, 0, 0},
    {"clock_MHz", KEY_NOTE, false, 0, 0, 0, 0},
    {"tensor_clock_MHz", KEY_NOTE, false, 0, 0, 0, 0},
    {"flop_per_clock", KEY_NOTE, false, 0, 0, 0, 0},
    {"l2_MB", KEY_NOTE, false, 0, 0, 0, 0},
    {"link_basis", KEY_NOTE, false, 0, 0, 0, 0},
    {"latency_basis", KEY_NOTE, false, 0, 0, 0, 0},
    {"status", KEY_NOTE, false, 0, 0, 0, 0},
    {"recalled", KEY_NOTE, false, 0, 0, 0, 0},
    {"source", KEY_NOTE, false, 0, 0, 0, 0},
    {"remarks", KEY_NOTE, false, 0, 0, 0, 0},
};
enum { KEYS = sizeof keys / sizeof *keys };

const char *device_link_key(int index) {
    for (int i = 0; i < KEYS; i++)
        if (keys[i].link && index-- == 0)
            return keys[i].name;
    return NULL;
}

static void apply_key(const ff_field *map, const device_key *key, ff_diagnostics *findings,
                      ff_device *device) {
    void *member = (char *)device + key->offset;
    double real;
    const char *text;
    switch (key->kind) {
    case KEY_REAL:
        if (ff_field_get_real(map, key->name, key->least, key->most, findings, &real))
            *(double *)member = real * key->unit;
        break;
    case KEY_BYTES:
        if (ff_field_get_real(map, key->name, key->least, key->most, findings, &real))
            *(int64_t *)member = (int64_t)(real * key->unit);
        break;
    case KEY_COUNT:
        ff_field_get_integer(map, key->name, (int64_t)key->least, (int64_t)key->most, findings,
                             member);
        break;
    case KEY_SWITCH:
        ff_field_get_boolean(map, key->name, findings, member);
        break;
    case KEY_TEXT:
        if (ff_field_get_text(map, key->name, findings, &text))
            ff_copy_text(member, (size_t)key->unit, text);
        break;
    case KEY_NOTE:
        break;
    }
}

void device_apply(const ff_field *map, bool link_only, ff_diagnostics *findings,
                  ff_device *device) {
    for (int i = 0; i < KEYS; i++)
        if (!link_only || keys[i].link)
            apply_key(map, &keys[i], findings, device);
}

static bool given(const ff_field *map, const char *name) {
    const ff_field *field = ff_field_find(map, name);
    return field != NULL && field->kind != FF_FIELD_NULL;
}

void device_check(const ff_field *map, ff_diagnostics *findings, const ff_device *device) {
    if (given(map, "memory_bytes") && given(map, "memory_GiB")) {
        ff_report(findings, FF0306, ff_field_find(map, "memory_GiB")->where,
                  "memory is given twice, as memory_bytes and as memory_GiB");
        ff_report_help(findings, "keep one of them");
    }
    bool rated = given(map, "bf16_tflops") || given(map, "fp16_tflops");
    if (rated && device->bf16_flops <= 0 && device->fp16_flops <= 0) {
        const ff_field *rate = ff_field_find(map, "bf16_tflops");
        rate = rate == NULL ? ff_field_find(map, "fp16_tflops") : rate;
        ff_report(findings, FF0306, rate->where, "a device of 0 FLOP/s in 16 bits trains nothing");
        ff_report_help(findings, "give bf16_tflops or fp16_tflops, dense");
    }
    if (device->link_Bps > device->link_wire_Bps) {
        const ff_field *usable = ff_field_find(map, "link_GBps");
        ff_report(findings, FF0306, usable == NULL ? map->where : usable->where,
                  "link_GBps %g, what messages reach, is above link_wire_GBps %g, what the wire "
                  "carries",
                  device->link_Bps / 1e9, device->link_wire_Bps / 1e9);
        ff_report_help(findings, "both are of one device in one direction; vendors often print "
                                 "the sum of both directions");
    }
}

static void report_unknown_keys(const ff_field *map, ff_diagnostics *findings) {
    const char *known[KEYS + 1] = {0};
    for (int i = 0; i < KEYS; i++)
        known[i] = keys[i].name;
    ff_field_report_unknown(map, known, findings);
}

static void report_missing_figures(const ff_field *map, ff_diagnostics *findings) {
    if (!given(map, "memory_bytes") && !given(map, "memory_GiB"))
        ff_field_report_missing(map, "memory_bytes", findings);
    if (!given(map, "memory_GBps"))
        ff_field_report_missing(map, "memory_GBps", findings);
    if (!given(map, "bf16_tflops") && !given(map, "fp16_tflops"))
        ff_field_report_missing(map, "bf16_tflops", findings);
}

static ff_status read_entry(const ff_field *map, const char *id, ff_diagnostics *findings,
                            ff_device *out) {
    *out = (ff_device){.domain_devices = 8, .node_devices = 8};
    ff_copy_text(out->id, sizeof out->id, id);
    ff_copy_text(out->name, sizeof out->name, id);
    ff_copy_text(out->link, sizeof out->link, "link");
    if (map->kind != FF_FIELD_MAP) {
        ff_report(findings, FF0108, map->where, "a device is a map of figures, not %s",
                  ff_field_kind_name(map->kind));
        return FF_INVALID;
    }
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    report_unknown_keys(map, findings);
    report_missing_figures(map, findings);
    if (!given(map, "link_GBps"))
        ff_field_report_missing(map, "link_GBps", findings);
    if (!given(map, "link_wire_GBps"))
        ff_field_report_missing(map, "link_wire_GBps", findings);
    device_apply(map, false, findings, out);
    device_check(map, findings, out);
    return ff_diagnostics_count_of(findings, FF_ERROR) > errors ? FF_INVALID : FF_OK;
}

/* The status rests on the findings, so there has to be a list even when the caller wants none. */
ff_status ff_device_from_fields(const ff_field *map, const char *id, ff_diagnostics *findings,
                                ff_device *out) {
    ff_diagnostics *own = findings == NULL ? ff_diagnostics_create() : NULL;
    ff_status status = read_entry(map, id, own == NULL ? findings : own, out);
    ff_diagnostics_free(own);
    return status;
}

/* The figures that a bare description may leave out, as its note lists them. */
static void list_assumed(const ff_field *map, const ff_device *device, ff_text *list) {
    static const struct {
        const char *key, *other, *label, *unit;
        size_t offset;
        double scale;
    } rows[] = {
        {"memory_GBps", NULL, "memory bandwidth", "GB/s", AT(memory_Bps), 1e9},
        {"bf16_tflops", "fp16_tflops", "bf16", "TFLOPS", AT(bf16_flops), 1e12},
        {"link_wire_GBps", "link_GBps", "link", "GB/s", AT(link_wire_Bps), 1e9},
        {"link_GBps", NULL, "usable link", "GB/s", AT(link_Bps), 1e9},
        {"link_latency_us", NULL, "link latency", "us", AT(link_latency_s), 1e-6},
    };
    if (!given(map, "memory_bytes") && !given(map, "memory_GiB"))
        ff_text_printf(list, "memory %.1f GiB", (double)device->memory_bytes / (1 << 30));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (given(map, rows[i].key) || (rows[i].other != NULL && given(map, rows[i].other)))
            continue;
        double value = *(const double *)(const void *)((const char *)device + rows[i].offset);
        ff_text_printf(list, "%s%s %.4g %s", list->length > 0 ? ", " : "", rows[i].label,
                       value / rows[i].scale, rows[i].unit);
    }
}

static void complete_rates(const ff_field *map, const ff_device *base, ff_device *device) {
    bool bf16 = given(map, "bf16_tflops"), fp16 = given(map, "fp16_tflops");
    if (!bf16 && !fp16)
        return;
    if (!fp16)
        device->fp16_flops = device->bf16_flops;
    if (!bf16)
        device->bf16_flops = device->fp16_flops;
    double ratio = device->fp16_flops / base->fp16_flops;
    if (!given(map, "tf32_tflops"))
        device->tf32_flops = base->tf32_flops * ratio;
    if (!given(map, "fp32_tflops"))
        device->fp32_flops = base->fp32_flops * ratio;
    if (!given(map, "fp8_tflops"))
        device->fp8_flops = 0;
    if (!given(map, "fp4_tflops"))
        device->fp4_flops = 0;
}

static void complete_link(const ff_field *map, const ff_device *base, ff_device *device) {
    double share = base->link_Bps / base->link_wire_Bps;
    if (given(map, "link_wire_GBps") && !given(map, "link_GBps"))
        device->link_Bps = device->link_wire_Bps * share;
    if (given(map, "link_GBps") && !given(map, "link_wire_GBps"))
        device->link_wire_Bps = device->link_Bps / share;
}

void device_complete(const ff_field *map, const ff_device *base, ff_diagnostics *findings,
                     ff_device *device) {
    complete_rates(map, base, device);
    complete_link(map, base, device);
    ff_text assumed = {0};
    list_assumed(map, device, &assumed);
    if (assumed.length > 0)
        ff_report(findings, FF0409, map->where,
                  "the device's description leaves out, so assumed: %s", ff_text_bytes(&assumed));
    ff_text_free(&assumed);
}

static bool named_device(const char *name, ff_place where, const ff_cluster_library *library,
                         ff_diagnostics *findings, ff_device *device) {
    const ff_field *entry = library_find(library->devices, name, findings);
    if (entry != NULL)
        return ff_device_from_fields(entry, entry->name, findings, device) == FF_OK;
    ff_report(findings, FF0302, where, "unknown device \"%.60s\"", name);
    library_suggest(&library->devices, 1, name, "devices", findings);
    return false;
}

static const ff_field *bare_entry(const ff_cluster_library *library) {
    const ff_field *entry = library->devices == NULL ? NULL : library->devices->first;
    for (; entry != NULL; entry = entry->next) {
        const ff_field *bare = ff_field_find(entry, "bare");
        if (bare != NULL && bare->boolean)
            return entry;
    }
    return NULL;
}

bool device_from_figures(const ff_field *map, const ff_cluster_library *library,
                         ff_diagnostics *findings, ff_device *device) {
    const ff_field *bare = bare_entry(library);
    ff_device base;
    if (bare == NULL || ff_device_from_fields(bare, bare->name, findings, &base) != FF_OK) {
        ff_report(findings, FF0302, map->where, "the library has no bare device to start from");
        return false;
    }
    *device = base;
    device_apply(map, false, findings, device);
    device_complete(map, &base, findings, device);
    device_check(map, findings, device);
    return true;
}

static bool device_from_map(const ff_field *map, const ff_cluster_library *library,
                            ff_diagnostics *findings, ff_device *device) {
    int errors = ff_diagnostics_count_of(findings, FF_ERROR);
    report_unknown_keys(map, findings);
    const char *like;
    if (ff_field_get_text(map, "like", findings, &like)) {
        ff_device base;
        ff_place where = ff_field_find(map, "like")->where;
        if (!named_device(like, where, library, findings, &base))
            return false;
        *device = base;
        device_apply(map, false, findings, device);
        complete_link(map, &base, device);
        device_check(map, findings, device);
    } else {
        report_missing_figures(map, findings);
        if (ff_diagnostics_count_of(findings, FF_ERROR) == errors)
            device_from_figures(map, library, findings, device);
    }
    return ff_diagnostics_count_of(findings, FF_ERROR) == errors;
}

bool device_read(const ff_field *value, const ff_cluster_library *library, ff_diagnostics *findings,
                 ff_device *device) {
    if (value->kind == FF_FIELD_TEXT)
        return named_device(value->text, value->where, library, findings, device);
    if (value->kind == FF_FIELD_MAP)
        return device_from_map(value, library, findings, device);
    ff_report(findings, FF0108, value->where,
              "\"device\" must be the id of a device or a map, not %s",
              ff_field_kind_name(value->kind));
    return false;
}
