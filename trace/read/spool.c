/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/spool.h"

#include "base/whole.h"
#include <errno.h>
#include <pthread.h>

#define CHUNK ((uint64_t)1 << 20)

/*
 * Chunk i holds the places from i * CHUNK. The first ones stay in memory; the others lie one after the other
 * in the file, but for the last, which is collected in tail.
 */
struct spool {
    pthread_mutex_t lock;
    uint8_t **chunks;
    uint64_t chunks_max, n_chunks;
    uint64_t size;
    int fd;
    uint8_t *tail;
    int error;
};

int spool_new(uint64_t memory_max, int spill_fd, struct spool **ret)
{
    _cleanup_(spool_freep) struct spool *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->fd = spill_fd;
    s->chunks_max = memory_max / CHUNK;
    s->chunks = calloc(s->chunks_max + 1, sizeof(*s->chunks));
    if (!s->chunks)
        return -ENOMEM;
    *ret = TAKE_PTR(s);
    return 0;
}

struct spool *spool_free(struct spool *s)
{
    if (!s)
        return NULL;
    for (uint64_t i = 0; i < s->n_chunks; i++)
        free(s->chunks[i]);
    free(s->chunks);
    free(s->tail);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

static uint64_t file_offset(const struct spool *s, uint64_t chunk)
{
    return (chunk - s->chunks_max) * CHUNK;
}

/* Where the bytes of a chunk lie in memory; NULL: in the file. */
static uint8_t *chunk_memory(const struct spool *s, uint64_t chunk)
{
    if (chunk < s->chunks_max)
        return s->chunks[chunk];
    return chunk == s->size / CHUNK ? s->tail : NULL;
}

static int begin_chunk(struct spool *s, uint64_t chunk)
{
    if (chunk < s->chunks_max) {
        s->chunks[chunk] = malloc(CHUNK);
        if (!s->chunks[chunk])
            return -ENOMEM;
        s->n_chunks++;
        return 0;
    }
    if (s->fd < 0)
        return -ENOMEM;
    if (!s->tail)
        s->tail = malloc(CHUNK);
    return s->tail ? 0 : -ENOMEM;
}

static int append(struct spool *s, const uint8_t *p, size_t size)
{
    while (size > 0) {
        uint64_t chunk = s->size / CHUNK, at = s->size % CHUNK;
        size_t n = MIN(size, CHUNK - at);
        int r = at == 0 ? begin_chunk(s, chunk) : 0;

        if (r < 0)
            return r;
        memcpy(chunk_memory(s, chunk) + at, p, n);
        if (at + n == CHUNK && chunk >= s->chunks_max) {
            r = pwrite_whole(s->fd, s->tail, CHUNK, file_offset(s, chunk));
            if (r < 0)
                return r;
        }
        s->size += n;
        p += n;
        size -= n;
    }
    return 0;
}

int spool_write(struct spool *s, const void *data, size_t size, uint64_t *ret_place)
{
    int r;

    pthread_mutex_lock(&s->lock);
    *ret_place = s->size;
    /* An error leaves half a piece behind: nothing more is taken. */
    if (s->error == 0)
        s->error = append(s, data, size);
    r = s->error;
    pthread_mutex_unlock(&s->lock);
    return r;
}

int spool_read(struct spool *s, uint64_t place, void *data, size_t size)
{
    uint8_t *out = data;

    while (size > 0) {
        uint64_t chunk = place / CHUNK, at = place % CHUNK;
        size_t n = MIN(size, CHUNK - at);
        const uint8_t *memory;
        bool there;

        pthread_mutex_lock(&s->lock);
        there = place + n <= s->size;
        memory = there ? chunk_memory(s, chunk) : NULL;
        if (memory)
            memcpy(out, memory + at, n);
        pthread_mutex_unlock(&s->lock);

        if (!there)
            return -EINVAL;
        if (!memory) {
            ssize_t got = pread_whole(s->fd, out, n, file_offset(s, chunk) + at);

            if (got < (ssize_t)n)
                return got < 0 ? (int)got : -EIO;
        }
        out += n;
        place += n;
        size -= n;
    }
    return 0;
}

uint64_t spool_memory(struct spool *s)
{
    uint64_t n;

    pthread_mutex_lock(&s->lock);
    n = (s->n_chunks + (s->tail != NULL)) * CHUNK;
    pthread_mutex_unlock(&s->lock);
    return n;
}
