/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens on the name that profd wants: /proc/net/unix has the socket, /proc/PID/fd its process. */
#pragma once

#include "base/util.h"

#define HOLDER_TABLE_MAX (16 << 20)

/* The inode of the datagram socket with that path in the text of /proc/net/unix, where "@" stands for NUL; 0: none.
 * Pure. */
uint64_t kineto_holder_inode(const char *table, size_t size, const char *path);
/* "dynolog (pid 812, root)"; dir NULL: of the abstract name. NULL: nobody whom profd can see. May block. The caller
 * frees it. */
char *kineto_holder(const char *dir);
