/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/mirror/pq.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/network.h"
#include "daemon/mirror/pq_connector.h"
#include "daemon/mirror/pq_internal.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/ioctl.h>

#define PQ_LIBRARY     "libpq.so.5"
#define SQLSTATE_BYTES (PQ_STATE_SIZE - 1)
/* What a server may send while it is connected to, while a call runs, and after it: libpq keeps all of it in
 * memory until a message is complete. An answer is a number or the name of a host, an error some lines. */
#define READ_MAX_BYTES (1 << 20)
#define READ_MAX_TEXT  "1 MiB"

struct pq {
    struct pq_connector *connector;
    struct event_base *base;
    struct name_resolver *names;
    const struct pq_ops *ops;
    void *arg;

    PQconninfoOption *options;
    char *passfile;
    int64_t timeout_ns;
    struct pq_host hosts[PQ_HOSTS_MAX];
    size_t n_hosts, host;
    struct in6_addr addresses[NAME_ADDRESSES_MAX]; /* of the host */
    size_t n_addresses, address;
    struct name_query *query;
    char *error; /* of the last try */

    struct pq_step *step; /* of connecting, on the thread, which has the connection meanwhile */
    PGconn *connection;
    struct event *io, *timer;
    bool is_connected, is_calling;
    int64_t read_bytes; /* since the connection or the call began, or the call ended */
    char *value;        /* of the call */
    char *call_error;
    char state[PQ_STATE_SIZE];
};

bool pq_is_installed(void)
{
    void *handle = dlopen(PQ_LIBRARY, RTLD_LAZY | RTLD_LOCAL);

    if (handle)
        dlclose(handle);
    return handle != NULL;
}

/* -- Ends --------------------------------------------------------------------------------------------- */

static void pq_stop_waiting(struct pq *c)
{
    if (c->io)
        event_free(c->io);
    c->io = NULL;
    if (c->timer)
        event_del(c->timer);
}

static void pq_close(struct pq *c)
{
    pq_stop_waiting(c);
    pq_step_cancel(c->step);
    c->step = NULL;
    if (c->connection)
        PQfinish(c->connection);
    c->connection = NULL;
    c->is_connected = c->is_calling = false;
}

struct pq *pq_free(struct pq *c)
{
    if (!c)
        return NULL;
    name_query_free(c->query);
    pq_close(c);
    if (c->timer)
        event_free(c->timer);
    if (c->options)
        PQconninfoFree(c->options);
    free(c->passfile);
    free(c->error);
    free(c->value);
    free(c->call_error);
    free(c);
    return NULL;
}

/* The first line. */
static void pq_note_error(struct pq *c, const char *text)
{
    free(c->error);
    c->error = xstrndup(text, strcspn(text, "\n"));
}

/* The last act. */
static void pq_fail(struct pq *c)
{
    struct pq_failure f = {.text = c->error ? c->error : "the connection broke"};

    memcpy(f.state, c->state, sizeof(f.state));
    pq_close(c);
    c->ops->failed(&f, c->arg);
}

/* -- Waiting ------------------------------------------------------------------------------------------ */

static void pq_advance(struct pq *c);

static void pq_on_io(evutil_socket_t fd, short what, void *arg)
{
    pq_advance(arg);
}

/* The socket may be another one after each step of connecting. */
static void pq_wait(struct pq *c, short what)
{
    if (c->io)
        event_free(c->io);
    c->io = event_new(c->base, PQsocket(c->connection), what, pq_on_io, c);
    event_add(c->io, NULL);
}

static void pq_set_deadline(struct pq *c, int64_t timeout_ns)
{
    struct timeval tv = timeval_of(timeout_ns);
    event_add(c->timer, &tv);
}

/* Whether more may be read. Counts what the kernel has received: libpq reads it at once. */
static bool pq_may_read(struct pq *c)
{
    int bytes = 0;

    if (ioctl(PQsocket(c->connection), FIONREAD, &bytes) == 0)
        c->read_bytes += bytes;
    if (c->read_bytes <= READ_MAX_BYTES)
        return true;
    pq_note_error(c, "the server sent more than " READ_MAX_TEXT " where an answer is a number");
    strcpy(c->state, PQ_STATE_PROTOCOL);
    return false;
}

/* -- Connecting --------------------------------------------------------------------------------------- */

static void pq_try_next(struct pq *c);

/* No other server is tried: the thread is not free for it. */
static void pq_fail_held(struct pq *c, const char *host)
{
    _cleanup_(freep) char *why =
        xasprintf("the server at %s keeps the log-in busy (SCRAM with very many iterations?)", host);
    pq_note_error(c, why);
    c->state[0] = '\0';
    pq_fail(c);
}

static void pq_on_step(PGconn *connection, PostgresPollingStatusType status, void *arg)
{
    struct pq *c = arg;

    c->step = NULL;
    c->connection = connection;
    switch (status) {
    case PGRES_POLLING_READING:
        pq_wait(c, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        pq_wait(c, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        event_del(c->timer);
        c->is_connected = true;
        PQsetnonblocking(c->connection, 1);
        /* Notices the end of the connection while nothing is called. */
        pq_wait(c, EV_READ);
        c->ops->connected(c->arg);
        return;
    default:
        pq_note_error(c, c->connection ? PQerrorMessage(c->connection) : "out of memory");
        pq_try_next(c);
    }
}

static void pq_step_connecting(struct pq *c)
{
    if (!pq_may_read(c)) {
        pq_try_next(c);
        return;
    }
    /* The step may close the socket. */
    event_free(c->io);
    c->io = NULL;
    c->step =
        pq_step_poll(c->connector, pq_host_label(&c->hosts[c->host]), TAKE_PTR(c->connection), pq_on_step, c);
}

static void pq_start(struct pq *c, const char *address)
{
    const struct pq_host *h = &c->hosts[c->host];
    const char *held_by = pq_connector_held_by(c->connector);
    struct pq_keywords k;

    if (held_by) {
        pq_fail_held(c, held_by);
        return;
    }
    pq_read_keywords(c->options, h, address, c->passfile, &k);
    pq_close(c);
    pq_set_deadline(c, c->timeout_ns);
    c->read_bytes = 0;
    c->state[0] = '\0';
    c->step = pq_step_start(c->connector, pq_host_label(h), &k, pq_on_step, c);
    if (!c->step) {
        pq_note_error(c, "no thread can be made to connect");
        pq_fail(c);
    }
}

static void pq_start_address(struct pq *c, const struct in6_addr *a)
{
    const struct network_refusal *refusal = network_refuses_ever(a);
    char text[INET6_ADDRSTRLEN];

    if (IN6_IS_ADDR_V4MAPPED(a))
        inet_ntop(AF_INET, &a->s6_addr[12], text, sizeof(text));
    else
        inet_ntop(AF_INET6, a, text, sizeof(text));
    if (!refusal) {
        pq_start(c, text);
        return;
    }
    _cleanup_(freep) char *why = xasprintf("%s %s", text, refusal->why);
    pq_note_error(c, why);
    pq_try_next(c);
}

static void pq_on_name(const struct name_answer *a, void *arg)
{
    struct pq *c = arg;

    c->query = NULL;
    event_del(c->timer);
    c->n_addresses = a->err < 0 ? 0 : a->n;
    c->address = 0;
    memcpy(c->addresses, a->addresses, sizeof(c->addresses));
    if (c->n_addresses == 0) {
        _cleanup_(freep) char *why =
            xasprintf("cannot resolve %s: %s", c->hosts[c->host].name,
                      a->err == -ETIMEDOUT || a->err == -EAGAIN ? "no answer of the name servers in time"
                                                                : "no such name");
        pq_note_error(c, why);
        pq_try_next(c);
        return;
    }
    pq_start_address(c, &c->addresses[c->address++]);
}

static bool pq_read_address(const char *text, struct in6_addr *ret)
{
    struct in_addr v4;

    if (inet_pton(AF_INET6, text, ret) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    *ret = (struct in6_addr){0};
    ret->s6_addr[10] = ret->s6_addr[11] = 0xff;
    memcpy(&ret->s6_addr[12], &v4, sizeof(v4));
    return true;
}

static void pq_try_host(struct pq *c)
{
    const struct pq_host *h = &c->hosts[c->host];
    struct name_answer known = {.n = 1};

    c->n_addresses = c->address = 0;
    if (pq_host_is_socket(h)) {
        pq_start(c, NULL);
        return;
    }
    if (pq_read_address(*h->address ? h->address : h->name, &known.addresses[0]) ||
        names_known(c->names, h->name, 0, &known)) {
        pq_on_name(&known, c);
        return;
    }
    pq_close(c);
    c->query = names_ask(c->names, h->name, 0, mono_ns() + c->timeout_ns, c->timeout_ns, pq_on_name, c);
}

/* The next address of the host, then the next host. */
static void pq_try_next(struct pq *c)
{
    if (c->address < c->n_addresses) {
        pq_start_address(c, &c->addresses[c->address++]);
        return;
    }
    if (++c->host < c->n_hosts) {
        pq_try_host(c);
        return;
    }
    pq_fail(c);
}

static void pq_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct pq *c = arg;

    if (c->is_connected) {
        pq_note_error(c, "no answer in time");
        pq_fail(c);
        return;
    }
    const char *held_by = c->step ? pq_connector_held_by(c->connector) : NULL;
    if (held_by) {
        pq_fail_held(c, held_by);
        return;
    }
    _cleanup_(freep) char *why = xasprintf("no answer of %s in time", pq_host_label(&c->hosts[c->host]));
    pq_note_error(c, why);
    pq_try_next(c);
}

/* Nothing of it is called before the loop runs again. */
static void pq_on_begin(evutil_socket_t fd, short what, void *arg)
{
    struct pq *c = arg;

    event_free(c->io);
    c->io = NULL;
    pq_try_host(c);
}

int pq_connect(struct pq_connector *connector, struct name_resolver *names, const char *conninfo,
               const char *passfile, int64_t timeout_ns, const struct pq_ops *ops, void *arg, struct pq **ret)
{
    struct pq *c = xcalloc(1, sizeof(*c));
    const char *reason;

    *c = (struct pq){.connector = connector,
                     .base = pq_connector_base(connector),
                     .names = names,
                     .ops = ops,
                     .arg = arg,
                     .timeout_ns = timeout_ns};
    c->options = pq_parse(conninfo);
    c->passfile = passfile ? xstrdup(passfile) : NULL;
    c->timer = evtimer_new(c->base, pq_on_deadline, c);
    c->io = evtimer_new(c->base, pq_on_begin, c);
    if (!c->options || pq_read_hosts(c->options, c->hosts, &c->n_hosts, &reason) < 0) {
        pq_free(c);
        return -EINVAL;
    }
    event_active(c->io, 0, 0);
    *ret = c;
    return 0;
}

/* -- Calls -------------------------------------------------------------------------------------------- */

static void pq_break(struct pq *c)
{
    pq_note_error(c, PQerrorMessage(c->connection));
    pq_fail(c);
}

static void pq_take_result(struct pq *c, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK && PQntuples(result) == 1 && PQnfields(result) == 1 &&
        !PQgetisnull(result, 0, 0)) {
        free(c->value);
        c->value = xstrdup(PQgetvalue(result, 0, 0));
    } else if (!c->call_error) {
        const char *text = PQresultErrorMessage(result);
        c->call_error = *text ? xstrndup(text, strcspn(text, "\n")) : xstrdup("an unexpected answer");
        snprintf(c->state, sizeof(c->state), "%.*s", SQLSTATE_BYTES, state ? state : "");
    }
}

/* The last act. */
static void pq_end_call(struct pq *c)
{
    _cleanup_(freep) char *error = TAKE_PTR(c->call_error);
    _cleanup_(freep) char *value = error ? NULL : TAKE_PTR(c->value);
    struct pq_failure f = {.text = error ? error : "no answer"};

    memcpy(f.state, c->state, sizeof(f.state));
    event_del(c->timer);
    c->is_calling = false;
    c->read_bytes = 0;
    pq_wait(c, EV_READ);
    c->ops->result(value, value ? NULL : &f, c->arg);
}

static void pq_step_call(struct pq *c)
{
    if (!pq_may_read(c)) {
        pq_fail(c);
        return;
    }
    if (!PQconsumeInput(c->connection)) {
        pq_break(c);
        return;
    }
    int unsent = PQflush(c->connection);
    if (unsent < 0) {
        pq_break(c);
        return;
    }
    while (!PQisBusy(c->connection)) {
        PGresult *result = PQgetResult(c->connection);
        if (!result) {
            if (PQstatus(c->connection) == CONNECTION_BAD)
                pq_break(c);
            else
                pq_end_call(c);
            return;
        }
        pq_take_result(c, result);
        PQclear(result);
    }
    pq_wait(c, (short)(EV_READ | (unsent > 0 ? EV_WRITE : 0)));
}

/* Readable while nothing is called: it was closed, or the server has a remark. Asking whether it is busy drops remarks. */
static void pq_step_idle(struct pq *c)
{
    if (!pq_may_read(c)) {
        pq_fail(c);
        return;
    }
    if (!PQconsumeInput(c->connection)) {
        pq_break(c);
        return;
    }
    PQisBusy(c->connection);
    for (PGnotify *n; (n = PQnotifies(c->connection));)
        PQfreemem(n);
    pq_wait(c, EV_READ);
}

static void pq_advance(struct pq *c)
{
    if (!c->is_connected)
        pq_step_connecting(c);
    else if (c->is_calling)
        pq_step_call(c);
    else
        pq_step_idle(c);
}

void pq_call(struct pq *c, const char *sql, int n, const char *const *values, int64_t timeout_ns)
{
    c->is_calling = true;
    c->read_bytes = 0;
    c->state[0] = '\0';
    free(c->value);
    c->value = NULL;
    if (!PQsendQueryParams(c->connection, sql, n, NULL, values, NULL, NULL, 0)) {
        /* Reported from the loop, as every other end. */
        event_active(c->timer, 0, 0);
        return;
    }
    pq_set_deadline(c, timeout_ns);
    PQflush(c->connection);
    pq_wait(c, EV_READ | EV_WRITE);
}
