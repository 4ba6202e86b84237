/* SPDX-License-Identifier: Apache-2.0 */
/* gzip by ISA-L, as a FILE. */
#include "base/gzip_writer.h"

#include "base/util.h"
#include <errno.h>
#include <isa-l/igzip_lib.h>

#define GZIP_LEVEL 2

struct gzip_stream {
    FILE *out;
    struct isal_zstream stream;
    uint8_t level_buffer[ISAL_DEF_LVL2_DEFAULT];
    uint8_t buffer[64 << 10];
};

/* Compresses what is in the stream, all of it where this is the end. */
static int gzip_deflate(struct gzip_stream *z, bool end)
{
    z->stream.end_of_stream = end;
    do {
        size_t n;

        z->stream.next_out = z->buffer;
        z->stream.avail_out = sizeof(z->buffer);
        if (isal_deflate(&z->stream) != COMP_OK) {
            errno = EIO;
            return -1;
        }
        n = sizeof(z->buffer) - z->stream.avail_out;
        if (fwrite(z->buffer, 1, n, z->out) != n)
            return -1;
    } while (z->stream.avail_out == 0 || z->stream.avail_in > 0);
    return 0;
}

static ssize_t gzip_write(void *cookie, const char *data, size_t size)
{
    struct gzip_stream *z = cookie;

    /* The library counts in 32 bits. */
    size = MIN(size, (size_t)1 << 30);
    z->stream.next_in = (uint8_t *)data;
    z->stream.avail_in = (uint32_t)size;
    /* 0 reports an error to the FILE. */
    return gzip_deflate(z, false) < 0 ? 0 : (ssize_t)size;
}

static int gzip_close(void *cookie)
{
    struct gzip_stream *z = cookie;
    int r;

    z->stream.avail_in = 0;
    r = gzip_deflate(z, true);
    free(z);
    return r;
}

FILE *gzip_open(FILE *out)
{
    struct gzip_stream *z = calloc(1, sizeof(*z));
    FILE *f;

    if (!z)
        return NULL;
    z->out = out;
    isal_deflate_init(&z->stream);
    z->stream.gzip_flag = IGZIP_GZIP;
    z->stream.level = GZIP_LEVEL;
    z->stream.level_buf = z->level_buffer;
    z->stream.level_buf_size = sizeof(z->level_buffer);
    f = fopencookie(z, "w", (cookie_io_functions_t){.write = gzip_write, .close = gzip_close});
    if (!f)
        free(z);
    return f;
}
