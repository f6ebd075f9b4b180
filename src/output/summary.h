/* The lines that open both `plan` and `check`: what was asked, about what. */
#ifndef FF_OUTPUT_SUMMARY_H
#define FF_OUTPUT_SUMMARY_H

#include "output/lines.h"

/* Model, cluster, batch, profile and search, each where the facts have it. */
void ff_print_summary(ff_text *out, const ff_fact *root, const ff_look *look);

enum { FF_SUMMARY_LABEL = 8 }; /* columns of its labels */

#endif
