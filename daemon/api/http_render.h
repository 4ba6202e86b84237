/* SPDX-License-Identifier: Apache-2.0 */
/* Replies as bytes: the head of a response, and a problem as JSON. Knows no connection. */
#pragma once

#include "base/util.h"
#include <jansson.h>

struct evbuffer;

#define HTTP_PROBLEM_TYPE "application/problem+json"

struct http_response {
    int status;
    const char *content_type; /* NULL: none */
    int64_t content_length;   /* -1: not known, or none belongs there */
    bool chunked;
    bool close;
    int minor;              /* of the request; 1.0 must be told when the connection stays */
    struct evbuffer *extra; /* further header lines, each with its end; NULL: none */
};

/* Adds the status line, the headers and the blank line; moves extra. */
void http_render_head(struct evbuffer *out, const struct http_response *response);
/* A line of extra; control bytes of the value become spaces. */
void http_render_header(struct evbuffer *extra, const char *name, const char *value);
/* {type, title, status, detail, code, remedy} of RFC 9457; remedy may be NULL. */
json_t *http_render_problem(int status, const char *code, const char *detail, const char *remedy);
