/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks that people do by hand before they profile a fleet, each with its remedy. Pure over what a
 * discovery found and what is known of the disks; asking the disks may block and is a step of its own.
 */
#pragma once

#include "base/json.h"
#include "daemon/fleet/worker.h"

enum check_result { CHECK_OK, CHECK_WARN, CHECK_FAIL, CHECK_UNKNOWN, _CHECK_RESULT_MAX };

struct check {
    enum check_result result;
    char *worker; /* NULL: of the fleet, or of profd itself */
    unsigned n_workers;
    char *text;   /* of a worker: what follows its URL */
    char *remedy; /* NULL */
};

struct checks {
    struct check *items;
    size_t n, cap;
};

/* Directories on one file system that traces are written to, as profd sees them. */
struct place_space {
    char *path; /* the first of them */
    unsigned n_paths;
    bool temporary;       /* a worker's $TMPDIR */
    const char *a_worker; /* borrowed of the fleet: one that writes there */
    unsigned n_workers;
    int err;      /* why it cannot be looked at, or listed by profd; 0 */
    dev_t device; /* where err is 0, as is */
    int64_t free; /* bytes, for others than root */
};

struct place_spaces {
    struct place_space *items;
    size_t n, cap;
};

/* The directories of a fleet, each once. Borrows worker URLs. */
void place_spaces_of(const struct fleet *f, struct place_spaces *ret);
/* Blocks. Puts those together that share a file system, so that a thousand workers are one line. */
void place_spaces_look(struct place_spaces *s);
void place_spaces_done(struct place_spaces *s);

void fleet_check(const struct fleet *f, const struct place_spaces *spaces, struct checks *ret);

/* Takes no pointer. A check of a worker that equals one that is there is counted with it. */
void checks_add(struct checks *c, enum check_result result, const char *worker, const char *remedy,
                const char *format, ...) _printf_(5, 6);
void checks_done(struct checks *c);
/* As in openapi.yaml, schema Checks. */
json_t *checks_to_json(const struct checks *c);
