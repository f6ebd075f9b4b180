/* A file on disk: written beside its name and renamed when it is whole, so that no half of one is
 * ever left. */
#ifndef FF_CLI_OUTPUT_FILE_H
#define FF_CLI_OUTPUT_FILE_H

#include "base/arena.h"
#include "base/diagnose.h"

#include <stddef.h>

typedef struct ff_output_file {
    const char *path, *temporary;
    int descriptor;
    int error; /* of the system, when something could not be written */
} ff_output_file;

/* FF_INVALID or FF_ENVIRONMENT with FF0410 when there can be no such file. */
ff_status ff_output_file_open(const char *path, ff_arena *arena, ff_diagnostics *findings,
                              ff_output_file *file);
/* False once something could not be written. */
bool ff_output_file_write(ff_output_file *file, const char *bytes, size_t count);
/* Keeps it, or (when `keep` is false, or it is not whole) leaves nothing. */
ff_status ff_output_file_close(ff_output_file *file, bool keep, ff_diagnostics *findings);

#endif
