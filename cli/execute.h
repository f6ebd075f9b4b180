/* Commands that run a step instead of pricing it. */
#ifndef FF_CLI_EXECUTE_H
#define FF_CLI_EXECUTE_H

#include "cli/commands.h"

/* What is run: the model as the engine trains it, and a derived layout that it accepts. */
typedef struct ff_execution {
    ff_model model;
    ff_layout layout;
    int64_t seq, real_vocab;
    const char *source, *text;
} ff_execution;

/* From the command's words and options; findings say what cannot be run. `compared`: a single rank
 * runs beside the others, and what they hold is kept, so that more memory is needed. */
ff_status ff_execution_read(ff_session *session, ff_execution *execution, bool compared);

ff_status ff_verify_run(ff_session *session);
ff_status ff_train_run(ff_session *session); /* train.c */

#endif
