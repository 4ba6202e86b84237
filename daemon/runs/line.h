/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of profd-load (proto/load.h), read and checked. Pure. The child reads answers of untrusted servers,
 * so its lines are validated: members of wrong types or sizes make a line invalid, and unknown members are
 * dropped.
 */
#pragma once

#include "base/json.h"
#include "daemon/catalog/records.h"

/* What is kept of its texts. */
#define LOAD_TEXT_MAX    1000
#define LOAD_URL_MAX     2048
#define LOAD_SUMMARY_MAX (4 << 20)

enum load_line_kind {
    LOAD_LINE_WARMED,
    LOAD_LINE_READY,
    LOAD_LINE_REQUEST,
    LOAD_LINE_LIVE,
    LOAD_LINE_NOTE,
    LOAD_LINE_FAILED,
    LOAD_LINE_END,
    _LOAD_LINE_MAX,
};

/* Strings belong to the line. */
struct load_line {
    enum load_line_kind kind;
    json_t *object;             /* warmed, live: the members that are theirs; end: the summary */
    struct request_row request; /* of LOAD_LINE_REQUEST, without its run */
    char *text, *remedy;        /* note, failed; ready: text is the model, or NULL */
};

/* -EINVAL with the reason (one line, the caller's) where it is none. */
int load_line_parse(const char *text, size_t size, struct load_line *ret, char **ret_reason);
void load_line_done(struct load_line *l);
