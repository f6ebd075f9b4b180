/* Commands that run a step instead of pricing it. */
#ifndef FF_CLI_EXECUTE_H
#define FF_CLI_EXECUTE_H

#include "cli/commands.h"

ff_status ff_verify_run(ff_session *session);
ff_status ff_train_run(ff_session *session);

#endif
