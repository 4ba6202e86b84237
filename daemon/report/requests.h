/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of benchmark runs for other programs ([archive] slices=parquet): when a run has ended, its rows are written as
 * a Parquet file, part by part on a thread, and handed to the archive.
 */
#pragma once

#include "base/offload.h"

struct catalog;
struct requests;

/* As slices_new() (slices.h). */
int requests_new(struct event_base *base, struct catalog *catalog, struct offload *offload,
                 const int *is_wanted, const char *state_dir, struct requests **ret);
/* wake() is called for each file that the archive may take. */
void requests_set_wake(struct requests *q, void (*wake)(void *arg), void *arg);
/* Nothing is begun from here on. What is not written waits for the next start. */
void requests_close(struct requests *q);
/* After the catalog and the threads have ended. */
struct requests *requests_free(struct requests *q);
