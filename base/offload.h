/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may block (a scan of /proc, a directory on NFS, a checkpoint) on a thread, its end on the event
 * loop.
 *
 * A fixed number of threads takes jobs in order of arrival. The work function must touch nothing that
 * the loop's thread also uses; its argument belongs to it until done() runs. Both always run, once, also
 * while closing.
 */
#pragma once

#include <event2/event.h>

struct offload;

int offload_new(struct event_base *base, unsigned n_threads, struct offload **ret);
/* Waits for jobs under way, runs their done(), then ends the threads. */
struct offload *offload_free(struct offload *o);
/*
 * Waits until no job is left, those that done() functions add included, and runs their done(). For whoever is
 * about to free what jobs and their done() functions work on.
 */
void offload_drain(struct offload *o);
void offload_run(struct offload *o, void (*work)(void *arg), void (*done)(void *arg), void *arg);
