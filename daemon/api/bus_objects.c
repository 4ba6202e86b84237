/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects on the bus: the manager, and one for each session of the catalog, with their properties; and the
 * signals of changes, each sent after the commit of its change.
 */
#include "daemon/api/bus_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/records.h"
#include "version.h"
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>

/* Sessions that listings of objects include; each of the others is at its path, too. */
#define LISTED_SESSIONS 100
/* A bus that accepts no messages must not fill profd's memory with signals. */
#define QUEUED_SIGNALS_MAX 4096
/* Changes of the manager's properties within this time are announced together. */
#define ANNOUNCE_DELAY_NS (200 * NS_PER_MS)

/* -- Sessions ----------------------------------------------------------------------------------------- */

struct session_property {
    const char *name, *key; /* of the session's JSON; a dot is one object further in */
    const char *signature;
    uint64_t flags;
};

static const struct session_property session_properties[] = {
    {"Session", "session", "s", SD_BUS_VTABLE_PROPERTY_CONST},
    {"State", "state", "s", SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE},
    {"Reason", "reason", "s", SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE},
    {"Router", "router", "s", SD_BUS_VTABLE_PROPERTY_CONST},
    {"Fleet", "fleet", "s", SD_BUS_VTABLE_PROPERTY_CONST},
    {"RequestedBy", "requested_by", "s", SD_BUS_VTABLE_PROPERTY_CONST},
    {"RequestedAt", "requested_at", "x", SD_BUS_VTABLE_PROPERTY_CONST},
    {"RecordingAt", "recording_at", "x", 0},
    {"StoppedAt", "stopped_at", "x", 0},
    {"FinishedAt", "finished_at", "x", 0},
    {"Workers", "counts.targets", "x", 0},
    {"Traces", "counts.traces", "x", 0},
    {"Bytes", "counts.bytes", "x", 0},
    {"Pinned", "pinned", "b", 0},
};

static int64_t bus_session_of_path(const char *path)
{
    _cleanup_(freep) char *ref = NULL;
    int64_t id;

    if (sd_bus_path_decode(path, BUS_SESSION_PATH, &ref) <= 0 || strchr(ref, '/') ||
        parse_ref(ref, '?', &id) != 's')
        return RECORD_NONE;
    return id;
}

/* Reads the session for the getters or the method that follow. */
static int bus_find_session(sd_bus *connection, const char *path, const char *interface, void *arg,
                            void **ret_found, sd_bus_error *error)
{
    struct bus *b = arg;
    int64_t id = bus_session_of_path(path);
    json_t *session;

    if (id == RECORD_NONE || b->is_closing)
        return 0;
    int r = jobs_read(sessions_jobs(b->api->modules.sessions), id, false, &session);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    json_decref(b->shown);
    b->shown = session;
    *ret_found = b;
    return 1;
}

static int bus_get_session_property(sd_bus *connection, const char *path, const char *interface,
                                    const char *name, sd_bus_message *reply, void *arg, sd_bus_error *error)
{
    const struct session_property *property = session_properties;
    const struct bus *b = arg;

    while (!streq(property->name, name)) /* sd-bus asks for properties of the table only */
        property++;
    const char *dot = strchr(property->key, '.'), *key = dot ? dot + 1 : property->key;
    const json_t *object = dot ? json_object_get(b->shown, "counts") : b->shown;
    const char *text = json_get_str(object, key);

    switch (property->signature[0]) {
    case 'x':
        return sd_bus_message_append(reply, "x", json_get_int(object, key, 0));
    case 'b':
        return sd_bus_message_append(reply, "b", json_get_bool(object, key, false));
    default:
        return sd_bus_message_append(reply, "s", text ? text : "");
    }
}

static char *bus_session_path(const char *ref)
{
    char *path = NULL;
    return sd_bus_path_encode(BUS_SESSION_PATH, ref, &path) < 0 ? NULL : path;
}

static int bus_list_session_paths(sd_bus *connection, const char *prefix, void *arg, char ***ret,
                                  sd_bus_error *error)
{
    const struct bus *b = arg;
    _cleanup_json_ sessions = NULL;
    size_t i;
    json_t *session;

    int r = catalog_sessions_json(b->api->modules.catalog, LISTED_SESSIONS, RECORD_NONE, NULL, &sessions);
    if (r < 0)
        return r;
    char **paths = xcalloc(json_array_size(sessions) + 1, sizeof(*paths));
    json_array_foreach(sessions, i, session) {
        paths[i] = bus_session_path(json_get_str(session, "session"));
    }
    *ret = paths;
    return 0;
}

/* -- The manager -------------------------------------------------------------------------------------- */

static struct bus_announced bus_manager_properties(const struct bus *b)
{
    struct bus_announced now = {.sessions = jobs_count(sessions_jobs(b->api->modules.sessions))};
    struct store_usage usage;

    if (store_usage(b->api->modules.store, &usage) == 0) {
        now.traces = (uint64_t)usage.traces;
        now.bytes = (uint64_t)usage.bytes;
    }
    return now;
}

static int bus_get_version(sd_bus *connection, const char *path, const char *interface, const char *name,
                           sd_bus_message *reply, void *arg, sd_bus_error *error)
{
    return sd_bus_message_append(reply, "s", PROFD_VERSION);
}

static int bus_get_manager_property(sd_bus *connection, const char *path, const char *interface,
                                    const char *name, sd_bus_message *reply, void *arg, sd_bus_error *error)
{
    struct bus_announced now = bus_manager_properties(arg);

    if (streq(name, "SessionsRunning"))
        return sd_bus_message_append(reply, "u", now.sessions);
    return sd_bus_message_append(reply, "t", streq(name, "StoreTraces") ? now.traces : now.bytes);
}

/* clang-format off */
static const sd_bus_vtable manager_extras[] = {
    SD_BUS_PROPERTY("Version", "s", bus_get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
    SD_BUS_PROPERTY("SessionsRunning", "u", bus_get_manager_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
    SD_BUS_PROPERTY("StoreTraces", "t", bus_get_manager_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
    SD_BUS_PROPERTY("StoreBytes", "t", bus_get_manager_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
    SD_BUS_SIGNAL_WITH_NAMES("SessionChanged", "sos", "session\0path\0state\0", 0),
    SD_BUS_SIGNAL_WITH_NAMES("TraceAdded", "ss", "trace\0session\0", 0),
    SD_BUS_SIGNAL_WITH_NAMES("TraceRemoved", "s", "trace\0", 0),
};
/* clang-format on */

/* -- Tables ------------------------------------------------------------------------------------------- */

/* sd-bus's table of the methods of an interface, with room for n_more lines and the end. */
static sd_bus_vtable *bus_make_vtable(const char *interface, size_t n_more, size_t *ret_n)
{
    const struct bus_method *m;
    size_t n_methods = 0, n = 0;

    while (bus_method_at(n_methods))
        n_methods++;
    sd_bus_vtable *v = xcalloc(n_methods + n_more + 2, sizeof(*v));
    v[n++] = (sd_bus_vtable)SD_BUS_VTABLE_START(0);
    for (size_t i = 0; (m = bus_method_at(i)); i++)
        if (streq(m->interface, interface))
            v[n++] = (sd_bus_vtable)SD_BUS_METHOD_WITH_NAMES(m->name, m->in, m->names, m->out, ,
                                                             bus_on_method, SD_BUS_VTABLE_UNPRIVILEGED);
    v[n + n_more] = (sd_bus_vtable)SD_BUS_VTABLE_END;
    *ret_n = n;
    return v;
}

void bus_objects_new(struct bus *b)
{
    size_t n;

    b->manager = bus_make_vtable(BUS_MANAGER, ARRAY_SIZE(manager_extras), &n);
    memcpy(b->manager + n, manager_extras, sizeof(manager_extras));
    b->session = bus_make_vtable(BUS_SESSION, ARRAY_SIZE(session_properties), &n);
    for (size_t i = 0; i < ARRAY_SIZE(session_properties); i++) {
        const struct session_property *p = &session_properties[i];
        b->session[n + i] =
            (sd_bus_vtable)SD_BUS_PROPERTY(p->name, p->signature, bus_get_session_property, 0, p->flags);
    }
}

int bus_objects_add(struct bus *b)
{
    sd_bus *c = b->connection;

    int r = sd_bus_add_object_vtable(c, NULL, BUS_PATH, BUS_MANAGER, b->manager, b);
    if (r >= 0)
        r = sd_bus_add_fallback_vtable(c, NULL, BUS_SESSION_PATH, BUS_SESSION, b->session, bus_find_session,
                                       b);
    if (r >= 0)
        r = sd_bus_add_node_enumerator(c, NULL, BUS_SESSION_PATH, bus_list_session_paths, b);
    if (r >= 0)
        r = sd_bus_add_object_manager(c, NULL, BUS_PATH);
    return r;
}

/* -- Signals ------------------------------------------------------------------------------------------ */

static bool bus_may_signal(struct bus *b)
{
    uint64_t n = 0;

    if (!b->is_named || sd_bus_get_n_queued_write(b->connection, &n) < 0)
        return false;
    bool may = n < QUEUED_SIGNALS_MAX;
    if (!may && !b->dropped_signals)
        log_warning("the %s bus accepts no messages; signals are dropped until it does",
                    bus_kind_name(b->kind));
    b->dropped_signals = !may;
    return may;
}

/* The text of the event is "recording: reason". */
static void signal_state(struct bus *b, const json_t *event)
{
    const char *ref = json_get_str(event, "session"), *text = json_get_str(event, "text");
    _cleanup_(freep) char *path = bus_session_path(ref), *state = xstrndup(text, strcspn(text, ":"));

    sd_bus_emit_signal(b->connection, BUS_PATH, BUS_MANAGER, "SessionChanged", "sos", ref, path, state);
    sd_bus_emit_properties_changed(b->connection, path, BUS_SESSION, "State", "Reason", NULL);
}

static void signal_requested(struct bus *b, const json_t *event)
{
    const char *ref = json_get_str(event, "session");
    _cleanup_(freep) char *path = bus_session_path(ref);

    sd_bus_emit_object_added(b->connection, path);
    sd_bus_emit_signal(b->connection, BUS_PATH, BUS_MANAGER, "SessionChanged", "sos", ref, path,
                       state_name(STATE_REQUESTED));
}

static void signal_removed(struct bus *b, const json_t *event)
{
    _cleanup_(freep) char *path = bus_session_path(json_get_str(event, "session"));
    sd_bus_emit_interfaces_removed(b->connection, path, BUS_SESSION, NULL);
}

static void signal_trace(struct bus *b, const json_t *event)
{
    const char *session = json_get_str(event, "session");
    sd_bus_emit_signal(b->connection, BUS_PATH, BUS_MANAGER, "TraceAdded", "ss", json_get_str(event, "trace"),
                       session ? session : "");
}

static void signal_trace_removed(struct bus *b, const json_t *event)
{
    sd_bus_emit_signal(b->connection, BUS_PATH, BUS_MANAGER, "TraceRemoved", "s",
                       json_get_str(event, "trace"));
}

static const struct {
    const char *kind, *of; /* the member that it must have */
    void (*send)(struct bus *b, const json_t *event);
} signals[] = {
    {"session-requested", "session", signal_requested}, {"session-state", "session", signal_state},
    {"session-removed", "session", signal_removed},     {"trace-added", "trace", signal_trace},
    {"trace-removed", "trace", signal_trace_removed},
};

void bus_on_event(const json_t *event, void *arg)
{
    const char *kind = json_get_str(event, "kind");
    struct timeval delay = timeval_of(ANNOUNCE_DELAY_NS);
    struct bus *b = arg;

    if (!b->is_named || b->is_closing)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
        if (!streq(signals[i].kind, kind) || !json_get_str(event, signals[i].of))
            continue;
        if (bus_may_signal(b))
            signals[i].send(b, event);
        if (!evtimer_pending(b->announce, NULL))
            evtimer_add(b->announce, &delay);
    }
    bus_kick(b);
}

void bus_on_announce(evutil_socket_t fd, short what, void *arg)
{
    struct bus *b = arg;
    const struct bus_announced now = bus_manager_properties(b), before = b->announced;
    const struct {
        const char *name;
        bool differs;
    } properties[] = {
        {"SessionsRunning", now.sessions != before.sessions},
        {"StoreTraces", now.traces != before.traces},
        {"StoreBytes", now.bytes != before.bytes},
    };

    if (!bus_may_signal(b))
        return;
    b->announced = now;
    for (size_t i = 0; i < ARRAY_SIZE(properties); i++)
        if (properties[i].differs)
            sd_bus_emit_properties_changed(b->connection, BUS_PATH, BUS_MANAGER, properties[i].name, NULL);
    bus_kick(b);
}
