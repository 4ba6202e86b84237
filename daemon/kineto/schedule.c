/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that wait for the next poll of their process. */
#include "base/alloc.h"
#include "daemon/kineto/internal.h"
#include <errno.h>

void slot_end(struct kineto_config_slot *slot, int result)
{
    void (*done)(int result, void *arg) = slot->done;
    void *arg = slot->arg;

    slot->entry->slot = NULL;
    event_free(slot->deadline);
    free(slot->text);
    free(slot);
    done(result, arg);
}

static void slot_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct kineto_config_slot *slot = arg;
    const struct kineto_process *p = &slot->entry->process;
    struct process_stat stat;
    bool is_gone = process_stat_read(p->pid, &stat) < 0 || stat.started != p->start_ticks;

    slot_end(slot, is_gone ? -ESRCH : -ETIMEDOUT);
}

int kineto_schedule(struct kineto *k, pid_t pid, uint64_t start_ticks, const char *text,
                    void (*done)(int result, void *arg), void *arg, struct kineto_config_slot **ret)
{
    struct kineto_entry *e = entry_find(k, pid);

    if (!e || !e->is_known || e->process.start_ticks != start_ticks)
        return -ESRCH;
    if (e->slot || kineto_is_active(&e->process))
        return -EBUSY;
    if (strlen(text) > KINETO_TEXT_MAX)
        return -EMSGSIZE;
    struct kineto_config_slot *slot = xcalloc(1, sizeof(*slot));
    const struct timeval deadline = timeval_of(KINETO_FETCH_POLLS * k->settings->poll_ns + NS_PER_S);
    slot->deadline = evtimer_new(k->base, slot_on_deadline, slot);
    if (!slot->deadline || event_add(slot->deadline, &deadline) < 0) {
        if (slot->deadline)
            event_free(slot->deadline);
        free(slot);
        return -ENOMEM;
    }
    slot->entry = e;
    slot->text = xstrdup(text);
    slot->done = done;
    slot->arg = arg;
    e->slot = slot;
    *ret = slot;
    return 0;
}

void kineto_cancel(struct kineto_config_slot *slot)
{
    slot_end(slot, -ECANCELED);
}
