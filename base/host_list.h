/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's lists of hosts, "node[1-3,07-12],gpu-[01-04]-ib", as names.
 *
 * Pure over the text. Nothing is resolved: what a name means is decided by who calls it.
 */
#pragma once

#include "base/util.h"

struct host_list {
    char **names;
    size_t n, cap;
};

/*
 * Appends the names in the order of the list; what is named twice comes twice, as in Slurm. -EINVAL with *reason (a
 * static text that follows the list: " has ...") where Slurm would refuse the list, or where it names no host; -E2BIG
 * where there are more than max. The list then has the names until there.
 *
 * As Slurm expands them (SchedMD/slurm, src/common/hostlist.c, 26.11.0-0rc1, commit 284c3b95): numbers only, padded to
 * the width of the lower bound, at most 65,536 in a range, any number of brackets, text after the last of them (Slurm
 * 23.11 and later; 22.05 refuses it). With three and more brackets Slurm's order differs. What Slurm takes by accident
 * ("n[1", "n[1-]", "n[+1]", a space within brackets) is refused.
 */
int host_list_expand(const char *text, size_t size, size_t max, struct host_list *list, const char **reason);
void host_list_done(struct host_list *list);

/* Ports of one host: "8000", "8000-8003", "8000,8010-8013". -EINVAL with *reason, which follows the text, also for
 * more than max ports or items. Each port comes once. */
int port_list_expand(const char *text, size_t size, size_t max, int ports[], size_t *ret_n,
                     const char **reason);
