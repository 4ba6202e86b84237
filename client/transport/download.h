/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads of trace files: written to a descriptor, hashed, and compared with the catalog, with progress on a
 * terminal.
 */
#pragma once

#include "client/transport/connection.h"

struct download {
    const char *path;   /* of the request */
    const char *id;     /* of the trace, for messages: "t12" */
    const char *name;   /* of the file */
    int64_t size;       /* -1: not known */
    const char *sha256; /* NULL: not known */
    bool is_remote;     /* another host keeps it: its parts are passed on as they come */
};

/* -EBADMSG if size or SHA-256 differ. */
int download(struct client *c, const struct download *d, int fd, struct problem *p);

/* Whether profd has an archive; false also where that cannot be found out. */
bool archive_is_configured(struct client *c);
/* Whether only the archive has the file of a trace, by its JSON. */
bool trace_json_is_archived(const json_t *trace);
/* If it is so, has profd fetch the file into its store (`columns`: and read it), with progress on a terminal. */
int download_from_archive(struct client *c, const json_t *trace, bool columns, struct problem *p);

/* The file of a trace, checked against its JSON. One that only the archive has is fetched first. */
int download_trace(struct client *c, const json_t *trace, int fd, struct problem *p);

/* The same into a file that appears only when it is complete. */
int download_to_file(struct client *c, const json_t *trace, const char *path, struct problem *p);

/* SHA-256 of a file, in hexadecimal (SHA256_TEXT bytes). Negative errno. */
#define SHA256_TEXT 65
int file_sha256(const char *path, char *ret);
