/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes an intake's full batches, packs them into runs and gives empty batches back; in a thread of its own,
 * so that scanning goes on meanwhile, or in the thread that scans.
 *
 * Few batches are in flight at a time: a scanner that is faster than the packing waits. Attached to one
 * intake, which must outlive it. Owns the runs.
 */
#pragma once

#include "trace/read/run.h"

struct packer;

int packer_new(struct intake *in, struct spill *spill, bool threaded, struct packer **ret);
struct packer *packer_free(struct packer *p);
/* Packs what the intake still holds and waits until all is done. 0 or the first error of intake and packing;
 * nothing may come into the intake afterwards. */
int packer_finish(struct packer *p);
/* In order of import; valid once the packer has finished. */
struct run **packer_runs(struct packer *p, size_t *ret_n);

DEFINE_CLEANUP(struct packer *, packer_free)
