/* SPDX-License-Identifier: Apache-2.0 */
/* The events of all runs in order of time; those at one time as run.h says. */
#pragma once

#include "trace/read/merge.h"

struct queue;

int queue_new(const struct merge_input *inputs, size_t n_inputs, struct spool *spool, struct queue **ret);
struct queue *queue_free(struct queue *q);
/* A cursor at the next event, NULL behind the last. Cursors live as long as the queue. */
struct run_cursor *queue_head(const struct queue *q);
/* Which input the head comes from. */
size_t queue_input(const struct queue *q);
int queue_next(struct queue *q);

DEFINE_CLEANUP(struct queue *, queue_free)
