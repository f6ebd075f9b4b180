/* See compare.h. */
#include "verify/compare.h"

#include "engine/blocks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const real *shard_of(const ff_rank *rank, const ff_chunk *chunk, ff_compared what,
                            const ff_own_span *s) {
    if (what == FF_COMPARE_WEIGHTS)
        return rank->zero == 3 ? chunk->shard + s->shard : chunk->weights + s->begin;
    return rank->zero <= 1 ? chunk->full[0].work + s->begin : chunk->sharded.work + s->shard;
}

static void copy_shards(const ff_rank *rank, const ff_chunk *chunk, ff_compared what, real *to) {
    for (int piece = 0; piece < chunk->pieces; piece++) {
        ff_own_span s = ff_own_span_of(rank, chunk, piece);
        memcpy(to + s.begin, shard_of(rank, chunk, what, &s),
               (size_t)(s.end - s.begin) * sizeof *to);
    }
}

/* Weights that every rank holds in full are taken as this rank has them. */
real *ff_assemble_chunk(const ff_loop *set, const ff_rank *rank, int64_t chunk, ff_compared what) {
    const ff_chunk *own = &rank->chunk[chunk];
    real *all = ff_engine_array(own->elements, sizeof *all);
    if (what == FF_COMPARE_WEIGHTS && rank->zero < 3) {
        memcpy(all, own->weights, (size_t)own->elements * sizeof *all);
        return all;
    }
    for (int r = 0; r < set->world; r++) {
        const ff_rank *peer = set->rank[r];
        bool same = peer->stage == rank->stage && peer->tp_index == rank->tp_index;
        if (same && (rank->shard_ranks > 1 || peer == rank))
            copy_shards(peer, &peer->chunk[chunk], what, all);
    }
    return all;
}

static const ff_part *find_part(const ff_chunk *single, const ff_unit *unit, ff_role role,
                                int64_t *at) {
    for (int u = 0; u < single->units; u++) {
        const ff_unit *s = &single->unit[u];
        if (s->kind != unit->kind || s->layer != unit->layer)
            continue;
        const ff_part *part = ff_unit_part(s, role);
        if (part != NULL) {
            *at = s->offset + part->offset;
            return part;
        }
    }
    /* A tied copy: the embedding, which is the last unit. */
    const ff_unit *last = &single->unit[single->units - 1];
    const ff_part *part = ff_unit_part(last, FF_ROLE_EMBEDDING);
    *at = last->offset + part->offset;
    return part;
}

static double largest_of(const real *numbers, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)numbers[i]));
    return largest;
}

static void compare_part(const ff_part *part, const real *own, const ff_part *whole,
                         const real *single, double size, ff_difference *d) {
    int64_t copy_elements = whole->rows * whole->columns;
    for (int64_t i = 0; i < part->elements; i++) {
        int64_t copy = i / (part->rows * part->columns), in = i % (part->rows * part->columns);
        int64_t row = part->first_row + in / part->columns;
        int64_t column = part->first_column + in % part->columns;
        real other = single[copy * copy_elements + row * whole->columns + column];
        d->elements++;
        if (memcmp(&other, &own[i], sizeof other) == 0)
            continue;
        double difference = fabs((double)own[i] - (double)other) / (size > 0 ? size : 1);
        d->unequal++;
        if (difference > d->largest || difference != difference || d->where[0] == '\0') {
            d->largest = difference;
            snprintf(d->where, sizeof d->where, "%s[%lld,%lld]", part->tensor.name, (long long)row,
                     (long long)column);
        }
    }
}

void ff_compare_runs(const ff_loop *set, const ff_loop *single, ff_compared what,
                     ff_difference *difference) {
    *difference = (ff_difference){0};
    real *reference = ff_assemble_chunk(single, single->rank[0], 0, what);
    double size = largest_of(reference, single->rank[0]->chunk[0].elements);
    for (int r = 0; r < set->world; r++) {
        const ff_rank *rank = set->rank[r];
        for (int64_t c = 0; c < set->setup->layout.vpp; c++) {
            const ff_chunk *chunk = &rank->chunk[c];
            real *own = ff_assemble_chunk(set, rank, c, what);
            for (int u = 0; u < chunk->units; u++)
                for (int p = 0; p < chunk->unit[u].parts; p++) {
                    const ff_part *part = &chunk->unit[u].part[p];
                    int64_t at;
                    const ff_part *whole =
                        find_part(&single->rank[0]->chunk[0], &chunk->unit[u], part->role, &at);
                    compare_part(part, own + chunk->unit[u].offset + part->offset, whole,
                                 reference + at, size, difference);
                }
            free(own);
        }
    }
    free(reference);
}
