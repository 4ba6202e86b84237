/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is learned of one answer while its bytes arrive: when its tokens came, how many they are, whether it
 * ended as it should. Pure: the caller brings bytes and the time.
 *
 * An answer is bounded by its bytes here, and by time elsewhere. A zeroed one with api and workload set is
 * ready for its head; answer_done() frees what it holds.
 */
#pragma once

#include "base/sse.h"
#include "daemon/load/api.h"
#include "daemon/load/record.h"

#define ANSWER_BYTES_MAX (64u << 20)
#define ANSWER_TEXT_MAX  (64u << 10) /* kept for counting its tokens */
#define ANSWER_ERROR_MAX 300
#define ANSWER_GAPS_MAX  WORKLOAD_TOKENS_MAX

enum answer_form {
    ANSWER_WHOLE,  /* one object, or the words of an error */
    ANSWER_EVENTS, /* text/event-stream */
    ANSWER_LINES,  /* one object a line */
};

struct answer {
    const struct api *api;
    const struct workload *workload;
    bool keep_text;

    enum answer_form form;
    int status;
    size_t bytes;
    struct sse sse;
    char *body; /* of a whole answer, or the line that is not finished */
    size_t body_size, body_room;

    int64_t first_ns, last_ns; /* 0: no token */
    uint32_t *gaps_us;
    uint32_t n_gaps, gaps_room;
    int64_t input_tokens, output_tokens; /* of the server; 0: it did not say */
    bool finished, last_event;
    size_t text_bytes; /* of all text so far */
    char *text;        /* as JSON has it, without quotes */
    size_t text_size, text_room;
    char error[ANSWER_ERROR_MAX];
    int64_t now_ns; /* of the bytes that are being looked at */
};

void answer_done(struct answer *a);
/* content_type may be NULL. */
void answer_head(struct answer *a, int status, const char *content_type);
/* False: enough, see a->error. */
bool answer_feed(struct answer *a, const char *bytes, size_t size, int64_t now_ns);
/* The server ended it, as HTTP wants an answer to end. */
void answer_end(struct answer *a);
/* Of an ended answer; what is no success has its words in a->error. */
enum outcome answer_outcome(struct answer *a);
/* Events that carried tokens; 0 of an answer that comes whole, of which only the end is seen. */
int64_t answer_tokens_seen(const struct answer *a);
/* Who counted its output, and how many those are. */
int64_t answer_output_tokens(const struct answer *a, enum token_source *ret);
