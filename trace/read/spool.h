/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes kept until the end of a reading: in memory up to a budget, beyond that in a file without a name.
 *
 * Written once, in pieces, read back by place. Safe for several threads.
 */
#pragma once

#include "base/util.h"

struct spool;

/* spill_fd: an empty file, or -1: then memory_max is a limit (-ENOMEM beyond it). It stays the caller's. */
int spool_new(uint64_t memory_max, int spill_fd, struct spool **ret);
struct spool *spool_free(struct spool *s);
int spool_write(struct spool *s, const void *data, size_t size, uint64_t *ret_place);
int spool_read(struct spool *s, uint64_t place, void *data, size_t size);
uint64_t spool_memory(struct spool *s);

DEFINE_CLEANUP(struct spool *, spool_free)
