/* JSON or YAML text -> fields, through libfyaml's event parser. Limits (ARCHITECTURE.md):
 * 16 MiB, 64 levels, 100,000 values, no aliases, no duplicate keys, one document. */
#ifndef FF_INPUT_READER_H
#define FF_INPUT_READER_H

#include "input/fields.h"
#include <stddef.h>

/* The root of the tree in *root, in `arena`. `file_name` is only for the places of findings.
 * FF_INVALID with findings when the text is refused. The text need not be NUL-terminated and may
 * hold any bytes. */
ff_status ff_fields_read(ff_arena *arena, const char *file_name, const char *text, size_t length,
                         ff_diagnostics *findings, const ff_field **root);

#endif
