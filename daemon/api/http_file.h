/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a file on its way to a client, in slices, and the headers that describe it.
 *
 * The slices go by sendfile(2): a stalled download holds a descriptor and no memory. Where they must be
 * encrypted they are read, a smaller one at a time: libevent would map the file, and be killed where it
 * shrinks. So are those of a file system that may not answer, on a thread: the loop waits for none of it, nor
 * for its close(). The object owns the descriptor; it is closed with the last slice that waits in an output
 * buffer.
 */
#pragma once

#include "base/util.h"
#include <sys/stat.h>

struct evbuffer;
struct http_download;
struct http_file;

#define HTTP_ETAG_MAX 48

/* Takes the descriptor, whatever the result. */
int http_file_new(const struct http_download *take, int64_t offset, int64_t size, struct http_file **ret);
struct http_file *http_file_free(struct http_file *f);
/* Adds the next slice to out, as its bytes where it is to be encrypted: 1, or 0 after the last one, or a
 * negative errno. With 1, and nothing added, the slice is being read; ready() is called when it is there. */
int http_file_feed(struct http_file *f, struct evbuffer *out, bool as_bytes);
void http_file_on_ready(struct http_file *f, void (*ready)(void *arg), void *arg);

DEFINE_CLEANUP(struct http_file *, http_file_free)

/* A strong validator from size and modification time, quotes included. */
void http_file_etag(const struct stat *st, char ret[static HTTP_ETAG_MAX]);
/* attachment; filename="..."; filename*=UTF-8''... (RFC 6266). The caller frees it. */
char *http_file_disposition(const char *name);

/* The Range header of a download (RFC 9110, 14.2). Pure. */
enum http_range_kind {
    HTTP_RANGE_NONE, /* absent, malformed, another unit or several ranges: the complete file is the reply */
    HTTP_RANGE_PART, /* 206 */
    HTTP_RANGE_UNSATISFIABLE, /* 416 */
};

struct http_range {
    int64_t offset, size; /* within the file; size is at least 1 */
};

/* text may be NULL. *ret is set for HTTP_RANGE_PART only. */
enum http_range_kind http_range_parse(const char *text, int64_t file_size, struct http_range *ret);
