/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP transport: an HTTP/1.1 server on Unix and TCP sockets, for handlers that know nothing of sockets.
 *
 * Bytes wait in the connection's buffer until a complete request is there; its head is checked by a parser of
 * our own (http_head.h). What is refused is answered here, as application/problem+json, and the connection
 * closed. The body of a head that is not admitted is never read. Every limit is in struct http_limits.
 *
 * A handler replies once to each request that it gets, at once or later from the same loop. Until then the pointer
 * is valid; the call that replies ends it. If the client leaves first, the http_on_close() function is called
 * instead, and ends it too. A client that only shuts down its sending side before its reply counts as gone.
 *
 * Nothing here blocks, logs what clients do wrong, or decides what a path means.
 */
#pragma once

#include "base/metrics.h"
#include "base/problem.h"
#include "proto/names.h"
#include <jansson.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/types.h>

struct evbuffer;
struct event_base;
struct ssl_ctx_st; /* SSL_CTX */
struct http_server;
struct http_request;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    _HTTP_METHOD_MAX,
};

struct http_limits {
    unsigned connections_max; /* one more displaces a client without a token, or gets 503 */
    unsigned anonymous_share; /* connections without a token of one address, beyond loopback */
    size_t head_max;          /* request line and headers in bytes: 431 */
    size_t headers_max;       /* header lines: 431 */
    size_t body_max;          /* 413 */
    int64_t head_deadline_ns; /* from a head's first byte (or the accept) to its last: 408 */
    int64_t body_deadline_ns; /* from the head's last byte to the body's: 408 */
    int64_t idle_ns;          /* between two requests of a connection */
    int64_t send_stall_ns;    /* without a byte taken by a client that has to read */
    size_t stream_lag_max;    /* bytes of a stream that wait for its client */
};

extern const struct http_limits http_limits_default;

struct http_handlers {
    /* The head has arrived, and nothing of the body is read yet. True admits the request. Else it was replied
     * to, which ends the connection. NULL: all are admitted. */
    bool (*admit)(struct http_request *r, void *arg);
    /* The request is complete. It gets one reply. */
    void (*handle)(struct http_request *r, void *arg);
    void *arg;
};

int http_server_new(struct event_base *base, const struct http_limits *limits,
                    const struct http_handlers *handlers, struct http_server **ret);
/* Takes over a bound and listening socket, whatever the result; may be called for several. */
int http_server_listen(struct http_server *s, int take_fd);
/* TLS on the TCP sockets, for connections from here on; NULL: none. Keeps a reference of its own. */
void http_server_set_tls(struct http_server *s, struct ssl_ctx_st *context);
/* Closes the listening sockets and the idle connections; the others end after the reply they wait for. */
void http_server_stop_accepting(struct http_server *s);
/* Ends all connections; requests without a reply get their http_on_close() call. Never from a handler. */
struct http_server *http_server_free(struct http_server *s);
/* Connections that are open stay open. */
void http_server_set_connections_max(struct http_server *s, unsigned max);
unsigned http_connections(const struct http_server *s);
/* Connections that were closed to make room for others. */
uint64_t http_displaced(const struct http_server *s);

DEFINE_CLEANUP(struct http_server *, http_server_free)

/* The request. All text lives as long as it does. */
enum http_method http_method(const struct http_request *r);
/* Decoded UTF-8 that starts with '/': no control byte, no "." or ".." and no empty segment. */
const char *http_path(const struct http_request *r);
/* The first value of a key, decoded UTF-8; "" where the key has none; NULL where it is absent. */
const char *http_query_get(const struct http_request *r, const char *key);
/* All values of a repeated key, in order: returns how many there are and stores at most max of them. */
size_t http_query_all(const struct http_request *r, const char *key, const char **ret, size_t max);
/* The n-th parameter's key, NULL after the last: for handlers that refuse what they do not know. */
const char *http_query_key(const struct http_request *r, size_t n);
const char *http_header(const struct http_request *r, const char *name);
/* Puts the path and query of another target ("/path?key=value") in the place of its own, whose texts end here. -EINVAL,
 * -E2BIG: it is no target; then nothing changes. */
int http_request_retarget(struct http_request *r, const char *target);
/* The Content-Length, also before the body has arrived. */
int64_t http_body_length(const struct http_request *r);
/* When its last byte had arrived, monotonic. */
int64_t http_begun_ns(const struct http_request *r);
const char *http_body(const struct http_request *r, size_t *ret_size);

/* By the first digit of a reply's status, less one. */
#define HTTP_STATUS_CLASSES 5
struct http_counts {
    uint64_t by_class[HTTP_STATUS_CLASSES];
};
/* From when the request was complete until its reply was made: the time that the client needed to send and to read is not
 * included. */
struct http_durations {
    struct histogram by_class[HTTP_STATUS_CLASSES];
};
/* Where the reply to r, or the beginning of its stream, is counted. */
void http_count_reply(struct http_request *r, struct http_counts *counts, struct http_durations *durations);
/* Requests that the server itself refused, before any handler: by the statuses of http_refusal_status(). */
#define HTTP_REFUSALS_MAX 16
int http_refusal_status(size_t i); /* 0 after the last */
uint64_t http_refusals(const struct http_server *s, size_t i);

#define HTTP_PEER_UNIX "unix"
struct http_peer {
    /* A Unix socket: uid, gid and pid are the peer's at connect time, else -1. Not what its client relays (RELAY_HEADER). */
    bool local;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    bool in_group;      /* of D-Bus: its groups admit it to profd's socket as well */
    struct in6_addr ip; /* of TCP; IPv4 as ::ffff:a.b.c.d */
    char address[64];   /* "127.0.0.1:4711", "[::1]:4711", "unix" */
};
const struct http_peer *http_peer(const struct http_request *r);

/* The name of the token that was shown; NULL until it is set. */
void http_set_user(struct http_request *r, const char *name);
const char *http_user(const struct http_request *r);
/* Of the token that was shown; RIGHT_NONE until it is set. */
void http_set_right(struct http_request *r, enum right right);
enum right http_right(const struct http_request *r);

/* A header of the reply to come. Control bytes of the value become spaces. */
void http_reply_header(struct http_request *r, const char *name, const char *value);

/* Replies; each ends r. content_type may be NULL where there is no body. HEAD is answered without the body.
 */
void http_reply(struct http_request *r, int status, const char *content_type, const void *body, size_t size);
/* The same with what is in a buffer, which is empty afterwards; nothing is copied. */
void http_reply_buffer(struct http_request *r, int status, const char *content_type, struct evbuffer *body);
void http_reply_json(struct http_request *r, int status, json_t *take_body);
void http_reply_problem(struct http_request *r, const struct problem *p);
/* A problem document with members of its own. */
void http_reply_problem_json(struct http_request *r, int status, json_t *take_body);
/* {type, title, status, detail, code, remedy} of RFC 9457; remedy may be NULL. */
#define HTTP_PROBLEM_TYPE "application/problem+json"
json_t *http_render_problem(int status, const char *code, const char *detail, const char *remedy);

struct http_download {
    int fd;
    const struct stat *st; /* of fd */
    int64_t size;          /* as it was recorded */
    const char *content_type;
    const char *name; /* for Content-Disposition; NULL: none */
    /* Of a file system that may not answer: the threads that read the file instead of the loop, and in which
     * queue. NULL: the loop sends it. */
    struct offload *offload;
    uint64_t queue;
};
/* To a HEAD request: the head of a reply whose body would have that many bytes. */
void http_reply_size(struct http_request *r, const char *content_type, int64_t size);
/*
 * A file as a download: Range (one range: 206, 416), ETag and If-Range from size and modification time. Read
 * in slices as fast as the client takes them, and waited for no longer than a client is. 410 where the file
 * is no longer that long. Takes the descriptor.
 */
void http_reply_file(struct http_request *r, const struct http_download *take);

/* A stream (server-sent events): begun, written to while the client keeps up, ended. Bytes of the client are
 * discarded meanwhile. */
void http_stream_begin(struct http_request *r, const char *content_type);
/* -EPIPE: the client is gone; -ENOBUFS: it lags beyond stream_lag_max and is dropped. In both cases the
 * on_close function is called, from the loop, never from here. */
int http_stream_write(struct http_request *r, const char *data, size_t size);
/* Bytes that were written and wait for the client. */
size_t http_stream_waiting(const struct http_request *r);
void http_stream_end(struct http_request *r);

/* Called once, if the client leaves (or the server is freed) before r ended by a reply. Must not reply. */
void http_on_close(struct http_request *r, void (*fn)(struct http_request *r, void *arg), void *arg);

/* -- TLS ---------------------------------------------------------------------------------------------- */

struct http_tls_files {
    const char *cert, *key;
    const char *client_ca; /* NULL: clients need no certificate; else one that is signed by one of these */
};

/*
 * A TLS context made of files; the caller holds a reference, and never changes it. TLS 1.2 at least, with
 * OpenSSL's own choice of ciphers. No renegotiation and no resumed sessions: a client that is refused by
 * today's certificates must not get in with what it agreed on yesterday. The problem names the faulty file.
 */
int http_tls_new(const struct http_tls_files *files, struct ssl_ctx_st **ret, struct problem *p);

/* -- Requests of another transport -------------------------------------------------------------------- */

/*
 * A request that did not arrive over HTTP, for the same handlers: replies go to functions instead of a socket.
 * It has no headers, and handlers of streams must not get it.
 */

/* One of the two is called, once; the request is gone by then. */
struct http_external_replies {
    /* A problem from status 400 on; NULL where there is no body. */
    void (*json)(int status, const json_t *body, void *arg);
    /* The file is readable up to size; the name may be NULL. */
    void (*file)(int take_fd, int64_t size, const char *name, void *arg);
};

/*
 * query is the text after '?' in an address, NULL for nothing; body NULL for none. Copies everything, but
 * replies must outlive the request. -EINVAL, -E2BIG: the query.
 */
int http_request_new_external(enum http_method method, const char *path, const char *query, const char *body,
                              const struct http_peer *peer, const struct http_external_replies *replies,
                              void *arg, struct http_request **ret);
/* The client is gone: calls the on_close function of r, which ends without a reply, and frees r. */
void http_request_abandon(struct http_request *r);
