/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of one request: where it ends, its fields, its target ("/path?key=value&...") decoded, and whether
 * it is well-formed. Pure functions over (data, size).
 *
 * Stricter than RFC 9112 asks of a server: no bare LF, no folded lines, no absolute targets, no
 * Transfer-Encoding. Decoded text is valid UTF-8 without NUL, so that it can go into JSON, SQL and log lines as
 * it is.
 */
#pragma once

#include "daemon/api/http.h"

/* Bytes. */
#define HTTP_TARGET_MAX       8000
#define HTTP_HEADER_LINE_MAX  8000

#define HTTP_QUERY_PARAMS_MAX 256

struct http_param {
    const char *key, *value; /* in the text of the query */
};

/* A zeroed struct is an empty query. */
struct http_query {
    char *text;
    struct http_param *params;
    size_t n;
};

/* Decodes size bytes of a target's path (without the query). -EINVAL for what http_path() promises never to
 * return, an encoded '/' or a bad escape. The caller frees *ret. */
int http_path_decode(const char *data, size_t size, char **ret);
/* Decodes the text after '?'. -EINVAL: bad escape, NUL or not UTF-8; -E2BIG: too many parameters. */
int http_query_parse(const char *data, size_t size, struct http_query *ret);
void http_query_done(struct http_query *q);

/* Why a head was refused: the status of the reply and static text for it. */
struct http_refusal {
    int status;
    const char *detail;
};

struct http_field {
    const char *name, *value; /* in the text of the head */
};

/* A zeroed struct is an empty head. */
struct http_head {
    char *text; /* a copy, cut into strings */
    enum http_method method;
    int minor; /* HTTP/1.minor */
    char *path;
    struct http_query query;
    struct http_field *fields;
    size_t n_fields;
    int64_t content_length; /* 0 where none is given */
    bool keep_alive;
    bool expects_continue;
};

/*
 * Looks for the end of a head in the bytes that have arrived so far; *scanned, 0 at first, remembers how far
 * earlier calls came. Returns the head's size, 0 where more bytes are needed, or -EBADMSG with the reason.
 */
ssize_t http_head_find(const char *data, size_t size, size_t head_max, size_t *scanned,
                       struct http_refusal *why);
/* Reads a complete head, its blank line included. -EBADMSG with the reason. */
int http_head_parse(const char *data, size_t size, const struct http_limits *limits, struct http_head *ret,
                    struct http_refusal *why);
void http_head_done(struct http_head *h);
const char *http_head_field(const struct http_head *h, const char *name);
