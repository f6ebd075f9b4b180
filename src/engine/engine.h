/* The engine: a training step that is priced is also run, by ranks with real collectives.
 *
 *   program (schedule x layer recipe x data-parallel actions)
 *      |  listing.h   one rank's list of things to do, copied from the program as it is
 *      v
 *   rank.h    one rank: weights (units.h), memory (store.h), what is in flight; `ff_rank_advance`
 *      |      does one thing of the list and returns: nothing in here blocks
 *      |  rows of operators: operators_layer.c, operators_ends.c, operators_step.c
 *      v
 *   kernels   gemm.h, rows.h, attention.h         messages   collective.h over transport.h
 *
 *   drivers call ff_rank_advance: loopback (all ranks in this process, loop.h) or the command line's
 *   forked processes
 *
 * The engine holds no schedule and no count of its own: what is not in the list is not done.
 *
 * Canonical order. Every layout whose sizes are powers of two gives the bits of one rank:
 *   - sums over tokens: a chain inside a leaf (an eighth of a sequence), a tree over the leaves of a
 *     microbatch, over microbatches, over data-parallel ranks (order.h);
 *   - sums over hidden width, heads and vocabulary: chains over eighths, a tree over the eighths,
 *     over tensor-parallel ranks (gemm.h); the vocabulary is padded to 128 * 8;
 *   - a loss is a sum of tokens' losses over a count known before the step;
 *   - the gradient norm has no order (norm.h); random numbers come from coordinates (random.h).
 * Two sums are taken apart by some layouts, and then by the rank that they are compared with too:
 * sequence parallelism sums gradients of norms and row biases over its parts of a microbatch's
 * tokens last (`token_parts`), and a tied embedding on two stages sums its two gradients last
 * (`tied_apart`); on one stage it adds them in each microbatch, so there bits hold for one division
 * into microbatches.
 *
 * On paper, for what comes next: CP ranks hold zigzag slices, which are subtrees of the folded
 * order, so token sums need nothing new; attention over a ring must merge by the tree over keys'
 * chunks. EP orders an expert's rows by token, then the token's choice, whatever rank they are on.
 */
#ifndef FF_ENGINE_ENGINE_H
#define FF_ENGINE_ENGINE_H

#include "engine/gemm.h"
#include "engine/rows.h"
#include "fivefold/diagnostics.h"
#include "fivefold/program.h"

typedef enum ff_update { FF_UPDATE_ADAMW, FF_UPDATE_SGD } ff_update;

/* Writes tokens 0..seq of one sequence of the global batch (the last is only a target). */
typedef void ff_deal(void *context, int64_t step, int64_t sequence, int64_t seq, int32_t *tokens);

struct ff_listing;
typedef struct ff_engine_options {
    int64_t seq;
    int64_t real_vocab; /* the model's own is padded */
    uint64_t seed;
    double deviation; /* of first weights */
    ff_update update;
    double rate, beta1, beta2, epsilon, decay;
    double clip;     /* largest gradient norm; 0: none */
    int token_parts; /* see above; 0: what the layout does */
    bool tied_apart;
    bool fast;   /* sums are plain chains: faster by the tree's work, other bits in each layout */
    bool poison; /* of freed memory */
    int kernel;  /* of gemm and rows: 0 the best */
    ff_deal *deal;
    void *deal_context;
    /* Changes a rank's list or what its program keeps before it runs: tests spoil them here. NULL: it
     * runs as planned. */
    void (*alter)(struct ff_listing *listing, const ff_program *program);
} ff_engine_options;
ff_engine_options ff_engine_defaults(void);

/* What all ranks share; constant while they run. */
typedef struct ff_setup {
    ff_model model;
    ff_layout layout;
    ff_mesh mesh;
    ff_engine_options options;
    ff_program *program;
    int64_t tokens, shard_tokens; /* of a microbatch: all; what SP leaves a rank between blocks */
    int64_t batch_tokens;         /* of the step */
    bool microbatch_major;        /* how sequences are dealt */
} ff_setup;

/* The shape as the engine trains it: vocabulary padded, no dropout; of a bare shape, 1e-5 in norms and
 * 10,000 in rope. */
void ff_engine_adapt(ff_model *model);
/* How the engine's kernels are, for program and ledger. */
ff_kernels ff_engine_kernels(void);
/* FF_NO with findings (FF0701..) when the engine cannot run the model or the layout. */
ff_status ff_engine_accepts(const ff_model *model, const ff_layout *layout, int64_t seq,
                            ff_diagnostics *findings);
/* The same; the layout is derived, its recipe fp32. Freed with ff_setup_free. */
ff_status ff_setup_create(const ff_model *model, const ff_layout *layout,
                          const ff_engine_options *options, ff_diagnostics *findings,
                          ff_setup **setup);
void ff_setup_free(ff_setup *setup);

/* The setup of the one rank that a layout is compared with: same batch, same microbatches. */
ff_layout ff_engine_single(const ff_layout *layout);
/* Whether sizes are powers of two and divide as the canonical order needs; else why not. */
bool ff_engine_exact(const ff_setup *setup, const char **why);

#endif
