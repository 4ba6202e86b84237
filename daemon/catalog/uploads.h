/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the archive is to have: traces of the store that it does not have yet, and files that others hand over. A trace needs
 * no row to wait for its upload; its row in upload_row begins with the transfer and ends with it.
 */
#pragma once

#include "daemon/catalog/records.h"

/* Begins the path of a trace of which only the archive has the file: "archive:KEY#t12". */
#define ARCHIVED_PATH "archive:"

enum upload_kind {
    UPLOAD_TRACE,
    UPLOAD_SLICES,   /* a Parquet file of a session or a benchmark run (docs/parquet.md) */
    UPLOAD_MANIFEST, /* of a session; the path is empty: it is written from the catalog */
    _UPLOAD_KIND_MAX,
};
const char *upload_kind_name(enum upload_kind k);

struct upload_record {
    int64_t upload_id; /* RECORD_NONE: no row yet */
    enum upload_kind kind;
    int64_t trace_id, session_id; /* RECORD_NONE: none */
    char *path, *key;             /* key: NULL before it is known */
    int64_t size;
    char *sha256; /* NULL: not known */
    char *s3_upload_id,
        *parts; /* of a transfer in parts: its id, and the entity tags as a JSON array; NULL: none */
    int64_t tries, next_at; /* failures in a row; next_at RECORD_NONE: at once */
    char *error;            /* of the last try */
    int64_t wanted_at;
    char *name;        /* of a trace: its file's name */
    int64_t disk_size; /* of a trace */
};
void upload_record_done(struct upload_record *u);

/* Adds a file (session_id or none, path, key; kind not UPLOAD_TRACE), instead of an earlier one of that kind and key. The file is
 * removed when the archive has it. */
int catalog_want_upload(struct catalog *c, const struct upload_record *u);
/* Saves it; one without a row gets one. Where another version was wanted meanwhile, the row stays that one's. */
int catalog_save_upload(struct catalog *c, struct upload_record *u);
/* 1; 0: another version was wanted meanwhile, whose row stays. */
int catalog_remove_upload(struct catalog *c, const struct upload_record *u);
/* Hands on at most `limit` uploads that are due: what began first, what failed last. fn() returns 1 to end. */
int catalog_each_upload(struct catalog *c, int64_t now, int64_t limit,
                        int (*fn)(const struct upload_record *u, void *arg), void *arg);
/* Traces whose last try failed. */
int catalog_each_refused_upload(struct catalog *c, int64_t limit,
                                int (*fn)(const struct upload_record *u, void *arg), void *arg);
/* When the next upload that failed, and could begin, is due; RECORD_NONE: there is none. */
int64_t catalog_next_upload_at(struct catalog *c);

/* Traces of the store that the archive does not have. */
struct upload_lag {
    int64_t files, bytes;
    int64_t oldest_at; /* when the first of them was collected; RECORD_NONE: there is none */
};
int catalog_upload_lag(struct catalog *c, struct upload_lag *ret);
/* Whether the archive does not have all traces of the session that were collected after `since` yet; false without one. */
int catalog_session_waits_for_archive(struct catalog *c, int64_t session_id, int64_t since, bool *ret);

/* The archive has the file: it was seen there. -ENOENT: the row has other bytes by now, or the file left the store. */
int catalog_set_archived(struct catalog *c, int64_t trace_id, const char *key, const char *sha256,
                         int64_t size, int64_t at);
/* The file of an archived trace is not in the store any more: changes the record, which is to be saved. */
void trace_leave_to_archive(struct trace_record *t);
/* The file is in the store again. -ENOENT: the row is gone or changed. */
int catalog_set_fetched(struct catalog *c, int64_t trace_id, const char *path, int64_t disk_size);
/* Whether a trace has that content. */
bool catalog_has_content(struct catalog *c, const char *sha256);

static inline bool trace_is_archived_only(const struct trace_record *t)
{
    return !t->stored && t->archived_at != RECORD_NONE && starts_with(t->path, ARCHIVED_PATH);
}
