/* SPDX-License-Identifier: Apache-2.0 */
/* What to do about a call to a worker that got no answer. */
#include "base/alloc.h"
#include "daemon/session/internal.h"
#include <errno.h>

static const struct {
    int err;
    const char *remedy;
} hints[] = {
    {-ECONNREFUSED, "Nothing listens there any more: the server's log says why it ended."},
    {-ECONNRESET, "The server's log says why it hung up."},
    {-EHOSTUNREACH, "Is its host up, and can it be reached from here?"},
    {-ENETUNREACH, "Is its host up, and can it be reached from here?"},
    {-ENOBUFS, "Record fewer workers at a time, or raise [limits] answers= in profd.conf."},
    {-EACCES, "Correct that key in profd.conf."},
};

char *unanswered_remedy(const struct call_result *r, const char *timeout_key)
{
    if (r->remedy)
        return xstrdup(r->remedy);
    if (r->err == -ETIMEDOUT && r->sent_at_ns == 0)
        return xstrdup("Is its host up, and can it be reached from here?");
    if (r->err == -ETIMEDOUT)
        return xasprintf(
            "It may still be writing a trace: wait for it, or raise [timeouts] %s= in profd.conf.",
            timeout_key);
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (hints[i].err == r->err)
            return xstrdup(hints[i].remedy);
    return xstrdup("The server's log may say more.");
}
