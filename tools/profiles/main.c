/* fit_profiles: what the constants of the profiles carry, and the values that suit a stack best.
 *
 *     fit_profiles held-out TABLE.csv...       leave-one-source-out and leave-one-stack-out errors
 *     fit_profiles fit STACK TABLE.csv...      constants of one stack fitted to all of its sources
 *
 * A fit starts from the neutral constants (data/physics.yaml, software) and moves those that the
 * stack's profile overrides, inside their plausible ranges: constant by constant, by steps that
 * shrink, to lower the mean over sources of median and mean error of step time. Kernels (which
 * software is fused, which attention) are facts of the stack and stay. Only good rows count; rows of
 * one cluster weigh one together. */
#include "profiles.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_ROWS = 5 };

static void print_error(double median, double mean) {
    printf(" %7.1f %6.1f", 100 * median, 100 * mean);
}

/* A source as its profile has it, and as constants that never saw it have it. */
static void held_out_source(stack_rows *stack, int source, totals *sum) {
    const ff_profile *own = stack_profile(stack->name);
    ff_profile others = *own;
    if (stack_sources_beside(stack, source, LEAST_ROWS) == 0)
        return;
    fit_constants(stack, source, &others);
    score in = score_source(stack, source, own), out = score_source(stack, source, &others);
    printf("%-18s %-44.44s %5d", stack->name, stack->source[source], in.rows);
    print_error(in.median, in.mean);
    print_error(out.median, out.mean);
    printf("\n");
    add_total(sum, in, out);
}

static void held_out_stack(stack_rows *stack, totals *sum) {
    const ff_profile *own = stack_profile(stack->name);
    ff_profile neutral = *own, middle = *stack_profile("generic");
    take_constants(&neutral, &middle);
    score in = score_stack(stack, own), out = score_stack(stack, &neutral);
    if (in.rows < LEAST_ROWS || strcmp(own->name, "generic") == 0)
        return;
    printf("%-18s %-44s %5d", stack->name, "all, with the constants of \"generic\"", in.rows);
    print_error(in.median, in.mean);
    print_error(out.median, out.mean);
    printf("\n");
    add_total(sum, in, out);
}

static void print_total(const char *name, const totals *sum) {
    if (sum->count == 0)
        return;
    printf("%-18s %-44s %5d", "mean", name, sum->count);
    print_error(sum->in.median / sum->count, sum->in.mean / sum->count);
    print_error(sum->out.median / sum->count, sum->out.mean / sum->count);
    printf("\n\n");
}

static void held_out(published *all) {
    totals sources = {0}, stacks = {0};
    printf("%-18s %-44s %5s  as fitted      held out\n", "stack", "left out", "rows");
    printf("%-18s %-44s %5s  median   mean  median   mean\n", "", "", "");
    for (int i = 0; i < all->stacks; i++)
        for (int s = 0; s < all->stack[i].sources; s++)
            if (source_rows(&all->stack[i], s) >= LEAST_ROWS)
                held_out_source(&all->stack[i], s, &sources);
    print_total("sources left out", &sources);
    for (int i = 0; i < all->stacks; i++)
        held_out_stack(&all->stack[i], &stacks);
    print_total("stacks left out", &stacks);
}

static int fit_stack(published *all, const char *name) {
    for (int i = 0; i < all->stacks; i++) {
        stack_rows *stack = &all->stack[i];
        if (strcmp(stack->name, name) != 0)
            continue;
        ff_profile fitted = *stack_profile(name);
        fit_constants(stack, -1, &fitted);
        print_constants(stack_profile(name), &fitted);
        score in = score_stack(stack, stack_profile(name)), out = score_stack(stack, &fitted);
        printf("%-24s median %.2f mean %.2f -> median %.2f mean %.2f\n", name, 100 * in.median,
               100 * in.mean, 100 * out.median, 100 * out.mean);
        return 0;
    }
    fprintf(stderr, "no rows of stack %s\n", name);
    return 3;
}

int main(int argc, char **argv) {
    bool fits = argc > 3 && strcmp(argv[1], "fit") == 0;
    if (!fits && !(argc > 2 && strcmp(argv[1], "held-out") == 0)) {
        fprintf(stderr, "usage: fit_profiles held-out TABLE.csv... | fit STACK TABLE.csv...\n");
        return 2;
    }
    int first = fits ? 3 : 2, result = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line takes minutes */
    published all;
    published_read(&all, argv + first, argc - first);
    if (fits)
        result = fit_stack(&all, argv[2]);
    else
        held_out(&all);
    published_free(&all);
    return result;
}
