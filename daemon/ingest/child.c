/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* A slow processor, shared with the engine. */
#define CPU_S           30
#define BYTES_PER_CPU_S (INT64_C(2) << 20)
/* Descriptors are moved out of the way of those that the child gets. */
#define FD_ASIDE 10
_Static_assert(FD_ASIDE > INGEST_FD_GROUP, "out of the way");
#define BACKGROUND_NICENESS 19

void child_order_done(struct child_order *order)
{
    for (size_t i = 0; i < ARRAY_SIZE(order->fds); i++) {
        closep(&order->fds[i]);
        order->fds[i] = -1;
    }
}

static int move_aside(int *fd)
{
    if (*fd < 0 || *fd >= FD_ASIDE)
        return 0;
    int aside = fcntl(*fd, F_DUPFD_CLOEXEC, FD_ASIDE);
    if (aside < 0)
        return -errno;
    close(*fd);
    *fd = aside;
    return 0;
}

static void add_descriptors(posix_spawn_file_actions_t *actions, const struct child_order *order)
{
    posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    for (int i = 1; i < (int)ARRAY_SIZE(order->fds); i++)
        if (order->fds[i] >= 0)
            posix_spawn_file_actions_adddup2(actions, order->fds[i], i);
        else if (i != STDERR_FILENO)
            posix_spawn_file_actions_addclose(actions, i);
    posix_spawn_file_actions_addclosefrom_np(actions, (int)ARRAY_SIZE(order->fds));
}

static int spawn(const char *program, const struct child_order *order, pid_t *ret_pid)
{
    char size_max[24], cpu_s[24], memory_max[24], columns_room[24];
    char *argv[] = {"profd-ingest", size_max, cpu_s, order->memory_max > 0 ? memory_max : NULL,
                    columns_room,   NULL};
    char *environment[] = {"LC_ALL=C", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;

    snprintf(size_max, sizeof(size_max), "%" PRId64, order->size_max);
    snprintf(columns_room, sizeof(columns_room), "%" PRId64, MAX(order->columns_room, INT64_C(1)));
    snprintf(memory_max, sizeof(memory_max), "%" PRId64, order->memory_max);
    snprintf(cpu_s, sizeof(cpu_s), "%" PRId64, CPU_S + order->source_size / BYTES_PER_CPU_S);
    posix_spawn_file_actions_init(&actions);
    add_descriptors(&actions, order);
    posix_spawnattr_init(&attributes);
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int r = posix_spawn(ret_pid, program, &actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int child_start(const char *program, struct child_order *order, int *ret_pid_fd)
{
    pid_t pid;
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(order->fds) && r >= 0; i++)
        r = move_aside(&order->fds[i]);
    if (r >= 0)
        r = spawn(program, order, &pid);
    if (r < 0)
        return r;
    if (order->background)
        setpriority(PRIO_PROCESS, (id_t)pid, BACKGROUND_NICENESS);
    *ret_pid_fd = pidfd_open(pid, 0);
    if (*ret_pid_fd >= 0)
        return 0;
    r = -errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return r;
}
