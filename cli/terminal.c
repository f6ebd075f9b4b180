/* See terminal.h. */
#include "cli/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS_WHEN_PIPED = 80 };

/* A variable's value, NULL also where it is empty. */
static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

/* The first of the three that is set decides, as in setlocale(3). */
static bool locale_is_utf8(void) {
    const char *locale = value_of("LC_ALL");
    if (locale == NULL)
        locale = value_of("LC_CTYPE");
    if (locale == NULL)
        locale = value_of("LANG");
    return locale != NULL &&
           (strcasestr(locale, "utf-8") != NULL || strcasestr(locale, "utf8") != NULL);
}

static bool wants_colour(bool is_terminal, ff_colour_choice choice) {
    if (choice != FF_COLOUR_AUTO)
        return choice == FF_COLOUR_ALWAYS;
    const char *term = value_of("TERM");
    bool dumb = term == NULL || strcmp(term, "dumb") == 0;
    return is_terminal && !dumb && value_of("NO_COLOR") == NULL;
}

ff_look ff_terminal_look(int descriptor, ff_colour_choice choice) {
    ff_look look = {.columns = COLUMNS_WHEN_PIPED, .unicode = locale_is_utf8()};
    bool is_terminal = isatty(descriptor) != 0;
    struct winsize size;
    if (is_terminal && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        look.columns = size.ws_col;
    look.colour = wants_colour(is_terminal, choice);
    return look;
}

bool ff_terminal_write(int descriptor, const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(descriptor, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno == EPIPE;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

double ff_terminal_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int64_t ff_terminal_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (int64_t)pages * bytes : INT64_C(4) << 30;
}
