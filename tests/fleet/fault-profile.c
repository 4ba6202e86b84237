/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and stops of any engine. A start can take effect without being answered well; a stop ends the
 * recording the moment it arrives, then its traces are written, then it is answered. What a trace is and how
 * it appears are two tables of faults, which combine.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "tests/fleet/fault-fleet.h"
#include "tests/fleet/fault-trace.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/stat.h>

#define MIB            (1024 * 1024)
#define PIECES         20 /* in which a growing trace is written */
#define TRAILER        8  /* CRC and size at the end of gzip */
#define TRACE_MODE     0644
#define HUGE_GUESS_NS  NS_PER_S /* how long a huge trace still takes, for whoever must wait for it */
#define MANY_FILES_MAX 100000

/* One stop's work. */
struct flush {
    struct recording *recording;
    int64_t end_ns; /* wall */
    bool failed;
    int (*deliver)(struct worker *w, struct flush *f, const char *path, char *data, size_t size);
    struct huge_trace *huge; /* the trace being written in slices */
    int huge_fd;
    unsigned huge_rank;
};

/* A trace that is written in pieces after its stop was answered. */
struct growth {
    char *path, *data;
    size_t size, piece;
    double pause_s;
    int fd;
};

struct recording *recording_free(struct recording *r)
{
    if (!r)
        return NULL;
    free(r->dir);
    free(r->profile_id);
    free(r->prefix);
    free(r);
    return NULL;
}

static void flush_free(void *arg)
{
    struct flush *f = arg;
    recording_free(f->recording);
    huge_trace_free(f->huge);
    closep(&f->huge_fd);
    free(f);
}

static void growth_free(void *arg)
{
    struct growth *g = arg;
    closep(&g->fd);
    free(g->path);
    free(g->data);
    free(g);
}

/* ---- starts ---- */

static void answer_started(struct worker *w, struct http_conn *c, void *arg)
{
    if (c)
        worker_answer(w, c, 200, w->fleet->engine->type, w->fleet->engine->started);
}

static void begin(struct worker *w, struct recording *r)
{
    recording_free(w->recording);
    w->recording = r;
    r->began_ns = wall_ns();
    r->since_ns = mono_ns();
    w->n_recordings++;
}

static void refuse_start(struct worker *w, struct http_conn *c)
{
    http_port_refuse(w->port, NULL);
}

static void answer_failed(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 500, w->fleet->engine->type, w->fleet->engine->failed);
}

static void answer_conflict(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 409, "application/json",
                  "{\"error\":{\"message\":\"Profiler is already running\",\"code\":409}}");
}

static void answer_missing(struct worker *w, struct http_conn *c)
{
    worker_answer(w, c, 404, w->fleet->engine->type, w->fleet->engine->not_found);
}

static void reset(struct worker *w, struct http_conn *c)
{
    http_reset(c);
}

static void hang(struct worker *w, struct http_conn *c)
{
}

static const struct {
    enum fault fault;
    bool takes_effect;
    void (*answer)(struct worker *w, struct http_conn *c);
} start_faults[] = {
    {FAULT_START_REFUSED, false, refuse_start}, {FAULT_NO_PROFILER, false, answer_missing},
    {FAULT_START_404, false, answer_missing},   {FAULT_START_409, false, answer_conflict},
    {FAULT_START_500, false, answer_failed},    {FAULT_HANG_START, true, hang},
    {FAULT_RESET_START, true, reset},
};

void profile_start(struct worker *w, struct http_conn *c, struct recording *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(start_faults); i++) {
        if (!worker_has(w, start_faults[i].fault))
            continue;
        if (start_faults[i].takes_effect)
            begin(w, r);
        else
            recording_free(r);
        start_faults[i].answer(w, c);
        return;
    }
    begin(w, r);
    double delay_s = worker_busy_seconds(w);
    if (worker_has(w, FAULT_SLOW_START))
        delay_s = MAX(delay_s, w->faults.number[FAULT_SLOW_START]);
    if (delay_s > 0)
        later(w, c, delay_s, answer_started, NULL, NULL);
    else
        hold(w, c, FAULT_HOLD_START, answer_started, NULL, NULL);
}

/* ---- how a trace appears ---- */

/* What another session left under the name may be a link or a pipe: neither is followed nor waited for. */
static int create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, TRACE_MODE);
    return fd < 0 ? -errno : fd;
}

/* Each of these takes data. */
static int deliver_whole(struct worker *w, struct flush *f, const char *path, char *data, size_t size)
{
    _cleanup_(freep) char *owned = data;
    _cleanup_(closep) int fd = create(path);
    return fd < 0 ? fd : write_all(fd, owned, size);
}

static void grow(struct worker *w, struct http_conn *c, void *arg)
{
    struct growth *g = arg;
    if (g->fd < 0)
        g->fd = create(g->path);
    size_t n = MIN(g->size, g->piece);
    if (g->fd < 0 || write_all(g->fd, g->data, n) < 0) {
        log_error("cannot write %s: %m", g->path);
        growth_free(g);
        return;
    }
    g->size -= n;
    memmove(g->data, g->data + n, g->size);
    if (g->size > 0)
        later(w, NULL, g->pause_s, grow, g, growth_free);
    else
        growth_free(g);
}

static int deliver_after(struct worker *w, const char *path, char *data, size_t size, unsigned pieces,
                         double first_s, double pause_s)
{
    struct growth *g = xcalloc(1, sizeof(*g));
    *g = (struct growth){.path = xstrdup(path), .data = data, .size = size, .pause_s = pause_s, .fd = -1};
    g->piece = size / pieces + 1;
    later(w, NULL, first_s, grow, g, growth_free);
    return 0;
}

static int deliver_late(struct worker *w, struct flush *f, const char *path, char *data, size_t size)
{
    return deliver_after(w, path, data, size, 1, w->faults.number[FAULT_LATE], 0);
}

static int deliver_when_released(struct worker *w, struct flush *f, const char *path, char *data, size_t size)
{
    struct growth *g = xcalloc(1, sizeof(*g));
    *g = (struct growth){.path = xstrdup(path), .data = data, .size = size, .piece = size + 1, .fd = -1};
    hold(w, NULL, FAULT_HOLD_TRACE, grow, g, growth_free);
    return 0;
}

static int deliver_growing(struct worker *w, struct flush *f, const char *path, char *data, size_t size)
{
    return deliver_after(w, path, data, size, PIECES, 0, w->faults.number[FAULT_GROWING] / PIECES);
}

static int deliver_link(struct worker *w, struct flush *f, const char *path, char *data, size_t size)
{
    free(data);
    return symlink("/etc/os-release", path) < 0 && errno != EEXIST ? -errno : 0;
}

static int deliver_fifo(struct worker *w, struct flush *f, const char *path, char *data, size_t size)
{
    free(data);
    return mkfifo(path, TRACE_MODE) < 0 && errno != EEXIST ? -errno : 0;
}

static const struct {
    enum fault fault;
    int (*deliver)(struct worker *w, struct flush *f, const char *path, char *data, size_t size);
} deliveries[] = {
    {FAULT_SYMLINK_TRACE, deliver_link},       {FAULT_FIFO_TRACE, deliver_fifo}, {FAULT_LATE, deliver_late},
    {FAULT_HOLD_TRACE, deliver_when_released}, {FAULT_GROWING, deliver_growing},
};

/* ---- what is in a trace ---- */

static size_t spoil_zero(char *data, size_t size)
{
    return 0;
}

static size_t spoil_half(char *data, size_t size)
{
    return size / 2;
}

static size_t spoil_crc(char *data, size_t size)
{
    if (size >= TRAILER)
        data[size - TRAILER] ^= 0x55;
    return size;
}

static const struct {
    enum fault fault;
    size_t (*spoil)(char *data, size_t size); /* returns the size that is left */
} spoilers[] = {
    {FAULT_CORRUPT_CRC, spoil_crc},
    {FAULT_TRUNCATED, spoil_half},
    {FAULT_CRASH_FLUSH, spoil_half},
    {FAULT_ZERO_BYTE, spoil_zero},
};

static struct trace_facts facts_of(struct worker *w, const struct flush *f, unsigned rank, const char *name)
{
    return (struct trace_facts){.worker = w->index,
                                .rank = rank,
                                .world_size = w->fleet->n_ranks,
                                .pid = (int)getpid(),
                                .begin_ns = f->recording->began_ns,
                                .end_ns = f->end_ns,
                                .name = name};
}

static int trace_bytes(struct worker *w, const struct flush *f, unsigned rank, const char *name, char **ret,
                       size_t *ret_size)
{
    if (w->fleet->template && !worker_has(w, FAULT_TRUNCATED_JSON)) {
        *ret = malloc(w->fleet->template_size + 1);
        if (!*ret)
            return -ENOMEM;
        memcpy(*ret, w->fleet->template, w->fleet->template_size);
        *ret_size = w->fleet->template_size;
        return 0;
    }
    struct trace_facts facts = facts_of(w, f, rank, name);
    _cleanup_(freep) char *text = NULL;
    size_t size;
    trace_text(&facts, &text, &size);
    if (worker_has(w, FAULT_TRUNCATED_JSON))
        size /= 2;
    if (!w->fleet->engine->plain_traces)
        return trace_gzip(text, size, ret, ret_size);
    *ret = TAKE_PTR(text);
    *ret_size = size;
    return 0;
}

static char *trace_path(struct worker *w, const struct flush *f, unsigned rank, const char *stage, bool copy)
{
    struct fleet *fleet = w->fleet;
    _cleanup_(freep) char *name = fleet->engine->trace_name(fleet, f->recording, rank, stage, copy);
    bool plain =
        fleet->template ? !trace_is_gzip(fleet->template, fleet->template_size) : fleet->engine->plain_traces;
    return xasprintf("%s/%s%s%s", f->recording->dir, name, fleet->engine->trace_suffix, plain ? "" : ".gz");
}

static int emit(struct worker *w, struct flush *f, unsigned rank, const char *stage)
{
    _cleanup_(freep) char *path = trace_path(w, f, rank, stage, false);
    char *data;
    size_t size;
    int r = trace_bytes(w, f, rank, path, &data, &size);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(spoilers); i++)
        if (worker_has(w, spoilers[i].fault))
            size = spoilers[i].spoil(data, size);

    char *twin = NULL;
    if (worker_has(w, FAULT_DUPLICATE)) {
        twin = xcalloc(size + 1, 1);
        memcpy(twin, data, size);
    }
    r = f->deliver(w, f, path, data, size);
    if (twin && r == 0) {
        _cleanup_(freep) char *twin_path = trace_path(w, f, rank, stage, true);
        r = f->deliver(w, f, twin_path, TAKE_PTR(twin), size);
    }
    free(twin);
    return r;
}

/* ---- stops ---- */

static void die(struct worker *w, struct http_conn *c)
{
    worker_die(w);
}

static const struct {
    enum fault fault;
    void (*answer)(struct worker *w, struct http_conn *c);
} stop_faults[] = {
    {FAULT_HANG_STOP, hang},
    {FAULT_RESET_STOP, reset},
    {FAULT_STOP_500, answer_failed},
    {FAULT_STOP_500_NO_TRACE, answer_failed},
};

static void answer_stopped(struct worker *w, struct http_conn *c)
{
    for (size_t i = 0; i < ARRAY_SIZE(stop_faults); i++)
        if (worker_has(w, stop_faults[i].fault)) {
            stop_faults[i].answer(w, c);
            return;
        }
    worker_answer(w, c, 200, w->fleet->engine->type, w->fleet->engine->stopped);
}

static void flush_end(struct worker *w, struct http_conn *c, struct flush *f)
{
    bool failed = f->failed;
    flush_free(f);
    worker_iterations(w);
    if (--w->n_flushes == 0)
        w->busy_until_ns = 0;
    if (worker_has(w, FAULT_CRASH_FLUSH))
        die(w, c);
    else if (c && failed)
        answer_failed(w, c);
    else if (c)
        answer_stopped(w, c);
}

static unsigned ranks_written(const struct worker *w)
{
    return w->fleet->n_ranks - worker_has(w, FAULT_MISSING_RANK);
}

static int huge_next(struct worker *w, struct flush *f)
{
    if (!f->huge) {
        _cleanup_(freep) char *path = trace_path(w, f, f->huge_rank, NULL, false);
        struct trace_facts facts = facts_of(w, f, f->huge_rank, path);
        f->huge_fd = create(path);
        if (f->huge_fd < 0)
            return f->huge_fd;
        int r = huge_trace_new(&facts, (uint64_t)(w->faults.number[FAULT_HUGE] * MIB), &f->huge);
        if (r < 0)
            return r;
    }
    int r = huge_trace_write(f->huge, f->huge_fd);
    if (r != 0)
        return r;
    f->huge = huge_trace_free(f->huge);
    close(TAKE_FD(f->huge_fd));
    return ++f->huge_rank < ranks_written(w);
}

/* A slice a turn of the loop, so that the other workers go on answering. */
static void huge_step(struct worker *w, struct http_conn *c, void *arg)
{
    struct flush *f = arg;
    int r = ranks_written(w) == 0 ? 0 : huge_next(w, f);
    if (r > 0) {
        w->busy_until_ns = mono_ns() + HUGE_GUESS_NS;
        later(w, c, 0, huge_step, f, flush_free);
        return;
    }
    if (r < 0)
        log_error("worker %u: cannot write a huge trace in %s: %s", w->index, f->recording->dir,
                  strerror(-r));
    f->failed = r < 0;
    flush_end(w, c, f);
}

static int emit_all(struct worker *w, struct flush *f)
{
    static const char *const stages[] = {"EXTEND", "DECODE"};
    unsigned n = f->recording->first_rank_only ? 1 : ranks_written(w);
    if (worker_has(w, FAULT_MANY_FILES))
        n += (unsigned)MIN(w->faults.number[FAULT_MANY_FILES], MANY_FILES_MAX);
    for (unsigned rank = 0; rank < n; rank++)
        for (size_t s = 0; s < (f->recording->by_stage ? ARRAY_SIZE(stages) : 1); s++) {
            int r = emit(w, f, rank, f->recording->by_stage ? stages[s] : NULL);
            if (r < 0)
                return r;
        }
    return 0;
}

static void flush_write(struct worker *w, struct http_conn *c, void *arg)
{
    struct flush *f = arg;
    bool nothing = worker_has(w, FAULT_NO_TRACE) || worker_has(w, FAULT_STOP_500_NO_TRACE) ||
                   (worker_has(w, FAULT_ONE_SESSION) && w->n_recordings > 1);
    int r = nothing ? 0 : make_dirs(f->recording->dir, 0755);
    if (r == 0 && !nothing && worker_has(w, FAULT_HUGE)) {
        huge_step(w, c, f);
        return;
    }
    if (r == 0 && !nothing)
        r = emit_all(w, f);
    if (r < 0)
        log_error("worker %u: cannot write traces in %s: %s", w->index, f->recording->dir, strerror(-r));
    f->failed = r < 0;
    flush_end(w, c, f);
}

static void flush_begin(struct worker *w, struct http_conn *c)
{
    struct flush *f = xcalloc(1, sizeof(*f));
    w->longest_ns = MAX(w->longest_ns, mono_ns() - w->recording->since_ns);
    *f = (struct flush){.recording = TAKE_PTR(w->recording), .end_ns = wall_ns(), .huge_fd = -1};
    event_del(w->auto_stop);
    worker_iterations(w);
    w->n_flushes++;
    f->deliver = deliver_whole;
    for (size_t i = ARRAY_SIZE(deliveries); i-- > 0;)
        if (worker_has(w, deliveries[i].fault))
            f->deliver = deliveries[i].deliver;

    if (!worker_has(w, FAULT_SLOW_STOP)) {
        hold(w, c, FAULT_HOLD_STOP, flush_write, f, flush_free);
        return;
    }
    double delay_s = w->faults.number[FAULT_SLOW_STOP];
    w->busy_until_ns = mono_ns() + (int64_t)(delay_s * (double)NS_PER_S);
    later(w, c, delay_s, flush_write, f, flush_free);
}

static void answer_idle(struct worker *w, struct http_conn *c, void *arg)
{
    int status = *(int *)arg;
    free(arg);
    const struct engine_ops *e = w->fleet->engine;
    if (c)
        worker_answer(w, c, status, e->type, status == 200 ? e->stopped : e->failed);
}

void profile_stop(struct worker *w, struct http_conn *c, int idle_status)
{
    if (worker_has(w, FAULT_NO_PROFILER)) {
        answer_missing(w, c);
        return;
    }
    if (w->recording) {
        flush_begin(w, c);
        return;
    }
    if (worker_has(w, FAULT_START_REFUSED))
        http_port_refuse(w->port, c);
    int *status = xcalloc(1, sizeof(*status));
    *status = worker_has(w, FAULT_IDLE_STOP_500) ? 500 : idle_status;
    double busy_s = worker_busy_seconds(w);
    if (busy_s > 0)
        later(w, c, busy_s, answer_idle, status, free);
    else
        hold(w, c, FAULT_HOLD_CLEAN, answer_idle, status, free);
}

void profile_stop_after(struct worker *w, double seconds)
{
    struct timeval delay = timeval_of((int64_t)(seconds * (double)NS_PER_S));
    event_add(w->auto_stop, &delay);
}
