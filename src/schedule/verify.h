/* Holds a set of action lists against what any schedule must obey, whoever wrote it:
 *
 *   complete   every chunk of every microbatch runs forward once and backward once, forward first;
 *              a split backward has both parts, input gradient first;
 *              where neighbouring chunks lie on one stage, in the order of the data
 *   matched    what a stage receives from another, the other sends, in the same order (so that a
 *              transport without tags can carry it), and nothing is sent that is not received
 *   connected  a computation stands after its receive and before its send
 *   no wait    run with blocking receives and buffered sends, the lists end */
#ifndef FF_SCHEDULE_VERIFY_H
#define FF_SCHEDULE_VERIFY_H

#include "schedule/generators.h"

typedef struct ff_schedule_fault {
    int32_t stage;
    char text[240]; /* "" when there is none */
} ff_schedule_fault;

/* False with the first fault found. */
bool ff_schedule_verify(const ff_schedule *schedule, ff_schedule_fault *fault);

const char *ff_action_name(ff_action_kind kind); /* "forward", "receive activation", ... */

#endif
