/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of a child's user, which it inherits from profd and does not need. */
#pragma once

#include <stdbool.h>

/*
 * Gives up all capabilities, of every set, and the chance to get new ones by an exec. A root who is to become
 * nobody does that as well, so that no file, process or limit of root's is its own any longer; where the
 * service's filter or a user namespace does not allow it, he stays a root without capabilities. Where the
 * filter refuses capset(), capabilities stay: the caller's own filter then leaves nothing to use them with.
 *
 * With one thread, before others are begun. 0 or a negative errno value.
 */
int privileges_drop(bool become_nobody);
