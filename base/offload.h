/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may block (a scan of /proc, a directory on NFS, a checkpoint) on a thread, its end on the event
 * loop.
 *
 * A few threads take jobs in order of arrival. What waits for a server that does not answer holds its thread
 * for as long as it likes: jobs of one lane run one after another, so that what hangs holds one thread and
 * those behind it in its lane; and a thread that is held for long is replaced, up to a limit. The work
 * function must touch nothing that the loop's thread also uses; its argument belongs to it until done() runs.
 * Both always run, once, also while closing, but for what a drain gave up.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#define OFFLOAD_THREADS_MAX 16
/* Of jobs that need wait for no others. */
#define OFFLOAD_NO_LANE UINT64_C(0)

struct offload;

int offload_new(struct event_base *base, unsigned n_threads, struct offload **ret);
/* Waits for jobs under way, runs their done(), then ends the threads. */
struct offload *offload_free(struct offload *o);
/*
 * Waits until no job is left, those that done() functions add included, and runs their done(). For whoever is
 * about to free what jobs and their done() functions work on. -ETIMEDOUT where some are under way or wait at
 * the deadline: what they work on must then stay, as must the offload, until the process ends.
 */
int offload_drain(struct offload *o, int64_t deadline_ns);
void offload_run(struct offload *o, void (*work)(void *arg), void (*done)(void *arg), void *arg);
void offload_run_in(struct offload *o, uint64_t lane, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg);

/* The lane of a file system, by its st_dev; that of a directory, or of the files in one, whose file system is
 * not known. Pure. */
uint64_t offload_lane_of_device(uint64_t device);
uint64_t offload_lane_of_dir(const char *path);
uint64_t offload_lane_of_file(const char *path);
