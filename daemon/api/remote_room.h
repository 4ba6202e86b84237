/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room on the disk of the catalog that copies of other hosts' files may take, all together and for each host. Sizes
 * are what hosts report, and not believed: no sum of them is made that could overflow. Pure.
 */
#pragma once

#include "base/uuid.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* Bytes that copies leave free on the disk. */
#define REMOTE_ROOM_KEEP_FREE (INT64_C(1) << 30)
/* Of all copies that are being made, and of those of one host: a slow one leaves room for the others. */
#define REMOTE_ROOM_MAX      (INT64_C(64) << 30)
#define REMOTE_ROOM_HOST_MAX (REMOTE_ROOM_MAX / 4)

/* On average, after the time in which a host may be busy otherwise. */
#define REMOTE_COPY_SLOWEST_BYTES_PER_S (INT64_C(1) << 20)
#define REMOTE_COPY_GRACE_S             60

/* A reservation. All zero: none. */
struct remote_copy {
    LIST_ENTRY(remote_copy) next;
    char host[UUID_SIZE];
    int64_t bytes;
    bool is_listed;
};
/* All zero: no copies. */
LIST_HEAD(remote_room, remote_copy);

/* Whether there is room for that many more bytes, of which free_bytes are free now; then they are reserved until
 * remote_room_release(), and the copy stays where it is. */
bool remote_room_reserve(struct remote_room *room, struct remote_copy *copy, const char *host_uuid,
                         int64_t bytes, int64_t free_bytes);
/* Whether a copy that got that many bytes in that time is too slow: it would keep its room for days. */
bool remote_copy_is_slow(int64_t lasts_ns, int64_t bytes);
/* Without a reservation: nothing. */
void remote_room_release(struct remote_room *room, struct remote_copy *copy);
