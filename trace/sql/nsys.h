/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events out of a database that `nsys export --type sqlite` made: kernels, copies, sets, synchronisations,
 * calls of the CUDA runtime and driver, NVTX ranges and marks, calls of the operating system, overhead.
 *
 * They become what Kineto would have written: the same categories, GPU and stream as process and thread, a
 * kernel's full name, "Memcpy DtoH (Device -> Pageable)". Three things differ from the numbers of nsys: a runtime
 * call's name is without its version ("_v7000"), and where several processes were recorded, each after the
 * first has its correlation ids raised by a multiple of NSYS_CORRELATION_STEP and on a shared GPU its stream
 * numbers by one of NSYS_STREAM_STEP, for both are only unique within a process. The offset of an event is its
 * number in order of reading.
 *
 * The database is not trusted: only ordinary tables are read, never a view or a virtual one, nothing in its
 * schema runs with trust, and columns are looked up by name, since they differ between versions of nsys: a
 * missing one is a missing value. It must be a rollback-journal database, as nsys writes.
 */
#pragma once

#include "trace/read/intake.h"

#define NSYS_CORRELATION_STEP (INT64_C(1) << 32)
#define NSYS_STREAM_STEP      1000000

/* The complete database in memory; not changed. 0, also where a table is damaged: then its rows until there were
 * read, it is counted as a defect and the reason names it. -EBADMSG with a reason: it has no events that
 * can be read; -ENOMEM. */
int nsys_read(const void *data, size_t size, struct intake *intake, char *ret_reason, size_t reason_size);
