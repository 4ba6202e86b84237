/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/bus_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/catalog.h"
#include <errno.h>
#include <event2/event.h>
#include <poll.h>

/* Messages that are handled in one iteration of the loop. */
#define ITERATION_MESSAGES 16
#define SYSTEM_ADDRESS     "unix:path=/run/dbus/system_bus_socket"
/* Answers of the bus to the request of a name (D-Bus specification). */
#define NAME_IS_OURS         1
#define NAME_WAS_OURS_BEFORE 4

static const struct backoff bus_retry = {.first_ns = 500 * NS_PER_MS, .max_ns = 30 * NS_PER_S};

const char *bus_kind_name(enum bus_kind kind)
{
    return kind == BUS_KIND_SYSTEM ? "system" : "session";
}

/* -- On the loop -------------------------------------------------------------------------------------- */

static void bus_disconnect(struct bus *b)
{
    event_del(b->io);
    event_del(b->more);
    b->io_fd = -1;
    bus_calls_abandon(b);
    b->naming = sd_bus_slot_unref(b->naming);
    b->connection = sd_bus_close_unref(b->connection);
    b->is_named = false;
}

static void bus_retry_later(struct bus *b)
{
    struct timeval tv = timeval_of(backoff_ns(&bus_retry, ++b->n_failures, backoff_random()));

    event_add(b->retry, &tv);
}

/* Logs once why there is no name, until there is one. */
static void bus_warn(struct bus *b, const char *what, const char *remedy)
{
    if (!b->warned)
        log_warning("no " BUS_NAME " on the %s bus: %s; profd continues without it, and tries again%s%s",
                    bus_kind_name(b->kind), what, remedy ? ". " : "", remedy ? remedy : "");
    b->warned = true;
}

static void bus_lose(struct bus *b, int err)
{
    bus_warn(b, strerror(-err), NULL);
    bus_disconnect(b);
    bus_retry_later(b);
}

static void bus_on_io(evutil_socket_t fd, short what, void *arg);

/* sd-bus has to be asked again for events and timeout after each call into it. */
static void bus_arm(struct bus *b, bool has_more)
{
    int fd = sd_bus_get_fd(b->connection), wanted = sd_bus_get_events(b->connection);
    short events = (short)(EV_PERSIST | (wanted & POLLIN ? EV_READ : 0) | (wanted & POLLOUT ? EV_WRITE : 0));
    uint64_t at_us = UINT64_MAX;

    if (fd != b->io_fd || events != b->io_events) {
        event_del(b->io);
        event_assign(b->io, b->api->modules.base, fd, events, bus_on_io, b);
        event_add(b->io, NULL);
        b->io_fd = fd;
        b->io_events = events;
    }
    sd_bus_get_timeout(b->connection, &at_us);
    event_del(b->more);
    if (!has_more && at_us >= (uint64_t)(INT64_MAX / NS_PER_US))
        return;
    struct timeval tv = has_more ? timeval_of(0) : timeval_until((int64_t)at_us * NS_PER_US);
    event_add(b->more, &tv);
}

static void bus_process(struct bus *b)
{
    int r = 1;

    b->is_processing = true;
    for (int i = 0; i < ITERATION_MESSAGES && r > 0; i++)
        r = sd_bus_process(b->connection, NULL);
    b->is_processing = false;
    if (r < 0)
        bus_lose(b, r);
    else
        bus_arm(b, r > 0);
}

static void bus_on_io(evutil_socket_t fd, short what, void *arg)
{
    bus_process(arg);
}

static void bus_on_more(evutil_socket_t fd, short what, void *arg)
{
    bus_process(arg);
}

void bus_kick(struct bus *b)
{
    if (b->connection && !b->is_processing)
        event_active(b->more, EV_TIMEOUT, 0);
}

/* -- The connection and its name ---------------------------------------------------------------------- */

static int bus_on_name(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const sd_bus_error *refusal = sd_bus_message_get_error(m);
    struct bus *b = arg;
    uint32_t answer = 0;

    b->naming = sd_bus_slot_unref(b->naming);
    if (!refusal)
        sd_bus_message_read(m, "u", &answer);
    if (answer == NAME_IS_OURS || answer == NAME_WAS_OURS_BEFORE) {
        b->is_named = true;
        b->warned = false;
        b->n_failures = 0;
        log_info("on the %s bus as " BUS_NAME, bus_kind_name(b->kind));
        return 1;
    }
    if (refusal)
        bus_warn(b, refusal->message ? refusal->message : refusal->name,
                 "Install profd's bus policy: dbus-1/system.d/org.profd1.conf");
    else
        bus_warn(b, "another process owns that name", "Find it with busctl status " BUS_NAME);
    bus_retry_later(b);
    return 1;
}

static int bus_request_name(struct bus *b)
{
    return sd_bus_request_name_async(b->connection, &b->naming, BUS_NAME, 0, bus_on_name, b);
}

static char *bus_session_address(void)
{
    const char *address = getenv("DBUS_SESSION_BUS_ADDRESS"), *runtime = getenv("XDG_RUNTIME_DIR");

    if (address && *address)
        return xstrdup(address);
    return runtime && *runtime == '/' ? xasprintf("unix:path=%s/bus", runtime) : NULL;
}

static char *bus_address(enum bus_kind kind)
{
    const char *address = getenv("DBUS_SYSTEM_BUS_ADDRESS");

    if (kind == BUS_KIND_SESSION)
        return bus_session_address();
    return xstrdup(address && *address ? address : SYSTEM_ADDRESS);
}

static int bus_start(sd_bus *connection, const char *address)
{
    int r = sd_bus_set_address(connection, address);
    if (r >= 0)
        r = sd_bus_set_bus_client(connection, true);
    if (r >= 0)
        r = sd_bus_negotiate_fds(connection, true);
    return r < 0 ? r : sd_bus_start(connection);
}

/* Nothing is waited for: the bus answers the connection and the request of the name later. */
static int bus_connect(struct bus *b)
{
    _cleanup_(freep) char *address = bus_address(b->kind);

    if (!address)
        return -ENOENT;
    int r = sd_bus_new(&b->connection);
    if (r >= 0)
        r = bus_start(b->connection, address);
    if (r >= 0)
        r = bus_objects_add(b);
    return r < 0 ? r : bus_request_name(b);
}

static void bus_on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct bus *b = arg;
    int r;

    if (b->is_closing)
        return;
    if (!b->connection)
        r = bus_connect(b);
    else
        r = bus_request_name(b);
    if (r < 0)
        bus_lose(b, r);
    else
        bus_kick(b);
}

/* -- Life --------------------------------------------------------------------------------------------- */

int bus_new(struct api *api, enum bus_kind kind, struct bus **ret)
{
    struct bus *b = xcalloc(1, sizeof(*b));
    struct event_base *base = api->modules.base;

    *b = (struct bus){.api = api, .kind = kind, .io_fd = -1};
    LIST_INIT(&b->calls);
    LIST_INIT(&b->callers);
    b->io = event_new(base, -1, EV_PERSIST, bus_on_io, b);
    b->more = evtimer_new(base, bus_on_more, b);
    b->retry = evtimer_new(base, bus_on_retry, b);
    b->announce = evtimer_new(base, bus_on_announce, b);
    bus_objects_new(b);
    catalog_on_event(api->modules.catalog, bus_on_event, b);
    event_active(b->retry, EV_TIMEOUT, 0);
    *ret = b;
    return 0;
}

void bus_stop_accepting(struct bus *b)
{
    if (!b)
        return;
    b->is_closing = true;
    if (b->is_named && sd_bus_release_name_async(b->connection, NULL, BUS_NAME, NULL, NULL) >= 0)
        bus_kick(b);
}

void bus_close(struct bus *b)
{
    if (!b)
        return;
    b->is_closing = true;
    bus_disconnect(b);
    event_free(b->io);
    event_free(b->more);
    event_free(b->retry);
    event_free(b->announce);
    b->io = b->more = b->retry = b->announce = NULL;
}

struct bus *bus_free(struct bus *b)
{
    if (!b)
        return NULL;
    json_decref(b->shown);
    free(b->manager);
    free(b->session);
    free(b);
    return NULL;
}
