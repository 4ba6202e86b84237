/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at a server's statistics: the answer that its GET /stats gave, as a list of functions. Earlier
 * servers answer with the table; later ones with nothing, and have written files before they do.
 *
 * Texts of megabytes are parsed, and files read, on the offload's threads.
 */
#pragma once

#include "base/offload.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/worker.h"
#include "extras/nemo_gym/function_list.h"

#define SNAPSHOT_PATH      "/stats"
#define SNAPSHOT_BYTES_MAX (32 << 20)

struct snapshot {
    struct function_list *list; /* NULL: see problem. The receiver may take it */
    char *source;               /* "/stats", or the file's path; NULL with a problem */
    const struct problem *problem;
};

/*
 * Reads what a 200 answered, and takes its body. Where result is NULL (the server is gone), its files are all
 * there is. What is older than asked_at, wall time, is not taken. Copies what else it needs; done() comes
 * later, once, with a snapshot that is its own for that time.
 */
void snapshot_read(struct offload *offload, const struct worker *w, const struct call_result *result,
                   int64_t asked_at, void (*done)(struct snapshot *s, void *arg), void *arg);
