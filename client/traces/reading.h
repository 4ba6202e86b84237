/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a trace file of this machine into columns, by a profd-ingest of its own (proto/ingest.h): what is in
 * the file is looked at in that process only, which has no rights.
 *
 * Blocks until it is done; a terminal sees how far it is. Ctrl-C and SIGTERM end it with -EINTR, and the
 * child with it.
 */
#pragma once

#include "client/verb.h"

struct reading {
    int source_fd, columns_fd; /* stay the caller's; columns_fd is an empty file */
    const char *name;          /* of the source, for people */
    int64_t memory_max;        /* OPTION_ABSENT: profd-ingest's own */
};

/* 0 with the facts (proto/ingest.h) where there are columns now, also those of a trace that is damaged:
 * "state" says so. Else the problem. */
int reading_run(struct client *c, const struct reading *reading, json_t **ret_facts, struct problem *p);
