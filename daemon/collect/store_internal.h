/* SPDX-License-Identifier: Apache-2.0 */
/* What store.c, store_budget.c, store_columns.c and remove.c share. */
#pragma once

#include "daemon/collect/store.h"

/* What is on its way into the store, of one holder. */
struct incoming {
    int64_t holder, bytes;
};

struct store {
    const struct store_settings *settings;
    struct catalog *catalog;
    struct offload *offload;
    uint64_t n_incoming;
    int64_t incoming_bytes; /* of the files that are on their way in */
    struct incoming *incoming;
    size_t n_incoming_holders, cap_incoming;
    int64_t lent_bytes;  /* of the disk, to columns that are being written */
    unsigned n_removals; /* of large files, in progress */
    uint64_t n_evictions;
    void (*idle)(void *arg);
    void *idle_arg;
    bool closing;
};

/* The name of a fresh file in that directory. */
char *incoming_path(struct store *s, const char *dir);
/* A fresh file in that directory, which store_new() removes where it is left behind. */
int open_incoming(struct store *s, const char *dir, int *ret_fd, char **ret_path);
/* store_budget.c: adds bytes, or removes them if negative, to what is being written for a holder. */
void budget_incoming(struct store *s, int64_t holder, int64_t bytes);
/* What goes with a trace that a budget takes: all of it, or only what is profd's own. */
int64_t room_of(const struct trace_record *t);
/* Not committed: the columns go from the row, whose trace stays where it is. */
int drop_columns(struct store *s, int64_t trace_id);
/* What a row that is gone leaves behind. */
void unlink_files(const struct store *s, const struct trace_record *t);
/* The row and its event, not committed. */
int remove_row(struct store *s, const struct trace_record *t, const char *actor);
