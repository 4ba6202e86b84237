/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of each path: one table of {method, pattern, handler}, as in proto/openapi.yaml, and
 * a pure match over it. Families of handlers are the route_*.c files.
 */
#pragma once

#include "base/problem.h"
#include "base/uuid.h"
#include "daemon/api/http.h"
#include "proto/names.h"
#include "proto/sources.h"

struct api;
struct job_routes;
struct route_match;

/* Maximum size of a body in bytes: of routes without a limit of their own, and of routes that accept workloads. */
#define ROUTE_BODY_MAX     (1 << 20)
#define ROUTE_WORKLOAD_MAX (16 << 20)
#define ROUTE_LOGIN_MAX    (4 << 10) /* of codes, log-ins and tickets */

struct route {
    enum http_method method;
    const char *pattern; /* "/v1/sessions/{session}/stop" */
    enum right right;    /* the minimum right of its caller */
    /* Names of the query parameters that it takes, separated by spaces; NULL: none. */
    const char *query;
    void (*handle)(struct api *api, struct http_request *r, const struct route_match *match);
    /* Parameters that name addresses or directories which profd will access: they need RIGHT_OPERATE, because the
     * reply reveals whether these exist. NULL: none. */
    const char *operate;
    /* Its body says which routers and workers its reply waits for, and it changes nothing. */
    bool asks_fleet;
    /* For RIGHT_NONE: no address needs a token; else only those of [http] open_to= need none. */
    bool everybody;
    bool by_ticket;               /* its reply is a file, which a ticket of the web page may open */
    int64_t body_max;             /* 0: ROUTE_BODY_MAX */
    const struct job_routes *job; /* sessions or benchmark runs, where the handler is of both */
};

/* Classes of routes by what their replies wait for. */
enum route_class {
    ROUTE_CLASS_NONE,   /* unknown paths and denied requests */
    ROUTE_CLASS_PROBE,  /* health, readiness, metrics */
    ROUTE_CLASS_READ,   /* of the catalog */
    ROUTE_CLASS_FLEET,  /* responses of routers and workers */
    ROUTE_CLASS_CHANGE, /* changes: sessions started, traces imported */
    _ROUTE_CLASS_MAX,
};
/* ROUTE_CLASS_NONE for NULL. */
enum route_class route_class(const struct route *route);

/* Query parameters that name a fleet, and those of them that need RIGHT_OPERATE. */
#define ROUTE_OF_SOURCE(key, value, help, arg)                " " #key
#define ROUTE_OF_MEMBER(member, option, value, help, of, arg) " " #member
#define ROUTE_OPERATED                                                                                       \
    "router worker system_port trace_dir kineto pid slurm_job uid unit" FLEET_SOURCES(ROUTE_OF_SOURCE, )     \
        SOURCE_MEMBERS(ROUTE_OF_MEMBER, )
#define ROUTE_SOURCE ROUTE_OPERATED " fleet dialect"

/* Routes of optional modules (extras/), after those of the core. */
extern const struct route extra_routes[];
extern const size_t n_extra_routes;

const struct route *route_at(size_t i); /* NULL after the last */
/* routes_count() for NULL. */
size_t route_index(const struct route *route);
size_t routes_count(void);
const char *http_method_name(enum http_method m);

#define ROUTE_ALLOW_MAX 64
/* Of a segment that is a word: the name of a report or of a file of the web page, a ticket. */
#define ROUTE_WORD_MAX 80

struct route_match {
    const struct route *route;
    int64_t id;                  /* the one in the path, 0 where there is none */
    char uuid[UUID_SIZE];        /* in its place: a UUID or its beginning, until route_resolve(); else "" */
    char id_kind;                /* letter of the id's kind, 0 where there is none */
    char allow[ROUTE_ALLOW_MAX]; /* for -EOPNOTSUPP: the methods of the path */
    char word[ROUTE_WORD_MAX];   /* the one in the path, "" where there is none */
    char word_2[ROUTE_WORD_MAX]; /* the one after it */
};

/*
 * -ENOENT: no such path; -EOPNOTSUPP: not with this method; -EINVAL: the id is malformed. HEAD is
 * answered by GET's route. Pure.
 */
int route_find(enum http_method method, const char *path, struct route_match *ret, struct problem *p);
/* -EINVAL where the route has no parameter of that name. Pure. */
int route_check_parameter(const struct route *route, const char *name, struct problem *p);
