/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/postgres.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* After which a statement that was cancelled is abandoned with its connection. */
#define CANCEL_NS   (5 * NS_PER_S)
#define CANCEL_TEXT 256
/* Larger ones are none in effect, and can be added to a time. */
#define LIMIT_MAX_NS (INT64_C(365) * 24 * 3600 * NS_PER_S)
#define PARAMETERS   48
#define TEXT_TYPE    0 /* the server decides */
#define FORMAT_TEXT  0

struct postgres {
    PGconn *connection;
    PGresult *row; /* NULL: none */
    int signal_fd; /* -1: not held yet */
    bool is_running, was_cancelled;
    pid_t canceller;  /* 0: none */
    int64_t limit_ns; /* of each statement; 0: none */
    int64_t deadline_ns;
};

/* -- Errors ------------------------------------------------------------------------------------------- */

/* Part of what the server or libpq prints, what it means for profctl, and what to do. */
static const struct {
    const char *part;
    enum problem_kind kind;
    const char *remedy;
} connection_errors[] = {
    {"no password supplied", PROBLEM_DENIED,
     "Set PGPASSWORD, or add a line to ~/.pgpass (mode 0600): HOST:PORT:DATABASE:USER:PASSWORD"},
    {"password authentication failed", PROBLEM_DENIED,
     "Check the user in the address, and its password in PGPASSWORD or ~/.pgpass."},
    {"database", PROBLEM_UPSTREAM,
     "Create the database, or name another one in the address: postgresql://HOST/DATABASE"},
    {"role", PROBLEM_UPSTREAM, "Name the user in the address: postgresql://fleet_reader@HOST/DATABASE"},
    {"certificate", PROBLEM_UPSTREAM,
     "Name the CA's certificates in the address: ?sslmode=verify-full&sslrootcert=FILE"},
    {"Connection refused", PROBLEM_UPSTREAM, "Check the host and port, and that PostgreSQL runs there."},
    {"timeout", PROBLEM_UPSTREAM, "Check the host and port, and the network between."},
};

/* SQLSTATE, or its class. */
static const struct {
    const char *state;
    enum problem_kind kind;
    const char *remedy;
} statement_errors[] = {
    {"42601", PROBLEM_BAD_REQUEST, NULL},
    {"42P01", PROBLEM_BAD_REQUEST,
     "profctl query --mirror .tables lists the views; profctl mirror init URL creates them."},
    {"3F000", PROBLEM_BAD_REQUEST, "Create the schema: profctl mirror init URL"},
    {"42501", PROBLEM_DENIED,
     "Use a role that may: fleet_reader for queries, and a superuser or fleet_owner for mirror init, migrate "
     "and expire."},
    {"25006", PROBLEM_DENIED, "The mirror can only be read: use SELECT."},
    {"55P03", PROBLEM_BUSY, "A query holds the table: try again when it has ended."},
    {"42", PROBLEM_BAD_REQUEST, NULL},
    {"22", PROBLEM_BAD_REQUEST, NULL},
};

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

/* "FATAL:  text" without its first word. */
static const char *error_text(const char *message)
{
    static const char *const levels[] = {"ERROR:", "FATAL:", "PANIC:"};

    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        const char *found = strstr(message, levels[i]);
        if (found && found < message + line_length(message))
            return found + strlen(levels[i]) + strspn(found + strlen(levels[i]), " ");
    }
    return message;
}

static int connection_problem(const struct postgres *pg, struct problem *p)
{
    const char *message = PQerrorMessage(pg->connection);

    for (size_t i = 0; i < ARRAY_SIZE(connection_errors); i++)
        if (strstr(message, connection_errors[i].part)) {
            problem_remedy(p, "%s", connection_errors[i].remedy);
            return problem_set(p, -EHOSTUNREACH, connection_errors[i].kind,
                               "cannot connect to PostgreSQL: %.*s", (int)line_length(message), message);
        }
    return problem_set(p, -EHOSTUNREACH, PROBLEM_UPSTREAM, "cannot connect to PostgreSQL: %.*s",
                       (int)line_length(message), *message ? message : "out of memory");
}

static int statement_problem(const PGresult *result, struct problem *p)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE), *message = PQresultErrorMessage(result);
    const char *text = error_text(message), *rest = text + line_length(text);
    enum problem_kind kind = PROBLEM_UPSTREAM;
    const char *remedy = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(statement_errors) && !remedy && kind == PROBLEM_UPSTREAM; i++)
        if (state && strncmp(state, statement_errors[i].state, strlen(statement_errors[i].state)) == 0) {
            kind = statement_errors[i].kind;
            remedy = statement_errors[i].remedy;
        }
    _cleanup_(freep) char *lines = xstrdup(*rest ? rest + 1 : "");
    for (size_t n = strlen(lines); n > 0 && lines[n - 1] == '\n'; n--)
        lines[n - 1] = '\0';
    if (*lines || remedy)
        problem_remedy(p, "%s%s%s", lines, *lines && remedy ? "\n" : "", remedy ? remedy : "");
    return problem_set(p, -EINVAL, kind, "%.*s", (int)line_length(text),
                       *text ? text : "the connection broke");
}

/* -- Waiting ------------------------------------------------------------------------------------------ */

/* PQcancel() waits for the server to close the connection that it makes, for ever where the server hangs: in a process of its own. */
static void postgres_cancel(struct postgres *pg)
{
    char error[CANCEL_TEXT];
    PGcancel *cancel = PQgetCancel(pg->connection);

    pg->was_cancelled = true;
    pg->deadline_ns = mono_ns() + CANCEL_NS;
    if (cancel && pg->canceller == 0 && (pg->canceller = fork()) == 0) {
        alarm(CANCEL_NS / NS_PER_S);
        PQcancel(cancel, error, sizeof(error));
        _exit(EXIT_SUCCESS);
    }
    pg->canceller = MAX(pg->canceller, 0);
    PQfreeCancel(cancel);
}

/* A signal cancels the statement, the second one abandons it. */
static int postgres_wait(struct postgres *pg, short events)
{
    struct pollfd fds[] = {{.fd = PQsocket(pg->connection), .events = events},
                           {.fd = pg->signal_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    int64_t left =
        pg->deadline_ns == DEADLINE_NEVER ? -1 : MAX((pg->deadline_ns - mono_ns()) / NS_PER_MS, INT64_C(0));
    int n = poll(fds, ARRAY_SIZE(fds), (int)left);

    if (n < 0 && errno != EINTR)
        return -errno;
    if (n == 0)
        return pg->was_cancelled ? -EINTR : -ETIMEDOUT;
    if (!(fds[1].revents & POLLIN) || read(pg->signal_fd, &info, sizeof(info)) != sizeof(info))
        return 0;
    if (pg->was_cancelled)
        return -EINTR;
    postgres_cancel(pg);
    return 0;
}

/* -- Connecting --------------------------------------------------------------------------------------- */

static int postgres_start(struct postgres *pg, const char *address, struct problem *p)
{
    const char *keywords[PARAMETERS + 4] = {"gssencmode", "client_encoding", "fallback_application_name"};
    const char *values[PARAMETERS + 4] = {"disable", "UTF8", "profctl"};
    char *error = NULL;
    int n = 3;
    PQconninfoOption *options = PQconninfoParse(address, &error);

    if (!options) {
        PQfreemem(error);
        problem_remedy(p, "An address is postgresql://USER@HOST:PORT/DATABASE, or \"host=HOST "
                          "dbname=DATABASE user=USER\".");
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the address of PostgreSQL is not valid");
    }
    for (const PQconninfoOption *o = options; o->keyword && n < PARAMETERS + 3; o++)
        if (o->val) {
            keywords[n] = o->keyword;
            values[n++] = o->val;
        }
    pg->connection = PQconnectStartParams(keywords, values, 0);
    PQconninfoFree(options);
    return pg->connection && PQstatus(pg->connection) != CONNECTION_BAD ? 0 : connection_problem(pg, p);
}

static void ignore_notice(void *arg, const char *message)
{
}

static int postgres_connect(struct postgres *pg, struct problem *p)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    while (state != PGRES_POLLING_OK) {
        int r = postgres_wait(pg, state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN);
        if (r == -ETIMEDOUT) {
            problem_remedy(p, "Check the host and port, and the network between.");
            return problem_set(p, r, PROBLEM_UPSTREAM, "cannot connect to PostgreSQL: no answer within %d s",
                               (int)(POSTGRES_CONNECT_NS / NS_PER_S));
        }
        state = r < 0 ? PGRES_POLLING_FAILED : PQconnectPoll(pg->connection);
        if (state == PGRES_POLLING_FAILED)
            return connection_problem(pg, p);
    }
    PQsetNoticeProcessor(pg->connection, ignore_notice, NULL);
    return 0;
}

int postgres_open(const char *address, struct postgres **ret, struct problem *p)
{
    _cleanup_(postgres_closep) struct postgres *pg = xcalloc(1, sizeof(*pg));
    const sigset_t set = screen_signals();

    pg->signal_fd = -1;
    pg->deadline_ns = mono_ns() + POSTGRES_CONNECT_NS;
    int r = postgres_start(pg, address, p);
    if (r >= 0)
        r = postgres_connect(pg, p);
    if (r < 0)
        return r;
    client_hold_signals();
    pg->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    pg->deadline_ns = DEADLINE_NEVER;
    *ret = TAKE_PTR(pg);
    return 0;
}

struct postgres *postgres_close(struct postgres *pg)
{
    if (!pg)
        return NULL;
    PQclear(pg->row);
    PQfinish(pg->connection);
    if (pg->canceller > 0) {
        kill(pg->canceller, SIGKILL);
        waitpid(pg->canceller, NULL, 0);
    }
    closep(&pg->signal_fd);
    free(pg);
    return NULL;
}

void postgres_set_limit(struct postgres *pg, int64_t limit_ns)
{
    pg->limit_ns = MIN(limit_ns, LIMIT_MAX_NS);
}

/* -- Statements --------------------------------------------------------------------------------------- */

static int postgres_broken(struct postgres *pg, struct problem *p)
{
    const char *message = PQerrorMessage(pg->connection);

    pg->is_running = false;
    problem_remedy(p, "Run it again; what was not committed had no effect.");
    return problem_set(p, -EPIPE, PROBLEM_UPSTREAM, "the connection to PostgreSQL broke: %.*s",
                       (int)line_length(message), message);
}

static int postgres_send(struct postgres *pg, bool sent, struct problem *p)
{
    PQclear(pg->row);
    pg->row = NULL;
    pg->is_running = sent;
    pg->was_cancelled = false;
    /* The server ends it at its limit, where it still answers. */
    pg->deadline_ns = pg->limit_ns > 0 ? mono_ns() + pg->limit_ns + CANCEL_NS : DEADLINE_NEVER;
    return sent ? 0 : postgres_broken(pg, p);
}

/* The next result, NULL at the end. */
static int postgres_result(struct postgres *pg, PGresult **ret, struct problem *p)
{
    int r;

    *ret = NULL;
    while (PQisBusy(pg->connection)) {
        if ((r = postgres_wait(pg, POLLIN)) < 0) {
            pg->is_running = false;
            if (r != -ETIMEDOUT)
                return problem_set(p, r, PROBLEM_UPSTREAM, "interrupted");
            problem_remedy(p, "Check the server and the network between.");
            return problem_set(p, r, PROBLEM_UPSTREAM, "PostgreSQL has not answered within the time limit");
        }
        if (!PQconsumeInput(pg->connection))
            return postgres_broken(pg, p);
    }
    *ret = PQgetResult(pg->connection);
    return 0;
}

int postgres_begin(struct postgres *pg, const char *sql, int n, const char *const *values, struct problem *p)
{
    int r = postgres_send(
        pg, PQsendQueryParams(pg->connection, sql, n, NULL, values, NULL, NULL, FORMAT_TEXT), p);

    if (r == 0)
        PQsetSingleRowMode(pg->connection);
    return r;
}

void postgres_end(struct postgres *pg)
{
    PGresult *result = NULL;

    if (pg->is_running)
        postgres_cancel(pg);
    while (pg->is_running && postgres_result(pg, &result, NULL) == 0 && result)
        PQclear(result);
    pg->is_running = false;
}

int postgres_next(struct postgres *pg, struct problem *p)
{
    PGresult *result = NULL;
    int r = pg->is_running ? postgres_result(pg, &result, p) : 0;

    if (r < 0 || !result) {
        pg->is_running = false;
        return r;
    }
    PQclear(pg->row);
    pg->row = result;
    switch (PQresultStatus(result)) {
    case PGRES_SINGLE_TUPLE:
        return 1;
    case PGRES_TUPLES_OK: /* after the last row */
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
        return postgres_result(pg, &result, p) < 0 || !result ? (pg->is_running = false, 0)
                                                              : (PQclear(result), 0);
    default:
        r = pg->was_cancelled ? problem_set(p, -EINTR, PROBLEM_UPSTREAM, "interrupted")
                              : statement_problem(result, p);
        while (postgres_result(pg, &result, NULL) == 0 && result)
            PQclear(result);
        pg->is_running = false;
        return r;
    }
}

const PGresult *postgres_row(const struct postgres *pg)
{
    return pg->row;
}

int postgres_run(struct postgres *pg, const char *sql, struct problem *p)
{
    PGresult *result;
    int r = postgres_send(pg, PQsendQuery(pg->connection, sql), p), failed = r;

    while (r == 0 && (r = postgres_result(pg, &result, p)) == 0 && result) {
        ExecStatusType status = PQresultStatus(result);
        if (failed == 0 && status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            failed = pg->was_cancelled ? problem_set(p, -EINTR, PROBLEM_UPSTREAM, "interrupted")
                                       : statement_problem(result, p);
        PQclear(result);
    }
    pg->is_running = false;
    return r < 0 ? r : failed;
}

static json_t *row_to_json(const PGresult *row)
{
    json_t *object = json_object();

    for (int i = 0; i < PQnfields(row); i++)
        json_object_set_new(object, PQfname(row, i),
                            PQgetisnull(row, 0, i) ? json_null() : json_text(PQgetvalue(row, 0, i)));
    return object;
}

int postgres_read(struct postgres *pg, const char *sql, int n, const char *const *values, json_t **ret,
                  struct problem *p)
{
    int r = postgres_begin(pg, sql, n, values, p);

    *ret = NULL;
    while (r >= 0 && (r = postgres_next(pg, p)) > 0)
        if (!*ret)
            *ret = row_to_json(pg->row);
    return r < 0 ? r : *ret ? 0 : -ENODATA;
}

int postgres_read_all(struct postgres *pg, const char *sql, json_t **ret, struct problem *p)
{
    _cleanup_json_ rows = json_array();
    int r = postgres_begin(pg, sql, 0, NULL, p);

    while (r >= 0 && (r = postgres_next(pg, p)) > 0)
        json_array_append_new(rows, row_to_json(pg->row));
    if (r == 0)
        *ret = json_incref(rows);
    return r;
}
