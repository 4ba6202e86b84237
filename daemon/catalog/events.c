/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log, and who listens to it. */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"

void catalog_on_event(struct catalog *c, catalog_event_fn fn, void *arg)
{
    VEC_GROW(c->listeners, c->n_listeners, c->cap_listeners);
    c->listeners[c->n_listeners++] = (struct listener){fn, arg};
}

struct announcement {
    struct catalog *catalog;
    json_t *event;
};

static void event_on_committed(int err, void *arg)
{
    struct announcement *a = arg;
    if (err == 0)
        catalog_announce(a->catalog, a->event);
    json_decref(a->event);
    free(a);
}

void event_announce_later(struct catalog *c, json_t *event, int64_t event_id)
{
    struct announcement *a = xcalloc(1, sizeof(*a));

    json_put_int(event, "event_id", event_id);
    *a = (struct announcement){c, json_incref(event)};
    catalog_then(c, false, event_on_committed, a);
}

struct event_row {
    int64_t event_id, at, session_id, target_id, trace_id, run_id;
    const char *kind, *actor, *text;
};

static json_t *event_to_json(const struct event_row *e)
{
    json_t *j = json_object();
    json_put_int(j, "event_id", e->event_id);
    json_put_int(j, "at", e->at);
    json_put_str(j, "kind", e->kind);
    json_put_str(j, "actor", e->actor);
    put_ref(j, "session", 's', e->session_id);
    if (e->target_id != RECORD_NONE)
        json_put_int(j, "target", e->target_id);
    put_ref(j, "trace", 't', e->trace_id);
    if (e->run_id != RECORD_NONE)
        json_put_int(j, "run", e->run_id);
    json_put_str(j, "text", e->text);
    return j;
}

static int event_write(struct catalog *c, struct event_row e, const char *format, va_list ap)
{
    _cleanup_(freep) char *text = xvasprintf(format, ap);

    e.at = wall_ns();
    e.text = text;
    _cleanup_json_ announced = c->n_listeners > 0 ? event_to_json(&e) : NULL;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_EVENT);
    bind_number(s, 1, e.at);
    bind_text(s, 2, e.kind);
    bind_text(s, 3, e.actor);
    bind_number(s, 4, e.session_id);
    bind_number(s, 5, e.target_id);
    bind_number(s, 6, e.trace_id);
    bind_text(s, 7, e.text);
    bind_number(s, 8, e.run_id);
    return write_or_defer(c, s, announced);
}

int catalog_add_event(struct catalog *c, const char *kind, const char *actor, int64_t session_id,
                      int64_t target_id, int64_t trace_id, const char *format, ...)
{
    const struct event_row e = {.session_id = session_id,
                                .target_id = target_id,
                                .trace_id = trace_id,
                                .run_id = RECORD_NONE,
                                .kind = kind,
                                .actor = actor};
    va_list ap;

    va_start(ap, format);
    int r = event_write(c, e, format, ap);
    va_end(ap);
    return r;
}

int catalog_add_run_event(struct catalog *c, const char *actor, int64_t run_id, int64_t session_id,
                          const char *format, ...)
{
    const struct event_row e = {.session_id = session_id,
                                .target_id = RECORD_NONE,
                                .trace_id = RECORD_NONE,
                                .run_id = run_id,
                                .kind = "run",
                                .actor = actor};
    va_list ap;

    va_start(ap, format);
    int r = event_write(c, e, format, ap);
    va_end(ap);
    return r;
}

void catalog_announce(struct catalog *c, const json_t *event)
{
    for (size_t i = 0; i < c->n_listeners; i++)
        c->listeners[i].fn(event, c->listeners[i].arg);
}

int catalog_events_json(struct catalog *c, int64_t session_id, int64_t run_id, int64_t after_id,
                        int64_t limit, json_t **ret)
{
    static const enum statement listings[3][2] = {
        {STATEMENT_EVENTS_NEWEST, STATEMENT_EVENTS_AFTER},
        {STATEMENT_SESSION_EVENTS_NEWEST, STATEMENT_SESSION_EVENTS_AFTER},
        {STATEMENT_RUN_EVENTS_NEWEST, STATEMENT_RUN_EVENTS_AFTER},
    };
    int of = run_id != RECORD_NONE ? 2 : session_id != RECORD_NONE;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, listings[of][after_id != RECORD_NONE]);
    _cleanup_json_ list = json_array();
    int r;

    bind_number(s, 1, of == 2 ? run_id : session_id);
    bind_number(s, 2, after_id);
    bind_number(s, 3, limit);
    while ((r = next_row(c, s)) == 1) {
        struct event_row e = {.event_id = column_number(s, 0),
                              .at = column_number(s, 1),
                              .kind = column_text(s, 2),
                              .actor = column_text(s, 3),
                              .session_id = column_number(s, 4),
                              .target_id = column_number(s, 5),
                              .trace_id = column_number(s, 6),
                              .text = column_text(s, 7),
                              .run_id = column_number(s, 8)};
        json_array_append_new(list, event_to_json(&e));
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(list);
    return 0;
}
