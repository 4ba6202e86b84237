/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that somebody names: opened off the loop, read as any other, and kept as a trace of no session or of
 * the one that it was named for, unless its bytes are in the catalog: then that trace gets the columns, if it
 * has none, or if they are to be made again, and becomes part of the session if it is of none. What is no
 * trace is refused, and nothing of it is kept.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/collect/bringing.h"
#include "daemon/collect/place.h"
#include "proto/ingest.h"
#include "trace/read/format.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

struct import {
    struct collector *collector;
    char *path, *labels, *actor, *session_name;
    int64_t session_id;
    bool reference, again;
    struct import_result result;
    void (*done)(const struct import_result *result, void *arg);
    void *arg;
    int fd; /* or a negative errno value */
    struct stat st;
    int64_t holes;
    int64_t process_started;
};

static void end(struct import *m)
{
    m->done(&m->result, m->arg);
    problem_done(&m->result.problem);
    free(m->path);
    free(m->labels);
    free(m->actor);
    free(m->session_name);
    free(m);
}

/* -- What came of it ---------------------------------------------------------------------------------- */

static const char *remedy_of(const json_t *facts)
{
    const char *remedy = json_get_str(facts, "remedy");
    return remedy
               ? remedy
               : "profctl ingest takes traces of torch.profiler and other Chrome traces, .json, .gz or .zst, "
                 "and databases of nsys export --type sqlite.";
}

static void refuse(struct import *m, const struct bringing *b, const struct ingest_result *r)
{
    const char *why = json_get_str(r->facts, "columns_reason");

    if (!why)
        why = b->row.reason ? b->row.reason : "it holds no trace";
    problem_set(&m->result.problem, -EBADMSG, PROBLEM_UNSUPPORTED, "cannot take %s: %s", m->path, why);
    problem_remedy(&m->result.problem, "%s", remedy_of(r->facts));
}

static bool is_trace(const struct bringing *b)
{
    int format = b->row.format ? format_from_name(b->row.format) : -1;
    return b->row.columns_size != RECORD_NONE ||
           (format >= 0 && format_is_trace_json((enum trace_format)format));
}

static bool has_columns(const struct trace_record *t)
{
    return t->columns && t->columns_version == INGEST_COLUMNS_VERSION && access(t->columns, F_OK) == 0;
}

/* They come from the same bytes as those that the trace has, or has not. */
static void renew_columns(struct bringing *b, struct trace_record *same)
{
    struct import *m = b->import;
    int r;

    if (!b->columns || (has_columns(same) && !m->again))
        return;
    r = columns_renew(b->collector, &b->columns, b->facts, b->columns_reason, b->columns_used_up, same);
    if (r < 0) {
        catalog_problem(b->collector->catalog, r, &m->result.problem, "cannot catalog the columns of %s",
                        m->path);
        m->result.trace_id = 0;
    }
}

/* -- The session that it is for ----------------------------------------------------------------------- */

/* A session in which nothing was recorded: it is complete, and has no targets. */
static int add_session(struct import *m)
{
    struct catalog *catalog = m->collector->catalog;
    struct session_record s;

    session_record_init(&s);
    s.state = STATE_COMPLETE;
    s.options = (char *)"{}";
    s.labels = m->labels ? m->labels : (char *)"{}";
    s.requested_at = s.finished_at = wall_ns();
    s.requested_by = m->actor;
    s.name = m->session_name;
    int r = catalog_add_session(catalog, &s);
    if (r >= 0)
        r = catalog_add_event(catalog, "session-ingested", m->actor, s.session_id, RECORD_NONE, RECORD_NONE,
                              "%s", m->session_name);
    m->session_id = s.session_id;
    return r;
}

/* Sets m->session_id, where it is for a session. 0 or the problem. */
static int find_session(struct import *m)
{
    struct catalog *catalog = m->collector->catalog;
    struct problem *p = &m->result.problem;
    struct session_record s;
    int r;

    if (!m->session_name && m->session_id == RECORD_NONE)
        return 0;
    r = m->session_name ? catalog_find_session_by_name(catalog, m->session_name, &s)
                        : catalog_get_session(catalog, m->session_id, &s);
    if (r == -ENOENT && m->session_name)
        r = add_session(m);
    else if (r == -ENOENT)
        return problem_set(p, r, PROBLEM_NOT_FOUND, "there is no session s%" PRId64, m->session_id);
    else if (r >= 0) {
        m->session_id = s.session_id;
        bool is_over = state_is_final(s.state);
        session_record_done(&s);
        if (!is_over)
            return problem_set(p, -EBUSY, PROBLEM_CONFLICT, "session s%" PRId64 " is still being recorded",
                               m->session_id);
    }
    return r < 0 ? catalog_problem(catalog, r, p, "cannot catalog the session of %s", m->path) : 0;
}

/* A trace that was there before, of no session, becomes part of it. */
static void join_session(struct import *m, struct trace_record *same)
{
    struct catalog *catalog = m->collector->catalog;

    if (m->result.trace_id == 0 || m->session_id == RECORD_NONE || same->session_id != RECORD_NONE)
        return;
    same->session_id = m->session_id;
    int r = catalog_save_trace(catalog, same);
    if (r >= 0)
        r = catalog_commit(catalog, false);
    if (r >= 0)
        return;
    catalog_problem(catalog, r, &m->result.problem, "cannot catalog the session of %s", m->path);
    m->result.trace_id = 0;
}

/* A hash is what profd-ingest says; the size of the file is not. */
static bool find_same(struct bringing *b, const char *sha256)
{
    struct import *m = b->import;
    struct trace_record same;

    if (catalog_find_trace_by_sha256(m->collector->catalog, sha256, &same) < 0)
        return false;
    m->result.existed = same.size == m->st.st_size;
    if (m->result.existed) {
        m->result.trace_id = same.trace_id;
        renew_columns(b, &same);
        join_session(m, &same);
    }
    trace_record_done(&same);
    return m->result.existed;
}

static bool judge(struct bringing *b, const struct ingest_result *r)
{
    struct import *m = b->import;
    bool full = r->err == -ENOSPC || r->err == -EDQUOT;

    if (r->err < 0)
        problem_set(&m->result.problem, r->err, full ? PROBLEM_STORAGE : PROBLEM_INTERNAL,
                    "cannot take %s: %s", m->path, r->reason ? r->reason : strerror(-r->err));
    else if (!b->row.sha256 || !is_trace(b))
        refuse(m, b, r);
    else if (find_session(m) == 0 && !find_same(b, b->row.sha256)) {
        b->row.kind = TRACE_KIND_TRACE;
        b->row.session_id = m->session_id;
        replace_str(&b->row.labels, m->labels);
        return true;
    }
    return false;
}

/* Two clients may name the same bytes at a time. */
static bool overtaken(struct bringing *b)
{
    return find_same(b, b->row.sha256);
}

static void saved(struct bringing *b, int err)
{
    struct import *m = b->import;

    if (err < 0)
        catalog_problem(b->collector->catalog, err, &m->result.problem, "cannot catalog %s", m->path);
    else
        m->result.trace_id = b->row.trace_id;
    end(m);
}

static void dropped(struct bringing *b)
{
    struct import *m = b->import;

    if (!m->result.existed)
        problem_set(&m->result.problem, -ECANCELED, PROBLEM_CONFLICT, "profd ends");
    end(m);
}

static const struct bringing_kind imported_kind = {
    .judge = judge, .overtaken = overtaken, .saved = saved, .dropped = dropped};

/* -- The beginning ------------------------------------------------------------------------------------ */

static void open_source(void *arg)
{
    struct import *m = arg;
    m->fd = reference_open_new(m->path, &m->st, &m->process_started);
    if (m->fd >= 0)
        m->holes = place_holes(m->fd, &m->st);
}

static int explain_unopened(struct import *m)
{
    struct problem *p = &m->result.problem;

    if (m->fd == -ENOENT || m->fd == -ENOTDIR)
        return problem_set(p, m->fd, PROBLEM_NOT_FOUND, "there is no file %s", m->path);
    if (m->fd == -EINVAL || m->fd == -ELOOP || m->fd == -ENXIO)
        return problem_set(p, m->fd, PROBLEM_BAD_REQUEST, "%s is not a regular file", m->path);
    problem_set(p, m->fd, m->fd == -EACCES ? PROBLEM_DENIED : PROBLEM_STORAGE, "profd cannot read %s: %s",
                m->path, strerror(-m->fd));
    if (m->fd == -EACCES)
        problem_remedy(p, "Let profd's user read it and the directories above it.");
    return m->fd;
}

static char *directory_of(const struct import *m)
{
    return xstrndup(m->path, (size_t)(strrchr(m->path, '/') - m->path));
}

static int check_limits(struct import *m)
{
    const struct collector *c = m->collector;
    struct problem *p = &m->result.problem;

    if (m->fd < 0)
        return explain_unopened(m);
    if (c->closing)
        return problem_set(p, -ECANCELED, PROBLEM_CONFLICT, "profd ends");
    if (m->st.st_size > c->settings->file_max) {
        problem_set(p, -EFBIG, PROBLEM_TOO_LARGE, "%s is larger than profd takes", m->path);
        problem_remedy(p, "[collect] file_max= in profd.conf sets the limit.");
        return -EFBIG;
    }
    _cleanup_(freep) char *dir = directory_of(m);
    if (!ingest_has_room(c->ingest, m->actor, dir)) {
        problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "too many files wait to be read");
        problem_remedy(p, "Ask again when some of them are read.");
        return -EAGAIN;
    }
    return 0;
}

static void begin(struct import *m)
{
    _cleanup_(freep) char *dir = directory_of(m);
    const char *name = strrchr(m->path, '/') + 1;
    struct bringing *b = bringing_new(m->collector, &imported_kind, dir, name, &m->st);
    int dest_fd = -1;

    b->import = m;
    b->displaces_until = INT64_MAX;
    b->process_started = m->process_started;
    b->holes = m->holes;
    replace_str(&b->actor, m->actor);
    replace_str(&b->user, m->actor);
    b->stays = store_holds(m->collector->store, m->path);
    int r = b->stays || m->reference ? 0 : bringing_into_store(b, &dest_fd);
    if (r < 0) {
        if (r == -EBUSY)
            catalog_problem(m->collector->catalog, r, &m->result.problem, "cannot take %s now", m->path);
        else
            problem_set(&m->result.problem, r, PROBLEM_TOO_MANY, "cannot take %s now: %s", m->path,
                        strerror(-r));
        close(m->fd);
        bringing_drop(b);
        return;
    }
    bringing_start(b, m->fd, dest_fd);
}

static void on_opened(void *arg)
{
    struct import *m = arg;

    if (check_limits(m) == 0) {
        begin(m);
    } else {
        closep(&m->fd);
        end(m);
    }
}

void collector_import(struct collector *c, const struct import_order *order,
                      void (*done)(const struct import_result *result, void *arg), void *arg)
{
    struct import *m = xcalloc(1, sizeof(*m));

    *m = (struct import){.collector = c,
                         .path = xstrdup(order->path),
                         .labels = xstrdup(order->labels),
                         .actor = xstrdup(order->actor),
                         .reference = order->reference,
                         .again = order->again,
                         .session_id = order->session_id,
                         .session_name = xstrdup(order->session_name),
                         .done = done,
                         .arg = arg};
    offload_run_in(c->offload, offload_lane_of_file(m->path), open_source, on_opened, m);
}
