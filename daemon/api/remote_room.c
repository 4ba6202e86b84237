/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/remote_room.h"

#include "base/clock.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

/* Of one host; NULL: of all. Within the limits, as everything that was reserved is. */
static int64_t room_taken(const struct remote_room *room, const char *host_uuid)
{
    const struct remote_copy *copy;
    int64_t bytes = 0;

    LIST_FOREACH(copy, room, next)
        if (!host_uuid || strcmp(copy->host, host_uuid) == 0)
            bytes += copy->bytes;
    return bytes;
}

bool remote_room_reserve(struct remote_room *room, struct remote_copy *copy, const char *host_uuid,
                         int64_t bytes, int64_t free_bytes)
{
    int64_t taken = room_taken(room, NULL);

    if (bytes < 0 || bytes > REMOTE_ROOM_MAX - taken ||
        bytes > REMOTE_ROOM_HOST_MAX - room_taken(room, host_uuid) ||
        bytes > free_bytes - REMOTE_ROOM_KEEP_FREE - taken)
        return false;
    snprintf(copy->host, sizeof(copy->host), "%s", host_uuid);
    copy->bytes = bytes;
    copy->is_listed = true;
    LIST_INSERT_HEAD(room, copy, next);
    return true;
}

void remote_room_release(struct remote_room *room, struct remote_copy *copy)
{
    if (copy->is_listed)
        LIST_REMOVE(copy, next);
    *copy = (struct remote_copy){0};
}

bool remote_copy_is_slow(int64_t lasts_ns, int64_t bytes)
{
    return lasts_ns / NS_PER_S - REMOTE_COPY_GRACE_S > bytes / REMOTE_COPY_SLOWEST_BYTES_PER_S;
}
