/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/catalog_reads.h"

#include "base/alloc.h"

static const struct turn_limits catalog_reads_limits = {
    .all = CATALOG_READS_MAX,
    .user = CATALOG_READS_USER_MAX,
    .traces = CATALOG_READS_RUNS_MAX,
    .what = "searches and comparisons",
    .items = "runs",
    .remedy = "Try again later.",
};

void catalog_reads_init(struct catalog_reads *c, struct offload *offload, const char *catalog)
{
    *c = (struct catalog_reads){.offload = offload, .queue = offload_queue_of_file(catalog)};
    turns_init(&c->turns, &catalog_reads_limits);
}

static void catalog_reads_next(struct catalog_reads *c);

static void catalog_reads_end(struct catalog_read *read)
{
    free(TAKE_PTR(read->user));
    read->done(read->arg);
}

static void catalog_reads_run(void *arg)
{
    struct catalog_reads *c = arg;

    c->current->read(c->current->arg);
}

static void catalog_reads_on_done(void *arg)
{
    struct catalog_reads *c = arg;

    catalog_reads_end(TAKE_PTR(c->current));
    catalog_reads_next(c);
}

static void catalog_reads_next(struct catalog_reads *c)
{
    struct turn *turn = c->current ? NULL : turns_next(&c->turns, NULL);

    if (!turn)
        return;
    turns_take(&c->turns, turn);
    c->current = container_of(turn, struct catalog_read, turn);
    offload_run_in(c->offload, c->queue, catalog_reads_run, catalog_reads_on_done, c);
}

int catalog_reads_check(const struct catalog_reads *c, const char *user, size_t n_runs, struct problem *p)
{
    return turns_check(&c->turns, user, n_runs, p);
}

void catalog_reads_add(struct catalog_reads *c, struct catalog_read *read, const char *user, size_t n_runs)
{
    read->user = xstrdup(user);
    read->turn = (struct turn){.user = read->user, .n_traces = n_runs};
    turns_add(&c->turns, &read->turn);
    catalog_reads_next(c);
}

void catalog_reads_cancel(struct catalog_reads *c, struct catalog_read *read)
{
    /* The thread that reads it finds out by itself. */
    if (read == c->current)
        return;
    turns_drop(&c->turns, &read->turn);
    catalog_reads_end(read);
}
