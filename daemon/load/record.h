/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of one request of a run: plain data, written by who sends, read by who counts.
 *
 * Moments are nanoseconds of CLOCK_MONOTONIC since the run's first intended request; -1 is "did not come".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Separate populations: nothing of one enters a figure of another. */
enum outcome {
    OUTCOME_SUCCESS,
    OUTCOME_INCOMPLETE, /* tokens came, but no end: cut by the run's end, the server, or a deadline */
    OUTCOME_ERROR,
    _OUTCOME_MAX,
};

enum token_source {
    TOKENS_UNKNOWN,
    TOKENS_USAGE,     /* the server counted */
    TOKENS_TOKENIZED, /* the worker's /tokenize did */
    TOKENS_CHUNKS,    /* one for each event of the stream that carried text */
    TOKENS_ESTIMATED, /* from the text's length */
};

struct request_record {
    int64_t index;                       /* in order of intended sending, from 0 */
    int64_t prompt;                      /* which prompt, from 0; synthetic ones count too */
    int32_t target;                      /* index into the order's targets */
    bool cold;                           /* the first of the run to its target */
    int64_t intended_ns;                 /* when it should have left: latencies count from here */
    int64_t sent_ns;                     /* when its first byte left */
    int64_t first_ns;                    /* first token */
    int64_t last_ns;                     /* last token */
    int64_t end_ns;                      /* the answer's end */
    int64_t input_tokens, output_tokens; /* -1 unknown */
    enum token_source input_source, output_source;
    enum outcome outcome;
    int status;        /* HTTP, 0 where none came */
    const char *error; /* static or the run's; NULL where there is none */
    uint32_t
        *gaps_us; /* between events that carried tokens: n_gaps of them, rounded from moments that are not */
    uint32_t n_gaps;
};
