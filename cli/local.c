/* See local.h. */
#include "cli/local.h"

#include "base/diagnose.h"
#include "cli/rings.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WATCH_US = 2000 };

struct ff_local {
    const ff_setup *setup;
    int world;
    const ff_passes *passes;
    size_t bytes;
    char *rings;             /* of the transport */
    ff_local_report *report; /* [rank] */
    real *losses;            /* [pass][sequence of microbatches in canonical order] */
    int64_t losses_a_pass;
    double *norms; /* [pass], by rank 0 */
    pid_t *process;
};

/* --- one rank's process --- */

static ff_progress run_step(ff_rank *rank, int64_t step, double rate) {
    int idle = 0;
    ff_rank_begin_step(rank, step);
    rank->rate = rate;
    for (;;) {
        ff_progress progress = ff_rank_advance(rank);
        if (progress == FF_DONE || progress == FF_FAULT)
            return progress;
        idle = progress == FF_WAITS ? idle + 1 : 0;
        ff_rings_pause(idle);
    }
}

static void tell_losses(const ff_local *local, const ff_rank *rank, int64_t pass) {
    const ff_layout *layout = &local->setup->layout;
    real *to = local->losses + pass * local->losses_a_pass;
    if (rank->stage != layout->pp - 1 || rank->tp_index != 0)
        return;
    for (int64_t i = 0; i < layout->microbatches; i++)
        to[local->setup->microbatch_major ? i * layout->dp + rank->dp_index
                                          : rank->dp_index * layout->microbatches + i] =
            rank->losses[i];
}

static bool run_passes(const ff_local *local, ff_rank *rank) {
    const ff_passes *p = local->passes;
    for (int64_t pass = 0; pass < p->count; pass++) {
        if (run_step(rank, p->step[pass], p->rate(p->context, p->step[pass])) != FF_DONE)
            return false;
        tell_losses(local, rank, pass);
        if (rank->id == 0)
            local->norms[pass] = rank->norm;
        __atomic_store_n(&local->report[rank->id].passes_done, pass + 1, __ATOMIC_RELEASE);
    }
    return true;
}

static int run_rank(ff_local *local, int id) {
    ff_transport *transport = ff_rings_open(local->rings, local->world);
    ff_local_report *report = &local->report[id];
    ff_rank *rank = ff_rank_create(local->setup, id, transport);
    bool good = rank->fault[0] == '\0' && run_passes(local, rank);
    if (good)
        ff_digest_rank(rank, &report->digest);
    else
        ff_rank_describe(rank, report->fault, sizeof report->fault);
    ff_rank_free(rank);
    ff_rings_close(transport);
    return good ? 0 : 1;
}

/* --- the parent --- */

static size_t rounded(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

ff_local *ff_local_create(const ff_setup *setup, const ff_passes *passes) {
    ff_local *local = ff_engine_array(1, sizeof *local);
    local->setup = setup;
    local->world = (int)ff_layout_world(&setup->layout);
    local->passes = passes;
    local->losses_a_pass = setup->layout.dp * setup->layout.microbatches;
    local->process = ff_engine_array(local->world, sizeof *local->process);
    size_t rings = rounded(ff_rings_bytes(local->world));
    size_t reports = rounded((size_t)local->world * sizeof(ff_local_report));
    size_t losses = rounded((size_t)(passes->count * local->losses_a_pass) * sizeof(real));
    local->bytes = rings + reports + losses + rounded((size_t)passes->count * sizeof(double));
    char *memory = mmap(NULL, local->bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(local->process);
        free(local);
        return NULL;
    }
    local->rings = memory;
    local->report = (ff_local_report *)(void *)(memory + rings);
    local->losses = (real *)(void *)(memory + rings + reports);
    local->norms = (double *)(void *)(memory + rings + reports + losses);
    return local;
}

void ff_local_free(ff_local *local) {
    if (local == NULL)
        return;
    munmap(local->rings, local->bytes);
    free(local->process);
    free(local);
}

const ff_local_report *ff_local_report_of(const ff_local *local, int rank) {
    return &local->report[rank];
}

static void end_all(const ff_local *local) {
    for (int r = 0; r < local->world; r++)
        if (local->process[r] > 0)
            kill(local->process[r], SIGKILL);
    for (int r = 0; r < local->world; r++)
        if (local->process[r] > 0)
            waitpid(local->process[r], NULL, 0);
}

/* Ranks die with their parent. */
static bool fork_all(ff_local *local) {
    pid_t parent = getpid();
    for (int r = 0; r < local->world; r++) {
        pid_t process = fork();
        if (process < 0)
            return false;
        if (process == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(getppid() == parent ? run_rank(local, r) : 1);
        }
        local->process[r] = process;
    }
    return true;
}

static double loss_of(const ff_local *local, int64_t pass) {
    const real *from = local->losses + pass * local->losses_a_pass;
    real *sum = ff_engine_array(local->losses_a_pass, sizeof *sum);
    memcpy(sum, from, (size_t)local->losses_a_pass * sizeof *sum);
    double loss = ff_loss_of(sum, local->losses_a_pass, local->setup->batch_tokens);
    free(sum);
    return loss;
}

static void tell_passes(const ff_local *local, int64_t *seen) {
    const ff_passes *p = local->passes;
    int64_t least = p->count;
    for (int r = 0; r < local->world; r++) {
        int64_t done = __atomic_load_n(&local->report[r].passes_done, __ATOMIC_ACQUIRE);
        least = done < least ? done : least;
    }
    for (; *seen < least; ++*seen)
        p->told(p->context, p->step[*seen], loss_of(local, *seen), local->norms[*seen]);
}

/* A rank that ended badly: by its own report, or by the system's. */
static ff_status judge_end(const ff_local *local, int rank, int how, ff_diagnostics *findings) {
    long long pass = (long long)local->report[rank].passes_done + 1;
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return FF_OK;
    if (WIFEXITED(how) && local->report[rank].fault[0] != '\0') {
        ff_report(findings, FF0703, FF_NOWHERE, "%s", local->report[rank].fault);
        return FF_NO;
    }
    if (WIFSIGNALED(how))
        ff_report(findings, FF0707, FF_NOWHERE, "rank %d died of signal %d in pass %lld", rank,
                  WTERMSIG(how), pass);
    else
        ff_report(findings, FF0707, FF_NOWHERE, "rank %d ended with status %d in pass %lld", rank,
                  WEXITSTATUS(how), pass);
    return FF_ENVIRONMENT;
}

static ff_status watch(ff_local *local, ff_diagnostics *findings) {
    int64_t seen = 0;
    for (int alive = local->world; alive > 0;) {
        for (int r = 0; r < local->world; r++) {
            int how;
            if (local->process[r] <= 0 || waitpid(local->process[r], &how, WNOHANG) <= 0)
                continue;
            local->process[r] = 0;
            alive--;
            ff_status status = judge_end(local, r, how, findings);
            if (status != FF_OK) {
                end_all(local);
                return status;
            }
        }
        tell_passes(local, &seen);
        usleep(WATCH_US);
    }
    tell_passes(local, &seen);
    return FF_OK;
}

ff_status ff_local_run(ff_local *local, ff_diagnostics *findings) {
    if (fork_all(local))
        return watch(local, findings);
    ff_report(findings, FF0707, FF_NOWHERE, "the system makes no more processes: %s",
              strerror(errno));
    end_all(local);
    return FF_ENVIRONMENT;
}
