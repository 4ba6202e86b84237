/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks without a server of their own (daemon/fleet/process_ranks.h): targets to which nothing is sent. Their recording
 * begins with that of their server's target, and they write until the server has answered its stop, which is known where the
 * session is coordinated; on another host, the coordinator's stop of the ranks says so. Then, or when their files are
 * complete, their collection ends as every other does.
 */
#include "daemon/fleet/process_ranks.h"

#include "base/alloc.h"
#include "daemon/session/internal.h"
#include <ctype.h>
#include <errno.h>

struct target *target_server(const struct target *t)
{
    struct session *s = t->session;

    for (size_t i = 0; i < s->n_targets && worker_is_watched(&t->worker); i++)
        if (streq(s->targets[i].worker.url, t->worker.ranks_of))
            return &s->targets[i];
    return NULL;
}

bool target_server_records(const struct target *t)
{
    const struct target *server = target_server(t);

    return server && server->record.state < STATE_COLLECTING;
}

/* -- The transport ------------------------------------------------------------------------------------- */

static void watched_start(struct target *t)
{
    const char *dir = target_watched_dir(t);

    if (dir && target_awaits_dir(t))
        target_watch_dir(t, dir);
    t->server_records = session_is_leased(t->session) || target_server_records(t);
    target_settle_start(t, true);
}

static void watched_stop(struct target *t)
{
    target_note_stop(t);
    target_leave_stopping(t);
}

const struct target_transport transport_watched = {.start = watched_start, .stop = watched_stop};

void target_server_stopped(struct target *t)
{
    t->server_records = false;
}

void target_lead(struct target *server)
{
    struct session *s = server->session;
    const struct sessions *all = s->all;

    for (size_t i = 0; i < s->n_targets && server->worker.group && !worker_is_watched(&server->worker); i++) {
        struct target *t = &s->targets[i];
        if (target_server(t) != server || state_is_final(t->record.state))
            continue;
        t->server_records = false;
        if (server->record.state == STATE_FAILED && t->record.state <= STATE_RECORDING) {
            _cleanup_(freep) char *failure =
                xasprintf("%s, which starts it, does not record", server->worker.url);
            target_fail(t, failure, server->record.remedy);
        }
        if (target_is_remote(t) && all->remote_ops && t->record.state >= STATE_RECORDING)
            all->remote_ops->stop(t, all->remote);
    }
}

/* -- Directories that a server was told to write to ------------------------------------------------------ */

/* ".../profd/NAME" or ".../profd/NAME/NAME", as target_set_output_dir() makes them: nothing else can be named. */
static bool is_output_dir(const char *path)
{
    static const char mark[] = "/profd/";
    const char *last = NULL, *c;
    int depth = 0;

    if (path[0] != '/' || strstr(path, "/../") || strstr(path, "/./"))
        return false;
    for (const char *at = path; (at = strstr(at, mark)); at++)
        last = at;
    for (c = last ? last + strlen(mark) : ""; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("-_/", *c))
            return false;
        depth += *c == '/';
    }
    return last && c[-1] != '/' && depth <= 1;
}

bool target_awaits_dir(const struct target *t)
{
    return worker_is_watched(&t->worker) && target_engine(t)->takes_output_dir && !t->record.trace_dir;
}

const char *target_watched_dir(const struct target *t)
{
    const struct target *server = target_server(t);

    return server && target_engine(t)->takes_output_dir ? server->record.output_dir : NULL;
}

/* The host's own launch must have named the directory above: a coordinator cannot have profd read elsewhere. */
int target_watch_dir(struct target *t, const char *output_dir)
{
    const struct trace_location *l = &t->worker.location;
    size_t n = l->dir ? strlen(l->dir) : 0;

    if (!worker_is_watched(&t->worker) || !is_output_dir(output_dir))
        return -EINVAL;
    replace_str(&t->record.output_dir, output_dir);
    if (n > 0 && l->local_dir && strncmp(output_dir, l->dir, n) == 0 && output_dir[n] == '/') {
        free(t->record.trace_dir);
        t->record.trace_dir = xasprintf("%s%s", l->local_dir, output_dir + n);
    }
    return 0;
}
