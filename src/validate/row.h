/* One published measurement: a record of a table whose columns are fixed, and what had to be
 * assumed about it.
 *
 *     columns of the table  |  columns that rules fill (device, network, recipe, ...)
 *
 * A column is a text; "" means that the source does not say. Rules (data/validation.yaml) fill empty
 * columns, in order, where their conditions hold: a value, or several of which one is true. Device
 * names, networks, software defaults and the meaning of a number are data; no code knows a source, a
 * model or a row. */
#ifndef FF_VALIDATE_ROW_H
#define FF_VALIDATE_ROW_H

#include "input/csv.h"
#include "input/fields.h"

/* clang-format off */
#define FF_ROW_COLUMNS(X) \
    X(outcome) X(quality) X(quality_note) X(class) X(stack) X(cluster) X(id) X(source) \
    X(source_locator) X(source_check) X(model_name) X(params_b) X(layers) X(hidden) \
    X(ffn_hidden) X(heads) X(kv_heads) X(head_dim) X(vocab) X(seq_len) X(moe_experts) \
    X(moe_topk) X(moe_ffn_hidden) X(attn) X(activation) X(gpu) X(gpus) X(gpus_per_node) \
    X(intra_bw_note) X(inter_bw_note) X(tp) X(sp) X(pp) X(vpp) X(schedule) X(cp) X(cp_kind) \
    X(ep) X(etp) X(dp) X(zero) X(mbs) X(gbs_sequences) X(gbs_tokens) X(recompute) \
    X(precision) X(flash_attention) X(measured_iter_s) X(measured_tflops_per_gpu) \
    X(measured_mfu) X(measured_tokens_per_s_per_gpu) X(measured_peak_mem_gib) \
    X(flops_formula_note) X(notes)
/* clang-format on */
/* Filled by rules alone. */
/* clang-format off */
#define FF_ROW_DERIVED(X) \
    X(device) X(profile) X(network) X(domain) X(pipeline) X(recipe) X(sharding) X(context) X(split) \
    X(remat) X(gated) X(tied) X(dropout) X(power_W) X(flash_2) X(eager_softmax) \
    X(fused_norm) X(fused_activation) X(eager_rope) X(fused_loss) X(keeps_gathered) X(narrow_gathers) \
    X(tp_hidden) X(ep_hidden) X(imbalance) X(workspace_MiB) X(shard_copies) X(shared_ffn) \
    X(memory_meaning) X(memory_rank) X(flop_convention) X(score_time) X(skip)
/* clang-format on */

typedef enum ff_row_column {
#define X(name) FF_ROW_##name,
    FF_ROW_COLUMNS(X) FF_ROW_READ,
    FF_ROW_BEFORE_DERIVED = FF_ROW_READ - 1,
    FF_ROW_DERIVED(X)
#undef X
        FF_ROW_COUNT
} ff_row_column;

enum { FF_ROW_MOST_CHOICES = 64, FF_ROW_MOST_ASSUMED = 32 };

typedef struct ff_row {
    const char *value[FF_ROW_COUNT];
    const ff_field *choices[FF_ROW_COUNT]; /* a list when one of several is true */
    bool first_fitting[FF_ROW_COUNT];      /* of the choices, the first that fits is true */
    const char *why[FF_ROW_COUNT];         /* of an assumed value; NULL where the source says it */
    const char *file;
    int line;
} ff_row;

/* Index of a column by its name, FF_ROW_COUNT when there is none. */
ff_row_column ff_row_column_find(const char *name);
const char *ff_row_column_name(ff_row_column column);

/* All rows of a table, appended to *rows (in the arena). FF_INVALID with FF0601..FF0604. */
ff_status ff_rows_read(ff_arena *arena, const ff_csv *csv, ff_diagnostics *findings, ff_row **rows,
                       int *count);
/* Fills empty columns by the rules of a data file. */
void ff_row_assume(const ff_field *rules, ff_row *row);

/* Whether a text matches a pattern: "x" is x, a star stands for any text ("*x*" holds x, "*x*y*" holds
 * x and later y), "" is empty; "!" before a pattern turns it round. */
bool ff_row_matches(const char *text, const char *pattern);

/* A whole or decimal number, 0 when empty or none. */
int64_t ff_row_integer(const ff_row *row, ff_row_column column);
double ff_row_real(const ff_row *row, ff_row_column column);
bool ff_row_is(const ff_row *row, ff_row_column column, const char *value);
bool ff_row_says(const ff_row *row, ff_row_column column);

#endif
