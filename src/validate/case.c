/* See case.h. */
#include "validate/case.h"

#include "base/number.h"
#include "base/text.h"
#include "cluster/describe.h"
#include "fivefold/schedule.h"
#include "presets/presets.h"
#include "rules/rules.h"
#include "validate/shape.h"
#include "validate/split.h"
#include <string.h>

const char *ff_skip_reason(ff_skip skip) {
    static const char *const reasons[FF_SKIP_COUNT] = {
        [FF_SKIP_NONE] = "",
        [FF_SKIP_BY_RULE] = "see the row's own reason",
        [FF_SKIP_DEVICE] = "the device is not known",
        [FF_SKIP_SIZES] = "tp, pp, sequence, batch or device count is not stated",
        [FF_SKIP_SHAPE] = "the model's shape is not in the columns",
        [FF_SKIP_SCHEDULE] = "the pipeline schedule is not available",
        [FF_SKIP_ILLEGAL] = "the layout breaks a rule here",
        [FF_SKIP_NOTHING] = "nothing measured that can be scored",
    };
    return reasons[skip];
}

void ff_validate_library_init(ff_arena *arena, const ff_profile *forced,
                              ff_validate_library *library) {
    *library = (ff_validate_library){.arena = arena, .forced = forced};
    const ff_field *data = ff_preset_tree("validation");
    library->rules = data == NULL ? NULL : ff_field_find(data, "rules");
    library->preset_count = ff_validate_presets(arena, &library->presets);
}

/* ---- cluster and profile ---- */

static ff_field text_field(const char *name, const char *text, const ff_field *next) {
    return (ff_field){.kind = FF_FIELD_TEXT, .name = name, .text = text, .next = next};
}

static ff_field count_field(const char *name, int64_t value, const ff_field *next) {
    return (ff_field){.kind = FF_FIELD_NUMBER,
                      .name = name,
                      .text = "",
                      .is_integer = true,
                      .integer = value,
                      .real = (double)value,
                      .next = next};
}

static ff_status read_cluster(const ff_row *row, ff_cluster *cluster) {
    int64_t gpus = ff_row_integer(row, FF_ROW_gpus);
    int64_t node = ff_row_integer(row, FF_ROW_gpus_per_node);
    const ff_field *device =
        ff_field_find(ff_preset_cluster_library()->devices, row->value[FF_ROW_device]);
    const ff_field *usual = device == NULL ? NULL : ff_field_find(device, "node_devices");
    if (device == NULL)
        return FF_INVALID;
    if (node == 0)
        node = usual == NULL ? 8 : usual->integer;
    node = ff_min(node, gpus);
    bool networked = ff_row_says(row, FF_ROW_network);
    ff_field network = text_field("network", row->value[FF_ROW_network], NULL);
    ff_field name = text_field("device", row->value[FF_ROW_device], networked ? &network : NULL);
    ff_field per_node = count_field("devices_per_node", node, &name);
    ff_field nodes = count_field("nodes", ff_ceil_div(gpus, node), &per_node);
    int64_t joined = ff_row_integer(row, FF_ROW_domain);
    ff_field domain = count_field("domain_devices", ff_min(joined, gpus), &nodes);
    ff_field root = {.kind = FF_FIELD_MAP,
                     .text = "",
                     .count = 3 + networked + (joined > 0),
                     .first = joined > 0 ? &domain : &nodes};
    return ff_cluster_from_fields(&root, row->value[FF_ROW_gpu], ff_preset_cluster_library(), NULL,
                                  cluster);
}

static bool load_profile(const char *name, ff_arena *arena, ff_profile *profile) {
    const ff_field *root = ff_preset_tree(ff_arena_printf(arena, "profiles/%s", name));
    return root != NULL && ff_profile_from_fields(root, name, NULL, profile) == FF_OK;
}

/* The profile that a rule names, or that is called like the stack, else the default of the device's
 * generation. */
static const ff_profile *profile_of(ff_validate_library *l, const char *stack,
                                    const ff_cluster *cluster) {
    enum { MOST = sizeof l->profile / sizeof *l->profile };
    if (l->forced != NULL)
        return l->forced;
    const char *name = stack;
    if (name[0] == '\0' || ff_preset_tree(ff_arena_printf(l->arena, "profiles/%s", name)) == NULL)
        name = ff_profile_default(cluster);
    for (int i = 0; i < l->profiles; i++)
        if (strcmp(l->profile[i].stack, name) == 0)
            return &l->profile[i].profile;
    int at = l->profiles < (int)MOST ? l->profiles++ : (int)MOST - 1;
    l->profile[at].stack = name;
    return load_profile(name, l->arena, &l->profile[at].profile) ? &l->profile[at].profile : NULL;
}

/* What a row says about its kernels goes before what the stack usually has. */
static void set_kernels(const ff_row *row, ff_kernels *kernels) {
    const struct {
        ff_row_column column;
        bool *flag;
    } flags[] = {{FF_ROW_flash_attention, &kernels->flash_attention},
                 {FF_ROW_flash_2, &kernels->flash_2},
                 {FF_ROW_eager_softmax, &kernels->eager_softmax},
                 {FF_ROW_fused_norm, &kernels->fused_norm},
                 {FF_ROW_fused_activation, &kernels->fused_activation},
                 {FF_ROW_eager_rope, &kernels->eager_rope},
                 {FF_ROW_fused_loss, &kernels->fused_loss},
                 {FF_ROW_keeps_gathered, &kernels->keeps_gathered},
                 {FF_ROW_narrow_gathers, &kernels->narrow_gathers}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (ff_row_is(row, flags[i].column, "0") || ff_row_is(row, flags[i].column, "1"))
            *flags[i].flag = ff_row_is(row, flags[i].column, "1");
}

/* ---- layouts ---- */

/* The values that a column may have: its own, its choices, or every legal vpp. */
typedef struct candidates {
    const char *text[FF_ROW_MOST_CHOICES];
    int count;
} candidates;

static void add_candidate(candidates *c, const char *text) {
    if (c->count < FF_ROW_MOST_CHOICES)
        c->text[c->count++] = text;
}

static candidates candidates_of(const ff_row *row, ff_row_column column) {
    candidates c = {0};
    if (row->choices[column] == NULL) {
        add_candidate(&c, row->value[column]);
        return c;
    }
    for (const ff_field *f = row->choices[column]->first; f != NULL; f = f->next)
        add_candidate(&c, f->text);
    return c;
}

static candidates vpp_candidates(ff_arena *arena, const ff_row *row) {
    candidates c = {0};
    if (!ff_row_is(row, FF_ROW_vpp, "legal"))
        return candidates_of(row, FF_ROW_vpp);
    int64_t layers = ff_row_integer(row, FF_ROW_layers), pp = ff_row_integer(row, FF_ROW_pp);
    for (int64_t v = 1; pp > 0 && v * pp <= layers; v++)
        if (v == 1 || layers % (pp * v) == 0 || layers % pp != 0)
            add_candidate(&c, ff_arena_printf(arena, "%d", (int)v));
    return c;
}

static void set_sharding(const ff_row *row, ff_layout *l) {
    const char *zero = row->value[FF_ROW_sharding];
    if (zero[0] >= '0' && zero[0] <= '3')
        l->zero = zero[0] - '0';
    if (strcmp(zero, "hsdp") == 0) {
        l->zero = 3;
        l->zero_group = ff_row_integer(row, FF_ROW_gpus_per_node);
    }
    int64_t copies = ff_row_integer(row, FF_ROW_shard_copies);
    int64_t replicas = ff_row_integer(row, FF_ROW_gpus) / ff_max(1, l->tp * l->pp);
    if (copies > 1)
        l->zero_group = ff_max(1, replicas / copies);
}

/* The keys that are words of a layout go through its own parser. */
static bool parse_words(ff_arena *arena, const ff_row *row, const char *recompute, ff_layout *l) {
    const char *text = "";
    const struct {
        const char *key, *value;
    } words[] = {{"recompute", recompute},
                 {"recipe", row->value[FF_ROW_recipe]},
                 {"cp_kind", row->value[FF_ROW_context]}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].value[0] != '\0')
            text = ff_arena_printf(arena, "%s%s%s=%s", text, text[0] == '\0' ? "" : ",",
                                   words[i].key, words[i].value);
    return ff_layout_parse(text, NULL, l) == FF_OK;
}

static bool set_schedule(const ff_row *row, ff_layout *l) {
    const char *name = row->value[FF_ROW_pipeline];
    ff_schedule_kind kind;
    if (l->pp == 1 || name[0] == '\0') {
        l->vpp = l->pp == 1 ? 1 : l->vpp;
        return true;
    }
    if (!ff_schedule_find(name, &kind))
        return false;
    if (kind == FF_SCHEDULE_1F1B && l->vpp > 1)
        kind = FF_SCHEDULE_INTERLEAVED;
    if (kind == FF_SCHEDULE_INTERLEAVED && l->vpp == 1)
        kind = FF_SCHEDULE_1F1B;
    l->schedule = (int)kind;
    return true;
}

static int64_t sequences_of(const ff_row *row) {
    int64_t gbs = ff_row_integer(row, FF_ROW_gbs_sequences);
    int64_t seq = ff_row_integer(row, FF_ROW_seq_len);
    return gbs > 0 || seq < 1 ? gbs : ff_row_integer(row, FF_ROW_gbs_tokens) / seq;
}

static ff_skip settle(const ff_row *row, ff_case *c, ff_layout *l) {
    ff_layout_context context = {.world = ff_row_integer(row, FF_ROW_gpus),
                                 .gbs_sequences = sequences_of(row),
                                 .layers = c->job.model.layers};
    if (!set_schedule(row, l))
        return FF_SKIP_SCHEDULE;
    if (ff_row_says(row, FF_ROW_split))
        ff_split_layers(row->value[FF_ROW_split], &c->job.model, l);
    if (ff_layout_derive(l, &context, NULL) != FF_OK)
        return FF_SKIP_ILLEGAL;
    ff_schedule_shape shape = ff_schedule_shape_of(l);
    if (ff_schedule_check(&shape, NULL) != FF_OK)
        return l->schedule > FF_SCHEDULE_INTERLEAVED ? FF_SKIP_SCHEDULE : FF_SKIP_ILLEGAL;
    ff_rule_case rules = {.model = &c->job.model, .layout = l, .seq = c->job.seq};
    for (int i = 0; ff_rule_at(i) != NULL; i++) {
        const ff_rule *rule = ff_rule_at(i);
        if (ff_code_describe(rule->code)->severity != FF_ERROR || !rule->violated(&rules))
            continue;
        c->broken = ff_code_describe(rule->code)->name;
        return FF_SKIP_ILLEGAL;
    }
    return FF_SKIP_NONE;
}

static ff_skip add_layout(ff_arena *arena, const ff_row *row, const char *recompute,
                          const char *vpp, const char *mbs, ff_case *c) {
    ff_layout *l = &c->layout[c->layouts];
    int64_t chunks = 1, micro = 1;
    ff_layout_init(l);
    if (!parse_words(arena, row, recompute, l))
        return FF_SKIP_ILLEGAL;
    ff_parse_count(vpp, &chunks);
    ff_parse_count(mbs, &micro);
    l->tp = ff_row_integer(row, FF_ROW_tp);
    l->pp = ff_row_integer(row, FF_ROW_pp);
    l->cp = ff_row_integer(row, FF_ROW_cp);
    l->ep = ff_row_integer(row, FF_ROW_ep);
    l->etp = ff_row_integer(row, FF_ROW_etp);
    l->vpp = chunks;
    l->mbs = micro;
    l->sp = l->tp > 1 ? ff_row_is(row, FF_ROW_sp, "1") : 0;
    set_sharding(row, l);
    int64_t rest = ff_row_integer(row, FF_ROW_gpus) / ff_max(1, l->tp * l->pp * ff_max(1, l->cp));
    if (mbs != row->value[FF_ROW_mbs] && sequences_of(row) % ff_max(1, rest * micro) != 0)
        return FF_SKIP_ILLEGAL;
    ff_skip skip = settle(row, c, l);
    c->layouts += skip == FF_SKIP_NONE;
    return skip;
}

/* What ran, where a rule knows better than the source. */
static ff_row_column recompute_column(const ff_row *row) {
    bool reworded = ff_row_says(row, FF_ROW_remat) || row->choices[FF_ROW_remat] != NULL;
    return reworded ? FF_ROW_remat : FF_ROW_recompute;
}

static ff_skip build_layouts(ff_arena *arena, const ff_row *row, ff_case *c) {
    candidates recompute = candidates_of(row, recompute_column(row));
    candidates vpp = vpp_candidates(arena, row), mbs = candidates_of(row, FF_ROW_mbs);
    ff_skip last = FF_SKIP_ILLEGAL;
    for (int r = 0; r < recompute.count; r++)
        for (int v = 0; v < vpp.count; v++)
            for (int b = 0; b < mbs.count && c->layouts < FF_CASE_MOST_LAYOUTS; b++) {
                c->family[c->layouts] = v * mbs.count + b;
                ff_skip skip =
                    add_layout(arena, row, recompute.text[r], vpp.text[v], mbs.text[b], c);
                last = skip == FF_SKIP_NONE ? last : skip;
            }
    return c->layouts > 0 ? FF_SKIP_NONE : last;
}

ff_skip ff_case_of(ff_validate_library *library, const ff_row *row, ff_case *c) {
    static const ff_row_column needed[] = {FF_ROW_tp, FF_ROW_pp, FF_ROW_seq_len, FF_ROW_gpus};
    c->layouts = 0;
    c->lightest = row->first_fitting[recompute_column(row)];
    c->broken = NULL;
    if (ff_row_says(row, FF_ROW_skip))
        return FF_SKIP_BY_RULE;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (ff_row_integer(row, needed[i]) < 1)
            return FF_SKIP_SIZES;
    if (sequences_of(row) < 1)
        return FF_SKIP_SIZES;
    c->job = (ff_job){.seq = ff_row_integer(row, FF_ROW_seq_len), .imbalance = 1};
    if (ff_validate_model(library->presets, library->preset_count, row, &c->job.model) != FF_OK)
        return FF_SKIP_SHAPE;
    if (read_cluster(row, &c->job.cluster) != FF_OK)
        return FF_SKIP_DEVICE;
    if (ff_row_says(row, FF_ROW_power_W))
        c->job.cluster.device.power_W = ff_row_real(row, FF_ROW_power_W);
    bool named = ff_row_says(row, FF_ROW_profile);
    const char *stack = row->value[named ? FF_ROW_profile : FF_ROW_stack];
    const ff_profile *profile = profile_of(library, stack, &c->job.cluster);
    if (profile == NULL)
        return FF_SKIP_DEVICE;
    c->profile = *profile;
    set_kernels(row, &c->profile.kernels);
    if (ff_row_says(row, FF_ROW_imbalance))
        c->job.imbalance = ff_row_real(row, FF_ROW_imbalance);
    if (ff_row_says(row, FF_ROW_tp_hidden))
        c->profile.tp_hidden_ratio = ff_row_real(row, FF_ROW_tp_hidden);
    if (ff_row_says(row, FF_ROW_ep_hidden))
        c->profile.ep_hidden_ratio = ff_row_real(row, FF_ROW_ep_hidden);
    if (ff_row_says(row, FF_ROW_workspace_MiB))
        c->profile.runtime.workspace_bytes =
            ff_mul(ff_row_integer(row, FF_ROW_workspace_MiB), INT64_C(1) << 20);
    c->job.profile = &c->profile;
    c->job.gbs_tokens = ff_mul(sequences_of(row), c->job.seq);
    return build_layouts(library->arena, row, c);
}
