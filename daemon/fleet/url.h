/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs of routers and workers in one form, so that equal servers have equal names: scheme://host:port[/path].
 *
 * The port is always there, the host is lower case, IPv6 is canonical and in brackets, trailing slashes are
 * gone, and so is the "@rank" that data-parallel routers append. A path is kept: a server may live below one.
 * Pure functions; nothing is resolved or called.
 */
#pragma once

#include "base/util.h"

#define URL_SIZE_MAX  2048
#define HOST_SIZE_MAX 253

struct url {
    const char *scheme; /* "http", "https", "grpc", "grpcs" */
    char host[HOST_SIZE_MAX + 3];
    int port;
    int rank; /* of "@rank"; -1 where there was none */
    char path[URL_SIZE_MAX];
};

/*
 * Without a scheme, http is meant. -EINVAL with a few words in *reason for anything else: other schemes, user
 * names, query strings, control characters, spaces, missing hosts, ports out of range.
 */
int url_parse(const char *text, struct url *ret, const char **reason);
/* The same as text. A grpc URL must have a port. */
int url_normalise(const char *text, char **ret, const char **reason);
char *url_format(const struct url *u);
/* "10.0.0.7:8000", "[fd00::7]:8000" of a host with brackets or without; the caller frees it. Nothing is checked. */
char *url_host_port(const char *host, int port);
bool url_is_http(const struct url *u);

/* Both take normalised URLs. */
bool url_is_loopback(const char *url); /* localhost, 127/8, ::1, and the wildcards 0.0.0.0 and :: */
char *url_with_host_of(const char *url, const char *other);
/* Only of the host's text: "127.0.0.1", "[::1]", "localhost". */
bool host_is_loopback(const char *host);
bool host_is_wildcard(const char *host);

/* Whether a path, with its query, can be sent as it is written: visible ASCII that begins with a slash, no fragment. */
bool url_path_is_plain(const char *path);
/* base and path, which starts with a slash. */
char *url_join(const char *base, const char *path);
