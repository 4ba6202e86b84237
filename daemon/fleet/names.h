/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves host names to addresses, on separate threads.
 *
 * getaddrinfo() takes as long as name servers let it, and cannot be ended: its thread is abandoned when
 * nobody waits for it any more. That is also why libcurl is never asked to resolve a name: one that gives up
 * a call reads what its resolver's thread may have freed meanwhile (7.88, destroy_async_data()).
 *
 * Threads are bounded. A fleet whose names cannot be resolved uses up only its own share of the threads.
 * Queries without an origin (0) have separate threads. Addresses are cached for a minute, and longer while no
 * name server answers, so that a stop goes to the address that its start went to.
 *
 * The owner of the names owns its queries until their done() is called, which is once, on the loop.
 */
#pragma once

#include "base/util.h"
#include <event2/event.h>
#include <netinet/in.h>

/* Of threads: of all origins, of each, and of origin 0. Well below TasksMax= of the unit. */
#define NAMES_THREADS_MAX 256
#define NAMES_EACH_MAX    64
#define NAMES_URGENT_MAX  256
/* Of one name; more are left out. */
#define NAME_ADDRESSES_MAX 16

struct name_resolver;
struct name_query;

struct name_answer {
    /* 0, -EHOSTUNREACH: there is no such name, -ETIMEDOUT: no answer in time, -EAGAIN: too many other names
     * were being resolved until the deadline */
    int err;
    size_t n;
    struct in6_addr addresses[NAME_ADDRESSES_MAX];
};

/* Waits for the name servers, on the calling thread. */
void name_look_up(const char *host, struct name_answer *ret);

/* Of the text that names a fleet; never 0. */
uint64_t names_origin(const char *text);

int names_new(struct event_base *base, struct name_resolver **ret);
/* Queries end without done(). */
struct name_resolver *names_free(struct name_resolver *n);
/* What is known of a name from now on, for origin 0, without asking: for processes that may not ask. */
void names_fix(struct name_resolver *n, const char *host, const struct name_answer *answer);
/* False where a name server has to be asked. What was fixed may be an error. */
bool names_known(struct name_resolver *n, const char *host, uint64_t origin, struct name_answer *ret);
/* Waits for a thread until the deadline (absolute, monotonic), and then for the answer for patience_ns at most. */
struct name_query *names_ask(struct name_resolver *n, const char *host, uint64_t origin, int64_t deadline_ns,
                             int64_t patience_ns, void (*done)(const struct name_answer *a, void *arg),
                             void *arg);
/* Without done(). NULL is nothing. */
struct name_query *name_query_free(struct name_query *q);
