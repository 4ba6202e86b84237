/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/snapshot.h"

#include "base/alloc.h"
#include <errno.h>

struct snapshot_job {
    struct answer_body answer; /* empty: the statistics are in files */
    char *dir, *server, *note, *remedy;
    uid_t uid;
    int64_t asked_at;
    struct function_list *list;
    char *source;
    struct problem problem;
    void (*done)(struct snapshot *s, void *arg);
    void *arg;
};

static void snapshot_read_answer(struct snapshot_job *g)
{
    if (g->answer.cut) {
        problem_set(&g->problem, -EFBIG, PROBLEM_TOO_LARGE,
                    "GET " SNAPSHOT_PATH " answered with more than %d MiB", SNAPSHOT_BYTES_MAX >> 20);
    } else if (yappi_table_parse(g->answer.text, g->answer.size, &g->list) < 0) {
        problem_set(&g->problem, -EBADMSG, PROBLEM_UPSTREAM,
                    "GET " SNAPSHOT_PATH " answered with something that is no table of yappi's");
        problem_remedy(&g->problem, "Is this a server of NeMo Gym, started with +profiling_enabled=true?");
    } else {
        g->source = xstrdup(SNAPSHOT_PATH);
    }
}

static void snapshot_read_files(struct snapshot_job *g)
{
    const struct profile_source source = {
        .dir = g->dir, .server = g->server, .uid = g->uid, .not_before = g->asked_at};

    if (g->dir) {
        profile_files_read(&source, &g->list, &g->source, &g->problem);
        return;
    }
    problem_set(&g->problem, -ENOENT, PROBLEM_NOT_FOUND,
                "this NeMo Gym writes its statistics into files of its own host: %s",
                g->note ? g->note : "where is not known");
    problem_remedy(&g->problem, "%s",
                   g->remedy ? g->remedy
                             : "Name the directory: --trace-dir DIR, or trace_dir= in [worker "
                               "URL] of profd.conf, as profd can open it.");
}

static void snapshot_work(void *arg)
{
    struct snapshot_job *g = arg;

    if (g->answer.size > 0)
        snapshot_read_answer(g);
    else
        snapshot_read_files(g);
}

static void snapshot_on_read(void *arg)
{
    struct snapshot_job *g = arg;
    struct snapshot s = {.list = g->list, .source = g->source, .problem = g->list ? NULL : &g->problem};

    answer_body_done(&g->answer);
    g->done(&s, g->arg);
    function_list_free(s.list);
    free(g->dir);
    free(g->server);
    free(g->note);
    free(g->remedy);
    free(g->source);
    problem_done(&g->problem);
    free(g);
}

void snapshot_read(struct offload *offload, const struct worker *w, const struct call_result *result,
                   int64_t asked_at, void (*done)(struct snapshot *s, void *arg), void *arg)
{
    struct snapshot_job *g = xcalloc(1, sizeof(*g));

    *g = (struct snapshot_job){
        .answer = result ? call_result_take(result) : (struct answer_body){0},
        .dir = xstrdup(w->location.local_dir),
        .server = xstrdup(w->model),
        .note = xstrdup(w->location.note),
        .remedy = xstrdup(w->location.remedy),
        .uid = w->pid > 0 ? w->uid : UID_UNKNOWN,
        .asked_at = w->local ? asked_at : 0, /* the clock of another host may differ */
        .done = done,
        .arg = arg,
    };
    /* An answer holds memory that others wait for: it does not wait for a file system. */
    bool reads_files = g->answer.size == 0 && g->dir;
    offload_run_in(offload, reads_files ? offload_queue_of_dir(g->dir) : OFFLOAD_NO_QUEUE, snapshot_work,
                   snapshot_on_read, g);
}
