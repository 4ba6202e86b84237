/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/sums.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/catalog/catalog.h"
#include "daemon/report/background.h"
#include <fcntl.h>
#include <inttypes.h>

/* Of an answer: the steps of a few phases and some dozen findings. */
#define ANSWER_MAX (256 << 10)

struct sums {
    struct catalog *catalog;
    struct offload *offload;
    struct reports *pool;
    struct background *background;
    bool is_closed;
    int64_t trace_id;         /* whose sums are being computed */
    char *path;               /* of its columns, while a thread opens them */
    int fd;                   /* or a negative errno value */
    int64_t size;             /* of the columns */
    struct report_work *work; /* NULL: it has not begun */
};

/* -- The answer --------------------------------------------------------------------------------------- */

/* Numbers and texts of a trace that is not trusted: the catalog takes what its schema allows. -ENOENT: the trace was removed
 * meanwhile. */
static int sums_save(struct sums *s, int answer_fd)
{
    _cleanup_(freep) char *text = NULL;
    char error[200];
    size_t size;

    int r = lseek(answer_fd, 0, SEEK_SET) < 0 ? -errno : read_fd(answer_fd, ANSWER_MAX, &text, &size);
    if (r < 0)
        return r;
    _cleanup_json_ sums = json_parse(text, size, error);
    r = json_is_object(sums) ? catalog_set_sums(s->catalog, s->trace_id, sums) : -ENOENT;
    return r == -EINVAL ? -ENOENT : r;
}

static void sums_on_end(struct report_end *end, void *arg)
{
    struct sums *s = arg;

    s->work = NULL;
    if (end->problem.kind == PROBLEM_NONE)
        background_end(s->background, sums_save(s, end->answer_fd), NULL);
    else
        background_end(s->background,
                       end->is_refused                          ? -ENOENT
                       : end->problem.kind == PROBLEM_TOO_LARGE ? -E2BIG
                                                                : -EIO,
                       end->problem.what);
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
    if (s->is_closed) {
        closep(&s->fd);
        return;
    }
    if (s->fd < 0) {
        background_end(s->background, s->fd, NULL);
        return;
    }
    _cleanup_(freep) char *spec =
        xasprintf("{\"kind\":\"sums\",\"traces\":[{\"name\":\"t%" PRId64 "\"}]}", s->trace_id);
    const struct report_job job = {
        .spec = spec, .columns_fds = &s->fd, .n = 1, .mapped = s->size, .background = true};
    s->work = reports_run(s->pool, &job, sums_on_end, s);
    s->fd = -1;
}

static int sums_begin(int64_t trace_id, void *arg)
{
    _cleanup_(trace_record_done) struct trace_record t;
    struct sums *s = arg;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, trace_id, &t);
    if (r < 0 || !t.columns)
        return r < 0 ? r : -ENOENT;
    s->trace_id = trace_id;
    s->path = xstrdup(t.columns);
    offload_run_in(s->offload, offload_queue_of_file(s->path), sums_open_columns, sums_on_opened, s);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- */

int sums_new(struct event_base *base, struct catalog *catalog, struct offload *offload, struct reports *pool,
             struct sums **ret)
{
    static const struct background_ops ops = {BACKGROUND_SUMS, "sums of trace t", sums_begin};
    struct sums *s = xcalloc(1, sizeof(*s));

    *s = (struct sums){.catalog = catalog, .offload = offload, .pool = pool, .fd = -1};
    s->background = background_new(base, catalog, &ops, s);
    *ret = s;
    return 0;
}

void sums_close(struct sums *s)
{
    s->is_closed = true;
    background_close(s->background);
    if (s->work)
        reports_cancel(TAKE_PTR(s->work));
}

struct sums *sums_free(struct sums *s)
{
    if (!s)
        return NULL;
    background_free(s->background);
    free(s->path);
    free(s);
    return NULL;
}
