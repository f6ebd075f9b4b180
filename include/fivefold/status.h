/* What a call came to. The values are the command line's exit statuses, so that nothing has to
 * translate them. Details of a refusal stand in a diagnostics list (diagnostics.h). */
#ifndef FIVEFOLD_STATUS_H
#define FIVEFOLD_STATUS_H

#if defined(__GNUC__)
#define FF_API __attribute__((visibility("default")))
#define FF_PRINTF(format_index, first_argument)                                                    \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define FF_API
#define FF_PRINTF(format_index, first_argument)
#endif

typedef enum ff_status {
    FF_OK = 0,          /* yes */
    FF_NO = 1,          /* the honest answer is no: nothing fits, a check found errors */
    FF_INVALID = 2,     /* the input or the usage is wrong */
    FF_ENVIRONMENT = 3, /* a file, a package or a peer is missing */
    FF_BUG = 70,        /* the library contradicts itself */
} ff_status;

enum { FF_NAME_BYTES = 96 }; /* room for the name of a model, device or cluster */

#endif
