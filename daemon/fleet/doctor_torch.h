/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps PyTorch processes of this host from being recorded on demand, each with its remedy: profd does not listen,
 * their environment, their directory, their version. The survey looks at processes and may block; the check is pure.
 */
#pragma once

#include "daemon/fleet/doctor.h"
#include "daemon/kineto/kineto.h"

#define TORCH_PROCESSES_MAX 512
/* Its parents, for the worker that it belongs to. */
#define TORCH_ANCESTORS_MAX 8

struct torch_process {
    pid_t pid;
    char *name; /* the kernel's */
    pid_t ancestors[TORCH_ANCESTORS_MAX];
    size_t n_ancestors;
    char *version;      /* NULL: unknown */
    bool environ_known; /* the rest is known */
    bool uses_daemon;   /* KINETO_USE_DAEMON is set */
    char *socket_dir;   /* KINETO_IPC_SOCKET_DIR; NULL: not set */
    int may_enter;      /* whether its user may write to that directory: 1, 0, or -1 unknown */
    char *dir_mode;     /* "mode 1770, user profd, group profd-kineto"; NULL unknown */
    int same_network;   /* whether profd's abstract names are its own: 1, 0, or -1 unknown */
    int64_t age_ns;
};

struct torch_survey {
    struct torch_process *items;
    size_t n, cap;
    size_t n_unread; /* Python processes whose memory map profd may not read */
};

/* Python processes that have loaded PyTorch. Blocks. */
void torch_survey_look(struct torch_survey *s);
void torch_survey_done(struct torch_survey *s);

/* kineto may be NULL. Processes of the fleet's workers, which are recorded over HTTP, are not told to register; f may be
 * NULL. */
void torch_check(const struct torch_survey *s, const struct kineto *kineto, const struct fleet *f,
                 struct checks *c);

/* What is wrong with on-demand recording in a version of PyTorch such as "2.7.1+cu128"; NULL: nothing is known. */
struct torch_fault {
    unsigned major, first_minor, last_minor;
    const char *text, *remedy;
};
const struct torch_fault *torch_fault_of(const char *version);
