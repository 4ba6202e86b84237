/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the store without a row, or one that was missing and is there again: into the catalog as it lies.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/collect/bringing.h"
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

void adopt_file(struct collector *c, const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    _cleanup_(freep) char *dir = xstrndup(path, (size_t)(slash - path));

    int fd = open_regular(AT_FDCWD, path, &st);
    if (fd < 0)
        return;
    struct bringing *b = bringing_new(c, &adopted_kind, dir, slash + 1, &st);
    b->stays = true;
    c->n_adopting++;
    bringing_start(b, fd, -1);
}
