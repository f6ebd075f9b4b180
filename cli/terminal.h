/* The process's surroundings: how wide and colourful the terminal is, and writing to it. */
#ifndef FF_CLI_TERMINAL_H
#define FF_CLI_TERMINAL_H

#include "output/render.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum ff_colour_choice {
    FF_COLOUR_AUTO,
    FF_COLOUR_ALWAYS,
    FF_COLOUR_NEVER
} ff_colour_choice;

/* How to print to a file descriptor: the terminal's width, 80 when it is none; colours on a
 * terminal unless NO_COLOR or TERM=dumb; beyond ASCII where the locale is UTF-8. */
ff_look ff_terminal_look(int descriptor, ff_colour_choice choice);

/* Writes everything. False when it cannot (a full disk); a reader that went away is no failure. */
bool ff_terminal_write(int descriptor, const char *text, size_t length);

/* Seconds of a clock that only goes forward. */
double ff_terminal_clock_s(void);
/* Memory of the machine; 4 GiB where the system does not say. */
int64_t ff_terminal_memory_bytes(void);

#endif
