/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error that a person will read: what failed, where and why (one line), and what to do about it (further
 * lines).
 *
 * A function that can fail in a way worth explaining takes `struct problem *p` as its last argument, fills it
 * once, in the function that knows most, and returns a negative errno value. The API renders it as
 * application/problem+json, profctl as two lines on stderr. A zeroed struct is an empty problem;
 * problem_done() frees what it holds.
 */
#pragma once

#include "base/util.h"

/* Stable words that programs may compare; HTTP status and exit status follow from them (problem_kinds in
 * problem.c). */
enum problem_kind {
    PROBLEM_NONE,
    PROBLEM_INTERNAL,    /* 500 */
    PROBLEM_BAD_REQUEST, /* 400: the request itself is wrong */
    PROBLEM_NO_TOKEN,    /* 401: the token is missing or wrong */
    PROBLEM_DENIED,      /* 403 */
    PROBLEM_NOT_FOUND,   /* 404: no such session, trace, fleet */
    PROBLEM_BUSY,        /* 409: something else holds the worker */
    PROBLEM_CONFLICT,    /* 409: not possible in this state */
    PROBLEM_GONE,        /* 410: the catalog knows it, its file is gone */
    PROBLEM_TOO_LARGE,   /* 413 */
    PROBLEM_UNSUPPORTED, /* 422: an engine cannot honour an option */
    PROBLEM_NO_WORKERS,  /* 422: nothing left to profile */
    PROBLEM_UNCOLLECTED, /* 422: no trace of the recording could be collected */
    PROBLEM_TOO_MANY,    /* 429: a limit of profd */
    PROBLEM_UPSTREAM,    /* 502: a router or worker failed or sent an invalid response */
    PROBLEM_UNREACHABLE, /* 503: the host that has it does not answer */
    PROBLEM_STORAGE,     /* 507: disk full, read-only store, catalog not writable */
    _PROBLEM_KIND_MAX,
};

struct problem {
    enum problem_kind kind;
    char *what;
    char *remedy; /* NULL: none */
};

/* Sets p (which may be NULL) unless it is set already, and returns err, so that `return problem_set(...)`
 * reads well. */
int problem_set(struct problem *p, int err, enum problem_kind kind, const char *format, ...) _printf_(4, 5);
void problem_remedy(struct problem *p, const char *format, ...) _printf_(2, 3);
/* Sets p like problem_set(), to the text and remedy of another problem. */
int problem_copy(struct problem *p, int err, enum problem_kind kind, const struct problem *from);
void problem_done(struct problem *p);
const char *problem_code(enum problem_kind kind); /* "busy" */
int problem_http_status(enum problem_kind kind);
enum problem_kind problem_kind_of(const char *code); /* PROBLEM_INTERNAL for an unknown code */
