/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs the full batches of an intake into runs and returns empty batches, either in a thread of its own,
 * in parallel with the scanner, or in the thread of the scanner.
 *
 * Few batches are in flight at a time: a scanner that is faster than the packing waits. Attached to one
 * intake, which must outlive it. Owns the runs.
 */
#pragma once

#include "trace/read/run.h"

struct packer;

int packer_new(struct intake *in, struct spill *spill, bool threaded, struct packer **ret);
struct packer *packer_free(struct packer *p);
/* Packs the remaining events of the intake and waits until all runs are done. Returns 0 or the first error
 * of intake and packing; nothing may be added to the intake afterwards. */
int packer_finish(struct packer *p);
/* The runs in order of import; valid after the packer has finished. */
struct event_run **packer_runs(struct packer *p, size_t *ret_n);

DEFINE_CLEANUP(struct packer *, packer_free)
