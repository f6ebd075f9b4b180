#include "plan/entry.h"

#include "fivefold/version.h"

#include "base/number.h"

void ff_document_head(ff_facts *facts, const char *what) {
    ff_facts_add_text(facts, "schema", "fivefold/%s/1", what);
    ff_facts_add_text(facts, "version", "%s", FF_VERSION);
}

void ff_model_summary(const ff_model *model, ff_facts *facts) {
    ff_model_count count;
    ff_model_params(model, &count);
    ff_facts_add_text(facts, "name", "%s", model->name);
    ff_facts_add_text(facts, "family", "%s", model->family);
    ff_facts_add_integer(facts, "params_total", count.total);
    ff_facts_add_integer(facts, "params_active", count.active);
    ff_facts_add_integer(facts, "layers", model->layers);
}

void ff_inputs_of_job(const ff_job *job, ff_facts *facts) {
    ff_facts_open_record(facts, "inputs");
    ff_facts_add_text(facts, "model", "%s", job->model.name);
    ff_facts_add_text(facts, "cluster", "%s", job->cluster.name);
    ff_facts_add_integer(facts, "seq_tokens", job->seq);
    ff_facts_add_integer(facts, "gbs_tokens", job->gbs_tokens);
    ff_facts_add_boolean(facts, "gbs_exact", job->gbs_exact);
    ff_facts_add_text(facts, "ledger", "%s", job->ledger == FF_LEDGER_LESSON ? "lesson" : "full");
    ff_facts_add_text(facts, "profile", "%s", job->profile == NULL ? "" : job->profile->name);
    ff_facts_add_text(facts, "recipe", "%s",
                      ff_recipe_name(job->recipe_given ? job->recipe : FF_RECIPE_BF16_MEGATRON));
    ff_facts_add_real(facts, "imbalance", job->imbalance);
    ff_facts_add_integer(facts, "margin_bytes",
                         ff_ledger_margin(job->cluster.device.memory_bytes, job->margin_bytes));
    ff_facts_close(facts);
}

void ff_layout_facts(const ff_layout *l, ff_facts *facts) {
    char recompute[128];
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"dp", l->dp},     {"tp", l->tp},   {"sp", l->sp},
                 {"pp", l->pp},     {"vpp", l->vpp}, {"cp", l->cp},
                 {"ep", l->ep},     {"etp", l->etp}, {"edp", l->edp},
                 {"zero", l->zero}, {"mbs", l->mbs}, {"microbatches", l->microbatches}};
    ff_facts_open_record(facts, "layout_fields");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ff_facts_add_integer(facts, sizes[i].name, sizes[i].value);
    ff_facts_add_text(facts, "cp_kind", "%s", ff_cp_kind_name(l->cp_kind));
    ff_facts_add_text(facts, "recompute", "%s", ff_recompute_print(l, recompute, sizeof recompute));
    ff_facts_add_text(facts, "schedule", "%s", ff_schedule_name((ff_schedule_kind)l->schedule));
    ff_facts_add_text(facts, "recipe", "%s", ff_recipe_name(l->recipe));
    ff_facts_add_integer(facts, "zero_group", l->zero_group);
    ff_facts_add_text(facts, "zero3_weights", "%s",
                      l->zero3_weights == FF_ZERO3_RESIDENT ? "resident" : "stream");
    ff_facts_close(facts);
}

void ff_stage_facts(const ff_stage_memory *m, int64_t stage, ff_facts *facts) {
    ff_facts_add_integer(facts, "stage", stage);
    ff_facts_add_integer(facts, "weights_bytes", m->weights_bytes);
    ff_facts_add_integer(facts, "gradients_bytes", m->gradients_bytes);
    ff_facts_add_integer(facts, "optimizer_bytes", m->optimizer_bytes);
    ff_facts_add_integer(facts, "activations_bytes", m->activations_bytes);
    ff_facts_add_integer(facts, "buffers_bytes", m->buffers_bytes);
    ff_facts_add_integer(facts, "runtime_bytes", m->runtime_bytes);
    ff_facts_add_integer(facts, "total_bytes", m->total_bytes);
}

static void memory_facts(const ff_layout *layout, const ff_estimate *estimate,
                         const ff_stage_memory *stages, ff_facts *facts) {
    ff_facts_open_record(facts, "memory");
    ff_facts_add_integer(facts, "peak_bytes", estimate->peak_bytes);
    ff_facts_add_integer(facts, "capacity_bytes", estimate->capacity_bytes);
    ff_facts_add_integer(facts, "peak_stage", estimate->peak_stage);
    ff_facts_open_list(facts, "stages");
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        ff_facts_open_record(facts, NULL);
        ff_stage_facts(&stages[stage], stage, facts);
        ff_facts_add_integer(facts, "in_flight", stages[stage].in_flight);
        ff_facts_close(facts);
    }
    ff_facts_close(facts);
    ff_facts_add_basis(facts, FF_BASIS_CLOSED_FORM);
    ff_facts_close(facts);
}

void ff_time_facts(const ff_estimate *estimate, ff_facts *facts) {
    const ff_step_time *time = &estimate->time;
    ff_facts_open_record(facts, "time");
    ff_facts_add_real(facts, "step_s", time->step_s);
    ff_facts_add_real(facts, "compute_s", time->compute_s);
    ff_facts_add_real(facts, "bubble_s", time->bubble_s);
    ff_facts_open_record(facts, "exposed");
    for (int i = 0; i < FF_EXPOSED_COUNT; i++)
        ff_facts_add_real(facts, ff_exposure_name((ff_exposure)i), time->exposed_s[i]);
    ff_facts_close(facts);
    ff_facts_add_real(facts, "optimizer_s", time->optimizer_s);
    ff_facts_add_integer(facts, "slowest_stage", time->slowest_stage);
    ff_facts_add_basis(facts, estimate->simulated ? FF_BASIS_SIMULATED : FF_BASIS_CLOSED_FORM);
    ff_facts_close(facts);
}

void ff_entry_facts(const ff_job *job, const ff_layout *layout, const ff_estimate *estimate,
                    const ff_stage_memory *stages, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_dtype dtype = ff_recipe_describe(layout->recipe)->compute;
    ff_facts_add_text(facts, "layout", "%s",
                      ff_layout_print(layout, FF_LAYOUT_SHORT, text, sizeof text));
    ff_layout_facts(layout, facts);
    ff_facts_add_text(facts, "verdict", "%s", ff_verdict_name(estimate->verdict));
    ff_facts_add_boolean(facts, "fits", estimate->verdict != FF_TOO_BIG);
    memory_facts(layout, estimate, stages, facts);
    ff_facts_add_integer(facts, "gbs_tokens_actual",
                         ff_mul(ff_layout_batch_sequences(layout), job->seq));
    if (estimate->time.step_s <= 0)
        return;
    ff_facts_add_integer(facts, "gbs_tokens_counted", estimate->counted_tokens);
    ff_time_facts(estimate, facts);
    ff_facts_add_real(facts, "tokens_per_s_per_device", estimate->tokens_per_s_per_device);
    ff_facts_add_real(facts, "model_tflops_per_device", estimate->model_flops_per_device / 1e12);
    ff_facts_add_real(facts, "mfu", estimate->mfu);
    ff_facts_add_text(facts, "mfu_convention",
                      "6 P + 12 L a d S a token, attention not halved, over the dense %s peak",
                      ff_dtype_name(dtype));
}
