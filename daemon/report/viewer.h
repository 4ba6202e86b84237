/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Viewers: children of profd-report that keep one trace open and answer one request after another (kind "view" of
 * proto/report.h): to start a child costs more than a tile. A viewer is started for the first request on its trace; it ends
 * when nobody asks for a while, when others need its place, when the columns of its trace were made again, and when a
 * request takes too long.
 *
 * This side knows descriptors, lines and frames, and nothing of timelines: bytes of an answer are passed on unread. A
 * request whose viewer ends by itself is sent once more, to a new one; users take turns.
 */
#pragma once

#include "base/metrics.h"
#include "base/problem.h"
#include "daemon/report/pool.h"

struct evbuffer;
struct view_request;
struct viewers;

/* Viewers at a time, in use or not. Of those, [limits] reports= compute at a time. */
#define VIEWERS_MAX 8
/* Requests that may wait, of all users and of one: a page asks for a handful at a time. */
#define VIEWERS_WAITING_MAX      256
#define VIEWERS_WAITING_USER_MAX 128

/* program and settings are borrowed. */
int viewers_new(struct event_base *base, const char *program, const struct reports_settings *settings,
                struct viewers **ret);
/* Ends all; done() of each request is called with a problem. Not to be called from done(). */
struct viewers *viewers_free(struct viewers *viewers);
/* The settings have changed: what runs now ends after its request. */
void viewers_renew(struct viewers *viewers);
/* No request runs or waits. */
bool viewers_are_idle(const struct viewers *viewers);

/* Whether a request on this trace needs no descriptors: its columns are known, and they are still the ones in the store. */
bool viewers_know(struct viewers *viewers, int64_t trace_id);
/* 0, or -EAGAIN with a problem: a request of that user would not be taken. */
int viewers_check_room(const struct viewers *viewers, const char *user, struct problem *p);

struct view_job {
    int64_t trace_id;
    const char *user;    /* who waits for it; copied */
    const char *request; /* a JSON object in one line; copied */
    /* Taken over. Not needed where the trace is known; no original: -1. */
    int columns_fd, source_fd;
};

struct view_end {
    struct evbuffer *body; /* what is left in it is freed */
    bool is_json, is_gzip;
    struct problem problem;
};

/* done() runs later on the loop, exactly once, unless the request is cancelled before. */
struct view_request *viewers_ask(struct viewers *viewers, const struct view_job *take,
                                 void (*done)(struct view_end *end, void *arg), void *arg);
/* Without done(). */
void viewers_cancel(struct view_request *request);

struct viewers_metrics {
    unsigned alive, waiting;
    uint64_t started, answered, refused, failed,
        cancelled;              /* refused: with a problem that the viewer explains */
    struct histogram durations; /* of requests, from when a viewer got them */
};
void viewers_metrics(const struct viewers *viewers, struct viewers_metrics *ret);
