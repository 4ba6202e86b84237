/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says about a process that sent a poll. Reading may block and happens on a thread; the rest is pure. Its
 * command line and environment are the process's own words: they are shown, and used as paths inside of what its user
 * may do, and decide nothing else.
 */
#pragma once

#include "base/process_info.h"
#include "daemon/kineto/kineto.h"

/* Of a text that is kept, in bytes. */
#define KINETO_FACT_MAX 512

struct kineto_facts {
    /* What is asked. */
    pid_t pid;
    uid_t uid;                /* of the credentials */
    int64_t received_boot_ns; /* a process that started later is another one */
    char *(*torch_version)(pid_t pid);
    /* What is found. The strings belong to it until they are taken. */
    int err; /* -ESRCH: gone, or another process; -EPERM: another user's; -EACCES: profd may not see it */
    struct kineto_process process;
};

void kineto_facts_read(struct kineto_facts *f);
void kineto_process_done(struct kineto_process *p);

/* The facts that are in an environment. */
void kineto_facts_environ(const struct string_list *env, struct kineto_process *ret);
/* "train.service" of the text of /proc/PID/cgroup: the last part that is a unit; NULL: none. The caller frees it. */
char *kineto_facts_unit(const char *cgroup);
