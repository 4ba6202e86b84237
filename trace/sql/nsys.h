/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events out of a database that `nsys export --type sqlite` made: kernels, copies, sets, synchronisations,
 * calls of the CUDA runtime and driver, NVTX ranges and marks, calls of the operating system, overhead.
 *
 * The events are those that Kineto would have written: the same categories, GPU and stream as process and thread, the
 * full names of kernels, "Memcpy DtoH (Device -> Pageable)". Three things differ from nsys: names of runtime calls
 * have no version ("_v7000"); with several processes, the correlation ids of each process after the first are raised
 * by a multiple of NSYS_CORRELATION_STEP; and on a shared GPU its stream numbers by a multiple of NSYS_STREAM_STEP. In
 * nsys, both are unique within a process only. The offset of an event is its number in order of reading.
 *
 * The database is not trusted: only ordinary tables are read, no views and no virtual tables, and nothing in its
 * schema runs with trust. Columns are looked up by name, since they differ between versions of nsys: a missing column
 * is a missing value. It must be a rollback-journal database, as nsys writes.
 */
#pragma once

#include "trace/read/intake.h"

#define NSYS_CORRELATION_STEP (INT64_C(1) << 32)
#define NSYS_STREAM_STEP      1000000

/* Reads a complete database in memory, which is not changed. 0, also if a table is damaged: its rows before the damage
 * are read, the damage is counted as a defect, and the reason names the table. -EBADMSG with a reason: no events can be
 * read; -ENOMEM. */
int nsys_read(const void *data, size_t size, struct intake *intake, char *ret_reason, size_t reason_size);
