/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and benchmark runs as jobs of profd: listed, created, waited for, stopped, in the same way and with the
 * same messages. An id tells the kind: s7 is a session, r3 a benchmark run.
 *
 * Functions print their errors and return an exit status; JSON that they return is the caller's.
 */
#pragma once

#include "client/local/worker_options.h"
#include "client/transport/connection.h"
#include "client/views/json_table.h"

/* A list of jobs, as a verb prints it. */
struct job_list {
    const char *path, *member;        /* "/v1/runs", and the member of the response: "runs" */
    const struct option_set *options; /* with the members of the query */
    const struct json_column *columns;
    size_t n_columns;
    const char *empty; /* printed if the list is empty */
};
int job_list_print(struct client *c, const struct job_list *list);

/* Creates one: kind is 's' or 'r', source says in words where its workers come from. The id into ref (at least
 * REF_TEXT_MAX bytes). */
int job_create(struct client *c, char kind, const char *source, const json_t *request, char *ref,
               json_t **ret);
/* Prints the id of one that is not waited for, or the response as JSON. */
int job_print_created(struct client *c, const char *ref, const json_t *answer);

struct job_end {
    json_t *job;      /* its last JSON; NULL: it was not created, or cannot be read */
    bool was_stopped; /* by the user */
    bool was_left;    /* by the user: it continues in profd, which was printed */
};

/* Waits for its end on stderr: Ctrl-C stops it, a second one leaves it to profd. ret->job is set with EXIT_DONE. */
int job_wait(struct client *c, const char *ref, struct job_end *ret);
/* Stops it and, with wait, shows its end. */
int job_stop(struct client *c, const char *ref, bool wait);

/* Creates a benchmark run; prints its id and its load. */
int run_create(struct client *c, const struct source *source, const json_t *request, char *ref, json_t **ret);
/* The same, then waits for its end. */
int run_measure(struct client *c, const struct source *source, const json_t *request, struct job_end *ret);

/* Creates a session and prints what begins. With wait, waits for its end and that of its load; else prints its id.
 * ret_recorded: NULL, or (at least REF_TEXT_MAX bytes) gets the id of a session that was waited for and has traces,
 * else "". */
int session_start(struct client *c, const char *source, const json_t *request, bool wait, char *ret_recorded);
