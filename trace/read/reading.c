/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include "base/whole.h"
#include "trace/read/callgrind.h"
#include <errno.h>
#include <stdarg.h>

/* One half of the memory is for the strings of all parts; a part of one or two has a quarter, so that
 * unifying them does not need more. */
#define STRINGS_SHARE(memory, parts) ((memory) / 2 / MAX((parts), (size_t)2))

whole_reader *reading_whole_reader(const struct reading *r, enum trace_format format)
{
    static whole_reader *const readers[_FORMAT_MAX] = {
        [FORMAT_CALLGRIND] = callgrind_read,
    };
    return format == FORMAT_NSYS_SQLITE ? r->options->read_sqlite : readers[format];
}

int reading_new_parts(struct reading *r, size_t n, bool threaded)
{
    int err = 0;

    r->parts = calloc(n, sizeof(*r->parts));
    if (!r->parts)
        return -ENOMEM;
    for (r->n_parts = 0; r->n_parts < n && err == 0; r->n_parts++) {
        struct part *p = &r->parts[r->n_parts];
        err = intake_new(STRINGS_SHARE(r->memory_max, n), &p->intake);
        if (err == 0)
            p->intake->part = r->options->part;
        if (err == 0)
            err = packer_new(p->intake, r->spool, threaded, &p->packer);
    }
    return err < 0 ? err : feed_new(r->parts[0].intake, FEED_AT_BEGINNING, 0, &r->parts[0].feed);
}

static void drop_part(struct part *p)
{
    feed_free(p->feed);
    packer_free(p->packer);
    intake_free(p->intake);
}

void reading_drop_parts(struct reading *r, size_t n_left)
{
    for (; r->n_parts > n_left; r->n_parts--)
        drop_part(&r->parts[r->n_parts - 1]);
}

uint64_t reading_events(const struct reading *r)
{
    uint64_t events = 0;

    for (size_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].feed)
            events += feed_events(r->parts[i].feed);
    return events;
}

int reading_fail(struct reading *r, int err, const char *format, ...)
{
    va_list ap;

    if (r->sum->reason[0])
        return err;
    va_start(ap, format);
    vsnprintf(r->sum->reason, sizeof(r->sum->reason), format, ap);
    va_end(ap);
    return err;
}

ssize_t reading_pread(struct reading *r, void *data, size_t size, uint64_t at)
{
    return pread_whole(r->options->source_fd, data, size, at);
}

int reading_progress(struct reading *r, uint64_t bytes_done, uint64_t events)
{
    const struct read_options *o = r->options;

    if (o->progress && o->progress(bytes_done, r->sum->source_bytes, events, o->arg) != 0)
        return reading_fail(r, -ECANCELED, "the reading was cancelled");
    return 0;
}
