/* SPDX-License-Identifier: Apache-2.0 */
/* The privileges of a child's user, which it inherits from profd and does not need. */
#pragma once

#include <stdbool.h>

/*
 * Drops all capabilities, of every set, and prevents new ones by an exec. Where requested, root becomes nobody,
 * so that it has no rights to files, processes or limits of root; where the service's filter or a user namespace
 * does not allow it, it stays a root without capabilities. Where the filter refuses capset(), capabilities stay:
 * the caller's own filter then leaves no call to use them with.
 *
 * With one thread, before others are started. 0 or a negative errno value.
 */
int privileges_drop(bool become_nobody);
