/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that have no columns, or columns of an older version, are read while nothing else is to be done: one
 * at a time, the newest first, at the lowest priority. Each is tried once in the life of profd.
 *
 * What it reads is the file that the catalog knows: one with other bytes stays without columns.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/collect/bringing.h"
#include "proto/ingest.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

struct reread {
    struct collector *collector;
    int64_t at;   /* the trace that is being read, or was last; RECORD_NONE none yet */
    bool reading; /* or its file is being opened */
    char *draft;
    int64_t columns_room; /* that the store lends to it */
    size_t n_read;
    struct reference reference; /* to the file that a thread opens */
    int fd;                     /* of that, or a negative errno value */
    struct stat st;
};

struct reread *reread_free(struct reread *r)
{
    if (!r)
        return NULL;
    columns_drop(&r->draft);
    reference_done(&r->reference);
    free(r);
    return NULL;
}

static void end(struct reread *r)
{
    struct collector *c = r->collector;

    if (r->n_read > 0)
        log_notice("%zu trace%s read into columns", r->n_read, r->n_read == 1 ? " was" : "s were");
    c->reread = reread_free(r);
}

static const char *why_not(const struct trace_record *t, const struct ingest_result *result)
{
    const char *sha256 = json_get_str(result->facts, "sha256");

    if (json_object_size(result->facts) == 0)
        return result->reason ? result->reason : "profd-ingest failed";
    if ((t->sha256 && sha256 && !streq(t->sha256, sha256)) ||
        json_get_int(result->facts, "size", t->size) != t->size)
        return "its file has changed";
    return NULL;
}

static int save(struct reread *r, struct trace_record *t, const struct ingest_result *result)
{
    int e = columns_renew(r->collector, &r->draft, result->facts, why_not(t, result), result->used_up, t);

    r->n_read += e >= 0 && t->columns;
    return e;
}

static void drop_columns(void *arg)
{
    struct reread *r = arg;
    columns_drop(&r->draft);
    store_columns_done(r->collector->store, r->columns_room);
    r->columns_room = 0;
}

static void on_read(const struct ingest_result *result, void *arg)
{
    struct reread *r = arg;
    struct collector *c = r->collector;
    struct trace_record t;

    r->reading = false;
    trace_record_init(&t);
    /* An error of the job is no fault of the trace: the next start tries again. */
    bool told = result->err == 0 && !c->closing;
    if (told && catalog_get_trace(c->catalog, r->at, &t) == 0 && save(r, &t, result) < 0)
        log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = r->at), "cannot catalog the columns of t%" PRId64,
                   r->at);
    trace_record_done(&t);
    drop_columns(r);
    reread_go_on(c);
}

static void open_columns(struct ingest_columns *ret, void *arg)
{
    struct reread *r = arg;
    columns_open_draft(r->collector, ret, &r->draft);
    r->columns_room = ret->room;
}

static void open_source(void *arg)
{
    struct reread *r = arg;
    r->fd = reference_open(&r->reference, &r->st);
}

static void read_opened(struct reread *r)
{
    const struct collect_settings *s = r->collector->settings;
    const struct ingest_order order = {.source_fd = TAKE_FD(r->fd),
                                       .source_size = r->st.st_size,
                                       .dest_fd = -1,
                                       .open_columns = open_columns,
                                       .drop_columns = drop_columns,
                                       .size_max = s->file_max,
                                       .memory_max = s->columns_memory,
                                       .background = true};

    ingest_run(r->collector->ingest, &order, on_read, r);
}

static void on_opened(void *arg)
{
    struct reread *r = arg;
    struct collector *c = r->collector;

    if (r->fd >= 0 && !c->closing) {
        read_opened(r);
        return;
    }
    closep(&r->fd);
    r->reading = false;
    reread_go_on(c);
}

static void start(struct reread *r, const struct trace_record *t)
{
    reference_done(&r->reference);
    reference_of(t, &r->reference);
    r->reading = true;
    offload_run_in(r->collector->offload, offload_lane_of_file(r->reference.path), open_source, on_opened, r);
}

void reread_go_on(struct collector *c)
{
    struct reread *r = c->reread;
    struct trace_record t;

    if (!r || r->reading || c->closing || c->n_bringing > 0)
        return;
    if (catalog_find_trace_without_columns(c->catalog, r->at, INGEST_COLUMNS_VERSION, &t) < 0) {
        end(r);
        return;
    }
    r->at = t.trace_id;
    start(r, &t);
    trace_record_done(&t);
}

void reread_begin(struct collector *c)
{
    struct reread *r = xcalloc(1, sizeof(*r));

    *r = (struct reread){.collector = c, .at = RECORD_NONE, .fd = -1};
    c->reread = r;
    reread_go_on(c);
}
