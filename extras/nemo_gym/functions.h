/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profctl functions`: functions and their cost as profd returns them, sorted, compared, explained and printed; and the
 * rollouts that run while a session records. Rows borrow from the JSON of the response.
 */
#pragma once

#include "client/local/worker_options.h"
#include "client/transport/connection.h"

/* -- function_rows.c: pure ---------------------------------------------------------------------------- */

struct function_row {
    const char *worker, *name, *file; /* never NULL */
    int64_t line;
    int64_t calls;            /* 0: unknown */
    int64_t tsub_ns, ttot_ns; /* without and with callees */
    int64_t tavg_ns;          /* ttot_ns of a call */
};

struct function_rows {
    struct function_row *items;
    size_t n;
    size_t n_workers; /* different ones */
};

/* From the "functions" of a response; invalid items are left out. */
void function_rows_take(const json_t *answer, struct function_rows *ret);
void function_rows_done(struct function_rows *r);

/* The largest first, by "ttot", "tsub", "ncall" or "tavg"; -EINVAL for another key, with nothing done. */
#define FUNCTION_SORT_KEYS "ttot, tsub, ncall, tavg"
int function_rows_sort(struct function_rows *r, const char *key);
/* Time of all functions of a worker: the sum of tsub_ns, or the largest ttot_ns if that is more, because built-in
 * functions have no rows, and rows may be of one program only. */
int64_t function_rows_total_ns(const struct function_rows *r, const char *worker);
/* Negative, 0, positive: an order by file and name, regardless of line and worker. */
int function_row_compare(const struct function_row *a, const struct function_row *b);

/* A function in two profiles: the same file and name. The line and the server's port may differ. */
struct function_change {
    struct function_row before, after; /* one of them may have zeros only */
};
struct function_changes {
    struct function_change *items;
    size_t n;
};
/* The largest change of ttot first; rows of one function are summed. Borrows the texts of the rows. */
void function_changes_make(const struct function_rows *before, const struct function_rows *after,
                           struct function_changes *ret);
void function_changes_done(struct function_changes *c);
int64_t function_change_ns(const struct function_change *c); /* of ttot */

/* -- function_findings.c: pure ------------------------------------------------------------------------ */

/* A pattern that a function may match. Thresholds are shares of the time of all functions of the worker. */
struct function_rule {
    const char *name, *title, *advice; /* "high-tsub"; the others are for people */
    bool (*matches)(const struct function_row *f, double total_ns);
    bool by_tsub; /* the share is that of tsub_ns, else that of ttot_ns */
};
struct function_finding {
    const struct function_rule *rule;
    const struct function_row *function; /* borrowed */
    double share;                        /* of the time of all functions, 0 to 1 */
};
struct function_findings {
    struct function_finding *items;
    size_t n, cap;
};
/* By rule, the largest share first. Functions of the profiler itself are left out. */
void function_findings_make(const struct function_rows *rows, struct function_findings *ret);
void function_findings_done(struct function_findings *f);
/* "score 53 %: ttot 16 ms, tsub 13 ms, 24 calls of 673 us". The caller frees it. */
char *function_finding_text(const struct function_finding *f);

/* -- function_print.c: `top` is the maximum number of rows, 0 for all --------------------------------- */

/* A table in the format of the client. An exit status. */
int function_rows_print(struct client *c, const struct function_rows *rows, size_t top);
/* The same as text, for a screen that is redrawn. The caller frees it. */
char *function_table_text(struct client *c, const struct function_rows *rows, size_t top);
json_t *function_rows_to_json(const struct function_rows *rows, size_t top);
/* Findings, and what the times include. */
void function_findings_print(struct client *c, const struct function_rows *rows, const json_t *answer);
json_t *function_findings_to_json(const struct function_rows *rows);
/* Servers without functions, on stderr. */
void function_reasons_print(struct client *c, const json_t *answer);
int function_changes_print(struct client *c, const struct function_changes *changes, const char *before,
                           const char *after, size_t top);
json_t *function_changes_to_json(const struct function_changes *changes, const char *before,
                                 const char *after, size_t top);

/* -- baselines.c: profiles that the user saved under a name, a JSON file each, in $XDG_STATE_HOME/profd/functions (else
 * ~/.local/state). They outlive the catalog, and can be compared with profiles of another profd. -- */

#define BASELINE_NAME_MAX 64

/* Replaces one of that name in one step. -EINVAL for an invalid name (letters, digits and "._-", and no id of a
 * session), and the errors of files. */
int baseline_save(const char *name, const json_t *answer, struct problem *p);
/* The caller drops *ret. -ENOENT, -EPROTO: not such a file. */
int baseline_load(const char *name, json_t **ret, struct problem *p);

/* -- rollouts.c: rollouts that are sent while a session records --------------------------------------- */

#define ROLLOUTS_AT_ONCE 8

struct rollout_options {
    const char *file, *agent, *output; /* agent and output may be NULL */
    int64_t limit, at_once, longest_ns;
};
/* Starts a session, sends all rollouts, stops the session, and waits for its end. Its id into ret. Returns the exit
 * status of the session, or EXIT_PARTIAL if rollouts failed. */
int rollout_session(struct client *c, const struct source *source, const struct rollout_options *o,
                    char ret[static REF_TEXT_MAX]);
