/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of profd-ingest: reads a file once, from its beginning to its end, and on the way copies, hashes,
 * unpacks and looks at it. Everything that needs a file or the random source is done by check_new(), before
 * the sandbox; check_run() reads and writes its two descriptors, and nothing else.
 */
#pragma once

#include "base/json.h"

struct check;

/* dest_fd may be -1. The descriptors stay the caller's. */
int check_new(int source_fd, int dest_fd, int64_t size_max, struct check **ret);
struct check *check_free(struct check *c);
/* The result as protocol.h describes it; the caller owns it. */
json_t *check_run(struct check *c);

DEFINE_CLEANUP(struct check *, check_free)
