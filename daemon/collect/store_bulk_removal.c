/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removals that may be large. A portion is: a few rows, their commit, then their files on the offload; then
 * the next portion. The rows of a portion go before its files: a file without a row is recovered at the next
 * start, while a row without a file would be wrong.
 *
 * A session's row goes with its last traces. Where they are more than a portion, an event is written first: a
 * start of profd that finds the event and the session resumes the removal.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/collect/store_internal.h"
#include <errno.h>
#include <inttypes.h>

/* Rows of a portion: their deletion takes some milliseconds. */
#define REMOVAL_PORTION 100

struct store_removal {
    struct store *store;
    char *actor;
    store_removed_fn done;
    void *arg;
    struct store_removed removed;

    int64_t session_id;       /* RECORD_NONE: a vacuum */
    int64_t goal;             /* of a vacuum: bytes to be freed */
    int64_t collected_until;  /* of a vacuum */
    struct trace_position at; /* of a vacuum: the last trace that was chosen */
    bool dry_run;

    struct trace_record *portion; /* with the fields that the removal needs */
    size_t n;
    bool announced;
    char *directory; /* the session's, to be removed with the last portion; NULL before */
};

/* -- The report of a vacuum -- */

static json_t *removal_list_item(const struct trace_record *t)
{
    char ref[32];
    json_t *j = json_object();

    snprintf(ref, sizeof(ref), "t%" PRId64, t->trace_id);
    json_put_str(j, "trace", ref);
    if (t->session_id != RECORD_NONE) {
        snprintf(ref, sizeof(ref), "s%" PRId64, t->session_id);
        json_put_str(j, "session", ref);
    }
    json_put_str(j, "worker", t->worker_url);
    json_put_str(j, "name", t->name);
    json_put_int(j, "size", store_trace_bytes(t));
    json_put_int(j, "collected_at", t->collected_at);
    if (!t->stored)
        json_put_bool(j, "columns_only", true);
    if (t->archived_at != RECORD_NONE)
        json_put_bool(j, "archived", true);
    return j;
}

static const char *removal_kept_reason(struct store_removal *m, const struct trace_record *t)
{
    struct session_record s;
    bool pinned;

    if (t->pinned)
        return "pinned";
    if (m->store->archive && t->stored && t->archived_at == RECORD_NONE)
        return "not-archived";
    session_record_init(&s);
    pinned = catalog_get_session(m->store->catalog, t->session_id, &s) >= 0 && s.pinned;
    session_record_done(&s);
    return pinned ? "session-pinned" : "session-running";
}

static int removal_add_kept(const struct trace_record *t, void *arg)
{
    struct store_removal *m = arg;
    json_t *item = removal_list_item(t);

    json_put_str(item, "reason", removal_kept_reason(m, t));
    json_array_append_new(m->removed.kept, item);
    return 0;
}

/* Traces older than the last one that was removed, or, if the goal is not reached, all that would help. */
static void removal_list_kept(struct store_removal *m)
{
    if (m->session_id != RECORD_NONE || m->goal <= 0)
        return;
    int64_t until = m->removed.bytes >= m->goal ? m->at.at : m->collected_until;
    catalog_each_protected(m->store->catalog, until, STORE_LISTED_MAX, removal_add_kept, m);
}

static void removal_end(struct store_removal *m, int err)
{
    struct store *s = m->store;
    char size[UNIT_TEXT_MAX];

    if (m->session_id == RECORD_NONE && !m->dry_run && m->removed.bytes > 0)
        log_struct(LOG_NOTICE, LOG_FIELDS(.message_id = MESSAGE_STORE_FULL),
                   "vacuum of the store by %s: %" PRId64 " traces removed, %s", m->actor, m->removed.traces,
                   format_size(size, m->removed.bytes));
    m->removed.err = err;
    s->n_removals--;
    removal_list_kept(m);
    m->removed.collected_until = m->at.at;
    m->done(&m->removed, m->arg);
    json_decref(m->removed.removed);
    json_decref(m->removed.kept);
    if (s->n_removals == 0 && s->idle && !s->closing)
        s->idle(s->idle_arg);
    free(m->portion);
    free(m->directory);
    free(m->actor);
    free(m);
}

/* A vacuum removes only the columns of a trace that was left in place, and leaves the row of one that is archived. */
static bool removal_takes_trace(const struct store_removal *m, const struct trace_record *t)
{
    return m->session_id != RECORD_NONE || (t->stored && t->archived_at == RECORD_NONE);
}

static bool removal_evicts_trace(const struct store_removal *m, const struct trace_record *t)
{
    return m->session_id == RECORD_NONE && t->stored && t->archived_at != RECORD_NONE;
}

static int removal_add_trace(const struct trace_record *t, void *arg)
{
    struct store_removal *m = arg;

    if (m->session_id == RECORD_NONE && (m->removed.bytes >= m->goal || t->collected_at > m->collected_until))
        return 1;
    m->at = (struct trace_position){t->collected_at, t->trace_id};
    if (m->removed.removed && json_array_size(m->removed.removed) < STORE_LISTED_MAX)
        json_array_append_new(m->removed.removed, removal_list_item(t));
    m->removed.traces += removal_takes_trace(m, t) || removal_evicts_trace(m, t);
    m->removed.evicted += removal_evicts_trace(m, t);
    m->removed.bytes += store_trace_bytes(t);
    m->portion[m->n++] = (struct trace_record){.trace_id = t->trace_id,
                                               .session_id = t->session_id,
                                               .name = xstrdup(t->name),
                                               .path = xstrdup(t->path),
                                               .columns = xstrdup(t->columns),
                                               .sha256 = xstrdup(t->sha256),
                                               .archived_at = t->archived_at,
                                               .archive_key = xstrdup(t->archive_key),
                                               .stored = t->stored};
    return 0;
}

static int removal_choose(struct store_removal *m)
{
    struct trace_filter filter = {.session_id = m->session_id,
                                  .since = RECORD_NONE,
                                  .until = RECORD_NONE,
                                  .before_id = RECORD_NONE,
                                  .limit = REMOVAL_PORTION};

    int r = m->session_id != RECORD_NONE
                ? catalog_each_trace(m->store->catalog, &filter, removal_add_trace, m)
                : catalog_evictable_after(m->store->catalog, &m->at, REMOVAL_PORTION, removal_add_trace, m);
    return MIN(r, 0);
}

static int removal_remove_rows(struct store_removal *m)
{
    int r = 0;

    for (size_t i = 0; i < m->n && r >= 0; i++) {
        const struct trace_record *t = &m->portion[i];
        r = m->session_id != RECORD_NONE ? catalog_remove_trace(m->store->catalog, t->trace_id)
            : removal_evicts_trace(m, t) ? store_leave_to_archive(m->store, t->trace_id, m->actor)
            : removal_takes_trace(m, t)  ? store_remove_row(m->store, t, m->actor)
                                         : store_drop_columns(m->store, t->trace_id);
    }
    return r;
}

static void removal_remove_files(void *arg)
{
    struct store_removal *m = arg;

    for (size_t i = 0; i < m->n; i++)
        store_unlink_files(m->store, &m->portion[i]);
    if (!m->directory)
        return;
    rmdir(m->directory);
    for (const struct store_layout *const *l = extra_store_layouts; *l; l++)
        (*l)->prune(store_path(m->store));
}

static void removal_continue(struct store_removal *m);

static void removal_drop_portion(struct store_removal *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->portion[i].name);
        free(m->portion[i].path);
        free(m->portion[i].columns);
        free(m->portion[i].sha256);
        free(m->portion[i].archive_key);
    }
    m->n = 0;
}

static void removal_on_files_removed(void *arg)
{
    struct store_removal *m = arg;

    removal_drop_portion(m);
    if (m->directory || m->removed.err < 0)
        removal_end(m, m->removed.err);
    else if (m->store->closing)
        removal_end(m, -ECANCELED);
    else
        removal_continue(m);
}

/* The session's own row, with its last traces. */
static int removal_remove_session(struct store_removal *m)
{
    int r = catalog_remove_session(m->store->catalog, m->session_id);
    if (r < 0)
        return r;
    m->directory = xasprintf("%s/s%" PRId64, store_path(m->store), m->session_id);
    return catalog_add_event(m->store->catalog, "session-removed", m->actor, m->session_id, RECORD_NONE,
                             RECORD_NONE, "%" PRId64 " traces", m->removed.traces);
}

static int removal_announce(struct store_removal *m)
{
    if (m->announced)
        return 0;
    m->announced = true;
    return catalog_add_event(m->store->catalog, "session-removing", m->actor, m->session_id, RECORD_NONE,
                             RECORD_NONE, "more than %d traces", REMOVAL_PORTION);
}

/* After the commit: no row names the objects any more. */
static void removal_leave_objects(struct store_removal *m)
{
    const struct store_archive *archive = m->store->archive;

    for (size_t i = 0; i < m->n && m->session_id != RECORD_NONE; i++) {
        const struct trace_record *t = &m->portion[i];
        if (t->archived_at == RECORD_NONE)
            continue;
        const char *reason = archive ? archive->trace_removed(t->archive_key, t->sha256, archive->arg)
                                     : "[archive] url= is not set";
        m->removed.objects_deleted += !reason;
        m->removed.objects_left += reason != NULL;
        if (reason)
            m->removed.objects_reason = reason;
    }
}

static int removal_write_portion(struct store_removal *m)
{
    int r = removal_remove_rows(m);

    if (r >= 0 && m->session_id != RECORD_NONE)
        r = m->n < REMOVAL_PORTION ? removal_remove_session(m) : removal_announce(m);
    if (r >= 0)
        r = catalog_commit(m->store->catalog, false);
    if (r >= 0)
        removal_leave_objects(m);
    return r;
}

static void removal_continue(struct store_removal *m)
{
    int r = removal_choose(m);

    if (r >= 0 && !m->dry_run)
        r = removal_write_portion(m);
    if (r < 0 || (m->n == 0 && !m->directory)) {
        removal_drop_portion(m);
        removal_end(m, r);
        return;
    }
    if (m->dry_run)
        removal_drop_portion(m);
    offload_run(m->store->offload, removal_remove_files, removal_on_files_removed, m);
}

static struct store_removal *removal_new(struct store *s, int64_t session_id, const char *actor,
                                         store_removed_fn done, void *arg)
{
    struct store_removal *m = xcalloc(1, sizeof(*m));

    *m = (struct store_removal){.store = s,
                                .actor = xstrdup(actor),
                                .done = done,
                                .arg = arg,
                                .session_id = session_id,
                                .at = {RECORD_NONE, 0},
                                .portion = xcalloc(REMOVAL_PORTION, sizeof(*m->portion))};
    return m;
}

/* With an empty portion: done() is not called before the caller returns. */
static void removal_begin(struct store_removal *m)
{
    m->store->n_removals++;
    offload_run(m->store->offload, removal_remove_files, removal_on_files_removed, m);
}

void store_vacuum(struct store *s, const struct vacuum_request *request, const char *actor,
                  store_removed_fn done, void *arg)
{
    struct store_removal *m = removal_new(s, RECORD_NONE, actor, done, arg);
    struct store_usage u = {.bytes = 0};

    m->removed.err = store_usage(s, &u);
    m->removed.removed = json_array();
    m->removed.kept = json_array();
    m->goal = request->keep == RECORD_NONE ? INT64_MAX : u.bytes - request->keep;
    m->collected_until = request->collected_until;
    m->dry_run = request->dry_run;
    removal_begin(m);
}

void store_remove_session(struct store *s, int64_t session_id, const char *actor, store_removed_fn done,
                          void *arg)
{
    removal_begin(removal_new(s, session_id, actor, done, arg));
}

static void removal_on_resumed(const struct store_removed *removed, void *arg)
{
    if (removed->err < 0 && removed->err != -ECANCELED)
        log_error("cannot resume an interrupted removal: %s", strerror(-removed->err));
}

static int removal_resume(const struct session_record *r, void *arg)
{
    log_notice("resuming the interrupted removal of s%" PRId64, r->session_id);
    store_remove_session(arg, r->session_id, "profd", removal_on_resumed, NULL);
    return 0;
}

int store_resume_removals(struct store *s)
{
    return catalog_each_half_removed(s->catalog, removal_resume, s);
}
