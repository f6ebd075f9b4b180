/* See trace_file.h. */
#include "cli/trace_file.h"

#include "cli/files.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_piece(void *context, const char *bytes, size_t count) {
    ff_trace_file *file = context;
    while (count > 0) {
        ssize_t written = write(file->descriptor, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            file->error = written < 0 ? errno : EIO;
            return false;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return true;
}

static ff_status refuse(ff_diagnostics *findings, const char *path, int error, ff_status status) {
    ff_report(findings, FF0410, FF_NOWHERE, "cannot write %s: %s", path, strerror(error));
    return status;
}

ff_status ff_trace_file_open(const char *path, ff_arena *arena, ff_diagnostics *findings,
                             ff_trace_file *file) {
    char *temporary = ff_arena_printf(arena, "%s.XXXXXX", path);
    *file = (ff_trace_file){.path = path, .temporary = temporary, .descriptor = -1};
    if (ff_path_look(path) == FF_PATH_FOLDER || ff_path_look(path) == FF_PATH_OTHER)
        return refuse(findings, path, ff_path_look(path) == FF_PATH_FOLDER ? EISDIR : EINVAL,
                      FF_INVALID);
    file->descriptor = mkstemp(temporary);
    if (file->descriptor < 0)
        return refuse(findings, path, errno, errno == ENOENT ? FF_INVALID : FF_ENVIRONMENT);
    mode_t mask = umask(0); /* mkstemp's file is for its owner alone; a trace is as any file */
    umask(mask);
    if (fchmod(file->descriptor, 0666 & ~mask) != 0)
        file->error = errno;
    file->trace = ff_trace_create(write_piece, file);
    return FF_OK;
}

ff_status ff_trace_file_close(ff_trace_file *file, bool keep, ff_diagnostics *findings) {
    bool whole = ff_trace_finish(file->trace);
    ff_trace_free(file->trace);
    if (close(file->descriptor) != 0 && whole) {
        file->error = errno;
        whole = false;
    }
    if (keep && whole && rename(file->temporary, file->path) == 0)
        return FF_OK;
    if (keep && whole)
        file->error = errno;
    unlink(file->temporary);
    return keep ? refuse(findings, file->path, file->error, FF_ENVIRONMENT) : FF_OK;
}
