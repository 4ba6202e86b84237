/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of Kineto's on-demand protocol: processes that were started with KINETO_USE_DAEMON register by
 * themselves, poll each 5 s, and record what the text of an answer asks for.
 *
 * Kineto (libkineto of PyTorch) ends its process if an answer comes from an unexpected address, and believes an
 * answer that comes late to be the next one. So profd answers from the bound socket that a poll came to, at once
 * and from memory, or not at all. What it knows of a process comes from the kernel (peer credentials, /proc), never
 * from the words of the message.
 *
 * Source: pytorch/kineto @114171dfba68 (2026-08-20), libkineto/src/IpcFabricConfigClient.cpp and
 * libkineto/third_party/dynolog_headers/dynolog/src/ipcfabric/.
 */
#pragma once

#include "base/offload.h"
#include "base/problem.h"
#include "daemon/kineto/settings.h"
#include <sys/types.h>

/* Kineto looks for an answer for 90 ms, before kineto @1725f1a4 (2025-11-11) for 50 ms. A later answer would be
 * taken for the answer to its next poll, and each later one would be a poll late. */
#define KINETO_ANSWER_MAX_NS (40 * NS_PER_MS)
/* After an answer that was sent later than this, the next poll is not answered. */
#define KINETO_ANSWER_SAFE_NS (30 * NS_PER_MS)
/* Polls after which a process that sent none is forgotten. */
#define KINETO_FORGET_POLLS 12
/* Polls within which a text is handed over, or not at all. */
#define KINETO_FETCH_POLLS   2
#define KINETO_PROCESSES_MAX 4096
/* Of one user. */
#define KINETO_PROCESSES_PER_UID_MAX 1024
/* Bytes of a text of configuration. */
#define KINETO_TEXT_MAX 16384

/* The bits of a poll: what the profiler would take now. Without ACTIVITIES it is recording, or writes its trace. */
#define KINETO_EVENTS     1U
#define KINETO_ACTIVITIES 2U

struct kineto;
struct kineto_config_slot;
struct kineto_watch;

/* A process that registered. Key: pid, in profd's pid namespace, and start time. */
struct kineto_process {
    pid_t pid;
    uint64_t start_ticks; /* since boot, as in /proc/PID/stat */
    uid_t uid;
    gid_t gid;
    pid_t inner_pid;        /* in its own pid namespace: the number in the names of its traces */
    int64_t job_id;         /* of Slurm; 0: none */
    unsigned activity_bits; /* of the last poll */
    int64_t first_seen_at;  /* wall time */
    int64_t last_poll_mono_ns;
    const char *transport; /* "abstract", or the directory of [kineto] listen= */
    char *command;         /* its arguments, separated by spaces */
    char *unit;            /* the last part of its control group, such as "train.service"; NULL unknown */
    bool environ_known;    /* profd may read its environment */
    int rank, local_rank, world_size; /* -1: not set or unknown */
    char *gpus;                       /* CUDA_VISIBLE_DEVICES; NULL: not set or unknown */
    char *master;     /* MASTER_ADDR:MASTER_PORT, where its ranks meet; NULL: not set or unknown */
    char *socket_dir; /* KINETO_IPC_SOCKET_DIR; NULL: not set or unknown */
    /* Where Kineto lets the text of an answer write, as the process names it: KINETO_ONDEMAND_TRACE_DIR, else /tmp.
     * NULL: its environment cannot be read. */
    char *trace_root;
    char *pytorch_version; /* NULL: unknown */
};

/* Counters since the start, and the number of processes. */
struct kineto_metrics {
    uint64_t processes;
    uint64_t polls, answers, late, configs, refused;
};

/* A socket that profd listens on, or would listen on. */
struct kineto_listener {
    const char *name; /* "abstract", or a directory */
    const char *why;  /* why profd does not listen there; NULL: it does */
    const char *remedy;
};

/*
 * Opens the sockets of the settings, which are borrowed. A socket that cannot be opened is logged and tried again
 * each 30 s: it may be another daemon's that ends. torch_version reads the version of PyTorch in a process, on a
 * thread; the result is freed with free(); it may be NULL.
 */
int kineto_new(struct event_base *base, struct offload *offload, const struct kineto_settings *settings,
               char *(*torch_version)(pid_t pid), struct kineto **ret);
/* Closes the sockets and calls done(-ECANCELED) of every slot. What threads still hold is freed by kineto_free(),
 * after offload_drain(). */
void kineto_close(struct kineto *k);
struct kineto *kineto_free(struct kineto *k);

/* Whether [kineto] listen= names any socket. */
bool kineto_is_on(const struct kineto *k);
/* NULL at the end. */
const struct kineto_listener *kineto_listener_at(const struct kineto *k, size_t i);
struct kineto_metrics kineto_metrics(const struct kineto *k);

/* The processes that polled within the last minute and about which everything is known; NULL first, NULL at the end.
 * Valid until the loop runs again. */
const struct kineto_process *kineto_next(const struct kineto *k, const struct kineto_process *previous);
/* NULL: it did not register, or is gone. */
const struct kineto_process *kineto_find(const struct kineto *k, pid_t pid, uint64_t start_ticks);
/* Whether its profiler records or writes, on demand or started in the process. */
bool kineto_is_active(const struct kineto_process *p);

/*
 * Hands text to the process with its next poll. -ESRCH: unknown. -EBUSY: another text waits for it, or its profiler is
 * active. -EMSGSIZE: more than KINETO_TEXT_MAX. Otherwise done() comes once, later: 0 sent, -ETIMEDOUT no poll within
 * KINETO_FETCH_POLLS, -ESRCH the process ended, -EBUSY its profiler became active, -ECANCELED by kineto_cancel(), which
 * calls it, or by kineto_close(). The slot ends with done().
 */
int kineto_schedule(struct kineto *k, pid_t pid, uint64_t start_ticks, const char *text,
                    void (*done)(int result, void *arg), void *arg, struct kineto_config_slot **ret);
/* Before the text was sent. Afterwards nothing can call a recording back. */
void kineto_cancel(struct kineto_config_slot *slot);

/*
 * changed() is called when the profiler of the process becomes active or inactive, and with p NULL, for the last time,
 * when the process is gone or forgotten. NULL: the process is unknown. To be ended with kineto_unwatch(), also after
 * the last call, also inside changed().
 */
struct kineto_watch *kineto_watch(struct kineto *k, pid_t pid, uint64_t start_ticks,
                                  void (*changed)(const struct kineto_process *p, bool is_active, void *arg),
                                  void *arg);
void kineto_unwatch(struct kineto_watch *w);
