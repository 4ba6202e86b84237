/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/pipe.h"

#include "trace/read/feed.h"
#include <errno.h>
#include <pthread.h>

#define BUFFER_SIZE (FEED_MARGIN + PIPE_PIECE + SCAN_PAD)

struct pipe {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t given, done; /* pieces that the writer gave, that the reader is done with */
    bool taken;           /* the reader holds the piece `done` */
    bool ended, given_up;
    size_t filled; /* the writer's: bytes in the piece that is being filled */
    size_t last_size;
    char *buffers; /* PIPE_PIECES of BUFFER_SIZE */
};

int pipe_new(struct pipe **ret)
{
    struct pipe *p = calloc(1, sizeof(*p));

    if (!p)
        return -ENOMEM;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    /* Zeroed, as the scanner may look behind the end of a piece. */
    p->buffers = calloc(PIPE_PIECES, BUFFER_SIZE);
    if (!p->buffers) {
        pipe_free(p);
        return -ENOMEM;
    }
    *ret = p;
    return 0;
}

struct pipe *pipe_free(struct pipe *p)
{
    if (!p)
        return NULL;
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->buffers);
    free(p);
    return NULL;
}

static char *piece(const struct pipe *p, uint64_t number)
{
    return p->buffers + number % PIPE_PIECES * BUFFER_SIZE + FEED_MARGIN;
}

static bool wait_for_buffer(struct pipe *p)
{
    bool ok;

    pthread_mutex_lock(&p->lock);
    while (p->given - p->done == PIPE_PIECES && !p->given_up)
        pthread_cond_wait(&p->changed, &p->lock);
    ok = !p->given_up;
    pthread_mutex_unlock(&p->lock);
    return ok;
}

uint8_t *pipe_room(struct pipe *p, size_t *ret_size)
{
    if (p->filled == 0 && !wait_for_buffer(p))
        return NULL;
    *ret_size = PIPE_PIECE - p->filled;
    return (uint8_t *)piece(p, p->given) + p->filled;
}

static void give(struct pipe *p, bool last)
{
    pthread_mutex_lock(&p->lock);
    if (last) {
        p->ended = true;
        p->last_size = p->filled;
    }
    p->given++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    p->filled = 0;
}

void pipe_filled(struct pipe *p, size_t size)
{
    p->filled += size;
    if (p->filled == PIPE_PIECE)
        give(p, false);
}

void pipe_end(struct pipe *p)
{
    if (p->filled > 0 || wait_for_buffer(p))
        give(p, true);
}

size_t pipe_tail(const struct pipe *p, char *ret, size_t size)
{
    size_t last = MIN(p->last_size, size), before = 0;

    if (p->given > 1)
        before = MIN((size_t)PIPE_PIECE, size) - last;
    if (before > 0)
        memcpy(ret, piece(p, p->given - 2) + PIPE_PIECE - before, before);
    if (last > 0)
        memcpy(ret + before, piece(p, p->given - 1) + p->last_size - last, last);
    return before + last;
}

char *pipe_next(struct pipe *p, size_t *ret_size, bool *ret_last)
{
    char *next = NULL;

    pthread_mutex_lock(&p->lock);
    if (p->taken) {
        p->done++;
        pthread_cond_broadcast(&p->changed);
    }
    while (p->given == p->done && !p->given_up)
        pthread_cond_wait(&p->changed, &p->lock);
    p->taken = !p->given_up;
    if (p->taken) {
        *ret_last = p->ended && p->done + 1 == p->given;
        *ret_size = *ret_last ? p->last_size : PIPE_PIECE;
        next = piece(p, p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return next;
}

void pipe_give_up(struct pipe *p)
{
    pthread_mutex_lock(&p->lock);
    p->given_up = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
