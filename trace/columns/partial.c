/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/partial.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fetched beyond what is needed where the page before is there: then a column is being read from one end to the other. */
#define AHEAD_BYTES (256 << 10)
#define AHEAD_PAGES (AHEAD_BYTES / LAYOUT_PAGE)

enum partial_state {
    PART_MISSING,
    PART_FOUND, /* in the file, from an earlier process */
    PART_FETCHED,
};

struct partial {
    struct columns_fetch fetch;
    uint64_t size, n_pages;
    pthread_mutex_t
        lock; /* of all that follows, and during a fetch: threads that need the same page wait for it */
    uint8_t *states; /* enum partial_state for each page */
};

/* Pages that lie completely in the parts of the file that were written. */
static void partial_find_pages(struct partial *p, int fd)
{
    off_t end = 0, begin;

    while ((begin = lseek(fd, end, SEEK_DATA)) >= 0 && (end = lseek(fd, begin, SEEK_HOLE)) > begin) {
        uint64_t first = ((uint64_t)begin + LAYOUT_PAGE - 1) / LAYOUT_PAGE;
        uint64_t after = (uint64_t)end >= p->size ? p->n_pages : (uint64_t)end / LAYOUT_PAGE;
        for (uint64_t page = first; page < after; page++)
            p->states[page] = PART_FOUND;
    }
}

int partial_new(int fd, uint64_t size, const struct columns_fetch *fetch, struct partial **ret)
{
    _cleanup_(partial_freep) struct partial *p = calloc(1, sizeof(*p));
    struct stat st;

    if (!p)
        return -ENOMEM;
    *p = (struct partial){.fetch = *fetch, .size = size, .n_pages = (size + LAYOUT_PAGE - 1) / LAYOUT_PAGE};
    pthread_mutex_init(&p->lock, NULL);
    p->states = calloc(p->n_pages + 1, 1);
    if (!p->states)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size > size)
        return -ESTALE;
    /* A last page that was cut would be data up to the end afterwards. */
    if ((uint64_t)st.st_size == size)
        partial_find_pages(p, fd);
    else if (ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)size) < 0)
        return -errno;
    *ret = TAKE_PTR(p);
    return 0;
}

struct partial *partial_free(struct partial *p)
{
    if (!p)
        return NULL;
    pthread_mutex_destroy(&p->lock);
    free(p->states);
    free(p);
    return NULL;
}

/* Pages [first, after), with the lock. */
static int partial_fetch(struct partial *p, uint64_t first, uint64_t after)
{
    uint64_t offset = first * LAYOUT_PAGE;
    int r = p->fetch.read(p->fetch.arg, offset, MIN(after * LAYOUT_PAGE, p->size) - offset);

    for (uint64_t page = first; page < after && r >= 0; page++)
        p->states[page] = PART_FETCHED;
    return r;
}

int partial_need(struct partial *p, uint64_t offset, uint64_t size)
{
    uint64_t page = offset / LAYOUT_PAGE, after;
    int r = 0;

    if (size == 0 || offset >= p->size || size > p->size - offset)
        return size == 0 ? 0 : -EINVAL;
    after = (offset + size - 1) / LAYOUT_PAGE + 1;
    pthread_mutex_lock(&p->lock);
    while (page < after && r >= 0) {
        uint64_t end = page, wanted = page > 0 && p->states[page - 1] != PART_MISSING ? AHEAD_PAGES : 1;
        if (p->states[page] != PART_MISSING) {
            page++;
            continue;
        }
        /* As many missing pages as follow, until enough lie ahead. */
        while (end < p->n_pages && p->states[end] == PART_MISSING && end < MAX(after, page + wanted))
            end++;
        r = partial_fetch(p, page, end);
        page = end;
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

bool partial_again(struct partial *p, uint64_t offset, uint64_t size)
{
    uint64_t first = offset / LAYOUT_PAGE, after = (offset + size - 1) / LAYOUT_PAGE + 1;
    bool fetched = false;

    pthread_mutex_lock(&p->lock);
    for (uint64_t page = first; page < after; page++)
        if (p->states[page] == PART_FOUND)
            fetched = partial_fetch(p, page, page + 1) >= 0 || fetched;
    pthread_mutex_unlock(&p->lock);
    return fetched;
}
