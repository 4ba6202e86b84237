/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores a catalog from the manifests in the archive, some of them with each request:
 *
 *   list manifests -> GET each into memory -> JSON, on a thread -> some rows (manifest_restore.c) -> commit -> further rows ...
 *   -> the counts, and where to go on
 *
 * Nothing is remembered between two requests, and rows that exist are left alone: whoever was interrupted begins again, or goes on
 * after the last answer. One manifest that cannot be read costs its own rows only, and a row that the catalog refuses itself only.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/archive/internal.h"
#include "daemon/archive/manifest_restore.h"
#include <errno.h>
#include <sys/mman.h>

#define MANIFESTS_PREFIX "v1/session/"
/* Of one request; a client shows progress after each. */
#define RESTORE_MANIFESTS 50
/* A session of thousands of ranks takes a few MiB. */
#define RESTORE_MANIFEST_BYTES_MAX (UINT64_C(16) << 20)

struct archive_restoring {
    TAILQ_ENTRY(archive_restoring) link;
    struct archiver *archiver;
    struct archive_job *job;
    char **keys;
    size_t n_keys, at;
    char *next;
    int fd; /* of the manifest that is being read; -1: none */
    json_t *parsed;
    struct problem problem; /* of the manifest */
    struct manifest *manifest;
    struct event *on_turn; /* for its next rows */
    struct restored counts;
    json_t *failed;    /* [{"key", "reason"}] */
    json_t *remarks;   /* the same of manifests with rows that were refused */
    bool has_pending;  /* a thread or a commit has it */
    bool is_cancelled; /* it is freed when that ends */
    void (*done)(json_t *take_answer, const struct problem *p, void *arg);
    void *arg;
};

static void restoring_free(struct archive_restoring *t)
{
    for (size_t i = 0; i < t->n_keys; i++)
        free(t->keys[i]);
    free(t->keys);
    free(t->next);
    closep(&t->fd);
    json_decref(t->parsed);
    problem_done(&t->problem);
    manifest_restore_end(t->manifest);
    event_free(t->on_turn);
    json_decref(t->failed);
    json_decref(t->remarks);
    free(t);
}

static void restoring_end(struct archive_restoring *t, const struct problem *p)
{
    json_t *answer = p ? NULL : json_object();

    if (answer) {
        json_put_int(answer, "manifests", (int64_t)t->n_keys);
        json_put_int(answer, "sessions", t->counts.sessions);
        json_put_int(answer, "traces", t->counts.traces);
        json_put_int(answer, "known", t->counts.known);
        json_put_int(answer, "left_out", t->counts.left_out);
        json_put_int(answer, "refused", t->counts.refused);
        json_object_set(answer, "failed", t->failed);
        json_object_set(answer, "remarks", t->remarks);
        json_put_str(answer, "next", t->next);
    }
    TAILQ_REMOVE(&t->archiver->restorings, t, link);
    t->done(answer, p, t->arg);
    restoring_free(t);
}

/* Of the manifest that is being restored. */
static void restoring_note(const struct archive_restoring *t, json_t *list, const char *reason)
{
    json_t *one = json_object();

    json_put_str(one, "key", t->keys[t->at]);
    json_put_str(one, "reason", reason);
    json_array_append_new(list, one);
}

static void restoring_go_on(struct archive_restoring *t);

static int restoring_read(int fd, json_t **ret, struct problem *p)
{
    struct stat st;
    char error[200];

    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size > RESTORE_MANIFEST_BYTES_MAX)
        return problem_set(p, -EFBIG, PROBLEM_UPSTREAM, "it is too large");
    _cleanup_(freep) char *text = xcalloc((size_t)st.st_size + 1, 1);
    ssize_t n = pread_full(fd, text, (size_t)st.st_size, 0);
    if (n != st.st_size)
        return problem_set(p, -EIO, PROBLEM_STORAGE, "it cannot be read again: %s", strerror(EIO));
    *ret = json_parse(text, (size_t)n, error);
    return *ret ? 0 : problem_set(p, -EBADMSG, PROBLEM_UPSTREAM, "it is not JSON: %s", error);
}

static void restoring_commit(struct archive_restoring *t);

static void restoring_on_committed(int err, void *arg)
{
    struct archive_restoring *t = arg;

    t->has_pending = false;
    if (t->is_cancelled) {
        restoring_free(t);
        return;
    }
    if (err < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        catalog_problem(t->archiver->modules.catalog, err, &p, "cannot restore from the archive");
        restoring_end(t, &p);
        return;
    }
    if (t->manifest) {
        /* A timer, because commits of one iteration of the loop can follow each other: others are served in between. */
        event_add(t->on_turn, &(struct timeval){0});
        return;
    }
    t->at++;
    restoring_go_on(t);
}

/* Adds some rows, if the manifest has further ones. */
static void restoring_commit(struct archive_restoring *t)
{
    int r = t->manifest ? manifest_restore_rows(t->manifest, &t->problem) : 0;

    if (t->manifest && r <= 0) {
        _cleanup_(freep) char *remark = manifest_restore_remark(t->manifest);
        if (remark)
            restoring_note(t, t->remarks, remark);
        t->manifest = manifest_restore_end(t->manifest);
    }
    if (t->problem.what)
        restoring_note(t, t->failed, t->problem.what);
    problem_done(&t->problem);
    t->problem = (struct problem){0};
    t->has_pending = true;
    catalog_then(t->archiver->modules.catalog, false, restoring_on_committed, t);
}

static void restoring_on_turn(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    restoring_commit(arg);
}

static void restoring_parse(void *arg)
{
    struct archive_restoring *t = arg;

    restoring_read(t->fd, &t->parsed, &t->problem);
}

static void restoring_on_parsed(void *arg)
{
    struct archive_restoring *t = arg;

    t->has_pending = false;
    if (t->is_cancelled) {
        restoring_free(t);
        return;
    }
    closep(&t->fd);
    t->fd = -1;
    if (t->parsed)
        manifest_restore_begin(t->archiver->modules.catalog, TAKE_PTR(t->parsed), &t->counts, &t->manifest,
                               &t->problem);
    restoring_commit(t);
}

static void restoring_on_manifest(struct archive_result *result, void *arg)
{
    struct archive_restoring *t = arg;

    t->job = NULL;
    if (result->err < 0) {
        problem_set(&t->problem, result->err, result->problem.kind, "%s", result->problem.what);
        closep(&t->fd);
        t->fd = -1;
        restoring_commit(t);
        return;
    }
    t->has_pending = true;
    offload_run(t->archiver->modules.offload, restoring_parse, restoring_on_parsed, t);
}

static void restoring_go_on(struct archive_restoring *t)
{
    struct archive_loop *loop = archiver_loop(t->archiver, ROLE_READ);
    _cleanup_(problem_done) struct problem p = {0};

    if (t->at == t->n_keys) {
        restoring_end(t, NULL);
        return;
    }
    t->fd = memfd_create("manifest", MFD_CLOEXEC);
    if (t->fd < 0 || !loop) {
        problem_set(&p, -EIO, PROBLEM_CONFLICT, "cannot read the manifests of the archive: %s",
                    loop ? strerror(errno) : "it is not configured any more");
        restoring_end(t, &p);
        return;
    }
    const struct archive_request q = {.verb = ARCHIVE_GET,
                                      .key = t->keys[t->at],
                                      .fd = t->fd,
                                      .size_max = RESTORE_MANIFEST_BYTES_MAX,
                                      .deadline_ns = mono_ns() + ARCHIVE_REQUEST_NS,
                                      .patience_ns = ARCHIVE_PATIENCE_NS};
    t->job = archive_start(loop, &q, restoring_on_manifest, t);
}

static void restoring_on_list(struct archive_result *result, void *arg)
{
    struct archive_restoring *t = arg;

    t->job = NULL;
    if (result->err < 0) {
        restoring_end(t, &result->problem);
        return;
    }
    t->keys = xcalloc(result->n_objects + 1, sizeof(*t->keys));
    for (size_t i = 0; i < result->n_objects; i++)
        if (ends_with(result->objects[i].key, ".json"))
            t->keys[t->n_keys++] = xstrdup(result->objects[i].key);
    t->next = xstrdup(result->next);
    restoring_go_on(t);
}

struct archive_restoring *archiver_restore(struct archiver *a, const char *after,
                                           void (*done)(json_t *take_answer, const struct problem *p,
                                                        void *arg),
                                           void *arg)
{
    struct archive_loop *loop = archiver_loop(a, ROLE_READ);

    if (!loop || a->closing)
        return NULL;
    struct archive_restoring *t = xcalloc(1, sizeof(*t));
    *t = (struct archive_restoring){
        .archiver = a, .fd = -1, .failed = json_array(), .remarks = json_array(), .done = done, .arg = arg};
    t->on_turn = evtimer_new(a->modules.base, restoring_on_turn, t);
    TAILQ_INSERT_TAIL(&a->restorings, t, link);
    const struct archive_request q = {.verb = ARCHIVE_LIST,
                                      .key = MANIFESTS_PREFIX,
                                      .after = after,
                                      .max = RESTORE_MANIFESTS,
                                      .deadline_ns = mono_ns() + ARCHIVE_REQUEST_NS,
                                      .patience_ns = ARCHIVE_PATIENCE_NS};
    t->job = archive_start(loop, &q, restoring_on_list, t);
    return t;
}

void archiver_restore_cancel(struct archive_restoring *t)
{
    if (!t)
        return;
    TAILQ_REMOVE(&t->archiver->restorings, t, link);
    archive_cancel(TAKE_PTR(t->job));
    t->is_cancelled = true;
    if (!t->has_pending)
        restoring_free(t);
}

void restorings_cancel(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct archive_restoring *t;

    problem_set(&p, -ECANCELED, PROBLEM_CONFLICT, "the archive is being closed");
    while ((t = TAILQ_FIRST(&a->restorings))) {
        t->done(NULL, &p, t->arg);
        archiver_restore_cancel(t);
    }
}
