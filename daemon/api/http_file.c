/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_file.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/offload.h"
#include "daemon/api/http.h"
#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <strings.h>

/* One iteration of the loop sends at most this much to a client, however fast it reads. */
#define SLICE_SIZE (INT64_C(1) << 20)
/* And of what it must read itself. */
#define BYTES_SIZE (INT64_C(256) << 10)

struct http_file {
    struct evbuffer_file_segment *segment; /* NULL: it is read on threads */
    int fd;                                /* the segment's */
    int64_t offset, end;
    struct offload *offload;
    uint64_t queue;
    struct fetch *fetch; /* in progress, or done */
    void (*ready)(void *arg);
    void *arg;
};

/* A slice that a thread reads. */
struct fetch {
    struct http_file *file; /* NULL: nobody waits for it */
    struct offload *offload;
    uint64_t queue;
    int fd;
    int64_t offset;
    size_t size;
    char *data;
    ssize_t n; /* result of pread(); 0: none yet */
    bool done;
};

/* -- On threads --------------------------------------------------------------------------------------- */

static void file_close_work(void *arg)
{
    close(*(int *)arg);
}

static void file_close_on_thread(struct offload *offload, uint64_t queue, int fd)
{
    int *copy = xcalloc(1, sizeof(*copy));

    *copy = fd;
    offload_run_in(offload, queue, file_close_work, free, copy);
}

static void file_fetch_work(void *arg)
{
    struct fetch *fetch = arg;
    fetch->n = pread(fetch->fd, fetch->data, fetch->size, fetch->offset);
}

static void file_fetch_free(struct fetch *fetch)
{
    free(fetch->data);
    free(fetch);
}

static void file_on_fetched(void *arg)
{
    struct fetch *fetch = arg;

    if (!fetch->file) {
        file_close_on_thread(fetch->offload, fetch->queue, fetch->fd);
        file_fetch_free(fetch);
        return;
    }
    fetch->done = true;
    fetch->file->ready(fetch->file->arg);
}

static void file_begin_fetch(struct http_file *f)
{
    f->fetch = xcalloc(1, sizeof(*f->fetch));
    *f->fetch = (struct fetch){.file = f,
                               .offload = f->offload,
                               .queue = f->queue,
                               .fd = f->fd,
                               .offset = f->offset,
                               .size = (size_t)MIN(f->end - f->offset, BYTES_SIZE)};
    f->fetch->data = xcalloc(f->fetch->size, 1);
    offload_run_in(f->offload, f->queue, file_fetch_work, file_on_fetched, f->fetch);
}

static void file_free_data(const void *data, size_t size, void *arg)
{
    free(arg);
}

static int file_feed_fetched(struct http_file *f, struct evbuffer *out)
{
    struct fetch *fetch = f->fetch;

    if (!fetch) {
        if (f->offset == f->end)
            return 0;
        file_begin_fetch(f);
        return 1;
    }
    if (!fetch->done)
        return 1;
    f->fetch = NULL;
    bool complete = fetch->n >= 0 && (size_t)fetch->n == fetch->size;
    if (complete && evbuffer_add_reference(out, fetch->data, fetch->size, file_free_data, fetch->data) == 0) {
        f->offset += (int64_t)fetch->size;
        fetch->data = NULL;
    } else {
        complete = false;
    }
    file_fetch_free(fetch);
    return complete ? 1 : -EIO;
}

void http_file_on_ready(struct http_file *f, void (*ready)(void *arg), void *arg)
{
    f->ready = ready;
    f->arg = arg;
}

/* -- The object --------------------------------------------------------------------------------------- */

int http_file_new(const struct http_download *take, int64_t offset, int64_t size, struct http_file **ret)
{
    struct evbuffer_file_segment *segment = NULL;

    if (!take->offload) {
        segment = evbuffer_file_segment_new(take->fd, 0, offset + size, EVBUF_FS_CLOSE_ON_FREE);
        if (!segment) {
            close(take->fd);
            return -EIO;
        }
    }
    struct http_file *f = xcalloc(1, sizeof(*f));
    *f = (struct http_file){.segment = segment,
                            .fd = take->fd,
                            .offset = offset,
                            .end = offset + size,
                            .offload = take->offload,
                            .queue = take->queue};
    *ret = f;
    return 0;
}

struct http_file *http_file_free(struct http_file *f)
{
    if (!f)
        return NULL;
    if (f->segment)
        evbuffer_file_segment_free(f->segment);
    else if (f->fetch && !f->fetch->done)
        f->fetch->file = NULL; /* which closes the descriptor later */
    else
        file_close_on_thread(f->offload, f->queue, f->fd);
    if (f->fetch && f->fetch->done)
        file_fetch_free(f->fetch);
    free(f);
    return NULL;
}

static int file_add_bytes(const struct http_file *f, struct evbuffer *out, size_t size)
{
    struct evbuffer_iovec v;

    if (evbuffer_reserve_space(out, (ev_ssize_t)size, &v, 1) < 1)
        return -ENOMEM;
    ssize_t n = pread(f->fd, v.iov_base, size, f->offset);
    if (n < 0 || (size_t)n != size)
        return -EIO;
    v.iov_len = size;
    return evbuffer_commit_space(out, &v, 1);
}

int http_file_feed(struct http_file *f, struct evbuffer *out, bool as_bytes)
{
    int64_t size = MIN(f->end - f->offset, as_bytes ? BYTES_SIZE : SLICE_SIZE);

    if (f->offload)
        return file_feed_fetched(f, out);
    if (size == 0)
        return 0;
    if (as_bytes ? file_add_bytes(f, out, (size_t)size) < 0
                 : evbuffer_add_file_segment(out, f->segment, f->offset, size) < 0)
        return -EIO;
    f->offset += size;
    /* The kernel reads the next slice while this one is on its way, so that sendfile() rarely waits for a
     * disk. */
    if (f->offset < f->end)
        posix_fadvise(f->fd, f->offset, MIN(f->end - f->offset, SLICE_SIZE), POSIX_FADV_WILLNEED);
    return 1;
}

void http_file_etag(const struct stat *st, char ret[static HTTP_ETAG_MAX])
{
    snprintf(ret, HTTP_ETAG_MAX, "\"%jx-%jx\"", (uintmax_t)st->st_size,
             (uintmax_t)(st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec));
}

char *http_file_disposition(const char *name)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&+-.^_`|~";
    _cleanup_(freep) char *ascii = xstrdup(name);
    _cleanup_(freep) char *escaped = xcalloc(strlen(name) * 3 + 1, 1);
    char *out = escaped;

    for (char *s = ascii; *s; s++)
        if (*s < ' ' || *s > '~' || *s == '"' || *s == '\\' || *s == '%')
            *s = '_';
    for (const char *s = name; *s; s++)
        out += strchr(plain, *s) ? sprintf(out, "%c", *s) : sprintf(out, "%%%02X", (unsigned char)*s);
    return xasprintf("attachment; filename=\"%s\"; filename*=UTF-8''%s", ascii, escaped);
}

/* -- Range -------------------------------------------------------------------------------------------- */

/* Reads digits to *ret, INT64_MAX for a greater number, and moves *s past them. False where there are none.
 */
static bool range_read_number(const char **s, int64_t *ret)
{
    const char *p = *s;
    int64_t n = 0;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            n = INT64_MAX;
    if (p == *s)
        return false;
    *s = p;
    *ret = n;
    return true;
}

static enum http_range_kind range_part(int64_t first, int64_t last, int64_t file_size, struct http_range *ret)
{
    if (first >= file_size)
        return HTTP_RANGE_UNSATISFIABLE;
    *ret = (struct http_range){first, MIN(last, file_size - 1) - first + 1};
    return HTTP_RANGE_PART;
}

enum http_range_kind http_range_parse(const char *text, int64_t file_size, struct http_range *ret)
{
    static const char unit[] = "bytes=";
    int64_t first = 0, last = INT64_MAX;

    if (!text || strncasecmp(text, unit, strlen(unit)) != 0)
        return HTTP_RANGE_NONE;
    const char *s = text + strlen(unit);
    bool has_first = range_read_number(&s, &first);
    if (*s++ != '-')
        return HTTP_RANGE_NONE;
    bool has_last = range_read_number(&s, &last);
    if (*s != '\0' || (!has_first && !has_last) || (has_first && last < first))
        return HTTP_RANGE_NONE;

    if (has_first)
        return range_part(first, last, file_size, ret);
    if (last == 0 || file_size == 0)
        return HTTP_RANGE_UNSATISFIABLE;
    return range_part(file_size - MIN(last, file_size), file_size - 1, file_size, ret);
}
