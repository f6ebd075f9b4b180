/* The version, in one place: the build reads it from here, every document states it. */
#ifndef FIVEFOLD_VERSION_H
#define FIVEFOLD_VERSION_H

#define FF_VERSION "0.1.0"

#endif
