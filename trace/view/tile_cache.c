/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/view/tile_cache.h"

#include "base/alloc.h"

/* Tiles are kept that show at least this part of the trace. There are twice as many of these at most, of each group of
 * lanes. */
#define TILE_PARTS 64
#define TILES_MAX  256
#define BYTES_MAX  (16U << 20)

struct tile_key {
    int64_t level, index, first_lane, last_lane;
    bool may_be_gzip;
};

struct tile_kept {
    struct tile_key key;
    struct view_answer answer; /* bytes is NULL where there is none */
    uint64_t used;
};

struct tile_cache {
    struct tile_kept tiles[TILES_MAX];
    size_t bytes;
    uint64_t uses;
};

struct tile_cache *tile_cache_new(void)
{
    return xcalloc(1, sizeof(struct tile_cache));
}

static void tile_cache_drop(struct tile_cache *cache, struct tile_kept *tile)
{
    if (tile->answer.bytes)
        cache->bytes -= tile->answer.size;
    free(TAKE_PTR(tile->answer.bytes));
}

struct tile_cache *tile_cache_free(struct tile_cache *cache)
{
    if (!cache)
        return NULL;
    for (size_t i = 0; i < TILES_MAX; i++)
        tile_cache_drop(cache, &cache->tiles[i]);
    free(cache);
    return NULL;
}

/* What a request leaves out is -1. */
static struct tile_key tile_key_of(const json_t *request)
{
    return (struct tile_key){.level = json_get_int(request, "level", -1),
                             .index = json_get_int(request, "index", -1),
                             .first_lane = json_get_int(request, "first_lane", -1),
                             .last_lane = json_get_int(request, "last_lane", -1),
                             .may_be_gzip = json_get_bool(request, "gzip", false)};
}

static bool tile_key_equal(const struct tile_key *a, const struct tile_key *b)
{
    return a->level == b->level && a->index == b->index && a->first_lane == b->first_lane &&
           a->last_lane == b->last_lane && a->may_be_gzip == b->may_be_gzip;
}

static struct tile_kept *tile_cache_find(struct tile_cache *cache, const struct tile_key *key)
{
    for (size_t i = 0; i < TILES_MAX; i++)
        if (cache->tiles[i].answer.bytes && tile_key_equal(&cache->tiles[i].key, key))
            return &cache->tiles[i];
    return NULL;
}

static char *tile_copy(const struct view_answer *answer)
{
    char *copy = malloc(answer->size);

    if (copy)
        memcpy(copy, answer->bytes, answer->size);
    return copy;
}

bool tile_cache_get(const struct trace_view *v, const json_t *request, struct view_answer *ret)
{
    const struct tile_key key = tile_key_of(request);
    struct tile_kept *tile = tile_cache_find(v->tiles, &key);
    char *copy = tile ? tile_copy(&tile->answer) : NULL;

    if (!copy)
        return false;
    *ret = tile->answer;
    ret->bytes = copy;
    tile->used = ++v->tiles->uses;
    return true;
}

static struct tile_kept *tile_cache_oldest(struct tile_cache *cache)
{
    struct tile_kept *oldest = NULL;

    for (size_t i = 0; i < TILES_MAX; i++)
        if (cache->tiles[i].answer.bytes && (!oldest || cache->tiles[i].used < oldest->used))
            oldest = &cache->tiles[i];
    return oldest;
}

static struct tile_kept *tile_cache_room(struct tile_cache *cache)
{
    for (size_t i = 0; i < TILES_MAX; i++)
        if (!cache->tiles[i].answer.bytes)
            return &cache->tiles[i];
    struct tile_kept *oldest = tile_cache_oldest(cache);
    tile_cache_drop(cache, oldest);
    return oldest;
}

static bool tile_shows_much(const struct trace_view *v, int64_t level)
{
    int64_t span;

    return level >= 0 && level <= VIEW_TILE_LEVEL_MAX &&
           (__builtin_mul_overflow(INT64_C(1) << level, (int64_t)VIEW_TILE_PIXELS, &span) ||
            span >= view_since(v, v->last_ns) / TILE_PARTS);
}

void tile_cache_put(const struct trace_view *v, const json_t *request, const struct view_answer *answer)
{
    struct tile_cache *cache = v->tiles;
    const struct tile_key key = tile_key_of(request);

    if (!tile_shows_much(v, key.level) || answer->size == 0 || answer->size > BYTES_MAX / 4 ||
        tile_cache_find(cache, &key))
        return;
    char *copy = tile_copy(answer);
    if (!copy)
        return;
    while (cache->bytes + answer->size > BYTES_MAX)
        tile_cache_drop(cache, tile_cache_oldest(cache));
    struct tile_kept *tile = tile_cache_room(cache);
    *tile = (struct tile_kept){key, *answer, ++cache->uses};
    tile->answer.bytes = copy;
    cache->bytes += answer->size;
}
