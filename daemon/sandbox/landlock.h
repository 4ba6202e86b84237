/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock: limits the paths, ports and processes that a process may reach, which a list of system calls cannot
 * see. It only adds restrictions, for the calling thread and those that it starts later.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * From now on: no file by any path; and, by the version of Landlock that the kernel has, no TCP port but
 * connections to these (4), no abstract socket and no signal of processes outside (6). Processes outside can
 * not be traced, nor be looked into through /proc. Needs PR_SET_NO_NEW_PRIVS. The version, 0 where the kernel
 * has no Landlock, or a negative errno value.
 */
int landlock_enter(const uint16_t *ports, size_t n_ports);
