/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that an engine writes unasked, one for each request (RTP-LLM with --gen_timeline_sync): so many a
 * minute come in as nobody's, the others stay where they are. What stayed is counted, and said once a minute.
 *
 * The minutes are counted from the first such trace on. Nothing here looks at a file.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/internal.h"

#define MINUTE_NS (60 * NS_PER_S)

static void say(struct collector *c)
{
    struct unclaimed_limit *l = &c->unclaimed;
    _cleanup_(freep) char *text = xasprintf(
        "%u trace%s that an engine wrote unasked %s not collected, the latest %s: at most %u a minute are "
        "([collect] unclaimed_per_minute=)",
        l->skipped, l->skipped == 1 ? "" : "s", l->skipped == 1 ? "was" : "were", l->latest,
        c->settings->unclaimed_per_minute);

    log_warning("%s", text);
    catalog_add_event(c->catalog, "traces-skipped", "profd", RECORD_NONE, RECORD_NONE, RECORD_NONE, "%s",
                      text);
    l->skipped = 0;
}

static void on_minute_over(evutil_socket_t fd, short what, void *arg)
{
    say(arg);
}

static void skip(struct collector *c, const struct file *f)
{
    struct unclaimed_limit *l = &c->unclaimed;
    struct timeval rest = timeval_until(l->began_ns + MINUTE_NS);

    l->skipped++;
    l->skipped_total++;
    free(l->latest);
    l->latest = xasprintf("%s/%s", f->dir->path, f->name);
    if (!evtimer_pending(l->minute_over, NULL))
        event_add(l->minute_over, &rest);
}

void unclaimed_init(struct collector *c)
{
    c->unclaimed = (struct unclaimed_limit){.minute_over = event_new(c->base, -1, 0, on_minute_over, c)};
}

void unclaimed_done(struct collector *c)
{
    if (c->unclaimed.skipped > 0)
        say(c);
    event_free(c->unclaimed.minute_over);
    free(c->unclaimed.latest);
    c->unclaimed = (struct unclaimed_limit){0};
}

bool unclaimed_admit(struct file *f)
{
    struct collector *c = f->dir->collector;
    struct unclaimed_limit *l = &c->unclaimed;

    if (f->admitted)
        return true;
    if (l->began_ns == 0 || mono_ns() - l->began_ns >= MINUTE_NS) {
        l->began_ns = mono_ns();
        l->n_admitted = 0;
    }
    if (l->n_admitted >= c->settings->unclaimed_per_minute) {
        skip(c, f);
        return false;
    }
    l->n_admitted++;
    f->admitted = true;
    return true;
}

uint64_t collector_skipped(const struct collector *c)
{
    return c->unclaimed.skipped_total;
}
