/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reader.h"

#include "trace/read/split.h"
#include "trace/read/streamed.h"
#include "trace/read/verdict.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* What runs keep of the events in memory, where the rest can be spilled and where it cannot. */
#define SPOOL_SHARE(memory, can_spill) ((can_spill) ? (memory) / 4 : (memory) / 2)
/* Buffers and batches. */
#define MEMORY_FIXED (UINT64_C(64) << 20)
/* What merging always gets. */
#define MERGE_MIN (UINT64_C(16) << 20)

static unsigned count_threads(const struct read_options *o)
{
    cpu_set_t cpus;

    if (o->threads > 0)
        return o->threads;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&cpus);
}

/* Looks at the first bytes as they are in the file. */
static int look_at_head(struct reading *r)
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

static size_t count_parts(const struct reading *r)
{
    const struct read_options *o = r->options;
    uint64_t size = r->sum->source_bytes;

    if (stream_coding_of((const uint8_t *)r->head, r->head_size) != STREAM_PLAIN ||
        format_of(r->head, r->head_size) != FORMAT_JSON || (o->text_max > 0 && size > o->text_max))
        return 1;
    return split_parts(size, count_threads(o), r->memory_max / 2);
}

static int read_text(struct reading *r)
{
    size_t n = count_parts(r);
    int err;

    if (n > 1)
        return split_read(r, n);
    err = reading_new_parts(r, 1, true);
    return err < 0 ? err : streamed_read(r);
}

static int pack_rest(struct reading *r)
{
    int err = 0;

    for (size_t i = 0; i < r->n_parts && err == 0; i++) {
        err = packer_finish(r->parts[i].packer);
        r->parts[i].feed = feed_free(r->parts[i].feed);
    }
    return err;
}

static void put_checkpoints(const struct checkpoint_list *list, struct columns_writer *w)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct checkpoint *c = &list->items[i];
        uint64_t place = c->window ? columns_put_bytes(w, c->window, c->window_size) : 0;
        columns_put(w, COL_checkpoint_in_bit, (int64_t)c->in_bit);
        columns_put(w, COL_checkpoint_out, (int64_t)c->out);
        columns_put(w, COL_checkpoint_window, (int64_t)place);
        columns_put(w, COL_checkpoint_window_size, (int64_t)c->window_size);
    }
}

static uint64_t merge_memory(const struct reading *r)
{
    uint64_t used = MEMORY_FIXED + spool_memory(r->spool);

    /* The strings of all parts become those of the first. */
    for (size_t i = 0; i < r->n_parts; i++)
        used += strings_memory(r->parts[i].intake->strings) * (r->n_parts > 1 ? 2 : 1);
    return r->memory_max > used + MERGE_MIN ? r->memory_max - used : MERGE_MIN;
}

static int write_columns(struct reading *r)
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
    if (err == 0)
        err = merge_columns(inputs, r->n_parts, r->spool, w, merge_memory(r), &r->sum->columns);
    if (err < 0)
        return err;
    put_checkpoints(&r->checkpoints, w);
    return columns_writer_finish(w, r->options->sync, &r->sum->columns_bytes);
}

static int prepare(struct reading *r)
{
    const struct read_options *o = r->options;

    r->memory_max = o->memory_max ? o->memory_max : READ_MEMORY_DEFAULT;
    r->head = malloc(ENDS_SIZE);
    r->tail = malloc(ENDS_SIZE);
    if (!r->head || !r->tail)
        return -ENOMEM;
    return spool_new(SPOOL_SHARE(r->memory_max, o->spill_fd >= 0), o->spill_fd, &r->spool);
}

static int read_all(struct reading *r)
{
    int err = prepare(r);

    if (err == 0)
        err = look_at_head(r);
    if (err == 0)
        err = read_text(r);
    if (err < 0)
        return err;
    r->sum->source_bytes = r->sum->stream.in;
    verdict_find(r);
    if (!verdict_has_columns(r->sum->state))
        return 0;
    err = pack_rest(r);
    return err < 0 ? err : write_columns(r);
}

static void reading_done(struct reading *r)
{
    reading_drop_parts(r, 0);
    free(r->parts);
    spool_free(r->spool);
    checkpoint_list_done(&r->checkpoints);
    free(r->head);
    free(r->tail);
}

static void explain(struct reading *r, int err)
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
    default:
        reading_fail(r, err, "%s", strerror(-err));
    }
}

int trace_read(const struct read_options *options, struct read_summary *ret)
{
    struct reading r = {.options = options, .sum = ret};
    struct rusage usage;
    int err;

    *ret = (struct read_summary){0};
    err = read_all(&r);
    if (err < 0)
        explain(&r, err);
    reading_done(&r);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        ret->memory_peak = (uint64_t)usage.ru_maxrss << 10;
    return err;
}
