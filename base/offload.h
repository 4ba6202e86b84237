/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work that may block (a scan of /proc, a directory on NFS, a checkpoint) on a thread, and its done() on the
 * event loop.
 *
 * A few threads take jobs in order of arrival. A job that waits for a server that does not answer can hold its
 * thread without a limit. Jobs of one queue therefore run one after another, so that a hanging job holds one
 * thread and the later jobs of its queue; and a thread that is held for long is replaced, up to a limit. The work
 * function must touch nothing that the loop's thread also uses; its argument belongs to it until done() runs.
 * Both functions run exactly once, also while closing, except those of jobs that offload_drain() gave up.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#define OFFLOAD_THREADS_MAX 16
/* The queue of jobs that need not wait for each other. */
#define OFFLOAD_NO_QUEUE UINT64_C(0)

struct offload;

int offload_new(struct event_base *base, unsigned n_threads, struct offload **ret);
/* Waits for running jobs, runs their done(), then ends the threads. */
struct offload *offload_free(struct offload *o);
/*
 * Waits until no job is left, including those that done() functions add, and runs their done(). To be called
 * before the data of jobs and their done() functions is freed. -ETIMEDOUT if jobs are running or waiting at the
 * deadline: their data and the offload must then live until the process ends.
 */
int offload_drain(struct offload *o, int64_t deadline_ns);
void offload_run(struct offload *o, void (*work)(void *arg), void (*done)(void *arg), void *arg);
void offload_run_in(struct offload *o, uint64_t queue, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg);

/* The queue of a file system, by its st_dev; of a directory; of the files in a directory whose file system is
 * unknown. Pure. */
uint64_t offload_queue_of_device(uint64_t device);
uint64_t offload_queue_of_dir(const char *path);
uint64_t offload_queue_of_file(const char *path);
