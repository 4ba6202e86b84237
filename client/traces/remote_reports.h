/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of traces that other hosts keep. Each host computes those of its engine instances (POST /v1/reports), and only
 * rows travel. What compares instances of several hosts, and an instance whose ranks are on several hosts, is computed
 * here from pages of the columns (remote_columns.h).
 */
#pragma once

#include "client/traces/analyzing.h"

struct remote_reports {
    struct client *c;
    const struct analyzing *options;
    int n_words;
    char **words;
    json_t *traces;  /* as the API shows them, of one session or as they were named */
    bool is_session; /* the only word */
    bool by_pages;   /* an instance is on several hosts */
    size_t n_hosts;  /* 0: no trace is on another host, or the options need all columns */
    size_t n_ranks;
    size_t n_left_out; /* of the ranks, after reports: traces that are gone, or whose host does not answer */
    /* After the first reports. */
    size_t n_instances;
    char *instance;             /* the name of the first */
    struct analyzed *by_column; /* opened when it is needed; NULL: not yet */
};

/* EXIT_DONE, or an exit status after the problem was printed. options are borrowed. */
int remote_reports_find(struct client *c, const struct analyzing *options, int n_words, char **words,
                        struct remote_reports *ret);
void remote_reports_done(struct remote_reports *r);
/* As reports_make(). An exit status. Traces that are left out were named in notes. */
int remote_reports_make(struct remote_reports *r, struct made_report *made, size_t n);
