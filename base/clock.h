/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three clocks, one purpose each: monotonic nanoseconds for deadlines and durations, wall nanoseconds since
 * the Unix epoch for records, nanoseconds since the boot for moments that the next profd must find again. A
 * deadline is an absolute monotonic time.
 */
#pragma once

#include <stdint.h>
#include <sys/time.h>

#define NS_PER_US      INT64_C(1000)
#define NS_PER_MS      INT64_C(1000000)
#define NS_PER_S       INT64_C(1000000000)

#define DEADLINE_NEVER INT64_MAX

/* A wall clock that is this wrong makes traces of two hosts hard to compare: from here on it is warned about. */
#define CLOCK_WARN_NS (2 * NS_PER_S)

int64_t mono_ns(void);
int64_t wall_ns(void);
/* Since the kernel's boot, suspended time included: nobody sets it, and another process shows the same,
 * within the life of one kernel (boot_id()). */
int64_t boot_ns(void);
/* Names that life; NULL: not known. The caller frees it. */
char *boot_id(void);
/* The earlier of two times for a moment that lies ago_ns back: the wall time noted then, and the wall time
 * that the clock would have shown then if it had been set as it is now. A file written since then is compared
 * with it. */
int64_t wall_earliest(int64_t noted_at, int64_t ago_ns);
/* Time left until a deadline as a timer takes it, never negative. */
struct timeval timeval_until(int64_t deadline_ns);
struct timeval timeval_of(int64_t duration_ns);
