/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The uploads: which file is sent next, how many at a time, and when what failed is tried again. Each trace of the store that
 * the archive does not have, the oldest first, and the files that others hand over (catalog_want_upload()). How one of them
 * is sent is upload_steps.c.
 *
 * What fails is tried again: the file after its own wait, and while the archive itself fails (not reachable, denied, full) one
 * file at a time, after waits that double, at once when the credentials file changed.
 */
#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/archive/internal.h"
#include <errno.h>
#include <inttypes.h>

#define RETRY_LEAST_NS (100 * NS_PER_MS)
#define RETRY_MAX_NS   (300 * NS_PER_S)
/* While the archive denies access: how often the credentials file is looked at. */
#define CREDENTIALS_LOOK_NS (2 * NS_PER_S)

static const struct backoff upload_retry = {
    .first_ns = NS_PER_S, .max_ns = RETRY_MAX_NS, .random_percent = 50};

/* -- While the archive fails ---------------------------------------------------------------------------- */

int64_t upload_wait_ns(unsigned n_failures)
{
    return backoff_ns(&upload_retry, n_failures, backoff_random());
}

/* Each file that is tried has its own text: the log has the first of one cause. */
void uploads_note_failure(struct archiver *a, int err, const struct problem *p)
{
    bool is_new = !a->problem.what || a->problem_err != err;

    if (!a->problem.what)
        a->failing_since = wall_ns();
    if (is_new)
        log_struct(LOG_WARNING, LOG_FIELDS(.message_id = MESSAGE_ARCHIVE_FAILED),
                   "%s; traces wait in the store%s%s", p->what, p->remedy ? ". " : "",
                   p->remedy ? p->remedy : "");
    problem_done(&a->problem);
    a->problem_err = err;
    problem_copy(&a->problem, -EIO, p->kind, p);
    a->retry_ns = mono_ns() + upload_wait_ns(++a->n_failures);
}

void uploads_note_success(struct archiver *a)
{
    if (a->problem.what)
        log_notice("the archive %s takes traces again", archiver_name(a));
    problem_done(&a->problem);
    a->n_failures = 0;
    a->retry_ns = 0;
}

/* -- What is begun, and when --------------------------------------------------------------------------- */

static bool upload_is_active(const struct archiver *a, const struct upload_record *row)
{
    const struct upload *u;

    TAILQ_FOREACH(u, &a->uploads, link)
        if (row->kind == UPLOAD_TRACE ? u->row.kind == UPLOAD_TRACE && u->row.trace_id == row->trace_id
                                      : u->row.upload_id == row->upload_id)
            return true;
    return false;
}

/* Two traces with the same content one after the other: the second finds the object. */
static bool upload_has_twin(const struct archiver *a, const struct upload_record *row)
{
    const struct upload *u;

    TAILQ_FOREACH(u, &a->uploads, link)
        if (row->sha256 && streq(u->sha256, row->sha256))
            return true;
    return false;
}

static unsigned uploads_max(const struct archiver *a)
{
    /* A rate holds for one transfer: a second one would wait in line with its deadline running. */
    return a->problem.what || a->settings->rate > 0 ? 1 : (unsigned)a->settings->transfers;
}

static int uploads_take(const struct upload_record *row, void *arg)
{
    struct archiver *a = arg;

    if (!upload_is_active(a, row) && !upload_has_twin(a, row))
        upload_begin(a, row);
    return a->n_uploads >= uploads_max(a);
}

static void uploads_arm(struct archiver *a, int64_t wait_ns)
{
    struct timeval tv = timeval_of(wait_ns);
    event_add(a->timer, &tv);
}

/* When a file that failed is due, or the archive may be tried again. */
static void uploads_plan(struct archiver *a)
{
    int64_t next_at = catalog_next_upload_at(a->modules.catalog);
    int64_t wait_ns = next_at == RECORD_NONE ? INT64_MAX : next_at - wall_ns();

    if (a->problem.what && a->retry_ns > mono_ns())
        wait_ns = a->retry_ns - mono_ns();
    if (a->problem.what)
        wait_ns = MIN(wait_ns, CREDENTIALS_LOOK_NS);
    if (wait_ns < INT64_MAX)
        uploads_arm(a, MIN(MAX(wait_ns, RETRY_LEAST_NS), RETRY_MAX_NS));
}

static void uploads_continue(struct archiver *a)
{
    struct archive_loop *loop = archiver_loop(a, ROLE_WRITE);

    if (!loop || !a->began || a->closing)
        return;
    bool may_try = !a->problem.what || mono_ns() >= a->retry_ns ||
                   archive_credentials_changed(archive_loop_archive(loop));
    if (may_try && a->n_uploads < uploads_max(a))
        catalog_each_upload(a->modules.catalog, wall_ns(), (int64_t)a->settings->transfers + a->n_uploads,
                            uploads_take, a);
    if (a->n_uploads == 0)
        uploads_plan(a);
}

static void uploads_on_event_loop(evutil_socket_t fd, short what, void *arg)
{
    uploads_continue(arg);
}

void uploads_wake(struct archiver *a)
{
    if (!a->closing && a->wakeup)
        event_active(a->wakeup, EV_TIMEOUT, 0);
}

/* A trace was added, or a session ended. */
static void uploads_on_event(const json_t *event, void *arg)
{
    const char *kind = json_get_str(event, "kind"), *session = json_get_str(event, "session");
    struct archiver *a = arg;
    int64_t id;

    if (!archiver_is_configured(a) || a->closing)
        return;
    if (streq(kind, "session-state") && session && parse_ref(session, 's', &id) == 's')
        manifest_want(a, id);
    else if (!streq(kind, "trace-added"))
        return;
    uploads_wake(a);
}

void uploads_init(struct archiver *a)
{
    TAILQ_INIT(&a->uploads);
    a->timer = event_new(a->modules.base, -1, 0, uploads_on_event_loop, a);
    a->wakeup = event_new(a->modules.base, -1, 0, uploads_on_event_loop, a);
}

void uploads_begin(struct archiver *a)
{
    catalog_on_event(a->modules.catalog, uploads_on_event, a);
    uploads_wake(a);
}

void uploads_cancel(struct archiver *a)
{
    struct upload *u, *next;

    for (u = TAILQ_FIRST(&a->uploads); u; u = next) {
        next = TAILQ_NEXT(u, link);
        upload_cancel(u);
    }
    event_del(a->timer);
}

void uploads_done(struct archiver *a)
{
    struct upload *u;

    while ((u = TAILQ_FIRST(&a->uploads)))
        upload_free(u);
    event_free(a->timer);
    event_free(a->wakeup);
}
