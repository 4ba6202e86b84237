/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people call a process, a thread or a track: names where the trace has them, otherwise numbers.
 * All are to be freed; NULL where there is no memory.
 */
#pragma once

#include "trace/columns/columns.h"

char *label_process(const struct columns *c, int64_t process);
char *label_thread(const struct columns *c, int64_t thread);
/* "process / thread", the same for all tracks of a thread. */
char *label_track(const struct columns *c, uint64_t track);
