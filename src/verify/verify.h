/* The engine held against the program and the ledger: is what is run what was priced?
 *
 *     layout -+-> all its ranks, some steps --> losses, gradients, weights --+-- equal, bit for bit?
 *             '-> one rank, the same batch  --> losses, gradients, weights --'
 *     bytes and calls that the transport counted   =  the program's, by collective, group, phase, layer
 *     peak bytes of each rank and category         =  the ledger's, recipe fp32
 *     what each rank did, in order                 =  the program's list
 *
 * Runs twice: with AdamW and with SGD, since Adam hides errors of scale. Bits are compared where
 * the canonical order holds (engine.h); elsewhere a bound: k * C^(layers + 1) * 2^-24 of the
 * largest number, k 64 (or twice the root of the longest chain) and C 1.03, after the depth bound
 * of 2506.09280 (theorem 5.3), and 1e-11 in fp64. There only SGD's gradients and weights are
 * judged: Adam scales the rounding of a gradient that is 0 (a key's bias) up to a whole step.
 *
 * What the ledger does not hold: what collectives receive into, and kernels' scratch. What the plan
 * says of working memory is an upper estimate; it is shown and not compared. */
#ifndef FF_VERIFY_VERIFY_H
#define FF_VERIFY_VERIFY_H

#include "engine/loop.h"
#include "fivefold/facts.h"

typedef struct ff_verify_job {
    const ff_model *model; /* adapted (ff_engine_adapt) */
    const ff_layout *layout;
    ff_engine_options options; /* deal NULL: words are drawn */
    int64_t steps;
    uint64_t shuffle;                   /* of the ranks' turns */
    bool as_processes, processes_equal; /* run so besides by the caller, with the same end */
} ff_verify_job;

/* Words drawn by step, sequence and place; the context is the vocabulary, an int64_t. */
ff_deal ff_deal_words;

/* FF_OK when all is equal, FF_NO when not; findings say what. Fills the facts' root. */
ff_status ff_verify(const ff_verify_job *job, ff_diagnostics *findings, ff_facts *facts);

#endif
