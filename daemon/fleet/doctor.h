/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks that people do by hand before they profile a fleet, each with its remedy. Pure over what a
 * discovery found and what is known of the disks; asking the disks may block and is a step of its own.
 */
#pragma once

#include "base/json.h"
#include "daemon/fleet/worker.h"

enum check_result { CHECK_OK, CHECK_WARN, CHECK_FAIL, CHECK_UNKNOWN, _CHECK_RESULT_MAX };

/* How much of a worker's own a text keeps; see worker_generic_text(). */
enum check_wording { WORDING_OWN, WORDING_WITHOUT_NUMBERS, WORDING_WITHOUT_DIR, _CHECK_WORDING_MAX };

struct doctor_check {
    enum check_result result;
    char **workers; /* URLs of those that it is true of; none: of the fleet, or of profd itself */
    size_t n_workers, cap_workers;
    /* Of the first worker, in each wording; `wording` is the most particular one that is true of all. */
    char *text[_CHECK_WORDING_MAX];
    char *remedy[_CHECK_WORDING_MAX]; /* NULL */
    enum check_wording wording;
};

struct checks {
    struct doctor_check *items;
    size_t n, cap;
};

/* Directories on one file system that traces are written to, as profd sees them. */
struct directory_space {
    char *path; /* the first of them */
    unsigned n_paths;
    bool temporary;       /* a worker's $TMPDIR */
    const char *a_worker; /* borrowed of the fleet: one that writes there */
    unsigned n_workers;
    int err;      /* why it cannot be looked at, or listed by profd; 0 */
    dev_t device; /* where err is 0, as is */
    int64_t free; /* bytes, for others than root */
};

struct directory_spaces {
    struct directory_space *items;
    size_t n, cap;
};

/* The directories of a fleet, each once. Borrows worker URLs. */
void directory_spaces_of(const struct fleet *f, struct directory_spaces *ret);
/* Blocks. Puts those together that share a file system, so that a thousand workers are one line. */
void directory_spaces_look(struct directory_spaces *s);
void directory_spaces_done(struct directory_spaces *s);

void fleet_check(const struct fleet *f, const struct directory_spaces *spaces, struct checks *ret);

/* Takes no pointer. worker may be NULL. A check of a worker that differs from one that is there only in what
 * is the worker's own joins it. The text follows "http://worker:1: ". */
void checks_add(struct checks *c, enum check_result result, const struct worker *worker, const char *remedy,
                const char *format, ...) _printf_(5, 6);
/* "http://worker:1" or "3 workers"; the caller frees it. */
char *check_subject(const struct doctor_check *c);
void checks_done(struct checks *c);
/* As in openapi.yaml, schema Checks. */
json_t *checks_to_json(const struct checks *c);
