/* fit_kernels: fits the curves of kernels and links (src/cost/physics.h) to measured tables and
 * writes data/kernels/gemm.yaml, attention.yaml and collectives.yaml. docs/kernels.md says where the
 * tables come from and what their columns are; they are too large to be kept here.
 *
 *     fit_kernels gemm|attention|collectives TABLE.csv OUTPUT.yaml
 *
 * The formulas are the planner's own, linked in. A table of errors goes to standard output. */
#include "fit.h"

#include <string.h>

static const struct {
    const char *name;
    void (*fit)(const table *measured, FILE *out, FILE *report);
} fits[] = {{"gemm", fit_gemm}, {"attention", fit_attention}, {"collectives", fit_collectives}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 4 && i < sizeof fits / sizeof *fits; i++) {
        if (strcmp(argv[1], fits[i].name) != 0)
            continue;
        table measured = table_read(argv[2]);
        FILE *out = fopen(argv[3], "w");
        if (out == NULL) {
            perror(argv[3]);
            return 3;
        }
        fits[i].fit(&measured, out, stdout);
        table_free(&measured);
        return fclose(out) == 0 ? 0 : 3;
    }
    fprintf(stderr, "usage: fit_kernels gemm|attention|collectives TABLE.csv OUTPUT.yaml\n");
    return 2;
}
