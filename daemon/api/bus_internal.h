/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the D-Bus transport share. */
#pragma once

#include "daemon/api/bus.h"
#include "daemon/api/handler.h"
#include "daemon/api/routes.h"
#include "proto/bus_methods.h"
#include <event2/util.h>
#include <sys/queue.h>
#include <systemd/sd-bus.h>

/* Of calls that wait for their answer. */
#define BUS_CALLS_MAX        256
#define BUS_CALLER_CALLS_MAX 32
/* Of those, calls that wait for authorization: a user without rights can keep some waiting for a password, and
 * must not exhaust the limit of the others. */
#define BUS_UNAUTHORIZED_MAX      128
#define BUS_USER_UNAUTHORIZED_MAX 32
/* A request, as that of HTTP; an answer, below what a bus lets through (32 MiB). */
#define BUS_REQUEST_MAX (1 << 20)
#define BUS_ANSWER_MAX  (24 << 20)

struct bus_call;

/* A peer with calls in flight. */
struct bus_caller {
    LIST_ENTRY(bus_caller) next;
    char *name; /* ":1.42" */
    unsigned n_calls;
    sd_bus_slot *watch; /* for its leaving; NULL until a call has to wait */
};

/* The properties of the manager as they were last announced. */
struct bus_announced {
    uint32_t sessions;
    uint64_t traces, bytes;
};

struct bus {
    struct api *api;
    enum bus_kind kind;
    sd_bus *connection;  /* NULL between two tries */
    sd_bus_slot *naming; /* the request of the name */
    struct event *io, *more, *retry, *announce;
    int io_fd; /* what io waits for */
    short io_events;
    unsigned n_failures; /* in a row */
    bool is_processing, is_named, is_closing;
    bool warned; /* why there is no name */
    LIST_HEAD(, bus_call) calls;
    LIST_HEAD(, bus_caller) callers;
    unsigned n_calls;
    struct bus_call *running; /* in its handler; NULL once that has replied */
    sd_bus_vtable *manager, *session;
    json_t *shown; /* the session whose properties are being read */
    struct bus_announced announced;
    bool dropped_signals;
};

/* After anything was put into the connection's queue outside of its callbacks. */
void bus_kick(struct bus *b);
const char *bus_kind_name(enum bus_kind kind);

/* -- bus_calls.c */

struct bus_call {
    LIST_ENTRY(bus_call) next;
    struct bus *bus;
    struct bus_caller *caller;
    sd_bus_message *message;
    const struct bus_method *method;
    struct route_match route;
    char *path, *query, *body;    /* as HTTP has them */
    uid_t uid;                    /* (uid_t)-1: not looked up */
    bool in_group;                /* with uid: its groups admit it to profd's socket */
    sd_bus_slot *question;        /* to the bus or polkit, in flight */
    struct http_request *request; /* to which the handler has not replied yet */
};

/* The handler of every method. */
int bus_on_method(sd_bus_message *m, void *arg, sd_bus_error *error);
/* Calls in flight end without an answer. */
void bus_calls_abandon(struct bus *b);

/* -- bus_objects.c */

void bus_objects_new(struct bus *b);
/* On a new connection. */
int bus_objects_add(struct bus *b);
void bus_on_event(const json_t *event, void *arg);
void bus_on_announce(evutil_socket_t fd, short what, void *arg);
