/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framing of one HTTP/1.1 response (RFC 9112), from bytes that arrive in pieces: status line, fields, and where the
 * body is. Pure; the body is not copied.
 *
 * Strict: lines end with CRLF, fields have no spaces before the colon and no continuation lines, Transfer-Encoding is
 * "chunked" and excludes Content-Length, lengths are digits. Interim responses (1xx) are skipped. Lines that are cut by
 * the end of a piece are copied; head and trailers together have HTTP1_HEAD_MAX bytes at most.
 */
#pragma once

#include "base/util.h"

#define HTTP1_HEAD_MAX         (64u << 10)
#define HTTP1_CHUNK_LINE_MAX   256 /* bytes of a chunk's length and its extensions */
#define HTTP1_CONTENT_TYPE_MAX 128
#define HTTP1_LINK_MAX         512

enum http1_step {
    HTTP1_MORE, /* the piece is used up */
    HTTP1_HEAD, /* status and fields are known */
    HTTP1_BODY, /* some bytes of the body */
    HTTP1_END,  /* the response ended; what is left of the piece does not belong to it */
    HTTP1_BAD,  /* `error` is the reason */
};

/* A zeroed one is ready for the first byte. */
struct http1_response {
    bool head_only; /* set by its owner: it answers HEAD, and has no body whatever its fields are */
    int status;     /* 0 until the status line was read */
    bool keep_alive;
    char content_type[HTTP1_CONTENT_TYPE_MAX]; /* "": none */
    char retry_after[HTTP1_CONTENT_TYPE_MAX];  /* as the server wrote it */
    char date[HTTP1_CONTENT_TYPE_MAX];
    char link[HTTP1_LINK_MAX]; /* "": none, or longer */
    const char *error;

    unsigned char state; /* enum http1_state */
    bool began, is_old, closes, has_length, is_chunked;
    uint64_t left; /* bytes of the body or of the chunk */
    size_t head_size, line_size, line_cap;
    char *line; /* the line so far that the last piece cut */
};

/* The next step in the piece, whose start and size advance. HTTP1_BODY: *ret_body and *ret_size lie in the piece. After
 * HTTP1_END and HTTP1_BAD there is none. */
enum http1_step http1_response_next(struct http1_response *r, const char **bytes, size_t *size,
                                    const char **ret_body, size_t *ret_size);
/* The connection was closed. HTTP1_END where that is the end of the body. */
enum http1_step http1_response_close(struct http1_response *r);
void http1_response_done(struct http1_response *r);
