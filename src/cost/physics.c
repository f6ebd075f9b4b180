/* Curves from the data files: which entry serves a device, and the range of each constant. */
#include "cost/physics.h"

#include "base/fact.h"
#include "base/text.h"
#include "layout/recipe.h"
#include "presets/presets.h"
#include <stddef.h>
#include <string.h>

typedef struct figure {
    const char *key;
    size_t offset;
    double factor, least, most;
} figure;

#define AT(type, member) offsetof(type, member)

static const figure gemm_figures[] = {
    {"peak_ratio", AT(ff_gemm_curve, peak_ratio), 1, 0.05, 1.2},
    {"tile_256", AT(ff_gemm_curve, tile_256), 1, 0.1, 1.3},
    {"tile_128", AT(ff_gemm_curve, tile_128), 1, 0.1, 1},
    {"tile_128x64", AT(ff_gemm_curve, tile_128x64), 1, 0.1, 1},
    {"tile_64", AT(ff_gemm_curve, tile_64), 1, 0.1, 1},
    {"depth", AT(ff_gemm_curve, depth), 1, 0, 4096},
    {"wave_loss", AT(ff_gemm_curve, wave_loss), 1, 0, 1},
    {"split_passes", AT(ff_gemm_curve, split_passes), 1, 0, 10},
    {"fixed_us", AT(ff_gemm_curve, fixed_s), 1e-6, 0, 100},
    {"cast_bytes", AT(ff_gemm_curve, cast_bytes), 1, 0, 100},
    {"short_gain", AT(ff_gemm_curve, short_gain), 1, 0, 0.6},
    {"short_us", AT(ff_gemm_curve, short_s), 1e-6, 0, 1e6},
};

static const figure attention_figures[] = {
    {"ratio", AT(ff_attention_curve, ratio), 1, 0.01, 1.2},
    {"ratio_64", AT(ff_attention_curve, ratio_64), 1, 0.1, 1.2},
    {"ratio_wide", AT(ff_attention_curve, ratio_wide), 1, 0.1, 1.2},
    {"depth", AT(ff_attention_curve, depth), 1, 0, 8192},
    {"block_rows", AT(ff_attention_curve, block_rows), 1, 1, 4096},
    {"tail", AT(ff_attention_curve, tail), 1, 0, 2},
    {"long_loss", AT(ff_attention_curve, long_loss), 1, 0, 1},
    {"long_us", AT(ff_attention_curve, long_s), 1e-6, 1, 1e7},
};

static const figure collective_figures[] = {
    {"link_ratio", AT(ff_collective_curve, link_ratio), 1, 0.05, 2},
    {"group_loss", AT(ff_collective_curve, group_loss), 1, 0, 1.5},
    {"all_reduce_loss", AT(ff_collective_curve, all_reduce_loss), 1, 0, 1.5},
    {"crowding", AT(ff_collective_curve, crowding), 1, 0, 5},
    {"fixed_us", AT(ff_collective_curve, fixed_s), 1e-6, 0, 1000},
    {"chunk_us", AT(ff_collective_curve, chunk_s), 1e-6, 0, 1000},
    {"all_to_all_ratio", AT(ff_collective_curve, all_to_all_ratio), 1, 0.05, 2},
    {"all_to_all_loss", AT(ff_collective_curve, all_to_all_loss), 1, 0, 1.5},
    {"all_to_all_fixed_us", AT(ff_collective_curve, all_to_all_fixed_s), 1e-6, 0, 1000},
    {"send_fixed_us", AT(ff_collective_curve, send_fixed_s), 1e-6, 0, 1000},
    {"send_chunk_us", AT(ff_collective_curve, send_chunk_s), 1e-6, 0, 1000},
    {"in_switch_ratio", AT(ff_collective_curve, in_switch_ratio), 1, 0, 1.2},
    {"in_switch_fixed_us", AT(ff_collective_curve, in_switch_fixed_s), 1e-6, 0, 1000},
    {"in_switch_chunk_us", AT(ff_collective_curve, in_switch_chunk_s), 1e-6, 0, 1000},
    {"network_chunk_steps", AT(ff_collective_curve, network_chunk_steps), 1, 0, 1000},
};

static const figure pass_figures[] = {
    {"input_gradient_ratio", AT(ff_physics, input_gradient_ratio), 1, 0.3, 1.5},
    {"weight_gradient_ratio", AT(ff_physics, weight_gradient_ratio), 1, 0.3, 1.5},
    {"accumulate_ratio", AT(ff_physics, accumulate_ratio), 1, 0, 2},
    {"product_us", AT(ff_physics, product_s), 1e-6, 0, 100},
};

/* A generation's own figure, else the common one. */
static const figure plain_figures[] = {
    {"memory", AT(ff_physics, memory_ratio), 1, 0.01, 1},
    {"sustained", AT(ff_physics, sustained_ratio), 1, 0.01, 1},
    {"reference_power_W", AT(ff_physics, reference_power_W), 1, 0, 10000},
    {"flash_2", AT(ff_physics, flash_2_ratio), 1, 0.01, 1},
    {"straggling_share", AT(ff_physics, straggling_share), 1, 0, 1},
    {"flash_1", AT(ff_physics, flash_1_ratio), 1, 0.01, 1},
    {"training_cast_bytes", AT(ff_physics, training_cast_bytes), 1, 0, 32},
    {"misaligned_ratio", AT(ff_physics, misaligned_ratio), 1, 0.1, 1},
    {"ragged_ratio", AT(ff_physics, ragged_ratio), 1, 0.1, 1},
};

/* Shares of peak, for what no curve was fitted to. */
static const char *const gemm_shares[FF_DTYPE_COUNT] = {"gemm_fp32", "gemm_fp16", "gemm_bf16",
                                                        "gemm_fp8", "gemm_fp4"};
enum { FORWARD, BACKWARD, DIRECTIONS };
static const char *const attention_shares[DIRECTIONS] = {"attention_forward", "attention_backward"};

#define COUNT(table) ((int)(sizeof table / sizeof *table))
enum { MOST_KEYS = 24 };

/* What may stand beside the constants of an entry. */
static const char *const remarks[] = {"source", "fit", "forward_ratio"};

static void read_figures(const ff_field *map, const figure *table, int count,
                         ff_diagnostics *findings, void *out) {
    const char *known[MOST_KEYS] = {0};
    int keys = 0;
    for (int i = 0; i < count; i++) {
        double value;
        known[keys++] = table[i].key;
        if (ff_field_find(map, table[i].key) == NULL)
            ff_field_report_missing(map, table[i].key, findings);
        else if (ff_field_get_real(map, table[i].key, table[i].least, table[i].most, findings,
                                   &value))
            *(double *)((char *)out + table[i].offset) = value * table[i].factor;
    }
    for (int i = 0; i < COUNT(remarks); i++)
        known[keys++] = remarks[i];
    ff_field_report_unknown(map, known, findings);
}

/* ---- which entry ---- */

typedef struct entry {
    const ff_field *map;
    ff_basis_kind basis;
    const char *source;
} entry;

static const ff_field *child(const ff_field *map, const char *key) {
    return map == NULL || map->kind != FF_FIELD_MAP ? NULL : ff_field_find(map, key);
}

/* A device's part: a map, or the name of the device whose part serves. */
static entry part_of(const ff_field *devices, const char *id, const char *part,
                     ff_basis_kind basis) {
    const ff_field *map = child(child(devices, id), part);
    if (map != NULL && map->kind == FF_FIELD_TEXT) {
        id = map->text;
        map = child(child(devices, id), part);
        basis = FF_FITTED_GENERATION;
    }
    if (map == NULL || map->kind != FF_FIELD_MAP)
        return (entry){0};
    return (entry){map, basis, id};
}

/* The device's own part, else that of the device that stands for its generation, else the general
 * one. */
static entry entry_for(const ff_field *root, const ff_device *device, const char *part) {
    const ff_field *devices = child(root, "devices");
    entry e = part_of(devices, device->id, part, FF_FITTED_DEVICE);
    const ff_field *stands = child(child(root, "generations"), device->generation);
    if (e.map == NULL && stands != NULL)
        e = part_of(devices, stands->text, part, FF_FITTED_GENERATION);
    if (e.map == NULL)
        e = (entry){child(child(root, "general"), part), FF_ASSUMED_GENERAL, ""};
    return e;
}

/* The entries of physics.yaml that speak of a generation; the first that says something decides. */
typedef struct shares {
    const ff_field *map[3]; /* its own, common, other generations */
    const char *generation;
} shares;

static shares shares_of(const ff_field *root, const char *generation) {
    const ff_field *all = child(root, "generations");
    return (shares){{child(all, generation), child(root, "common"), child(all, "other")},
                    generation};
}

static void read_share(const shares *s, const figure *f, ff_diagnostics *findings, void *out) {
    for (int i = 0; i < 3; i++) {
        double value;
        if (child(s->map[i], f->key) == NULL)
            continue;
        if (ff_field_get_real(s->map[i], f->key, f->least, f->most, findings, &value))
            *(double *)((char *)out + f->offset) = value * f->factor;
        return;
    }
    ff_report(findings, FF0110, s->map[1]->where, "no \"%s\" for devices of generation \"%s\"",
              f->key, s->generation);
}

static void report_strangers(const ff_field *map, ff_diagnostics *findings) {
    const char *known[MOST_KEYS] = {"source"};
    int keys = 1;
    for (int i = 0; i < COUNT(plain_figures); i++)
        known[keys++] = plain_figures[i].key;
    for (int i = 0; i < FF_DTYPE_COUNT; i++)
        known[keys++] = gemm_shares[i];
    for (int i = 0; i < DIRECTIONS; i++)
        known[keys++] = attention_shares[i];
    ff_field_report_unknown(map, known, findings);
}

static void read_plain(const shares *s, ff_diagnostics *findings, ff_physics *physics) {
    for (int i = 0; i < COUNT(plain_figures); i++)
        read_share(s, &plain_figures[i], findings, physics);
    for (int i = 0; i < 3; i++)
        if (s->map[i] != NULL)
            report_strangers(s->map[i], findings);
}

static void report_no_part(const ff_field *root, const char *part, ff_diagnostics *findings) {
    ff_report(findings, FF0110, root->where, "no entry \"%s\" among the general ones", part);
}

/* ---- parts ---- */

static void read_gemm(const ff_physics_data *data, const shares *s, const ff_device *device,
                      ff_dtype dtype, ff_diagnostics *findings, ff_gemm_curve *curve) {
    const char *name = ff_dtype_name(dtype);
    entry e = entry_for(data->gemm, device, name);
    if (e.basis == FF_ASSUMED_GENERAL && dtype == FF_DTYPE_FP16) /* the same units as bf16 */
        e = entry_for(data->gemm, device, "bf16");
    if (e.basis == FF_ASSUMED_GENERAL)
        e.map = child(child(data->gemm, "general"), "any");
    if (e.map == NULL) {
        report_no_part(data->gemm, "any", findings);
        return;
    }
    read_figures(e.map, gemm_figures, COUNT(gemm_figures), findings, curve);
    if (e.basis == FF_ASSUMED_GENERAL)
        read_share(s, &(figure){gemm_shares[dtype], AT(ff_gemm_curve, peak_ratio), 1, 0.01, 1},
                   findings, curve);
    curve->basis = e.basis;
    ff_copy_text(curve->source, sizeof curve->source, e.source);
}

static void read_attention(const ff_physics_data *data, const shares *s, const ff_device *device,
                           const char *part, const char *share, ff_diagnostics *findings,
                           ff_attention_curve *curve) {
    entry e = entry_for(data->attention, device, part);
    if (e.map == NULL) {
        report_no_part(data->attention, part, findings);
        return;
    }
    read_figures(e.map, attention_figures, COUNT(attention_figures), findings, curve);
    if (e.basis == FF_ASSUMED_GENERAL)
        read_share(s, &(figure){share, AT(ff_attention_curve, ratio), 1, 0.01, 1}, findings, curve);
    curve->basis = e.basis;
    ff_copy_text(curve->source, sizeof curve->source, e.source);
}

static void read_collectives(const ff_physics_data *data, const ff_device *device,
                             ff_diagnostics *findings, ff_collective_curve *curve) {
    entry e = entry_for(data->collectives, device, "links");
    if (e.map == NULL) {
        report_no_part(data->collectives, "links", findings);
        return;
    }
    read_figures(e.map, collective_figures, COUNT(collective_figures), findings, curve);
    curve->basis = e.basis;
    ff_copy_text(curve->source, sizeof curve->source, e.source);
}

static void read_passes(const ff_physics_data *data, const ff_device *device,
                        ff_diagnostics *findings, ff_physics *physics) {
    entry e = entry_for(data->gemm, device, "passes");
    if (e.map == NULL)
        report_no_part(data->gemm, "passes", findings);
    else
        read_figures(e.map, pass_figures, COUNT(pass_figures), findings, physics);
}

ff_physics_data ff_physics_presets(void) {
    return (ff_physics_data){ff_preset_tree("physics"), ff_preset_tree("kernels/gemm"),
                             ff_preset_tree("kernels/attention"),
                             ff_preset_tree("kernels/collectives")};
}

ff_status ff_physics_of_device(const ff_physics_data *data, const ff_device *device,
                               ff_diagnostics *findings, ff_physics *physics) {
    int errors_before = ff_diagnostics_count_of(findings, FF_ERROR);
    *physics = (ff_physics){0};
    shares s = shares_of(data->shares, device->generation);
    if (s.map[1] == NULL || s.map[2] == NULL || data->gemm == NULL || data->attention == NULL ||
        data->collectives == NULL) {
        ff_place where = data->shares == NULL ? FF_NOWHERE : data->shares->where;
        ff_report(findings, FF0110, where, "the data of kernels and links is not complete");
        return FF_INVALID;
    }
    read_plain(&s, findings, physics);
    for (int dtype = 0; dtype < FF_DTYPE_COUNT; dtype++)
        read_gemm(data, &s, device, (ff_dtype)dtype, findings, &physics->gemm[dtype]);
    read_passes(data, device, findings, physics);
    read_attention(data, &s, device, "forward", attention_shares[FORWARD], findings,
                   &physics->attention_forward);
    read_attention(data, &s, device, "backward", attention_shares[BACKWARD], findings,
                   &physics->attention_backward);
    read_collectives(data, device, findings, &physics->collective);
    return ff_diagnostics_count_of(findings, FF_ERROR) > errors_before ? FF_INVALID : FF_OK;
}

/* ---- shown ---- */

static void add_basis(ff_facts *facts, ff_basis_kind basis, const char *source) {
    ff_facts_add_basis(facts, basis == FF_FITTED_DEVICE ? FF_BASIS_MEASURED : FF_BASIS_ASSUMED);
    if (basis == FF_ASSUMED_GENERAL)
        ff_facts_add_text(facts, "from", "general constants");
    else
        ff_facts_add_text(facts, "from", "%s", source);
}

void ff_physics_facts(const ff_physics *physics, ff_facts *facts) {
    ff_facts_add_real(facts, "memory_ratio", physics->memory_ratio);
    ff_facts_open_list(facts, "gemm");
    for (int dtype = 0; dtype < FF_DTYPE_COUNT; dtype++) {
        ff_facts_open_record(facts, NULL);
        ff_facts_add_text(facts, "dtype", "%s", ff_dtype_name((ff_dtype)dtype));
        ff_facts_add_real(facts, "peak_ratio", physics->gemm[dtype].peak_ratio);
        add_basis(facts, physics->gemm[dtype].basis, physics->gemm[dtype].source);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
    ff_facts_open_record(facts, "attention");
    ff_facts_add_real(facts, "forward_ratio", physics->attention_forward.ratio);
    ff_facts_add_real(facts, "backward_ratio", physics->attention_backward.ratio);
    add_basis(facts, physics->attention_forward.basis, physics->attention_forward.source);
    ff_facts_close(facts);
    ff_facts_open_record(facts, "collectives");
    ff_facts_add_real(facts, "link_ratio", physics->collective.link_ratio);
    add_basis(facts, physics->collective.basis, physics->collective.source);
    ff_facts_close(facts);
}
