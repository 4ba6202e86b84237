/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run from its order to its last line: who is there, warm-up, "ready", the load, what came out. Owns the
 * loop and all that hangs on it.
 */
#pragma once

#include "daemon/load/order.h"

/* Takes what the order holds. 0 where the run came to its "end", a negative errno where it said "failed". */
int run_order(struct order *order, int lines_fd, int commands_fd);
