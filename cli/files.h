/* Files that the user names, read whole. */
#ifndef FF_CLI_FILES_H
#define FF_CLI_FILES_H

#include "base/arena.h"
#include "base/diagnose.h"

typedef enum ff_path_kind {
    FF_PATH_NONE,
    FF_PATH_FILE,
    FF_PATH_FOLDER,
    FF_PATH_OTHER
} ff_path_kind;
/* What stands at a path; FF_PATH_NONE also when it cannot be looked at. */
ff_path_kind ff_path_look(const char *path);

/* Reads a regular file of at most 16 MiB into the arena; else FF0406 or FF0102 and FF_INVALID
 * (FF_ENVIRONMENT when the system refuses). */
ff_status ff_file_read(ff_arena *arena, const char *path, ff_diagnostics *findings,
                       const char **text, size_t *length);

/* A regular file of any size as memory that cannot be written; findings as above. It stays until the
 * process ends. */
ff_status ff_file_map(const char *path, ff_diagnostics *findings, const char **text,
                      size_t *length);

/* Writes a file beside its name and renames it when it is whole; else FF0410. */
ff_status ff_file_write(ff_arena *arena, const char *path, const char *text, size_t length,
                        ff_diagnostics *findings);

/* The name that a file gives to what it holds: its own without ending, or its folder's when it is
 * called config.json. */
const char *ff_path_stem(ff_arena *arena, const char *path);

#endif
