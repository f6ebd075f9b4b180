/* Which row kernels this machine runs (rows.h). */
#include "engine/rows.h"

#include <stddef.h>

extern const ff_rows ff_rows_base;
#ifdef __x86_64__
extern const ff_rows ff_rows_avx2, ff_rows_avx512;
#endif

const ff_rows *ff_rows_choose(int n) {
    const ff_rows *found[3];
    int count = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        found[count++] = &ff_rows_avx512;
    if (__builtin_cpu_supports("avx2"))
        found[count++] = &ff_rows_avx2;
#endif
    found[count++] = &ff_rows_base;
    return n < count ? found[n] : NULL;
}
