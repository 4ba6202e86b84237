/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/check.h"

#include "base/alloc.h"
#include "proto/names.h"
#include "trace/read/ends.h"
#include "trace/read/span.h"
#include "trace/read/stream.h"
#include "trace/read/window.h"
#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define READ_SIZE   (256 << 10)
#define SHA256_SIZE 32
/* September 2001. A smaller stamp is relative to something that the file does not name. */
#define EPOCH_PLAUSIBLE_NS INT64_C(1000000000000000000)

struct check {
    int read_fd;  /* the source, or the destination once it is a clone of it */
    int write_fd; /* -1 where nothing is to be written, or the clone did it */
    int sync_fd;
    int64_t size_max, size;
    EVP_MD_CTX *hash;
    struct stream *stream;
    struct window *window;
    struct span span;
    int error; /* of the destination */
    enum trace_state state;
    char *reason;
    uint8_t buffer[READ_SIZE];
};

static EVP_MD_CTX *new_hash(void)
{
    /* The configuration file is not ours, and errors of it would be. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(hash);
        hash = NULL;
    }
    return hash;
}

int check_new(int source_fd, int dest_fd, int64_t size_max, struct check **ret)
{
    _cleanup_(check_freep) struct check *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    *c = (struct check){.read_fd = source_fd, .write_fd = dest_fd, .sync_fd = dest_fd, .size_max = size_max};
    c->hash = new_hash();
    if (!c->hash)
        return -ENOMEM;
    int r = stream_new(STREAM_LIMITS_DEFAULT, &c->stream);
    if (r < 0)
        return r;
    r = window_new(&c->window);
    if (r < 0)
        return r;
    /* jansson would open the random source when it makes its first object. */
    json_object_seed(0);
    *ret = TAKE_PTR(c);
    return 0;
}

struct check *check_free(struct check *c)
{
    if (!c)
        return NULL;
    EVP_MD_CTX_free(c->hash);
    stream_free(c->stream);
    window_free(c->window);
    free(c->reason);
    free(c);
    return NULL;
}

static int unreadable(struct check *c, int r, char *reason)
{
    c->state = TRACE_UNREADABLE;
    c->reason = reason;
    return r;
}

/* A clone is a snapshot: what is hashed and checked is then read from it, the source may change meanwhile. */
static void try_clone(struct check *c)
{
    if (c->write_fd < 0 || ioctl(c->write_fd, FICLONE, c->read_fd) < 0)
        return;
    c->read_fd = c->write_fd;
    c->write_fd = -1;
}

static int write_at(struct check *c, const uint8_t *data, size_t size)
{
    off_t offset = c->size;

    while (size > 0) {
        ssize_t n = pwrite(c->write_fd, data, size, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            c->error = errno;
            return unreadable(c, -errno, xasprintf("cannot write the copy: %s", strerror(errno)));
        }
        data += n;
        size -= (size_t)n;
        offset += n;
    }
    return 0;
}

static void decode(struct check *c, const uint8_t *data, size_t size)
{
    struct stream_io io = {.in = data, .in_size = size};
    bool filled;

    do {
        size_t room;
        uint8_t *out = window_room(c->window, &room);
        io.out = out;
        io.out_size = room;
        stream_decode(c->stream, &io);
        size_t n = room - io.out_size;
        span_feed(&c->span, (const char *)out, n);
        window_filled(c->window, n);
        filled = io.out_size == 0;
    } while (io.in_size > 0 || filled);
}

static int read_all(struct check *c)
{
    for (;;) {
        ssize_t n = pread(c->read_fd, c->buffer, READ_SIZE, c->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return unreadable(c, -errno, xasprintf("cannot be read: %s", strerror(errno)));
        if (n == 0)
            return 0;
        if (n > c->size_max - c->size)
            return unreadable(c, -EFBIG,
                              xasprintf("larger than the limit of %" PRId64 " bytes", c->size_max));
        if (c->write_fd >= 0 && write_at(c, c->buffer, (size_t)n) < 0)
            return -c->error;
        EVP_DigestUpdate(c->hash, c->buffer, (size_t)n);
        decode(c, c->buffer, (size_t)n);
        c->size += n;
    }
}

static int sync_copy(struct check *c)
{
    if (c->sync_fd < 0 || fsync(c->sync_fd) == 0)
        return 0;
    c->error = errno;
    return unreadable(c, -errno, xasprintf("cannot sync the copy: %s", strerror(errno)));
}

static void judge(struct check *c, const struct stream_summary *sum, const struct trace_ends *ends)
{
    static const enum trace_state states[] = {
        [STREAM_COMPLETE] = TRACE_COMPLETE,
        [STREAM_TRUNCATED] = TRACE_TRUNCATED,
        [STREAM_CORRUPT] = TRACE_CORRUPT,
        [STREAM_OVER_LIMIT] = TRACE_CORRUPT,
    };
    c->state = states[sum->verdict];
    if (c->size == 0) {
        c->state = TRACE_EMPTY;
        c->reason = xstrdup("0 bytes");
    } else if (sum->verdict == STREAM_TRUNCATED) {
        c->reason = xasprintf("%s, %" PRIu64 " events read", sum->reason, c->span.events);
    } else if (sum->verdict != STREAM_COMPLETE) {
        c->reason = xstrdup(sum->reason);
    } else if (ends->format == FORMAT_EMPTY) {
        c->state = TRACE_EMPTY;
        c->reason = xstrdup("holds no text");
    } else if (!ends->closes) {
        c->state = TRACE_TRUNCATED;
        c->reason = xasprintf("JSON ends after %" PRIu64 " bytes without closing, %" PRIu64 " events read",
                              sum->out, c->span.events);
    } else if (sum->reason[0]) {
        c->reason = xstrdup(sum->reason);
    }
}

static void put_hash(struct check *c, json_t *facts)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    EVP_DigestFinal_ex(c->hash, digest, NULL);
    for (size_t i = 0; i < SHA256_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    json_put_str(facts, "sha256", hex);
}

static void put_known_int(json_t *facts, const char *key, int64_t value)
{
    if (value >= 0)
        json_put_int(facts, key, value);
}

static void put_known_str(json_t *facts, const char *key, const char *value)
{
    if (value[0])
        json_put_str(facts, key, value);
}

static void put_ends(json_t *facts, const struct trace_ends *ends)
{
    json_put_str(facts, "format", format_name(ends->format));
    put_known_int(facts, "rank", ends->rank);
    put_known_int(facts, "world_size", ends->world_size);
    put_known_int(facts, "pid", ends->pid);
    put_known_int(facts, "devices", ends->devices);
    put_known_int(facts, "base_time_ns", ends->base_time_ns);
    put_known_str(facts, "backend", ends->backend);
    put_known_str(facts, "device_name", ends->device_name);
    put_known_str(facts, "trace_name", ends->trace_name);
    put_known_str(facts, "engine_version", ends->engine_version);
}

static void put_span(json_t *facts, const struct span *span, int64_t base_ns)
{
    int64_t first, last, base = MAX(base_ns, INT64_C(0));

    json_put_int(facts, "events", (int64_t)span->events);
    if (span->events == 0)
        return;
    json_put_int(facts, "span_ns", span->last_ns - span->first_ns);
    if (__builtin_add_overflow(span->first_ns, base, &first) || first < EPOCH_PLAUSIBLE_NS ||
        __builtin_add_overflow(span->last_ns, base, &last))
        return;
    json_put_int(facts, "first_ts_ns", first);
    json_put_int(facts, "last_ts_ns", last);
}

static void put_content(struct check *c, json_t *facts)
{
    struct stream_summary sum;
    struct trace_ends ends;
    struct ends_input in = {.total = window_total(c->window)};

    stream_finish(c->stream, &sum);
    span_finish(&c->span);
    in.head = window_head(c->window, &in.head_size);
    in.tail = window_tail(c->window, &in.tail_size);
    ends_read(&in, &ends);
    judge(c, &sum, &ends);
    json_put_int(facts, "size", c->size);
    json_put_int(facts, "uncompressed", (int64_t)sum.out);
    json_put_str(facts, "coding", stream_coding_name(sum.coding));
    put_hash(c, facts);
    put_ends(facts, &ends);
    if (format_is_trace_json(ends.format))
        put_span(facts, &c->span, ends.base_time_ns);
}

json_t *check_run(struct check *c)
{
    json_t *facts = json_object();

    try_clone(c);
    if (read_all(c) == 0 && sync_copy(c) == 0)
        put_content(c, facts);
    if (c->error)
        json_put_int(facts, "error", c->error);
    else
        json_put_str(facts, "state", trace_state_name(c->state));
    json_put_str(facts, "reason", c->reason);
    return facts;
}
