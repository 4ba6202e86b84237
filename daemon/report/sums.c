/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/sums.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/records.h"
#include <fcntl.h>
#include <inttypes.h>

/* Traces that may wait; of more that are imported at once the oldest ones get no sums. */
#define WAITING_MAX 10000
/* Of an answer: the steps of a few phases and some dozen findings. */
#define ANSWER_MAX (1 << 20)

struct sums {
    struct catalog *catalog;
    struct offload *offload;
    struct reports *pool;
    int64_t *waiting; /* ids of traces, the oldest first */
    size_t n, cap;
    bool is_closed;
    /* The trace whose sums are being computed; 0: none. */
    int64_t trace_id;
    char *path;               /* of its columns, while a thread opens them */
    int fd;                   /* or a negative errno value */
    int64_t size;             /* of the columns */
    struct report_work *work; /* NULL: it has not begun */
};

static void sums_next(struct sums *s);

/* -- The answer --------------------------------------------------------------------------------------- */

/* Numbers and texts of a trace that is not trusted: the catalog takes what its schema allows. */
static void sums_save(struct sums *s, int answer_fd)
{
    _cleanup_(freep) char *text = NULL;
    char error[200];
    size_t size;

    if (lseek(answer_fd, 0, SEEK_SET) < 0 || read_fd(answer_fd, ANSWER_MAX, &text, &size) < 0)
        return;
    _cleanup_json_ sums = json_parse(text, size, error);
    int r = json_is_object(sums) ? catalog_set_sums(s->catalog, s->trace_id, sums) : -EBADMSG;
    if (r >= 0)
        r = catalog_commit(s->catalog, false);
    /* It was removed meanwhile: -ENOENT. */
    if (r < 0 && r != -ENOENT)
        log_warning("cannot save the sums of trace t%" PRId64 ": %s", s->trace_id, strerror(-r));
}

static void sums_on_end(struct report_end *end, void *arg)
{
    struct sums *s = arg;

    s->work = NULL;
    if (end->problem.kind == PROBLEM_NONE)
        sums_save(s, end->answer_fd);
    else
        log_debug("no sums of trace t%" PRId64 ": %s", s->trace_id, end->problem.what);
    s->trace_id = 0;
    sums_next(s);
}

/* -- The work ----------------------------------------------------------------------------------------- */

static void sums_open_columns(void *arg)
{
    struct sums *s = arg;
    struct stat st = {0};

    s->fd = open_regular(AT_FDCWD, s->path, &st);
    s->size = st.st_size;
}

static void sums_on_opened(void *arg)
{
    struct sums *s = arg;

    free(TAKE_PTR(s->path));
    if (s->fd < 0 || s->is_closed) {
        closep(&s->fd);
        s->trace_id = 0;
        sums_next(s);
        return;
    }
    _cleanup_(freep) char *spec =
        xasprintf("{\"kind\":\"sums\",\"traces\":[{\"name\":\"t%" PRId64 "\"}]}", s->trace_id);
    const struct report_job job = {
        .spec = spec, .columns_fds = &s->fd, .n = 1, .mapped = s->size, .background = true};
    s->work = reports_run(s->pool, &job, sums_on_end, s);
    s->fd = -1;
}

static bool sums_begin(struct sums *s, int64_t trace_id)
{
    _cleanup_(trace_record_done) struct trace_record t;

    trace_record_init(&t);
    if (catalog_get_trace(s->catalog, trace_id, &t) < 0 || !t.columns)
        return false;
    s->trace_id = trace_id;
    s->path = xstrdup(t.columns);
    offload_run_in(s->offload, offload_queue_of_file(s->path), sums_open_columns, sums_on_opened, s);
    return true;
}

static void sums_next(struct sums *s)
{
    while (s->n > 0 && s->trace_id == 0 && !s->is_closed) {
        int64_t trace_id = s->waiting[0];
        memmove(s->waiting, s->waiting + 1, --s->n * sizeof(*s->waiting));
        if (sums_begin(s, trace_id))
            return;
    }
}

static void sums_on_event(const json_t *event, void *arg)
{
    struct sums *s = arg;
    const char *kind = json_get_str(event, "kind"), *trace = json_get_str(event, "trace");
    int64_t id;

    if (s->is_closed || !kind || !streq(kind, "trace-added") || !trace || parse_ref(trace, 't', &id) != 't')
        return;
    if (s->n == WAITING_MAX)
        memmove(s->waiting, s->waiting + 1, --s->n * sizeof(*s->waiting));
    VEC_GROW(s->waiting, s->n, s->cap);
    s->waiting[s->n++] = id;
    sums_next(s);
}

/* ----------------------------------------------------------------------------------------------------- */

int sums_new(struct catalog *catalog, struct offload *offload, struct reports *pool, struct sums **ret)
{
    struct sums *s = xcalloc(1, sizeof(*s));

    *s = (struct sums){.catalog = catalog, .offload = offload, .pool = pool, .fd = -1};
    catalog_on_event(catalog, sums_on_event, s);
    *ret = s;
    return 0;
}

void sums_close(struct sums *s)
{
    s->is_closed = true;
    if (s->work)
        reports_cancel(TAKE_PTR(s->work));
}

struct sums *sums_free(struct sums *s)
{
    if (!s)
        return NULL;
    free(s->waiting);
    free(s->path);
    free(s);
    return NULL;
}
