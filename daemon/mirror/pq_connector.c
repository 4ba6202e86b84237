/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/mirror/pq_connector.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/offload.h"
#include <errno.h>
#include <stdatomic.h>
#include <sys/queue.h>

/* All steps are jobs of one queue: a further thread would find nothing to do. */
#define STEPS_QUEUE   UINT64_C(1)
#define STEPS_THREADS 1
/* Of one step. A key of 4096 iterations, as PostgreSQL makes it, takes milliseconds. */
#define STEP_HELD_NS NS_PER_S

struct pq_step {
    STAILQ_ENTRY(pq_step) next;
    struct pq_connector *connector;
    char *host;
    struct pq_keywords keywords; /* without one: continues with the connection */
    PGconn *connection;
    PostgresPollingStatusType status;
    atomic_bool is_cancelled; /* before it began: it does not begin */
    pq_step_fn done;
    void *arg;
};

struct pq_connector {
    struct event_base *base;
    struct offload *offload;      /* NULL until the first step */
    STAILQ_HEAD(, pq_step) steps; /* the first one runs */
    int64_t since_ns;             /* monotonic: when the first one became that */
};

/* -- Steps -------------------------------------------------------------------------------------------- */

static struct pq_step *pq_step_free(struct pq_step *s)
{
    for (size_t i = 0; i < s->keywords.n; i++) {
        free((char *)s->keywords.keywords[i]);
        free((char *)s->keywords.values[i]);
    }
    if (s->connection)
        PQfinish(s->connection);
    free(s->host);
    free(s);
    return NULL;
}

/* On the thread, or on the loop once the connection is made. */
static void pq_on_notice(void *arg, const char *message)
{
    log_debug("mirror: %.*s", (int)strcspn(message, "\n"), message);
}

/* On the thread. */
static void pq_step_work(void *arg)
{
    struct pq_step *s = arg;

    if (atomic_load(&s->is_cancelled))
        return;
    if (s->keywords.n == 0) {
        s->status = PQconnectPoll(s->connection);
        return;
    }
    s->connection = PQconnectStartParams(s->keywords.keywords, s->keywords.values, 0);
    if (s->connection)
        PQsetNoticeProcessor(s->connection, pq_on_notice, NULL);
    s->status = s->connection && PQstatus(s->connection) != CONNECTION_BAD ? PGRES_POLLING_WRITING
                                                                           : PGRES_POLLING_FAILED;
}

static void pq_step_on_worked(void *arg)
{
    struct pq_step *s = arg;
    struct pq_connector *x = s->connector;
    PostgresPollingStatusType status = s->status;
    pq_step_fn done = atomic_load(&s->is_cancelled) ? NULL : s->done;
    PGconn *connection = done ? TAKE_PTR(s->connection) : NULL;
    void *done_arg = s->arg;

    STAILQ_REMOVE(&x->steps, s, pq_step, next);
    x->since_ns = mono_ns();
    pq_step_free(s);
    if (done)
        done(connection, status, done_arg);
}

static void pq_step_run(struct pq_step *s, const char *host, pq_step_fn done, void *arg)
{
    struct pq_connector *x = s->connector;

    s->host = xstrdup(host);
    s->done = done;
    s->arg = arg;
    s->status = PGRES_POLLING_FAILED;
    if (STAILQ_EMPTY(&x->steps))
        x->since_ns = mono_ns();
    STAILQ_INSERT_TAIL(&x->steps, s, next);
    offload_run_in(x->offload, STEPS_QUEUE, pq_step_work, pq_step_on_worked, s);
}

struct pq_step *pq_step_start(struct pq_connector *x, const char *host, const struct pq_keywords *k,
                              pq_step_fn done, void *arg)
{
    if (!x->offload && offload_new(x->base, STEPS_THREADS, &x->offload) < 0)
        return NULL;
    struct pq_step *s = xcalloc(1, sizeof(*s));

    s->connector = x;
    for (size_t i = 0; i < k->n; i++) {
        s->keywords.keywords[i] = xstrdup(k->keywords[i]);
        s->keywords.values[i] = xstrdup(k->values[i]);
    }
    s->keywords.n = k->n;
    pq_step_run(s, host, done, arg);
    return s;
}

struct pq_step *pq_step_poll(struct pq_connector *x, const char *host, PGconn *connection, pq_step_fn done,
                             void *arg)
{
    struct pq_step *s = xcalloc(1, sizeof(*s));

    s->connector = x;
    s->connection = connection;
    pq_step_run(s, host, done, arg);
    return s;
}

void pq_step_cancel(struct pq_step *s)
{
    if (s)
        atomic_store(&s->is_cancelled, true);
}

/* -- The connector ------------------------------------------------------------------------------------ */

struct pq_connector *pq_connector_new(struct event_base *base)
{
    struct pq_connector *x = xcalloc(1, sizeof(*x));

    x->base = base;
    STAILQ_INIT(&x->steps);
    return x;
}

const char *pq_connector_held_by(const struct pq_connector *x)
{
    const struct pq_step *first = STAILQ_FIRST(&x->steps);
    return first && mono_ns() - x->since_ns >= STEP_HELD_NS ? first->host : NULL;
}

struct event_base *pq_connector_base(const struct pq_connector *x)
{
    return x->base;
}

int pq_connector_drain(struct pq_connector *x, int64_t deadline_ns)
{
    return x->offload ? offload_drain(x->offload, deadline_ns) : 0;
}

struct pq_connector *pq_connector_free(struct pq_connector *x)
{
    if (!x)
        return NULL;
    offload_free(x->offload);
    free(x);
    return NULL;
}
