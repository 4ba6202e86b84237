/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a manifest (manifest.c), in a catalog that does not have them: the session with its targets, and each trace that the
 * archive has. Rows that exist are left as they are, so that the same manifest can be restored again.
 *
 * Traces of a host of this name become this host's own, with their file in the archive only. Those of any other host become traces
 * of that host, under the UUID of the catalog that described them: their objects are not this host's to delete, and a host that is
 * alive is asked for them.
 *
 * Whoever may write to the archive may write manifests. Nothing in one is trusted but as a text to show: values are checked
 * (record_parse.c), keys must be those of the content, and a file has to have its SHA-256 when it is fetched.
 */
#include "daemon/archive/manifest_restore.h"
#include "archive/archive_url.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/uuid.h"
#include "daemon/archive/internal.h"
#include <errno.h>
#include <inttypes.h>

#define MANIFEST_VERSION     1
#define MANIFEST_TRACES_MAX  100000
#define MANIFEST_TARGETS_MAX 10000
#define MANIFEST_NAME_MAX    255
#define WORKER_URL_MAX       2048
/* Rows that are added in one iteration of the loop: some milliseconds. */
#define MANIFEST_ROWS_AT_ONCE 100

struct manifest {
    struct catalog *catalog;
    json_t *all;
    const json_t *session;
    const char *uuid; /* of the catalog that wrote it */
    char *host;       /* name, without hidden characters */
    bool is_own;      /* of a host of this name */
    bool is_new;      /* its session was not known */
    int64_t session_id;
    json_t *targets; /* of the session: ids by the URLs of their workers */
    size_t at;       /* of the next row: first the targets, then the traces */
    int64_t refused; /* of this manifest */
    char *refusal;   /* of the first of them */
    struct restored *counts;
};

static bool manifest_is_known(const struct manifest *m, const char *uuid, const char *kind, int64_t *ret_id)
{
    struct catalog_ref ref;
    bool is_known = catalog_find_refs(m->catalog, uuid, kind, &ref, 1) > 0;

    *ret_id = is_known ? ref.id : RECORD_NONE;
    return is_known;
}

/* -- The session -- */

/* Names are unique. */
static void session_drop_taken_name(const struct manifest *m, struct session_record *s)
{
    struct session_record other;

    if (!s->name || catalog_find_session_by_name(m->catalog, s->name, &other) < 0)
        return;
    session_record_done(&other);
    replace_str(&s->name, NULL);
}

static int manifest_add_session(struct manifest *m, const char *uuid)
{
    _cleanup_(session_record_done) struct session_record s;

    if (session_record_parse(m->session, &s) < 0 || !state_is_final(s.state) || s.requested_at == RECORD_NONE)
        return -EBADMSG;
    replace_str(&s.uuid, uuid);
    if (!s.requested_by)
        s.requested_by = xstrdup("unknown");
    if (!uuid_is(s.coordinator))
        replace_str(&s.coordinator, NULL);
    session_drop_taken_name(m, &s);
    int r = catalog_add_session(m->catalog, &s);
    if (r < 0)
        return r;
    m->session_id = s.session_id;
    m->is_new = true;
    m->counts->sessions++;
    return catalog_add_event(m->catalog, "session-restored", "profd", s.session_id, RECORD_NONE, RECORD_NONE,
                             "from the archive, by %s", m->host);
}

/* -- Targets -- */

static int target_index(const struct target_record *t, void *arg)
{
    const struct manifest *m = arg;

    if (!json_object_get(m->targets, t->worker_url))
        json_put_int(m->targets, t->worker_url, t->target_id);
    return 0;
}

/* RECORD_NONE: the session has no such target. */
static int64_t manifest_find_target(const struct manifest *m, const char *url)
{
    return url ? json_get_int(m->targets, url, RECORD_NONE) : RECORD_NONE;
}

/* What a session shows of its worker's software. */
static char *target_worker_text(const json_t *target)
{
    static const char *const keys[] = {"identity", "name", "node", "engine", "version", "role", "model"};
    _cleanup_json_ worker = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        _cleanup_(freep) char *text = text_clean(json_get_str(target, keys[i]), false);
        if (text && strlen(text) <= MANIFEST_NAME_MAX)
            json_put_str(worker, keys[i], text);
    }
    return json_dumps(worker, JSON_COMPACT);
}

static bool worker_url_is_sound(const char *url)
{
    return url && strlen(url) <= WORKER_URL_MAX && strstr(url, "://");
}

static int manifest_add_target(struct manifest *m, const json_t *target)
{
    _cleanup_(target_record_done) struct target_record t;

    if (target_record_parse(target, &t) < 0 || !state_is_final(t.state) || !worker_url_is_sound(t.worker_url))
        return 0; /* nobody can act on it, and its traces are rows of their own */
    if (manifest_find_target(m, t.worker_url) != RECORD_NONE)
        return 0;
    t.session_id = m->session_id;
    t.stop_pending = false;
    t.ranks_expected = MAX(t.ranks_expected, INT64_C(0));
    free(t.worker);
    t.worker = target_worker_text(target);
    if (!t.profile_id)
        t.profile_id = xstrdup("");
    if (!uuid_is(t.host_uuid)) {
        replace_str(&t.host, m->is_own ? NULL : m->host);
        replace_str(&t.host_uuid, m->is_own ? NULL : m->uuid);
    }
    int r = catalog_add_target(m->catalog, &t);
    if (r >= 0)
        target_index(&t, m);
    return r;
}

/* -- Traces -- */

/* What is not in the archive cannot be had any more. */
static bool trace_is_restorable(const struct trace_record *t)
{
    return t->name && t->size >= 0 && t->size <= ARCHIVE_COPY_BYTES_MAX && t->recorded_at != RECORD_NONE &&
           archive_sha256_is_valid(t->sha256) && object_key_is_of(t->archive_key, t->sha256) &&
           t->state != TRACE_MISSING && !strchr(t->name, '/');
}

/* Columns are made when its file is fetched. */
static void trace_forget_host(struct trace_record *t)
{
    replace_str(&t->columns, NULL);
    replace_str(&t->columns_reason, NULL);
    t->columns_size = t->columns_version = RECORD_NONE;
    t->stored = false;
    t->disk_size = 0;
}

/*
 * A file of the store that was found without its session, because only the catalog was lost (reconcile.c): its row gets what the
 * manifest knows. 1 where there is such a row, or one that has that already.
 */
static int manifest_complete_row(const struct manifest *m, struct trace_record *t)
{
    _cleanup_(trace_record_done) struct trace_record row;

    trace_record_init(&row);
    if (catalog_find_trace_by_sha256(m->catalog, t->sha256, &row) < 0)
        return 0;
    if (row.session_id == m->session_id && streq(row.name, t->name)) {
        m->counts->known++;
        return 1;
    }
    if (row.session_id != RECORD_NONE || row.size != t->size || row.candidates)
        return 0;
    row.session_id = m->session_id;
    row.target_id = manifest_find_target(m, t->worker_url);
    replace_str(&row.worker_url, t->worker_url);
    replace_str(&row.name, t->name);
    replace_str(&row.origin, t->origin ? t->origin : t->name);
    replace_str(&row.instance, t->instance);
    replace_str(&row.labels, t->labels);
    row.recorded_at = t->recorded_at;
    if (row.archived_at == RECORD_NONE) {
        row.archived_at = t->archived_at != RECORD_NONE ? t->archived_at : wall_ns();
        replace_str(&row.archive_key, t->archive_key);
    }
    int r = catalog_save_trace(m->catalog, &row);
    m->counts->traces += r >= 0;
    return r < 0 ? r : 1;
}

static int manifest_add_own_trace(const struct manifest *m, struct trace_record *t)
{
    t->session_id = m->session_id;
    t->target_id = manifest_find_target(m, t->worker_url);
    if (t->collected_at == RECORD_NONE)
        t->collected_at = t->recorded_at;
    if (t->archived_at == RECORD_NONE)
        t->archived_at = wall_ns();
    if (!t->origin)
        t->origin = xstrdup(t->name);
    if (t->owner_uid == RECORD_NONE)
        t->owner_uid = geteuid();
    /* Its number, which the path ends with, is given by the row. */
    free(t->path);
    t->path = xasprintf(ARCHIVED_PATH "%s#%s", t->archive_key, t->uuid);
    int r = catalog_add_trace(m->catalog, t);
    if (r < 0)
        return r;
    trace_leave_to_archive(t);
    return catalog_save_trace(m->catalog, t);
}

static int manifest_add_trace_of_host(const struct manifest *m, const json_t *trace, struct trace_record *t)
{
    struct remote_trace_record remote;
    const char *ref = json_get_str(trace, "trace");
    int64_t id = 0;

    if (!ref || parse_ref(ref, 't', &id) != 't')
        return -EBADMSG;
    t->session_id = t->target_id = RECORD_NONE;
    replace_str(&t->path, NULL);
    _cleanup_json_ facts = trace_record_to_json(t);
    json_object_del(facts, "trace");
    json_put_str(facts, "host", m->host);
    _cleanup_(freep) char *text = json_dumps(facts, JSON_COMPACT);
    remote_trace_record_init(&remote);
    remote.uuid = t->uuid;
    remote.session_id = m->session_id;
    remote.target_id = manifest_find_target(m, t->worker_url);
    remote.host_uuid = (char *)m->uuid;
    remote.remote_id = id;
    remote.recorded_at = t->recorded_at;
    remote.facts = text;
    return catalog_put_remote_trace(m->catalog, &remote);
}

static int manifest_add_trace_row(const struct manifest *m, const json_t *trace)
{
    _cleanup_(trace_record_done) struct trace_record t;
    const char *uuid = json_get_str(trace, "uuid");
    int64_t known;

    if (!uuid_is(uuid) || trace_record_parse(trace, &t) < 0) {
        trace_record_init(&t);
        m->counts->left_out++;
        return 0;
    }
    if (manifest_is_known(m, uuid, "t", &known)) {
        m->counts->known++;
        return 0;
    }
    if (!worker_url_is_sound(t.worker_url))
        replace_str(&t.worker_url, NULL);
    if (!trace_is_restorable(&t)) {
        m->counts->left_out++;
        return 0;
    }
    trace_forget_host(&t);
    int r = m->is_own ? manifest_complete_row(m, &t) : 0;
    if (r != 0)
        return MIN(r, 0);
    r = m->is_own ? manifest_add_own_trace(m, &t) : manifest_add_trace_of_host(m, trace, &t);
    m->counts->traces += r >= 0;
    return r;
}

/* -- All -- */

static int manifest_read(const json_t *all, struct manifest *m, struct problem *p)
{
    const char *host = json_get_str(all, "host"), *uuid = json_get_str(m->session, "uuid");

    m->uuid = json_get_str(all, "catalog");
    if (json_get_int(all, "manifest", 0) != MANIFEST_VERSION)
        return problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "it is no manifest of version %d", MANIFEST_VERSION);
    if (!uuid_is(m->uuid) || !host || !*host || strlen(host) > MANIFEST_NAME_MAX || !uuid_is(uuid) ||
        json_array_size(json_object_get(all, "traces")) > MANIFEST_TRACES_MAX)
        return problem_set(p, -EBADMSG, PROBLEM_UPSTREAM,
                           "it names no catalog, no host or no session, or more traces than a session has");
    m->host = text_clean(host, false);
    m->is_own = streq(m->host, catalog_host(m->catalog));
    return 0;
}

static void manifest_explain(const struct manifest *m, int r, struct problem *p)
{
    if (r == -EBADMSG)
        problem_set(p, r, PROBLEM_UPSTREAM, "its session or a trace is not one");
    else
        catalog_problem(m->catalog, r, p, "the catalog cannot take it");
}

int manifest_restore_begin(struct catalog *catalog, json_t *take_all, struct restored *counts,
                           struct manifest **ret, struct problem *p)
{
    struct manifest *m = xcalloc(1, sizeof(*m));

    *m = (struct manifest){.catalog = catalog,
                           .all = take_all,
                           .session = json_object_get(take_all, "session"),
                           .targets = json_object(),
                           .counts = counts};
    int r = manifest_read(take_all, m, p);
    if (r == 0) {
        const char *uuid = json_get_str(m->session, "uuid");
        r = manifest_is_known(m, uuid, "s", &m->session_id) ? 0 : manifest_add_session(m, uuid);
        if (r >= 0)
            r = catalog_each_target(catalog, m->session_id, target_index, m);
        if (r < 0)
            manifest_explain(m, r, p);
    }
    if (r < 0)
        m = manifest_restore_end(m);
    *ret = m;
    return MIN(r, 0);
}

/* What is wrong with the row, and nothing with the catalog: SQLite has undone its statement. */
static bool manifest_may_go_on(int r)
{
    return r == -EBADMSG || r == -EINVAL || r == -EEXIST || r == -E2BIG || r == -ERANGE;
}

static void manifest_refuse_row(struct manifest *m, int r)
{
    _cleanup_(problem_done) struct problem p = {0};

    m->counts->refused++;
    if (m->refused++ > 0)
        return;
    manifest_explain(m, r, &p);
    m->refusal = TAKE_PTR(p.what);
}

int manifest_restore_rows(struct manifest *m, struct problem *p)
{
    json_t *targets = json_object_get(m->session, "targets"), *traces = json_object_get(m->all, "traces");
    size_t n_targets = MIN(json_array_size(targets), (size_t)MANIFEST_TARGETS_MAX);
    size_t n = n_targets + json_array_size(traces), end = MIN(n, m->at + MANIFEST_ROWS_AT_ONCE);

    for (; m->at < end; m->at++) {
        size_t i = m->at - (m->at < n_targets ? 0 : n_targets);
        json_t *list = m->at < n_targets ? targets : traces;
        int r = m->at < n_targets ? manifest_add_target(m, json_array_get(list, i))
                                  : manifest_add_trace_row(m, json_array_get(list, i));
        if (r < 0 && !manifest_may_go_on(r)) {
            manifest_explain(m, r, p);
            return r;
        }
        if (r < 0)
            manifest_refuse_row(m, r);
        /* Or all of it would be freed at once. */
        json_array_set_new(list, i, json_null());
    }
    return m->at < n;
}

char *manifest_restore_remark(const struct manifest *m)
{
    return m->refused == 0 ? NULL
           : m->refused == 1
               ? xasprintf("one row is refused: %s", m->refusal)
               : xasprintf("%" PRId64 " rows are refused, the first because %s", m->refused, m->refusal);
}

struct manifest *manifest_restore_end(struct manifest *m)
{
    if (!m)
        return NULL;
    json_decref(m->targets);
    json_decref(m->all);
    free(m->host);
    free(m->refusal);
    free(m);
    return NULL;
}
