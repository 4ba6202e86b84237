/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/retention.h"

int64_t retention_share(int64_t capacity, size_t n, int64_t per_user)
{
    int64_t equal = MAX(capacity, INT64_C(0)) / (int64_t)MAX(n, (size_t)1);

    return per_user > 0 ? MIN(per_user, equal) : equal;
}

ssize_t retention_next(const struct retention_holder *holders, size_t n, int64_t share)
{
    ssize_t most = -1;

    for (size_t i = 0; i < n; i++)
        if (holders[i].removable && holders[i].used > share &&
            (most < 0 || holders[i].used > holders[most].used))
            most = (ssize_t)i;
    return most;
}
