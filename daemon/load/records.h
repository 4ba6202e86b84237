/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a benchmark run's requests, and its progress while it runs. Records are stored by index and
 * written in the order in which requests ended; all are kept until the summary is made, within RECORDS_BYTES_MAX.
 */
#pragma once

#include "base/json.h"

/* Separate populations: no figure mixes them. */
enum outcome {
    OUTCOME_SUCCESS,
    OUTCOME_INCOMPLETE, /* tokens arrived, but no end: cut by the run's end, the server, or a deadline */
    OUTCOME_ERROR,
    _OUTCOME_MAX,
};

enum token_source {
    TOKENS_UNKNOWN,
    TOKENS_USAGE,     /* counted by the server */
    TOKENS_TOKENIZED, /* counted by the worker's /tokenize */
    TOKENS_CHUNKS,    /* one for each event of the stream that carried text */
    TOKENS_ESTIMATED, /* from the text's length */
    _TOKENS_MAX,
};

extern const char *const outcome_words[_OUTCOME_MAX];
extern const char *const token_source_words[_TOKENS_MAX];

/* Moments are nanoseconds of CLOCK_MONOTONIC since the run's start; -1 means "did not happen". */
struct request_record {
    int64_t index;                       /* in order of intended sending, from 0 */
    int64_t prompt;                      /* index of the prompt, from 0; synthetic ones count too */
    int32_t target;                      /* index into the run's targets */
    bool cold;                           /* the first request of the run to its target */
    int64_t intended_ns;                 /* when it should have been sent: latencies count from here */
    int64_t sent_ns;                     /* first byte sent */
    int64_t first_ns;                    /* first token */
    int64_t last_ns;                     /* last token */
    int64_t end_ns;                      /* end of the response */
    int64_t input_tokens, output_tokens; /* -1 unknown */
    enum token_source input_source, output_source;
    enum outcome outcome;
    int status;        /* HTTP, 0 without a response */
    const char *error; /* static, or owned by the records; NULL: none */
    /* n_gaps times between events that carried tokens, each rounded from exact moments */
    uint32_t *gaps_us;
    uint32_t n_gaps;
};

/* -- The store ---------------------------------------------------------------------------------------- */

struct load_target;
struct messages;
struct request;

#define RECORDS_BYTES_MAX (INT64_C(4) << 30)

/* A response whose tokens no server counted: its request is written once they are counted (tokenizer.h). */
struct kept_text {
    int64_t index;
    char *text; /* JSON-escaped, without quotes */
    size_t size;
};

struct load_records {
    int64_t started_ns, ended_ns; /* of the run, by CLOCK_MONOTONIC */
    struct request_record *items; /* n of them, by index */
    size_t n, cap;
    int64_t *ended; /* indexes, in the order in which requests ended */
    size_t n_ended, n_written, ended_cap;
    struct kept_text *kept;
    size_t n_kept, kept_cap;
    int64_t bytes, kept_bytes;
    char **errors; /* texts that records borrow */
    size_t n_errors, errors_cap;
};

void load_records_done(struct load_records *rs);
/* Takes the record's gaps and the response's text; its moments become relative to the run's start. */
void load_records_add(struct load_records *rs, struct request *r);
/* Gives up the kept texts: their requests are written as they are. */
void load_records_release_texts(struct load_records *rs);
bool load_records_full(const struct load_records *rs);
/* Writes as many as the reader accepts; true when all have been written. */
bool load_records_write(struct load_records *rs, struct messages *m, const struct load_target *targets);

/* -- Progress: a line a second about the last requests only; the summary covers all -------------------- */

#define PROGRESS_REQUESTS 1024 /* latest requests that percentiles are computed from */
/* Lines whose mean is the token rate: within one second it swings with the events of the streams. */
#define PROGRESS_LINES 5

struct progress_values {
    int64_t ns[PROGRESS_REQUESTS]; /* a ring */
    size_t n;                      /* ever added */
};

/* A zeroed one is ready. Each event of a stream counts as one token until its request's end gives the number. */
struct progress {
    int64_t done, errors;
    int64_t tokens_seen; /* the reader of responses adds to it */
    struct {
        int64_t elapsed_ns, tokens;
    } lines[PROGRESS_LINES]; /* a ring of the last lines */
    size_t n_lines;          /* ever written */
    struct progress_values ttft, e2e;
};

/* A request that ended; tokens_seen of its tokens are in p->tokens_seen already. Moments may be of any one clock. */
void progress_add(struct progress *p, const struct request_record *r, int64_t tokens_seen);
json_t *progress_line(struct progress *p, int64_t elapsed_ns);
