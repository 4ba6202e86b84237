/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes objects of the archive whose traces were removed, with the credentials that are for it, if no other trace of this
 * catalog has the same content. Other hosts' catalogs are not asked: a trace that two hosts ingested is one object. While an
 * object is being deleted no upload of the same content begins.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/archive/internal.h"
#include <errno.h>

struct object_removal {
    TAILQ_ENTRY(object_removal) link;
    struct archiver *archiver;
    struct archive_job *job;
    char *key;
    void (*done)(enum object_fate fate, const struct problem *p, void *arg);
    void *arg;
    enum object_fate fate;
    struct event *later; /* NULL: a request is in flight */
};

static void object_removal_end(struct object_removal *o, enum object_fate fate, const struct problem *p)
{
    struct archiver *a = o->archiver;

    TAILQ_REMOVE(&a->removals, o, link);
    if (o->done)
        o->done(fate, p, o->arg);
    else if (p)
        log_warning("%s; the object remains", p->what);
    if (o->later)
        event_free(o->later);
    free(o->key);
    free(o);
    uploads_wake(a);
}

static void object_removal_on_answer(struct archive_result *result, void *arg)
{
    object_removal_end(arg, result->err < 0 ? OBJECT_LEFT : OBJECT_DELETED,
                       result->err < 0 ? &result->problem : NULL);
}

static void object_removal_on_later(evutil_socket_t fd, short what, void *arg)
{
    struct object_removal *o = arg;
    object_removal_end(o, o->fate, NULL);
}

void archiver_remove_object(struct archiver *a, const char *key, const char *sha256,
                            void (*done)(enum object_fate fate, const struct problem *p, void *arg),
                            void *arg)
{
    struct object_removal *o = xcalloc(1, sizeof(*o));
    struct archive_loop *loop = archiver_loop(a, ROLE_DELETE);
    bool is_shared = !sha256 || catalog_has_content(a->modules.catalog, sha256);

    *o = (struct object_removal){.archiver = a,
                                 .key = xstrdup(key),
                                 .done = done,
                                 .arg = arg,
                                 .fate = is_shared ? OBJECT_SHARED : OBJECT_LEFT};
    TAILQ_INSERT_TAIL(&a->removals, o, link);
    if (is_shared || !loop) {
        o->later = event_new(a->modules.base, -1, 0, object_removal_on_later, o);
        event_active(o->later, EV_TIMEOUT, 0);
        return;
    }
    const struct archive_request q = {.verb = ARCHIVE_DELETE,
                                      .key = o->key,
                                      .deadline_ns = DEADLINE_NEVER, /* many may wait in line */
                                      .patience_ns = ARCHIVE_PATIENCE_NS};
    o->job = archive_start(loop, &q, object_removal_on_answer, o);
}

bool object_is_being_removed(const struct archiver *a, const char *key)
{
    const struct object_removal *o;

    TAILQ_FOREACH(o, &a->removals, link)
        if (o->job && streq(o->key, key))
            return true;
    return false;
}

void object_removals_cancel(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct object_removal *o;

    problem_set(&p, -ECANCELED, PROBLEM_CONFLICT, "cannot delete from the archive: it is being closed");
    while ((o = TAILQ_FIRST(&a->removals))) {
        if (o->job)
            archive_cancel(o->job);
        object_removal_end(o, o->job ? OBJECT_LEFT : o->fate, o->job ? &p : NULL);
    }
}
