/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The upload of one file to an archive, as the requests that it takes; the owner performs them, blocking or on an event
 * loop:
 *
 *     while (archive_upload_next(u, &request))
 *         perform it; archive_upload_take(u, &result); keep archive_upload_state(u)
 *
 * An object that is there already is compared by size and SHA-256, and never replaced; one that was sent is asked for by a
 * HEAD before the upload counts as done. A file of up to ARCHIVE_SINGLE_MAX is
 * one PUT; a larger one is sent in parts, and continues after a crash where its state was kept last: parts whose entity tags
 * the archive still has are not sent again. Nothing here blocks.
 */
#pragma once

#include "archive/archive.h"

struct archive_upload;

struct archive_file {
    const char *key;
    int fd;
    uint64_t size;
    const char *sha256; /* hex */
};

/* What the owner keeps for a resumption. */
struct archive_upload_state {
    char *upload_id;            /* NULL: none */
    struct archive_part *parts; /* with entity tag where it was sent; owned by the upload */
    size_t n_parts;
};

/* Borrows the texts of the file. kept: of an earlier attempt, copied; NULL: none. Each request has the timeout, and begins no
 * attempt later than patience_ns after its first (0: until the timeout). */
struct archive_upload *archive_upload_new(const struct archive_file *file,
                                          const struct archive_upload_state *kept, int64_t request_timeout_ns,
                                          int64_t patience_ns);
struct archive_upload *archive_upload_free(struct archive_upload *u);
DEFINE_CLEANUP(struct archive_upload *, archive_upload_free)

/* False: it is over. What the request points to lives until archive_upload_take(). */
bool archive_upload_next(struct archive_upload *u, struct archive_request *ret);
/* The result of that request; takes its problem. */
void archive_upload_take(struct archive_upload *u, struct archive_result *result);
const struct archive_upload_state *archive_upload_state(const struct archive_upload *u);

/* After it is over. 0, or a negative errno value with the problem, borrowed: -EEXIST if another object has the key. */
int archive_upload_result(const struct archive_upload *u, const struct problem **ret_problem);
/* Nothing was sent: the archive had it. */
bool archive_upload_existed(const struct archive_upload *u);
