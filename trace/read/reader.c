/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include "base/fs.h"
#include "trace/read/callgrind.h"
#include "trace/read/json_text.h"
#include "trace/read/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* -- Parts of a reading --------------------------------------------------------------------------------- */

/* Half of the memory is for the strings of all parts. A part gets at most a quarter, so that unifying the
 * strings of one or two parts does not need more. */
#define STRINGS_SHARE(memory, parts) ((memory) / 2 / MAX((parts), (size_t)2))

buffer_reader *reading_buffer_reader(const struct trace_reading *r, enum trace_format format)
{
    static buffer_reader *const readers[_FORMAT_MAX] = {
        [FORMAT_CALLGRIND] = callgrind_read,
    };
    return format == FORMAT_NSYS_SQLITE ? r->options->read_sqlite : readers[format];
}

int reading_new_parts(struct trace_reading *r, size_t n, bool threaded)
{
    int err = 0;

    r->parts = calloc(n, sizeof(*r->parts));
    if (!r->parts)
        return -ENOMEM;
    for (r->n_parts = 0; r->n_parts < n && err == 0; r->n_parts++) {
        struct reading_part *p = &r->parts[r->n_parts];
        err = intake_new(STRINGS_SHARE(r->memory_max, n), &p->intake);
        if (err == 0)
            p->intake->part = r->options->part;
        if (err == 0)
            err = packer_new(p->intake, r->spill, threaded, &p->packer);
    }
    return err < 0 ? err : feed_new(r->parts[0].intake, SCAN_AT_BEGINNING, 0, &r->parts[0].feed);
}

void reading_drop_parts(struct trace_reading *r, size_t n_left)
{
    while (r->n_parts > n_left) {
        struct reading_part *p = &r->parts[--r->n_parts];
        feed_free(p->feed);
        packer_free(p->packer);
        intake_free(p->intake);
    }
}

uint64_t reading_events(const struct trace_reading *r)
{
    uint64_t events = 0;

    for (size_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].feed)
            events += feed_events(r->parts[i].feed);
    return events;
}

int reading_fail(struct trace_reading *r, int err, const char *format, ...)
{
    va_list ap;

    if (r->sum->reason[0])
        return err;
    va_start(ap, format);
    vsnprintf(r->sum->reason, sizeof(r->sum->reason), format, ap);
    va_end(ap);
    return err;
}

ssize_t reading_pread(struct trace_reading *r, void *data, size_t size, uint64_t at)
{
    return pread_full(r->options->source_fd, data, size, at);
}

int reading_progress(struct trace_reading *r, uint64_t bytes_done, uint64_t events)
{
    const struct read_options *o = r->options;

    if (o->progress && o->progress(bytes_done, r->sum->source_bytes, events, o->arg) != 0)
        return reading_fail(r, -ECANCELED, "the reading was cancelled");
    return 0;
}

/* -- Feeding the scanner -------------------------------------------------------------------------------- */

struct feed {
    struct scanner *scanner;
    uint64_t offset; /* offset of the next byte for the scanner */
    _Atomic uint64_t events;
    /* Text that the scanner has not used. SCAN_PAD bytes follow it, as they follow every piece. */
    char *rest;
    size_t rest_size, rest_cap;
    size_t wanted; /* size of the text at which the scanner is called again */
};

int feed_new(struct intake *in, enum scan_begin begin, uint64_t offset, struct feed **ret)
{
    struct feed *f = calloc(1, sizeof(*f));

    if (!f)
        return -ENOMEM;
    int r = scan_new(in, SCAN_SIMD_BEST, &f->scanner);
    if (r < 0) {
        feed_free(f);
        return r;
    }
    scan_begin(f->scanner, begin);
    f->offset = offset;
    *ret = f;
    return 0;
}

struct feed *feed_free(struct feed *f)
{
    if (!f)
        return NULL;
    scan_free(f->scanner);
    free(f->rest);
    free(f);
    return NULL;
}

static int feed_reserve(struct feed *f, size_t size)
{
    if (size + SCAN_PAD <= f->rest_cap)
        return 0;
    size_t cap = MAX(2 * f->rest_cap, size + SCAN_PAD);
    char *grown = realloc(f->rest, cap);
    if (!grown)
        return -ENOMEM;
    memset(grown + f->rest_cap, 0, cap - f->rest_cap);
    f->rest = grown;
    f->rest_cap = cap;
    return 0;
}

static size_t feed_scan(struct feed *f, const char *p, size_t size, bool last)
{
    size_t used = scan_some(f->scanner, p, size, f->offset, last);

    f->offset += used;
    atomic_store_explicit(&f->events, scan_events(f->scanner), memory_order_relaxed);
    return used;
}

/* Limits the text for the scanner to the size of an item, so that the pieces do not decide which items are
 * too large. */
static void feed_scan_rest(struct feed *f, bool last)
{
    size_t at = 0, used = 1;

    while (used > 0 && at < f->rest_size) {
        size_t left = f->rest_size - at, size = MIN(left, (size_t)SCAN_ITEM_MAX);
        used = feed_scan(f, f->rest + at, size, last && size == left);
        at += used;
        if (size == left)
            break;
    }
    f->rest_size -= at;
    memmove(f->rest, f->rest + at, f->rest_size);
}

/* Gathers an item that does not fit into the margin: calls the scanner each time that the text has
 * doubled, so that the item is not scanned once for each piece. */
static int feed_gather(struct feed *f, const char *p, size_t size, bool last)
{
    int r = feed_reserve(f, f->rest_size + size);

    if (r < 0)
        return r;
    memcpy(f->rest + f->rest_size, p, size);
    f->rest_size += size;
    if (last || f->rest_size >= f->wanted) {
        feed_scan_rest(f, last);
        f->wanted = MIN(2 * f->rest_size, (size_t)SCAN_ITEM_MAX);
    }
    return 0;
}

int feed_piece(struct feed *f, char *p, size_t size, bool last)
{
    if (f->rest_size > FEED_MARGIN)
        return feed_gather(f, p, size, last);
    p -= f->rest_size;
    size += f->rest_size;
    if (f->rest_size > 0)
        memcpy(p, f->rest, f->rest_size);
    size_t used = feed_scan(f, p, size, last);
    f->rest_size = size - used;
    int r = feed_reserve(f, f->rest_size);
    if (r < 0)
        return r;
    memcpy(f->rest, p + used, f->rest_size);
    f->wanted = MIN(2 * f->rest_size, (size_t)SCAN_ITEM_MAX);
    return 0;
}

bool feed_between_events(const struct feed *f)
{
    for (size_t i = 0; i < f->rest_size; i++)
        if (!json_is_space(f->rest[i]) && f->rest[i] != ',')
            return false;
    return scan_between_events(f->scanner);
}

enum scan_state feed_state(const struct feed *f)
{
    return scan_state(f->scanner);
}

uint64_t feed_events(const struct feed *f)
{
    return atomic_load_explicit(&f->events, memory_order_relaxed);
}

/* -- Reading -------------------------------------------------------------------------------------------- */

/* Memory for the events of runs, if the rest can be spilled, and if it cannot. */
#define SPILL_SHARE(memory, can_spill) ((can_spill) ? (memory) / 4 : (memory) / 2)
/* Buffers and batches. */
#define MEMORY_FIXED (UINT64_C(64) << 20)
/* Minimum memory for merging. */
#define MERGE_MIN (UINT64_C(16) << 20)

static unsigned reader_count_threads(const struct read_options *o)
{
    cpu_set_t cpus;

    if (o->threads > 0)
        return o->threads;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&cpus);
}

static int reader_read_head(struct trace_reading *r)
{
    struct stat st;

    if (fstat(r->options->source_fd, &st) < 0)
        return reading_fail(r, -errno, "the source cannot be read: %s", strerror(errno));
    r->sum->source_bytes = (uint64_t)st.st_size;
    posix_fadvise(r->options->source_fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    ssize_t n = reading_pread(r, r->head, ENDS_SIZE, 0);
    if (n < 0)
        return reading_fail(r, (int)n, "the source cannot be read: %s", strerror((int)-n));
    r->head_size = (size_t)n;
    return 0;
}

static size_t reader_count_parts(const struct trace_reading *r)
{
    const struct read_options *o = r->options;
    uint64_t size = r->sum->source_bytes;

    if (stream_coding_of((const uint8_t *)r->head, r->head_size) != STREAM_PLAIN ||
        format_of(r->head, r->head_size) != FORMAT_JSON || (o->text_max > 0 && size > o->text_max))
        return 1;
    return split_parts(size, reader_count_threads(o), r->memory_max / 2);
}

static int reader_read_text(struct trace_reading *r)
{
    size_t n = reader_count_parts(r);
    int err;

    if (n > 1)
        return split_read(r, n);
    err = reading_new_parts(r, 1, true);
    return err < 0 ? err : streamed_read(r);
}

static int reader_pack_rest(struct trace_reading *r)
{
    int err = 0;

    for (size_t i = 0; i < r->n_parts && err == 0; i++) {
        err = packer_finish(r->parts[i].packer);
        r->parts[i].feed = feed_free(r->parts[i].feed);
    }
    return err;
}

static void reader_put_checkpoints(const struct checkpoint_list *list, struct columns_writer *w)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct checkpoint *c = &list->items[i];
        uint64_t offset = c->window ? columns_put_bytes(w, c->window, c->window_size) : 0;
        columns_put(w, COL_checkpoint_in_bit, (int64_t)c->in_bit);
        columns_put(w, COL_checkpoint_out, (int64_t)c->out);
        columns_put(w, COL_checkpoint_window, (int64_t)offset);
        columns_put(w, COL_checkpoint_window_size, (int64_t)c->window_size);
    }
}

static uint64_t reader_merge_memory(const struct trace_reading *r)
{
    uint64_t used = MEMORY_FIXED + spill_memory(r->spill);

    /* The strings of all parts are merged into those of the first. */
    for (size_t i = 0; i < r->n_parts; i++)
        used += strings_memory(r->parts[i].intake->strings) * (r->n_parts > 1 ? 2 : 1);
    return r->memory_max > used + MERGE_MIN ? r->memory_max - used : MERGE_MIN;
}

static int reader_write_columns(struct trace_reading *r)
{
    _cleanup_(freep) struct merge_input *inputs = calloc(r->n_parts, sizeof(*inputs));
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    int err;

    if (!inputs)
        return -ENOMEM;
    for (size_t i = 0; i < r->n_parts; i++) {
        inputs[i].intake = r->parts[i].intake;
        inputs[i].runs = packer_runs(r->parts[i].packer, &inputs[i].n_runs);
    }
    err = columns_writer_new(r->options->columns_fd, &w);
    if (err == 0 && r->options->sync)
        columns_write_early(w);
    if (err == 0)
        err = merge_columns(inputs, r->n_parts, r->spill, w, reader_merge_memory(r), &r->sum->columns);
    if (err < 0)
        return err;
    reader_put_checkpoints(&r->checkpoints, w);
    return columns_writer_finish(w, r->options->sync, &r->sum->columns_bytes);
}

static int reader_read_all(struct trace_reading *r)
{
    const struct read_options *o = r->options;
    int err;

    r->memory_max = o->memory_max ? o->memory_max : READ_MEMORY_DEFAULT;
    r->head = malloc(ENDS_SIZE);
    r->tail = malloc(ENDS_SIZE);
    if (!r->head || !r->tail)
        return -ENOMEM;
    err = spill_new(SPILL_SHARE(r->memory_max, o->spill_fd >= 0), o->spill_fd, &r->spill);
    if (err == 0)
        err = reader_read_head(r);
    if (err == 0)
        err = reader_read_text(r);
    if (err < 0)
        return err;
    r->sum->source_bytes = r->sum->stream.in;
    reading_classify(r);
    if (!classification_has_columns(r->sum->state))
        return tap_wait(r->tap);
    err = reader_pack_rest(r);
    if (err == 0)
        err = reader_write_columns(r);
    return err < 0 ? err : tap_wait(r->tap);
}

static void reader_explain(struct trace_reading *r, int err)
{
    struct read_summary *sum = r->sum;
    uint64_t memory_mib = r->memory_max >> 20;

    switch (err) {
    case -ENOMEM:
        reading_fail(r, err, "the trace does not fit into %" PRIu64 " MiB of memory", memory_mib);
        snprintf(sum->remedy, sizeof(sum->remedy), "allow more memory");
        break;
    case -E2BIG:
        reading_fail(r, err, "the trace has more threads or categories than can be read");
        break;
    case -ESTALE:
        reading_fail(r, err, "the file became shorter while it was read");
        break;
    default:
        reading_fail(r, err, "%s", strerror(-err));
    }
}

int trace_read(const struct read_options *options, struct read_summary *ret)
{
    struct trace_reading r = {.options = options, .sum = ret};
    struct rusage usage;
    int err;

    *ret = (struct read_summary){0};
    err = reader_read_all(&r);
    if (err < 0)
        reader_explain(&r, err);
    tap_free(r.tap);
    reading_drop_parts(&r, 0);
    free(r.parts);
    spill_free(r.spill);
    checkpoint_list_done(&r.checkpoints);
    free(r.head);
    free(r.tail);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        ret->memory_peak = (uint64_t)usage.ru_maxrss << 10;
    return err;
}
