/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a trace of another host from the archive into a file of the caller, because that host does not answer. What the
 * host reported of the trace is not trusted: an object counts only with the size and the SHA-256 that its catalog had, and no
 * object of another kind is asked for. Nothing is kept here.
 */
#include "archive/archive_url.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/archive/internal.h"
#include <errno.h>

struct archive_copying {
    TAILQ_ENTRY(archive_copying) link;
    struct archiver *archiver;
    struct archive_job *job;
    char *sha256;
    int64_t size;
    bool is_copy; /* not only a question */
    void (*done)(const struct problem *p, void *arg);
    void *arg;
};

static void copying_free(struct archive_copying *c)
{
    TAILQ_REMOVE(&c->archiver->copies, c, link);
    free(c->sha256);
    free(c);
}

static void copying_end(struct archive_copying *c, const struct problem *p)
{
    struct archiver *a = c->archiver;
    void (*done)(const struct problem *p, void *arg) = c->done;
    void *arg = c->arg;

    a->counts.fetched += c->is_copy && !p;
    a->counts.fetched_bytes += c->is_copy && !p ? (uint64_t)c->size : 0;
    a->counts.fetches_failed += c->is_copy && p;
    copying_free(c);
    done(p, arg);
}

static void copying_on_answer(struct archive_result *result, void *arg)
{
    struct archive_copying *c = arg;
    const struct archive_object *o = &result->object;

    c->job = NULL;
    /* A HEAD may not know the SHA-256. */
    bool is_other = (int64_t)o->size != c->size || (o->sha256[0] && !streq(o->sha256, c->sha256));
    if (result->err >= 0 && is_other) {
        result->err = problem_set(&result->problem, -EBADMSG, PROBLEM_STORAGE,
                                  "the object has another content than the catalog knows");
        problem_remedy(&result->problem, "Check which other program writes to the bucket.");
    }
    copying_end(c, result->err < 0 ? &result->problem : NULL);
}

struct archive_copying *archiver_copy(struct archiver *a, const struct archive_copy *copy,
                                      void (*done)(const struct problem *p, void *arg), void *arg)
{
    struct archive_loop *loop = archiver_loop(a, ROLE_READ);

    if (!loop || a->closing || !copy->sha256 || !archive_sha256_is_valid(copy->sha256) || copy->size < 0 ||
        copy->size > ARCHIVE_COPY_BYTES_MAX)
        return NULL;
    struct archive_copying *c = xcalloc(1, sizeof(*c));
    *c = (struct archive_copying){.archiver = a,
                                  .sha256 = xstrdup(copy->sha256),
                                  .size = copy->size,
                                  .is_copy = copy->fd >= 0,
                                  .done = done,
                                  .arg = arg};
    TAILQ_INSERT_TAIL(&a->copies, c, link);
    _cleanup_(freep) char *key = object_key_is_of(copy->key, copy->sha256)
                                     ? xstrdup(copy->key)
                                     : object_key_of_trace(copy->sha256, copy->name);
    struct archive_request q = {
        .verb = ARCHIVE_HEAD, .key = key, .deadline_ns = mono_ns() + ARCHIVE_PATIENCE_NS, .patience_ns = 1};
    if (c->is_copy) {
        q.verb = ARCHIVE_GET;
        q.fd = copy->fd;
        q.size_max = (uint64_t)copy->size;
        q.sha256 = copy->sha256;
        q.deadline_ns += ARCHIVE_REQUEST_NS + copy->size / ARCHIVE_SLOWEST_BYTES_PER_S * NS_PER_S;
        q.patience_ns = ARCHIVE_PATIENCE_NS;
    }
    c->job = archive_start(loop, &q, copying_on_answer, c);
    return c;
}

void archiver_copy_cancel(struct archive_copying *c)
{
    if (!c)
        return;
    archive_cancel(c->job);
    copying_free(c);
}

void copies_cancel(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct archive_copying *c;

    problem_set(&p, -ECANCELED, PROBLEM_CONFLICT, "the archive is being closed");
    while ((c = TAILQ_FIRST(&a->copies))) {
        archive_cancel(TAKE_PTR(c->job));
        copying_end(c, &p);
    }
}
