/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/archive/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>

/* Where no object ever is. */
#define PROBE_KEY "traces/probe"

/* -- Connections --------------------------------------------------------------------------------------- */

static const char *archiver_credentials(const struct archiver_settings *s, enum archive_role role)
{
    const char *const files[] = {
        [ROLE_WRITE] = s->credentials_file,
        [ROLE_READ] = s->reader_credentials_file ? s->reader_credentials_file : s->credentials_file,
        [ROLE_DELETE] = s->delete_credentials_file,
    };
    return files[role];
}

static int archiver_open(const struct archiver_settings *s, enum archive_role role, struct archive **ret,
                         struct problem *p)
{
    static const char *const encryptions[_ARCHIVE_SSE_MAX] = {NULL, "AES256", "aws:kms"};
    const struct archive_settings settings = {
        .url = s->url,
        .endpoint = s->endpoint,
        .region = s->region,
        .credentials_file = archiver_credentials(s, role),
        .ca_file = s->ca_file,
        .encryption = encryptions[s->sse],
        .kms_key = s->sse_kms_key_id,
        .rate = role == ROLE_WRITE ? s->rate : 0,
    };
    return archive_new(&settings, ret, p);
}

int archiver_check_settings(const struct archiver_settings *s, struct problem *p)
{
    struct archive *archive;

    if (!s->url)
        return 0;
    int r = archiver_open(s, ROLE_WRITE, &archive, p);
    if (r >= 0)
        archive_free(archive);
    return r;
}

/* The requests of a connection may still be hashing. */
static void archiver_retire(struct archiver *a, struct archive_loop *loop)
{
    struct retired_loop *old, *next, **at;

    if (loop) {
        old = xcalloc(1, sizeof(*old));
        old->loop = loop;
        SLIST_INSERT_HEAD(&a->retired, old, next);
    }
    for (at = &a->retired.slh_first; (old = *at); at = *at == old ? &old->next.sle_next : at) {
        if (!archive_loop_is_idle(old->loop))
            continue;
        next = old->next.sle_next;
        archive_loop_free(old->loop);
        free(old);
        *at = next;
    }
}

struct archive_loop *archiver_loop(const struct archiver *a, enum archive_role role)
{
    return a->loops[role];
}

static void archiver_disconnect(struct archiver *a)
{
    uploads_cancel(a);
    fetches_cancel(a);
    copies_cancel(a);
    restorings_cancel(a);
    object_removals_cancel(a);
    probes_cancel(a);
    for (int role = 0; role < _ARCHIVE_ROLE_MAX; role++)
        archiver_retire(a, TAKE_PTR(a->loops[role]));
}

static int archiver_connect_as(struct archiver *a, enum archive_role role, struct problem *p)
{
    const struct archiver_settings *s = a->settings;
    struct archive *archive;

    int r = archiver_open(s, role, &archive, p);
    if (r < 0)
        return r;
    /* Questions about uploads must not wait for downloads. */
    r = archive_loop_new(a->modules.base, a->modules.offload, archive,
                         role == ROLE_READ ? ARCHIVE_TRANSFERS_MAX : (unsigned)s->transfers, &a->loops[role]);
    if (r < 0)
        archive_free(archive);
    return r < 0 ? problem_set(p, r, PROBLEM_INTERNAL, "cannot use the archive: %s", strerror(-r)) : 0;
}

static int archiver_connect(struct archiver *a, struct problem *p)
{
    const struct archiver_settings *s = a->settings;
    int r = 0;

    for (int role = 0; role < _ARCHIVE_ROLE_MAX && r >= 0 && s->url; role++)
        if (role != ROLE_DELETE || s->delete_credentials_file)
            r = archiver_connect_as(a, (enum archive_role)role, p);
    if (r < 0)
        archiver_disconnect(a);
    store_set_archive(a->modules.store, s->url ? &a->for_store : NULL);
    return r;
}

static char *archiver_fingerprint(const struct archiver_settings *s)
{
    const char *const texts[] = {s->url,
                                 s->endpoint,
                                 s->region,
                                 s->credentials_file,
                                 s->reader_credentials_file,
                                 s->delete_credentials_file,
                                 s->ca_file,
                                 s->sse_kms_key_id};
    char *all = xasprintf("%d %lld %lld", s->sse, (long long)s->rate, (long long)s->transfers);

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        append_str(&all, "\n%s", texts[i] ? texts[i] : "");
    return all;
}

/* -- Life ---------------------------------------------------------------------------------------------- */

static char *archiver_describe_lag(void *arg)
{
    return uploads_describe_lag(arg);
}

/* Of many at a time: the log reports which failed. */
static const char *archiver_on_trace_removed(const char *key, const char *sha256, void *arg)
{
    struct archiver *a = arg;

    if (!archiver_loop(a, ROLE_DELETE))
        return "[archive] delete_credentials_file= is not set";
    if (!sha256 || catalog_has_content(a->modules.catalog, sha256))
        return "another trace has the same content";
    archiver_remove_object(a, key, sha256, NULL, NULL);
    return NULL;
}

int archiver_new(const struct archiver_modules *modules, const struct archiver_settings *settings,
                 struct archiver **ret, struct problem *p)
{
    struct archiver *a = xcalloc(1, sizeof(*a));

    *a = (struct archiver){.modules = *modules, .settings = settings};
    a->for_store = (struct store_archive){archiver_describe_lag, archiver_on_trace_removed, a};
    TAILQ_INIT(&a->fetches);
    TAILQ_INIT(&a->copies);
    TAILQ_INIT(&a->restorings);
    TAILQ_INIT(&a->removals);
    TAILQ_INIT(&a->probes);
    SLIST_INIT(&a->retired);
    uploads_init(a);
    a->fingerprint = archiver_fingerprint(settings);
    int r = archiver_connect(a, p);
    if (r < 0) {
        store_set_archive(modules->store, NULL);
        archiver_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void archiver_set_others(struct archiver *a, const struct archive_others *others, void *arg)
{
    a->others = others;
    a->others_arg = arg;
}

void archiver_begin(struct archiver *a)
{
    a->began = true;
    uploads_begin(a);
}

void archiver_wake(struct archiver *a)
{
    uploads_wake(a);
}

void archiver_renew(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    char *now = archiver_fingerprint(a->settings);

    if (streq(now, a->fingerprint)) {
        free(now);
        return;
    }
    free(a->fingerprint);
    a->fingerprint = now;
    archiver_disconnect(a);
    problem_done(&a->problem);
    a->n_failures = 0;
    a->retry_ns = 0;
    if (archiver_connect(a, &p) < 0)
        log_error("%s", p.what);
    uploads_wake(a);
}

void archiver_close(struct archiver *a)
{
    a->closing = true;
    uploads_cancel(a);
    fetches_cancel(a);
    copies_cancel(a);
    restorings_cancel(a);
    object_removals_cancel(a);
    probes_cancel(a);
}

struct archiver *archiver_free(struct archiver *a)
{
    struct retired_loop *old;

    if (!a)
        return NULL;
    uploads_done(a);
    for (int role = 0; role < _ARCHIVE_ROLE_MAX; role++)
        archive_loop_free(a->loops[role]);
    while ((old = SLIST_FIRST(&a->retired))) {
        SLIST_REMOVE_HEAD(&a->retired, next);
        archive_loop_free(old->loop);
        free(old);
    }
    problem_done(&a->problem);
    free(a->fingerprint);
    free(a);
    return NULL;
}

/* -- State --------------------------------------------------------------------------------------------- */

bool archiver_is_configured(const struct archiver *a)
{
    return a->loops[ROLE_READ];
}

bool archiver_is_busy(const struct archiver *a)
{
    return a->n_uploads > 0 || !TAILQ_EMPTY(&a->fetches) || !TAILQ_EMPTY(&a->copies) ||
           !TAILQ_EMPTY(&a->removals);
}

const char *archiver_name(const struct archiver *a)
{
    return a->loops[ROLE_READ] ? archive_name(archive_loop_archive(a->loops[ROLE_READ])) : "";
}

const struct problem *archiver_problem(const struct archiver *a)
{
    return a->problem.what ? &a->problem : NULL;
}

void archiver_metrics(struct archiver *a, struct archiver_metrics *ret)
{
    struct upload_lag lag = {.oldest_at = RECORD_NONE};

    if (archiver_is_configured(a))
        catalog_upload_lag(a->modules.catalog, &lag);
    *ret = a->counts;
    ret->waiting_files = lag.files;
    ret->waiting_bytes = lag.bytes;
    ret->lag_ns = lag.oldest_at == RECORD_NONE ? 0 : MAX(wall_ns() - lag.oldest_at, INT64_C(0));
    ret->is_failing = a->problem.what;
}

json_t *archiver_to_json(struct archiver *a)
{
    const struct archiver_settings *s = a->settings;
    json_t *j = json_object();
    struct archiver_metrics m;

    archiver_metrics(a, &m);
    json_put_str(j, "state", !archiver_is_configured(a) ? "off" : m.is_failing ? "failing" : "ok");
    if (!archiver_is_configured(a))
        return j;
    json_put_str(j, "url", archiver_name(a));
    json_put_str(j, "endpoint", s->endpoint);
    json_put_str(j, "region", s->region);
    json_put_int(j, "rate", s->rate);
    json_put_bool(j, "deletes", a->loops[ROLE_DELETE]);
    json_put_int(j, "waiting_files", m.waiting_files);
    json_put_int(j, "waiting_bytes", m.waiting_bytes);
    json_put_int(j, "lag_ns", m.lag_ns);
    json_put_int(j, "uploaded_files", (int64_t)m.uploaded);
    json_put_int(j, "uploaded_bytes", (int64_t)m.uploaded_bytes);
    json_put_int(j, "fetched_files", (int64_t)m.fetched);
    json_put_int(j, "fetched_bytes", (int64_t)m.fetched_bytes);
    if (a->problem.what) {
        json_put_str(j, "error", a->problem.what);
        json_put_str(j, "remedy", a->problem.remedy);
        json_put_int(j, "failing_since", a->failing_since);
        json_put_int(j, "retry_ns", MAX(a->retry_ns - mono_ns(), INT64_C(0)));
    }
    uploads_put_json(a, j);
    return j;
}

/* -- Probes -------------------------------------------------------------------------------------------- */

struct archive_probe {
    TAILQ_ENTRY(archive_probe) link;
    struct archiver *archiver;
    struct archive_job *job;
    void (*done)(const struct archiver_probe *probe, void *arg);
    void *arg;
};

static void probe_end(struct archive_probe *probe, const struct problem *p, const char *address)
{
    TAILQ_REMOVE(&probe->archiver->probes, probe, link);
    probe->done(&(const struct archiver_probe){p, address}, probe->arg);
    free(probe);
}

static void probe_on_answer(struct archive_result *result, void *arg)
{
    /* What exists there is another profd's matter. */
    bool is_good = result->err == 0 || result->err == -ENOENT;

    probe_end(arg, is_good ? NULL : &result->problem, result->address);
}

void archiver_probe(struct archiver *a, void (*done)(const struct archiver_probe *probe, void *arg),
                    void *arg)
{
    struct archive_probe *probe = xcalloc(1, sizeof(*probe));
    const struct archive_request q = {.verb = ARCHIVE_HEAD,
                                      .key = PROBE_KEY,
                                      .deadline_ns = mono_ns() + ARCHIVE_PATIENCE_NS,
                                      .patience_ns = 1};

    *probe = (struct archive_probe){.archiver = a, .done = done, .arg = arg};
    TAILQ_INSERT_TAIL(&a->probes, probe, link);
    probe->job = archive_start(archiver_loop(a, ROLE_READ), &q, probe_on_answer, probe);
}

void probes_cancel(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct archive_probe *probe;

    problem_set(&p, -ECANCELED, PROBLEM_CONFLICT, "the archive's settings have changed");
    while ((probe = TAILQ_FIRST(&a->probes))) {
        archive_cancel(probe->job);
        probe_end(probe, &p, "");
    }
}
