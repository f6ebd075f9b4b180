/* Seconds of a step from what a source prints. Conventions (rules fill `flop_convention` from the
 * source's own note):
 *
 *   model             6 P_matmul + 12 L a d S a token, attention not halved (docs/model.md A)
 *   causal            attention halved
 *   with-embedding    6 N with the input embedding counted
 *   hardware          the model's, layers 4/3: one recomputed forward, head not recomputed
 *   nominal-hardware  8 times the nominal size, no attention
 *   nominal           6 times the nominal size */
#include "validate/predict.h"

#include "fivefold/model.h"
#include <string.h>

static double head_flop(const ff_model *model) {
    return 6.0 * (double)model->hidden * (double)model->vocab;
}

double ff_convention_flop(const ff_row *row, const ff_model *model, int64_t seq) {
    const char *convention = row->value[FF_ROW_flop_convention];
    double full = ff_model_flop_per_token(model, seq, FF_FLOP_FULL);
    double head = head_flop(model), nominal = ff_row_real(row, FF_ROW_params_b) * 1e9;
    if (strcmp(convention, "causal") == 0)
        return ff_model_flop_per_token(model, seq, FF_FLOP_CAUSAL);
    if (strcmp(convention, "with-embedding") == 0)
        return model->tied_head ? full : full + head;
    if (strcmp(convention, "hardware") == 0)
        return (full - head) * 4 / 3 + head;
    if (strcmp(convention, "nominal-hardware") == 0)
        return 8 * nominal;
    if (strcmp(convention, "nominal") == 0)
        return 6 * nominal;
    return full;
}

static double peak_of(const ff_cluster *cluster) {
    const ff_device *d = &cluster->device;
    return d->bf16_flops > 0 ? d->bf16_flops : d->fp16_flops;
}

double ff_measured_step_s(const ff_row *row, const ff_model *model, const ff_cluster *cluster,
                          int64_t seq, const char **column) {
    double gpus = ff_row_real(row, FF_ROW_gpus), tokens = ff_row_real(row, FF_ROW_gbs_sequences);
    tokens = tokens > 0 ? tokens * (double)seq : ff_row_real(row, FF_ROW_gbs_tokens);
    double iteration = ff_row_real(row, FF_ROW_measured_iter_s);
    double rate = ff_row_real(row, FF_ROW_measured_tokens_per_s_per_gpu);
    double tflops = ff_row_real(row, FF_ROW_measured_tflops_per_gpu);
    double mfu = ff_row_real(row, FF_ROW_measured_mfu);
    double flop = ff_convention_flop(row, model, seq) * tokens / gpus;
    const struct {
        ff_row_column column;
        double value, step_s;
    } figures[] = {
        {FF_ROW_measured_iter_s, iteration, iteration},
        {FF_ROW_measured_tokens_per_s_per_gpu, rate, tokens / gpus / rate},
        {FF_ROW_measured_tflops_per_gpu, tflops, flop / (tflops * 1e12)},
        {FF_ROW_measured_mfu, mfu, flop / (mfu * peak_of(cluster))},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        if (figures[i].value <= 0)
            continue;
        *column = ff_row_column_name(figures[i].column);
        return figures[i].step_s;
    }
    *column = "";
    return 0;
}
