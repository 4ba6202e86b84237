/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that implement peer_traces.h. */
#pragma once

#include "base/uuid.h"
#include "daemon/hosts/peer_traces.h"
#include <event2/event.h>
#include <sys/queue.h>

/* Traces of one host that the beginning of a UUID stands for. */
#define HOST_REFS_MAX 8
/* Hosts, sessions and runs that an answer names. */
#define MISSING_MAX 64
/* Questions that are remembered. */
#define ASKED_MAX 64

struct peer_waiter {
    LIST_ENTRY(peer_waiter) link;
    void (*done)(void *arg);
    void *arg;
};

/* What one host is asked. */
struct peer_ask {
    struct peer_question *question;
    char *host_uuid, *host;
    struct peer_query *query; /* NULL: not sent, or answered */
    bool is_over;
    int64_t before;     /* the last trace of its page before; RECORD_NONE: none */
    int64_t session_id; /* the session, as this host calls it; RECORD_NONE: not known yet */
    int64_t n_traces, facts_bytes;
    char uuids[HOST_REFS_MAX][UUID_SIZE]; /* of traces that it is asked for one by one */
    size_t n_uuids, n_read;
    bool lists_hosts; /* it is the coordinator, asked last which hosts have parts of the session */
};

struct peer_question {
    LIST_ENTRY(peer_question) link;
    struct peer_traces *all; /* NULL: profd ends */
    char *word;
    bool is_session;
    char *coordinator; /* of the session */
    json_t *hosts;     /* {UUID: true}: those that have a part, as its coordinator reports; NULL: not known */
    struct peers_refreshing *refreshing;
    struct event *timer;
    struct peer_ask *asks;
    size_t n_asks, n_begun, n_running;
    json_t *missing, *elsewhere;
    LIST_HEAD(, peer_waiter) waiters;
};

struct asked {
    char *word; /* NULL: free */
    bool is_session;
    int64_t at_ns; /* monotonic */
    json_t *missing, *elsewhere;
};

LIST_HEAD(peer_question_list, peer_question);

struct peer_traces {
    struct event_base *base;
    struct peers *peers;
    struct catalog *catalog;
    struct peer_question_list questions;
    size_t n_questions;
    struct asked asked[ASKED_MAX];
    size_t next_asked;
};

/* peer_answers.c: 1: more is to be asked; negative: nothing of the answer is taken, for ret_reason. */
int ask_take_answer(struct peer_ask *a, int status, const json_t *body, const char **ret_reason);
