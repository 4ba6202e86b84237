/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before any start: can each worker's user write where it will be told to? An SGLang that cannot may die at
 * its stop. Then the collecting room looks at what is there already.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/process.h"
#include "daemon/session/internal.h"

#define PREPARE_MAX_NS (30 * NS_PER_S)

struct writable_check {
    struct sessions *all;
    int64_t session_id;
    struct worker *workers; /* borrowed facts: only pid, uid and place are read */
    char **dirs;
    int *can_write;
    size_t n;
};

static void check_writable(void *arg)
{
    struct writable_check *c = arg;
    for (size_t i = 0; i < c->n; i++)
        if (c->dirs[i])
            c->can_write[i] = process_can_write(&c->workers[i], c->dirs[i]);
}

static void on_writable_checked(void *arg)
{
    struct writable_check *c = arg;
    struct session *s = sessions_find(c->all, c->session_id);

    for (size_t i = 0; i < c->n && s; i++) {
        struct target *t = &s->targets[i];
        if (c->dirs[i] && c->can_write[i] == 0 && t->record.state == STATE_STARTING) {
            _cleanup_(freep) char *failure =
                xasprintf("its user cannot write to %s; the server could die when it is stopped", c->dirs[i]);
            target_fail(
                t, failure,
                "Name a directory that it can write to: output_dir= in [fleet] or [worker] of profd.conf.");
            target_edge(t, STATE_FAILED);
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        worker_done(&c->workers[i]);
        free(c->dirs[i]);
    }
    free(c->workers);
    free(c->dirs);
    free(c->can_write);
    free(c);
    if (s && s->record.state == STATE_STARTING)
        s->all->collector_ops->prepare(s, s->all->collector);
}

/* A mount whose server is gone blocks whoever looks at it, without end. */
static void on_no_answer(struct session *s)
{
    session_explain(s, "Is its file system's server up? A plain ls of it would hang as well.",
                    "a trace directory does not answer; nothing was started");
    session_give_up(s);
}

/* Who tries again and again where one does not answer holds one thread. */
static uint64_t lane_of(const struct writable_check *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->dirs[i])
            return offload_lane_of_dir(c->dirs[i]);
    return OFFLOAD_NO_LANE;
}

void session_prepare_directories(struct session *s)
{
    struct writable_check *c = xcalloc(1, sizeof(*c));

    *c = (struct writable_check){.all = s->all,
                                 .session_id = s->record.session_id,
                                 .workers = xcalloc(s->n_targets, sizeof(*c->workers)),
                                 .dirs = xcalloc(s->n_targets, sizeof(*c->dirs)),
                                 .can_write = xcalloc(s->n_targets, sizeof(*c->can_write)),
                                 .n = s->n_targets};
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        worker_init(&c->workers[i]);
        if (!target_engine(t)->takes_output_dir || !t->record.trace_dir || t->worker.pid == 0)
            continue;
        c->workers[i].local = t->worker.local;
        c->workers[i].pid = t->worker.pid;
        c->workers[i].uid = t->worker.uid;
        c->dirs[i] = xstrdup(t->worker.place.local_dir ? t->worker.place.local_dir : t->record.trace_dir);
    }
    session_timer(s, mono_ns() + PREPARE_MAX_NS, on_no_answer);
    offload_run_in(s->all->offload, lane_of(c), check_writable, on_writable_checked, c);
}
