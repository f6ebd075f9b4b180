/* A Hugging Face config.json, or a bare shape, as an ff_model. One table row a family says where
 * its fields stand and what they imply; a config of no known family is read by its fields with a
 * warning that names what was assumed. */
#ifndef FF_MODEL_CONFIG_H
#define FF_MODEL_CONFIG_H

#include "fivefold/model.h"
#include "input/fields.h"

/* `name` becomes model->name. FF_INVALID with findings when the config cannot be read. */
ff_status ff_model_from_config(const ff_field *config, const char *name, ff_diagnostics *findings,
                               ff_model *model);

/* `params=70e9,layers=80,hidden=8192,heads=64[,kv_heads=,ffn=,vocab=,experts=,...]`. */
ff_status ff_model_from_shape(const char *shape, ff_diagnostics *findings, ff_model *model);
/* True when a MODEL argument reads as a bare shape (has a '='). */
bool ff_model_is_shape(const char *argument);

#endif
