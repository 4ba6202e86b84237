/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark runs that one argument names: "r3", "r3,r4,r5", or by labels, "job=nightly". A name that is not a
 * label is a member of the workload: "job=nightly,concurrency=8".
 */
#pragma once

#include "client/transport/connection.h"

#define RUN_GROUP_MAX 100

/* A list of runs that have figures, all of one workload, the caller's. An exit status. */
int run_group_get(struct client *c, const char *word, json_t **ret);
/* "r3, r4, r5" as text; "r3,r4,r5" as an argument of profctl. The caller's. */
char *run_group_text(const json_t *runs);
char *run_group_words(const json_t *runs);
