/* SPDX-License-Identifier: Apache-2.0 */
/* A pass that has the file read into columns, and takes its bytes on the way. */
#include "daemon/ingest/check_internal.h"

#include "base/alloc.h"
#include "daemon/ingest/columns_facts.h"
#include "trace/read/reader.h"
#include "trace/sql/nsys.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

static int tell_progress(uint64_t bytes_done, uint64_t bytes_all, uint64_t events, void *arg)
{
    const struct check *c = arg;

    if (c->order.progress_fd >= 0)
        dprintf(c->order.progress_fd, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", bytes_done, bytes_all, events);
    return 0;
}

static void put_columns_summary(const struct read_summary *sum, json_t *facts)
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

/* Reads the columns back: what is said of the trace is what is in them. */
static int put_columns(struct check *c, const struct read_summary *sum, json_t *facts)
{
    static const enum trace_state states[] = {
        [READ_COMPLETE] = TRACE_COMPLETE,
        [READ_TRUNCATED] = TRACE_TRUNCATED,
        [READ_CORRUPT] = TRACE_CORRUPT,
    };
    _cleanup_(columns_closep) struct columns *columns = NULL;
    _cleanup_(freep) char *reason = NULL;
    _cleanup_json_ found = json_object();

    int r = columns_open(c->order.columns_fd, &columns, &reason);
    if (r >= 0)
        r = columns_facts_put(columns, found);
    if (r < 0) {
        c->columns_reason = xasprintf("the columns cannot be read back: %s", reason ? reason : strerror(-r));
        return r;
    }
    c->state = states[sum->state];
    c->reason = sum->reason[0] ? xstrdup(sum->reason) : NULL;
    json_object_update(facts, found);
    put_columns_summary(sum, facts);
    if (sum->columns.slices > 0)
        check_put_span(facts, sum->columns.first_ns, sum->columns.last_ns,
                       json_get_int(found, "base_time_ns", -1));
    return 0;
}

static void *sync_columns(void *arg)
{
    const struct check *c = arg;
    return (void *)(intptr_t)(fsync(c->order.columns_fd) < 0 ? -errno : 0);
}

/* Copy and columns: a disk takes both at once in little more than the time of one. */
static int sync_all(struct check *c)
{
    pthread_t thread;
    void *result;

    bool beside = pthread_create(&thread, NULL, sync_columns, c) == 0;
    check_sync_copy(c);
    if (beside)
        pthread_join(thread, &result);
    else
        result = sync_columns(c);
    int r = (int)(intptr_t)result;
    if (r < 0)
        c->columns_reason = xasprintf("cannot sync the columns: %s", strerror(-r));
    return r;
}

static void note_no_columns(struct check *c, const struct read_summary *sum, int err)
{
    c->columns_reason = xstrdup(sum->reason[0] ? sum->reason : err < 0 ? strerror(-err) : "holds no events");
    c->remedy = sum->remedy[0] ? xstrdup(sum->remedy) : NULL;
}

bool check_into_columns(struct check *c, json_t *facts)
{
    const struct read_options options = {.source_fd = c->read_fd,
                                         .columns_fd = c->order.columns_fd,
                                         .spill_fd = c->order.spill_fd,
                                         .memory_max = (uint64_t)c->order.memory_max,
                                         .threads = c->threads,
                                         .part = c->order.part,
                                         .tap = check_take,
                                         .progress = tell_progress,
                                         .read_sqlite = nsys_read,
                                         .arg = c};
    struct read_summary sum = {0};

    int r = trace_read(&options, &sum);
    if (c->state == TRACE_UNREADABLE)
        return true;
    if (r < 0 || sum.state == READ_EMPTY || sum.state == READ_REFUSED) {
        note_no_columns(c, &sum, r);
        return false;
    }
    if (check_take_rest(c, NULL) < 0)
        return true;
    r = sync_all(c);
    if (c->state == TRACE_UNREADABLE)
        return true;
    if (r < 0 || put_columns(c, &sum, facts) < 0)
        return false;
    check_put_file(c, sum.stream.coding, sum.format, facts);
    return true;
}
