/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/check.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "proto/names.h"
#include "trace/read/decompress.h"
#include "trace/read/format.h"
#include "trace/read/reader.h"
#include "trace/read/span.h"
#include "trace/sql/nsys.h"
#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define SHA256_SIZE 32
/* The block of common file systems. */
#define HOLE_BYTES ((size_t)4096)
/* More would take processors from the engine, and gain little. */
#define THREADS_MAX 4
/* September 2001. A smaller stamp is relative to something that the file does not name. */
#define EPOCH_PLAUSIBLE_NS INT64_C(1000000000000000000)
#define READ_SIZE          (256 << 10)

struct ingest_check {
    struct check_request request;
    int read_fd;  /* the source, or the destination once it is a clone of it */
    int write_fd; /* -1 where nothing is to be written, or the clone did it */
    unsigned threads;
    int64_t size;
    EVP_MD_CTX *hash;
    struct stream *stream;
    struct text_window *window;
    struct span span;
    int error; /* of the destination */
    enum trace_state state;
    char *reason, *remedy;
    char *columns_reason; /* why there are none */
    uint8_t buffer[READ_SIZE];
};

static int check_start_hash(struct ingest_check *c)
{
    return EVP_DigestInit_ex(c->hash, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

static unsigned check_count_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : THREADS_MAX;
}

int check_new(const struct check_request *request, struct ingest_check **ret)
{
    _cleanup_(check_freep) struct ingest_check *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    *c = (struct ingest_check){.request = *request,
                               .read_fd = request->source_fd,
                               .write_fd = request->dest_fd,
                               .threads = MIN(check_count_processors(), THREADS_MAX)};
    /* Errors of OpenSSL's configuration file must not matter here. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    c->hash = EVP_MD_CTX_new();
    int r = c->hash ? check_start_hash(c) : -ENOMEM;
    if (r >= 0)
        r = stream_new(STREAM_LIMITS_DEFAULT, &c->stream);
    if (r >= 0)
        r = window_new(&c->window);
    if (r < 0)
        return r;
    /* Either would open the random source when it is first used. */
    json_object_seed(0);
    sqlite3_randomness(1, &(char){0});
    *ret = TAKE_PTR(c);
    return 0;
}

struct ingest_check *check_free(struct ingest_check *c)
{
    if (!c)
        return NULL;
    EVP_MD_CTX_free(c->hash);
    stream_free(c->stream);
    window_free(c->window);
    free(c->reason);
    free(c->remedy);
    free(c->columns_reason);
    free(c);
    return NULL;
}

/* -- The bytes -- */

static int check_unreadable(struct ingest_check *c, int r, char *reason)
{
    c->state = TRACE_UNREADABLE;
    free(c->reason);
    c->reason = reason;
    return r;
}

/* A clone is a snapshot: what is hashed and checked is then read from it, the source may change meanwhile. */
static void check_try_clone(struct ingest_check *c)
{
    if (c->write_fd < 0 || ioctl(c->write_fd, FICLONE, c->read_fd) < 0)
        return;
    c->read_fd = c->write_fd;
    c->write_fd = -1;
}

static int check_copy_failed(struct ingest_check *c, int err)
{
    c->error = -err;
    return check_unreadable(c, err, xasprintf("cannot write the copy: %s", strerror(-err)));
}

/* Number of bytes, from that offset of the file on, to be written, or to be left as a hole. */
static size_t check_next_run(const uint8_t *data, size_t size, uint64_t at, bool *ret_hole)
{
    size_t n = 0;

    while (n < size) {
        size_t block = MIN(HOLE_BYTES - (at + n) % HOLE_BYTES, size - n);
        bool zeros = data[n] == 0 && memcmp(data + n, data + n + 1, block - 1) == 0;
        if (n > 0 && zeros != *ret_hole)
            break;
        *ret_hole = zeros;
        n += block;
    }
    return n;
}

/* Blocks of zeros are not written: holes of the source stay holes. check_sync_copy() gives the copy its
 * length. */
static int check_write(struct ingest_check *c, const uint8_t *data, size_t size)
{
    uint64_t at = (uint64_t)c->size;
    int r = 0;

    while (size > 0 && r == 0) {
        bool hole = false;
        size_t n = check_next_run(data, size, at, &hole);
        r = hole ? 0 : pwrite_full(c->write_fd, data, n, at);
        data += n;
        size -= n;
        at += n;
    }
    return r < 0 ? check_copy_failed(c, r) : 0;
}

static int check_take_bytes(const void *data, size_t size, void *arg)
{
    struct ingest_check *c = arg;

    if ((int64_t)size > c->request.size_max - c->size)
        return check_unreadable(c, -EFBIG,
                                xasprintf("larger than the limit of %" PRId64 " bytes", c->request.size_max));
    if (c->write_fd >= 0 && check_write(c, data, size) < 0)
        return -c->error;
    EVP_DigestUpdate(c->hash, data, size);
    c->size += (int64_t)size;
    return 0;
}

static int check_take_rest(struct ingest_check *c,
                           void (*each)(struct ingest_check *c, const uint8_t *data, size_t size))
{
    for (;;) {
        ssize_t n = pread(c->read_fd, c->buffer, READ_SIZE, c->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return check_unreadable(c, -errno, xasprintf("cannot be read: %s", strerror(errno)));
        if (n == 0)
            return 0;
        int r = check_take_bytes(c->buffer, (size_t)n, c);
        if (r < 0)
            return r;
        if (each)
            each(c, c->buffer, (size_t)n);
    }
}

static int check_sync_copy(struct ingest_check *c)
{
    if (c->write_fd >= 0 && ftruncate(c->write_fd, c->size) < 0)
        return check_copy_failed(c, -errno);
    if (c->request.dest_fd < 0 || fsync(c->request.dest_fd) == 0)
        return 0;
    c->error = errno;
    return check_unreadable(c, -errno, xasprintf("cannot sync the copy: %s", strerror(errno)));
}

/* Discards the bytes that a pass took, for the next one. */
static int check_start_over(struct ingest_check *c)
{
    c->size = 0;
    if (c->write_fd >= 0 && ftruncate(c->write_fd, 0) < 0)
        return check_copy_failed(c, -errno);
    return check_start_hash(c);
}

/* -- Facts -- */

static void facts_add_hash(struct ingest_check *c, json_t *facts)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    EVP_DigestFinal_ex(c->hash, digest, NULL);
    for (size_t i = 0; i < SHA256_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    json_put_str(facts, "sha256", hex);
}

static void facts_add_int(json_t *facts, const char *key, int64_t value)
{
    if (value >= 0)
        json_put_int(facts, key, value);
}

static void facts_add_str(json_t *facts, const char *key, const char *value)
{
    if (value[0])
        json_put_str(facts, key, value);
}

static void facts_add_span(json_t *facts, int64_t first_ns, int64_t last_ns, int64_t base_ns)
{
    int64_t first, last, span, base = MAX(base_ns, INT64_C(0));

    if (!__builtin_sub_overflow(last_ns, first_ns, &span))
        json_put_int(facts, "span_ns", span);
    if (__builtin_add_overflow(first_ns, base, &first) || first < EPOCH_PLAUSIBLE_NS ||
        __builtin_add_overflow(last_ns, base, &last))
        return;
    json_put_int(facts, "first_ts_ns", first);
    json_put_int(facts, "last_ts_ns", last);
}

static void facts_add_file(struct ingest_check *c, enum stream_coding coding, enum trace_format format,
                           json_t *facts)
{
    json_put_int(facts, "size", c->size);
    facts_add_hash(c, facts);
    json_put_str(facts, "coding", stream_coding_name(coding));
    json_put_str(facts, "format", format_name(format));
}

/* -- A pass into columns -- */

static int check_report_progress(uint64_t bytes_done, uint64_t bytes_all, uint64_t events, void *arg)
{
    const struct ingest_check *c = arg;

    if (c->request.progress_fd >= 0)
        dprintf(c->request.progress_fd, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", bytes_done, bytes_all,
                events);
    return 0;
}

static void facts_add_columns(const struct read_summary *sum, json_t *facts)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"size", sum->columns_bytes},
        {"slices", sum->columns.slices},
        {"gpu_slices", sum->columns.gpu_slices},
        {"threads", sum->columns.threads},
        {"flows", sum->columns.flows},
        {"counters", sum->columns.counters},
    };
    json_t *columns = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        json_put_int(columns, numbers[i].key, (int64_t)numbers[i].value);
    json_object_set_new(facts, "columns", columns);
}

/* Reads the columns back: the facts are those that are in them. */
static int check_add_columns(struct ingest_check *c, const struct read_summary *sum, json_t *facts)
{
    static const enum trace_state states[] = {
        [READ_COMPLETE] = TRACE_COMPLETE,
        [READ_TRUNCATED] = TRACE_TRUNCATED,
        [READ_CORRUPT] = TRACE_CORRUPT,
    };
    _cleanup_(columns_closep) struct columns *columns = NULL;
    _cleanup_(freep) char *reason = NULL;
    _cleanup_json_ found = json_object();

    int r = columns_open(c->request.columns_fd, &columns, &reason);
    if (r >= 0)
        r = columns_facts_add(columns, found);
    if (r < 0) {
        c->columns_reason = xasprintf("the columns cannot be read back: %s", reason ? reason : strerror(-r));
        return r;
    }
    c->state = states[sum->state];
    c->reason = sum->reason[0] ? xstrdup(sum->reason) : NULL;
    json_object_update(facts, found);
    facts_add_columns(sum, facts);
    if (sum->columns.slices > 0)
        facts_add_span(facts, sum->columns.first_ns, sum->columns.last_ns,
                       json_get_int(found, "base_time_ns", -1));
    return 0;
}

static void *check_sync_columns(void *arg)
{
    const struct ingest_check *c = arg;
    return (void *)(intptr_t)(fsync(c->request.columns_fd) < 0 ? -errno : 0);
}

/* Copy and columns: a disk syncs both at once in little more than the time of one. */
static int check_sync_all(struct ingest_check *c)
{
    pthread_t thread;
    void *result;

    bool has_thread = pthread_create(&thread, NULL, check_sync_columns, c) == 0;
    check_sync_copy(c);
    if (has_thread)
        pthread_join(thread, &result);
    else
        result = check_sync_columns(c);
    int r = (int)(intptr_t)result;
    if (r < 0)
        c->columns_reason = xasprintf("cannot sync the columns: %s", strerror(-r));
    return r;
}

static void check_explain_no_columns(struct ingest_check *c, const struct read_summary *sum, int err)
{
    c->columns_reason = xstrdup(sum->reason[0] ? sum->reason : err < 0 ? strerror(-err) : "holds no events");
    c->remedy = sum->remedy[0] ? xstrdup(sum->remedy) : NULL;
}

static bool check_into_columns(struct ingest_check *c, json_t *facts)
{
    const struct read_options options = {.source_fd = c->read_fd,
                                         .columns_fd = c->request.columns_fd,
                                         .spill_fd = c->request.spill_fd,
                                         .memory_max = (uint64_t)c->request.memory_max,
                                         .threads = c->threads,
                                         .part = c->request.part,
                                         .tap = check_take_bytes,
                                         .progress = check_report_progress,
                                         .read_sqlite = nsys_read,
                                         .arg = c};
    struct read_summary sum = {0};

    int r = trace_read(&options, &sum);
    if (c->state == TRACE_UNREADABLE)
        return true;
    if (r < 0 || sum.state == READ_EMPTY || sum.state == READ_REFUSED) {
        check_explain_no_columns(c, &sum, r);
        return false;
    }
    if (check_take_rest(c, NULL) < 0)
        return true;
    r = check_sync_all(c);
    if (c->state == TRACE_UNREADABLE)
        return true;
    if (r < 0 || check_add_columns(c, &sum, facts) < 0)
        return false;
    facts_add_file(c, sum.stream.coding, sum.format, facts);
    return true;
}

/* -- A pass without columns -- */

static void check_decode(struct ingest_check *c, const uint8_t *data, size_t size)
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

static void check_classify(struct ingest_check *c, const struct stream_summary *sum,
                           const struct trace_ends *ends)
{
    static const enum trace_state states[] = {
        [STREAM_COMPLETE] = TRACE_COMPLETE, [STREAM_TRUNCATED] = TRACE_TRUNCATED,
        [STREAM_CORRUPT] = TRACE_CORRUPT,   [STREAM_OVER_LIMIT] = TRACE_CORRUPT,
        [STREAM_FOLLOWED] = TRACE_CORRUPT,
    };
    char *reason = NULL;

    c->state = states[sum->result];
    if (c->size == 0) {
        c->state = TRACE_EMPTY;
        reason = xstrdup("0 bytes");
    } else if (sum->result == STREAM_TRUNCATED) {
        reason = xasprintf("%s, %" PRIu64 " events read", sum->reason, c->span.events);
    } else if (sum->result != STREAM_COMPLETE) {
        reason = xstrdup(sum->reason);
    } else if (ends->format == FORMAT_EMPTY) {
        c->state = TRACE_EMPTY;
        reason = xstrdup("holds no text");
    } else if (!ends->closes) {
        c->state = TRACE_TRUNCATED;
        reason = xasprintf("JSON ends after %" PRIu64 " bytes without closing, %" PRIu64 " events read",
                           sum->out, c->span.events);
    } else if (sum->reason[0]) {
        reason = xstrdup(sum->reason);
    }
    if (reason) {
        free(c->reason);
        c->reason = reason;
    }
}

static void facts_add_ends(json_t *facts, const struct trace_ends *ends)
{
    facts_add_int(facts, "rank", ends->rank);
    facts_add_int(facts, "world_size", ends->world_size);
    facts_add_int(facts, "pid", ends->pid);
    facts_add_int(facts, "devices", ends->devices);
    facts_add_int(facts, "base_time_ns", ends->base_time_ns);
    facts_add_str(facts, "backend", ends->backend);
    facts_add_str(facts, "device_name", ends->device_name);
    facts_add_str(facts, "trace_name", ends->trace_name);
    facts_add_str(facts, "engine_version", ends->engine_version);
    facts_add_str(facts, "request_trace_id", ends->request_trace_id);
}

static void check_add_content(struct ingest_check *c, json_t *facts)
{
    struct stream_summary sum;
    struct trace_ends ends;
    struct ends_input in = {.total = window_total(c->window)};

    stream_finish(c->stream, &sum);
    span_finish(&c->span);
    in.head = window_head(c->window, &in.head_size);
    in.tail = window_tail(c->window, &in.tail_size);
    ends_read(&in, &ends);
    check_classify(c, &sum, &ends);
    facts_add_file(c, sum.coding, ends.format, facts);
    json_put_int(facts, "uncompressed", (int64_t)sum.out);
    facts_add_ends(facts, &ends);
    if (!format_is_trace_json(ends.format))
        return;
    json_put_int(facts, "events", (int64_t)c->span.events);
    if (c->span.events > 0)
        facts_add_span(facts, c->span.first_ns, c->span.last_ns, ends.base_time_ns);
}

/* -- Both passes -- */

static void check_without_columns(struct ingest_check *c, json_t *facts)
{
    if (c->columns_reason && check_start_over(c) < 0)
        return;
    if (check_take_rest(c, check_decode) == 0 && check_sync_copy(c) == 0)
        check_add_content(c, facts);
}

json_t *check_run(struct ingest_check *c)
{
    json_t *facts = json_object();

    check_try_clone(c);
    if (c->request.columns_fd < 0 || !check_into_columns(c, facts))
        check_without_columns(c, facts);
    if (c->error)
        json_put_int(facts, "error", c->error);
    else
        json_put_str(facts, "state", trace_state_name(c->state));
    json_put_str(facts, "reason", c->reason);
    json_put_str(facts, "remedy", c->remedy);
    json_put_str(facts, "columns_reason", c->columns_reason);
    return facts;
}
