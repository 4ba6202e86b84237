/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes objects of the archive whose traces were removed, with the credentials that are for it, if no other trace of this
 * catalog has the same content, nor, where a mirror of all catalogs is configured, one of another host: a trace that two
 * hosts ingested is one object. Where that cannot be found out, the object remains. While an object is being deleted no
 * upload of the same content begins.
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
    void *question; /* to those who know other hosts' traces */
    char *key, *sha256;
    void (*done)(enum object_fate fate, const struct problem *p, void *arg);
    void *arg;
    enum object_fate fate; /* that is intended */
    struct event *later;   /* NULL: it was begun */
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
    free(o->sha256);
    free(o);
    uploads_wake(a);
}

static void object_removal_on_answer(struct archive_result *result, void *arg)
{
    object_removal_end(arg, result->err < 0 ? OBJECT_LEFT : OBJECT_DELETED,
                       result->err < 0 ? &result->problem : NULL);
}

static void object_removal_send(struct object_removal *o)
{
    const struct archive_request q = {.verb = ARCHIVE_DELETE,
                                      .key = o->key,
                                      .deadline_ns = DEADLINE_NEVER, /* many may wait in line */
                                      .patience_ns = ARCHIVE_PATIENCE_NS};

    o->job = archive_start(archiver_loop(o->archiver, ROLE_DELETE), &q, object_removal_on_answer, o);
}

static void object_removal_on_others(const char *host, const struct problem *p, void *arg)
{
    struct object_removal *o = arg;
    _cleanup_(problem_done) struct problem why = {0};

    o->question = NULL;
    if (p) {
        object_removal_end(o, OBJECT_LEFT, p);
    } else if (*host) {
        problem_set(&why, -EEXIST, PROBLEM_CONFLICT, "%s has a trace with the same content", host);
        object_removal_end(o, OBJECT_SHARED, &why);
    } else if (catalog_has_content(o->archiver->modules.catalog, o->sha256)) { /* meanwhile */
        object_removal_end(o, OBJECT_SHARED, NULL);
    } else {
        object_removal_send(o);
    }
}

static void object_removal_begin(struct object_removal *o)
{
    struct archiver *a = o->archiver;
    _cleanup_(problem_done) struct problem p = {0};

    if (!a->others || !a->others->is_known(a->others_arg)) {
        object_removal_send(o);
        return;
    }
    o->question = a->others->find(a->others_arg, o->sha256, object_removal_on_others, o);
    if (o->question)
        return;
    problem_set(&p, -EIO, PROBLEM_UPSTREAM,
                "the mirror cannot be asked whether another host has the content");
    problem_remedy(&p, "profctl doctor reports the state of the mirror.");
    object_removal_end(o, OBJECT_LEFT, &p);
}

static void object_removal_on_later(evutil_socket_t fd, short what, void *arg)
{
    struct object_removal *o = arg;

    event_free(TAKE_PTR(o->later));
    if (o->fate == OBJECT_DELETED)
        object_removal_begin(o);
    else
        object_removal_end(o, o->fate, NULL);
}

void archiver_remove_object(struct archiver *a, const char *key, const char *sha256,
                            void (*done)(enum object_fate fate, const struct problem *p, void *arg),
                            void *arg)
{
    struct object_removal *o = xcalloc(1, sizeof(*o));
    bool is_shared = !sha256 || catalog_has_content(a->modules.catalog, sha256);

    *o = (struct object_removal){.archiver = a,
                                 .key = xstrdup(key),
                                 .sha256 = xstrdup(sha256),
                                 .done = done,
                                 .arg = arg,
                                 .fate = is_shared                        ? OBJECT_SHARED
                                         : !archiver_loop(a, ROLE_DELETE) ? OBJECT_LEFT
                                                                          : OBJECT_DELETED};
    TAILQ_INSERT_TAIL(&a->removals, o, link);
    o->later = event_new(a->modules.base, -1, 0, object_removal_on_later, o);
    event_active(o->later, EV_TIMEOUT, 0);
}

bool object_is_being_removed(const struct archiver *a, const char *key)
{
    const struct object_removal *o;

    TAILQ_FOREACH(o, &a->removals, link)
        if (o->fate == OBJECT_DELETED && streq(o->key, key))
            return true;
    return false;
}

void object_removals_cancel(struct archiver *a)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct object_removal *o;

    problem_set(&p, -ECANCELED, PROBLEM_CONFLICT, "cannot delete from the archive: it is being closed");
    while ((o = TAILQ_FIRST(&a->removals))) {
        bool is_given_up = o->fate == OBJECT_DELETED;
        if (o->job)
            archive_cancel(o->job);
        if (o->question)
            a->others->cancel(o->question);
        object_removal_end(o, is_given_up ? OBJECT_LEFT : o->fate, is_given_up ? &p : NULL);
    }
}
