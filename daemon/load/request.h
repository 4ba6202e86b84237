/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to one target, from its body to its record, and what is learned of its response while the bytes arrive:
 * when its tokens came, how many there are, whether it ended properly.
 */
#pragma once

#include "base/sse.h"
#include "daemon/load/http_pool.h"
#include "daemon/load/prompts.h"

/* -- The response: pure, the caller passes bytes and the time ----------------------------------------- */

#define RESPONSE_BYTES_MAX (64u << 20)
#define RESPONSE_TEXT_MAX  (64u << 10) /* kept to count its tokens */
#define RESPONSE_ERROR_MAX 300
#define RESPONSE_GAPS_MAX  WORKLOAD_TOKENS_MAX

enum response_form {
    RESPONSE_COMPLETE, /* one object, or the text of an error */
    RESPONSE_EVENTS,   /* text/event-stream */
    RESPONSE_LINES,    /* one object a line */
};

/* Bounded by its bytes here, and by time elsewhere. A zeroed one with api and workload is ready for its head. */
struct response {
    const struct server_api *api;
    const struct workload *workload;
    bool keep_text;

    enum response_form form;
    int status;
    size_t bytes;
    struct sse sse;
    char *body; /* of a complete response, or the unfinished line */
    size_t body_size, body_cap;

    int64_t first_ns, last_ns; /* 0: no token */
    uint32_t *gaps_us;
    uint32_t n_gaps, gaps_cap;
    int64_t input_tokens, output_tokens; /* counted by the server; 0: not counted */
    bool finished, last_event;
    size_t text_bytes; /* of all text so far */
    char *text;        /* JSON-escaped, without quotes */
    size_t text_size, text_cap;
    char error[RESPONSE_ERROR_MAX];
    int64_t now_ns; /* when the bytes being read arrived */
};

void response_done(struct response *a);
/* content_type may be NULL. */
void response_head(struct response *a, int status, const char *content_type);
/* False: stop reading, see a->error. */
bool response_feed(struct response *a, const char *bytes, size_t size, int64_t now_ns);
/* The server ended it as HTTP requires. */
void response_end(struct response *a);
/* Of an ended response; where it is not a success, a->error is the reason. */
enum outcome response_outcome(struct response *a);
/* Events that carried tokens; 0 of a response that is not streamed. */
int64_t response_tokens_seen(const struct response *a);
/* The number of output tokens, and who counted them. */
int64_t response_output_tokens(const struct response *a, enum token_source *ret);

/* -- The request -------------------------------------------------------------------------------------- */

struct request;
struct request_setup {
    const struct server_api *api;
    const struct prompts *prompts;
    const char *model;
    int64_t index;
    int64_t *tokens_seen;                       /* grows as tokens arrive; may be NULL */
    void (*done)(struct request *r, void *arg); /* then owns it */
    void *arg;
};

struct request {
    struct request_setup setup;
    char *body; /* until it is sent; NULL: it has none that can be sent */
    size_t body_size;
    struct load_target *target;
    struct request_record record; /* its moments are of CLOCK_MONOTONIC */
    struct response response;
    int64_t retry_after_ns; /* asked for by the server; 0 */
};

/* For the pool that requests are sent by. */
extern const struct http_pool_ops request_ops;

/* Ready to be sent: making its body may take longer than sending it. */
struct request *request_new(const struct request_setup *setup);
/* It ends in done(), never before this returns. False: it could not be sent, and its record is that of one that failed. The
 * target has the API of the setup; target_index is for the record. */
bool request_send(struct request *r, struct http_pool *pool, struct load_target *target, int32_t target_index,
                  int64_t intended_ns);
void request_free(struct request *r);
