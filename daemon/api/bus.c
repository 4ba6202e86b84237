/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/bus_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/catalog.h"
#include <errno.h>
#include <event2/event.h>
#include <poll.h>

/* One turn of the loop handles at most so many messages, however many there are. */
#define TURN_MESSAGES    16
#define RETRY_FIRST_NS   (500 * NS_PER_MS)
#define RETRY_LONGEST_NS (30 * NS_PER_S)
#define SYSTEM_ADDRESS   "unix:path=/run/dbus/system_bus_socket"
/* Answers of the bus to the request of a name (D-Bus specification). */
#define NAME_IS_OURS         1
#define NAME_WAS_OURS_BEFORE 4

const char *bus_kind_name(enum bus_kind kind)
{
    return kind == BUS_KIND_SYSTEM ? "system" : "session";
}

/* -- On the loop -------------------------------------------------------------------------------------- */

static void disconnect(struct bus *b)
{
    event_del(b->io);
    event_del(b->turn);
    b->io_fd = -1;
    bus_calls_abandon(b);
    b->naming = sd_bus_slot_unref(b->naming);
    b->connection = sd_bus_close_unref(b->connection);
    b->is_named = false;
}

static void retry_later(struct bus *b)
{
    struct timeval tv = timeval_of(b->retry_ns);

    event_add(b->retry, &tv);
    b->retry_ns = MIN(2 * b->retry_ns, RETRY_LONGEST_NS);
}

/* Says why there is no name once, until there is one. */
static void say(struct bus *b, const char *what, const char *remedy)
{
    if (!b->said)
        log_warning("no " BUS_NAME " on the %s bus: %s; profd goes on without, and tries again%s%s",
                    bus_kind_name(b->kind), what, remedy ? ". " : "", remedy ? remedy : "");
    b->said = true;
}

static void lose(struct bus *b, int err)
{
    say(b, strerror(-err), NULL);
    disconnect(b);
    retry_later(b);
}

static void on_io(evutil_socket_t fd, short what, void *arg);

/* sd-bus wants to be asked anew what to wait for after everything that it did. */
static void arm(struct bus *b, bool has_more)
{
    int fd = sd_bus_get_fd(b->connection), wanted = sd_bus_get_events(b->connection);
    short events = (short)(EV_PERSIST | (wanted & POLLIN ? EV_READ : 0) | (wanted & POLLOUT ? EV_WRITE : 0));
    uint64_t at_us = UINT64_MAX;

    if (fd != b->io_fd || events != b->io_events) {
        event_del(b->io);
        event_assign(b->io, b->api->modules.base, fd, events, on_io, b);
        event_add(b->io, NULL);
        b->io_fd = fd;
        b->io_events = events;
    }
    sd_bus_get_timeout(b->connection, &at_us);
    event_del(b->turn);
    if (!has_more && at_us >= (uint64_t)(INT64_MAX / NS_PER_US))
        return;
    struct timeval tv = has_more ? timeval_of(0) : timeval_until((int64_t)at_us * NS_PER_US);
    event_add(b->turn, &tv);
}

static void process(struct bus *b)
{
    int r = 1;

    b->is_processing = true;
    for (int i = 0; i < TURN_MESSAGES && r > 0; i++)
        r = sd_bus_process(b->connection, NULL);
    b->is_processing = false;
    if (r < 0)
        lose(b, r);
    else
        arm(b, r > 0);
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
    process(arg);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    process(arg);
}

void bus_kick(struct bus *b)
{
    if (b->connection && !b->is_processing)
        event_active(b->turn, EV_TIMEOUT, 0);
}

/* -- The connection and its name ---------------------------------------------------------------------- */

static int on_name(sd_bus_message *m, void *arg, sd_bus_error *error)
{
    const sd_bus_error *refusal = sd_bus_message_get_error(m);
    struct bus *b = arg;
    uint32_t answer = 0;

    b->naming = sd_bus_slot_unref(b->naming);
    if (!refusal)
        sd_bus_message_read(m, "u", &answer);
    if (answer == NAME_IS_OURS || answer == NAME_WAS_OURS_BEFORE) {
        b->is_named = true;
        b->said = false;
        b->retry_ns = RETRY_FIRST_NS;
        log_info("on the %s bus as " BUS_NAME, bus_kind_name(b->kind));
        return 1;
    }
    if (refusal)
        say(b, refusal->message ? refusal->message : refusal->name,
            "Does the bus have profd's policy, dbus-1/system.d/org.profd1.conf?");
    else
        say(b, "another process has that name", "busctl status " BUS_NAME " shows which.");
    retry_later(b);
    return 1;
}

static int request_name(struct bus *b)
{
    return sd_bus_request_name_async(b->connection, &b->naming, BUS_NAME, 0, on_name, b);
}

static char *session_address(void)
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
        return session_address();
    return xstrdup(address && *address ? address : SYSTEM_ADDRESS);
}

static int start(sd_bus *connection, const char *address)
{
    int r = sd_bus_set_address(connection, address);
    if (r >= 0)
        r = sd_bus_set_bus_client(connection, true);
    if (r >= 0)
        r = sd_bus_negotiate_fds(connection, true);
    return r < 0 ? r : sd_bus_start(connection);
}

/* Nothing is waited for: what the bus has to say to the connection and to the name comes later. */
static int connect_bus(struct bus *b)
{
    _cleanup_(freep) char *address = bus_address(b->kind);

    if (!address)
        return -ENOENT;
    int r = sd_bus_new(&b->connection);
    if (r >= 0)
        r = start(b->connection, address);
    if (r >= 0)
        r = bus_objects_add(b);
    return r < 0 ? r : request_name(b);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct bus *b = arg;
    int r;

    if (b->is_closing)
        return;
    if (!b->connection)
        r = connect_bus(b);
    else
        r = request_name(b);
    if (r < 0)
        lose(b, r);
    else
        bus_kick(b);
}

/* -- Life --------------------------------------------------------------------------------------------- */

int bus_new(struct api *api, enum bus_kind kind, struct bus **ret)
{
    struct bus *b = xcalloc(1, sizeof(*b));
    struct event_base *base = api->modules.base;

    *b = (struct bus){.api = api, .kind = kind, .io_fd = -1, .retry_ns = RETRY_FIRST_NS};
    LIST_INIT(&b->calls);
    LIST_INIT(&b->callers);
    b->io = event_new(base, -1, EV_PERSIST, on_io, b);
    b->turn = evtimer_new(base, on_turn, b);
    b->retry = evtimer_new(base, on_retry, b);
    b->tell = evtimer_new(base, bus_on_tell, b);
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
    disconnect(b);
    event_free(b->io);
    event_free(b->turn);
    event_free(b->retry);
    event_free(b->tell);
    b->io = b->turn = b->retry = b->tell = NULL;
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
