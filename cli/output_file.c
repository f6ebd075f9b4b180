/* See output_file.h. */
#include "cli/output_file.h"

#include "cli/files.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ff_status refuse(ff_diagnostics *findings, const char *path, int error) {
    bool of_the_user = error == ENOENT || error == EISDIR || error == EINVAL;
    ff_report(findings, FF0410, FF_NOWHERE, "cannot write %s: %s", path, strerror(error));
    return of_the_user ? FF_INVALID : FF_ENVIRONMENT;
}

ff_status ff_output_file_open(const char *path, ff_arena *arena, ff_diagnostics *findings,
                              ff_output_file *file) {
    ff_path_kind kind = ff_path_look(path);
    char *temporary = ff_arena_printf(arena, "%s.XXXXXX", path); /* as mkstemp wants it */
    *file = (ff_output_file){.path = path, .temporary = temporary, .descriptor = -1};
    if (kind == FF_PATH_FOLDER || kind == FF_PATH_OTHER)
        return refuse(findings, path, kind == FF_PATH_FOLDER ? EISDIR : EINVAL);
    file->descriptor = mkstemp(temporary);
    if (file->descriptor < 0)
        return refuse(findings, path, errno);
    mode_t mask = umask(0); /* mkstemp's file is for its owner alone */
    umask(mask);
    if (fchmod(file->descriptor, 0666 & ~mask) != 0)
        file->error = errno;
    return FF_OK;
}

bool ff_output_file_write(ff_output_file *file, const char *bytes, size_t count) {
    while (count > 0 && file->error == 0) {
        ssize_t written = write(file->descriptor, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            file->error = written < 0 ? errno : EIO;
            break;
        }
        bytes += written;
        count -= (size_t)written;
    }
    return file->error == 0;
}

ff_status ff_output_file_close(ff_output_file *file, bool keep, ff_diagnostics *findings) {
    if (close(file->descriptor) != 0 && file->error == 0)
        file->error = errno;
    if (keep && file->error == 0) {
        if (rename(file->temporary, file->path) == 0)
            return FF_OK;
        file->error = errno;
    }
    unlink(file->temporary);
    return keep ? refuse(findings, file->path, file->error) : FF_OK;
}
