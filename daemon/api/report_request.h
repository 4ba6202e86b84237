/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A work of the pool (daemon/report/pool.h) that a request waits for: made by a handler, begun once, and then the reply is the
 * answer of the child. Owned by its handler until it begins.
 */
#pragma once

#include "daemon/api/handler.h"
#include "daemon/collect/safe_open.h"

struct remote_trace_record;
struct report_file;
struct trace_record;

struct report_request {
    struct api *api;
    struct reports *reports;
    struct later_reply *later; /* NULL: the client left */
    struct report_work *work;  /* NULL: it has not begun */
    json_t *spec;              /* the specification of proto/report.h */
    char *user;
    struct report_file *files;
    size_t n, cap;
    size_t next_file;            /* of those that come from other hosts */
    unsigned n_fetching;         /* that are on their way */
    bool is_opening;             /* threads open files */
    const char *content_type;    /* of the reply; NULL: JSON */
    char *name;                  /* of an attachment; NULL: it is none */
    struct report_target target; /* fd -1: a file in memory */
};

struct report_request *report_request_new(struct api *api, const char *kind);
void report_request_freep(struct report_request **q);
/* take_facts: of the trace, or NULL. The original is opened as well if that is wanted. */
void report_request_add(struct report_request *q, const struct trace_record *t, json_t *take_facts,
                        bool with_source);
/* The same of a trace whose columns another host keeps: they are copied before the work begins. A trace whose columns do not come
 * is named in "missing" of the specification, if it has that. False: it has no columns. */
bool report_request_add_remote(struct report_request *q, const struct remote_trace_record *t);
/* {trace, reason}: a trace that a work does without. */
json_t *report_missing_new(int64_t id, char *take_reason);
/* Adds traces with columns, of {"traces": [ID]} or {"session": ID}, of this host and others; the names of those without columns are
 * added to left in the specification. 0, or the reply was given. */
int report_request_add_traces(struct api *api, struct http_request *r, const json_t *side,
                              struct report_request *q);
/* Replies now or later. */
void report_request_begin(struct api *api, struct http_request *r, const struct route_match *match,
                          struct report_request *take);
