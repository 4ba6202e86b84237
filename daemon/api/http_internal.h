/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between http.c, which owns sockets and libevhtp, and http_request.c, which owns what handlers see.
 *
 * A connection has at most one request; the request is made by http.c and freed by whoever ends it: its
 * reply, or the connection that goes away.
 */
#pragma once

#include "daemon/api/http_file.h"
#include "daemon/api/http_foreign.h"
#include "daemon/api/http_head.h"

struct evbuffer;
struct http_conn;
struct http_foreign;

struct http_request {
    struct http_conn *conn;
    struct http_head head;
    const char *body; /* in libevhtp's request */
    size_t body_size;
    struct http_foreign *foreign; /* NULL: it came over conn */
    struct http_counts *counts;   /* NULL: nobody counts */
    struct http_durations *durations;
    int64_t begun_ns;       /* when its head, or its last byte, had come */
    struct evbuffer *extra; /* header lines of the reply to come; NULL: none */
    bool chunked;           /* the stream */
    char *user;             /* NULL: not known */
    void (*on_close)(struct http_request *r, void *arg);
    void *on_close_arg;
};

/* http_request.c */
/* Frees r, whose reply goes elsewhere. */
struct http_request *http_request_free(struct http_request *r);

/* http_foreign.c: each ends r. */
void http_foreign_reply(struct http_request *r, int status, json_t *take_body);
void http_foreign_reply_file(struct http_request *r, int take_fd, int64_t size, const char *name);
const struct http_peer *http_foreign_peer(const struct http_foreign *f);
struct http_foreign *http_foreign_free(struct http_foreign *f);

/* http_peer.c: who is at the other end of a connected socket. */
void http_peer_read(int fd, struct http_peer *ret);
bool http_socket_is_tcp(int fd);

/* http_refusal.c: a whole reply that closes the connection, and where its status is in the table. */
void http_refusal_render(struct evbuffer *out, int status, const char *detail);
size_t http_refusal_index(int status);

/* http.c: what a request asks of its connection. */
const struct http_peer *http_conn_peer(const struct http_conn *c);
struct evbuffer *http_conn_output(struct http_conn *c);
/* True where no further request will be answered on the connection. */
bool http_conn_closes(const struct http_conn *c);
/* The head of a stream is in the output: it stays open, and closes the connection at its end. */
void http_conn_stream(struct http_conn *c);
/* -EPIPE or -ENOBUFS where size bytes more must not wait for the client; then it is being dropped. */
int http_conn_stream_room(struct http_conn *c, size_t size);
/* The reply is in the output, or in take_file (may be NULL) behind it; the connection forgets the request. */
void http_conn_replied(struct http_conn *c, struct http_file *take_file);
