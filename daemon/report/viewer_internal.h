/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that implement viewer.h. */
#pragma once

#include "daemon/report/child.h"
#include "daemon/report/turns.h"
#include "daemon/report/viewer.h"
#include <event2/event.h>
#include <sys/queue.h>

struct view_request {
    struct turn turn;
    struct viewer *viewer;
    char *user, *text;
    unsigned attempts;
    struct event *on_late; /* while it waits */
    int64_t begun_ns;
    bool is_cancelled;
    void (*done)(struct view_end *end, void *arg);
    void *arg;
};

/* A trace with requests, or with a child that waits for some. */
struct viewer {
    TAILQ_ENTRY(viewer) next;
    struct viewers *owner;
    int64_t trace_id;
    int fds[2];       /* columns, original */
    size_t n_waiting; /* requests */
    bool is_outdated; /* it gets no more requests */
    bool is_alive;    /* it has a child */
    bool is_ending;   /* which was killed */
    struct report_child child;
    int socket;
    struct event *on_socket, *on_result, *on_exit, *on_time;
    struct evbuffer *in;
    struct view_request *current; /* that the child computes; NULL: none */
};
TAILQ_HEAD(viewer_list, viewer);

struct viewers {
    struct event_base *base;
    char *program;
    const struct reports_settings *settings;
    struct viewer_list list; /* the one that was used last is the last */
    struct turns turns;
    struct event *due;
    int64_t n_busy; /* viewers with a request */
    bool is_closing;
    struct viewers_metrics metrics;
};

/* -- viewers.c -- */

/* Waiting requests are looked at in the next iteration. */
void viewers_schedule(struct viewers *viewers);
void view_request_wait(struct viewers *viewers, struct view_request *q);
/* It neither waits nor runs, and is freed. end has what done() gets; its problem is released. */
void view_request_end(struct viewers *viewers, struct view_request *q, struct view_end *end);
void view_request_fail(struct viewers *viewers, struct view_request *q, const struct problem *p);

/* -- viewer.c -- */

struct viewer *viewer_new(struct viewers *viewers, const struct view_job *take);
void viewer_free(struct viewer *w);
/* Where it has neither a child nor requests. */
void viewer_free_unused(struct viewer *w);
int viewer_start(struct viewer *w);
void viewer_send(struct viewer *w, struct view_request *q);
void viewer_kill(struct viewer *w);
/* Its child is gone, or is waited for. Its request is sent again, or fails. */
void viewer_reap(struct viewer *w);
