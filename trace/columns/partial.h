/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a columnar file that is there: the others are fetched when a page is first needed, before its checksum is
 * checked. The file is sparse and has its full size from the beginning, so that a mapping of it stays valid.
 *
 * What an earlier process has fetched into the same file is used, unless its checksum differs: then it is fetched again.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/columns/layout.h"

struct partial;

/* The file gets its size. fd must stay open as long as the object. */
int partial_new(int fd, uint64_t size, const struct columns_fetch *fetch, struct partial **ret);
struct partial *partial_free(struct partial *p);
/* Fetches what is missing of [offset, offset + size), and more that follows. 0, or the error of the fetch. */
int partial_need(struct partial *p, uint64_t offset, uint64_t size);
/* The pages of a range are not as they were written: fetches them again unless this process has fetched them itself.
 * Returns whether it has. */
bool partial_again(struct partial *p, uint64_t offset, uint64_t size);

DEFINE_CLEANUP(struct partial *, partial_free)
