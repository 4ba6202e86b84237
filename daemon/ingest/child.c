/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/child.h"

#include "base/spawning.h"
#include <inttypes.h>
#include <sys/resource.h>

/* A slow processor, shared with the engine. */
#define CPU_S               30
#define BYTES_PER_CPU_S     (INT64_C(2) << 20)
#define BACKGROUND_NICENESS 19

void child_order_done(struct child_order *order)
{
    for (size_t i = 0; i < ARRAY_SIZE(order->fds); i++) {
        closep(&order->fds[i]);
        order->fds[i] = -1;
    }
}

int child_start(const char *program, struct child_order *order, int *ret_pid_fd)
{
    char size_max[24], cpu_s[24], memory_max[24], columns_room[24];
    char *argv[] = {"profd-ingest", size_max, cpu_s, order->memory_max > 0 ? memory_max : NULL,
                    columns_room,   NULL};
    char *environment[] = {"LC_ALL=C", NULL};
    pid_t pid;

    snprintf(size_max, sizeof(size_max), "%" PRId64, order->size_max);
    snprintf(columns_room, sizeof(columns_room), "%" PRId64, MAX(order->columns_room, INT64_C(1)));
    snprintf(memory_max, sizeof(memory_max), "%" PRId64, order->memory_max);
    snprintf(cpu_s, sizeof(cpu_s), "%" PRId64, CPU_S + order->source_size / BYTES_PER_CPU_S);
    int r =
        spawn_with(program, order->fds, (int)ARRAY_SIZE(order->fds), argv, environment, 0, &pid, ret_pid_fd);
    if (r == 0 && order->background)
        setpriority(PRIO_PROCESS, (id_t)pid, BACKGROUND_NICENESS);
    return r;
}
