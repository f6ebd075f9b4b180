/* Every schedule shape that the tests try: p 1..16, v 1..4, m 1..64, groups of any legal size. */
#ifndef TESTS_SCHEDULE_SUPPORT_H
#define TESTS_SCHEDULE_SUPPORT_H

#include "fivefold/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STAGES = 16, MOST_CHUNKS = 4, MOST_MICROBATCHES = 64 };

static inline bool runs(const ff_schedule_shape *shape) {
    return ff_schedule_check(shape, NULL) == FF_OK;
}

/* --- every legal shape --- */

static inline void for_every_shape(void (*test)(const ff_schedule_shape *shape)) {
    for (int p = 1; p <= MOST_STAGES; p++) {
        for (int m = 1; m <= MOST_MICROBATCHES; m++) {
            test(&(ff_schedule_shape){FF_SCHEDULE_GPIPE, p, 1, m, 0});
            test(&(ff_schedule_shape){FF_SCHEDULE_1F1B, p, 1, m, 0});
            for (int v = 2; v <= MOST_CHUNKS; v++) {
                ff_schedule_shape shape = {FF_SCHEDULE_INTERLEAVED, p, v, m, 0};
                if (runs(&shape))
                    test(&shape);
                /* Groups: the smallest, the largest and some between. */
                for (shape.group = p; shape.group <= m; shape.group += 1 + m / 8)
                    if (runs(&shape))
                        test(&shape);
                shape.group = m;
                if (runs(&shape))
                    test(&shape);
            }
        }
    }
}

#endif
