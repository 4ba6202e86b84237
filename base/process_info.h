/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of /proc about one process, read with bounds. None of them is trusted: any user can put anything
 * into the command line and environment of a process of theirs.
 *
 * Parsers are pure. Readers return negative errno: -ESRCH or -ENOENT where the process is gone, -EACCES or
 * -EPERM where profd lacks permission, -EFBIG beyond the limit.
 */
#pragma once

#include "base/util.h"
#include <sys/types.h>

#define PROCESS_CMDLINE_MAX (128 << 10)
#define PROCESS_ENVIRON_MAX (256 << 10)
#define PROCESS_STATUS_MAX  (1 << 20)
#define PROCESS_GROUPS_MAX  1024

/* Strings one after another, each with its NUL, as in cmdline and environ; data[size] is a NUL too. */
struct string_list {
    const char *data;
    size_t size;
};
/* The string after previous (NULL: the first), NULL at the end. */
const char *string_list_next(const struct string_list *s, const char *previous);
/* The value of NAME=value in an environment, the first as getenv(3) takes it; NULL where it is not set. */
const char *env_value(const struct string_list *env, const char *name);
/* The value of "--flag value" or "--flag=value", the last one; underscores count as dashes. */
const char *flag_value(const struct string_list *args, const char *flag);
/* Whether the flag is given, with a value or without. */
bool flag_is_there(const struct string_list *args, const char *flag);

struct process_status {
    pid_t parent;
    pid_t inner_pid;         /* in its innermost pid namespace */
    unsigned pid_namespaces; /* how deep: 1 is profd's own */
    uid_t uid;               /* those that the file system sees */
    gid_t gid;
    bool is_one_user; /* its real, effective, saved and file system's ids are equal, those of the group too */
    gid_t groups[PROCESS_GROUPS_MAX];
    size_t n_groups;
    bool groups_cut; /* there are more */
    uint64_t capabilities;
};

struct process_stat {
    pid_t parent;
    uint64_t started; /* in ticks since boot: comparable, no more */
    bool is_zombie;   /* it ended, and its parent has not asked for its status */
};

/* When it started, on the clock of boot_ns(), to the tick. */
int64_t process_started_boot_ns(const struct process_stat *s);

int process_status_parse(const char *data, size_t size, struct process_status *ret);
int process_stat_parse(const char *data, size_t size, struct process_stat *ret);

int process_status_read(pid_t pid, struct process_status *ret);
int process_stat_read(pid_t pid, struct process_stat *ret);
/* Whether the process with this start time has ended. False where that cannot be read. */
bool process_has_ended(pid_t pid, uint64_t started);
/* A file of /proc/PID as a NUL-terminated text that the caller frees. */
int process_read(pid_t pid, const char *name, size_t max, char **ret, size_t *ret_size);
/* Where a link of /proc/PID points ("cwd"); the caller frees it. */
int process_link(pid_t pid, const char *name, char **ret);
/* The kernel's short name of the process, "?" where it is gone. Returns buf. */
#define PROCESS_NAME_MAX 64
char *process_name(pid_t pid, char buf[static PROCESS_NAME_MAX]);
/* All process ids that profd can see, ascending; the caller frees them. */
size_t process_list(pid_t **ret);

/* The ancestors of a process, its parent first, at most max of them; process 1 is none. Returns how many. */
size_t process_ancestors(pid_t pid, pid_t *ret, size_t max);
/* pid and all its descendants, at most max of them. Returns how many. */
size_t process_tree(pid_t pid, pid_t *ret, size_t max);
/* The regular files that one of the processes has open for writing, at most max of them. Returns how many. */
struct open_file {
    dev_t device;
    ino_t inode;
};
size_t process_open_files(const pid_t *pids, size_t n, struct open_file *ret, size_t max);
/* The pid inside its own (innermost) pid namespace, which is what a container's profiler writes into names
 * and events. */
pid_t process_inner_pid(pid_t pid);

/* A user's name, "user 1234" without one; the caller frees it. May ask NSS. */
char *process_user_name(uid_t uid);

/* Memory of this process in bytes, from /proc/self/statm; shared: resident pages that files back. 0, or -errno with
 * all numbers 0. */
struct process_own_memory {
    int64_t total, resident, shared;
};
int process_own_memory(struct process_own_memory *ret);
