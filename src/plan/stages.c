#include "plan/stages.h"

#include <string.h>

static bool alike(const ff_chunk_content *a, const ff_chunk_content *b) {
    return a->layers == b->layers && a->embedding == b->embedding && a->head == b->head &&
           memcmp(a->of_kind, b->of_kind, sizeof a->of_kind) == 0 &&
           memcmp(a->recomputed_of_kind, b->recomputed_of_kind, sizeof a->recomputed_of_kind) == 0;
}

static int16_t content_index(ff_stage_map *map, const ff_chunk_content *content) {
    for (int i = map->contents - 1; i >= 0; i--)
        if (alike(&map->content[i], content))
            return (int16_t)i;
    map->content[map->contents] = *content;
    return (int16_t)map->contents++;
}

static int16_t class_index(ff_stage_map *map, int64_t stage, int64_t vpp) {
    size_t bytes = (size_t)vpp * sizeof *map->content_of;
    for (int i = map->classes - 1; !map->apart && i >= 0; i--)
        if (memcmp(&map->content_of[map->first_stage[i] * vpp], &map->content_of[stage * vpp],
                   bytes) == 0)
            return (int16_t)i;
    map->first_stage[map->classes] = (int32_t)stage;
    return (int16_t)map->classes++;
}

ff_stage_map *ff_stage_map_make(ff_arena *arena, const ff_model *model, const ff_layout *layout,
                                bool apart) {
    int64_t chunks = layout->pp * layout->vpp;
    ff_stage_map *map = FF_ARENA_NEW(arena, ff_stage_map);
    map->apart = apart;
    map->content = FF_ARENA_ARRAY(arena, chunks, ff_chunk_content);
    map->content_of = FF_ARENA_ARRAY(arena, chunks, int16_t);
    map->first_stage = FF_ARENA_ARRAY(arena, layout->pp, int32_t);
    map->class_of = FF_ARENA_ARRAY(arena, layout->pp, int16_t);
    for (int64_t stage = 0; stage < layout->pp; stage++) {
        for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
            ff_chunk_content content;
            ff_program_chunk(model, layout, stage, chunk, &content);
            map->content_of[stage * layout->vpp + chunk] = content_index(map, &content);
        }
        map->class_of[stage] = class_index(map, stage, layout->vpp);
    }
    return map;
}
