/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the HTTP server share: http_server.c owns listening sockets and the list of connections,
 * http_conn.c one connection and its phases, http_request.c what handlers see and reply with.
 *
 * A connection has at most one request. http_conn.c creates the request; its reply frees it, or the closing
 * of its connection.
 */
#pragma once

#include "daemon/api/http_file.h"
#include "daemon/api/http_head.h"
#include "daemon/api/http_peers.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <openssl/ssl.h>
#include <sys/queue.h>

struct http_conn;
struct http_external;

struct http_request {
    struct http_conn *conn;
    struct http_head head;
    struct evbuffer *body_buffer; /* NULL: no body, or that of an external request */
    const char *body;             /* contiguous, in the buffer */
    size_t body_size;
    struct http_external *external; /* NULL: the request came over conn */
    struct http_counts *counts;     /* NULL: the reply is not counted */
    struct http_durations *durations;
    int64_t begun_ns;       /* when its head, or its last byte, had arrived */
    struct evbuffer *extra; /* header lines of the reply to come; NULL: none */
    bool chunked;           /* the stream */
    bool relayed;           /* by a client of the Unix socket (RELAY_HEADER) */
    char *user;             /* NULL: not known */
    enum right right;       /* of the token */
    void (*on_close)(struct http_request *r, void *arg);
    void *on_close_arg;
};

enum http_phase {
    HTTP_PHASE_HEAD,    /* waiting for a head, or for the rest of one */
    HTTP_PHASE_BODY,    /* the head was admitted, its body is incomplete */
    HTTP_PHASE_HANDLER, /* the handler has the request, its reply is pending */
    HTTP_PHASE_STREAM,  /* the reply continues until handler or client end it */
    HTTP_PHASE_REPLY,   /* the reply is being sent, the request is gone */
    HTTP_PHASE_LINGER,  /* everything was sent; what still arrives is discarded */
};

struct http_conn {
    LIST_ENTRY(http_conn) link;
    struct http_server *server;
    struct bufferevent *bev;
    struct http_peer peer;
    struct anonymous anonymous; /* a member while the connection may be closed in favor of others */
    bool is_known;              /* the last request showed a valid token, or the socket is local */
    bool tls;
    size_t input_max; /* of TLS; 0: no limit */

    enum http_phase phase;
    bool served;       /* counts against connections_max */
    bool close;        /* no further request will be answered */
    bool eof;          /* the client sends nothing more */
    bool dropped;      /* ends when its timer fires next */
    bool head_started; /* the deadline is the head's, not the idle connection's */
    size_t scanned;    /* of an incomplete head */
    size_t head_size;
    struct http_request *request; /* from its head on */
    struct http_file *file;       /* the rest of the reply */

    int64_t deadline_ns, armed_ns; /* the timer fires at armed_ns, which may be too early */
    struct event *timer;
};

/* Two budgets, so that clients who can reach the TCP port cannot shut the Unix socket, which only permitted
 * users can reach. */
enum http_side { HTTP_SIDE_REMOTE, HTTP_SIDE_LOCAL, _HTTP_SIDE_MAX };

struct evhtp;

struct http_server {
    struct event_base *base;
    struct http_limits limits;
    struct http_handlers handlers;
    struct evhtp **listeners; /* one for each listening socket */
    size_t n_listeners, cap_listeners;
    SSL_CTX *tls; /* NULL: none */
    LIST_HEAD(, http_conn) conns;
    struct anonymous_list anonymous;
    unsigned n_conns;
    struct {
        unsigned n_served, n_refused;
        bool paused; /* accepts no connection for the moment */
    } sides[_HTTP_SIDE_MAX];
    bool stopping;
    struct event *accept_timer;
    struct event *accept_again; /* active where a connection was accepted in this iteration of the loop */
    unsigned n_accepted;        /* in this iteration */
    uint64_t n_displaced;
    int64_t shortage_logged_ns;
    uint64_t refusals[HTTP_REFUSALS_MAX];
    void (*on_conn_closed)(struct http_conn *c); /* takes the connection off the list and the counts */
};

/* -- http_conn.c -------------------------------------------------------------------------------------- */

/* Takes the bufferevent of an accepted connection, and reads from it from here on. The server has it on its
 * list, but neither admits it nor counts it yet. */
struct http_conn *http_conn_new(struct http_server *s, struct bufferevent *take_bev);
void http_conn_close(struct http_conn *c);
/* Starts the deadline of the first head; a connection that is not served gets 503 instead. */
void http_conn_begin(struct http_conn *c);

/* What a request asks of its connection. */
struct evbuffer *http_conn_output(struct http_conn *c);
/* True where no further request will be answered on the connection. */
bool http_conn_closes(const struct http_conn *c);
/* The head of a stream is in the output: the stream stays open, and closes the connection at its end. */
void http_conn_stream(struct http_conn *c);
/* -EPIPE or -ENOBUFS where size bytes more must not wait for the client; then it is being dropped. */
int http_conn_stream_room(struct http_conn *c, size_t size);
/* The reply is in the output, or in take_file (may be NULL) after it; the connection forgets the request. */
void http_conn_replied(struct http_conn *c, struct http_file *take_file);

/* -- http_request.c ----------------------------------------------------------------------------------- */

/* Frees r without a reply. */
struct http_request *http_request_free(struct http_request *r);

/* -- http_response.c: replies as bytes ---------------------------------------------------------------- */

struct http_response {
    int status;
    const char *content_type; /* NULL: none */
    int64_t content_length;   /* -1: not known, or none belongs there */
    bool chunked;
    bool close;
    int minor;              /* of the request; HTTP/1.0 is informed where the connection stays */
    struct evbuffer *extra; /* further header lines, each with its end; NULL: none */
};

/* Adds the status line, the headers and the blank line; moves extra. */
void http_render_head(struct evbuffer *out, const struct http_response *response);
/* A line of extra; control bytes of the value become spaces. */
void http_render_header(struct evbuffer *extra, const char *name, const char *value);
/* A complete reply that closes the connection; the server's own, in place of a handler's. */
void http_render_refusal(struct evbuffer *out, int status, const char *detail);
/* The index of a status in the table of refusals. */
size_t http_refusal_index(int status);
