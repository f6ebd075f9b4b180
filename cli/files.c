/* See files.h. A pipe or device may never end, so only regular files are read; O_NONBLOCK keeps the
 * open itself from waiting for a pipe's writer. */
#include "cli/files.h"

#include "cli/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 16 << 20 };

ff_path_kind ff_path_look(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0)
        return FF_PATH_NONE;
    if (S_ISREG(status.st_mode))
        return FF_PATH_FILE;
    return S_ISDIR(status.st_mode) ? FF_PATH_FOLDER : FF_PATH_OTHER;
}

static ff_status refuse(ff_diagnostics *findings, const char *path, const char *why) {
    ff_report(findings, FF0406, FF_NOWHERE, "cannot read %s: %s", path, why);
    return FF_INVALID;
}

static ff_status refuse_by_system(ff_diagnostics *findings, const char *path, int error) {
    refuse(findings, path, strerror(error));
    bool users_fault = error == ENOENT || error == ENOTDIR || error == EISDIR ||
                       error == ENAMETOOLONG || error == ELOOP;
    return users_fault ? FF_INVALID : FF_ENVIRONMENT;
}

/* Reads until the end of the file, which may have grown or shrunk since it was measured. */
static ff_status read_all(int descriptor, const char *path, char *bytes, size_t capacity,
                          ff_diagnostics *findings, size_t *length) {
    *length = 0;
    while (*length < capacity) {
        ssize_t count = read(descriptor, bytes + *length, capacity - *length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return refuse_by_system(findings, path, errno);
        if (count == 0)
            return FF_OK;
        *length += (size_t)count;
    }
    return FF_OK;
}

/* The size of a regular file. */
static ff_status measure(int descriptor, const char *path, ff_diagnostics *findings,
                         int64_t *bytes) {
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return refuse_by_system(findings, path, errno);
    if (S_ISDIR(status.st_mode))
        return refuse(findings, path, "it is a folder");
    if (!S_ISREG(status.st_mode))
        return refuse(findings, path, "it is no regular file");
    *bytes = status.st_size;
    return FF_OK;
}

static ff_status read_open(ff_arena *arena, int descriptor, const char *path,
                           ff_diagnostics *findings, const char **text, size_t *length) {
    int64_t size = 0;
    ff_status status = measure(descriptor, path, findings, &size);
    if (status != FF_OK)
        return status;
    if (size > MAX_FILE_BYTES) {
        ff_report(findings, FF0102, FF_NOWHERE, "%s has %lld bytes", path, (long long)size);
        return FF_INVALID;
    }
    char *bytes = ff_arena_alloc(arena, (size_t)size + 1);
    *text = bytes;
    return read_all(descriptor, path, bytes, (size_t)size, findings, length);
}

static ff_status map_open(int descriptor, const char *path, ff_diagnostics *findings,
                          const char **text, size_t *length) {
    int64_t size = 0;
    ff_status status = measure(descriptor, path, findings, &size);
    *length = (size_t)size;
    *text = "";
    if (status != FF_OK || size == 0)
        return status;
    void *memory = mmap(NULL, *length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory == MAP_FAILED)
        return refuse_by_system(findings, path, errno);
    *text = memory;
    return FF_OK;
}

ff_status ff_file_read(ff_arena *arena, const char *path, ff_diagnostics *findings,
                       const char **text, size_t *length) {
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return refuse_by_system(findings, path, errno);
    ff_status status = read_open(arena, descriptor, path, findings, text, length);
    close(descriptor);
    return status;
}

ff_status ff_file_map(const char *path, ff_diagnostics *findings, const char **text,
                      size_t *length) {
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return refuse_by_system(findings, path, errno);
    ff_status status = map_open(descriptor, path, findings, text, length);
    close(descriptor);
    return status;
}

ff_status ff_file_write(ff_arena *arena, const char *path, const char *text, size_t length,
                        ff_diagnostics *findings) {
    ff_output_file file;
    ff_status status = ff_output_file_open(path, arena, findings, &file);
    if (status != FF_OK)
        return status;
    ff_output_file_write(&file, text, length);
    return ff_output_file_close(&file, true, findings);
}

const char *ff_path_stem(ff_arena *arena, const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (end - start == strlen("config.json") && start > 1 &&
        strncmp(path + start, "config.json", end - start) == 0)
        return ff_path_stem(arena, ff_arena_copy(arena, path, start - 1));
    size_t dot = end;
    while (dot > start && path[dot - 1] != '.')
        dot--;
    bool has_ending = dot > start + 1 && (strncmp(path + dot, "json", end - dot) == 0 ||
                                          strncmp(path + dot, "yaml", end - dot) == 0 ||
                                          strncmp(path + dot, "yml", end - dot) == 0);
    return ff_arena_copy(arena, path + start, (has_ending ? dot - 1 : end) - start);
}
