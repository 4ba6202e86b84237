/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's file on its way from profd: written to a descriptor, hashed, and compared with what the catalog
 * says of it. Shows on a terminal how far it is.
 */
#pragma once

#include "client/transport/connection.h"

struct download {
    const char *path;   /* of the request */
    const char *id;     /* what it belongs to, for people: "t12" */
    const char *name;   /* of the file */
    int64_t size;       /* -1: not known */
    const char *sha256; /* NULL: not known */
};

/* -EBADMSG where size or SHA-256 are others. */
int download(struct client *c, const struct download *d, int fd, struct problem *p);

/* A trace's file, checked against its JSON. */
int download_trace(struct client *c, const json_t *trace, int fd, struct problem *p);

/* The same into a file that appears whole or not at all: directory (NULL: the current one) and plain name. */
int download_to_file(struct client *c, const json_t *trace, const char *path, struct problem *p);

/* SHA-256 of what is in a file, as hexadecimal (65 bytes). Negative errno. */
#define SHA256_TEXT 65
int file_sha256(const char *path, char *ret);
