/* SPDX-License-Identifier: Apache-2.0 */
/* The store's struct, and what its files share: store.c, store_retention.c, store_bulk_removal.c, columns.c. */
#pragma once

#include "daemon/collect/store.h"

/* Bytes on their way into the store, of one holder. */
struct incoming_bytes {
    int64_t holder, bytes;
};

struct store {
    const struct store_settings *settings;
    struct catalog *catalog;
    struct offload *offload;
    uint64_t n_incoming;
    int64_t incoming_bytes; /* of all holders */
    struct incoming_bytes *incoming;
    size_t n_incoming_holders, cap_incoming;
    int64_t lent_bytes;  /* of the disk, to columns that are being written */
    unsigned n_removals; /* large ones, in progress */
    uint64_t n_evictions;
    const struct store_archive *archive; /* NULL: none */
    void (*idle)(void *arg);
    void *idle_arg;
    bool closing;
};

/* Path of a new file in that directory, which store_new() removes where it is left over. */
char *store_incoming_path(struct store *s, const char *dir);
int store_open_incoming(struct store *s, const char *dir, int *ret_fd, char **ret_path);
/* Bytes of the budget that a trace takes: its columns, and its file where that is in the store. */
int64_t store_trace_bytes(const struct trace_record *t);
/* Not committed: removes the columns from a row whose trace stays. */
int store_drop_columns(struct store *s, int64_t trace_id);
/* The files of a row that was removed. */
void store_unlink_files(const struct store *s, const struct trace_record *t);
/* Not committed: the row of an archived trace no longer has its file and its columns, which are then to be unlinked. */
int store_leave_to_archive(struct store *s, int64_t trace_id, const char *actor);
/* The row and its event, not committed. */
int store_remove_row(struct store *s, const struct trace_record *t, const char *actor);

/*
 * Chooses the holder that loses a trace when the store is full: a policy over numbers alone, without I/O.
 *
 * Each holder (a user; a worker where owners are unknown) has a share. The holder that is most above its share
 * loses its oldest trace, also to a file of its own; one within its share loses nothing to others. While the
 * store is not full a share limits nobody.
 */
struct retention_holder {
    int64_t used;   /* bytes, with those of the incoming file if it is the holder's */
    bool removable; /* it has a trace that is not pinned, of a session that is over */
    /* The caller's: */
    int64_t holder;
    struct trace_position chosen; /* its last trace that was chosen for removal */
};
/* The share of each of n holders in a store of that capacity: an equal part, or per_user bytes where that is
 * less. per_user 0: not set. */
int64_t retention_share(int64_t capacity, size_t n, int64_t per_user);
/* The holder whose oldest trace goes next; -1: none, and the file is refused. */
ssize_t retention_next(const struct retention_holder *holders, size_t n, int64_t share);
