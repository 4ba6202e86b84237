/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_file.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>

/* One turn of the loop sends at most this much to a client, however fast it reads. */
#define SLICE_SIZE (INT64_C(1) << 20)
/* And of what it must read itself. */
#define BYTES_SIZE (INT64_C(256) << 10)

struct http_file {
    struct evbuffer_file_segment *segment;
    int fd; /* the segment's */
    int64_t offset, end;
};

int http_file_new(int take_fd, int64_t offset, int64_t size, struct http_file **ret)
{
    struct evbuffer_file_segment *segment =
        evbuffer_file_segment_new(take_fd, 0, offset + size, EVBUF_FS_CLOSE_ON_FREE);

    if (!segment) {
        close(take_fd);
        return -EIO;
    }
    struct http_file *f = xcalloc(1, sizeof(*f));
    *f = (struct http_file){.segment = segment, .fd = take_fd, .offset = offset, .end = offset + size};
    *ret = f;
    return 0;
}

struct http_file *http_file_free(struct http_file *f)
{
    if (!f)
        return NULL;
    evbuffer_file_segment_free(f->segment);
    free(f);
    return NULL;
}

static int add_bytes(const struct http_file *f, struct evbuffer *out, size_t size)
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

    if (size == 0)
        return 0;
    if (as_bytes ? add_bytes(f, out, (size_t)size) < 0
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
