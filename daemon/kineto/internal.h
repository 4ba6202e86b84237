/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share: listening (kineto.c), processes (processes.c), texts that wait (schedule.c). */
#pragma once

#include "base/clock.h"
#include "daemon/kineto/facts.h"
#include "daemon/kineto/kineto.h"
#include "daemon/kineto/socket.h"
#include <event2/event.h>

/* In which the processes of one user are looked at. */
#define KINETO_QUEUES_PER_UID 4

/* A process that has polled. Owned by the table. */
struct kineto_entry {
    struct kineto_process process; /* its key is complete once is_known */
    struct kineto *kineto;
    size_t index;            /* in the table */
    struct sockaddr_un from; /* of its last poll: each Kineto has a name of its own */
    socklen_t from_size;
    bool is_known;                   /* the facts are there */
    bool has_polled;                 /* not only announced a GPU, as old versions do first */
    bool skip_answer;                /* of its next poll: something unread may wait in its queue */
    bool was_refused;                /* profd cannot inspect it; logged */
    int32_t context_gpu;             /* -1: none */
    int64_t facts_at_ns;             /* when they were asked for */
    struct facts_job *job;           /* on a thread; NULL */
    int pidfd;                       /* -1 */
    struct event *exited;            /* NULL: the kernel has no such descriptors */
    struct kineto_config_slot *slot; /* NULL */
};

struct kineto_config_slot {
    struct kineto_entry *entry;
    char *text;
    struct event *deadline;
    void (*done)(int result, void *arg);
    void *arg;
};

struct kineto_watch {
    struct kineto *kineto;
    struct kineto_watch *next;
    struct kineto_entry *entry;                                                 /* NULL: gone */
    void (*changed)(const struct kineto_process *p, bool is_active, void *arg); /* NULL: to be freed */
    void *arg;
};

struct listening {
    struct kineto *kineto;
    struct kineto_listener shown; /* why and remedy are allocated */
    struct kineto_socket socket;
    struct event *readable;
};

struct kineto {
    struct event_base *base;
    struct offload *offload;
    char *(*torch_version)(pid_t pid);
    struct kineto_listen listen;
    struct listening *sockets;
    size_t n_sockets;
    struct event *upkeep;    /* forgets processes */
    struct event *retry;     /* opens sockets again, and sweeps directories */
    bool is_busy, is_closed; /* a thread opens and sweeps */
    struct kineto_entry **entries;
    size_t n_entries, cap_entries;
    struct kineto_watch *watches;
    unsigned n_calling; /* depth of calls of watches, which must not be freed meanwhile */
    const struct kineto_settings *settings;
    struct kineto_metrics metrics;
};

/* -- processes.c -------------------------------------------------------------------------------------------- */

/* What a datagram says happened: finds or adds its process and notes the poll. Returns NULL where it is no process that
 * profd serves. A message of another process with the same pid ends the old one. */
struct kineto_entry *entry_of_datagram(struct kineto *k, const char *transport,
                                       const struct kineto_datagram *d);
/* A poll that is too old to be believed: its process polls all the same. */
void entry_note_late(struct kineto *k, const struct kineto_datagram *d);
struct kineto_entry *entry_find(const struct kineto *k, pid_t pid);
/* Tells the watches if the bits changed whether it is active. */
void entry_take_bits(struct kineto_entry *e, unsigned bits);
/* Ends its slot and watches with the result, and frees it. */
void entry_end(struct kineto_entry *e, int result);
void entries_forget(struct kineto *k);
unsigned entries_on_gpu(const struct kineto *k, int32_t gpu);

/* -- schedule.c --------------------------------------------------------------------------------------------- */

/* Calls done() and frees the slot. */
void slot_end(struct kineto_config_slot *slot, int result);
