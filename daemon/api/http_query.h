/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of a request, "/path?key=value&...", decoded and checked. Pure functions over (data, size).
 *
 * What comes out is valid UTF-8 without NUL, so that it can go into JSON, SQL and log lines as it is.
 */
#pragma once

#include "base/util.h"

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
/* Decodes what stands behind '?'. -EINVAL: bad escape, NUL or not UTF-8; -E2BIG: too many parameters. */
int http_query_parse(const char *data, size_t size, struct http_query *ret);
void http_query_done(struct http_query *q);
