/* SPDX-License-Identifier: Apache-2.0 */
/* Which imported files look like the ranks of one run, although they are in no session. */
#pragma once

#include "client/cli/client.h"

struct ingest_group;

/* A zeroed one is ready. */
struct ingest_ranks {
    struct ingest_group *groups; /* one for each directory */
    size_t n, cap;
};

/* A trace that was imported from `path`, or was known already. */
void ingest_ranks_add(struct ingest_ranks *ranks, const char *path, const json_t *trace);
/* Names the directories whose traces a session could group, and the command. */
void ingest_ranks_note(struct client *c, const struct ingest_ranks *ranks);
void ingest_ranks_done(struct ingest_ranks *ranks);
