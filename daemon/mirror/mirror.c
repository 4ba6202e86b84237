/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/mirror/mirror.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/changes.h"
#include "daemon/fleet/names.h"
#include "daemon/mirror/content.h"
#include "daemon/mirror/mirror_internal.h"
#include "daemon/mirror/pq.h"
#include "proto/mirror.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>

#define CONNECT_TIMEOUT_NS (5 * NS_PER_S)
/* After the last batch: connections of the server are few. */
#define IDLE_NS (30 * NS_PER_S)
/* Most changes are announced by events; the rest is looked for. */
#define LOOK_NS (5 * NS_PER_S)
/* So that the rows of one moment are one batch. */
#define GATHER_NS (100 * NS_PER_MS)
/* Answers that are behind what was sent, one after the other, before the connection is given up. */
#define BEHIND_MAX 5
/* A backup is not restored more often; a mirror that claims it is wrong. */
#define RENEWAL_LEAST_NS (INT64_C(3600) * NS_PER_S)
#define NUMBER_MAX       24
/* At the end: of a step of connecting that is running, usually milliseconds. */
#define CLOSE_NS (500 * NS_PER_MS)

/* undefined_function (PostgreSQL 15, appendix A): the first version of the schema had no function that names it. */
#define STATE_NO_FUNCTION       "42883"
#define SCHEMA_WITHOUT_FUNCTION 1

#define SQL_VERSION             "select fleet.schema_version()"
#define SQL_APPLY               "select fleet.apply($1::uuid, $2, $3::bigint, $4::bigint, $5::jsonb)"

static const struct backoff mirror_retry = {
    .first_ns = NS_PER_S, .max_ns = 300 * NS_PER_S, .random_percent = 50};

static void mirror_go_on(struct mirror *m);

/* -- Failures ----------------------------------------------------------------------------------------- */

static void mirror_plan(struct event *timer, int64_t delay_ns)
{
    struct timeval tv = timeval_of(delay_ns);
    event_add(timer, &tv);
}

static void mirror_disconnect(struct mirror *m)
{
    mirror_batch_cancel(m->batch);
    m->batch = NULL;
    m->pq = pq_free(m->pq);
    event_del(m->idle);
}

/* The first failure of a kind is logged as a warning, its repetitions only for debugging. */
static void mirror_note_failure(struct mirror *m, const char *state, const char *text)
{
    bool is_known = m->error && streq(m->error, text);

    m->n_failures++;
    m->remedy = mirror_error_remedy(state, text);
    if (is_known) {
        log_debug("mirror: %s", text);
        return;
    }
    replace_str(&m->error, text);
    log_warning("mirror: %s%s%s", text, m->remedy ? ". " : "", m->remedy ? m->remedy : "");
}

static void mirror_forget_failure(struct mirror *m)
{
    if (!m->error)
        return;
    log_notice("mirror: sending again");
    replace_str(&m->error, NULL);
    m->remedy = NULL;
}

static void mirror_fail(struct mirror *m, const char *state, const char *text)
{
    int64_t delay_ns = backoff_ns(&mirror_retry, ++m->failures_in_row, backoff_random());

    mirror_note_failure(m, state, text);
    mirror_disconnect(m);
    m->phase = MIRROR_WAITING;
    m->next_at = wall_ns() + delay_ns;
    mirror_plan(m->retry, delay_ns);
}

/* -- Calls -------------------------------------------------------------------------------------------- */

static void mirror_apply(struct mirror *m, enum mirror_call call, int64_t from, int64_t to, const char *json)
{
    char from_text[NUMBER_MAX], to_text[NUMBER_MAX];
    const char *const values[] = {catalog_uuid(m->catalog), catalog_host(m->catalog), from_text, to_text,
                                  json};

    snprintf(from_text, sizeof(from_text), "%" PRId64, from);
    snprintf(to_text, sizeof(to_text), "%" PRId64, to);
    m->call = call;
    m->phase = MIRROR_SENDING;
    pq_call(m->pq, SQL_APPLY, ARRAY_SIZE(values), values, m->settings->timeout_ns);
}

static void mirror_ask(struct mirror *m)
{
    mirror_apply(m, MIRROR_CALL_APPLIED, 0, 0, NULL);
}

static void mirror_ask_version(struct mirror *m)
{
    m->call = MIRROR_CALL_VERSION;
    m->phase = MIRROR_SENDING;
    pq_call(m->pq, SQL_VERSION, 0, NULL, m->settings->timeout_ns);
}

/* A batch that says nothing but how far it goes. */
static void mirror_skip(struct mirror *m)
{
    mirror_apply(m, MIRROR_CALL_SKIP, m->from, m->to, "{\"rows\":0}");
}

/* The mirror has changes that this catalog does not know: it was restored from a copy. Its rows are sent again as those of a new
 * catalog, which replaces the old one in the mirror. */
static void mirror_renew_catalog(struct mirror *m, int64_t applied)
{
    _cleanup_(freep) char *old = xstrdup(catalog_uuid(m->catalog));
    int r = catalog_renew_uuid(m->catalog);

    if (r >= 0)
        r = catalog_commit(m->catalog, true);
    if (r < 0) {
        mirror_fail(m, "", "the catalog was restored from a copy, and its new identity cannot be written");
        return;
    }
    log_notice("mirror: it has changes up to %" PRId64
               " of catalog %s, which is a restored copy without them: all rows are sent "
               "again as catalog %s",
               applied, old, catalog_uuid(m->catalog));
    m->was_asked = true;
    mirror_ask(m);
}

static void mirror_on_applied(struct mirror *m, int64_t applied)
{
    int64_t last = 0;
    int r = catalog_changes_last(m->catalog, &last);

    if (r < 0) {
        mirror_fail(m, "", "the catalog cannot be read");
        return;
    }
    if (applied > last || (!m->was_asked && applied > m->last_at_start)) {
        if (m->renewed_ns > 0 && mono_ns() - m->renewed_ns < RENEWAL_LEAST_NS) {
            mirror_fail(m, "", "the mirror has changes that this catalog never made, for the second time");
            return;
        }
        m->renewed_ns = mono_ns();
        mirror_renew_catalog(m, applied);
        return;
    }
    m->was_asked = true;
    m->applied = applied;
    m->nothing_until = 0;
    mirror_go_on(m);
}

static void mirror_on_taken(struct mirror *m, int64_t applied)
{
    if (applied != m->to) {
        /* A batch that another connection sent before it broke; or an older state, after a failover. */
        if (++m->behind > BEHIND_MAX) {
            mirror_fail(
                m, "",
                "another profd sends rows of the same catalog: a copy of its file is in use on two hosts");
            return;
        }
        mirror_on_applied(m, applied);
        return;
    }
    m->behind = m->failures_in_row = 0;
    m->applied = applied;
    if (m->call == MIRROR_CALL_BATCH) {
        m->n_rows += (uint64_t)m->rows;
        mirror_window_taken(&m->window);
    }
    mirror_forget_failure(m);
    mirror_go_on(m);
}

/* An older schema lacks columns, a newer one has some that stay empty: neither is a reason not to send. */
static void mirror_on_version(struct mirror *m, int64_t version)
{
    bool is_new = version != m->schema;

    m->schema = version;
    if (is_new && version < MIRROR_SCHEMA_VERSION)
        log_warning("mirror: its schema has version %" PRId64 ", and this profd knows %d. " MIRROR_OLD_REMEDY,
                    version, MIRROR_SCHEMA_VERSION);
    mirror_ask(m);
}

static void mirror_on_refused(struct mirror *m, const struct pq_failure *error)
{
    if (m->call == MIRROR_CALL_VERSION && streq(error->state, STATE_NO_FUNCTION)) {
        mirror_on_version(m, SCHEMA_WITHOUT_FUNCTION);
        return;
    }
    if (m->call != MIRROR_CALL_BATCH || !mirror_error_is_of_row(error->state)) {
        mirror_fail(m, error->state, error->text);
        return;
    }
    if (mirror_window_refused(&m->window)) {
        m->n_refused++;
        log_warning("mirror: change %" PRId64 " was refused and left out: %s", m->to, error->text);
        mirror_skip(m);
        return;
    }
    mirror_go_on(m);
}

static void mirror_on_result(const char *value, const struct pq_failure *error, void *arg)
{
    static void (*const answered[])(struct mirror * m, int64_t number) = {
        [MIRROR_CALL_VERSION] = mirror_on_version,
        [MIRROR_CALL_APPLIED] = mirror_on_applied,
        [MIRROR_CALL_BATCH] = mirror_on_taken,
        [MIRROR_CALL_SKIP] = mirror_on_taken,
    };
    struct mirror *m = arg;
    int64_t number;

    if (!value)
        mirror_on_refused(m, error);
    else if (mirror_parse_applied(value, &number) < 0)
        mirror_fail(m, "", "the server answered what is not a number");
    else
        answered[m->call](m, number);
}

static void mirror_on_connected(void *arg)
{
    struct mirror *m = arg;

    m->next_at = 0;
    mirror_ask_version(m);
}

/* A server that closes an idle connection is no failure. */
static void mirror_on_failed(const struct pq_failure *f, void *arg)
{
    struct mirror *m = arg;

    if (m->phase == MIRROR_CURRENT && !streq(f->state, PQ_STATE_PROTOCOL))
        mirror_disconnect(m);
    else
        mirror_fail(m, f->state, f->text);
}

static const struct pq_ops mirror_pq_ops = {mirror_on_connected, mirror_on_result, mirror_on_failed};

/* -- Steps -------------------------------------------------------------------------------------------- */

static void mirror_connect(struct mirror *m)
{
    if (!pq_is_installed()) {
        mirror_fail(m, "", "libpq is not installed");
        m->remedy = "Install libpq5.";
        return;
    }
    m->phase = MIRROR_CONNECTING;
    if (pq_connect(m->connector, m->names, m->settings->url, m->settings->passfile, CONNECT_TIMEOUT_NS,
                   &mirror_pq_ops, m, &m->pq) < 0)
        mirror_fail(m, "", "[mirror] url= is not an address of PostgreSQL");
}

/* Rows that nobody asked for have no number yet. What cannot get one now does with a later change, or when the timer looks. */
static bool mirror_has_changes(const struct mirror *m)
{
    int64_t last = 0;

    catalog_number_changes(m->catalog);
    return catalog_changes_last(m->catalog, &last) >= 0 && last != m->applied && last != m->nothing_until;
}

static void mirror_rest(struct mirror *m)
{
    m->phase = MIRROR_CURRENT;
    mirror_plan(m->idle, IDLE_NS);
}

static void mirror_on_batch(int err, const struct changes *changes, const struct problem *p, void *arg)
{
    struct mirror *m = arg;

    m->batch = NULL;
    if (err < 0) {
        mirror_fail(m, "", p->what ? p->what : "the catalog cannot be read");
        return;
    }
    if (!changes->json) {
        m->nothing_until = changes->last;
        mirror_rest(m);
        /* Numbers that are not committed yet. */
        if (mirror_has_changes(m))
            mirror_plan(m->gather, GATHER_NS);
        return;
    }
    m->to = changes->to;
    m->rows = changes->rows;
    mirror_apply(m, MIRROR_CALL_BATCH, m->from, m->to, changes->json);
}

/* Sends what there is. */
static void mirror_go_on(struct mirror *m)
{
    if (m->batch)
        return;
    event_del(m->idle);
    if (!mirror_has_changes(m)) {
        /* The server answers, and lacks nothing. */
        m->failures_in_row = 0;
        mirror_forget_failure(m);
        mirror_rest(m);
        return;
    }
    m->phase = MIRROR_SENDING;
    m->from = m->applied;
    m->batch =
        mirror_batch_read(m->offload, catalog_path(m->catalog), m->from, m->window.rows, mirror_on_batch, m);
}

/* -- Timers and events -------------------------------------------------------------------------------- */

/* While the server is away, changes get numbers too: their age is the lag. */
static void mirror_wake(struct mirror *m)
{
    if (!mirror_has_changes(m) || m->phase != MIRROR_CURRENT)
        return;
    if (m->pq)
        mirror_go_on(m);
    else
        mirror_connect(m);
}

static void mirror_on_look(evutil_socket_t fd, short what, void *arg)
{
    mirror_wake(arg);
}

static void mirror_on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct mirror *m = arg;

    m->next_at = 0;
    mirror_connect(m);
}

static void mirror_on_idle(evutil_socket_t fd, short what, void *arg)
{
    mirror_disconnect(arg);
}

static void mirror_on_event(const json_t *event, void *arg)
{
    struct mirror *m = arg;

    if (m->phase != MIRROR_OFF && m->gather && !event_pending(m->gather, EV_TIMEOUT, NULL))
        mirror_plan(m->gather, GATHER_NS);
}

/* -- The module --------------------------------------------------------------------------------------- */

int mirror_check_settings(const struct mirror_settings *s, struct problem *p)
{
    _cleanup_(problem_done) struct problem why = {0};

    if ((!s->url && !s->reader) || !pq_is_installed())
        return 0;
    if (s->url && pq_check(s->url, &why) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "[mirror] url=: %s", why.what);
    if (s->reader && pq_check(s->reader, &why) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "[mirror] reader=: %s", why.what);
    if (s->reader && pq_has_password(s->reader)) {
        problem_remedy(p, "Leave the password out: readers have their own ~/.pgpass.");
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "[mirror] reader= has a password, and is shown to every client");
    }
    return 0;
}

int mirror_new(struct event_base *base, struct offload *offload, struct catalog *catalog,
               const struct mirror_settings *settings, struct mirror **ret, struct problem *p)
{
    int r = mirror_check_settings(settings, p);

    if (r < 0)
        return r;
    struct mirror *m = xcalloc(1, sizeof(*m));
    *m = (struct mirror){.base = base,
                         .offload = offload,
                         .catalog = catalog,
                         .settings = settings,
                         .applied = -1,
                         .begun_ns = mono_ns()};
    r = catalog_changes_last(catalog, &m->last_at_start);
    if (r >= 0)
        r = names_new(base, &m->names);
    if (r < 0) {
        free(m);
        return r;
    }
    m->connector = pq_connector_new(base);
    m->look = event_new(base, -1, EV_PERSIST, mirror_on_look, m);
    m->gather = evtimer_new(base, mirror_on_look, m);
    m->retry = evtimer_new(base, mirror_on_retry, m);
    m->idle = evtimer_new(base, mirror_on_idle, m);
    catalog_on_event(catalog, mirror_on_event, m);
    *ret = m;
    return 0;
}

void mirror_begin(struct mirror *m)
{
    if (!m->settings->url)
        return;
    mirror_window_init(&m->window, m->settings->batch_max);
    mirror_plan(m->look, LOOK_NS);
    /* Also without changes: a catalog that was restored has to be noticed before it has new ones. */
    mirror_connect(m);
}

void mirror_renew(struct mirror *m)
{
    mirror_disconnect(m);
    event_del(m->retry);
    event_del(m->look);
    m->phase = MIRROR_OFF;
    m->applied = -1;
    m->next_at = 0;
    m->failures_in_row = m->behind = 0;
    m->schema = 0;
    replace_str(&m->error, NULL);
    m->remedy = NULL;
    mirror_begin(m);
}

int mirror_close(struct mirror *m)
{
    if (!m)
        return 0;
    mirror_disconnect(m);
    m->phase = MIRROR_OFF;
    struct event **timers[] = {&m->look, &m->gather, &m->retry, &m->idle};
    for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
        event_free(*timers[i]);
        *timers[i] = NULL;
    }
    m->names = names_free(m->names);
    int r = pq_connector_drain(m->connector, mono_ns() + CLOSE_NS);
    if (r < 0)
        log_warning("mirror: its server keeps the log-in busy: ending without waiting for it");
    return r;
}

struct mirror *mirror_free(struct mirror *m)
{
    if (!m)
        return NULL;
    pq_connector_free(m->connector);
    free(m->error);
    free(m);
    return NULL;
}

/* -- Other hosts -------------------------------------------------------------------------------------- */

bool mirror_is_configured(const struct mirror *m)
{
    return m->settings->url;
}

struct content_question *mirror_ask_content(struct mirror *m, const char *sha256,
                                            void (*done)(const char *host, const struct problem *p,
                                                         void *arg),
                                            void *arg)
{
    return mirror_is_configured(m)
               ? content_ask(m->connector, m->names, m->settings, catalog_uuid(m->catalog), sha256, done, arg)
               : NULL;
}
