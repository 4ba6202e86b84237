/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the catalog gets of a run: its row at every edge and once a second, and each request as it ends. What
 * the child says in one turn of the loop is bounded (child.c), and so is what one transaction takes.
 *
 * A catalog that cannot take requests does not end a run: they are counted, and the run says so. Its last
 * edge is written again until it is there.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/runs/internal.h"
#include <errno.h>
#include <inttypes.h>

#define RESAVE_NS (2 * NS_PER_S)

static void replace_list(char **text, const json_t *list)
{
    free(*text);
    *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
}

void run_save(struct run *run)
{
    replace_list(&run->record.notes, run->notes);
    replace_list(&run->record.warmed, run->warmed);
    int r = catalog_save_run(run->all->rooms.catalog, &run->record);
    if (r < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        catalog_problem(run->all->rooms.catalog, r, &p, "the catalog cannot take its state");
        log_error("run r%" PRId64 ": %s", run->record.run_id, p.what);
    }
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static void on_requests_saved(int err, void *arg)
{
    struct run *run = arg;

    /* Of a locked catalog: they wait for the lock (catalog.h). */
    if (err < 0 && err != -EBUSY) {
        run->n_unsaved += run->n_in_turn;
        run->all->metrics.unsaved += (uint64_t)run->n_in_turn;
    } else {
        run->n_kept += run->n_in_turn;
    }
    run->n_in_turn = 0;
}

void run_save_request(struct run *run, struct request_row *request)
{
    struct catalog *c = run->all->rooms.catalog;

    if (run->n_kept + run->n_in_turn >= run->all->rooms.settings->requests_max) {
        run->n_dropped++;
        return;
    }
    request->run_id = run->record.run_id;
    int r = catalog_add_request(c, request);
    /* A number that was there already; else it is the whole turn that failed, which its commit tells. */
    if (r == -EINVAL || r == -EEXIST) {
        load_child_kill(run->child, "profd-load said request %" PRId64 " twice", request->number);
        return;
    }
    /* Too many wait for a locked catalog. */
    if (r == -EBUSY) {
        run->n_unsaved++;
        run->all->metrics.unsaved++;
        return;
    }
    if (run->n_in_turn++ == 0)
        catalog_then(c, false, on_requests_saved, run);
}

/* -- The last edge ------------------------------------------------------------------------------------ */

static void on_last_saved(int err, void *arg);

static void save_again(evutil_socket_t fd, short what, void *arg)
{
    /* Nobody heard of an edge whose commit failed. */
    run_tell(arg);
    run_save_last(arg);
}

static void on_last_saved(int err, void *arg)
{
    struct run *run = arg;

    if (err < 0)
        run_timer(run, RESAVE_NS, save_again);
    else
        run_free(run);
}

void run_save_last(struct run *run)
{
    struct catalog *c = run->all->rooms.catalog;
    _cleanup_(freep) char *summary = run->summary ? json_dumps(run->summary, JSON_COMPACT) : NULL;

    run_save(run);
    if (summary)
        catalog_set_run_summary(c, run->record.run_id, summary);
    catalog_then(c, false, on_last_saved, run);
}
