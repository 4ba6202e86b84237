/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the store without a row, or one that was missing and is there again: into the catalog as it lies.
 */
#include "base/alloc.h"
#include "daemon/collect/bringing.h"
#include "daemon/collect/place.h"
#include <errno.h>
#include <fcntl.h>

/* Belongs to the session whose directory it is in. */
static void claim(struct bringing *b)
{
    const char *dir = strrchr(b->dir_path, '/');
    struct session_record session;
    int64_t id;

    session_record_init(&session);
    if (dir && dir[1] == 's' && parse_ref(dir + 1, 's', &id) == 's' &&
        catalog_get_session(b->collector->catalog, id, &session) == 0)
        b->row.session_id = id;
    session_record_done(&session);
}

static bool judge(struct bringing *b, const struct ingest_result *r)
{
    if (r->err == -EAGAIN)
        return false;
    if (store_holds(b->collector->store, b->origin))
        claim(b);
    return true;
}

static void dropped(struct bringing *b)
{
    b->collector->n_adopting--;
}

static void saved(struct bringing *b, int err)
{
    dropped(b);
}

static const struct bringing_kind adopted_kind = {.judge = judge, .saved = saved, .dropped = dropped};

/* -- The beginning ------------------------------------------------------------------------------------ */

/* One that was left in place may lie on a server that does not answer. */
struct adoption {
    struct collector *collector;
    struct reference reference;
    int fd; /* or a negative errno value */
    struct stat st;
    int64_t holes;
};

static void open_source(void *arg)
{
    struct adoption *a = arg;
    a->fd = reference_open(&a->reference, &a->st);
    if (a->fd >= 0)
        a->holes = place_holes(a->fd, &a->st);
}

static void begin(struct adoption *a)
{
    const char *path = a->reference.path, *slash = strrchr(path, '/');
    _cleanup_(freep) char *dir = xstrndup(path, (size_t)(slash - path));
    struct bringing *b = bringing_new(a->collector, &adopted_kind, dir, slash + 1, &a->st);

    b->stays = true;
    b->process_started = a->reference.process_started;
    b->holes = a->holes;
    bringing_start(b, TAKE_FD(a->fd), -1);
}

static void on_opened(void *arg)
{
    struct adoption *a = arg;
    struct collector *c = a->collector;

    if (a->fd >= 0 && !c->closing) {
        begin(a);
    } else {
        c->n_adopting--;
        reconcile_go_on(c);
    }
    closep(&a->fd);
    reference_done(&a->reference);
    free(a);
}

void adopt_file(struct collector *c, struct reference *take_reference)
{
    struct adoption *a = xcalloc(1, sizeof(*a));

    *a = (struct adoption){.collector = c, .reference = *take_reference, .fd = -1};
    *take_reference = (struct reference){0};
    c->n_adopting++;
    offload_run_in(c->offload, offload_lane_of_file(a->reference.path), open_source, on_opened, a);
}
