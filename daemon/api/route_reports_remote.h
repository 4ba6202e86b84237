/* SPDX-License-Identifier: Apache-2.0 */
/* Passes requests for reports and SQL on to the hosts that have the traces. Each function replies, at once or later. */
#pragma once

#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"

/* A file as a reply. */
struct export_reply {
    int fd; /* empty, without a name */
    int64_t size_max;
    const char *content_type; /* static */
    char *name;
};

/* GET of a report of one trace, with the parameters of r. */
void report_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                    const struct remote_trace_record *t);
/* GET of what a viewer answers, with all parameters of r, which the caller has checked; is_bytes: a tile. */
void timeline_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                      const struct remote_trace_record *t, bool is_bytes);
/* GET of a flame graph, with the parameters of r. */
void flame_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                   const struct remote_trace_record *t);
/* GET of an export, with the parameters of r; the reply is a file of that type and name. take: where the file is kept meanwhile. */
void export_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                    const struct remote_trace_record *t, const struct export_reply *take);
/* POST of a statement: body {sql, limit}. */
void query_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                   const struct remote_trace_record *t, const json_t *body);

/* Traces of other hosts: those of the host of the first, and those that are left for further requests. */
struct remote_list {
    json_t *traces, *names, *left; /* NULL: there are none */
    json_t *missing;               /* for the answer: traces that the reports do without; NULL: none */
    json_t *missing_hosts;         /* the same, of hosts that may have more */
    struct remote_trace_record first;
};
void remote_list_add(struct remote_list *list, const struct remote_trace_record *t);
void remote_list_done(struct remote_list *list);
/* POST of reports or a flame graph of the traces of the list; it takes what it needs of the list. */
void reports_pass_on(struct api *api, struct http_request *r, const struct route_match *match,
                     const char *path, struct remote_list *list, const json_t *body);
